//! `${VAR}` and `${VAR:-default}` in the values of a job file. `$${` stands for a plain `${`.

use super::node::{Node, Value};
use haul_model::{Environment, Error, ErrorKind, Result, nearest};

/// Puts variables in place, everywhere in a tree but in keys.
///
/// # Errors
/// `Config`: a variable that is not set, or a bracket that is not closed.
pub fn substitute(node: &mut Node, env: &Environment) -> Result<()> {
    match &mut node.value {
        Value::Text(text) => {
            if text.contains("${") {
                *text = filled(text, env).map_err(|e| e.line(node.line))?;
            }
            Ok(())
        }
        Value::List(items) => items.iter_mut().try_for_each(|item| substitute(item, env)),
        Value::Map(pairs) => pairs.iter_mut().try_for_each(|(_, value)| substitute(value, env)),
        Value::Null => Ok(()),
    }
}

fn filled(text: &str, env: &Environment) -> Result<String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        let (before, inside) = (&rest[..at], &rest[at + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = inside;
            continue;
        }
        out.push_str(before);
        let end = inside
            .find('}')
            .ok_or_else(|| Error::new(ErrorKind::Config, "\"${\" without a closing \"}\"").hint("write $${ for a plain ${"))?;
        let (name, default) = match inside[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inside[..end], None),
        };
        match env.var(name).or(default) {
            Some(value) => out.push_str(value),
            None => return Err(missing(name, env)),
        }
        rest = &inside[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn missing(name: &str, env: &Environment) -> Error {
    let error = Error::new(ErrorKind::Config, format!("the environment variable {name} is not set"));
    match nearest(name, env.vars.keys().map(String::as_str)) {
        Some(near) if near != name => error.hint(format!("did you mean ${{{near}}}?")),
        _ => error.hint(format!("set it, or give a default: ${{{name}:-value}}")),
    }
}

//! From the streams of a file to single copies: patterns are looked up, templates filled, the order of foreign keys found.

use super::place::{Place, has_tables};
use crate::args::Given;
use crate::job::{Side, end};
use crate::jobfile::{JobFile, Stream};
use haul_model::{Catalog, Endpoint, Environment, Error, ErrorKind, Object, Result, matches_pattern};
use std::collections::HashMap;

/// One copy of a job.
pub struct Item {
    /// For messages.
    pub name: String,
    pub from: Endpoint,
    pub to: Endpoint,
    pub settings: Given,
    pub defaults: Given,
    /// The catalog that it is read through.
    pub catalog: Option<usize>,
    /// Bytes as they are stored, as far as that is known.
    pub bytes: u64,
    /// Items that must have ended well before.
    pub waits_for: Vec<usize>,
}

/// All copies of a job.
pub struct Items {
    pub items: Vec<Item>,
    /// Source systems, each with one instant for all of its items.
    pub catalogs: Vec<Box<dyn Catalog>>,
    pub notes: Vec<String>,
}

/// Catalogs by the system that they are of.
#[derive(Default)]
struct Catalogs {
    numbers: HashMap<String, Option<usize>>,
    all: Vec<(Box<dyn Catalog>, Vec<Object>)>,
}

impl Catalogs {
    /// The catalog of the system that a place is in; connected once.
    fn of(&mut self, place: &Place, env: &Environment) -> Result<Option<usize>> {
        let connector = place.connector()?;
        if !has_tables(connector) {
            return Ok(None);
        }
        let system = place.system();
        let known = end(system.clone(), Side::Source, &Vec::new(), &mut Vec::new(), &mut Vec::new())?;
        // Another role may see other rows.
        let role = system.address.rsplit_once('@').map(|(user, _)| user.split(':').next().unwrap_or_default().to_string());
        let role = role.or_else(|| known.settings.text("user").map(str::to_string)).unwrap_or_default();
        let key = format!("{role}@{}", connector.identity(&system, &known.settings, env)?);
        if let Some(number) = self.numbers.get(&key) {
            return Ok(*number);
        }
        let number = connector.catalog(&system, env)?.map(|catalog| {
            self.all.push((catalog, Vec::new()));
            self.all.len() - 1
        });
        self.numbers.insert(key, number);
        Ok(number)
    }
}

/// Looks up what the streams mean, and fixes the instant of every source.
///
/// # Errors
/// `Config` with the line of the stream; connection.
pub fn expand(file: &JobFile, select: &[String], env: &Environment) -> Result<Items> {
    let mut catalogs = Catalogs::default();
    let (mut items, mut notes) = (Vec::new(), Vec::new());
    for stream in &file.streams {
        let found = of_stream(stream, file, &mut catalogs, env).map_err(|e| in_file(e, file, stream))?;
        if found.is_empty() {
            notes.push(format!("{}:{}: no table of {} is meant", file.path, stream.line, stream.from));
        }
        for (item, object) in found {
            let names = [Some(&item.name), stream.name.as_ref()].into_iter().flatten().cloned();
            let named: Vec<Object> = names.map(|name| Object { schema: None, name, bytes: 0 }).chain(object.clone()).collect();
            if select.is_empty() || select.iter().any(|pattern| named.iter().any(|n| n.name == *pattern || matches_pattern(pattern, n))) {
                if let (Some(object), Some(number)) = (object, item.catalog) {
                    catalogs.all[number].1.push(object);
                }
                items.push(item);
            }
        }
    }
    if items.is_empty() {
        let what = if select.is_empty() { "no stream means a table" } else { "--select means no stream" };
        let error = Error::new(ErrorKind::Config, format!("there is nothing to copy: {what}")).object(&file.path);
        return Err(error.hint("haul run JOB.yaml --dry-run shows what the streams mean"));
    }
    targets_differ(&items, file)?;
    notes.extend(order(&mut items, file, &mut catalogs, env)?);
    let mut held = Vec::new();
    for (catalog, objects) in catalogs.all {
        // The ones that are only written to have nothing to hold.
        if items.iter().any(|item| item.catalog == Some(held.len())) {
            catalog.hold(&objects)?;
        }
        held.push(catalog);
    }
    Ok(Items { items, catalogs: held, notes })
}

fn in_file(error: Error, file: &JobFile, stream: &Stream) -> Error {
    if error.place().object.is_some() || !error.kind().is_usage() {
        return error.context(format_args!("{}:{}", file.path, stream.line));
    }
    error.object(&file.path).line(stream.line)
}

fn of_stream(stream: &Stream, file: &JobFile, catalogs: &mut Catalogs, env: &Environment) -> Result<Vec<(Item, Option<Object>)>> {
    let from = Place::parse(&stream.from, &file.connections)?;
    let to = Place::parse(&stream.to, &file.connections)?;
    let catalog = catalogs.of(&from, env)?;
    let label = |name: &str| match &from.connection {
        Some(connection) => format!("{connection}:{name}"),
        None => name.to_string(),
    };
    let item = |name: String, endpoint: Endpoint, object: Option<&Object>| -> Result<Item> {
        let mut endpoint = endpoint;
        endpoint.suffixes.extend(stream.transforms.iter().cloned());
        let mut target = to.target_of(object)?;
        let makes_folders = to.connector()?.spec().sink.iter().any(|setting| setting.name == "mkdir");
        if makes_folders && ["{schema}", "{table}"].iter().any(|word| stream.to.contains(word)) {
            // A file that is named after its table may be the first of its schema.
            target.query.insert(0, ("mkdir".into(), "true".into()));
        }
        Ok(Item {
            name,
            from: endpoint,
            to: target,
            settings: stream.settings.clone(),
            defaults: stream.defaults.clone(),
            catalog,
            bytes: object.map_or(0, |o| o.bytes),
            waits_for: Vec::new(),
        })
    };
    let (Some(number), Some(pattern)) = (catalog, from.pattern()) else {
        if !stream.include.is_empty() || !stream.exclude.is_empty() {
            return Err(Error::new(ErrorKind::Config, "include and exclude choose among the tables of a pattern, and there is none"));
        }
        let (endpoint, name) = match &from.object {
            Some(object) => (from.at(&object.address)?, label(&object.address)),
            None => (from.base.clone(), stream.from.clone()),
        };
        let name = stream.name.clone().unwrap_or_else(|| if from.connection.is_some() { name } else { endpoint.redacted() });
        return Ok(vec![(item(name, endpoint, None)?, None)]);
    };
    let objects = catalogs.all[number].0.find(pattern)?;
    let meant = |patterns: &[String], object: &Object| patterns.iter().any(|p| matches_pattern(p, object));
    let chosen = objects.into_iter().filter(|o| (stream.include.is_empty() || meant(&stream.include, o)) && !meant(&stream.exclude, o));
    let connector = from.connector()?;
    let single = !pattern.contains(['*', '?']);
    chosen
        .map(|object| {
            let quoted = match &object.schema {
                Some(schema) => format!("{}.{}", connector.quoted(schema), connector.quoted(&object.name)),
                None => connector.quoted(&object.name),
            };
            let name = stream.name.clone().filter(|_| single).unwrap_or_else(|| label(&object.display()));
            Ok((item(name, from.at(&quoted)?, Some(&object))?, Some(object)))
        })
        .collect()
}

/// Two streams into one place would undo each other.
fn targets_differ(items: &[Item], file: &JobFile) -> Result<()> {
    let mut seen: HashMap<String, &Item> = HashMap::new();
    for item in items {
        if item.to.scheme == "stdio" {
            continue;
        }
        if let Some(other) = seen.insert(item.to.redacted(), item) {
            return Err(Error::new(
                ErrorKind::Config,
                format!("{} and {} are both written to {}", other.name, item.name, item.to.redacted()),
            )
            .object(&file.path)
            .hint("put {schema} and {table} into to:"));
        }
    }
    Ok(())
}

/// Rows that others refer to come first, where the target has foreign keys among its tables.
fn order(items: &mut [Item], file: &JobFile, catalogs: &mut Catalogs, env: &Environment) -> Result<Vec<String>> {
    let mut by_system: HashMap<usize, Vec<usize>> = HashMap::new();
    for (number, item) in items.iter().enumerate() {
        let place = Place { connection: None, base: item.to.clone(), object: None };
        if let (Some(system), Some(_)) = (catalogs.of(&place, env)?, place.pattern()) {
            by_system.entry(system).or_default().push(number);
        }
    }
    let mut notes = Vec::new();
    for (system, numbers) in by_system.into_iter().filter(|(_, numbers)| numbers.len() > 1) {
        let catalog = &catalogs.all[system].0;
        let references = catalog.references()?;
        if references.is_empty() {
            continue;
        }
        // A target that is not there yet refers to nothing.
        let found = |number: &usize| {
            let table = items[*number].to.get("table")?;
            let object = catalog.find(table).ok()?.into_iter().next()?;
            Some(((object.schema, object.name), *number))
        };
        let targets: HashMap<(Option<String>, String), usize> = numbers.iter().filter_map(found).collect();
        let number = |object: &Object| targets.get(&(object.schema.clone(), object.name.clone())).copied();
        for (child, parent) in references.iter().filter_map(|(child, parent)| Some((number(child)?, number(parent)?))) {
            if leads_to(items, parent, child) {
                notes.push(format!(
                    "{}: {} and {} refer to each other by foreign keys, so one of them is loaded before what it refers to",
                    file.path, items[child].name, items[parent].name
                ));
            } else if !items[child].waits_for.contains(&parent) {
                items[child].waits_for.push(parent);
            }
        }
    }
    Ok(notes)
}

/// Whether `from` waits, over however many steps, for `to`.
fn leads_to(items: &[Item], from: usize, to: usize) -> bool {
    let (mut todo, mut seen) = (vec![from], vec![false; items.len()]);
    while let Some(at) = todo.pop() {
        if at == to {
            return true;
        }
        if !std::mem::replace(&mut seen[at], true) {
            todo.extend(&items[at].waits_for);
        }
    }
    false
}

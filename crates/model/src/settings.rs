//! One name for one thing: a setting is the same as flag (`--split-key`), YAML key (`split_key`) and URI
//! query key (`?split_key=`). Specs are static slices; parsing, docs and completions walk them.

use crate::{Error, ErrorKind, Result};
use std::time::Duration;

/// What values a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true`/`false`, also `on`/`off`, `yes`/`no`, `1`/`0`; a bare flag means `true`.
    Bool,
    /// A whole number.
    Int,
    /// Any text.
    Text,
    /// One of these words, case-insensitive.
    Choice(&'static [&'static str]),
    /// A number of bytes: `64MiB`, `1g`, `4096`.
    Bytes,
    /// A time: `30s`, `5m`, `250ms`; a bare number is seconds; `0` = off.
    Duration,
    /// A path on this machine.
    Path,
    /// Names separated by commas.
    List,
    /// One character, or `\t`, `tab`, `none`.
    Char,
}

/// One setting of a connector, format or job.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// snake_case name: URI query key and YAML key; the flag has dashes.
    pub name: &'static str,
    /// Other spellings that are accepted.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub kind: Kind,
    /// The default, as text for the docs; empty = none.
    pub default: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
    /// Says how fast, over which way or with what output; never which rows come or what becomes of them. Not part of a job's identity.
    pub tuning: bool,
    /// What the flag means without a value, for a [`Kind::Choice`] that may stand alone.
    pub bare: Option<&'static str>,
}

impl Setting {
    /// A setting without aliases.
    pub const fn new(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Self {
        Self { name, aliases: &[], kind, default, doc, tuning: false, bare: None }
    }
    /// With other spellings.
    pub const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }
    /// One that can be changed between a run and its continuation.
    pub const fn tuning(mut self) -> Self {
        self.tuning = true;
        self
    }
    /// A choice that may stand alone, and what it means then.
    pub const fn bare(mut self, word: &'static str) -> Self {
        self.bare = Some(word);
        self
    }
    /// Whether `name` (any case of dash or underscore) means this setting.
    pub fn answers_to(&self, name: &str) -> bool {
        let name = name.replace('-', "_");
        self.name == name || self.aliases.iter().any(|a| *a == name)
    }

    /// Checks a value against the kind.
    ///
    /// # Errors
    /// `Config`, naming the setting and what it takes.
    pub fn check(&self, value: &str) -> Result<()> {
        let bad = |takes: &str| Err(Error::new(ErrorKind::Config, format!("setting {:?} takes {takes}, not {value:?}", self.name)));
        match self.kind {
            Kind::Bool if parse_bool(value).is_none() => bad("true or false"),
            Kind::Int if value.parse::<i64>().is_err() => bad("a whole number"),
            Kind::Bytes if parse_bytes(value).is_none() => bad("a number of bytes such as 64MiB"),
            Kind::Duration if parse_duration(value).is_none() => bad("a time such as 30s"),
            Kind::Choice(words) if !words.iter().any(|w| w.eq_ignore_ascii_case(value)) => bad(&format!("one of {}", words.join(", "))),
            Kind::Char if parse_char(value).is_none() => bad("one character (or \\t, tab, none)"),
            _ => Ok(()),
        }
    }
}

/// Settings that were given, checked against their specs.
/// `Debug` shows names only: a value may be a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(Vec<(&'static str, String)>);

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Settings {
    /// Checks `pairs` against `specs`. Later pairs win over earlier ones.
    ///
    /// # Errors
    /// `Config` for an unknown name (with the nearest valid one) or a value of the wrong kind.
    pub fn resolve<'a>(specs: &[&'static [Setting]], pairs: impl IntoIterator<Item = (&'a str, &'a str)>, of: &str) -> Result<Self> {
        let mut out = Self::default();
        for (name, value) in pairs {
            let Some(setting) = specs.iter().flat_map(|s| s.iter()).find(|s| s.answers_to(name)) else {
                let names = specs.iter().flat_map(|s| s.iter()).map(|s| s.name);
                let error = Error::new(ErrorKind::Config, format!("unknown setting {name:?} for {of}"));
                return Err(match nearest(name, names) {
                    Some(near) => error.hint(format!("did you mean {near:?}?")),
                    None => error.hint(format!("`haul connectors {of}` lists its settings")),
                });
            };
            setting.check(value)?;
            out.set(setting.name, value);
        }
        Ok(out)
    }

    /// Sets a value (checked elsewhere).
    pub fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.retain(|(n, _)| *n != name);
        self.0.push((name, value.into()));
    }
    /// Forgets a value.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(n, _)| *n != name);
    }
    /// The value as it was given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str())
    }
    /// Whether a value was given.
    pub fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }
    /// A boolean.
    pub fn flag(&self, name: &str, default: bool) -> bool {
        self.text(name).and_then(parse_bool).unwrap_or(default)
    }
    /// A whole number.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }
    /// A number of bytes.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        parse_bytes(self.text(name)?)
    }
    /// A time; `None` when not given.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        parse_duration(self.text(name)?)
    }
    /// A choice, in lower case.
    pub fn choice(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_ascii_lowercase)
    }
    /// A list of names. `"a,b"` in double quotes is one name.
    pub fn list(&self, name: &str) -> Option<Vec<String>> {
        self.text(name).map(split_list)
    }
    /// One byte; `Some(None)` for `none`.
    pub fn char(&self, name: &str) -> Option<Option<u8>> {
        parse_char(self.text(name)?)
    }
    /// All names and values given.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(n, v)| (*n, v.as_str()))
    }
}

fn split_list(text: &str) -> Vec<String> {
    let (mut out, mut item, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                item.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => out.push(std::mem::take(&mut item)),
            c => item.push(c),
        }
    }
    out.push(item);
    out.into_iter().map(|i| i.trim().to_string()).filter(|i| !i.is_empty()).collect()
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" | "" => Some(true),
        "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

fn parse_char(text: &str) -> Option<Option<u8>> {
    match text {
        "none" | "" => Some(None),
        "\\t" | "tab" => Some(Some(b'\t')),
        _ => match text.as_bytes() {
            [c] => Some(Some(*c)),
            _ => None,
        },
    }
}

/// `4096`, `64k`, `64KiB`, `1.5g`: powers of 1024. `None` when it is not a size.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift);
    }
    let fraction: f64 = number.parse().ok()?;
    Some((fraction * (1u64 << shift) as f64) as u64)
}

/// `30s`, `5m`, `250ms`, `2h`, `10` (seconds). `None` when it is not a time.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let scale = match unit.trim() {
        "ms" => 0.001,
        "" | "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * scale).ok()
}

/// The name that `given` was most likely meant to be, if any is near enough.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.replace('-', "_").to_lowercase();
    names
        .into_iter()
        .map(|name| (distance(&given, &name.to_lowercase()), name))
        .min_by_key(|(d, _)| *d)
        .filter(|(d, name)| *d <= 1 + name.len().max(given.len()) / 4)
        .map(|(_, name)| name)
}

/// Damerau-Levenshtein (optimal string alignment) distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &[Setting] = &[
        Setting::new("split_key", Kind::Text, "", "").alias(&["key_column"]),
        Setting::new("degree", Kind::Int, "0", ""),
        Setting::new("mode", Kind::Choice(&["append", "replace"]), "append", ""),
    ];

    #[test]
    fn unknown_setting_names_the_nearest() {
        let error = Settings::resolve(&[SPEC], [("split_kye", "id")], "postgres").unwrap_err();
        assert_eq!(error.to_string(), "unknown setting \"split_kye\" for postgres");
        assert_eq!(error.hint_text(), Some("did you mean \"split_key\"?"));
    }

    #[test]
    fn aliases_dashes_and_kinds() {
        let s = Settings::resolve(&[SPEC], [("key-column", "id"), ("degree", "4"), ("mode", "REPLACE")], "x").unwrap();
        assert_eq!((s.text("split_key"), s.int("degree"), s.choice("mode").as_deref()), (Some("id"), Some(4), Some("replace")));
        assert!(Settings::resolve(&[SPEC], [("degree", "many")], "x").unwrap_err().to_string().contains("a whole number"));
        assert!(Settings::resolve(&[SPEC], [("mode", "upsret")], "x").unwrap_err().to_string().contains("one of append, replace"));
    }

    #[test]
    fn sizes_times_and_lists() {
        assert_eq!(parse_bytes("64MiB"), Some(64 << 20));
        assert_eq!(parse_bytes("1.5k"), Some(1536));
        assert_eq!(parse_bytes("12 apples"), None);
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_duration("2h"), Some(Duration::from_secs(7200)));
        assert_eq!(split_list("a, \"b,c\",\"d\"\"e\""), ["a", "b,c", "d\"e"]);
    }
}

//! Where to read or write: a URI, a plain path, or `-`.
//!
//! `scheme://authority/path?key=value&key=value|suffix?key=value`. Query values are percent-decoded; `+` stays a
//! plus sign (these are not HTML forms). A plain path may carry a query too, if what follows its last
//! `?` looks like one (`out.data?format=csv`).

use crate::{Error, ErrorKind, Result};

/// A step behind the address: `|transform?schema_file=x.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suffix {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub query: Vec<(String, String)>,
}

/// A parsed endpoint. `Debug` and [`Endpoint::redacted`] hide secrets; `address` does not.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The scheme in lower case; `file` for paths, `stdio` for `-`.
    pub scheme: String,
    /// What stands between `://` and `?`, as written (may hold a password); the path itself for plain paths.
    pub address: String,
    /// Whether it was written as a URI (then `address` is percent-encoded).
    pub is_uri: bool,
    /// Query settings in order, decoded.
    pub query: Vec<(String, String)>,
    /// Steps behind it.
    pub suffixes: Vec<Suffix>,
}

const SECRET_KEYS: &[&str] = &["password", "sslpassword", "passfile_password", "secret", "token"];

impl Endpoint {
    /// Parses what the user typed.
    ///
    /// # Errors
    /// `Config`: empty, a broken percent escape, or a query without `=`.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::new(ErrorKind::Config, "an empty FROM or TO")
                .hint("give a path, a URI such as postgres://host/db?table=t, or - for a pipe"));
        }
        let (text, suffixes) = split_suffixes(text)?;
        if text == "-" || text.starts_with("-?") {
            let query = text.strip_prefix("-?").map(parse_query).transpose()?.unwrap_or_default();
            return Ok(Self { scheme: "stdio".into(), address: "-".into(), is_uri: false, query, suffixes });
        }
        if let Some((scheme, rest)) = text.split_once("://")
            && !scheme.is_empty()
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        {
            let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
            return Ok(Self {
                scheme: scheme.to_ascii_lowercase(),
                address: address.into(),
                is_uri: true,
                query: parse_query(query)?,
                suffixes,
            });
        }
        let (path, query) = match text.rsplit_once('?') {
            Some((path, query)) if looks_like_query(query) => (path, parse_query(query)?),
            _ => (text, Vec::new()),
        };
        Ok(Self { scheme: "file".into(), address: path.into(), is_uri: false, query, suffixes })
    }

    /// The file path of a `file` endpoint.
    ///
    /// # Errors
    /// `Config`: a broken escape, or a host other than localhost.
    pub fn path(&self) -> Result<String> {
        if !self.is_uri {
            return Ok(self.address.clone());
        }
        let rest = self.address.strip_prefix("localhost/").map_or(self.address.clone(), |p| format!("/{p}"));
        percent_decode(&rest)
    }

    /// A query value by name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.query.iter().rev().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// As text without secrets, for messages, plans and results.
    pub fn redacted(&self) -> String {
        let mut out = match self.scheme.as_str() {
            "stdio" => "-".to_string(),
            _ if !self.is_uri => self.address.clone(),
            scheme => format!("{scheme}://{}", redact_userinfo(&self.address)),
        };
        for (i, (key, value)) in self.query.iter().enumerate() {
            out.push(if i == 0 { '?' } else { '&' });
            let secret = SECRET_KEYS.iter().any(|s| key.eq_ignore_ascii_case(s));
            out.push_str(&format!("{key}={}", if secret { "***" } else { value }));
        }
        out
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({})", self.redacted())
    }
}

/// The last `@` ends the user info, so that an unencoded one in a password is not printed either.
fn redact_userinfo(address: &str) -> String {
    match address.rsplit_once('@') {
        Some((info, host)) => match info.split_once(':') {
            Some((user, _)) => format!("{user}:***@{host}"),
            None => format!("{info}@{host}"),
        },
        None => address.to_string(),
    }
}

/// Cuts `|name?query` steps off the end. A `|` that is not followed by a name stays part of the address.
fn split_suffixes(text: &str) -> Result<(&str, Vec<Suffix>)> {
    let mut suffixes = Vec::new();
    let mut rest = text;
    while let Some((before, step)) = rest.rsplit_once('|') {
        let (name, query) = step.split_once('?').unwrap_or((step, ""));
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') || before.is_empty() {
            break;
        }
        suffixes.insert(0, Suffix { name: name.to_string(), query: parse_query(query)? });
        rest = before;
    }
    Ok((rest, suffixes))
}

fn looks_like_query(text: &str) -> bool {
    let key = text.split(['=', '&']).next().unwrap_or("");
    text.contains('=') && !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn parse_query(text: &str) -> Result<Vec<(String, String)>> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, "true"));
            Ok((percent_decode(key)?, percent_decode(value)?))
        })
        .collect()
}

/// Decodes `%41`. Nothing else is special.
///
/// # Errors
/// `Config`: `%` without two hex digits, or bytes that are not UTF-8. The text itself is not repeated (it may be a secret).
pub fn percent_decode(text: &str) -> Result<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] != b'%' {
            out.push(bytes[i]);
            i += 1;
            continue;
        }
        let hex = bytes.get(i + 1..i + 3).and_then(|h| std::str::from_utf8(h).ok()).and_then(|h| u8::from_str_radix(h, 16).ok());
        let Some(byte) = hex else {
            return Err(Error::new(ErrorKind::Config, "a '%' in a URI that is not followed by two hex digits")
                .hint("write a literal percent sign as %25"));
        };
        out.push(byte);
        i += 3;
    }
    String::from_utf8(out).map_err(|_| Error::new(ErrorKind::Config, "a percent-encoded part of a URI is not UTF-8"))
}

/// Encodes everything but unreserved characters.
pub fn percent_encode(text: &str) -> String {
    encode(text, b"-._~")
}

/// As [`percent_encode`], for a path: slashes stay.
pub fn percent_encode_path(text: &str) -> String {
    encode(text, b"-._~/")
}

fn encode(text: &str, plain: &[u8]) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::new(), |mut out, b| {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => out.push(b as char),
            b if plain.contains(&b) => out.push(b as char),
            b => write!(out, "%{b:02X}").unwrap_or(()),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_uris_pipes_and_suffixes() {
        let e = Endpoint::parse("file:///data/out.jsonl?format=raw|transform?schema_file=bench.json").unwrap();
        assert_eq!((e.scheme.as_str(), e.path().unwrap().as_str(), e.get("format")), ("file", "/data/out.jsonl", Some("raw")));
        assert_eq!(e.suffixes, [Suffix { name: "transform".into(), query: vec![("schema_file".into(), "bench.json".into())] }]);
        assert_eq!(Endpoint::parse("-?format=csv").unwrap().get("format"), Some("csv"));
        assert_eq!(Endpoint::parse("what?.csv").unwrap().address, "what?.csv");
        assert_eq!(Endpoint::parse("a.dat?format=csv").unwrap().address, "a.dat");
    }

    #[test]
    fn secrets_are_hidden() {
        let e = Endpoint::parse("postgres://u%40x:p%40@:/#@h:5432/d?password=x&table=t").unwrap();
        assert_eq!(e.redacted(), "postgres://u%40x:***@h:5432/d?password=***&table=t");
        assert!(!format!("{e:?}").contains("p%40"));
    }

    #[test]
    fn plus_is_not_a_space() {
        assert_eq!(percent_decode("a+b%2Bc%20d").unwrap(), "a+b+c d");
        assert!(percent_decode("50%").unwrap_err().hint_text().unwrap().contains("%25"));
        let all: String = (1u8..128).map(char::from).chain(['é', '€']).collect();
        assert_eq!(percent_decode(&percent_encode(&all)).unwrap(), all);
    }
}

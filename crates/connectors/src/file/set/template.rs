//! Names of the files of a set: `{schema}.{table}/{table}_{lane:04}_{part:04}.parquet`.

use haul_model::{Error, ErrorKind, Result, nearest};
use std::fmt::Write;

/// Where the rows come from, for names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Schema of the table, where there is one.
    pub schema: Option<String>,
    /// Table, or the file's name without its extension.
    pub table: String,
    /// The run's id.
    pub run: String,
}

const WORDS: &[&str] = &["schema", "table", "lane", "part", "run"];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Schema,
    Table,
    Run,
    /// With leading zeros up to this width.
    Lane(usize),
    Part(usize),
}

/// A path with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

/// A template of which only the numbers are open, split into the set's root and the names below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Ends in `/`, or is empty: here.
    pub root: String,
    /// As it was written, for the manifest.
    pub text: String,
    pieces: Vec<Piece>,
}

/// Whether a path is meant as a template.
pub fn is_template(path: &str) -> bool {
    path.contains('{')
}

impl Template {
    /// Parses a path; `{{` stands for a brace.
    ///
    /// # Errors
    /// `Config`: an unknown placeholder, with the nearest one, or a brace that is not closed.
    pub fn parse(path: &str) -> Result<Self> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = path;
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let from = &rest[at..];
            if from.starts_with("{{") || from.starts_with("}}") {
                text.push_str(&from[..1]);
                rest = &from[2..];
                continue;
            }
            let Some((word, after)) = from.strip_prefix('{').and_then(|inner| inner.split_once('}')) else {
                return Err(Error::new(ErrorKind::Config, "a brace in a path that is not one of a pair")
                    .object(path)
                    .hint("write {{ for a brace itself"));
            };
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(placeholder(word, path)?);
            rest = after;
        }
        text.push_str(rest);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(Self { pieces })
    }

    /// Whether it names one file only.
    pub fn is_one_file(&self) -> bool {
        !self.pieces.iter().any(|piece| matches!(piece, Piece::Lane(_) | Piece::Part(_)))
    }

    /// Puts the names of the source in.
    ///
    /// # Errors
    /// `Config`: `{schema}` without a schema.
    pub fn resolve(&self, origin: &Origin, text: &str) -> Result<Names> {
        let mut pieces: Vec<Piece> = Vec::new();
        for piece in &self.pieces {
            let word = match piece {
                Piece::Text(text) => text.clone(),
                Piece::Table => file_name(&origin.table),
                Piece::Run => file_name(&origin.run),
                Piece::Schema => match &origin.schema {
                    Some(schema) => file_name(schema),
                    None => {
                        return Err(Error::new(ErrorKind::Config, "the source has no schema to put in place of {schema}")
                            .object(text)
                            .hint("leave {schema} out of the path"));
                    }
                },
                open => {
                    pieces.push(open.clone());
                    continue;
                }
            };
            match pieces.last_mut() {
                Some(Piece::Text(before)) => before.push_str(&word),
                _ => pieces.push(Piece::Text(word)),
            }
        }
        let mut root = String::new();
        if let Some(Piece::Text(first)) = pieces.first_mut()
            && let Some(slash) = first.rfind('/')
        {
            root = first[..=slash].to_string();
            *first = first[slash + 1..].to_string();
        }
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Ok(Names { root, text: text.to_string(), pieces })
    }
}

/// A name as a part of a path: nothing in it leads elsewhere, and it is not hidden.
fn file_name(name: &str) -> String {
    let hides = name.starts_with(['.', '_']);
    let mut out = String::with_capacity(name.len());
    for (at, c) in name.chars().enumerate() {
        if c == '/' || c == '%' || c.is_control() || hides && at == 0 {
            for byte in c.to_string().bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn placeholder(word: &str, path: &str) -> Result<Piece> {
    let (name, width) = word.split_once(':').map_or((word, None), |(name, width)| (name, Some(width)));
    let bad = |told: String, hint: String| Err(Error::new(ErrorKind::Config, told).object(path).hint(hint));
    let digits = match width {
        None => 1,
        Some(width) => match width.parse::<usize>() {
            Ok(n @ 1..=18) if matches!(name, "lane" | "part") => n,
            _ => {
                return bad(
                    format!("the width {width:?} of {{{word}}} cannot be read"),
                    "{lane:04} and {part:04} are numbers of four digits".into(),
                );
            }
        },
    };
    Ok(match name {
        "schema" => Piece::Schema,
        "table" => Piece::Table,
        "run" => Piece::Run,
        "lane" => Piece::Lane(digits),
        "part" => Piece::Part(digits),
        _ => {
            let known = WORDS.iter().map(|w| format!("{{{w}}}")).collect::<Vec<_>>().join(", ");
            return match nearest(name, WORDS.iter().copied()) {
                Some(near) => bad(format!("the unknown placeholder {{{word}}}"), format!("did you mean {{{near}}}? There are {known}")),
                None => bad(format!("the unknown placeholder {{{word}}}"), format!("there are {known}; write {{{{ for a brace itself")),
            };
        }
    })
}

impl Names {
    /// Whether each lane has names of its own.
    pub fn by_lane(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Lane(_)))
    }

    /// Whether there can be several files of a lane.
    pub fn by_part(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Part(_)))
    }

    /// A file's path below the root.
    pub fn path(&self, folder: &str, lane: u32, part: u32) -> String {
        let mut out = folder.to_string();
        for piece in &self.pieces {
            let _ = match piece {
                Piece::Text(text) => out.write_str(text),
                Piece::Lane(width) => write!(out, "{lane:0width$}"),
                Piece::Part(width) => write!(out, "{part:0width$}"),
                Piece::Schema | Piece::Table | Piece::Run => Ok(()),
            };
        }
        out
    }

    /// Whether a path below the root is one of the set's, whatever its numbers and partition folders.
    pub fn is_one_of_them(&self, path: &str) -> bool {
        let mut rest = path;
        while let Some((folder, below)) = rest.split_once('/').filter(|(folder, _)| folder.contains('=')) {
            debug_assert!(!folder.is_empty());
            rest = below;
        }
        for piece in &self.pieces {
            rest = match piece {
                Piece::Text(text) => match rest.strip_prefix(text.as_str()) {
                    Some(rest) => rest,
                    None => return false,
                },
                _ => {
                    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                    if digits == 0 {
                        return false;
                    }
                    &rest[digits..]
                }
            };
        }
        rest.is_empty()
    }
}

/// What a source's name (`public.orders`, `in/orders-*.csv.gz`) says of schema and table.
pub fn origin(source: &str, run: &str) -> Origin {
    let run = run.to_string();
    let has_extension = haul_formats::by_extension(haul_formats::compression::Compression::by_extension(source).1).is_some();
    let is_file = !source.contains('"') && (source.contains('/') || has_extension);
    if !is_file {
        let names = sql_names(source);
        if let [schema, table] = names.as_slice() {
            return Origin { schema: Some(schema.clone()), table: table.clone(), run };
        }
    }
    let parts = source.split('/').rev().filter(|part| !part.is_empty());
    let stems = parts.map(|part| {
        let stem = part.split('.').next().unwrap_or_default();
        let stem: String = stem.chars().filter(|c| !"*?[]{}".contains(*c)).collect();
        stem.trim_matches(|c: char| c.is_whitespace() || "-_=".contains(c)).replace(' ', "_")
    });
    let table = stems.into_iter().find(|stem| !stem.is_empty()).unwrap_or_else(|| "data".to_string());
    Origin { schema: None, table, run }
}

/// `a."b.c"` as its names.
fn sql_names(text: &str) -> Vec<String> {
    let (mut names, mut name, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                name.push('"');
            }
            '"' => quoted = !quoted,
            '.' if !quoted => names.push(std::mem::take(&mut name)),
            c => name.push(c),
        }
    }
    names.push(name);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, source: &str) -> Names {
        Template::parse(text).unwrap().resolve(&origin(source, "r1"), text).unwrap()
    }

    #[test]
    fn names_of_a_set() {
        let n = names("out/{schema}.{table}/{table}_{lane:04}_{part:04}.parquet", "public.orders");
        assert_eq!((n.root.as_str(), n.path("", 3, 12).as_str()), ("out/public.orders/", "orders_0003_0012.parquet"));
        assert_eq!(n.path("c=DE/", 0, 0), "c=DE/orders_0000_0000.parquet");
        for (path, is) in [
            ("orders_0003_0012.parquet", true),
            ("c=DE/d=1/orders_7_100000.parquet", true),
            ("orders_0003_.parquet", false),
            ("x/orders_0003_0012.parquet", false),
            ("orders_0003_0012.parquet.bak", false),
            ("other_0003_0012.parquet", false),
        ] {
            assert_eq!(n.is_one_of_them(path), is, "{path}");
        }
        let n = names("{{x}}/{run}/p{part}.csv", "public.orders");
        assert_eq!((n.root.as_str(), n.path("", 3, 12).as_str()), ("{x}/r1/", "p12.csv"));
        assert_eq!(names("{lane}/{part}.csv", "t").path("", 1, 2), "1/2.csv");
        let odd = names("{table}_{part}.csv", "\"a.b\".\"_x/y\"");
        assert_eq!(odd.path("", 0, 0), "%5Fx%2Fy_0.csv");
    }

    #[test]
    fn where_rows_come_from() {
        let told = |source: &str| (origin(source, "").schema, origin(source, "").table);
        assert_eq!(told("public.orders"), (Some("public".into()), "orders".into()));
        assert_eq!(told("in/orders-*.csv.gz"), (None, "orders".into()));
        assert_eq!(told("orders.csv"), (None, "orders".into()));
        assert_eq!(told("lake/orders/*.parquet"), (None, "orders".into()));
        assert_eq!(told("standard input"), (None, "standard_input".into()));
        assert_eq!(told("*.csv"), (None, "data".into()));
    }

    #[test]
    fn refused_templates() {
        let told = |text: &str| Template::parse(text).unwrap_err();
        assert!(told("{tabel}.csv").hint_text().unwrap().contains("{table}"));
        assert!(told("{part:x}.csv").to_string().contains("the width \"x\""));
        assert!(told("a}b").to_string().contains("not one of a pair"));
        let error = Template::parse("{schema}/x").unwrap().resolve(&origin("a.csv", ""), "t").unwrap_err();
        assert!(error.to_string().contains("no schema"));
    }
}

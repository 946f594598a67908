//! What a split reads, as text and as SQL.
//!
//! The text is stored between runs, so it holds names and values, never SQL to be run: conditions are made from it anew, with every
//! name and value quoted.

use super::key::Key;
use crate::postgres::catalog::{PgColumn, quote_ident};
use haul_model::{Error, ErrorKind, Result};
use std::fmt::{Display, Formatter};

/// What a split reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::postgres) enum Part {
    /// Everything, through the relation that the user named (or the query).
    All,
    /// One table of the tree, whole: `"schema"."name"`.
    Table(String),
    /// Pages `[from, to)` of one table; without an end to its last page.
    Pages(String, u64, Option<u64>),
    /// Keys in `[from, to)`; open where nothing is said. Never NULL.
    Range {
        /// Column.
        key: String,
        /// Inclusive, as the server prints it.
        from: Option<String>,
        /// Exclusive.
        to: Option<String>,
    },
    /// Keys in one of these ranges, both ends inclusive.
    Ranges(String, Vec<(String, String)>),
    /// Keys that are NULL.
    Null(String),
    /// Rows whose keys have this hash; NULL alone counts as 0.
    Hash {
        /// Columns.
        keys: Vec<String>,
        /// From 0.
        part: u64,
        /// How many parts there are.
        of: u64,
    },
    /// Rows whose keys are these values.
    Values(Vec<(String, Option<String>)>),
    /// Rows whose keys are none of these.
    Rest(Vec<String>, Vec<Vec<Option<String>>>),
}

/// Text in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().collect::<Vec<_>>().join(", ")
}

fn value(value: Option<&String>) -> String {
    value.map_or_else(|| "null".to_string(), |text| quoted(text))
}

impl Display for Part {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let names = |keys: &[String]| list(keys.iter().map(|key| quote_ident(key)));
        match self {
            Self::All => f.write_str("all"),
            Self::Table(sql) => f.write_str(sql),
            Self::Pages(sql, from, Some(to)) => write!(f, "{sql} pages {from}-{to}"),
            Self::Pages(sql, from, None) => write!(f, "{sql} pages {from}-"),
            Self::Range { key, from, to } => {
                write!(f, "key {}", quote_ident(key))?;
                from.iter().try_for_each(|from| write!(f, " from {}", quoted(from)))?;
                to.iter().try_for_each(|to| write!(f, " to {}", quoted(to)))
            }
            Self::Ranges(key, ranges) => {
                let range = |(from, to): &(String, String)| format!("({}, {})", quoted(from), quoted(to));
                write!(f, "key {} in {}", quote_ident(key), list(ranges.iter().map(range)))
            }
            Self::Null(key) => write!(f, "key {} null", quote_ident(key)),
            Self::Hash { keys, part, of } => write!(f, "hash {} {part} of {of}", names(keys)),
            Self::Values(values) => {
                write!(f, "values {}", list(values.iter().map(|(key, v)| format!("{} = {}", quote_ident(key), value(v.as_ref())))))
            }
            Self::Rest(keys, rows) => {
                let row = |row: &Vec<Option<String>>| format!("({})", list(row.iter().map(|v| value(v.as_ref()))));
                write!(f, "rest {} beside {}", names(keys), list(rows.iter().map(row)))
            }
        }
    }
}

impl Part {
    /// From a split's text.
    ///
    /// # Errors
    /// `Internal`: not one of ours.
    pub fn parse(text: &str) -> Result<Self> {
        let mut words = Words(text);
        let part = words.part();
        part.filter(|_| words.0.is_empty()).ok_or_else(|| Error::internal(format!("{text:?} is not a split of a PostgreSQL source")))
    }

    /// Whether which rows it holds depends on a key alone, not on where they lie.
    pub fn is_by_key(&self) -> bool {
        !matches!(self, Self::All | Self::Table(_) | Self::Pages(..))
    }

    /// The condition that keeps a read within the part. `columns`: of the relation or query.
    ///
    /// # Errors
    /// A key column that is not there any more.
    pub fn condition(&self, columns: &[PgColumn]) -> Result<Option<String>> {
        let key = |name: &String| match columns.iter().find(|column| column.name == *name) {
            Some(column) => Ok(Key::of(column)),
            None => Err(Error::new(ErrorKind::Schema, "the column that the splits were cut by is gone").column(name)),
        };
        Ok(match self {
            Self::All | Self::Table(_) => None,
            Self::Pages(_, from, to) => pages(*from, *to),
            Self::Range { key: name, from: None, to: None } => Some(key(name)?.not_null()),
            Self::Range { key: name, from, to } => {
                let key = key(name)?;
                let ends = [from.as_ref().map(|from| key.compare(">=", from)), to.as_ref().map(|to| key.compare("<", to))];
                Some(ends.into_iter().flatten().collect::<Vec<_>>().join(" AND "))
            }
            Self::Ranges(name, ranges) => {
                let key = key(name)?;
                let range = |(from, to): &(String, String)| format!("{} AND {}", key.compare(">=", from), key.compare("<=", to));
                Some(format!("({})", ranges.iter().map(range).collect::<Vec<_>>().join(" OR ")))
            }
            Self::Null(name) => Some(key(name)?.equals(None)),
            Self::Hash { keys, part, of } => Some(hash(&keys.iter().map(key).collect::<Result<Vec<_>>>()?, *part, *of)),
            Self::Values(values) => {
                let terms = values.iter().map(|(name, value)| Ok(key(name)?.equals(value.as_deref()))).collect::<Result<Vec<_>>>()?;
                Some(terms.join(" AND "))
            }
            Self::Rest(names, rows) => Some(rest(&names.iter().map(key).collect::<Result<Vec<_>>>()?, rows)),
        })
    }
}

fn pages(from: u64, to: Option<u64>) -> Option<String> {
    let mut terms = Vec::new();
    // The first range needs no lower end.
    if from > 0 {
        terms.push(format!("ctid >= '({from},0)'::pg_catalog.tid"));
    }
    terms.extend(to.map(|to| format!("ctid < '({to},0)'::pg_catalog.tid")));
    (!terms.is_empty()).then(|| terms.join(" AND "))
}

/// The hash is of the text, which every type has, in every version, also where the type itself has no hash.
fn hash(keys: &[Key], part: u64, of: u64) -> String {
    let text = match keys {
        [key] => key.sql.clone(),
        keys => format!("ROW({})", list(keys.iter().map(|key| key.sql.clone()))),
    };
    let hash = format!("pg_catalog.hashtext(CAST({text} AS pg_catalog.text) COLLATE pg_catalog.\"C\")");
    format!("COALESCE(pg_catalog.mod({hash}::pg_catalog.int8 + 2147483648, {of}), 0) = {part}")
}

/// None of the rows. One column without NULL is looked up in an array, which the server hashes.
fn rest(keys: &[Key], rows: &[Vec<Option<String>>]) -> String {
    if let ([key], false) = (keys, rows.is_empty())
        && !key.array
    {
        let known: Vec<&str> = rows.iter().filter_map(|row| row.first()?.as_deref()).collect();
        let mut sql = format!("{} IS NOT TRUE", key.any(&known));
        if known.len() < rows.len() {
            sql.push_str(&format!(" AND {}", key.not_null()));
        }
        return sql;
    }
    let row = |row: &Vec<Option<String>>| {
        format!("({})", keys.iter().zip(row).map(|(key, value)| key.equals(value.as_deref())).collect::<Vec<_>>().join(" AND "))
    };
    match rows {
        [] => "true".to_string(),
        rows => format!("({}) IS NOT TRUE", rows.iter().map(row).collect::<Vec<_>>().join(" OR ")),
    }
}

/// What is left of a split's text.
struct Words<'a>(&'a str);

impl Words<'_> {
    fn part(&mut self) -> Option<Part> {
        if self.take("all") {
            return Some(Part::All);
        }
        if self.take("key ") {
            return self.key();
        }
        if self.take("hash ") {
            let keys = self.names()?;
            self.take(" ").then_some(())?;
            let part = self.number()?;
            self.take(" of ").then_some(())?;
            return Some(Part::Hash { keys, part, of: self.number().filter(|of| *of > part)? });
        }
        if self.take("values ") {
            return Some(Part::Values(self.separated(|words| Some((words.quoted('"')?, words.take(" = ").then(|| words.value())??)))?));
        }
        if self.take("rest ") {
            let keys = self.names()?;
            self.take(" beside ").then_some(())?;
            let rows = self.separated(|words| {
                words.take("(").then_some(())?;
                let row = words.separated(Self::value)?;
                words.take(")").then_some(row)
            })?;
            return rows.iter().all(|row| row.len() == keys.len()).then_some(Part::Rest(keys, rows));
        }
        self.table()
    }

    fn key(&mut self) -> Option<Part> {
        let key = self.quoted('"')?;
        if self.take(" null") {
            return Some(Part::Null(key));
        }
        if self.take(" in ") {
            let ranges = self.separated(|words| {
                words.take("(").then_some(())?;
                let from = words.quoted('\'')?;
                words.take(", ").then_some(())?;
                let to = words.quoted('\'')?;
                words.take(")").then_some((from, to))
            })?;
            return Some(Part::Ranges(key, ranges));
        }
        let from = if self.take(" from ") { Some(self.quoted('\'')?) } else { None };
        let to = if self.take(" to ") { Some(self.quoted('\'')?) } else { None };
        Some(Part::Range { key, from, to })
    }

    fn table(&mut self) -> Option<Part> {
        let schema = self.quoted('"')?;
        self.take(".").then_some(())?;
        let sql = format!("{}.{}", quote_ident(&schema), quote_ident(&self.quoted('"')?));
        if !self.take(" pages ") {
            return Some(Part::Table(sql));
        }
        let from = self.number()?;
        self.take("-").then_some(())?;
        let to = if self.0.is_empty() { None } else { Some(self.number()?) };
        Some(Part::Pages(sql, from, to))
    }

    fn take(&mut self, word: &str) -> bool {
        let rest = self.0.strip_prefix(word);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn separated<T>(&mut self, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut out = vec![item(self)?];
        while self.take(", ") {
            out.push(item(self)?);
        }
        Some(out)
    }

    fn names(&mut self) -> Option<Vec<String>> {
        self.separated(|words| words.quoted('"'))
    }

    fn value(&mut self) -> Option<Option<String>> {
        if self.take("null") { Some(None) } else { self.quoted('\'').map(Some) }
    }

    fn number(&mut self) -> Option<u64> {
        let end = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let (number, rest) = self.0.split_at(end);
        self.0 = rest;
        number.parse().ok()
    }

    /// Text between marks; a doubled mark stands for itself.
    fn quoted(&mut self, mark: char) -> Option<String> {
        let mut rest = self.0.strip_prefix(mark)?;
        let mut out = String::new();
        loop {
            let end = rest.find(mark)?;
            out.push_str(&rest[..end]);
            rest = &rest[end + 1..];
            match rest.strip_prefix(mark) {
                Some(more) => {
                    out.push(mark);
                    rest = more;
                }
                None => {
                    self.0 = rest;
                    return Some(out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::catalog::PgType;

    fn parts() -> Vec<Part> {
        let (table, odd) = ("\"s\".\"a pages 1-\"".to_string(), "o\"d, 'd".to_string());
        let range =
            |from: Option<&str>, to: Option<&str>| Part::Range { key: odd.clone(), from: from.map(Into::into), to: to.map(Into::into) };
        vec![
            Part::All,
            Part::Table(table.clone()),
            Part::Pages(table.clone(), 0, Some(9)),
            Part::Pages(table, 9, None),
            range(None, Some("it's ' to '")),
            range(Some(""), None),
            range(Some("1"), Some("\\2\n")),
            range(None, None),
            Part::Null("k".into()),
            Part::Ranges("k".into(), vec![("-1".into(), "it's".into()), ("5".into(), "5".into())]),
            Part::Hash { keys: vec!["k".into(), odd.clone()], part: 0, of: 3 },
            Part::Values(vec![("k".into(), None), (odd.clone(), Some("null".into()))]),
            Part::Rest(vec!["k".into()], vec![vec![None], vec![Some("x), (".into())]]),
            Part::Rest(vec!["k".into(), odd], vec![vec![None, Some("1".into())]]),
        ]
    }

    #[test]
    fn parts_come_back_from_their_text() {
        for part in parts() {
            assert_eq!(Part::parse(&part.to_string()).unwrap(), part, "{part}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "rubbish",
            "all; drop table t",
            "\"s\".\"t\" WHERE true",
            "pg_sleep(1), \"s\".\"t\"",
            "\"t\"",
            "key \"k\" from 5",
            "key \"k\" from '5' or true",
            "key \"k\" in ('5', now())",
            "key \"k",
            "hash \"k\" 3 of 3",
            "values \"k\" = now()",
            "rest \"a\", \"b\" beside ('1')",
            "\"s\".\"t\" pages 1-x",
            "",
        ] {
            assert!(Part::parse(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn conditions() {
        let builtin = |name: &str, oid| PgType { oid, name: name.into(), schema: "pg_catalog".into(), ..PgType::default() };
        let column = |name: &str, base| PgColumn { name: name.into(), base, ..PgColumn::default() };
        let columns = [column("k", builtin("int8", 20)), column("t", builtin("text", 25))];
        let sql = |text: &str| Part::parse(text).unwrap().condition(&columns).unwrap().unwrap_or_default();
        assert_eq!(sql("\"s\".\"t\" pages 0-5"), "ctid < '(5,0)'::pg_catalog.tid");
        assert_eq!(sql("\"s\".\"t\" pages 5-9"), "ctid >= '(5,0)'::pg_catalog.tid AND ctid < '(9,0)'::pg_catalog.tid");
        assert_eq!((sql("\"s\".\"t\" pages 0-"), sql("all"), sql("\"s\".\"t\"")), Default::default());
        let literal = "\"pg_catalog\".\"int8\"";
        assert_eq!(
            sql("key \"k\" from '5' to '-9'"),
            format!("\"k\" OPERATOR(\"pg_catalog\".>=) '5'::{literal} AND \"k\" OPERATOR(\"pg_catalog\".<) '-9'::{literal}")
        );
        assert_eq!(
            (sql("key \"k\" null").as_str(), sql("key \"k\"").as_str()),
            ("\"k\" IS NOT DISTINCT FROM NULL", "\"k\" IS DISTINCT FROM NULL")
        );
        assert!(sql("key \"k\" in ('5', '9'), ('11', '11')").starts_with("(\"k\" OPERATOR"), "in brackets");
        assert_eq!(
            sql("values \"t\" = 'it''s', \"k\" = null"),
            "\"t\" OPERATOR(\"pg_catalog\".=) 'it''s'::\"pg_catalog\".\"text\" AND \"k\" IS NOT DISTINCT FROM NULL"
        );
        assert!(sql("rest \"t\" beside ('a'), (null)").ends_with("IS NOT TRUE AND \"t\" IS DISTINCT FROM NULL"));
        assert!(sql("hash \"k\", \"t\" 1 of 2").contains("ROW(\"k\", \"t\")"));
        let gone = Part::Null("gone".into()).condition(&columns).unwrap_err();
        assert_eq!((gone.kind(), gone.place().column.as_deref()), (ErrorKind::Schema, Some("gone")));
    }
}

//! How a read is cut into splits, and over how many lanes: what can be done, what was asked for, what is best.

use super::catalog::{PgColumn, RelationKind};
use super::session::Session;
use super::source::{PostgresSource, What, find_column};
use super::splits::{self, Choice, Facts, Key, Method, Pages, Part, Scope, Sized};
use haul_model::{Error, ErrorKind, Note, Result, Settings};

/// Pages that a sample is made of at least: with some dozens of rows on each, enough to see how keys lie.
const SAMPLE_PAGES: u64 = 300;

/// What the settings say about cutting.
#[derive(Debug)]
pub(super) struct Cutting {
    method: Method,
    keys: Vec<String>,
    query: Option<String>,
    /// Rows of a split, if somebody has said so.
    rows: Option<u64>,
}

/// A read that is cut.
pub(super) struct Cut {
    pub parts: Vec<Sized>,
    pub lanes: usize,
    choice: Choice,
    pub notes: Vec<Note>,
}

/// Key columns, and what cuts by them best.
struct Keys {
    columns: Vec<PgColumn>,
    keys: Vec<Key>,
    suits: Method,
}

impl Cutting {
    /// # Errors
    /// Settings that contradict each other, or a method of another engine.
    pub fn from(settings: &Settings) -> Result<Self> {
        let method = Method::parse(&settings.choice("method").unwrap_or_default())?;
        let query = settings.text("split_query").map(|q| q.trim().trim_end_matches(';').trim_end().to_string()).filter(|q| !q.is_empty());
        let keys = settings.list("split_key").unwrap_or_default();
        let config = |text: String, hint: &str| Err(Error::new(ErrorKind::Config, text).hint(hint));
        match method {
            Method::None | Method::Ctid if !keys.is_empty() => {
                return config(
                    format!("--method {} has no use for --split-key", method.word()),
                    "leave one of them away; range, ntile, hash and values cut by a key",
                );
            }
            Method::Range | Method::Ntile if keys.len() > 1 => {
                return config(
                    format!("--method {} cuts by one column, not {}", method.word(), keys.len()),
                    "hash and values take several",
                );
            }
            Method::Auto | Method::Values => {}
            _ if query.is_some() => {
                return config(format!("--method {} has no use for --split-query", method.word()), "it belongs to --method values");
            }
            _ => {}
        }
        if let Some((_, double)) = keys.iter().enumerate().find(|(i, name)| keys[..*i].contains(name)) {
            return Err(Error::new(ErrorKind::Config, "split_key names a column twice").column(double));
        }
        let rows = settings.int("split_rows").map(|n| u64::try_from(n).unwrap_or(1).max(1));
        Ok(Self { method, keys, query, rows })
    }

    /// In one piece.
    pub fn whole() -> Self {
        Self { method: Method::None, keys: Vec::new(), query: None, rows: None }
    }

    /// Whether the user wants it cut in some way.
    pub fn is_asked_for(&self) -> bool {
        self.method != Method::Auto || !self.keys.is_empty() || self.query.is_some()
    }

    /// Checks the names of the keys.
    ///
    /// # Errors
    /// `NotFound`, with the nearest name.
    pub fn check(&self, columns: &[PgColumn]) -> Result<()> {
        self.keys.iter().try_for_each(|name| find_column(columns, name).map(drop).map_err(|e| e.context("split_key")))
    }
}

impl PostgresSource {
    /// Decides how to read, with the session that holds the snapshot.
    ///
    /// # Errors
    /// What was asked for by name is impossible; the server's.
    pub(super) fn cut(&self, session: &mut Session, degree: usize) -> Result<Cut> {
        let asked = self.cutting.method;
        let keys = self.keys(session)?;
        let bytes = match asked == Method::None || self.leaves.iter().any(|leaf| leaf.heap) {
            true => self.leaves.iter().map(|leaf| leaf.size()).sum(),
            false => self.estimated_bytes(session)?,
        };
        let cores = self.env.cores.max(1);
        let worth = usize::try_from(bytes / splits::WORTH_A_LANE).unwrap_or(usize::MAX).max(1);
        let wanted = if degree == 0 { cores.min(worth) } else { degree };
        let mut facts = Facts {
            asked,
            lanes: wanted,
            one_lane: match (degree, cores) {
                (1, _) => "one lane was asked for",
                (_, 1) => "there is one core",
                _ => "it is small",
            },
            large: bytes > splits::LARGEST,
            in_one_piece: self.in_one_piece(),
            pages: self.pages(),
            by_key: keys.as_ref().map(|keys| keys.suits),
            primary_key: None,
        };
        let keys = match keys {
            None if asked == Method::Auto && (facts.pages == Pages::Fine || wanted == 1) => None,
            None if matches!(asked, Method::None | Method::Ctid) => None,
            None => self.primary_key(session)?,
            given => given,
        };
        facts.primary_key = keys.as_ref().map(|keys| keys.keys[0].name.clone());
        let choice = splits::choose(&facts)?;
        let mut notes: Vec<Note> = choice.note.iter().cloned().map(Note::new).collect();
        let lanes = if choice.method == Method::None { 1 } else { self.fitting(session, wanted, &mut notes)? };
        let parts = self.parts(session, choice.method, keys, lanes, bytes)?;
        let lanes = lanes.min(parts.len()).max(1);
        Ok(Cut { parts, lanes, choice, notes })
    }

    fn parts(&self, session: &mut Session, method: Method, keys: Option<Keys>, lanes: usize, bytes: u64) -> Result<Vec<Sized>> {
        let whole = || vec![Sized { part: Part::All, bytes }];
        let parts = match (method, keys) {
            (Method::None | Method::Auto, _) => whole(),
            (Method::Ctid, _) => splits::cut_pages(
                &self.leaves,
                lanes,
                self.version >= 140_000 || self.cutting.method == Method::Ctid,
                self.split_bytes(bytes),
            ),
            (_, None) => {
                return Err(Error::new(ErrorKind::Config, format!("--method {} needs a column to cut by", method.word()))
                    .object(self.relation_name())
                    .hint("name it with --split-key COLUMN (there is no primary key of one column)"));
            }
            (Method::Values, Some(keys)) => {
                self.check_order(session, method, &keys.columns)?;
                match &self.cutting.query {
                    Some(query) => splits::listed(session, query, &keys.keys, bytes)?,
                    None => splits::distinct(session, &self.scope(), &keys.keys, bytes)?,
                }
            }
            (Method::Hash, Some(keys)) => splits::hashes(&keys.keys, splits::count(bytes, lanes, false, None), bytes),
            (Method::Range | Method::Ntile, Some(keys)) => {
                self.check_order(session, method, &keys.columns)?;
                let (key, column) = (&keys.keys[0], &keys.columns[0]);
                let count = splits::count(bytes, lanes, self.has_index(session, column)?, self.split_bytes(bytes));
                splits::ranges(key, self.bounds(session, method, key, count)?, bytes)
            }
        };
        // A single part is read through what the user named.
        Ok(if parts.len() > 1 { parts } else { whole() })
    }

    /// The size of splits that were asked for by their rows.
    fn split_bytes(&self, bytes: u64) -> Option<u64> {
        let wanted = self.cutting.rows?;
        let rows: u64 = self.leaves.iter().filter_map(|leaf| leaf.rows).sum();
        (rows > 0).then(|| u64::try_from(u128::from(bytes) * u128::from(wanted) / u128::from(rows)).unwrap_or(u64::MAX).max(1))
    }

    /// Where the ranges of a key begin.
    fn bounds(&self, session: &mut Session, method: Method, key: &Key, count: u64) -> Result<Vec<String>> {
        if count < 2 {
            return Ok(Vec::new());
        }
        let scope = self.scope();
        if method == Method::Ntile {
            return splits::tiles(session, &scope, key, count, None);
        }
        if !key.has_ranges() {
            return Err(Error::new(ErrorKind::Unsupported, "--method range cuts numbers, dates, timestamps and uuids, not this type")
                .object(self.relation_name())
                .column(&key.name)
                .hint("--method ntile cuts any type that has an order, --method hash any type at all"));
        }
        if let (What::Relation(relation), None, false) = (&self.what, scope.condition, self.leaves.len() > 1)
            && let Some(bounds) = splits::statistics(session, relation, key, count)?
        {
            return Ok(bounds);
        }
        match self.sample(count) {
            Some(percent) => splits::tiles(session, &scope, key, count, Some(percent)),
            None => splits::even(session, &scope, key, count),
        }
    }

    /// How much of the pages to look at, in percent, where the server can take a sample of them.
    fn sample(&self, count: u64) -> Option<f64> {
        let pages: u64 = self.leaves.iter().map(|leaf| leaf.bytes / leaf.block.max(1)).sum();
        let possible = !self.leaves.is_empty() && self.leaves.iter().all(|leaf| leaf.heap);
        possible.then(|| (100.0 * (count * 8).max(SAMPLE_PAGES) as f64 / pages.max(1) as f64).min(100.0))
    }

    /// The columns that the user named to cut by.
    fn keys(&self, session: &mut Session) -> Result<Option<Keys>> {
        let mut names = self.cutting.keys.clone();
        if let Some(query) = &self.cutting.query {
            let found = super::discover::query_columns(session, query).map_err(|e| e.context("split_query"))?;
            if names.is_empty() {
                names = found.iter().map(|column| column.name.clone()).collect();
            }
            if found.is_empty() || found.len() != names.len() {
                return Err(Error::new(ErrorKind::Config, format!("split_query returns {} columns for {} keys", found.len(), names.len()))
                    .hint("its columns are compared with those of --split-key, in order"));
            }
        }
        if names.is_empty() {
            return Ok(None);
        }
        let columns: Vec<PgColumn> = names
            .iter()
            .map(|name| find_column(self.all_columns(), name).cloned().map_err(|e| e.context("split_key")))
            .collect::<Result<_>>()?;
        let keys: Vec<Key> = columns.iter().map(Key::of).collect();
        let suits = match (&self.cutting.query, &keys[..]) {
            (Some(_), _) => Method::Values,
            (None, [key]) if key.has_ranges() => Method::Range,
            (None, [_]) if splits::is_ordered(session, &columns[0])? => Method::Ntile,
            _ => Method::Hash,
        };
        Ok(Some(Keys { columns, keys, suits }))
    }

    /// The primary key, if it is one column. Left to ourselves, only one that can be cut into ranges.
    fn primary_key(&self, session: &mut Session) -> Result<Option<Keys>> {
        let What::Relation(relation) = &self.what else { return Ok(None) };
        let Some(number) = splits::primary_key(session, relation.oid)? else { return Ok(None) };
        let Some(column) = relation.columns.iter().find(|column| column.number == number) else { return Ok(None) };
        let key = Key::of(column);
        if self.cutting.method == Method::Auto && !key.has_ranges() {
            return Ok(None);
        }
        Ok(Some(Keys { columns: vec![column.clone()], keys: vec![key], suits: Method::Range }))
    }

    fn check_order(&self, session: &mut Session, method: Method, columns: &[PgColumn]) -> Result<()> {
        for column in columns {
            if !splits::is_ordered(session, column)? {
                let what =
                    format!("--method {} needs a type whose values can be compared, and {} has no order", method.word(), column.type_name);
                return Err(Error::new(ErrorKind::Unsupported, what)
                    .object(self.relation_name())
                    .column(&column.name)
                    .hint("--method hash cuts by any type"));
            }
        }
        Ok(())
    }

    fn has_index(&self, session: &mut Session, column: &PgColumn) -> Result<bool> {
        match &self.what {
            What::Relation(relation) if !self.leaves.is_empty() => splits::has_index(session, relation.oid, column),
            _ => Ok(false),
        }
    }

    fn scope(&self) -> Scope<'_> {
        Scope { from: self.from(&Part::All), condition: self.condition() }
    }

    /// What the server's planner expects of a relation without pages of its own.
    fn estimated_bytes(&self, session: &mut Session) -> Result<u64> {
        const ROW_HEADER: u64 = 24;
        let select = self.select(&self.plain_list(), None, &Part::All, false);
        let found = session.query(&format!("EXPLAIN {select}"), &[])?;
        let line = found.first().map(|row| row.text(0)).unwrap_or_default();
        let number = |name: &str| {
            let (_, rest) = line.split_once(name)?;
            rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse::<u64>().ok()
        };
        Ok(number(" rows=").unwrap_or(0).saturating_mul(number(" width=").unwrap_or(0) + ROW_HEADER))
    }

    /// Why it must be read in one piece, if it must.
    fn in_one_piece(&self) -> Option<&'static str> {
        if self.is_ordered() {
            return Some("rows in an order are read in one lane");
        }
        self.limit().map(|_| "a limited number of rows is read in one lane")
    }

    /// Whether ranges of pages can be read.
    fn pages(&self) -> Pages {
        let impossible = |why: &str| Pages::Impossible(why.to_string());
        let relation = match &self.what {
            What::Query(..) => return impossible("a query has no pages of its own"),
            What::Relation(relation) => relation,
        };
        if matches!(relation.kind, RelationKind::View | RelationKind::Foreign) {
            return Pages::Impossible(format!("a {} has no pages of its own", relation.kind.word()));
        }
        if relation.row_security {
            return impossible("row-level security applies to this role");
        }
        if let Some(leaf) = self.leaves.iter().find(|leaf| !leaf.direct) {
            return Pages::Impossible(match leaf.sql == relation.sql() {
                true => format!("this role may read columns of {}, but not its ctid", relation.display()),
                false => format!("this role may not read {} directly, only through {}", leaf.sql, relation.display()),
            });
        }
        match &self.leaves[..] {
            [] => impossible("there is no table with rows"),
            [leaf] if !leaf.heap => Pages::Impossible(format!("access method {} has no ctid ranges", relation.access_method)),
            [_] if self.version < 140_000 => Pages::Slow("before PostgreSQL 14 a ctid range scans the whole table".into()),
            _ => Pages::Fine,
        }
    }
}

impl Cut {
    /// `8 ctid ranges over 2 connections under one exported snapshot (auto: every page is read once)`.
    pub fn described(&self, lanes: usize) -> String {
        let Self { parts, choice, .. } = self;
        let count = |is: fn(&Part) -> bool| parts.iter().filter(|sized| is(&sized.part)).count();
        let named = |n: usize, one: &str, more: &str| match n {
            0 => None,
            1 => Some(format!("1 {one}")),
            n => Some(format!("{n} {more}")),
        };
        let kinds = [
            named(count(|p| matches!(p, Part::Table(_))), "table", "tables"),
            named(count(|p| matches!(p, Part::Pages(..))), "ctid range", "ctid ranges"),
            named(count(|p| matches!(p, Part::Range { .. } | Part::Ranges(..) | Part::Null(_))), "range", "ranges"),
            named(count(|p| matches!(p, Part::Hash { .. })), "part by hash", "parts by hash"),
            named(count(|p| matches!(p, Part::Values(_) | Part::Rest(..))), "part by value", "parts by value"),
        ];
        let kinds = kinds.into_iter().flatten().collect::<Vec<_>>().join(" and ");
        let key = match parts.last().map(|sized| &sized.part) {
            Some(Part::Range { key, .. }) => format!(" of {key}"),
            Some(Part::Hash { keys, .. } | Part::Rest(keys, _)) => format!(" of {}", keys.join(", ")),
            Some(Part::Values(values)) => format!(" of {}", values.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(", ")),
            _ => String::new(),
        };
        let what = match (parts.len(), lanes) {
            (0 | 1, _) => "one COPY under one snapshot".to_string(),
            (_, 1) => format!("{kinds}{key}, one after the other under one snapshot"),
            _ => format!("{kinds}{key} over {lanes} connections under one exported snapshot"),
        };
        match &choice.why {
            Some(_) if parts.len() < 2 && choice.method != Method::None => format!("{what} (auto: it is small)"),
            Some(why) => format!("{what} (auto: {why})"),
            None => what,
        }
    }
}

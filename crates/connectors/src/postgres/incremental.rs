//! Reading only what is new since the last run, by a column whose values grow (a serial number, a time of change).
//!
//! Rows may commit late: a transaction takes number 5, another takes 6 and commits first. A reader that goes on behind the highest
//! number that it saw would never see 5. So a run takes the rows of *settled* transactions only: of those before the oldest one that is
//! still going on under its snapshot (a row's `xmin` tells, subtransactions included, for their numbers are higher than their parent's).
//! The next run takes those from there on. These windows of transactions touch and do not overlap, so each row version is read
//! exactly once, however late it commits; the rows of younger transactions wait for the next run.
//!
//! The column makes it quick: rows at or below a *floor* need not be looked at. The floor is the highest value that some earlier run saw,
//! once every transaction that had begun by then has ended and is settled (later ones take higher values). It rises only then.
//!
//! A view or query has no `xmin`. There a stated lag takes its place: a run reads up to the highest value less the lag, and rows
//! that commit later than that are missed; so they are with a lag on a table.

use super::catalog::{PgColumn, quote_ident, quote_literal};
use super::session::Session;
use super::source::{PostgresSource, What, find_column};
use super::unchanged::{ELSEWHERE, horizon, provable};
use haul_model::{Error, ErrorKind, Note, Result, Settings};

/// What the settings say.
#[derive(Debug)]
pub(super) struct Cursor {
    column: String,
    lag: Option<String>,
    backfill: Option<(String, String)>,
}

/// Up to where rows have been read; kept between runs as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Position {
    /// Server and database, where the role may ask.
    place: String,
    /// All transactions before this one are in. With a lag: 0.
    settled: u64,
    /// Rows at or below this value are in.
    floor: Option<String>,
    /// Values that will be the floor one day.
    pending: Vec<Pending>,
}

/// The highest value that a run saw.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pending {
    /// When, in microseconds since 1970.
    at: u64,
    /// Once every transaction that had begun by then has ended: they are all before this one.
    ended_before: Option<u64>,
    value: String,
}

const VERSION: &str = "cursor 1";
/// More are not kept: the oldest and the newest are worth most.
const MOST_PENDING: usize = 32;

impl Cursor {
    /// # Errors
    /// `Config`.
    pub fn from(settings: &Settings) -> Result<Option<Self>> {
        let text = |name: &str| settings.text(name).map(str::trim).filter(|t| !t.is_empty());
        let Some(column) = text("cursor") else {
            return match ["cursor_lag", "backfill"].into_iter().find(|name| settings.has(name)) {
                Some(name) => Err(Error::new(ErrorKind::Config, format!("{name} says something about a cursor, and there is none"))
                    .hint("name its column: cursor=updated_at")),
                None => Ok(None),
            };
        };
        let backfill = text("backfill").map(|range| {
            let (from, to) = range.split_once("..").unwrap_or_default();
            let bad =
                || Error::new(ErrorKind::Config, format!("backfill takes FROM..TO, not {range:?}")).hint("backfill=2026-01-01..2026-02-01");
            if from.is_empty() || to.is_empty() { Err(bad()) } else { Ok((from.to_string(), to.to_string())) }
        });
        Ok(Some(Self { column: column.to_string(), lag: text("cursor_lag").map(str::to_string), backfill: backfill.transpose()? }))
    }
}

impl Position {
    fn text(&self) -> String {
        let mut out = format!("{VERSION}\nplace {}\nsettled {}\n", self.place, self.settled);
        if let Some(floor) = &self.floor {
            out.push_str(&format!("floor {}\n", floor.escape_default()));
        }
        for Pending { at, ended_before, value } in &self.pending {
            out.push_str(&format!("pending {at} {} {}\n", ended_before.unwrap_or(0), value.escape_default()));
        }
        out
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut position = Self::default();
        if lines.next()? != VERSION {
            return None;
        }
        for line in lines {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            match key {
                "place" => position.place = value.into(),
                "settled" => position.settled = value.parse().ok()?,
                "floor" => position.floor = Some(unescape(value)?),
                "pending" => {
                    let mut parts = value.splitn(3, ' ');
                    let (at, ended) = (parts.next()?.parse().ok()?, parts.next()?.parse::<u64>().ok()?);
                    let value = unescape(parts.next().unwrap_or(""))?;
                    position.pending.push(Pending { at, ended_before: (ended > 0).then_some(ended), value });
                }
                _ => return None,
            }
        }
        Some(position)
    }

    /// What holds after a run under this horizon, which saw a highest value.
    fn advance(&mut self, horizon: &Horizon, seen: Option<Pending>) {
        let settled = horizon.settled;
        self.settled = settled;
        self.pending.extend(seen);
        for pending in self.pending.iter_mut().filter(|p| p.ended_before.is_none()) {
            if horizon.oldest.is_none_or(|oldest| oldest > pending.at) {
                pending.ended_before = Some(horizon.ended_before);
            }
        }
        // They are in the order of the runs, so the last one that is settled is the highest.
        if let Some(at) = self.pending.iter().rposition(|p| p.ended_before.is_some_and(|end| end <= settled)) {
            self.floor = Some(self.pending.drain(..=at).next_back().map(|p| p.value).unwrap_or_default());
        }
        while self.pending.len() > MOST_PENDING {
            self.pending.remove(MOST_PENDING / 2);
        }
    }
}

/// Undoes [`char::escape_default`].
fn unescape(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'u' => {
                let hex: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
                out.push(char::from_u32(u32::from_str_radix(&hex, 16).ok()?)?);
            }
            other => out.push(other),
        }
    }
    Some(out)
}

impl PostgresSource {
    /// Narrows the read to what is new behind `stored`; what to store when it has ended well. `None`: there is no cursor, or a backfill
    /// leaves the position where it is.
    ///
    /// # Errors
    /// A column that is not there; a position that is not of this source; the server's.
    pub(super) fn narrow(&mut self, stored: Option<&str>) -> Result<Option<String>> {
        let Some(cursor) = self.cursor.take() else { return Ok(None) };
        let column = find_column(self.all_columns(), &cursor.column).map_err(|e| e.context("cursor"))?.clone();
        let name = quote_ident(&column.name);
        let typed = |value: &str| format!("{}::{}", quote_literal(value), column.type_name);
        // The rows of another snapshot than this one must not come.
        self.statement = None;
        if let Some((from, to)) = &cursor.backfill {
            self.and(format!("{name} >= {} AND {name} < {}", typed(from), typed(to)));
            return Ok(None);
        }
        let mut session = self.leader.take().ok_or_else(|| Error::internal("a cursor behind the plan"))?;
        let next = self.window(&mut session, &cursor, &column, stored);
        self.leader = Some(session);
        next.map(|position| Some(position.text()))
    }

    fn window(&mut self, session: &mut Session, cursor: &Cursor, column: &PgColumn, stored: Option<&str>) -> Result<Position> {
        let mut position = self.position(column, stored)?;
        if let Some(lag) = &cursor.lag {
            return self.by_value(session, lag, column, position);
        }
        if !matches!(&self.what, What::Relation(relation) if provable(relation.kind, &self.leaves)) {
            return Err(Error::new(
                ErrorKind::Config,
                "a view or query does not tell which transaction a row is of, so rows that commit late would be missed",
            )
            .object(self.relation_name())
            .column(&column.name)
            .hint("state a lag: cursor_lag=5min reads up to five minutes before the highest value (a number for a column of numbers)"));
        }
        let name = quote_ident(&column.name);
        let grows = self.grows(session, column)?;
        let highest = if grows { self.highest(session, &format!("pg_catalog.max({name})"))? } else { None };
        let mut horizon = self.horizon(session)?;
        // What was settled stays so: a transaction of another database that ends between the snapshot and the question counts as one of ours.
        horizon.settled = horizon.settled.max(position.settled);
        let Horizon { settled, next, .. } = horizon;
        // A row's number has 32 bits; numbers below 3 are older than all.
        let raw = "xmin::pg_catalog.text::pg_catalog.int8";
        let full = format!("({next} - (({next} - {raw}) & 4294967295))");
        let window = match position.settled {
            0 => format!("({raw} < 3 OR {full} < {settled})"),
            from => format!("({raw} >= 3 AND {full} >= {from} AND {full} < {settled})"),
        };
        let floor = position.floor.as_ref().map(|floor| format!(" AND ({name} > {} OR {name} IS NULL)", typed(floor, column)));
        if floor.is_some() && !self.cutting.is_asked_for() {
            // An index leads there; pages would all have to be read.
            self.cutting = super::read_plan::Cutting::whole();
        }
        self.and(format!("{window}{}", floor.unwrap_or_default()));
        if settled < next {
            self.notes
                .push(Note::new("transactions are going on: rows of the oldest one of them, and of younger ones, come with the next run"));
        }
        position.advance(&horizon, highest.map(|value| Pending { at: horizon.now, ended_before: None, value }));
        Ok(position)
    }

    /// The position of the last run, if it is one of this source.
    fn position(&self, column: &PgColumn, stored: Option<&str>) -> Result<Position> {
        let place = self.identity.clone().unwrap_or_default();
        match stored.map(Position::parse) {
            None => Ok(Position { place, ..Position::default() }),
            Some(Some(position)) if position.place == place || place.is_empty() || position.place.is_empty() => Ok(position),
            Some(found) => {
                let why = if found.is_some() { "another database than this" } else { "another version of this program" };
                Err(Error::new(ErrorKind::Conflict, format!("the position that is stored for the cursor is of {why}"))
                    .object(self.relation_name())
                    .column(&column.name)
                    .hint("copy the table anew (mode=replace without cursor, or another target), or fill the gap with backfill=FROM..TO"))
            }
        }
    }

    /// With a lag: the values from the last one to the highest less the lag.
    fn by_value(&mut self, session: &mut Session, lag: &str, column: &PgColumn, mut position: Position) -> Result<Position> {
        let name = quote_ident(&column.name);
        let floor = position.floor.as_ref().map(|floor| typed(floor, column));
        let up_to = format!("pg_catalog.max({name}){}", minus(lag, column));
        // It never sinks, also when the highest rows are deleted.
        let up_to = floor.as_ref().map_or(up_to.clone(), |floor| format!("GREATEST({up_to}, {floor})"));
        let up_to = self.highest(session, &up_to)?;
        let above = floor.map(|floor| format!("{name} > {floor}"));
        let below = up_to.as_ref().map_or_else(|| "FALSE".to_string(), |up_to| format!("{name} <= {}", typed(up_to, column)));
        self.and(above.into_iter().chain([below]).collect::<Vec<_>>().join(" AND "));
        self.notes.push(Note::new("a cursor with a lag: rows that commit later than the lag after they got their value are missed"));
        position.floor = up_to.or(position.floor);
        Ok(position)
    }

    /// An aggregate over all rows that are meant, as text.
    fn highest(&self, session: &mut Session, aggregate: &str) -> Result<Option<String>> {
        let from = self.from(&super::splits::Part::All);
        let condition = self.condition().map_or_else(String::new, |c| format!(" WHERE (\n{c}\n)"));
        let sql = format!("SELECT ({aggregate})::pg_catalog.text FROM {from}{condition}");
        let row = session.row(&sql, &[]).map_err(|e| e.object(self.relation_name()).context("cursor"))?;
        Ok(row.and_then(|row| row.get(0).map(str::to_string)))
    }

    /// What of other transactions there is, by the snapshot of the read, and by a session of its own: in this one the server would tell of
    /// activity as it was when it was first asked.
    fn horizon(&mut self, session: &mut Session) -> Result<Horizon> {
        let row = session.row("SELECT pg_catalog.txid_current_snapshot()::pg_catalog.text", &[])?;
        let snapshot = row.map(|row| row.text(0).to_string()).unwrap_or_default();
        let mut aside = Session::open(&self.target, &self.env, "cursor")?;
        let elsewhere: Vec<u64> = aside.query(ELSEWHERE, &[])?.iter().filter_map(|row| row.parse(0)).collect();
        let (settled, next) = horizon(&snapshot, &elsewhere).ok_or_else(|| Error::internal(format!("{snapshot:?} is not a snapshot")))?;
        // Sessions of this very job only read. Of others' sessions a role may not be told when they began.
        let sql = "SELECT pg_catalog.bool_or(query = '<insufficient privilege>') \
                     OR EXISTS (SELECT FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database()), \
                   (EXTRACT(EPOCH FROM pg_catalog.min(xact_start)) * 1000000)::pg_catalog.int8, \
                   (EXTRACT(EPOCH FROM pg_catalog.clock_timestamp()) * 1000000)::pg_catalog.int8 \
                   FROM pg_catalog.pg_stat_activity WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid() \
                   AND (backend_type = 'client backend' OR backend_type IS NULL) AND ($1 = '' OR application_name NOT LIKE 'haul/' || $1 || '%')";
        let job = self.env.run_id.split('s').next().unwrap_or_default().to_string();
        let row = aside.row(sql, &[Some(&job)])?.ok_or_else(|| Error::internal("an aggregate without a row"))?;
        let oldest = if row.flag(0) {
            self.notes.push(Note::new(
                "this role may not see when others' transactions began (or some are prepared), so the whole table is looked through for \
                 new rows: GRANT pg_read_all_stats lets the cursor's index be used",
            ));
            Some(0)
        } else {
            row.parse(1)
        };
        // Behind that question: who had ended by then has a lower number than this.
        let bound = aside.row("SELECT pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot())::pg_catalog.text", &[])?;
        let ended_before = bound.and_then(|row| row.parse(0)).ok_or_else(|| Error::internal("a snapshot without an end"))?;
        Ok(Horizon { settled, next, oldest, ended_before, now: row.parse(2).unwrap_or(u64::MAX) })
    }

    /// Whether later transactions are sure to take higher values: times do, and so does a sequence that fills the column one by one. Numbers that
    /// come from elsewhere, or that sessions keep in stock, may come late.
    fn grows(&mut self, session: &mut Session, column: &PgColumn) -> Result<bool> {
        let What::Relation(relation) = &self.what else { return Ok(false) };
        let sql = "SELECT s.seqcache = 1 AND s.seqincrement = 1 FROM pg_catalog.pg_sequence s \
                   WHERE s.seqrelid = pg_catalog.pg_get_serial_sequence($1, $2)::pg_catalog.regclass";
        let grows = match session.row(sql, &[Some(&relation.sql()), Some(&column.name)])? {
            Some(row) => row.flag(0),
            None => is_time(column),
        };
        if !grows {
            self.notes.push(Note::column(
                &column.name,
                "is no time and has no sequence of its own that counts by one without a CACHE, so a low value may come late: \
                 the whole table is looked through for new rows",
            ));
        }
        Ok(grows)
    }
}

/// What of other transactions there is.
struct Horizon {
    /// All before this one had ended, as the read's snapshot has it.
    settled: u64,
    /// The next number then.
    next: u64,
    /// When the oldest that is going on had begun, in microseconds since 1970. `None`: there is none; 0: nobody can tell.
    oldest: Option<u64>,
    /// Whoever is not going on any more has a number below this.
    ended_before: u64,
    /// The server's clock.
    now: u64,
}

fn typed(value: &str, column: &PgColumn) -> String {
    format!("{}::{}", quote_literal(value), column.type_name)
}

fn is_time(column: &PgColumn) -> bool {
    ["timestamp", "date", "time"].iter().any(|t| column.type_name.starts_with(t))
}

/// ` - LAG`, by the column's type.
fn minus(lag: &str, column: &PgColumn) -> String {
    let kind = if is_time(column) { "interval" } else { "numeric" };
    format!(" - {}::pg_catalog.{kind}", quote_literal(lag))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(at: u64, value: &str) -> Option<Pending> {
        Some(Pending { at, ended_before: None, value: value.into() })
    }

    fn horizon(settled: u64, ended_before: u64, oldest: Option<u64>) -> Horizon {
        Horizon { settled, next: ended_before, oldest, ended_before, now: 0 }
    }

    #[test]
    fn a_floor_rises_only_when_all_that_had_begun_are_settled() {
        let mut position = Position::default();
        // One transaction (number 100) began at 5 and goes on.
        position.advance(&horizon(100, 105, Some(5)), seen(10, "a"));
        assert_eq!((position.settled, position.floor.as_deref()), (100, None));
        // It has ended; another that began at 15 (number 107) goes on. What the first run saw is settled.
        position.advance(&horizon(107, 110, Some(15)), seen(20, "b"));
        assert_eq!(position.floor, None, "its end is known, but numbers up to 110 are not settled");
        assert_eq!(position.pending[0].ended_before, Some(110));
        // One that ended between the snapshot (at 112) and the question has number 112.
        position.advance(&horizon(112, 113, None), seen(30, "c"));
        assert_eq!(position.floor.as_deref(), Some("a"));
        position.advance(&horizon(113, 113, None), seen(40, "c"));
        assert_eq!((position.floor.as_deref(), position.pending.len()), (Some("c"), 0));
    }

    #[test]
    fn nobody_can_tell_means_no_floor() {
        let mut position = Position::default();
        for run in 1..100 {
            position.advance(&horizon(run, run, Some(0)), seen(run, "x"));
        }
        assert_eq!((position.floor.as_deref(), position.pending.len()), (None, MOST_PENDING));
    }

    #[test]
    fn a_position_comes_back_from_its_text() {
        let mut position = Position { place: "1/2".into(), settled: 7, floor: Some("a\nb \\ é ".into()), pending: Vec::new() };
        position.pending.push(Pending { at: 3, ended_before: None, value: String::new() });
        position.pending.push(Pending { at: 4, ended_before: Some(9), value: "2026-01-01 00:00:00+00".into() });
        assert_eq!(Position::parse(&position.text()), Some(position));
        assert_eq!(Position::parse("cursor 0\n"), None);
    }
}

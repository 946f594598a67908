//! Reading a table, view or query by COPY, in lanes that share one snapshot.
//!
//! Life: [`PostgresSource::open`] locks the table (ACCESS SHARE) and then takes the snapshot, in one REPEATABLE READ transaction in
//! which everything is discovered; `plan` cuts the read into splits (`read_plan.rs`) and exports the snapshot; every lane imports
//! it. So all lanes see the rows of one instant, whatever is written meanwhile, and nobody can change the table's shape.
//! Rows come as they are stored, unless an order was asked for.

use super::catalog::{PgColumn, Relation, RelationKind, quote_ident};
use super::config::{self, TableName, Target};
use super::database::Held;
use super::decode::CopyDecoder;
use super::digest::CopyDigester;
use super::discover::{self, Leaf};
use super::incremental::Cursor;
use super::lanes::{BACK_TO_THE_SNAPSHOT, Lanes, READ_ONLY, read_settings};
use super::pooler;
use super::portable::{Portable, portable};
use super::read_plan::Cutting;
use super::session::{self, Session};
use super::slots;
use super::splits::{Part, Sized};
use super::statement::{self, StatementReader};
use super::types::{ColumnPlan, column_plan};
use super::unchanged::Proof;
use super::watch::{Side, Waits};
use arrow_schema::{Schema, SchemaRef};
use haul_model::{
    Batch, Decoder, Digester, Earlier, Encoding, Endpoint, Environment, Error, ErrorKind, Estimate, Form, KeyRanges, Next, Note, OnLossy,
    Payload, Position, Raw, ReadPlan, Reader, Reading, Result, Reuse, Settings, Source, Span, Split, TableDefinition, Watch, nearest,
};
use haul_pgwire::CopyOut;
use std::sync::Arc;

/// Frames of about this many bytes are handed out at once.
const CHUNK: usize = 256 << 10;

/// What is read.
pub(super) enum What {
    Relation(Box<Relation>),
    /// With all its columns.
    Query(String, Vec<PgColumn>),
}

/// What is read, all its columns, and the tables that hold its rows.
type Discovered = (What, Vec<PgColumn>, Vec<Leaf>);

/// What the settings say about reading.
pub(super) struct Reads {
    pub(super) condition: Option<String>,
    order_by: Option<String>,
    limit: Option<u64>,
    pub(super) row_security: bool,
    max_row_bytes: u64,
    on_lossy: OnLossy,
}

/// A table, view or query.
pub struct PostgresSource {
    pub(super) target: Target,
    pub(super) env: Environment,
    pub(super) what: What,
    columns: Vec<PgColumn>,
    pub(super) leaves: Vec<Leaf>,
    pub(super) reads: Reads,
    pub(super) cutting: Cutting,
    pub(super) identity: Option<String>,
    pub(super) version: u32,
    pub(super) notes: Vec<Note>,
    /// The session that holds lock and snapshot, until `plan` makes it the first lane.
    pub(super) leader: Option<Session>,
    pub(super) lanes: Option<Arc<Lanes>>,
    pub(super) reading: Option<Reading>,
    /// How it is read.
    pub(super) planned: Option<ReadPlan>,
    /// What this read can be recognised by later, if it can.
    pub(super) proof: Option<Proof>,
    /// The encoding under which the server itself may move the rows, if it may.
    pub(super) statement: Option<Encoding>,
    /// The column by which only new rows are read, until the read is narrowed to them.
    pub(super) cursor: Option<Cursor>,
    /// Whether it was: what is new now is not what was new then.
    pub(super) narrowed: bool,
    /// The job's snapshot, if the read is one of several under it.
    held: Option<Arc<Held>>,
}

impl PostgresSource {
    /// Connects, takes lock and snapshot, and discovers columns and size.
    ///
    /// # Errors
    /// Config, connection, rights (row-level security that hides rows included), missing objects.
    pub fn open(endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Self> {
        Self::open_under(endpoint, settings, env, None)
    }

    /// As [`PostgresSource::open`]; with a snapshot that is `held`, under that one.
    ///
    /// # Errors
    /// As there.
    pub(super) fn open_under(endpoint: &Endpoint, settings: &Settings, env: &Environment, held: Option<Arc<Held>>) -> Result<Self> {
        let target = config::target(endpoint, settings, env)?;
        let (reads, cutting, cursor) = (Reads::from(settings)?, Cutting::from(settings)?, Cursor::from(settings)?);
        let query = settings.text("query").map(|q| q.trim().trim_end_matches(';').trim_end().to_string());
        let mut session = match (&target.table, &query) {
            (None, None) => {
                return Err(Error::new(ErrorKind::Config, "which table is to be read?")
                    .hint("add ?table=schema.name, or give --query 'SELECT ...'"));
            }
            (Some(_), Some(_)) => return Err(Error::new(ErrorKind::Config, "both a table and a query are given").hint("give one of them")),
            _ => match &held {
                Some(held) => held.take(env, "read")?,
                None => Session::open(&target, env, "read")?,
            },
        };
        let mut notes = target.notes.clone();
        match &held {
            Some(held) => notes.extend(held.notes.iter().cloned()),
            None => notes.extend(pooler::remark(&mut session, &target, env)?),
        }
        let begun = held.is_some();
        let (what, found, leaves) = match (&target.table, query) {
            (Some(name), _) => Self::discover_table(&mut session, name, &reads, begun, &mut notes)?,
            (None, query) => Self::discover_query(&mut session, query.unwrap_or_default(), &reads, begun)?,
        };
        let columns = chosen(found, settings)?;
        large_objects(&mut session, &columns, &mut notes)?;
        let (identity, version, env) = (session.database_identity()?, session.version(), env.clone());
        let (leader, lanes, reading, proof) = (None, None, None, None);
        let hidden = matches!(&what, What::Relation(relation) if relation.row_security);
        let statement =
            if hidden || begun || cutting.is_asked_for() { None } else { statement::encoding(&mut session, &target, identity.as_deref())? };
        let mut source = Self {
            target,
            env,
            what,
            columns,
            leaves,
            reads,
            cutting,
            identity,
            version,
            notes,
            leader,
            lanes,
            reading,
            planned: None,
            proof,
            statement,
            cursor,
            narrowed: false,
            held,
        };
        source.resolve_order(settings)?;
        source.cutting.check(source.all_columns())?;
        // Runs nothing, and yet checks rights, conditions and policies as the real reads will.
        let plain = source.plain_list();
        session.query(&format!("{} LIMIT 0", source.select(&plain, None, &Part::All, false)), &[]).map_err(|e| source.explain(e))?;
        source.leader = Some(session);
        Ok(source)
    }

    /// Locks a table, takes the snapshot, and reads what the catalog says.
    fn discover_table(session: &mut Session, name: &TableName, reads: &Reads, begun: bool, notes: &mut Vec<Note>) -> Result<Discovered> {
        let located = if begun {
            session.run(read_settings(reads.row_security))?;
            discover::locate(session, name)?
        } else {
            let located = discover::locate(session, name)?;
            lock(session, &located, reads)?;
            located
        };
        let relation = discover::relation_by_oid(session, located.oid)?;
        check_kind(&relation)?;
        check_row_security(session, &relation, reads, notes)?;
        let leaves = discover::leaves(session, relation.oid)?;
        let columns = relation.columns.clone();
        Ok((What::Relation(Box::new(relation)), columns, leaves))
    }

    /// Takes the snapshot and asks what a query returns.
    fn discover_query(session: &mut Session, query: String, reads: &Reads, begun: bool) -> Result<Discovered> {
        if begun {
            session.run(read_settings(reads.row_security))?;
        } else {
            begin(session, reads)?;
        }
        let columns = discover::query_columns(session, &query).map_err(|e| e.context("the query"))?;
        check_query_columns(&columns)?;
        Ok((What::Query(query, columns.clone()), columns, Vec::new()))
    }

    /// The columns that are read, in order.
    pub fn columns(&self) -> &[PgColumn] {
        &self.columns
    }

    fn plans(&self, form: Form) -> Result<Vec<ColumnPlan>> {
        self.columns.iter().map(|column| column_plan(form, self.reads.on_lossy, column)).collect()
    }

    /// All columns of what is read, also those that are left out.
    pub(super) fn all_columns(&self) -> &[PgColumn] {
        match &self.what {
            What::Relation(relation) => &relation.columns,
            What::Query(_, columns) => columns,
        }
    }

    pub(super) fn condition(&self) -> Option<&str> {
        self.reads.condition.as_deref()
    }

    /// Narrows the read by a further condition.
    pub(super) fn and(&mut self, condition: String) {
        self.narrowed = true;
        self.reads.condition = Some(match self.reads.condition.take() {
            Some(own) => format!("(\n{own}\n) AND {condition}"),
            None => condition,
        });
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.reads.order_by.is_some()
    }

    pub(super) fn limit(&self) -> Option<u64> {
        self.reads.limit
    }

    /// The name for messages.
    pub(super) fn relation_name(&self) -> String {
        match &self.what {
            What::Relation(relation) => relation.display(),
            What::Query(..) => "query".into(),
        }
    }

    /// As many of the lanes wanted as there are free connections for, with a note on fewer.
    pub(super) fn fitting(&self, session: &mut Session, wanted: usize, notes: &mut Vec<Note>) -> Result<usize> {
        if wanted < 2 {
            return Ok(wanted);
        }
        let (lanes, note) = slots::fit(session, &self.env.run_id, wanted, 1)?;
        notes.extend(note);
        Ok(lanes)
    }

    /// Makes the session the first of so many lanes; returns how many a pooler leaves, with a note on fewer.
    pub(super) fn start_lanes(&mut self, leader: Session, wanted: usize, notes: &mut Vec<Note>) -> Result<usize> {
        let pooled = leader.is_pooled();
        let (target, env, row_security) = (self.target.clone(), self.env.clone(), self.reads.row_security);
        let lanes = match &self.held {
            Some(held) => Lanes::under(Arc::clone(held), leader, target, env, row_security),
            None => Lanes::new(leader, target, env, row_security, wanted > 1)?,
        };
        let count = if pooled { lanes.open_ahead(wanted)? } else { wanted };
        if count < wanted {
            notes.push(Note::new(format!("{wanted} connections were wanted: the pooler has {count} for this read")));
        }
        self.lanes = Some(Arc::new(lanes));
        Ok(count)
    }

    pub(super) fn plain_list(&self) -> String {
        self.columns.iter().map(|c| quote_ident(&c.name)).collect::<Vec<_>>().join(", ")
    }

    /// Checks `cursor_column` and turns it into an order.
    fn resolve_order(&mut self, settings: &Settings) -> Result<()> {
        let Some(cursor) = settings.text("cursor_column") else { return Ok(()) };
        if self.reads.order_by.is_some() {
            return Err(Error::new(ErrorKind::Config, "both order_by and cursor_column are given").hint("give one of them"));
        }
        find_column(self.all_columns(), cursor)?;
        self.reads.order_by = Some(quote_ident(cursor));
        Ok(())
    }

    /// What a part is read from.
    pub(super) fn from(&self, part: &Part) -> String {
        match (part, &self.what) {
            (Part::Table(sql) | Part::Pages(sql, ..), _) => format!("ONLY {sql}"),
            (_, What::Relation(relation)) => relation.sql(),
            // Line breaks, so that a comment at the end of the user's text ends there.
            (_, What::Query(query, _)) => format!("(\n{query}\n) AS query"),
        }
    }

    /// `SELECT list FROM ... WHERE ... ORDER BY ...` for a part and its condition, without its limit unless `limited`.
    pub(super) fn select(&self, list: &str, condition: Option<String>, part: &Part, limited: bool) -> String {
        let own = self.reads.condition.as_ref().map(|condition| format!("(\n{condition}\n)"));
        let conditions: Vec<String> = condition.into_iter().chain(own).collect();
        let mut sql = format!("SELECT {list} FROM {}", self.from(part));
        if !conditions.is_empty() {
            sql.push_str(&format!(" WHERE {}", conditions.join(" AND ")));
        }
        if let Some(order) = &self.reads.order_by {
            sql.push_str(&format!(" ORDER BY {order}\n"));
        }
        if let Some(limit) = self.reads.limit.filter(|_| limited) {
            sql.push_str(&format!(" LIMIT {limit}"));
        }
        sql
    }

    /// The COPY statement for a part.
    fn copy_statement(&self, part: &Part, reading: &Reading) -> Result<String> {
        let (list, format) = match &reading.pass_through {
            Some(encoding) if encoding.format == "pgcopy-text" => (self.plain_list(), "text"),
            Some(_) => (self.plain_list(), "binary"),
            None => (self.plans(reading.form)?.iter().map(|plan| plan.select.clone()).collect::<Vec<_>>().join(", "), "binary"),
        };
        let condition = part.condition(self.all_columns())?;
        Ok(format!("COPY ({}) TO STDOUT (FORMAT {format})", self.select(&list, condition, part, true)))
    }

    /// Adds to the server's complaint which setting it is about.
    fn explain(&self, error: Error) -> Error {
        let error = error.object(self.name());
        let own = self.reads.condition.is_some() || self.reads.order_by.is_some();
        match error.code_text() {
            Some(code) if own && code.starts_with("42") && code != "42501" => {
                error.hint("check where, order_by and cursor_column: they are SQL for this table")
            }
            _ => error,
        }
    }
}

impl Source for PostgresSource {
    fn name(&self) -> String {
        self.relation_name()
    }

    fn estimate(&self) -> Estimate {
        let known = self.reads.condition.is_none() && !self.leaves.is_empty();
        let rows = self.leaves.iter().map(|leaf| leaf.rows).sum::<Option<u64>>().filter(|_| known);
        let bytes = Some(self.leaves.iter().map(Leaf::size).sum()).filter(|_| known && self.reads.limit.is_none());
        match (rows, self.reads.limit) {
            (Some(rows), Some(limit)) => Estimate { rows: Some(rows.min(limit)), bytes },
            (rows, _) => Estimate { rows, bytes },
        }
    }

    fn encodings(&self) -> Vec<Encoding> {
        let text = Encoding { format: "pgcopy-text", detail: String::new() };
        let binary = |detail: &str| Encoding { format: "pgcopy-binary", detail: detail.to_string() };
        let copies = match (self.columns.iter().map(portable).max().unwrap_or(Portable::Anywhere), &self.identity) {
            (Portable::Anywhere, _) => vec![binary(""), text],
            (Portable::SameDatabase, Some(identity)) => vec![binary(identity), text],
            _ => vec![text],
        };
        self.statement.iter().cloned().chain(copies).collect()
    }

    fn definition(&mut self) -> Result<Option<TableDefinition>> {
        match (&self.what, &mut self.leader) {
            (What::Relation(relation), Some(leader)) => super::definition::of(leader, relation).map(Some),
            _ => Ok(None),
        }
    }

    fn schema(&self, form: Form) -> Result<SchemaRef> {
        Ok(Arc::new(Schema::new(self.plans(form)?.into_iter().map(|plan| plan.field).collect::<Vec<_>>())))
    }

    fn notes(&self, form: Form) -> Vec<Note> {
        let columns = self.plans(form).unwrap_or_default();
        self.notes.iter().cloned().chain(columns.into_iter().filter_map(|plan| plan.note)).collect()
    }

    fn plan(&mut self, reading: &Reading) -> Result<ReadPlan> {
        let Some(mut leader) = self.leader.take() else { return Err(Error::internal("a PostgreSQL source was planned twice")) };
        self.reading = Some(reading.clone());
        if reading.pass_through.as_ref().is_some_and(|encoding| encoding.format == statement::FORMAT) {
            // It holds the table's shape as it was looked at.
            self.leader = Some(leader);
            let splits = vec![Split { id: 0, what: statement::SPLIT.into(), rows: None, bytes: self.estimate().bytes }];
            let method = "by the target's own server (pushdown): it is the same database".to_string();
            return Ok(ReadPlan { splits, method, lanes: 1, network: true, notes: Vec::new() });
        }
        let mut cut = self.cut(&mut leader, reading.degree)?;
        if cut.parts.len() > 1 && !self.narrowed {
            self.proof = self.take_proof(&mut leader)?;
        }
        let lanes = self.start_lanes(leader, cut.lanes, &mut cut.notes)?;
        let method = cut.described(lanes);
        let mut notes = cut.notes;
        if self.reads.limit.is_some() && self.reads.order_by.is_none() {
            notes.push(Note::new("a limit without order_by: which rows come is the server's choice"));
        }
        // The catalog's row counts are estimates: they are told by `estimate`, not as what a split will hold.
        let split =
            |(id, sized): (usize, Sized)| Split { id: id as u32, what: sized.part.to_string(), rows: None, bytes: Some(sized.bytes) };
        let splits = cut.parts.into_iter().enumerate().map(split).collect();
        let plan = ReadPlan { splits, method, lanes, network: true, notes };
        self.planned = Some(plan.clone());
        Ok(plan)
    }

    fn since(&mut self, stored: Option<&str>) -> Result<Option<String>> {
        self.narrow(stored)
    }

    fn fingerprint(&self) -> Option<String> {
        self.proof.as_ref().map(Proof::text)
    }

    fn resume(&mut self, reading: &Reading, earlier: &Earlier) -> Result<Reuse> {
        self.go_on(reading, earlier)
    }

    fn reopens(&self) -> bool {
        true
    }

    fn open(&self, split: &Split, from: &Position) -> Result<Box<dyn Reader>> {
        if split.what == statement::SPLIT {
            return Ok(Box::new(StatementReader::new(self.select(&self.plain_list(), None, &Part::All, true), split.id)));
        }
        let (Some(lanes), Some(reading)) = (&self.lanes, &self.reading) else {
            return Err(Error::internal("a PostgreSQL source was opened before it was planned"));
        };
        if from.as_number() != Some(0) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "a PostgreSQL read cannot go on in the middle of a split: its snapshot is gone",
            )
            .object(self.name())
            .hint("start the job again"));
        }
        let statement = self.copy_statement(&Part::parse(&split.what)?, reading)?;
        let session = lanes.take(split.id)?;
        let reader = CopyReader::start(session, &statement, lanes.clone(), split.id, self).map_err(|e| self.explain(e))?;
        Ok(Box::new(reader))
    }

    fn decoder(&self, form: Form) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(CopyDecoder::new(&self.name(), &self.plans(form)?, form, self.reads.on_lossy)))
    }

    fn digester(&self, encoding: &Encoding) -> Option<Box<dyn Digester>> {
        let binary = match encoding.format {
            "pgcopy-binary" => true,
            "pgcopy-text" => false,
            _ => return None,
        };
        Some(Box::new(CopyDigester::new(self.name(), self.columns.len(), binary)))
    }

    fn typed_digester(&self) -> Option<Box<dyn Digester>> {
        Some(Box::new(CopyDigester::new(self.name(), self.columns.len(), true)))
    }

    fn key(&mut self) -> Result<Vec<String>> {
        self.known_key()
    }

    fn again(&mut self, within: Option<&KeyRanges>) -> Result<Option<ReadPlan>> {
        Ok(self.once_more(within))
    }

    fn count(&mut self) -> Result<Option<u64>> {
        let Some(mut leader) = self.leader.take() else { return Ok(None) };
        let rows = self.select("1", None, &Part::All, true);
        let row = leader.row(&format!("SELECT pg_catalog.count(*) FROM ({rows}) AS counted"), &[]).map_err(|e| self.explain(e))?;
        self.leader = Some(leader);
        Ok(row.and_then(|row| row.text(0).parse().ok()))
    }

    fn shares(&self, split: &Split) -> bool {
        Part::parse(&split.what).is_ok_and(|part| part.is_by_key() && part.condition(self.all_columns()).is_ok())
    }

    fn watch(&self) -> Option<Box<dyn Watch>> {
        Waits::of(&self.target, &self.env, Side::Source)
    }

    fn finish(&mut self) -> Result<()> {
        // Every split has ended with the server's own count; how the transactions end changes nothing.
        if let Some(lanes) = self.lanes.take() {
            let _ = lanes.close();
        }
        // Under pushdown nobody has used it, and its lock would stand in the way of a sink that empties the same table.
        self.leader = None;
        Ok(())
    }
}

impl Reads {
    fn from(settings: &Settings) -> Result<Self> {
        let text = |name: &str| settings.text(name).map(str::trim).filter(|t| !t.is_empty()).map(str::to_string);
        let limit = settings.int("limit").map(u64::try_from).transpose();
        if !settings.flag("bulk_copy", true) {
            return Err(Error::new(ErrorKind::Unsupported, "bulk_copy=false: reading always uses COPY").hint("leave bulk_copy away"));
        }
        Ok(Self {
            condition: text("where"),
            order_by: text("order_by"),
            limit: limit.map_err(|_| Error::new(ErrorKind::Config, "setting \"limit\" must not be negative"))?,
            row_security: settings.choice("row_security").as_deref() == Some("on"),
            max_row_bytes: settings.bytes("max_row_bytes").unwrap_or(64 << 20),
            on_lossy: match settings.choice("on_lossy").as_deref() {
                Some("text") => OnLossy::Text,
                Some("null") => OnLossy::Null,
                Some("clamp") => OnLossy::Clamp,
                _ => OnLossy::Error,
            },
        })
    }
}

fn begin(session: &mut Session, reads: &Reads) -> Result<()> {
    session.begin(READ_ONLY)?;
    session.run(read_settings(reads.row_security))
}

/// Begins the transaction and locks the table before the first statement takes the snapshot: a table that is rewritten or truncated in
/// between would look empty to an older snapshot.
fn lock(session: &mut Session, located: &discover::Located, reads: &Reads) -> Result<()> {
    begin(session, reads)?;
    if located.readable && matches!(located.kind, RelationKind::Table | RelationKind::Partitioned) {
        session.run(&format!("LOCK TABLE {} IN ACCESS SHARE MODE", located.sql()))?;
    }
    Ok(())
}

fn check_kind(relation: &Relation) -> Result<()> {
    match relation.kind {
        RelationKind::Sequence | RelationKind::Other => {
            Err(Error::new(ErrorKind::Unsupported, format!("{} is a {}, not a table", relation.display(), relation.kind.word()))
                .object(relation.display()))
        }
        _ => Ok(()),
    }
}

/// Rows that are missing without a word are the worst outcome, so policies are an error unless they are wanted.
fn check_row_security(session: &mut Session, relation: &Relation, reads: &Reads, notes: &mut Vec<Note>) -> Result<()> {
    if !relation.row_security {
        return Ok(());
    }
    let role = session.role()?;
    if reads.row_security {
        notes.push(Note::new(format!("row-level security applies: only rows that are visible to role {role} are read")).lossy());
        return Ok(());
    }
    Err(Error::new(ErrorKind::Permission, format!("row-level security hides rows of this table from role {role}"))
        .object(relation.display())
        .hint("read as a role with BYPASSRLS (or as the table's owner), or set row_security=on to copy only what this role may see"))
}

/// Columns of a query must have names that tell them apart.
fn check_query_columns(columns: &[PgColumn]) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    match columns.iter().find(|column| !seen.insert(column.name.as_str())) {
        Some(double) => Err(Error::new(ErrorKind::Schema, "the query returns two columns of the same name")
            .column(&double.name)
            .hint("give one of them another name: SELECT a.id, b.id AS other_id")),
        None => Ok(()),
    }
}

/// The columns that `columns` asks for, in its order; all by default.
fn chosen(all: Vec<PgColumn>, settings: &Settings) -> Result<Vec<PgColumn>> {
    let names = match settings.list("columns") {
        Some(names) if !matches!(names.as_slice(), [one] if one.eq_ignore_ascii_case("auto")) => names,
        _ => return Ok(all),
    };
    if let Some((_, double)) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        return Err(Error::new(ErrorKind::Config, "a column is asked for twice").column(double));
    }
    names.iter().map(|name| find_column(&all, name).cloned()).collect()
}

pub(super) fn find_column<'a>(columns: &'a [PgColumn], name: &str) -> Result<&'a PgColumn> {
    columns.iter().find(|column| column.name == name).ok_or_else(|| {
        let error = Error::new(ErrorKind::NotFound, format!("there is no column {name:?}"));
        let same = columns.iter().find(|column| column.name.to_lowercase() == name.to_lowercase());
        match same.map(|c| c.name.as_str()).or_else(|| nearest(name, columns.iter().map(|c| c.name.as_str()))) {
            Some(near) if same.is_some() => error.hint(format!("did you mean {near:?}? only the case differs (names are exact here)")),
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error,
        }
    })
}

/// Columns that may refer to large objects, whose content stays behind.
fn large_objects(session: &mut Session, columns: &[PgColumn], notes: &mut Vec<Note>) -> Result<()> {
    const OID: u32 = 26;
    let suspects: Vec<&PgColumn> = columns.iter().filter(|column| column.base.oid == OID).collect();
    if suspects.is_empty() {
        return Ok(());
    }
    let some = session.row("SELECT EXISTS (SELECT FROM pg_catalog.pg_largeobject_metadata)", &[])?.is_some_and(|row| row.flag(0));
    for column in suspects {
        let declared = column.is_domain && column.type_name.rsplit('.').next() == Some("lo");
        if declared || some {
            let what = if declared { "refers to large objects" } else { "may refer to large objects (this database has some)" };
            notes.push(Note::column(&column.name, format!("{what}: their numbers are copied, their content is not")).lossy());
        }
    }
    Ok(())
}

/// How long a COPY that is given up may still take to end.
const GIVE_UP: std::time::Duration = std::time::Duration::from_secs(5);

/// One COPY that is going on.
struct CopyReader {
    copy: Option<CopyOut<Wire>>,
    lanes: Arc<Lanes>,
    split: u32,
    at: Position,
    read: u64,
    name: Arc<str>,
}

/// A session as the COPY holds it.
pub(super) struct Wire(pub(super) Session);

impl std::borrow::Borrow<haul_pgwire::Connection> for Wire {
    fn borrow(&self) -> &haul_pgwire::Connection {
        self.0.wire()
    }
}

impl std::borrow::BorrowMut<haul_pgwire::Connection> for Wire {
    fn borrow_mut(&mut self) -> &mut haul_pgwire::Connection {
        self.0.connection()
    }
}

impl CopyReader {
    fn start(session: Session, statement: &str, lanes: Arc<Lanes>, split: u32, source: &PostgresSource) -> Result<Self> {
        let copy = CopyOut::start(Wire(session), statement).map_err(session::error)?;
        let copy = copy.max_row_bytes(source.reads.max_row_bytes);
        Ok(Self { copy: Some(copy), lanes, split, at: Position::start(), read: 0, name: source.name().into() })
    }
}

impl Drop for CopyReader {
    /// A read that is given up early (the other side failed, and will be tried again) keeps its session: it holds the snapshot.
    fn drop(&mut self) {
        let Some(copy) = self.copy.take() else { return };
        if let Ok(Wire(mut session)) = copy.give_up(GIVE_UP)
            && session.run(BACK_TO_THE_SNAPSHOT).is_ok()
        {
            self.lanes.give(session);
        }
    }
}

impl Reader for CopyReader {
    fn next(&mut self) -> Result<Next> {
        let Some(copy) = &mut self.copy else { return Ok(Next::End) };
        let chunk = match copy.next_chunk(CHUNK) {
            Ok(chunk) => chunk,
            Err(error) => {
                self.copy = None;
                return Err(session::error(error).object(self.name.as_ref()));
            }
        };
        let Some(chunk) = chunk else {
            if let Some(copy) = self.copy.take() {
                self.lanes.give(copy.into_inner().0);
            }
            return Ok(Next::End);
        };
        self.read += chunk.rows;
        let to = Position::number(self.read);
        let span = Span { split: self.split, from: std::mem::replace(&mut self.at, to.clone()), to };
        let raw = Raw { bytes: chunk.bytes, records: Some(chunk.rows), ..Raw::default() };
        Ok(Next::Batch(Batch { spans: vec![span], payload: Payload::Raw(raw) }))
    }
}

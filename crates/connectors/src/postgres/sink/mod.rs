//! PostgreSQL as a sink: COPY on one connection and in one transaction per lane.
//!
//! Readers of the table see the old content until [`Sink::finish`] has returned. `append` copies into the table itself and commits
//! all lanes at the end; `truncate`, `replace` and `--create` fill a staging table (named after the run) and put it in place in
//! one transaction: by rename where nothing depends on the old table, else by emptying and refilling it. Values travel as
//! COPY BINARY, or COPY TEXT where a column has no exact binary writer, or untouched from another PostgreSQL.

mod finish;
mod mapping;
mod settings;
mod way;
mod writer;

#[cfg(test)]
mod tests;

pub use settings::SINK;

use super::catalog::{PgColumn, Relation, RelationKind, quote_ident};
use super::config::{self, TableName};
use super::ddl;
use super::discover;
use super::encode::{CopyEncoder, WriteColumns};
use super::session::{self, Session};
use super::text::TextEncoder;
use arrow_schema::SchemaRef;
use haul_model::{
    Encoder, Encoding, Endpoint, Environment, Error, ErrorKind, Finished, Form, Guarantee, Incoming, Note, OnLossy, Result, Settings, Sink,
    WritePlan, Writer, field_meta,
};
use mapping::Mapping;
use settings::{Format, Mode, Options};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use way::{Way, qualified};
use writer::{Done, LaneWriter};

/// Blocks of about this size are sent at once.
const BLOCK: usize = 256 << 10;

/// A table to write to.
pub struct PostgresSink {
    target: config::Target,
    env: Environment,
    options: Options,
    /// Server and database, for messages before the table is known.
    place: String,
    /// For looking at the catalog; one statement at a time.
    control: Option<Session>,
    identity: Option<String>,
    /// The table that `table` names, if it is there.
    found: Option<Relation>,
    planned: Option<Planned>,
    begun: bool,
}

/// What was decided.
struct Planned {
    way: Way,
    schema: String,
    name: String,
    staging: String,
    relation: Option<Relation>,
    targets: Vec<PgColumn>,
    column_list: String,
    /// CREATE TABLE of the staging table.
    create: Option<String>,
    columns: WriteColumns,
    had_rows: bool,
    /// Lanes that can be committed together.
    prepared: usize,
    transaction_name: String,
    /// For the result.
    remarks: Vec<String>,
    shared: Arc<Shared>,
}

impl Planned {
    fn staging_sql(&self) -> String {
        qualified(&self.schema, &self.staging)
    }
}

/// What all lanes know.
struct Shared {
    copy_sql: String,
    binary: bool,
    reject: bool,
    /// The table, for messages.
    table: String,
    /// Bare names: of the table that is copied into, and of the one that the user knows.
    names: (String, String),
    opened: AtomicU32,
    done: Mutex<Vec<Done>>,
}

impl Shared {
    /// A wire error of a COPY: with the place that the server names, and without the staging table's name.
    fn copy_error(&self, error: haul_pgwire::Error) -> Error {
        let place = error.server().and_then(session::copy_place);
        let error = session::error(self.unstaged(error)).object(&self.table);
        match place {
            // Several lanes share the source's rows: only alone does the count of a COPY say which row it was.
            Some((line, _)) if self.opened.load(Relaxed) == 1 && !self.reject => error.row(line),
            _ => error,
        }
    }

    fn row_error(&self, error: haul_pgwire::Error) -> Error {
        session::error(self.unstaged(error)).object(&self.table)
    }

    /// The error with the user's table name wherever the server wrote the staging table's.
    fn unstaged(&self, error: haul_pgwire::Error) -> haul_pgwire::Error {
        let (staging, own) = &self.names;
        match error {
            haul_pgwire::Error::Server(mut e) if staging != own => {
                let told = |text: &mut String| *text = text.replace(staging, own);
                told(&mut e.message);
                [&mut e.detail, &mut e.hint, &mut e.table, &mut e.constraint].into_iter().flatten().for_each(told);
                haul_pgwire::Error::Server(e)
            }
            other => other,
        }
    }

    fn gone(&self) -> Error {
        Error::internal("the lane has failed before").object(&self.table)
    }

    fn row_ranges(&self, payload: &[u8]) -> Option<Vec<Range<usize>>> {
        if self.binary { writer::binary_rows(payload) } else { writer::text_rows(payload) }
    }
}

impl PostgresSink {
    /// Connects and, if `table` is set, looks for it. Changes nothing.
    ///
    /// # Errors
    /// Config, connection, rights.
    pub fn open(endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Self> {
        let target = config::target(endpoint, settings, env)?;
        let options = Options::of(settings);
        let mut control = Session::open(&target, env, "plan")?;
        let identity = control.database_identity()?;
        let place = format!("{}/{}", control.host(), target.config.database);
        let found = match &target.table {
            Some(name) => look_up(&mut control, name)?.ok(),
            None => None,
        };
        Ok(Self { target, env: env.clone(), options, place, control: Some(control), identity, found, planned: None, begun: false })
    }

    fn session(&self, what: &str) -> Result<Session> {
        Session::open(&self.target, &self.env, what)
    }

    fn planned(&self) -> Result<&Planned> {
        self.planned.as_ref().ok_or_else(|| Error::internal("the PostgreSQL sink was not planned"))
    }

    /// The name that the user gave, or one made of the source's.
    fn table_name(&self, source: &str) -> Result<TableName> {
        match &self.target.table {
            Some(name) => Ok(name.clone()),
            None => default_name(source).ok_or_else(|| {
                Error::new(ErrorKind::Config, "no table to write to").object(&self.place).hint("name it: ?table=schema.name")
            }),
        }
    }

    /// The columns that are there, or that a CREATE TABLE would make; and that statement's list.
    fn columns(
        &self,
        control: &mut Session,
        table: &str,
        found: Option<&Relation>,
        incoming: &Incoming,
    ) -> Result<(Vec<PgColumn>, Option<String>)> {
        match found {
            Some(relation) => Ok((relation.columns.clone(), None)),
            None => {
                let columns = mapping::future_columns(control, table, &incoming.schema)?;
                Ok((columns, Some(ddl::column_list(&incoming.schema)?)))
            }
        }
    }

    fn plan_with(&mut self, control: &mut Session, incoming: &Incoming) -> Result<WritePlan> {
        let name = self.table_name(&incoming.source)?;
        let found = match look_up(control, &name)? {
            Ok(relation) => Some(relation),
            Err(_) if self.options.create => None,
            Err(error) => return Err(missing_table(error, &name)),
        };
        let (schema, own) = match &found {
            Some(relation) => (relation.schema.clone(), relation.name.clone()),
            None => (self.schema_for(control, &name)?, name.name.clone()),
        };
        let display = format!("{schema}.{own}");
        if let Some(relation) = &found {
            check_relation(control, relation)?;
        }
        let (columns, create) = self.columns(control, &display, found.as_ref(), incoming)?;
        let mapping = mapping::map(&display, &incoming.schema, &columns, self.options.on_lossy)?;
        if mapping.targets.is_empty() {
            return Err(Error::new(ErrorKind::Schema, "no column to write").object(display));
        }
        if incoming.pass_through.is_some() && !mapping.is_identity(&incoming.schema) {
            return Err(Error::internal("bytes were to pass through into other columns").object(display));
        }
        let binary = self.binary(&mapping, incoming)?;
        let had_rows = match &found {
            Some(relation) => has_rows(control, relation)?,
            None => false,
        };
        if had_rows && self.options.mode.is_none() {
            return Err(Error::new(ErrorKind::Exists, "the table has rows already, and the mode was not said")
                .object(display)
                .hint("--mode append adds to them, --mode replace and --mode truncate put the new rows in their place"));
        }
        let mut notes = mapping.notes.clone();
        let way = self.way(control, found.as_ref(), &mut notes)?;
        let staging = if way.is_staged() { way::staging_name(&self.env.run_id, &own) } else { own.clone() };
        let copied = qualified(&schema, &staging);
        let list = mapping.list();
        let create = staging_ddl(&way, &copied, &qualified(&schema, &own), create);
        let mut remarks = Vec::new();
        if let Some(relation) = &found {
            for column in mapping::sequence_columns(control, relation, &mapping.targets)? {
                let text = format!("the values of {column:?} come from the source: the sequence behind it is not moved");
                notes.push(Note::column(&column, text.clone()));
                remarks.push(text);
            }
        }
        let prepared = max_prepared(control)?;
        let guarantee = if way == Way::Append && prepared < 2 { Guarantee::AtLeastOnce } else { Guarantee::AllOrNothing };
        notes.extend(self.notes(&mapping, incoming, binary, guarantee));
        let format = if binary { "binary" } else { "text" };
        let shared = Shared {
            copy_sql: format!("COPY {copied} ({list}) FROM STDIN (FORMAT {format})"),
            binary,
            reject: self.options.reject,
            table: display.clone(),
            names: (staging.clone(), own.clone()),
            opened: AtomicU32::new(0),
            done: Mutex::default(),
        };
        let method = format!("COPY {} {}", format.to_uppercase(), described(&way, &copied));
        let ddl = shown_ddl(&way, create.as_deref(), &copied, &schema, &own);
        let columns = if self.options.format == Format::Text { mapping.columns.lenient() } else { mapping.columns };
        let run: String = self.env.run_id.chars().filter(char::is_ascii_alphanumeric).collect();
        self.planned = Some(Planned {
            way,
            schema,
            name: own,
            staging,
            relation: found,
            targets: mapping.targets,
            column_list: list,
            create,
            columns,
            had_rows,
            prepared,
            transaction_name: format!("haul_{run}_{}", std::process::id()),
            remarks,
            shared: Arc::new(shared),
        });
        Ok(WritePlan {
            method,
            ddl,
            columns: mapping.shown,
            notes,
            guarantee,
            own_connections: true,
            max_writers: (prepared >= 2 && guarantee == Guarantee::AllOrNothing && !self.is_staged()).then_some(prepared),
            block_bytes: BLOCK,
            run_bytes: None,
        })
    }

    fn is_staged(&self) -> bool {
        self.planned.as_ref().is_some_and(|p| p.way.is_staged())
    }

    fn schema_for(&self, control: &mut Session, name: &TableName) -> Result<String> {
        if name.name.len() > ddl::MAX_NAME {
            return Err(Error::new(
                ErrorKind::Schema,
                format!("the table name {:?} is {} bytes long, PostgreSQL keeps {}", name.name, name.name.len(), ddl::MAX_NAME),
            ));
        }
        let sql = "SELECT COALESCE($1, pg_catalog.current_schema()), pg_catalog.to_regnamespace(pg_catalog.quote_ident(COALESCE($1, pg_catalog.current_schema()))) IS NOT NULL";
        let row = control.row(sql, &[name.schema.as_deref()])?;
        let schema = row.as_ref().and_then(|row| row.get(0)).map(str::to_string);
        match (schema, row.is_some_and(|row| row.flag(1))) {
            (Some(schema), true) => Ok(schema),
            (schema, _) => Err(Error::new(ErrorKind::NotFound, format!("there is no schema {:?}", schema.unwrap_or_default()))
                .object(name.to_string())
                .hint("create it first: CREATE SCHEMA ...")),
        }
    }

    /// Whether COPY BINARY is used.
    fn binary(&self, mapping: &Mapping, incoming: &Incoming) -> Result<bool> {
        if let Some(encoding) = &incoming.pass_through {
            return Ok(encoding.format == "pgcopy-binary");
        }
        match (self.options.format, mapping.columns.text_only().as_slice()) {
            (Format::Text, _) => Ok(false),
            (Format::Binary, [column, ..]) => {
                Err(Error::new(ErrorKind::Unsupported, "the column has no binary writer, and copy_format=binary was asked for")
                    .column(*column)
                    .hint("leave copy_format=auto"))
            }
            (_, text_only) => Ok(text_only.is_empty()),
        }
    }

    fn way(&self, control: &mut Session, found: Option<&Relation>, notes: &mut Vec<Note>) -> Result<Way> {
        let Some(relation) = found else { return Ok(Way::Create) };
        let mode = self.options.mode.unwrap_or(Mode::Append);
        if mode == Mode::Append {
            return Ok(Way::Append);
        }
        let may = control.row("SELECT pg_catalog.has_schema_privilege($1, 'CREATE')", &[Some(&relation.schema)])?;
        if !may.is_some_and(|row| row.flag(0)) {
            return Err(Error::new(ErrorKind::Permission, format!("no right to create the staging table in schema {:?}", relation.schema))
                .object(relation.display())
                .hint("GRANT CREATE ON SCHEMA to this role, or empty the table yourself and use --mode append"));
        }
        if mode == Mode::Truncate && way::can_truncate(control, relation)? {
            return Ok(Way::Refill { truncate: true });
        }
        if mode == Mode::Replace {
            let obstacles = way::swap_obstacles(control, relation)?;
            if obstacles.is_empty() {
                notes.push(Note::new("nothing depends on the table: the new one takes its name by rename"));
                return Ok(Way::Swap);
            }
            notes.push(Note::new(format!("the table stays and its rows are replaced, because {}", obstacles.join(", "))));
        } else {
            notes.push(Note::new("the table is emptied by DELETE: foreign keys point to it, or this role may not TRUNCATE"));
        }
        way::check_delete(control, relation)?;
        Ok(Way::Refill { truncate: false })
    }

    fn notes(&self, mapping: &Mapping, incoming: &Incoming, binary: bool, guarantee: Guarantee) -> Vec<Note> {
        let mut notes = self.target.notes.clone();
        if incoming.pass_through.is_some() {
            notes.push(Note::new("rows pass through as the source's server sends them"));
        } else if !binary {
            let columns = mapping.columns.text_only();
            notes.push(Note::new(match columns.as_slice() {
                [] => "COPY TEXT: the server parses the values (copy_format=text)".to_string(),
                columns => format!("COPY TEXT, because only the server can parse {}", columns.join(", ")),
            }));
        }
        if guarantee == Guarantee::AtLeastOnce {
            notes.push(Note::new(
                "each lane commits on its own, one after the other at the very end: --degree 1, --mode replace, or a server with max_prepared_transactions makes it all or nothing",
            ));
        }
        notes
    }
}

/// Finds the table; the inner error says that it is not there.
fn look_up(session: &mut Session, name: &TableName) -> Result<Result<Relation>> {
    match discover::relation(session, name) {
        Ok(relation) => Ok(Ok(relation)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Err(error)),
        Err(error) => Err(error),
    }
}

fn missing_table(error: Error, name: &TableName) -> Error {
    let near = error.hint_text().filter(|h| h.starts_with("did you mean")).map(str::to_string);
    let error = Error::new(ErrorKind::NotFound, format!("there is no table {:?} to write to", name.to_string()));
    error.hint(match near {
        Some(near) => format!("{near}; --create makes a new one"),
        None => "--create makes it from the source's columns".into(),
    })
}

/// `/data/bench.csv.gz` and `public.orders` as table names.
fn default_name(source: &str) -> Option<TableName> {
    let file = source.rsplit(['/', '\\']).next()?;
    let known = ["csv", "tsv", "tab", "jsonl", "ndjson", "json", "parquet", "arrow", "arrows", "ipc", "feather", "gz", "zst", "lz4"];
    let mut stem = file;
    while let Some((rest, extension)) = stem.rsplit_once('.')
        && known.contains(&extension.to_ascii_lowercase().as_str())
    {
        stem = rest;
    }
    if stem.is_empty() || stem == "-" || stem == "query" || stem.contains(['*', '?']) || source == "standard input" {
        return None;
    }
    // A file's name is one name, dots and all; a table's is schema and name.
    if stem != source {
        return Some(TableName { schema: None, name: stem.to_string() });
    }
    match stem.split_once('.') {
        Some((schema, name)) => Some(TableName { schema: Some(schema.into()), name: name.into() }),
        None => Some(TableName { schema: None, name: stem.into() }),
    }
}

/// Refuses what COPY cannot write to.
fn check_relation(session: &mut Session, relation: &Relation) -> Result<()> {
    if !matches!(relation.kind, RelationKind::Table | RelationKind::Partitioned | RelationKind::Foreign) {
        return Err(Error::new(ErrorKind::Unsupported, format!("a {} cannot be copied into", relation.kind.word()))
            .object(relation.display())
            .hint("name the table behind it"));
    }
    let sql = "SELECT pg_catalog.has_any_column_privilege($1::pg_catalog.oid, 'INSERT')";
    if !session.row(sql, &[Some(&relation.oid.to_string())])?.is_some_and(|row| row.flag(0)) {
        return Err(Error::new(ErrorKind::Permission, "no right to insert into the table")
            .object(relation.display())
            .hint("GRANT INSERT to this role, or use another one"));
    }
    if relation.row_security {
        return Err(Error::new(ErrorKind::Permission, "the table has row-level security for this role, and COPY cannot obey it")
            .object(relation.display())
            .hint("use the owner, or a role with BYPASSRLS"));
    }
    Ok(())
}

fn has_rows(session: &mut Session, relation: &Relation) -> Result<bool> {
    let may = session.row("SELECT pg_catalog.has_table_privilege($1::pg_catalog.oid, 'SELECT')", &[Some(&relation.oid.to_string())])?;
    if !may.is_some_and(|row| row.flag(0)) {
        return Ok(false);
    }
    Ok(session.row(&format!("SELECT EXISTS (SELECT FROM {})", relation.sql()), &[])?.is_some_and(|row| row.flag(0)))
}

fn max_prepared(session: &mut Session) -> Result<usize> {
    let row = session.row("SELECT pg_catalog.current_setting('max_prepared_transactions')", &[])?;
    Ok(row.and_then(|row| row.parse(0)).unwrap_or(0))
}

/// The statement that makes the staging table.
fn staging_ddl(way: &Way, staging: &str, table: &str, columns: Option<String>) -> Option<String> {
    match (way, columns) {
        (Way::Create, Some(columns)) => Some(format!("CREATE TABLE {staging} ({columns})")),
        (Way::Swap, _) => Some(format!("CREATE TABLE {staging} (LIKE {table} INCLUDING ALL)")),
        // Refilling writes the rows once more, into the log too: once is enough.
        (Way::Refill { .. }, _) => Some(format!("CREATE UNLOGGED TABLE {staging} (LIKE {table} INCLUDING ALL)")),
        _ => None,
    }
}

fn shown_ddl(way: &Way, create: Option<&str>, staging: &str, schema: &str, name: &str) -> Vec<String> {
    let table = qualified(schema, name);
    let mut ddl: Vec<String> = create.into_iter().map(str::to_string).collect();
    let rename = format!("ALTER TABLE {staging} RENAME TO {}", quote_ident(name));
    match way {
        Way::Append => {}
        Way::Create => ddl.push(rename),
        Way::Swap => ddl.extend([format!("DROP TABLE {table}"), rename]),
        Way::Refill { truncate } => {
            let empty = if *truncate { "TRUNCATE" } else { "DELETE FROM" };
            ddl.extend([
                format!("{empty} {table}"),
                format!("INSERT INTO {table} SELECT ... FROM {staging}"),
                format!("DROP TABLE {staging}"),
            ]);
        }
    }
    ddl
}

fn described(way: &Way, staging: &str) -> String {
    match way {
        Way::Append => "into the table, committed at the end".into(),
        Way::Create => format!("into {staging}, which gets its name at the end"),
        Way::Swap => format!("into {staging}, which replaces the table by rename at the end"),
        Way::Refill { truncate: true } => format!("into {staging}; at the end one transaction truncates the table and inserts from it"),
        Way::Refill { truncate: false } => format!("into {staging}; at the end one transaction deletes the old rows and inserts from it"),
    }
}

impl PostgresSink {
    /// Whether a table made for these columns has the very types that they come from: types of the system, which are the same
    /// everywhere. A type of a user's own (its name has a schema) may be another one here, so its values are looked at.
    fn makes_the_same_types(&self, schema: &SchemaRef) -> bool {
        schema.fields().iter().all(|field| field_meta::source_type(field, "postgres").is_some_and(|t| !t.contains('.')))
    }
}

impl Sink for PostgresSink {
    fn name(&self) -> String {
        match (&self.planned, &self.target.table) {
            (Some(planned), _) => planned.shared.table.clone(),
            (None, Some(name)) => name.to_string(),
            (None, None) => self.place.clone(),
        }
    }

    /// Text: values that Arrow cannot hold arrive as PostgreSQL's own text, and are written exactly.
    fn form(&self) -> Form {
        Form::Text
    }

    fn accepts(&self, encoding: &Encoding, schema: &SchemaRef) -> bool {
        let format_fits = match encoding.format {
            "pgcopy-binary" => self.options.format != Format::Text,
            "pgcopy-text" => self.options.format != Format::Binary,
            _ => return false,
        };
        // OIDs inside values mean something only in their own database.
        let portable = encoding.detail.is_empty() || self.identity.as_deref() == Some(&encoding.detail);
        if !format_fits || !portable || self.options.reject {
            return false;
        }
        let Some(relation) = &self.found else { return self.options.create && self.makes_the_same_types(schema) };
        mapping::map(&relation.display(), schema, &relation.columns, OnLossy::Error).is_ok_and(|m| m.is_identity(schema))
    }

    fn plan(&mut self, incoming: &Incoming) -> Result<WritePlan> {
        let mut control = match self.control.take() {
            Some(control) => control,
            None => self.session("plan")?,
        };
        let plan = self.plan_with(&mut control, incoming);
        self.control = Some(control);
        plan
    }

    fn begin(&mut self) -> Result<()> {
        // Rows may take hours: no idle session is kept for the plan's sake.
        let mut control = match self.control.take() {
            Some(control) => control,
            None => self.session("begin")?,
        };
        let planned = self.planned()?;
        if let Some(create) = &planned.create {
            control.run(create).map_err(|e| e.object(&planned.shared.table))?;
        }
        self.begun = true;
        Ok(())
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        let planned = self.planned()?;
        Ok(if planned.shared.binary { Box::new(CopyEncoder::new(&planned.columns)?) } else { Box::new(TextEncoder::new(&planned.columns)) })
    }

    fn open(&self, lane: u32) -> Result<Box<dyn Writer>> {
        let planned = self.planned()?;
        let mut session = self.session(&format!("lane {lane}"))?;
        session.begin("")?;
        Ok(Box::new(LaneWriter::new(Arc::clone(&planned.shared), session)))
    }

    fn finish(&mut self) -> Result<Finished> {
        let lanes = {
            let shared = &self.planned()?.shared;
            std::mem::take(&mut *shared.done.lock().unwrap_or_else(PoisonError::into_inner))
        };
        self.settle(lanes)
    }

    fn abort(&mut self) -> Vec<String> {
        self.take_back()
    }
}

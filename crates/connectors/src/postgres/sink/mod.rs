//! PostgreSQL as a sink: COPY on one connection and in one transaction per lane.
//!
//! Readers of the table see the old content until [`Sink::finish`] has returned. `append` copies into the table itself and commits
//! all lanes at the end; `truncate`, `replace` and `--create` fill a staging table (named after the run) and put it in place in
//! one transaction: by rename where nothing depends on the old table, else by emptying and refilling it. Values travel as
//! COPY BINARY, or COPY TEXT where a column has no exact binary writer, or untouched from another PostgreSQL.

mod changes;
mod checkpoint;
mod finish;
mod keys;
mod mapping;
mod merge;
mod objects;
mod plan;
mod settings;
mod staging;
mod statements;
mod triggers;
mod way;
mod writer;

#[cfg(test)]
mod keyed_tests;
#[cfg(test)]
mod tests;

pub use checkpoint::COLUMNS as CHECKPOINT_COLUMNS;
pub use settings::SINK;

use super::catalog::{Relation, quote_ident};
use super::cdc::apply::{self, Apply};
use super::config;
use super::encode::{CopyEncoder, WriteColumns};
use super::session::{self, Session};
use super::statement;
use super::text::TextEncoder;
use super::watch::{Side, Waits};
use arrow_schema::SchemaRef;
use checkpoint::Notes;
use haul_model::{
    Encoder, Encoding, Endpoint, Environment, Error, ErrorKind, Finished, Form, Holds, Incoming, Left, Leftover, Mark, OnLossy, ReadBack,
    Result, RunId, Settings, Sink, SplitDone, Tracks, Watch, WritePlan, Writer, failpoint, field_meta,
};
use objects::Objects;
pub use objects::add_keys;
use settings::{Format, Options};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use triggers::Held;
use way::{Way, qualified};
use writer::{Done, LaneWriter};

/// Blocks of about this size are sent at once.
const BLOCK: usize = 256 << 10;

/// A table to write to.
pub struct PostgresSink {
    /// The encoding under which the server itself may move the rows, if it may.
    statement: Option<Encoding>,
    target: config::Target,
    env: Environment,
    options: Options,
    settings: Settings,
    /// Server and database, for messages before the table is known.
    place: String,
    /// For looking at the catalog; one statement at a time.
    control: Option<Session>,
    identity: Option<String>,
    /// The table that `table` names, if it is there.
    found: Option<Relation>,
    planned: Option<Planned>,
    begun: bool,
    /// Where a cursor stood before this run.
    position: Option<String>,
    /// What an earlier run that had finished has left.
    earlier: Vec<Leftover>,
    /// An earlier run has left splits that this one goes on with.
    goes_on: bool,
    /// What was confirmed, once everything is committed.
    settled: Option<Finished>,
    /// What comes are changes, to be applied.
    apply: Option<Apply>,
}

/// What was decided.
struct Planned {
    way: Way,
    /// For modes with a key.
    merging: Option<merge::Merging>,
    schema: String,
    name: String,
    staging: String,
    relation: Option<Relation>,
    column_list: String,
    /// CREATE TABLE of the staging table.
    create: Option<String>,
    /// What a new table gets beside its columns.
    objects: Objects,
    /// How triggers are held back in the last transaction.
    held: Held,
    /// What INSERT needs for the identity columns.
    overriding: &'static str,
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

    fn table_sql(&self) -> String {
        qualified(&self.schema, &self.name)
    }
}

/// What all lanes know.
#[derive(Clone, Default)]
struct Shared {
    /// The COPY; under [`statement`] the INSERT that a SELECT is put behind.
    copy_sql: String,
    statement: bool,
    binary: bool,
    reject: bool,
    /// The table, for messages.
    table: String,
    /// Bare names: of the table that is copied into, and of the one that the user knows.
    names: (String, String),
    /// Key columns, if there is a key.
    key: Vec<String>,
    /// Statements at the beginning of each transaction that copies.
    prelude: String,
    /// Where the rows of this lane wait to be merged.
    staged: Option<Arc<staging::Lane>>,
    opened: Arc<AtomicU32>,
    done: Arc<Mutex<Vec<Done>>>,
    /// The notes of a run that commits split by split.
    notes: OnceLock<Arc<Notes>>,
    /// For a run that does not, but whose end is to be noted.
    end: OnceLock<Arc<Notes>>,
    /// How far a cursor has got with this load.
    cursor: OnceLock<Arc<checkpoint::Cursor>>,
    /// The server process of each lane.
    backends: Arc<Mutex<HashMap<u32, i32>>>,
}

impl Shared {
    /// A wire error of a COPY: with the place that the server names, and without the staging table's name.
    fn copy_error(&self, error: haul_pgwire::Error) -> Error {
        let place = error.server().filter(|e| line_is_exact(&e.code)).and_then(session::copy_place);
        let error = self.row_error(error);
        match place {
            // Several lanes share the source's rows: only alone does the count of a COPY say which row it was.
            Some((line, _)) if self.opened.load(Relaxed) == 1 && !self.reject => error.row(line),
            _ => error,
        }
    }

    fn row_error(&self, error: haul_pgwire::Error) -> Error {
        let error = session::error(self.unstaged(error)).object(&self.table);
        let of_key = error.place().column.as_ref().is_some_and(|column| self.key.contains(column));
        match error.code_text() {
            Some("23502") if of_key => {
                error.hint("the column is part of the key, and NULL is the same as nothing: not even as another NULL")
            }
            _ => error,
        }
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
        let mut control = Session::shared(&target, env, "plan")?;
        let identity = control.database_identity()?;
        let place = format!("{}/{}", control.host(), target.config.database);
        let found = match &target.table {
            Some(name) => plan::look_up(&mut control, name)?.ok(),
            None => None,
        };
        let watched = match &found {
            Some(relation) => plan::is_watched(&mut control, relation)?,
            None => false,
        };
        let statement = if watched { None } else { statement::encoding(&mut control, &target, identity.as_deref())? };
        Ok(Self {
            statement,
            target,
            env: env.clone(),
            options,
            settings: settings.clone(),
            place,
            control: Some(control),
            identity,
            found,
            planned: None,
            begun: false,
            position: None,
            earlier: Vec::new(),
            goes_on: false,
            settled: None,
            apply: None,
        })
    }

    /// The session for looking, opened again if it was given up.
    fn control(&mut self) -> Result<Session> {
        match self.control.take() {
            Some(control) => Ok(control),
            None => self.session("plan"),
        }
    }

    fn session(&self, what: &str) -> Result<Session> {
        Session::shared(&self.target, &self.env, what)
    }

    fn planned(&self) -> Result<&Planned> {
        self.planned.as_ref().ok_or_else(|| Error::internal("the PostgreSQL sink was not planned"))
    }
}

/// Removes what killed runs have left at a target; what was removed, in words.
///
/// # Errors
/// Connection, rights.
pub fn clean(target: &config::Target, env: &Environment, left: &[Leftover]) -> Result<Vec<String>> {
    let mut session = Session::open(target, env, "clean")?;
    let mut removed = Vec::new();
    for left in left {
        removed.extend(checkpoint::clean(&mut session, &left.run, &left.what)?);
    }
    Ok(removed)
}

/// Whether the line that the server names is the row at fault. Rows are inserted in groups, and an error of the
/// insertion itself (a row too big for a page) names the last row read.
fn line_is_exact(code: &str) -> bool {
    matches!(code.get(..2), Some("22" | "23" | "P0"))
}

impl PostgresSink {
    /// Whether a table made for these columns has the very types that they come from: types of the system, which are the same
    /// everywhere. A type of a user's own (its name has a schema) may be another one here, so its values are looked at.
    fn makes_the_same_types(&self, schema: &SchemaRef) -> bool {
        schema.fields().iter().all(|field| field_meta::source_type(field, "postgres").is_some_and(|t| !t.contains('.')))
    }
}

impl PostgresSink {
    fn has_the_same_types(&self, schema: &SchemaRef) -> bool {
        let Some(relation) = &self.found else { return self.options.create && self.makes_the_same_types(schema) };
        mapping::map(&relation.display(), schema, &relation.columns, self.options.map_by(), OnLossy::Error)
            .is_ok_and(|m| m.is_identity(schema))
    }

    /// Whether the server may move the rows itself: nothing was asked for that needs them to come by here.
    fn takes_statement(&self, encoding: &Encoding, schema: &SchemaRef) -> bool {
        let options = &self.options;
        let plain = options.pushdown && options.format == Format::Auto && !options.reject && !options.commit_splits;
        let keyed = matches!(options.mode, Some(settings::Mode::Keyed(_)));
        plain && !keyed && self.statement.as_ref() == Some(encoding) && self.has_the_same_types(schema)
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

    fn types_decide(&self) -> bool {
        self.found.is_some()
    }

    fn accepts(&self, encoding: &Encoding, schema: &SchemaRef) -> bool {
        let format_fits = match encoding.format {
            apply::FORMAT => return !self.options.reject,
            statement::FORMAT => return self.takes_statement(encoding, schema),
            "pgcopy-binary" => self.options.format != Format::Text,
            "pgcopy-text" => self.options.format != Format::Binary,
            _ => return false,
        };
        // OIDs inside values mean something only in their own database.
        let portable = encoding.detail.is_empty() || self.identity.as_deref() == Some(&encoding.detail);
        if !format_fits || !portable || self.options.reject {
            return false;
        }
        self.has_the_same_types(schema)
    }

    fn plan(&mut self, incoming: &Incoming) -> Result<WritePlan> {
        let mut control = self.control()?;
        let plan = match incoming.pass_through.as_ref().filter(|encoding| encoding.format == apply::FORMAT) {
            Some(_) => self.plan_changes(&mut control, incoming),
            None if incoming.endless.is_some() => {
                Err(Error::new(ErrorKind::Unsupported, "rows without an end cannot be appended to a table; only changes can be applied")
                    .object(self.name()))
            }
            None => self.plan_with(&mut control, incoming),
        };
        self.control = Some(control);
        plan
    }

    fn left(&mut self, run: &RunId, leaves: &[String]) -> Result<Left> {
        let mut control = self.control()?;
        let left = checkpoint::look(&mut control, &run.run, leaves)?;
        self.control = Some(control);
        match &left {
            Left::Everything(_) => {
                self.earlier = leaves.iter().map(|what| Leftover { run: run.run.clone(), what: what.clone() }).collect();
            }
            Left::Splits(splits) => self.goes_on = !splits.is_empty(),
        }
        Ok(left)
    }

    fn track(&mut self, run: &RunId) -> Result<Tracks> {
        let mut control = self.control()?;
        let tracks = self.track_with(&mut control, run);
        self.control = Some(control);
        tracks
    }

    fn cursor(&mut self, cursor: &str) -> Result<Option<String>> {
        let mut control = self.control()?;
        let schema = self.found.as_ref().map(|relation| relation.schema.clone());
        let schema = schema.or_else(|| self.target.table.as_ref().and_then(|table| table.schema.clone()));
        let stored = match &schema {
            Some(schema) => checkpoint::cursor(&mut control, schema, cursor),
            // The table is still to be made.
            None => Ok(None),
        };
        self.control = Some(control);
        self.position = stored?;
        Ok(self.position.clone())
    }

    fn keep_cursor(&mut self, cursor: &str, position: &str) -> Result<bool> {
        let stored = self.position.clone();
        let planned = self.planned()?;
        let adds = planned.way == Way::Append || planned.way == Way::Create || planned.merging.is_some();
        if !adds {
            return Err(Error::new(
                ErrorKind::Config,
                "a cursor brings only what is new, and this mode takes away what earlier runs brought",
            )
            .object(self.name())
            .hint("use mode=append, or a mode with a key (upsert)"));
        }
        let mut control = self.control()?;
        let planned = self.planned()?;
        let unlogged = checkpoint::persistence(&mut control, &qualified(&planned.schema, &planned.name))?.unwrap_or(false);
        let kept = checkpoint::Cursor::new(&planned.schema, unlogged, cursor, stored, position);
        let _ = planned.shared.cursor.set(Arc::new(kept));
        self.control = Some(control);
        Ok(true)
    }

    fn note_end(&mut self, run: &RunId) -> Result<()> {
        let mut control = self.control()?;
        let noted = self.note_end_with(&mut control, run);
        self.control = Some(control);
        noted
    }

    fn leaves(&self) -> Vec<String> {
        let Some(planned) = self.planned.as_ref() else { return Vec::new() };
        let staging = match &planned.merging {
            Some(merging) => merging.staging.committed(),
            None if planned.way.is_staged() => vec![planned.staging_sql()],
            None => Vec::new(),
        };
        let staging = staging.into_iter().map(|table| format!("table {table}"));
        let noted = planned.shared.notes.get().is_some() || planned.shared.end.get().is_some();
        let notes = noted.then(|| checkpoint::leaf(&planned.schema));
        staging.chain(notes).collect()
    }

    fn takes_back(&self) -> bool {
        true
    }

    /// Changes only: rows that are appended again and again come with a later version.
    fn settles(&self) -> bool {
        true
    }

    fn marks(&self, _job: &str) -> Result<Vec<Mark>> {
        let mut session = self.session("marks")?;
        match &self.apply {
            Some(apply) => apply.marks(&mut session),
            None => apply::marks(&mut session),
        }
    }

    fn wants_definition(&self) -> bool {
        objects::wanted(&self.options)
    }

    fn writers(&mut self, count: usize, plan: &mut WritePlan) {
        if self.apply.is_some() {
            return;
        }
        self.settle_width(count, plan);
    }

    fn begin(&mut self) -> Result<()> {
        // Rows may take hours: no idle session is kept for the plan's sake.
        let mut control = self.control()?;
        if let Some(apply) = &self.apply {
            return apply.begin(&mut control);
        }
        let planned = self.planned()?;
        let fresh = !planned.way.is_staged() || !checkpoint::exists(&mut control, &planned.staging_sql())?;
        if fresh && !self.goes_on {
            self.before()?;
        }
        if let Some(create) = planned.create.as_ref().filter(|_| fresh) {
            planned.objects.rehearse(&mut control, create, &planned.staging_sql()).map_err(|e| e.object(&planned.shared.table))?;
            failpoint::pass("staging-before-create");
            control.run(create).map_err(|e| e.object(&planned.shared.table))?;
            failpoint::pass("staging-after-create");
        }
        if let Some(create) = planned.merging.as_ref().and_then(|m| m.create.as_ref()) {
            planned.objects.rehearse(&mut control, create, &planned.table_sql()).map_err(|e| e.object(&planned.shared.table))?;
        }
        self.begun = true;
        let planned = self.planned()?;
        if let Some(cursor) = planned.shared.cursor.get() {
            cursor.begin(&mut control)?;
        }
        match (planned.shared.notes.get(), planned.shared.end.get()) {
            (Some(notes), _) => notes.begin(&mut control, fresh && planned.way.is_staged()),
            (None, Some(end)) => end.begin(&mut control, false),
            (None, None) => Ok(()),
        }
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        let planned = self.planned()?;
        Ok(if planned.shared.binary { Box::new(CopyEncoder::new(&planned.columns)?) } else { Box::new(TextEncoder::new(&planned.columns)) })
    }

    fn open(&self, lane: u32) -> Result<Box<dyn Writer>> {
        if let Some(apply) = &self.apply {
            // Not one of those that are shared: its settings are its own.
            return apply.open(Session::open(&self.target, &self.env, "apply")?);
        }
        let planned = self.planned()?;
        let mut session = self.session(&format!("lane {lane}"))?;
        let process = session.wire().backend_pid();
        let backends = || planned.shared.backends.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = backends().get(&lane).copied();
        if let Some(earlier) = earlier.filter(|_| !session.is_pooled()) {
            checkpoint::fence(&mut session, earlier)?;
        }
        backends().insert(lane, process);
        writer::begin(&mut session, &planned.shared)?;
        let shared = match &planned.merging {
            None => Arc::clone(&planned.shared),
            Some(merging) => Arc::new(merging.staging.open(&planned.shared, &planned.column_list, &mut session, lane)?),
        };
        Ok(Box::new(LaneWriter::new(shared, session)))
    }

    fn durable(&self, split: u32) -> Result<Option<SplitDone>> {
        match self.planned()?.shared.notes.get() {
            Some(notes) => notes.of(&mut self.session("look")?, split),
            None => Ok(None),
        }
    }

    fn read_back(&self) -> Result<ReadBack> {
        let planned = self.planned()?;
        let columns: Vec<(usize, String)> = planned.columns.columns.iter().map(|column| (column.index, column.name.clone())).collect();
        let connection = config::CONNECTION.iter().filter(|setting| setting.name != "table");
        let mut settings: Vec<(String, String)> =
            connection.filter_map(|setting| Some((setting.name.to_string(), self.settings.text(setting.name)?.to_string()))).collect();
        settings.push(("table".into(), qualified(&planned.schema, &planned.name)));
        settings.push(("columns".into(), columns.iter().map(|(_, name)| quote_ident(name)).collect::<Vec<_>>().join(",")));
        // What the target cannot tell in another form is compared as text.
        settings.push(("on_lossy".into(), "text".into()));
        let holds = match planned.way {
            Way::Append => Holds::More,
            Way::Merge => Holds::Merged,
            Way::Create | Way::Swap | Way::Refill { .. } => Holds::Written,
        };
        Ok(ReadBack { at: None, settings, columns, holds, tokens: false })
    }

    fn watch(&self) -> Option<Box<dyn Watch>> {
        Waits::of(&self.target, &self.env, Side::Sink)
    }

    fn finish(&mut self) -> Result<Finished> {
        let mut finished = match self.settled.take() {
            // Called again, because what comes behind the last COMMIT has failed.
            Some(finished) => finished,
            None => {
                let shared = Arc::clone(&self.planned()?.shared);
                let lanes = std::mem::take(&mut *shared.done.lock().unwrap_or_else(PoisonError::into_inner));
                self.settle(lanes)?
            }
        };
        self.settled = Some(finished.clone());
        self.after(&mut finished)?;
        Ok(finished)
    }

    fn abort(&mut self) -> Vec<String> {
        self.take_back()
    }

    fn leave(&mut self) {
        if let Some(planned) = &self.planned {
            planned.shared.done.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        self.control = None;
    }

    fn forget(&mut self) -> Result<()> {
        // After a run that had finished before, nothing was planned: the earlier one's leaves say where to look.
        let shared = self.planned.as_ref().map(|planned| &planned.shared);
        let notes = shared.and_then(|shared| shared.notes.get().or_else(|| shared.end.get()));
        match (notes, std::mem::take(&mut self.earlier)) {
            (Some(notes), _) => notes.remove(&mut self.session("forget")?),
            (None, leaves) if leaves.is_empty() => Ok(()),
            (None, leaves) => {
                let mut session = self.session("forget")?;
                leaves.iter().try_for_each(|left| checkpoint::clean(&mut session, &left.run, &left.what).map(drop))
            }
        }
    }
}

//! The source: what is captured is found out when it is made; slot and publication are made when its one split is opened.

use super::apply::Origin;
use super::changes::FORMAT;
use super::decode::ChangesDecoder;
use super::events;
use super::place::Place;
use super::publication::{self, Publication};
use super::reader::ChangesReader;
use super::settings::{Capture, Events, Options};
use super::shape::Shapes;
use crate::postgres::catalog::{PgColumn, Relation};
use crate::postgres::config::{self, Target};
use crate::postgres::session::Session;
use crate::postgres::types::{ReadAs, column_plan};
use arrow_schema::SchemaRef;
use haul_model::{
    CheckLine, Decoder, Encoding, Endpoint, Environment, Error, ErrorKind, Form, Mark, Note, Position, ReadPlan, Reader, Reading, Result,
    Settings, Source, Split,
};
use std::sync::Arc;

/// What source, reader and decoders know.
pub(super) struct Subject {
    pub target: Target,
    pub env: Environment,
    pub options: Options,
    pub relations: Vec<Relation>,
    pub publication: Publication,
    pub slot: String,
    pub events: Events,
    pub shapes: Arc<Shapes>,
    pub version: u32,
    /// Cluster and database, where the role may know.
    pub identity: Option<String>,
}

impl Subject {
    /// Opens a session for SQL.
    pub fn session(&self, lane: &str) -> Result<Session> {
        Session::open(&self.target, &self.env, lane)
    }

    /// The slot, and where it is.
    pub fn slot_name(&self) -> String {
        let place = self.identity.clone().unwrap_or_else(|| {
            let hosts: Vec<String> = self.target.config.hosts.iter().map(ToString::to_string).collect();
            format!("{}/{}", hosts.join(","), self.target.config.database)
        });
        format!("slot {} of {place}", self.slot)
    }

    /// The stream's name: the same in every run, as long as it is of the same tables.
    pub fn stream(&self) -> String {
        let mut tables: Vec<String> = self.relations.iter().map(Relation::display).collect();
        tables.sort();
        format!("{}: {}", self.slot_name(), tables.join(", "))
    }

    /// The columns of a table that the stream has.
    pub fn streamed(relation: &Relation) -> Vec<PgColumn> {
        relation.columns.iter().filter(|c| !c.generated).cloned().collect()
    }
}

/// Tables whose changes are read.
pub struct CdcSource {
    subject: Arc<Subject>,
    notes: Vec<Note>,
    /// Whether values travel as the server's text.
    text: Option<bool>,
}

impl CdcSource {
    /// Connects, finds the tables and checks what can be checked. Changes nothing.
    ///
    /// # Errors
    /// Config, connection, missing tables, a publication that lacks one of them, a slot that is lost.
    pub fn open(endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Self> {
        let options = Options::of(settings)?;
        let target = config::target(endpoint, settings, env)?;
        let mut session = Session::open(&target, env, "cdc")?;
        if session.is_pooled() {
            return Err(Error::new(ErrorKind::Unsupported, "a pooler stands in between, and replication does not go through it")
                .object(session.host())
                .hint("connect to the server itself"));
        }
        publication::check_server(&mut session)?;
        let relations = publication::tables(&mut session, &options)?;
        let mut notes = target.notes.clone();
        notes.extend(publication::identities(&mut session, &relations)?);
        let name = default_name(&relations);
        let wanted = options.publication.clone().unwrap_or_else(|| name.clone());
        let publication = publication::publication(&mut session, &wanted, &relations, &mut notes)?;
        let slot = options.slot.clone().unwrap_or(name);
        match publication::slot(&mut session, &slot)? {
            Some(state) => publication::check_slot(&slot, &state, &target.config.database)?,
            None if options.capture != Capture::Snapshot => notes.push(Note::new(format!(
                "the slot {slot} will be made: until it is dropped (haul cdc drop), the server keeps all log that it has not delivered"
            ))),
            None => {}
        }
        let events = match options.events {
            Some(events) => events,
            None if relations.len() == 1 => Events::Columns,
            None => Events::Json,
        };
        if events == Events::Columns && relations.len() != 1 {
            return Err(Error::new(ErrorKind::Config, "events=columns needs one table: several have no columns in common")
                .hint("leave events out, or capture one table"));
        }
        if events == Events::Columns {
            events::check_names(&relations[0])?;
        }
        let (identity, version) = (session.database_identity()?, session.version());
        let (shapes, env) = (Arc::default(), env.clone());
        let subject = Subject { target, env, options, relations, publication, slot, events, shapes, version, identity };
        Ok(Self { subject: Arc::new(subject), notes, text: None })
    }

    /// Values come in binary, unless a column has only the server's text.
    fn needs_text(&self, form: Form) -> Result<bool> {
        if self.subject.version < 140_000 {
            return Ok(true);
        }
        let lossy = self.subject.options.on_lossy;
        for column in self.subject.relations.iter().flat_map(|r| r.columns.iter().filter(|c| !c.generated)) {
            // The old row is printed as JSON whatever the form is.
            if column_plan(form, lossy, column)?.read == ReadAs::ServerText
                || column_plan(Form::Json, lossy, column)?.read == ReadAs::ServerText
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A name that is the same for the same tables.
pub(super) fn default_name(relations: &[Relation]) -> String {
    let mut names: Vec<String> = relations.iter().map(Relation::sql).collect();
    names.sort();
    // FNV-1a.
    let hash = names.join(",").bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("haul_{hash:016x}")
}

impl CdcSource {
    /// What `haul check` says when nothing is wrong.
    pub(super) fn check_lines(&self) -> Vec<CheckLine> {
        let line = |what: &str, found: String| CheckLine { what: what.into(), ok: Some(true), found };
        let subject = &self.subject;
        let publication = if subject.publication.create.is_some() { "will be made" } else { "has all the tables" };
        let mut lines = vec![
            line("replication", "wal_level is logical, and the role may replicate".into()),
            line("tables", subject.relations.iter().map(Relation::display).collect::<Vec<_>>().join(", ")),
            line("publication", format!("{} {publication}", subject.publication.name)),
            line("slot", subject.slot.clone()),
        ];
        lines.extend(self.notes.iter().map(|note| CheckLine { what: "note".into(), ok: None, found: note.text.clone() }));
        lines
    }
}

impl Source for CdcSource {
    fn name(&self) -> String {
        match self.subject.relations.as_slice() {
            [one] => one.display(),
            _ => format!("the changes of {} tables", self.subject.relations.len()),
        }
    }

    fn encodings(&self) -> Vec<Encoding> {
        let tables = self.subject.relations.iter().map(Relation::display).collect();
        vec![Encoding {
            format: FORMAT,
            detail: Origin { identity: self.subject.identity.clone().unwrap_or_default(), stream: self.subject.stream(), tables }.print(),
        }]
    }

    fn schema(&self, form: Form) -> Result<SchemaRef> {
        events::schema(&self.subject, form)
    }

    fn notes(&self, form: Form) -> Vec<Note> {
        let mut notes = self.notes.clone();
        if self.subject.events == Events::Columns {
            let plans = Subject::streamed(&self.subject.relations[0]);
            let plans = plans.iter().filter_map(|c| column_plan(form, self.subject.options.on_lossy, c).ok());
            notes.extend(plans.filter_map(|plan| plan.note));
        }
        notes
    }

    fn endless(&self) -> bool {
        true
    }

    fn begin_at(&mut self, marks: &[Mark]) -> Result<()> {
        let (name, slot) = (self.subject.stream(), self.subject.slot_name());
        let Some(mark) = marks.iter().find(|mark| mark.split.starts_with(&slot)) else { return Ok(()) };
        if Place::of(&mark.position).is_none() {
            return Err(Error::new(ErrorKind::Config, "the target's mark is of another kind of job").object(&self.subject.slot));
        }
        if mark.split == name {
            return Ok(());
        }
        let before = mark.split.strip_prefix(&slot).unwrap_or_default().trim_start_matches(": ");
        Err(Error::new(
            ErrorKind::Config,
            format!("the slot's stream was begun with the tables {before}: others would come without the rows that they have now"),
        )
        .object(&self.subject.slot)
        .hint("say the same tables; or give --slot another name, and let it begin with a snapshot of all"))
    }

    fn plan(&mut self, reading: &Reading) -> Result<ReadPlan> {
        let text = reading.pass_through.is_some() || self.needs_text(reading.form)?;
        self.text = Some(text);
        let options = &self.subject.options;
        let what = match options.capture {
            Capture::Both => "the rows that are there, then the changes of",
            Capture::Stream => "the changes of",
            Capture::Snapshot => "the rows that are there in",
        };
        let values = if text { "text" } else { "binary" };
        Ok(ReadPlan {
            splits: vec![Split { id: 0, what: self.subject.stream(), rows: None, bytes: None }],
            method: format!(
                "{what} {} table(s), by slot {} and publication {} (pgoutput, {values})",
                self.subject.relations.len(),
                self.subject.slot,
                self.subject.publication.name
            ),
            lanes: 1,
            network: true,
            notes: Vec::new(),
        })
    }

    fn open(&self, split: &Split, from: &Position) -> Result<Box<dyn Reader>> {
        let text = self.text.ok_or_else(|| Error::internal("the changes are read before they are planned"))?;
        Ok(Box::new(ChangesReader::new(Arc::clone(&self.subject), split.id, from, text)?))
    }

    fn reopens(&self) -> bool {
        true
    }

    fn decoder(&self, form: Form) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(ChangesDecoder::new(Arc::clone(&self.subject), form)?))
    }
}

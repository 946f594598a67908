//! Writing: what a sink accepts and how the engine drives it.

use crate::{
    Block, Encoder, Encoding, Error, ErrorKind, Form, Left, Mark, Result, RunId, SplitDone, TableDefinition, TablePart, Watch, WritePlan,
};
use arrow_schema::SchemaRef;

/// What will be written.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Name of the source, for messages and default table names.
    pub source: String,
    /// The columns, in order. Under pass-through they describe the bytes.
    pub schema: SchemaRef,
    /// Bytes come as they are in this encoding; `None` = through this sink's encoder.
    pub pass_through: Option<Encoding>,
    /// What else the source's table is made of, if the sink wanted to know and the source does.
    pub definition: Option<TableDefinition>,
    /// Foreign keys are not made with the table: it is one of several, and they are handed back for when all are there.
    pub keys_later: bool,
    /// The job, where it is endless: the target is added to, nothing in it is replaced, and what was written becomes durable with every
    /// settling ([`Writer::settle`], [`Sink::settle`]). There is no `finish`; the job ends with [`Sink::leave`].
    pub endless: Option<String>,
}

impl Incoming {
    /// Rows with these columns, through the sink's encoder.
    pub fn new(source: impl Into<String>, schema: SchemaRef) -> Self {
        Self { source: source.into(), schema, pass_through: None, definition: None, keys_later: false, endless: None }
    }
}

/// A place to write to.
///
/// Life: `plan` (no side effects) -> `begin` -> `open` per lane, writers used, `close` each -> `finish`, or `abort` at any
/// point after `begin`. Until `finish` has returned `Ok`, a reader of the target sees the old content; after
/// `abort`, or a crash at any instant, it still does, as far as the plan's guarantee says.
/// Concurrency: `encoder` and `open` may be called from several threads.
pub trait Sink: Send + Sync {
    /// The name for messages: `out.jsonl`, `public.orders`. No secrets.
    fn name(&self) -> String;
    /// The form its encoder wants values in.
    fn form(&self) -> Form;
    /// Whether the target's own column types say what a value means, so that a format that marks its values (JSON) should hand
    /// them over as they are written: a JSON string into a json column stays a string, also if it looks like a number.
    fn types_decide(&self) -> bool {
        false
    }
    /// Whether bytes in `encoding` with these columns can be written untouched.
    fn accepts(&self, encoding: &Encoding, schema: &SchemaRef) -> bool;
    /// Whether `plan` has a use for [`Incoming::definition`].
    fn wants_definition(&self) -> bool {
        false
    }
    /// Checks everything that can be checked and says what will happen. Changes nothing.
    ///
    /// # Errors
    /// Anything that would make the job fail for certain: missing target, columns or types that do not fit, rights.
    fn plan(&mut self, incoming: &Incoming) -> Result<WritePlan>;
    /// Before `plan`, to go on with an earlier run: what it has left in the target. `leaves` is what [`Sink::leaves`] gave then. Changes
    /// nothing.
    ///
    /// # Errors
    /// The target cannot be looked at.
    fn left(&mut self, _run: &RunId, _leaves: &[String]) -> Result<Left> {
        Ok(Left::Splits(Vec::new()))
    }
    /// Between `plan` and `begin`, when a failed run would be worth going on with: from now on, each split is made durable on its own
    /// ([`Writer::commit`]) and noted with its rows. Changes nothing yet.
    ///
    /// # Errors
    /// The target cannot be looked at.
    fn track(&mut self, _run: &RunId) -> Result<Tracks> {
        Ok(Tracks::No("this target becomes durable only as a whole".into()))
    }
    /// Where the last run with this cursor has got to, if the target knows it. Before `plan`.
    ///
    /// # Errors
    /// The target cannot be looked at.
    fn cursor(&mut self, _cursor: &str) -> Result<Option<String>> {
        Ok(None)
    }
    /// Between `plan` and `begin`: with the last commit, this is where the cursor has got to. `false`: somebody else must keep it, after
    /// `finish`.
    ///
    /// # Errors
    /// `Config`: the rows of earlier runs would be lost.
    fn keep_cursor(&mut self, _cursor: &str, _position: &str) -> Result<bool> {
        Err(Error::new(ErrorKind::Config, "a cursor brings only what is new, and this target would lose what earlier runs brought")
            .object(self.name())
            .hint("write into a table with mode=append, or with a mode that has a key (upsert)"))
    }
    /// Between `plan` and `begin`, for a run whose splits are not tracked, but of which must be known later whether it has ended: where
    /// running it again would double rows, its last transaction notes that everything is in, for [`Sink::left`] to find.
    ///
    /// # Errors
    /// The target cannot be looked at.
    fn note_end(&mut self, _run: &RunId) -> Result<()> {
        Ok(())
    }
    /// What a run that is killed after `begin` may leave in the target, as [`crate::Connector::clean`] takes it. Known after `plan`.
    fn leaves(&self) -> Vec<String> {
        Vec::new()
    }
    /// Whether this run has made a split durable: asked when a commit was sent and its answer lost. A commit that may still come later
    /// counts as one that will not, and must not come any more.
    ///
    /// # Errors
    /// The target cannot be looked at.
    fn durable(&self, _split: u32) -> Result<Option<SplitDone>> {
        Ok(None)
    }
    /// Whether a writer that is dropped takes back all that it wrote since its last commit, so that it can be sent again.
    fn takes_back(&self) -> bool {
        false
    }
    /// Whether it can take an endless job: what was written can be made durable again and again.
    fn settles(&self) -> bool {
        false
    }
    /// Up to where earlier runs of an endless job are durable, as far as the target itself knows. Asked for before `plan`, and again after a
    /// failure, because a settling whose answer was lost may have been done all the same: one that may still come counts as one that
    /// will not, and must not come any more.
    ///
    /// # Errors
    /// The target cannot be looked at.
    fn marks(&self, _job: &str) -> Result<Vec<Mark>> {
        Ok(Vec::new())
    }
    /// Everything that all writers have written becomes durable, together with these marks. In place of [`Writer::settle`] where writers have
    /// no connections of their own: called while none of them writes. The rows that are durable since the last settling, counted by the
    /// target where it can.
    ///
    /// # Errors
    /// IO.
    fn settle(&self, _marks: &[Mark]) -> Result<u64> {
        Err(Error::new(ErrorKind::Unsupported, "an endless job cannot be written there").object(self.name()))
    }
    /// How many writers there will be is known now: called once between `plan` and `begin`, so that the plan can say what
    /// holds for so many (guarantee, order among rows).
    fn writers(&mut self, _count: usize, _plan: &mut WritePlan) {}
    /// Creates what writers need (temp file, staging table).
    ///
    /// # Errors
    /// IO, rights, connection.
    fn begin(&mut self) -> Result<()>;
    /// An encoder for the planned columns. One per worker. Not used under pass-through.
    ///
    /// # Errors
    /// The format's own.
    fn encoder(&self) -> Result<Box<dyn Encoder>>;
    /// A writer for worker `lane`.
    ///
    /// # Errors
    /// IO, connection.
    fn open(&self, lane: u32) -> Result<Box<dyn Writer>>;
    /// A look at what its server is doing for this job, where there is a server to ask.
    fn watch(&self) -> Option<Box<dyn Watch>> {
        None
    }
    /// All writers are closed: make the new content visible, atomically where the plan says so.
    ///
    /// # Errors
    /// The target could not be made durable or visible; the old content is still there.
    fn finish(&mut self) -> Result<Finished>;
    /// Takes everything back. Never fails; what could not be removed is returned as a note.
    fn abort(&mut self) -> Vec<String>;
    /// How a source at the same endpoint reads what was written, to prove it. Known after `plan`.
    ///
    /// # Errors
    /// `Unsupported`: it cannot be read again (a pipe).
    fn read_back(&self) -> Result<ReadBack> {
        Err(Error::new(ErrorKind::Unsupported, "what is written there cannot be read again").object(self.name()))
    }
    /// In place of `abort`, for a tracked run that is to be gone on with, and at the end of every endless job, whether it was stopped or
    /// failed: lets go of the target and leaves what is durable there.
    fn leave(&mut self) {}
    /// After `finish`, when nobody needs to know any more that the run has finished: removes the last note of it.
    ///
    /// # Errors
    /// The note is still there; it does no harm.
    fn forget(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Whether a sink makes each split durable on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tracks {
    /// In a place of its own, which nobody sees before the end.
    Aside,
    /// In the target itself, for all to see.
    Directly,
    /// No: one clause that says why.
    No(String),
}

/// How a target is read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadBack {
    /// Where it is, as an endpoint's text; `None`: at the sink's endpoint.
    pub at: Option<String>,
    /// All settings of the source.
    pub settings: Vec<(String, String)>,
    /// The columns that it reads, in order: which of those that were sent, and its name in the target. Some may not be written.
    pub columns: Vec<(usize, String)>,
    /// Which rows it has after the load.
    pub holds: Holds,
    /// Values come as JSON tokens, whatever they were: a text in quotes, a NULL as `null`.
    pub tokens: bool,
}

/// Which rows a target has after a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Those that were written, and no others.
    Written,
    /// Those that were there, and those that were written.
    More,
    /// Rows that were there and rows that were written, told apart by a key: which ones is not known here.
    Merged,
}

/// What the sink confirmed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finished {
    /// Rows that the sink confirmed itself (COPY tag, bytes re-counted): never the engine's counter echoed. With a key this
    /// counts the ignored and superseded ones too.
    pub rows: u64,
    /// Bytes written, as stored.
    pub bytes: u64,
    /// What became of the rows where a key decides it; their sum is `rows`.
    pub keyed: Option<Keyed>,
    /// What is still to be made of a new table, if that was asked for.
    pub keys_later: Option<KeysLater>,
    /// Remarks for the result.
    pub notes: Vec<String>,
}

/// Foreign keys of a new table that wait until the tables which they point to are there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeysLater {
    /// The source's table, as other tables' keys name it.
    pub source: String,
    /// The new table, in the words of its engine.
    pub target: String,
    /// The keys; `refers_to` names a source's table.
    pub keys: Vec<TablePart>,
}

/// What a mode with a key (upsert, insert-ignore, delete-insert) made of the rows. Counted by the other side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keyed {
    /// New rows.
    pub inserted: u64,
    /// Rows that were there and have new values.
    pub updated: u64,
    /// Rows whose key was there already, left out.
    pub ignored: u64,
    /// Rows that a later row of the same load has the key of, left out.
    pub superseded: u64,
    /// Old rows that had to go. They are the target's, not the load's: no part of the sum.
    pub deleted: u64,
}

impl Keyed {
    /// Rows of the load that are accounted for.
    pub fn confirmed(&self) -> u64 {
        self.written() + self.ignored + self.superseded
    }
    /// Rows of the load that the target now holds.
    pub fn written(&self) -> u64 {
        self.inserted + self.updated
    }
}

impl Finished {
    /// Rows of the load that the target now holds.
    pub fn written(&self) -> u64 {
        self.keyed.map_or(self.rows, |keyed| keyed.written())
    }
}

/// Where a block goes; made by [`Writer::reserve`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slot {
    /// Byte offset, for positional sinks.
    pub offset: u64,
}

/// One worker's way into the sink.
///
/// Ordering: `reserve` is called in the order of the split (the engine's turnstile); `write` may then run at the same
/// time as other workers' writes. A sink that cannot write positionally does its work in `reserve` and nothing in `write`.
pub trait Writer: Send {
    /// Takes the block's place. Short for positional sinks.
    ///
    /// # Errors
    /// IO.
    fn reserve(&mut self, block: &mut Block) -> Result<Slot>;
    /// The blocks that follow are of this split (its number). Called only where the plan asked for whole splits.
    ///
    /// # Errors
    /// IO, connection, a refused row of the split before.
    fn split(&mut self, _number: u32) -> Result<()> {
        Ok(())
    }
    /// Writes the block. Rows that the sink itself refused and that could be taken out are returned as
    /// (row inside the block, why), only when the sink was asked to reject rows.
    ///
    /// # Errors
    /// IO, connection, a refused row.
    fn write(&mut self, slot: Slot, block: &mut Block) -> Result<Vec<(u64, Error)>>;
    /// All blocks of a split have been written: makes them durable, together with this note, or not at all. `false`: not before
    /// `finish`. Called for tracked runs only, and only where the split's blocks all came to this writer.
    ///
    /// # Errors
    /// As `write`. After an error of the connection it is open whether it was done: the note in the target tells.
    fn commit(&mut self, _split: &str, _done: &SplitDone) -> Result<bool> {
        Ok(false)
    }
    /// Endless jobs, where writers have connections of their own: everything that this writer has written becomes durable, in one
    /// transaction with these marks (of the splits that it got rows of, or that have moved on without rows) where the target has
    /// transactions. The rows that are durable since the last settling, as the target counts them.
    ///
    /// # Errors
    /// IO, connection, a refused row. After an error of the connection it is open whether it was done: [`Sink::marks`] tells.
    fn settle(&mut self, _marks: &[Mark]) -> Result<u64> {
        Err(Error::internal("a writer that cannot settle got an endless job"))
    }
    /// No more blocks from this worker: send what is buffered and have it confirmed.
    ///
    /// # Errors
    /// IO, connection, a refused row.
    fn close(&mut self) -> Result<Vec<(u64, Error)>>;
}

//! Reading: what a source offers and how the engine drives it.

use crate::{
    Batch, Checkpoint, Decoder, Digester, Earlier, Error, ErrorKind, Form, Mark, Note, Position, ReadPlan, Result, Reuse, Span, Split,
    TableDefinition, Watch,
};
use arrow_schema::SchemaRef;
use std::time::Duration;

/// A raw encoding that bytes can pass through in, untouched. Two ends that name the same one are joined
/// without decoding; whatever makes bytes incompatible (dialect, types) belongs into `detail`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// `csv`, `jsonl`, `pgcopy-binary`, `pgcopy-text`.
    pub format: &'static str,
    /// What else must be equal.
    pub detail: String,
}

/// How the engine has decided to read.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Pass bytes through in this encoding; `None` = decode to columns.
    pub pass_through: Option<Encoding>,
    /// The form of the decoded values.
    pub form: Form,
    /// Readers wanted at once (0 = the source decides).
    pub degree: usize,
    /// The sink keeps the rows in the order of the splits: they are best read one after another.
    pub ordered: bool,
}

/// Ranges of a column of integers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRanges {
    /// The column.
    pub key: String,
    /// From and to, both inclusive; ascending, without overlap.
    pub ranges: Vec<(i64, i64)>,
}

/// What a source knows about its size without reading it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Estimate {
    /// Rows; exact only for formats that store the count.
    pub rows: Option<u64>,
    /// Bytes as they are stored.
    pub bytes: Option<u64>,
}

/// A place to read from, connected and with its schema known.
///
/// Ordering: records inside a split are read in a fixed order; splits have none among themselves.
/// Concurrency: `open` may be called from several threads; each [`Reader`] is used by one thread at a time.
pub trait Source: Send + Sync {
    /// The name for messages: `orders.csv`, `public.orders`. No secrets.
    fn name(&self) -> String;
    /// What it knows about its size.
    fn estimate(&self) -> Estimate {
        Estimate::default()
    }
    /// The raw encodings that it can emit, best first.
    fn encodings(&self) -> Vec<Encoding>;
    /// The schema that its decoder emits for `form`. Fields carry the source's own types as metadata.
    ///
    /// # Errors
    /// Types that cannot be carried at all in this form, named.
    fn schema(&self, form: Form) -> Result<SchemaRef>;
    /// Keys, indexes and the rest of the table that is read; `None` where there is no such table. Asked for before `plan`.
    ///
    /// # Errors
    /// The server's.
    fn definition(&mut self) -> Result<Option<TableDefinition>> {
        Ok(None)
    }
    /// What a user should know about reading in this form (lossy types, order, snapshot).
    fn notes(&self, _form: Form) -> Vec<Note> {
        Vec::new()
    }
    /// Before anything else, where the settings name a cursor: narrows the read to what is new since an earlier run, which has left `stored`
    /// (`None`: there was none). What is to be stored once all of it is durable; `None`: what is stored stays.
    ///
    /// # Errors
    /// A position that is not of this source; nothing grows here.
    fn since(&mut self, _stored: Option<&str>) -> Result<Option<String>> {
        Err(Error::new(ErrorKind::Unsupported, "this source cannot tell what is new").object(self.name()))
    }
    /// Whether its splits have no end: the job goes on until it is stopped, and what is read becomes durable bit by bit. Asked for before
    /// `plan`. Such a source plans at most as many splits as [`Reading::degree`] says (0: as it likes), because each has a worker of its own.
    fn endless(&self) -> bool {
        false
    }
    /// Before `plan`, for an endless source: up to where earlier runs of the same job are durable, as the target has it (empty where it
    /// keeps nothing). What is read begins behind these marks, whatever the source itself remembers.
    ///
    /// # Errors
    /// `Config`, `NotFound`: the source no longer has what follows a mark.
    fn begin_at(&mut self, _marks: &[Mark]) -> Result<()> {
        Ok(())
    }
    /// Fixes how it is read and cuts it into splits. Called once, before any `open`.
    ///
    /// # Errors
    /// The source is gone, or the method asked for is impossible.
    fn plan(&mut self, reading: &Reading) -> Result<ReadPlan>;
    /// What a later run needs to prove that the rows which are read now have not changed since. Asked for after `plan`, stored, and handed
    /// to [`Source::resume`]. `None`: this source cannot prove it, so an interrupted read starts again.
    fn fingerprint(&self) -> Option<String> {
        None
    }
    /// Called in place of `plan`, to go on with an earlier read: the same splits, of which `earlier.done` will not be opened again. With a
    /// yes, what was read of them then and what will be read of the others now is together exactly what the source holds now
    /// (or, if the user accepted that, each split is whole at its own instant).
    ///
    /// # Errors
    /// As `plan`.
    fn resume(&mut self, _reading: &Reading, _earlier: &Earlier) -> Result<Reuse> {
        Ok(Reuse::No("this source cannot tell whether it has changed".into()))
    }
    /// Whether a split may be opened again from its start after its reader has failed, and gives the same records.
    fn reopens(&self) -> bool {
        false
    }
    /// Opens a split after `from`.
    ///
    /// # Errors
    /// IO or connection.
    fn open(&self, split: &Split, from: &Position) -> Result<Box<dyn Reader>>;
    /// A decoder for what its readers emit. One per worker.
    ///
    /// # Errors
    /// The form is impossible for a column.
    fn decoder(&self, form: Form) -> Result<Box<dyn Decoder>>;
    /// What hashes the values of records in this encoding by their bytes, if it can be done without decoding them.
    fn digester(&self, _encoding: &Encoding) -> Option<Box<dyn Digester>> {
        None
    }
    /// As [`Source::digester`], for the records that go to its decoder: two sources whose schemas of a form are equal, source types included,
    /// give equal bytes for equal values in it. `None`: they must be decoded.
    fn typed_digester(&self) -> Option<Box<dyn Digester>> {
        None
    }
    /// The columns that tell its rows apart, in order, if it knows any. Before `plan`.
    ///
    /// # Errors
    /// Connection, rights.
    fn key(&mut self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    /// After `plan`, when its splits have been read: plans the same read once more, of the same instant and in the same form, at least the
    /// rows whose keys lie in these ranges. `None`: no such thing, so `plan` is called again.
    ///
    /// # Errors
    /// As `plan`.
    fn again(&mut self, _within: Option<&KeyRanges>) -> Result<Option<ReadPlan>> {
        Ok(None)
    }
    /// How many rows there are, where that can be asked for without reading them. Before `plan`.
    ///
    /// # Errors
    /// Connection, rights.
    fn count(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }
    /// Whether this split of another source tells by the rows' values which ones it has, so that it can be opened here too and has the same
    /// rows if the sources have.
    fn shares(&self, _split: &Split) -> bool {
        false
    }
    /// A look at what its server is doing for this job, where there is a server to ask.
    fn watch(&self) -> Option<Box<dyn Watch>> {
        None
    }
    /// After the sink's `finish`: everything up to here is durable. A source that remembers how far it was read (a consumer group) notes it.
    ///
    /// # Errors
    /// It could not be noted: the rows are there, and come again next time.
    fn settled(&mut self, _checkpoint: &Checkpoint) -> Result<()> {
        Ok(())
    }
    /// After the last reader has ended well: anything that must still be checked or released.
    ///
    /// # Errors
    /// The source changed under the read in a way that makes the result wrong.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What a reader has next.
#[derive(Debug)]
pub enum Next {
    /// Records.
    Batch(Batch),
    /// Nothing for now (endless sources only). The engine makes durable what it has, acknowledges it, and calls [`Reader::wait`] before it
    /// asks again.
    Idle,
    /// No more records.
    End,
}

/// An open split. Passive: the engine owns the loop.
///
/// `next` returns as soon as one record exists and fills a batch only from what is already there (up to about
/// 256 KiB, or one record if that is larger). It runs under a lock when workers share the split, so it does
/// no more than reading and framing. The spans of successive batches chain.
pub trait Reader: Send {
    /// The next records.
    ///
    /// # Errors
    /// IO, protocol, a record past `--max-row-bytes`, a compressed stream that ends early.
    fn next(&mut self) -> Result<Next>;
    /// These spans are durable in the sink. Called with contiguous prefixes.
    ///
    /// # Errors
    /// The source cannot note it.
    fn ack(&mut self, _spans: &[Span]) -> Result<()> {
        Ok(())
    }
    /// Once after `open` in endless jobs: what the target has of every split now, for readers whose spans are of splits that come and go. It is
    /// durable, as if it had been acknowledged.
    ///
    /// # Errors
    /// As [`Source::begin_at`].
    fn begin_at(&mut self, _marks: &[Mark]) -> Result<()> {
        Ok(())
    }
    /// The split with this number, where spans of one reader may be of splits that the plan does not have (partitions that a group hands
    /// out). Its number is not used for another one later.
    fn split(&self, _id: u32) -> Option<Split> {
        None
    }
    /// After [`Next::Idle`]: waits until there may be more, at most so long. Endless sources only.
    fn wait(&mut self, at_most: Duration) {
        std::thread::sleep(at_most.min(Duration::from_millis(1)));
    }
    /// Records that the source has beyond those read, where it can tell.
    fn lag(&self) -> Option<u64> {
        None
    }
}

//! The parts of a plan that connectors contribute.

use crate::Split;

/// Something the user should know before the job runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The column that it is about, if any.
    pub column: Option<String>,
    /// One clause.
    pub text: String,
    /// Whether information can be lost.
    pub lossy: bool,
}

impl Note {
    /// A plain note.
    pub fn new(text: impl Into<String>) -> Self {
        Self { column: None, text: text.into(), lossy: false }
    }
    /// A note about a column.
    pub fn column(column: impl Into<String>, text: impl Into<String>) -> Self {
        Self { column: Some(column.into()), text: text.into(), lossy: false }
    }
    /// Marks it as naming a lossy step.
    pub fn lossy(mut self) -> Self {
        self.lossy = true;
        self
    }
}

/// How the source will be read.
#[derive(Debug, Clone, Default)]
pub struct ReadPlan {
    /// The splits, in source order.
    pub splits: Vec<Split>,
    /// How it was cut and why, for the plan: `2 ctid ranges under one exported snapshot`.
    pub method: String,
    /// Readers that should be open at the same time (0 = the engine decides, 1 = one after the other).
    pub lanes: usize,
    /// Whether reading costs a connection each, so that `lanes` also bounds the workers.
    pub network: bool,
    /// Remarks.
    pub notes: Vec<Note>,
}

/// What a crash or failure leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// The target changes at once or not at all; a repeat gives the same target.
    AllOrNothing,
    /// Every row arrives at least once; a failed run may leave part of them, a repeat may double those.
    AtLeastOnce,
    /// Nothing is promised after a failure (a pipe).
    None,
}

impl std::fmt::Display for Guarantee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::AllOrNothing => "all or nothing",
            Self::AtLeastOnce => "at least once",
            Self::None => "none (a pipe cannot be taken back)",
        })
    }
}

/// One column's way from source to target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnMapping {
    /// Name in the source.
    pub source: String,
    /// The source's own type, or the Arrow type.
    pub source_type: String,
    /// Name in the target.
    pub target: String,
    /// The target's type.
    pub target_type: String,
    /// How it is carried, if there is something to say.
    pub note: Option<String>,
}

/// How the sink will be written.
#[derive(Debug, Clone)]
pub struct WritePlan {
    /// What `finish` makes of it: `temp file, fsync, rename`.
    pub method: String,
    /// Statements that will change the target, in order.
    pub ddl: Vec<String>,
    /// Column by column.
    pub columns: Vec<ColumnMapping>,
    /// Remarks.
    pub notes: Vec<Note>,
    /// What a failure leaves.
    pub guarantee: Guarantee,
    /// Whether every worker has its own connection, so that blocks need no order (databases).
    pub own_connections: bool,
    /// All rows of a split must go through one writer, in their order: as many workers as splits are open.
    pub whole_splits: bool,
    /// The blocks of a split may be taken only when those of all splits before it have been: one file in the order of the source, however
    /// many lanes read it.
    pub in_split_order: bool,
    /// Writers that the sink can use at once (`None`: any number).
    pub max_writers: Option<usize>,
    /// A block should hold about this many bytes of output before it is taken (row groups: large).
    pub block_bytes: usize,
    /// The encoder keeps building one block over many chunks (Parquet row groups); chunks of a shared split then
    /// go to one worker in runs of about this many input bytes.
    pub run_bytes: Option<usize>,
}

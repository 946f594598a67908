//! Haul's vocabulary: the words and contracts that every other crate is written in.
//!
//! A [`Source`] is read in [`Split`]s; a [`Reader`] yields [`Batch`]es whose [`Span`]s chain without
//! gap or overlap; a [`Decoder`] turns raw records into Arrow columns, [`Transform`]s map columns to
//! columns, an [`Encoder`] turns columns into bytes, and a [`Writer`] makes them durable in the [`Sink`].
//! Nothing here does IO, prints, or reads the environment.

mod batch;
mod catalog;
mod codec;
mod connector;
mod definition;
pub mod digest;
mod endpoint;
mod error;
pub mod failpoint;
mod form;
mod idle;
mod plan;
mod resume;
mod settings;
mod sink;
mod source;
mod split;
mod watch;

pub use batch::{Batch, Origin, Payload, Raw, Rows};
pub use catalog::{Catalog, Object, matches_pattern};
pub use codec::{Block, BlockBody, Decoder, Emit, Encoder, Plain, Rejects, Strict, Transform};
pub use connector::{CheckLine, Connector, ConnectorSpec, Environment, Example, Leftover};
pub use definition::{PartKind, TableDefinition, TablePart};
pub use digest::{ColumnSum, Digester, Hashes, Sums};
pub use endpoint::{Endpoint, Suffix, percent_decode, percent_encode, percent_encode_path};
pub use error::{Error, ErrorKind, Place, Result, ResultExt};
pub use form::{Form, OnLossy, field_meta};
pub use idle::Idle;
pub use plan::{ColumnMapping, Guarantee, Note, ReadPlan, WritePlan};
pub use resume::{Earlier, Held, Left, Reuse, RunId, Saved, SplitDone, StateStore};
pub use settings::{Kind, Setting, Settings, nearest, parse_bytes, parse_duration};
pub use sink::{Finished, Holds, Incoming, Keyed, KeysLater, ReadBack, Sink, Slot, Tracks, Writer};
pub use source::{Encoding, Estimate, KeyRanges, Next, Reader, Reading, Source};
pub use split::{Checkpoint, Mark, Position, Span, Split};
pub use watch::{RUNNING, Watch};

//! The contracts of the traits, checked against any source or sink. Every connector passes them; the memory endpoint
//! first.
//!
//! Sources: spans chain without gap or overlap; what is emitted has the schema that was announced; the end stays the
//! end; rows do not depend on degree, on which worker decodes, or on how the readers are interleaved; a read goes on
//! after any span's end. Sinks: planning changes nothing; nothing is visible before `finish`; `abort` takes all of it
//! back; `finish` reports the rows that are there; several writers write at once, positionally out of order.

mod sink;
mod source;

pub use sink::{Target, sink};
pub use source::{ReadCase, source};

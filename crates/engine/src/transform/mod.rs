//! Columns to columns, between decoder and encoder: casts, JSON Schema, projection.
//!
//! A transform is stateless, shared by all workers, and sees one batch at a time. A value either becomes exactly what was asked
//! for, or its row goes to [`haul_model::Rejects`], which stops the job at it or takes the row out; rows are told in their order.

mod bad_rows;
mod cast;
mod convert;
mod filter;
mod flatten;
mod infer;
mod json_schema;
mod keep;
mod prepared;
mod project;
mod rate;
mod suffix;
mod type_names;

pub use cast::{AskedBy, Cast};
pub use filter::Filter;
pub use flatten::Flatten;
pub use infer::{infer, infer_after};
pub use json_schema::JsonSchema;
pub use keep::KeepKeys;
pub use project::Project;
pub use rate::Rate;
pub use suffix::{Chain, SETTINGS, STEPS, engine_settings, parse_suffix};
pub use type_names::{MAX_PRECISION, TypeName, parse_casts};

#[cfg(test)]
mod tests;

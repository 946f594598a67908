//! Tests of this folder; the oracle is serde_json.

mod encode;
mod scanner;

//! Tests of this folder; the oracle is serde_json.

mod decode;
mod encode;
mod readers;
mod round_trip;
mod scanner;

//! One module per command.

pub mod cdc;
pub mod check;
pub mod connectors;
pub mod copy;
pub mod demo;
pub mod diff;
pub mod generate;
pub mod plan;
pub mod run;
pub mod schema;
pub mod state;

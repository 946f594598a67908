//! Connectors: one folder per system.

pub mod postgres;

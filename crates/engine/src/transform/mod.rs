//! Columns to columns.

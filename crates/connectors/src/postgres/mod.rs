//! PostgreSQL: reading by COPY in snapshot-consistent lanes, writing by COPY.

pub mod catalog;

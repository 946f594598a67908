//! CSV and TSV.

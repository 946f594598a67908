//! Changes as rows: which columns an event has.
//!
//! | column | content |
//! |---|---|
//! | `_op` | `read` (of the snapshot), `insert`, `update`, `delete`, `truncate` |
//! | `_lsn` | where the transaction's commit record begins |
//! | `_seq` | number of the change in its transaction; `(_lsn, _seq)` is unique, and in commit order |
//! | `_xid` | the transaction; NULL for the snapshot |
//! | `_commit_ts` | when it committed; NULL for the snapshot |
//! | `_table` | `schema.table` |
//! | `_old` | JSON: what the server sent of the row before: the key that an update changed, or all of it (replica identity full) |
//! | `_absent` | JSON: the columns that the event does not have: large values that an update did not touch, and beside the key everything that a delete took |
//!
//! Then the table's own columns, or all of them in `_row`, where what is absent is left out. A delete has the columns of the old row.

use super::settings::Events;
use super::source::Subject;
use crate::postgres::catalog::Relation;
use crate::postgres::types::column_plan;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use haul_model::{Error, ErrorKind, Form, Result, field_meta};
use std::sync::Arc;

/// Columns before the row's own.
pub const META: [&str; 8] = ["_op", "_lsn", "_seq", "_xid", "_commit_ts", "_table", "_old", "_absent"];
/// Where the row is, if it has no columns of its own.
pub const ROW: &str = "_row";

/// The fields of an event before the row's own.
pub fn meta(form: Form, events: Events) -> Vec<Field> {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8View, nullable);
    let json = |name: &str| field_meta::with(text(name, true), field_meta::EXTENSION, field_meta::JSON);
    let at = match form {
        Form::Typed => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        _ => DataType::Utf8View,
    };
    let commit = field_meta::with(Field::new("_commit_ts", at, true), field_meta::SOURCE_TYPE, "postgres:timestamp with time zone");
    let mut fields = vec![
        text("_op", false),
        field_meta::with(text("_lsn", false), field_meta::SOURCE_TYPE, "postgres:pg_lsn"),
        Field::new("_seq", DataType::Int64, false),
        Field::new("_xid", DataType::Int64, true),
        commit,
        text("_table", false),
        json("_old"),
    ];
    fields.push(json(if events == Events::Columns { "_absent" } else { ROW }));
    fields
}

/// The schema of the events.
///
/// # Errors
/// A type that cannot be carried in this form.
pub fn schema(subject: &Subject, form: Form) -> Result<SchemaRef> {
    let mut fields = meta(form, subject.events);
    if subject.events == Events::Columns {
        for column in Subject::streamed(&subject.relations[0]) {
            fields.push(column_plan(form, subject.options.on_lossy, &column)?.field.with_nullable(true));
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The table's own columns must not have the names of the others.
///
/// # Errors
/// `Schema`.
pub fn check_names(relation: &Relation) -> Result<()> {
    match relation.columns.iter().find(|c| META.contains(&c.name.as_str())) {
        Some(column) => Err(Error::new(ErrorKind::Schema, "the table has a column with the name of one that every event has")
            .object(relation.display())
            .column(&column.name)
            .hint("--events json puts the row's own columns into _row")),
        None => Ok(()),
    }
}

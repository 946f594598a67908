//! Incoming columns to target columns, by name. Everything that does not fit is found before a row moves, and told at once.

use crate::postgres::catalog::{PgColumn, Relation, quote_ident};
use crate::postgres::ddl;
use crate::postgres::discover;
use crate::postgres::encode::WriteColumns;
use crate::postgres::session::Session;
use arrow_schema::{Field, Schema};
use haul_model::{ColumnMapping, Error, ErrorKind, Note, OnLossy, Result, field_meta};

/// How the incoming columns meet the table.
pub(super) struct Mapping {
    pub columns: WriteColumns,
    /// Target columns in COPY order.
    pub targets: Vec<PgColumn>,
    pub shown: Vec<ColumnMapping>,
    pub notes: Vec<Note>,
}

impl Mapping {
    /// The COPY column list.
    pub fn list(&self) -> String {
        self.targets.iter().map(|c| quote_ident(&c.name)).collect::<Vec<_>>().join(", ")
    }

    /// Whether every incoming column is written, in incoming order, into the type that it came from.
    pub fn is_identity(&self, schema: &Schema) -> bool {
        self.targets.len() == schema.fields().len()
            && schema.fields().iter().zip(&self.targets).all(|(f, c)| field_meta::source_type(f, "postgres") == Some(c.type_name.as_str()))
    }
}

/// Maps by name.
///
/// # Errors
/// `Schema`, listing every difference: columns that are missing, types that do not fit, NOT NULL columns that nothing fills.
pub(super) fn map(table: &str, schema: &Schema, columns: &[PgColumn], on_lossy: OnLossy) -> Result<Mapping> {
    ddl::check_names(schema).map_err(|e| e.object(table))?;
    let mut differences = Vec::new();
    let (mut pairs, mut notes, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    for (index, field) in schema.fields().iter().enumerate() {
        match columns.iter().find(|c| c.name == *field.name()) {
            Some(column) if column.generated => {
                notes.push(Note::column(&column.name, "is left out: the table generates it"));
            }
            Some(column) => pairs.push((index, field.as_ref().clone(), column.clone())),
            None => differences.push(missing(field, columns)),
        }
    }
    for column in columns {
        let filled = schema.fields().iter().any(|f| *f.name() == column.name);
        if !filled && column.not_null && !column.has_default && !column.generated {
            differences
                .push(format!("the table's column {:?} is NOT NULL without a default, and the source has no such column", column.name));
        }
    }
    let write = match WriteColumns::new(table, &pairs, on_lossy) {
        Ok(write) => Some(write),
        Err(error) => {
            differences.push(error.detail().trim_start_matches("types do not fit: ").to_string());
            None
        }
    };
    let Some(write) = write.filter(|_| differences.is_empty()) else {
        return Err(Error::new(ErrorKind::Schema, format!("the columns do not fit: {}", differences.join("; ")))
            .object(table)
            .hint("rename, drop or cast columns of the source (--rename, --columns, --cast), or change the table"));
    };
    for (_, field, column) in &pairs {
        let source_type = field_meta::source_type(field, "postgres").map_or_else(|| field.data_type().to_string(), str::to_string);
        shown.push(ColumnMapping {
            source: field.name().clone(),
            source_type,
            target: column.name.clone(),
            target_type: column.type_name.clone(),
            note: None,
        });
    }
    Ok(Mapping { columns: write, targets: pairs.into_iter().map(|(_, _, c)| c).collect(), shown, notes })
}

fn missing(field: &Field, columns: &[PgColumn]) -> String {
    let name = field.name();
    let folded = columns.iter().find(|c| c.name.to_lowercase() == name.to_lowercase());
    match folded {
        Some(column) => format!("the table has no column {name:?} (it has {:?}: only the case differs)", column.name),
        None => match haul_model::nearest(name, columns.iter().map(|c| c.name.as_str())) {
            Some(near) => format!("the table has no column {name:?} (the nearest is {near:?})"),
            None => format!("the table has no column {name:?}"),
        },
    }
}

/// The columns that `CREATE TABLE` would make, as the server sees their types.
///
/// # Errors
/// `Schema` for a type that does not exist there.
pub(super) fn future_columns(session: &mut Session, table: &str, schema: &Schema) -> Result<Vec<PgColumn>> {
    ddl::column_list(schema).map_err(|e| e.object(table))?;
    if schema.fields().is_empty() {
        return Err(Error::new(ErrorKind::Schema, "the source has no columns").object(table));
    }
    let mut selected = Vec::new();
    for field in schema.fields() {
        let type_name = ddl::column_type(field)?;
        let known = session.row("SELECT pg_catalog.to_regtype($1) IS NOT NULL", &[Some(without_modifier(&type_name).as_str())])?;
        if !known.is_some_and(|row| row.flag(0)) {
            return Err(Error::new(ErrorKind::Schema, format!("the type {type_name} does not exist in the target"))
                .object(table)
                .column(field.name())
                .hint("create the type first (pg_dump --schema-only of the source shows it), or --cast the column to text"));
        }
        selected.push(format!("NULL::{type_name} AS {}", quote_ident(field.name())));
    }
    let mut columns = discover::query_columns(session, &format!("SELECT {}", selected.join(", ")))?;
    for (column, field) in columns.iter_mut().zip(schema.fields()) {
        column.type_name = ddl::column_type(field)?;
        column.not_null = !field.is_nullable();
    }
    Ok(columns)
}

/// `numeric(12,3)[]` as `numeric[]`: `to_regtype` takes no modifiers before version 16.
fn without_modifier(type_name: &str) -> String {
    let Some(open) = type_name.find('(').filter(|_| !type_name.contains('"')) else { return type_name.to_string() };
    let close = type_name[open..].find(')').map_or(type_name.len(), |c| open + c + 1);
    format!("{}{}", &type_name[..open], &type_name[close..])
}

/// Columns whose values come from a sequence: loading explicit values does not move it.
pub(super) fn sequence_columns(session: &mut Session, relation: &Relation, targets: &[PgColumn]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for column in targets {
        let sql = "SELECT pg_catalog.pg_get_serial_sequence($1, $2) IS NOT NULL";
        if column.has_default && session.row(sql, &[Some(&relation.sql()), Some(&column.name)])?.is_some_and(|row| row.flag(0)) {
            found.push(column.name.clone());
        }
    }
    Ok(found)
}

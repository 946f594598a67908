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

/// How columns find each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// Exact names.
    Name,
    /// The first to the first. Generated columns take part only if the source has a column for each of the table's.
    Position,
}

/// Maps columns by name or position.
///
/// # Errors
/// `Schema`, listing every difference: columns that are missing, types that do not fit, NOT NULL columns that nothing fills.
pub(super) fn map(table: &str, schema: &Schema, columns: &[PgColumn], by: By, on_lossy: OnLossy) -> Result<Mapping> {
    ddl::check_names(schema).map_err(|e| e.object(table))?;
    let mut differences = Vec::new();
    let found = match by {
        By::Name => by_name(schema, columns, &mut differences),
        By::Position => by_position(schema, columns).map_err(|e| e.object(table))?,
    };
    let (mut pairs, mut notes) = (Vec::new(), Vec::new());
    for (index, field, column) in &found {
        match column.generated {
            true => notes.push(Note::column(&column.name, "is left out: the table generates it")),
            false => pairs.push((*index, (*field).clone(), (*column).clone())),
        }
    }
    let filled = |column: &PgColumn| found.iter().any(|(_, _, c)| c.name == column.name);
    for column in columns.iter().filter(|c| !filled(c)) {
        if column.not_null && !column.has_default && !column.generated {
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
    let mut shown: Vec<ColumnMapping> = found.iter().map(|(_, field, column)| shown(Some(field), column)).collect();
    shown.extend(columns.iter().filter(|c| !filled(c)).map(|column| self::shown(None, column)));
    Ok(Mapping { columns: write, targets: pairs.into_iter().map(|(_, _, c)| c).collect(), shown, notes })
}

type Found<'a> = Vec<(usize, &'a Field, &'a PgColumn)>;

fn by_name<'a>(schema: &'a Schema, columns: &'a [PgColumn], differences: &mut Vec<String>) -> Found<'a> {
    let mut found = Vec::new();
    for (index, field) in schema.fields().iter().enumerate() {
        match columns.iter().find(|c| c.name == *field.name()) {
            Some(column) => found.push((index, field.as_ref(), column)),
            None => differences.push(missing(field, columns)),
        }
    }
    found
}

fn by_position<'a>(schema: &'a Schema, columns: &'a [PgColumn]) -> Result<Found<'a>> {
    let writable: Vec<&PgColumn> = columns.iter().filter(|c| !c.generated).collect();
    let fields = schema.fields().len();
    let targets = if fields == writable.len() { writable } else { columns.iter().collect() };
    if fields != targets.len() {
        let generated = targets.iter().filter(|c| c.generated).count();
        let but = if generated > 0 { format!(" ({generated} of them generated)") } else { String::new() };
        return Err(Error::new(
            ErrorKind::Schema,
            format!("the source has {fields} columns and the table {}{but}, so they cannot be mapped by position", targets.len()),
        )
        .hint("--columns chooses columns of the source; --map name maps by name and leaves the others to their defaults"));
    }
    Ok(schema.fields().iter().map(AsRef::as_ref).zip(targets).enumerate().map(|(i, (field, column))| (i, field, column)).collect())
}

/// A line of the plan's table of columns.
fn shown(field: Option<&Field>, column: &PgColumn) -> ColumnMapping {
    let source_type = |f: &Field| field_meta::source_type(f, "postgres").map_or_else(|| f.data_type().to_string(), str::to_string);
    let note = match (field, column.generated, column.identity) {
        (_, true, _) => Some("generated by the table"),
        (Some(_), _, Some(_)) => Some("identity: the source's values are kept"),
        (None, _, Some(_)) => Some("identity: numbered by the table"),
        (None, ..) if column.has_default => Some("the table's default"),
        (None, ..) => Some("NULL"),
        _ => None,
    };
    ColumnMapping {
        source: field.map(|f| f.name().clone()).unwrap_or_default(),
        source_type: field.map(source_type).unwrap_or_default(),
        target: column.name.clone(),
        target_type: column.type_name.clone(),
        note: note.map(str::to_string),
    }
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

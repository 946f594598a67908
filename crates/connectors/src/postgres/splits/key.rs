//! A column that splits are cut by.
//!
//! Values are fetched as the server prints them and go back as literals of the very type, so none passes through a number of ours.
//! Comparisons name their operator with its schema: `search_path` must not decide which one is meant, or bounds sorted by one order
//! (`citext`) would be compared in another (`text`), and rows would be lost between them.

use crate::postgres::catalog::{PgColumn, PgType, TypeKind, quote_ident, quote_literal};
use crate::postgres::session::Session;
use haul_model::Result;

/// How the space between two values of a type is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spacing {
    /// Integers.
    Whole,
    /// Numbers with fractions.
    Fraction,
    Date,
    /// Also with time zone: everything is UTC here.
    Timestamp,
    Uuid,
}

/// A key column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::postgres) struct Key {
    /// As in the catalog.
    pub name: String,
    /// In double quotes.
    pub sql: String,
    /// The type without a modifier, so that a literal is never cut.
    pub(super) type_sql: String,
    /// `OPERATOR(schema.` up to the sign.
    operators: String,
    pub(super) spacing: Option<Spacing>,
    /// Whether values are arrays, which cannot be the elements of one.
    pub(super) array: bool,
    /// Whether the type can be written into a statement at all.
    concrete: bool,
}

impl Key {
    pub fn of(column: &PgColumn) -> Self {
        let base = &column.base;
        Self {
            name: column.name.clone(),
            sql: quote_ident(&column.name),
            type_sql: format!("{}.{}", quote_ident(&base.schema), quote_ident(&base.name)),
            operators: quote_ident(operator_schema(base)),
            spacing: spacing(base),
            array: is_array(base),
            concrete: base.kind != TypeKind::Pseudo,
        }
    }

    /// Whether ranges can be spaced evenly over it.
    pub fn has_ranges(&self) -> bool {
        self.spacing.is_some()
    }

    /// A value as the server printed it, as SQL.
    pub(super) fn literal(&self, text: &str) -> String {
        format!("{}::{}", quote_literal(text), self.type_sql)
    }

    /// `key < value`, never true for a NULL key.
    pub(super) fn compare(&self, sign: &str, text: &str) -> String {
        format!("{} OPERATOR({}.{sign}) {}", self.sql, self.operators, self.literal(text))
    }

    /// The key is this value, or NULL.
    pub(super) fn equals(&self, value: Option<&str>) -> String {
        match value {
            Some(text) => self.compare("=", text),
            // `IS NULL` is also true of a composite with NULLs in it.
            None => format!("{} IS NOT DISTINCT FROM NULL", self.sql),
        }
    }

    /// The key is not NULL.
    pub(super) fn not_null(&self) -> String {
        format!("{} IS DISTINCT FROM NULL", self.sql)
    }

    /// The key is one of these values; NULL for a NULL key.
    pub(super) fn any(&self, values: &[&str]) -> String {
        let list: Vec<String> = values.iter().map(|text| self.literal(text)).collect();
        format!("({} OPERATOR({}.=) ANY (ARRAY[{}]::{}[]))", self.sql, self.operators, list.join(", "), self.type_sql)
    }
}

/// Where a type's operators are: beside the type, except for the kinds that the server handles all alike.
fn operator_schema(base: &PgType) -> &str {
    if base.kind == TypeKind::Base && !is_array(base) { &base.schema } else { "pg_catalog" }
}

fn is_array(base: &PgType) -> bool {
    base.category == b'A' && base.name.starts_with('_')
}

fn spacing(base: &PgType) -> Option<Spacing> {
    use crate::postgres::types::oid;
    if !base.is_builtin() {
        return None;
    }
    match base.oid {
        oid::INT2 | oid::INT4 | oid::INT8 | oid::OID => Some(Spacing::Whole),
        oid::NUMERIC | oid::FLOAT4 | oid::FLOAT8 => Some(Spacing::Fraction),
        oid::DATE => Some(Spacing::Date),
        oid::TIMESTAMP | oid::TIMESTAMPTZ => Some(Spacing::Timestamp),
        oid::UUID => Some(Spacing::Uuid),
        _ => None,
    }
}

/// The type whose default order applies to values of this one.
fn ordered_as(base: &PgType) -> u32 {
    const ANY_ARRAY: u32 = 2277;
    const ANY_ENUM: u32 = 3500;
    const ANY_RANGE: u32 = 3831;
    const ANY_MULTIRANGE: u32 = 4537;
    const RECORD: u32 = 2249;
    match (base.kind, base.oid) {
        (TypeKind::Enum, _) => ANY_ENUM,
        (TypeKind::Range, _) => ANY_RANGE,
        (TypeKind::Multirange, _) => ANY_MULTIRANGE,
        (TypeKind::Composite, _) => RECORD,
        _ if is_array(base) => ANY_ARRAY,
        // varchar is text, cidr is inet.
        (_, 1043) => 25,
        (_, 650) => 869,
        (_, own) => own,
    }
}

/// Whether the type has an order, by the operators that [`Key`] names.
///
/// # Errors
/// The server's.
pub(in crate::postgres) fn is_ordered(session: &mut Session, column: &PgColumn) -> Result<bool> {
    if !Key::of(column).concrete {
        return Ok(false);
    }
    let sql = "SELECT pg_catalog.count(*) = 3 FROM pg_catalog.pg_opclass c \
               JOIN pg_catalog.pg_am m ON m.oid = c.opcmethod AND m.amname = 'btree' \
               JOIN pg_catalog.pg_amop p ON p.amopfamily = c.opcfamily AND p.amoplefttype = c.opcintype AND p.amoprighttype = c.opcintype \
               JOIN pg_catalog.pg_operator o ON o.oid = p.amopopr JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace \
               WHERE c.opcdefault AND c.opcintype = $1::pg_catalog.oid AND n.nspname = $2 \
                 AND (p.amopstrategy = 1 AND o.oprname = '<' OR p.amopstrategy = 3 AND o.oprname = '=' OR p.amopstrategy = 4 AND o.oprname = '>=')";
    let row = session.row(sql, &[Some(&ordered_as(&column.base).to_string()), Some(operator_schema(&column.base))])?;
    Ok(row.is_some_and(|row| row.flag(0)))
}

/// Whether an index leads from a key to its rows.
///
/// # Errors
/// The server's.
pub(in crate::postgres) fn has_index(session: &mut Session, relation: u32, column: &PgColumn) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid \
               JOIN pg_catalog.pg_am a ON a.oid = x.relam AND a.amname = 'btree' \
               WHERE i.indrelid = $1::pg_catalog.oid AND i.indisvalid AND i.indpred IS NULL AND i.indkey[0] = $2::pg_catalog.int2)";
    Ok(session.row(sql, &[Some(&relation.to_string()), Some(&column.number.to_string())])?.is_some_and(|row| row.flag(0)))
}

/// The number of the column that alone is the primary key, if this role may read it.
///
/// # Errors
/// The server's.
pub(in crate::postgres) fn primary_key(session: &mut Session, relation: u32) -> Result<Option<i16>> {
    // indclass has one entry for each key column, and counts from 0; included columns have none.
    let sql = "SELECT i.indkey[0] FROM pg_catalog.pg_index i WHERE i.indrelid = $1::pg_catalog.oid AND i.indisprimary AND i.indisvalid \
               AND pg_catalog.array_upper(i.indclass, 1) = 0 AND pg_catalog.has_column_privilege(i.indrelid, i.indkey[0], 'SELECT')";
    Ok(session.row(sql, &[Some(&relation.to_string())])?.and_then(|row| row.parse(0)))
}

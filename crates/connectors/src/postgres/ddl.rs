//! Arrow types to PostgreSQL types: what `--create` makes.

use super::catalog::quote_ident;
use arrow_schema::{DataType, Field, Schema};
use haul_model::{Error, ErrorKind, Result, field_meta};

/// The longest identifier that the server keeps; longer ones it would cut without an error.
pub const MAX_NAME: usize = 63;

/// The type of a column made for `field`: the source's own where it came from PostgreSQL, else the nearest that holds every value.
///
/// # Errors
/// `Unsupported`: nested types, durations.
pub fn column_type(field: &Field) -> Result<String> {
    if let Some(own) = field_meta::source_type(field, "postgres") {
        return Ok(own.to_string());
    }
    if field_meta::is_json(field) {
        return Ok("json".into());
    }
    if field_meta::is_uuid(field) {
        return Ok("uuid".into());
    }
    arrow_type(field.data_type()).ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, format!("there is no PostgreSQL type for {}", field.data_type()))
            .column(field.name())
            .hint("--cast it, or create the table yourself")
    })
}

fn arrow_type(data_type: &DataType) -> Option<String> {
    use DataType as D;
    Some(match data_type {
        D::Boolean => "boolean".into(),
        D::Int8 | D::Int16 | D::UInt8 => "smallint".into(),
        D::Int32 | D::UInt16 => "integer".into(),
        D::Int64 | D::UInt32 => "bigint".into(),
        D::UInt64 => "numeric(20,0)".into(),
        D::Float16 | D::Float32 => "real".into(),
        D::Float64 => "double precision".into(),
        D::Decimal32(p, s) | D::Decimal64(p, s) | D::Decimal128(p, s) | D::Decimal256(p, s) => match u8::try_from(*s) {
            Ok(s) if s <= *p => format!("numeric({p},{s})"),
            // Scales outside of 0..=precision exist in PostgreSQL only since version 15.
            _ => "numeric".into(),
        },
        D::Null | D::Utf8 | D::LargeUtf8 | D::Utf8View => "text".into(),
        D::Binary | D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_) => "bytea".into(),
        D::Date32 => "date".into(),
        D::Date64 => "timestamp without time zone".into(),
        D::Time32(_) | D::Time64(_) => "time without time zone".into(),
        D::Timestamp(_, None) => "timestamp without time zone".into(),
        D::Timestamp(_, Some(_)) => "timestamp with time zone".into(),
        D::Dictionary(_, value) => arrow_type(value)?,
        D::List(item) | D::LargeList(item) | D::FixedSizeList(item, _) => match item.data_type() {
            D::List(_) | D::LargeList(_) | D::FixedSizeList(..) => return None,
            _ => format!("{}[]", column_type(item).ok()?),
        },
        _ => return None,
    })
}

/// The columns of a CREATE TABLE: `"id" bigint NOT NULL, ...`.
///
/// # Errors
/// Types that have no counterpart, and names that the server would cut or take for one another (all of them in one error).
pub fn column_list(schema: &Schema) -> Result<String> {
    check_names(schema)?;
    let column = |field: &Field| {
        let not_null = if field.is_nullable() { "" } else { " NOT NULL" };
        Ok(format!("{} {}{not_null}", quote_ident(field.name()), column_type(field)?))
    };
    Ok(schema.fields().iter().map(|f| column(f)).collect::<Result<Vec<_>>>()?.join(", "))
}

/// Refuses column names that are empty, too long or doubled.
///
/// # Errors
/// `Schema`, listing all of them.
pub fn check_names(schema: &Schema) -> Result<()> {
    let mut wrong = Vec::new();
    for (i, field) in schema.fields().iter().enumerate() {
        let name = field.name();
        if name.is_empty() {
            wrong.push(format!("column {} has no name", i + 1));
        } else if name.len() > MAX_NAME {
            wrong.push(format!("{name:?} is {} bytes long, PostgreSQL keeps {MAX_NAME}", name.len()));
        } else if schema.fields().iter().take(i).any(|f| f.name() == name) {
            wrong.push(format!("{name:?} is there twice"));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Schema, format!("column names do not fit: {}", wrong.join("; "))).hint("rename them with --rename OLD:NEW"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::TimeUnit;

    #[test]
    fn types_come_back_as_they_were() {
        let own = field_meta::with(Field::new("a", DataType::Utf8View, true), field_meta::SOURCE_TYPE, "postgres:public.mood");
        let other = field_meta::with(Field::new("b", DataType::Decimal128(20, 4), false), field_meta::SOURCE_TYPE, "mysql:decimal(20,4)");
        let list = Field::new("c", DataType::new_list(DataType::Int16, true), true);
        let stamp = Field::new("select", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), true);
        let schema = Schema::new(vec![own, other, list, stamp]);
        assert_eq!(
            column_list(&schema).unwrap(),
            "\"a\" public.mood, \"b\" numeric(20,4) NOT NULL, \"c\" smallint[], \"select\" timestamp with time zone"
        );
    }

    #[test]
    fn sc_02_names_that_would_be_cut_are_refused_together() {
        let long = |end: &str| Field::new(format!("{}{end}", "x".repeat(68)), DataType::Utf8, true);
        let accents = Field::new("é".repeat(40), DataType::Utf8, true);
        let error = column_list(&Schema::new(vec![long("aa"), long("bb"), accents, Field::new("", DataType::Utf8, true)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Schema);
        assert!(error.detail().matches("bytes long").count() == 3 && error.detail().contains("column 4 has no name"), "{error}");
        let fine = ["select", "A", "a", " lead", "1x", "a.b", "sel\"ect"].map(|n| Field::new(n, DataType::Utf8, true));
        assert!(column_list(&Schema::new(fine.to_vec())).unwrap().contains("\"sel\"\"ect\" text"));
    }
}

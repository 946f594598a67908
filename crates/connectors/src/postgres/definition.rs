//! Keys, indexes, constraints, defaults and sequences of a table, as the server itself would write them. All names come with their
//! schema, so that the text means the same under any `search_path`.

use super::catalog::Relation;
use super::discover::with_plain_path;
use super::session::Session;
use haul_model::{Error, PartKind, Result, TableDefinition, TablePart};

/// Reads it.
///
/// # Errors
/// The server's.
pub(super) fn of(session: &mut Session, relation: &Relation) -> Result<TableDefinition> {
    with_plain_path(session, |session| {
        let mut parts = columns(session, relation)?;
        parts.extend(constraints(session, relation)?);
        parts.extend(indexes(session, relation)?);
        // Nothing is made before what it needs: a foreign key to this very table needs its key.
        parts.sort_by_key(|part| ORDER.iter().position(|kind| *kind == part.kind));
        let named = session.row(
            "SELECT pg_catalog.format('%I.%I', $1::pg_catalog.text, $2::pg_catalog.text)",
            &[Some(&relation.schema), Some(&relation.name)],
        )?;
        let sql_name = named.map(|row| row.text(0).to_string()).unwrap_or_default();
        Ok(TableDefinition { engine: "postgres", name: relation.name.clone(), sql_name, parts })
    })
}

const ORDER: &[PartKind] = &[
    PartKind::Default,
    PartKind::Identity,
    PartKind::Sequence,
    PartKind::Generated,
    PartKind::Check,
    PartKind::PrimaryKey,
    PartKind::Unique,
    PartKind::Index,
    PartKind::ForeignKey,
];

/// What fills columns that nobody fills.
fn columns(session: &mut Session, relation: &Relation) -> Result<Vec<TablePart>> {
    let generated = if session.version() >= 120_000 { "a.attgenerated <> ''" } else { "false" };
    // A sequence counts as the column's own where DROP COLUMN would take it along.
    let sql = format!(
        "SELECT a.attname, {generated}, a.attidentity, pg_catalog.pg_get_expr(d.adbin, d.adrelid), \
           pg_catalog.format('AS %s START %s INCREMENT %s MINVALUE %s MAXVALUE %s CACHE %s%s', pg_catalog.format_type(s.seqtypid, NULL), \
             s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache, CASE WHEN s.seqcycle THEN ' CYCLE' ELSE '' END), \
           CASE WHEN s.seqrelid IS NOT NULL AND pg_catalog.has_sequence_privilege(s.seqrelid, 'USAGE,SELECT') \
             THEN pg_catalog.pg_sequence_last_value(s.seqrelid) END, s.seqrelid IS NOT NULL \
         FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         LEFT JOIN pg_catalog.pg_sequence s ON s.seqrelid = \
           pg_catalog.pg_get_serial_sequence(pg_catalog.format('%s', a.attrelid::pg_catalog.regclass), a.attname)::pg_catalog.regclass \
         WHERE a.attrelid = $1::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped \
           AND (d.adbin IS NOT NULL OR a.attidentity <> '') ORDER BY a.attnum"
    );
    let found = session.query(&sql, &[Some(&relation.oid.to_string())])?;
    let part = |row: &haul_pgwire::Row| {
        let always = if row.text(2) == "a" { "ALWAYS" } else { "BY DEFAULT" };
        let (kind, sql) = match (row.flag(1), row.text(2), row.flag(6)) {
            (true, ..) => (PartKind::Generated, row.text(3).to_string()),
            (_, "a" | "d", _) => {
                // The type of an identity is that of its column.
                let options = row.text(4).split_once(" START ").map_or(String::new(), |(_, rest)| format!("START {rest}"));
                (PartKind::Identity, format!("GENERATED {always} AS IDENTITY ({options})"))
            }
            (_, _, true) if row.text(3).starts_with("nextval(") => (PartKind::Sequence, row.text(4).to_string()),
            _ => (PartKind::Default, row.text(3).to_string()),
        };
        let name = row.text(0).to_string();
        TablePart { kind, columns: vec![name.clone()], name, sql, refers_to: None, position: row.parse(5) }
    };
    Ok(found.iter().map(part).collect())
}

fn constraints(session: &mut Session, relation: &Relation) -> Result<Vec<TablePart>> {
    let sql = "SELECT c.oid, c.conname, c.contype, pg_catalog.pg_get_constraintdef(c.oid), \
                 CASE WHEN c.confrelid <> 0 THEN pg_catalog.format('%I.%I', n.nspname, r.relname) END, a.attname \
               FROM pg_catalog.pg_constraint c LEFT JOIN pg_catalog.pg_class r ON r.oid = c.confrelid \
               LEFT JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
               LEFT JOIN LATERAL pg_catalog.unnest(c.conkey) k(number) ON true \
               LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number \
               WHERE c.conrelid = $1::pg_catalog.oid AND c.contype IN ('p', 'u', 'x', 'c', 'f') ORDER BY c.oid";
    let mut parts: Vec<TablePart> = Vec::new();
    let mut last = None;
    for row in &session.query(sql, &[Some(&relation.oid.to_string())])? {
        if last.as_deref() != Some(row.text(0)) {
            last = Some(row.text(0).to_string());
            let kind = match row.text(2) {
                "p" => PartKind::PrimaryKey,
                "u" | "x" => PartKind::Unique,
                "c" => PartKind::Check,
                _ => PartKind::ForeignKey,
            };
            let refers_to = row.get(4).map(str::to_string);
            let sql = match &refers_to {
                Some(target) => without_target(row.text(3), target)?,
                None => row.text(3).to_string(),
            };
            parts.push(TablePart { kind, name: row.text(1).to_string(), columns: Vec::new(), sql, refers_to, position: None });
        }
        if let (Some(part), Some(column)) = (parts.last_mut(), row.get(5)) {
            part.columns.push(column.to_string());
        }
    }
    Ok(parts)
}

/// `FOREIGN KEY (a) REFERENCES s.t(b) ON DELETE CASCADE` without the table: the mark {} stands for it.
fn without_target(text: &str, target: &str) -> Result<String> {
    let named = format!(" REFERENCES {target}(");
    match text.split_once(&named) {
        Some((before, after)) => Ok(format!("{before} REFERENCES {{}}({after}")),
        None => Err(Error::internal(format!("a foreign key that cannot be understood: {text}"))),
    }
}

/// Indexes that belong to no constraint.
fn indexes(session: &mut Session, relation: &Relation) -> Result<Vec<TablePart>> {
    let sql = "SELECT c.oid, c.relname, i.indisunique, pg_catalog.pg_get_indexdef(c.oid), pg_catalog.format('INDEX %I ON %s%s ', c.relname, \
                 CASE WHEN c.relkind = 'I' THEN 'ONLY ' ELSE '' END, i.indrelid::pg_catalog.regclass), a.attname \
               FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
               LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid \
                 AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid = i.indrelid AND d.refobjsubid > 0 \
               LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = d.refobjsubid \
               WHERE i.indrelid = $1::pg_catalog.oid AND i.indisvalid AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint n \
                 WHERE n.conindid = c.oid AND n.contype IN ('p', 'u', 'x')) ORDER BY c.oid, a.attnum";
    let mut parts: Vec<TablePart> = Vec::new();
    let mut last = None;
    for row in &session.query(sql, &[Some(&relation.oid.to_string())])? {
        if last.as_deref() != Some(row.text(0)) {
            last = Some(row.text(0).to_string());
            let text = row.text(3).split_once(row.text(4)).map(|(_, rest)| rest);
            let text = text.ok_or_else(|| Error::internal(format!("an index that cannot be understood: {}", row.text(3))))?;
            let unique = if row.flag(2) { "UNIQUE " } else { "" };
            let (kind, sql) = (PartKind::Index, format!("{unique}{text}"));
            parts.push(TablePart { kind, name: row.text(1).to_string(), columns: Vec::new(), sql, refers_to: None, position: None });
        }
        if let (Some(part), Some(column)) = (parts.last_mut(), row.get(5)) {
            part.columns.push(column.to_string());
        }
    }
    Ok(parts)
}

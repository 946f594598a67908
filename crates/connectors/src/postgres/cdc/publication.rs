//! What is captured: the tables, how their rows can be told apart, and the publication that lets the server send their changes.

use super::settings::{Options, is_pattern};
use crate::postgres::catalog::{Relation, RelationKind, quote_ident, quote_literal};
use crate::postgres::config::TableName;
use crate::postgres::database::Database;
use crate::postgres::discover;
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Note, Result};

/// A publication, as it is or will be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    pub name: String,
    /// The statement that makes it; `None`: it is there.
    pub create: Option<String>,
}

/// The tables that the user means, with their columns.
///
/// # Errors
/// `NotFound`, `Unsupported` (views, foreign and unlogged tables), the server's.
pub fn tables(session: &mut Session, options: &Options) -> Result<Vec<Relation>> {
    let mut oids: Vec<u32> = Vec::new();
    for name in &options.tables {
        let found = if is_pattern(name) {
            let objects = Database::tables(session, name)?;
            if objects.is_empty() {
                return Err(Error::new(ErrorKind::NotFound, format!("no table matches {name:?}")).hint("schema.* means all of a schema"));
            }
            let names = objects.into_iter().map(|object| TableName { schema: object.schema, name: object.name });
            names.collect::<Vec<_>>()
        } else {
            vec![TableName::parse(name)?]
        };
        for name in found {
            let located = discover::locate(session, &name)?;
            if !oids.contains(&located.oid) {
                oids.push(located.oid);
            }
        }
    }
    if options.tables.is_empty() {
        let Some(publication) = &options.publication else {
            return Err(Error::new(ErrorKind::Config, "which tables are to be captured?")
                .hint("add ?tables=schema.name,schema.other (or schema.*), or give --publication with one that is there"));
        };
        let sql = "SELECT c.oid FROM pg_catalog.pg_publication_tables p JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname \
                   JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename WHERE p.pubname = $1 ORDER BY 1";
        oids = session.query(sql, &[Some(publication)])?.iter().filter_map(|row| row.parse(0)).collect();
        if oids.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, format!("the publication {publication} is not there, or has no tables"))
                .hint("name the tables, and it is made: ?tables=schema.name,schema.other"));
        }
    }
    let relations: Vec<Relation> = oids.iter().map(|oid| discover::relation_by_oid(session, *oid)).collect::<Result<_>>()?;
    relations.iter().try_for_each(|relation| check_kind(session, relation))?;
    Ok(relations)
}

fn check_kind(session: &mut Session, relation: &Relation) -> Result<()> {
    let refused = |why: &str| {
        Err(Error::new(ErrorKind::Unsupported, format!("its changes cannot be captured: it is {why}")).object(relation.display()))
    };
    match relation.kind {
        RelationKind::Table | RelationKind::Partitioned => {}
        other => return refused(&format!("a {}", other.word())),
    }
    let sql = "SELECT relpersistence FROM pg_catalog.pg_class WHERE oid = $1::pg_catalog.oid";
    match session.row(sql, &[Some(&relation.oid.to_string())])?.as_ref().map_or("p", |row| row.text(0)) {
        "u" => refused("unlogged, so they are not in the log"),
        "t" => refused("temporary"),
        _ => Ok(()),
    }
}

/// The server must write what a stream needs into its log.
///
/// # Errors
/// `Config`, with what to set.
pub fn check_server(session: &mut Session) -> Result<()> {
    let level = session.row("SELECT pg_catalog.current_setting('wal_level')", &[])?.map_or(String::new(), |row| row.text(0).to_string());
    if level == "logical" {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Config, format!("the server's wal_level is {level}: its log does not say what changed"))
        .object(session.host())
        .hint("set wal_level = logical in postgresql.conf and restart the server"))
}

/// How rows of the tables can be told apart in UPDATE and DELETE; a note where they cannot.
///
/// # Errors
/// The server's.
pub fn identities(session: &mut Session, relations: &[Relation]) -> Result<Vec<Note>> {
    let mut notes = Vec::new();
    for relation in relations {
        let sql = "SELECT c.relreplident, EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND \
                   (i.indisprimary AND c.relreplident = 'd' OR i.indisreplident AND c.relreplident = 'i')) \
                   FROM pg_catalog.pg_class c WHERE c.oid = $1::pg_catalog.oid";
        let Some(row) = session.row(sql, &[Some(&relation.oid.to_string())])? else { continue };
        if row.text(0) != "f" && !row.flag(1) {
            notes.push(Note::new(format!(
                "{}: it has no replica identity, so while it is published the source refuses UPDATE and DELETE on it, and only INSERT and \
                 TRUNCATE are captured; a primary key, or ALTER TABLE ... REPLICA IDENTITY FULL, changes that",
                relation.display()
            )));
        }
    }
    Ok(notes)
}

/// The publication for these tables. One that is there must have them all.
///
/// # Errors
/// `NotFound`: it misses a table.
pub fn publication(session: &mut Session, name: &str, relations: &[Relation], notes: &mut Vec<Note>) -> Result<Publication> {
    let sql = "SELECT pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_catalog.pg_publication WHERE pubname = $1";
    let Some(row) = session.row(sql, &[Some(name)])? else {
        let list: Vec<String> = relations.iter().map(Relation::sql).collect();
        let root = if session.version() >= 130_000 { " WITH (publish_via_partition_root = true)" } else { "" };
        let create = format!("CREATE PUBLICATION {} FOR TABLE {}{root}", quote_ident(name), list.join(", "));
        notes.push(Note::new(format!("the publication {name} will be made")));
        return Ok(Publication { name: name.into(), create: Some(create) });
    };
    let missing: Vec<&str> =
        ["INSERT", "UPDATE", "DELETE", "TRUNCATE"].into_iter().enumerate().filter(|(i, _)| !row.flag(*i)).map(|(_, op)| op).collect();
    if !missing.is_empty() {
        notes.push(Note::new(format!("the publication {name} leaves out every {}", missing.join(" and "))).lossy());
    }
    covers(session, name, relations)?;
    if session.version() >= 150_000 {
        let sql = "SELECT t.schemaname || '.' || t.tablename, t.rowfilter, \
                   pg_catalog.array_length(t.attnames, 1) < (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute a \
                     WHERE a.attrelid = pg_catalog.format('%I.%I', t.schemaname, t.tablename)::pg_catalog.regclass \
                     AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '') \
                   FROM pg_catalog.pg_publication_tables t WHERE t.pubname = $1 ORDER BY 1";
        for row in &session.query(sql, &[Some(name)])? {
            if let Some(filter) = row.get(1) {
                notes.push(Note::new(format!("the publication {name} has only the rows of {} where {filter}", row.text(0))).lossy());
            }
            if row.flag(2) {
                notes.push(Note::new(format!("the publication {name} has only some columns of {}", row.text(0))).lossy());
            }
        }
    }
    Ok(Publication { name: name.into(), create: None })
}

/// Every table, or all its partitions, must be in the publication.
fn covers(session: &mut Session, name: &str, relations: &[Relation]) -> Result<()> {
    let tree = if session.version() >= 120_000 {
        "(SELECT pg_catalog.bool_and(EXISTS (SELECT FROM pub WHERE pub.oid = l.relid)) FROM pg_catalog.pg_partition_tree($2::pg_catalog.oid) l WHERE l.isleaf)"
    } else {
        "false"
    };
    let sql = format!(
        "WITH pub AS (SELECT c.oid FROM pg_catalog.pg_publication_tables p JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname \
         JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename WHERE p.pubname = $1) \
         SELECT EXISTS (SELECT FROM pub WHERE pub.oid = $2::pg_catalog.oid) OR COALESCE({tree}, false)"
    );
    let mut missing = Vec::new();
    for relation in relations {
        if !session.row(&sql, &[Some(name), Some(&relation.oid.to_string())])?.is_some_and(|row| row.flag(0)) {
            missing.push(relation);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = missing.iter().map(|r| r.display()).collect();
    let sql: Vec<String> = missing.iter().map(|r| r.sql()).collect();
    Err(Error::new(ErrorKind::NotFound, format!("the publication {name} does not have {}", names.join(", "))).object(name).hint(format!(
        "ALTER PUBLICATION {} ADD TABLE {}; or give --publication a name that is not there yet",
        quote_ident(name),
        sql.join(", ")
    )))
}

/// What the catalog says of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotState {
    pub plugin: String,
    pub database: String,
    /// The process that uses it.
    pub active: Option<i32>,
    /// Up to here everything was confirmed.
    pub confirmed: Option<haul_pgwire::Lsn>,
    /// `lost`: the server has removed log that it needs.
    pub wal_status: String,
    /// Why it cannot be used any more (from PostgreSQL 17 on).
    pub invalid: Option<String>,
    /// Bytes of log that are kept for it.
    pub kept: u64,
}

/// Looks for a slot.
///
/// # Errors
/// The server's.
pub fn slot(session: &mut Session, name: &str) -> Result<Option<SlotState>> {
    let status = if session.version() >= 130_000 { "wal_status" } else { "NULL" };
    let invalid = if session.version() >= 170_000 { "invalidation_reason" } else { "NULL" };
    let sql = format!(
        "SELECT COALESCE(plugin, ''), COALESCE(database, ''), active_pid, confirmed_flush_lsn, COALESCE({status}, ''), {invalid}, \
         pg_catalog.pg_wal_lsn_diff(CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() \
           ELSE pg_catalog.pg_current_wal_lsn() END, restart_lsn) \
         FROM pg_catalog.pg_replication_slots WHERE slot_name = $1"
    );
    Ok(session.row(&sql, &[Some(name)])?.map(|row| SlotState {
        plugin: row.text(0).to_string(),
        database: row.text(1).to_string(),
        active: row.parse(2),
        confirmed: row.parse(3),
        wal_status: row.text(4).to_string(),
        invalid: row.get(5).map(str::to_string),
        kept: row.parse(6).unwrap_or(0),
    }))
}

/// A slot that is there must be one that this stream can go on with.
///
/// # Errors
/// `Exists`: it is another database's or plugin's; `NotFound`: it has lost log.
pub fn check_slot(name: &str, state: &SlotState, database: &str) -> Result<()> {
    let refused = |kind, why: String| Error::new(kind, why).object(name);
    if state.plugin != "pgoutput" || state.database != database {
        let of = if state.plugin.is_empty() {
            "is no logical slot".to_string()
        } else {
            format!("is of plugin {} in database {}", state.plugin, state.database)
        };
        return Err(refused(ErrorKind::Exists, format!("the slot {of}")).hint("give --slot another name"));
    }
    if state.wal_status == "lost" || state.invalid.is_some() {
        let why = state.invalid.as_deref().unwrap_or("wal_removed");
        return Err(refused(ErrorKind::NotFound, format!("the server has invalidated the slot ({why}): changes that were not read yet are lost, so the stream cannot go on without a gap"
        ))
        .hint("drop the slot (haul cdc drop, or pg_drop_replication_slot) and start again with a new snapshot; a larger max_slot_wal_keep_size keeps slots longer"));
    }
    Ok(())
}

/// The statement that drops a slot.
pub fn drop_slot(name: &str) -> String {
    format!("SELECT pg_catalog.pg_drop_replication_slot({})", quote_literal(name))
}

//! Triggers of the target: listed, and held back if the user wants that.
//!
//! In the modes with a staging table they are disabled one by one in the last transaction, which keeps foreign keys checked, or for the
//! session as on a replica where this role does not own the table. Lanes that copy into the table itself can only do the latter.

use super::settings::{KeyedMode, Mode, Options};
use super::way::Way;
use crate::postgres::catalog::{Relation, quote_ident};
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Note, Result};

const REPLICA: &str = "SET LOCAL session_replication_role = replica";

/// What holds triggers back: statements for the transaction that writes into the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub before: Vec<String>,
    pub after: Vec<String>,
}

struct Trigger {
    /// As SQL.
    table: String,
    name: String,
    events: i16,
    when: When,
}

/// For which sessions a trigger fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// Ordinary ones.
    Origin,
    /// ENABLE ALWAYS.
    Always,
    /// ENABLE REPLICA: those that act as on a replica.
    Replica,
}

/// Lists the triggers that would fire, and decides how they are held back if they are not to.
///
/// # Errors
/// `Permission`; the server's.
pub(super) fn plan(session: &mut Session, relation: &Relation, way: Way, options: &Options, notes: &mut Vec<Note>) -> Result<Held> {
    if matches!(way, Way::Create | Way::Swap) {
        return Ok(Held::default());
    }
    let events = events(way, options.mode);
    let triggers: Vec<Trigger> = triggers(session, relation)?.into_iter().filter(|t| t.events & events != 0).collect();
    let firing: Vec<&Trigger> = triggers.iter().filter(|t| t.when != When::Replica).collect();
    if firing.is_empty() {
        return Ok(Held::default());
    }
    let mut names: Vec<String> = firing.iter().map(|t| format!("{} ({})", t.name, spoken(t.events))).collect();
    names.dedup();
    let names = names.join(", ");
    if options.triggers {
        notes.push(Note::new(format!("triggers of the table fire: {names}")));
        return Ok(Held::default());
    }
    let owner = "SELECT pg_catalog.pg_has_role(relowner, 'USAGE') FROM pg_catalog.pg_class WHERE oid = $1::pg_catalog.oid";
    let owns = session.row(owner, &[Some(&relation.oid.to_string())])?.is_some_and(|row| row.flag(0));
    if owns && way.is_staged() {
        notes.push(Note::new(format!("triggers of the table are disabled in the last transaction: {names}")));
        let each = |what: fn(&Trigger) -> &'static str| -> Vec<String> {
            firing.iter().map(|t| format!("ALTER TABLE ONLY {} {} TRIGGER {}", t.table, what(t), quote_ident(&t.name))).collect()
        };
        return Ok(Held { before: each(|_| "DISABLE"), after: each(|t| if t.when == When::Always { "ENABLE ALWAYS" } else { "ENABLE" }) });
    }
    if !may_be_a_replica(session)? {
        let error =
            Error::new(ErrorKind::Permission, "this role can neither disable the triggers of the table nor hold them back for its session");
        return Err(error.object(relation.display()).hint(match way.is_staged() {
            true => "use the table's owner, or a superuser; --triggers on lets them fire",
            false => "use a superuser or GRANT SET ON PARAMETER session_replication_role (version 15); --mode truncate and the like need only the owner",
        }));
    }
    if let Some(trigger) = triggers.iter().find(|t| t.when != When::Origin) {
        let why = match trigger.when {
            When::Replica => "ENABLE REPLICA and would fire where the others are held back",
            _ => "ENABLE ALWAYS and fires for every session",
        };
        return Err(Error::new(ErrorKind::Unsupported, format!("the trigger {} is {why}", trigger.name))
            .object(relation.display())
            .hint("disable it first, or --triggers on"));
    }
    notes.push(Note::new(format!("triggers of the table are held back (session_replication_role = replica): {names}")));
    if has_foreign_keys(session, relation)? {
        notes.push(Note::new("foreign keys are not checked meanwhile: they are triggers too").lossy());
    }
    Ok(Held { before: vec![REPLICA.into()], after: vec!["SET LOCAL session_replication_role = DEFAULT".into()] })
}

/// Bits of `pg_trigger.tgtype`.
const INSERT: i16 = 4;
const DELETE: i16 = 8;
const UPDATE: i16 = 16;
const TRUNCATE: i16 = 32;

fn events(way: Way, mode: Option<Mode>) -> i16 {
    match (way, mode) {
        (Way::Refill { truncate: true }, _) => INSERT | TRUNCATE,
        (Way::Refill { truncate: false }, _) | (_, Some(Mode::Keyed(KeyedMode::DeleteInsert))) => INSERT | DELETE,
        (_, Some(Mode::Keyed(KeyedMode::Upsert))) => INSERT | UPDATE,
        _ => INSERT,
    }
}

/// Triggers of the owner's own, of the table and its partitions.
fn triggers(session: &mut Session, relation: &Relation) -> Result<Vec<Trigger>> {
    let sql = "WITH RECURSIVE tree(oid) AS (SELECT $1::pg_catalog.oid UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree t ON i.inhparent = t.oid) \
               SELECT n.nspname, c.relname, g.tgname, g.tgtype, g.tgenabled FROM pg_catalog.pg_trigger g JOIN tree ON tree.oid = g.tgrelid \
               JOIN pg_catalog.pg_class c ON c.oid = g.tgrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               WHERE NOT g.tgisinternal AND g.tgenabled <> 'D' ORDER BY g.tgname, g.tgrelid";
    let rows = session.query(sql, &[Some(&relation.oid.to_string())])?;
    let trigger = |row: &haul_pgwire::Row| Trigger {
        table: format!("{}.{}", quote_ident(row.text(0)), quote_ident(row.text(1))),
        name: row.text(2).to_string(),
        events: row.parse(3).unwrap_or(0),
        when: match row.text(4) {
            "A" => When::Always,
            "R" => When::Replica,
            _ => When::Origin,
        },
    };
    Ok(rows.iter().map(trigger).collect())
}

fn spoken(kind: i16) -> String {
    let when = if kind & 2 != 0 { "BEFORE" } else { "AFTER" };
    let events = [(INSERT, "INSERT"), (UPDATE, "UPDATE"), (DELETE, "DELETE"), (TRUNCATE, "TRUNCATE")];
    let events: Vec<&str> = events.iter().filter(|(bit, _)| kind & bit != 0).map(|(_, word)| *word).collect();
    format!("{when} {}, {}", events.join(" OR "), if kind & 1 != 0 { "each row" } else { "each statement" })
}

fn may_be_a_replica(session: &mut Session) -> Result<bool> {
    let granted =
        if session.version() >= 150_000 { "OR pg_catalog.has_parameter_privilege('session_replication_role', 'SET')" } else { "" };
    let sql = format!("SELECT pg_catalog.current_setting('is_superuser') = 'on' {granted}");
    Ok(session.row(&sql, &[])?.is_some_and(|row| row.flag(0)))
}

fn has_foreign_keys(session: &mut Session, relation: &Relation) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE contype = 'f' AND $1::pg_catalog.oid IN (conrelid, confrelid))";
    Ok(session.row(sql, &[Some(&relation.oid.to_string())])?.is_some_and(|row| row.flag(0)))
}

//! How the new content takes its place: straight into the table, or through a staging table that is swapped in or poured over.

use crate::postgres::catalog::{Identity, PgColumn, Relation, RelationKind, quote_ident};
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Result};

/// What happens to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Rows are copied into the table itself.
    Append,
    /// A new table is filled under another name and gets its own at the end.
    Create,
    /// A new table like the old one is filled; at the end the old one is dropped and the new one renamed.
    Swap,
    /// A staging table is filled; at the end one transaction empties the target and inserts from it.
    Refill {
        /// By TRUNCATE; else by DELETE.
        truncate: bool,
    },
    /// Rows are staged and meet the target's by their key, in one transaction.
    Merge,
}

impl Way {
    /// Whether rows go to a staging table first.
    pub fn is_staged(self) -> bool {
        self != Self::Append
    }
}

/// The name of a staging table: names the run, so that leftovers can be told.
pub(super) fn staging_name(run_id: &str, table: &str) -> String {
    let run: String = run_id.chars().filter(char::is_ascii_alphanumeric).take(24).collect();
    let run = if run.is_empty() { std::process::id().to_string() } else { run };
    let mut name = format!("haul_{run}_{table}");
    while name.len() > crate::postgres::ddl::MAX_NAME {
        name.pop();
    }
    name
}

/// What keeps a table from being swapped for another: things that would be lost with it, or that a new table would not have.
///
/// # Errors
/// The server's.
pub(super) fn swap_obstacles(session: &mut Session, relation: &Relation) -> Result<Vec<String>> {
    if relation.kind != RelationKind::Table {
        return Ok(vec![format!("it is a {}", relation.kind.word())]);
    }
    let published_schemas = if session.version() >= 150_000 {
        "UNION ALL SELECT 'its schema is published' FROM pg_catalog.pg_publication_namespace p JOIN t ON p.pnnspid = t.relnamespace"
    } else {
        ""
    };
    let sql = format!("WITH t AS (SELECT * FROM pg_catalog.pg_class WHERE oid = $1::pg_catalog.oid) {OBSTACLES} {published_schemas}");
    let rows = session.query(&sql, &[Some(&relation.oid.to_string())])?;
    let mut found: Vec<String> = rows.iter().map(|row| row.text(0).to_string()).collect();
    found.dedup();
    Ok(found)
}

const OBSTACLES: &str = "\
    SELECT 'it belongs to another role' FROM t WHERE relowner <> (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = current_user) \
    UNION ALL SELECT 'it has grants' FROM t WHERE relacl IS NOT NULL \
      OR EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.oid AND a.attacl IS NOT NULL) \
    UNION ALL SELECT 'new tables get default grants' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_default_acl WHERE defaclobjtype = 'r') \
    UNION ALL SELECT 'it has storage options of its own' FROM t WHERE reloptions IS NOT NULL OR reltablespace <> 0 OR relpersistence <> 'p' \
      OR relreplident <> 'd' OR reloftype <> 0 \
      OR relam <> (SELECT oid FROM pg_catalog.pg_am WHERE amname = pg_catalog.current_setting('default_table_access_method')) \
      OR EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.oid AND a.attoptions IS NOT NULL) \
      OR EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = t.oid AND i.indisclustered) \
    UNION ALL SELECT 'it has triggers' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = t.oid AND NOT g.tgisinternal) \
    UNION ALL SELECT 'it has foreign keys' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_constraint c WHERE c.conrelid = t.oid AND c.contype = 'f') \
    UNION ALL SELECT 'foreign keys point to it' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_constraint c WHERE c.confrelid = t.oid) \
    UNION ALL SELECT 'it has row-level security' FROM t WHERE relrowsecurity OR relforcerowsecurity \
      OR EXISTS (SELECT FROM pg_catalog.pg_policy p WHERE p.polrelid = t.oid) \
    UNION ALL SELECT 'it has rules' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_class = t.oid) \
    UNION ALL SELECT 'it is published' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_publication_rel p WHERE p.prrelid = t.oid) \
      OR EXISTS (SELECT FROM pg_catalog.pg_publication p WHERE p.puballtables) \
    UNION ALL SELECT 'it is subscribed' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_subscription_rel s WHERE s.srrelid = t.oid) \
    UNION ALL SELECT 'it inherits' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE t.oid IN (i.inhrelid, i.inhparent)) \
    UNION ALL SELECT 'it owns sequences' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class s ON s.oid = d.objid \
      WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass \
      AND d.refobjid = t.oid AND s.relkind = 'S') \
    UNION ALL SELECT 'it has extended statistics' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_statistic_ext s WHERE s.stxrelid = t.oid) \
    UNION ALL SELECT 'it has security labels' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_seclabel s WHERE s.objoid = t.oid) \
    UNION ALL SELECT 'views or functions use it' FROM t WHERE EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.deptype = 'n' \
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint c WHERE d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND c.oid = d.objid AND c.conrelid = t.oid) \
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_attrdef f WHERE d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND f.oid = d.objid AND f.adrelid = t.oid) AND \
      (d.refclassid, d.refobjid) IN (('pg_catalog.pg_class'::pg_catalog.regclass, t.oid), ('pg_catalog.pg_type'::pg_catalog.regclass, t.reltype), \
        ('pg_catalog.pg_type'::pg_catalog.regclass, (SELECT typarray FROM pg_catalog.pg_type y WHERE y.oid = t.reltype))))";

/// Whether emptying the table by DELETE would reach into other tables (or rows): foreign keys that act on a delete.
///
/// # Errors
/// `Unsupported` if so; the server's.
pub(super) fn check_delete(session: &mut Session, relation: &Relation) -> Result<()> {
    let sql = "SELECT conname, conrelid::pg_catalog.regclass::pg_catalog.text, CASE confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' \
               WHEN 'd' THEN 'SET DEFAULT' ELSE 'RESTRICT' END FROM pg_catalog.pg_constraint \
               WHERE confrelid = $1::pg_catalog.oid AND contype = 'f' AND confdeltype <> 'a' ORDER BY 1 LIMIT 1";
    match session.row(sql, &[Some(&relation.oid.to_string())])? {
        None => Ok(()),
        Some(row) => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "its rows cannot be replaced: the foreign key {} of {} is ON DELETE {}, so rows there would change or stand in the way",
                row.text(0),
                row.text(1),
                row.text(2)
            ),
        )
        .object(relation.display())
        .hint("load another table and merge from it, or make the key NO ACTION")),
    }
}

/// Whether TRUNCATE is allowed and possible.
///
/// # Errors
/// The server's.
pub(super) fn can_truncate(session: &mut Session, relation: &Relation) -> Result<bool> {
    let sql = "SELECT pg_catalog.has_table_privilege($1::pg_catalog.oid, 'TRUNCATE') \
               AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE confrelid = $1::pg_catalog.oid AND conrelid <> confrelid)";
    Ok(session.row(sql, &[Some(&relation.oid.to_string())])?.is_some_and(|row| row.flag(0)))
}

/// Old and new names of the indexes of two tables with the same indexes; `None` when they do not pair up.
///
/// # Errors
/// The server's.
pub(super) fn index_names(session: &mut Session, old: u32, new: u32) -> Result<Option<Vec<(String, String)>>> {
    let sql = "SELECT c.relname, pg_catalog.concat_ws(' ', i.indisunique, i.indisprimary, n.contype, n.condeferrable, n.condeferred, \
               pg_catalog.substring(pg_catalog.pg_get_indexdef(i.indexrelid), ' USING .*')) \
               FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid LEFT JOIN pg_catalog.pg_constraint n \
               ON n.conindid = i.indexrelid AND n.conrelid = i.indrelid AND n.contype IN ('p', 'u', 'x') \
               WHERE i.indrelid = $1::pg_catalog.oid ORDER BY 2, c.oid";
    let (old, new) = (session.query(sql, &[Some(&old.to_string())])?, session.query(sql, &[Some(&new.to_string())])?);
    let same = old.len() == new.len() && old.iter().zip(new.iter()).all(|(o, n)| o.text(1) == n.text(1));
    Ok(same.then(|| old.iter().zip(new.iter()).map(|(o, n)| (n.text(0).to_string(), o.text(0).to_string())).collect()))
}

/// What INSERT needs to write into columns that are GENERATED ALWAYS AS IDENTITY.
pub(super) fn overriding(columns: &[PgColumn]) -> &'static str {
    if columns.iter().any(|c| c.identity == Some(Identity::Always)) { " OVERRIDING SYSTEM VALUE" } else { "" }
}

/// `"schema"."name"`.
pub(super) fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_ident(schema), quote_ident(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_names_fit_and_name_the_run() {
        assert_eq!(staging_name("j-1/x", "orders"), "haul_j1x_orders");
        let long = staging_name("r", &"é".repeat(40));
        assert!(long.len() <= 63 && long.starts_with("haul_r_é"));
        assert!(staging_name("", "t").starts_with("haul_"));
    }
}

//! A database as a job of many streams sees it: tables by pattern, and one snapshot for all of them.
//!
//! The tables are locked (ACCESS SHARE) before the snapshot is taken, all in one transaction that stays open until the job ends: a table
//! that was rewritten or truncated in between would look empty. Every read of the job imports this snapshot, so transfers between two
//! tables are seen in both of them or in none. Sessions that have imported it go from stream to stream: opening one for each of many
//! small tables would take longer than reading them.

use super::catalog::{quote_ident, quote_literal};
use super::config::{TableName, Target};
use super::discover;
use super::lanes::{HOLD_THE_SNAPSHOT, READ_ONLY, export, read_settings, snapshot_gone};
use super::pooler;
use super::session::{self, Session};
use super::source::PostgresSource;
use haul_model::{Catalog, Endpoint, Environment, Error, ErrorKind, Note, Object, Result, Settings, Source, matches_pattern};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Tables of Haul's own, which no pattern means.
const OWN: &str = "'haul_checkpoint', 'haul_checkpoint_unlogged', 'haul_runs', 'haul_splits', 'haul_leaves'";

/// A database.
pub struct Database {
    target: Target,
    env: Environment,
    control: Mutex<Session>,
    held: OnceLock<Arc<Held>>,
}

/// A snapshot that is held for a whole job, and the sessions under it.
pub(super) struct Held {
    target: Target,
    /// The name under which it was exported.
    pub(super) snapshot: String,
    /// What a pooler means for it.
    pub(super) notes: Vec<Note>,
    /// The session that holds it and the locks.
    _holder: Mutex<Session>,
    idle: Mutex<Vec<Session>>,
}

impl Database {
    /// Connects.
    ///
    /// # Errors
    /// Connection.
    pub fn connect(target: Target, env: &Environment) -> Result<Self> {
        let control = Mutex::new(Session::open(&target, env, "catalog")?);
        Ok(Self { target, env: env.clone(), control, held: OnceLock::new() })
    }

    fn control(&self) -> std::sync::MutexGuard<'_, Session> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tables(session: &mut Session, pattern: &str) -> Result<Vec<Object>> {
        let size = match session.version() {
            120_000.. => {
                "CASE c.relkind WHEN 'p' THEN (SELECT COALESCE(pg_catalog.sum(pg_catalog.pg_relation_size(t.relid)), 0) \
                 FROM pg_catalog.pg_partition_tree(c.oid) t) ELSE pg_catalog.pg_relation_size(c.oid) END"
            }
            _ => "pg_catalog.pg_relation_size(c.oid)",
        };
        let sql = format!(
            "SELECT n.nspname, c.relname, {size}, pg_catalog.pg_table_is_visible(c.oid) \
             FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' \
             AND c.relname NOT IN ({OWN}) AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = c.oid) \
             AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass \
               AND d.objid = c.oid AND d.deptype = 'e') \
             ORDER BY n.nspname COLLATE \"C\", c.relname COLLATE \"C\""
        );
        let anywhere = pattern.contains('.');
        let found = session.query(&sql, &[])?;
        let objects = found.iter().filter(|row| anywhere || row.flag(3)).map(|row| Object {
            schema: Some(row.text(0).to_string()),
            name: row.text(1).to_string(),
            bytes: row.parse(2).unwrap_or(0),
        });
        Ok(objects.filter(|object| matches_pattern(pattern, object)).collect())
    }
}

impl Catalog for Database {
    fn find(&self, pattern: &str) -> Result<Vec<Object>> {
        let mut session = self.control();
        if !pattern.contains('"') && pattern.contains(['*', '?']) {
            return Self::tables(&mut session, pattern);
        }
        let found = discover::locate(&mut session, &TableName::parse(pattern)?)?;
        let size = "SELECT pg_catalog.pg_relation_size($1::pg_catalog.oid)";
        let bytes = session.row(size, &[Some(&found.oid.to_string())])?.and_then(|row| row.parse(0)).unwrap_or(0);
        Ok(vec![Object { schema: Some(found.schema), name: found.name, bytes }])
    }

    fn references(&self) -> Result<Vec<(Object, Object)>> {
        let sql = "SELECT an.nspname, a.relname, bn.nspname, b.relname FROM pg_catalog.pg_constraint k \
                   JOIN pg_catalog.pg_class a ON a.oid = k.conrelid JOIN pg_catalog.pg_namespace an ON an.oid = a.relnamespace \
                   JOIN pg_catalog.pg_class b ON b.oid = k.confrelid JOIN pg_catalog.pg_namespace bn ON bn.oid = b.relnamespace \
                   WHERE k.contype = 'f' AND k.conrelid <> k.confrelid ORDER BY 1, 2, 3, 4";
        let object = |schema: &str, name: &str| Object { schema: Some(schema.to_string()), name: name.to_string(), bytes: 0 };
        let found = self.control().query(sql, &[])?;
        Ok(found.iter().map(|row| (object(row.text(0), row.text(1)), object(row.text(2), row.text(3)))).collect())
    }

    fn hold(&self, objects: &[Object]) -> Result<()> {
        let mut session = Session::open(&self.target, &self.env, "snapshot")?;
        let notes = pooler::remark(&mut session, &self.target, &self.env)?;
        session.begin(READ_ONLY)?;
        let lockable = lockable(&mut self.control(), objects)?;
        if !lockable.is_empty() {
            session.run(&format!("LOCK TABLE {} IN ACCESS SHARE MODE", lockable.join(", ")))?;
        }
        let snapshot = export(&mut session)?.ok_or_else(|| Error::internal("a snapshot without a name"))?;
        let held = Held {
            target: self.target.clone(),
            snapshot,
            notes: notes.into_iter().collect(),
            _holder: Mutex::new(session),
            idle: Mutex::default(),
        };
        self.held.set(Arc::new(held)).map_err(|_| Error::internal("a snapshot is held already"))
    }

    fn open(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Box<dyn Source>> {
        let held = self.held.get().ok_or_else(|| Error::internal("no snapshot is held"))?;
        Ok(Box::new(PostgresSource::open_under(endpoint, settings, env, Some(Arc::clone(held)))?))
    }
}

/// Those of the objects that can be locked by this role, as SQL. A table that it may not read is told about by the read itself.
fn lockable(session: &mut Session, objects: &[Object]) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for object in objects {
        let name = TableName { schema: object.schema.clone(), name: object.name.clone() };
        let sql = format!("{}.{}", quote_ident(name.schema.as_deref().unwrap_or_default()), quote_ident(&name.name));
        let can = "SELECT c.relkind IN ('r', 'p') AND pg_catalog.has_table_privilege(c.oid, 'SELECT') \
                   FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass($1)";
        match session.row(can, &[Some(&sql)])? {
            Some(row) if row.flag(0) => out.push(sql),
            Some(_) => {}
            None => return Err(Error::new(ErrorKind::NotFound, "the table went away a moment ago").object(object.display())),
        }
    }
    Ok(out)
}

impl Held {
    /// A session under the snapshot, for `lane` of the run that `env` names: one that is free, else a new one.
    ///
    /// # Errors
    /// Connection; the session that held the snapshot is gone.
    pub fn take(&self, env: &Environment, lane: &str) -> Result<Session> {
        let idle = self.idle().pop();
        if let Some(mut session) = idle {
            if self.target.application_name.is_none() {
                session.run(&format!("SET LOCAL application_name = {}", quote_literal(&session::lane_name(env, lane))))?;
            }
            return Ok(session);
        }
        let limit = self.target.config.connect_timeout;
        let mut session = Session::open_within(&self.target, env, lane, limit)?;
        let import = format!("SET TRANSACTION SNAPSHOT {}", quote_literal(&self.snapshot));
        let begin = format!("BEGIN {READ_ONLY}; {import}; {}; {}; {HOLD_THE_SNAPSHOT}", session.exact_settings(), read_settings(false));
        match session.run(&begin) {
            Err(error) if matches!(error.code_text(), Some("22023" | "42704" | "55000")) => Err(snapshot_gone()),
            result => result.map(|()| session),
        }
    }

    /// Gives sessions back that are as they were taken.
    pub fn give(&self, sessions: Vec<Session>) {
        self.idle().extend(sessions);
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

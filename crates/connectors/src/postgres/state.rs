//! State of jobs in a database, for several machines that run the same jobs: the tables `haul_runs`, `haul_splits` and `haul_leaves` in the
//! first schema of the search path, made on first use. A job is locked by an advisory lock, which ends with the session that holds it.

use super::catalog::quote_literal;
use super::config::{self, Target};
use super::session::Session;
use haul_model::{Endpoint, Environment, Error, ErrorKind, Held, Result, Saved, Settings, Split, StateStore};
use std::sync::Mutex;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS haul_runs (run text PRIMARY KEY, job text NOT NULL, source text NOT NULL, target text NOT NULL,
        shape text NOT NULL, fingerprint text, direct boolean NOT NULL, started bigint NOT NULL, ended numeric);
    CREATE TABLE IF NOT EXISTS haul_splits (run text NOT NULL REFERENCES haul_runs ON DELETE CASCADE, split bigint NOT NULL,
        what text NOT NULL, rows numeric, bytes numeric, PRIMARY KEY (run, split));
    CREATE TABLE IF NOT EXISTS haul_leaves (run text NOT NULL REFERENCES haul_runs ON DELETE CASCADE, number bigint NOT NULL,
        what text NOT NULL, PRIMARY KEY (run, number))";

/// State in a database.
#[derive(Debug)]
pub struct PostgresState {
    target: Target,
    env: Environment,
    name: String,
}

/// Open as long as the job runs.
struct Lock {
    _session: Mutex<Session>,
}

impl Held for Lock {}

impl PostgresState {
    /// Checks the URI; connects when it is used.
    ///
    /// # Errors
    /// Config.
    pub fn new(endpoint: &Endpoint, env: &Environment) -> Result<Self> {
        let pairs = endpoint.query.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let settings = Settings::resolve(&[config::CONNECTION], pairs, "postgres")?;
        Ok(Self { target: config::target(endpoint, &settings, env)?, env: env.clone(), name: endpoint.redacted() })
    }

    fn session(&self) -> Result<Session> {
        Session::open(&self.target, &self.env, "state").map_err(|e| e.context("state"))
    }

    fn is_made(session: &mut Session) -> Result<bool> {
        let sql = "SELECT pg_catalog.to_regclass('haul_runs') IS NOT NULL AND pg_catalog.to_regclass('haul_leaves') IS NOT NULL";
        Ok(session.row(sql, &[])?.is_some_and(|row| row.flag(0)))
    }
}

/// `NULL` or a literal.
fn literal<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "NULL".to_string(), |value| quote_literal(&value.to_string()))
}

impl StateStore for PostgresState {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn lock(&self, job: &str) -> Result<Option<Box<dyn Held>>> {
        let mut session = self.session()?;
        if session.is_pooled() {
            return Err(Error::new(ErrorKind::Unsupported, "state needs a connection of its own, and a pooler stands in between")
                .object(&self.name)
                .hint("name the server itself in --state"));
        }
        let sql = "SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext('haul job'), pg_catalog.hashtext($1))";
        let got = session.row(sql, &[Some(job)])?.is_some_and(|row| row.flag(0));
        Ok(got.then(|| Box::new(Lock { _session: Mutex::new(session) }) as Box<dyn Held>))
    }

    fn save(&self, saved: &Saved) -> Result<()> {
        let mut session = self.session()?;
        if !Self::is_made(&mut session)? {
            // Two jobs may make them at the same time: then one is told so, and finds them made.
            if let Err(error) = session.run(TABLES)
                && !matches!(error.code_text(), Some("23505" | "42P07" | "42710"))
            {
                return Err(error.context("the tables for state cannot be made"));
            }
        }
        let run = quote_literal(&saved.run);
        let mut sql = format!(
            "BEGIN; DELETE FROM haul_runs WHERE run = {run}; \
             INSERT INTO haul_runs (run, job, source, target, shape, fingerprint, direct, started, ended) VALUES ({run}, {}, {}, {}, {}, {}, {}, {}, {})",
            quote_literal(&saved.job),
            quote_literal(&saved.source),
            quote_literal(&saved.target),
            quote_literal(&saved.shape),
            literal(saved.fingerprint.as_ref()),
            saved.direct,
            saved.started,
            literal(saved.ended)
        );
        for Split { id, what, rows, bytes } in &saved.splits {
            sql.push_str(&format!(
                "; INSERT INTO haul_splits (run, split, what, rows, bytes) VALUES ({run}, {id}, {}, {}, {})",
                quote_literal(what),
                literal(*rows),
                literal(*bytes)
            ));
        }
        for (number, what) in saved.leaves.iter().enumerate() {
            sql.push_str(&format!("; INSERT INTO haul_leaves (run, number, what) VALUES ({run}, {number}, {})", quote_literal(what)));
        }
        session.run(&sql)?;
        session.run("COMMIT")
    }

    fn remove(&self, run: &str) -> Result<()> {
        let mut session = self.session()?;
        match Self::is_made(&mut session)? {
            true => session.run(&format!("DELETE FROM haul_runs WHERE run = {}", quote_literal(run))),
            false => Ok(()),
        }
    }

    fn all(&self) -> Result<Vec<Saved>> {
        let mut session = self.session()?;
        if !Self::is_made(&mut session)? {
            return Ok(Vec::new());
        }
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        let runs = "SELECT run, job, source, target, shape, fingerprint, direct, started::text, ended::text FROM haul_runs ORDER BY haul_runs.started DESC, run DESC";
        let mut all: Vec<Saved> = session
            .query(runs, &[])?
            .iter()
            .map(|row| Saved {
                run: row.text(0).into(),
                job: row.text(1).into(),
                source: row.text(2).into(),
                target: row.text(3).into(),
                shape: row.text(4).into(),
                fingerprint: row.get(5).map(str::to_string),
                direct: row.flag(6),
                started: row.parse(7).unwrap_or(0),
                ended: row.parse(8),
                ..Saved::default()
            })
            .collect();
        for saved in &mut all {
            let run: &[Option<&str>] = &[Some(&saved.run)];
            let splits = "SELECT split::text, what, rows::text, bytes::text FROM haul_splits WHERE run = $1 ORDER BY haul_splits.split";
            for row in session.query(splits, run)?.iter() {
                let id = row.parse(0).ok_or_else(|| Error::new(ErrorKind::Data, "a split without a number").object(&self.name))?;
                saved.splits.push(Split { id, what: row.text(1).into(), rows: row.parse(2), bytes: row.parse(3) });
            }
            let leaves = session.query("SELECT what FROM haul_leaves WHERE run = $1 ORDER BY number", run)?;
            saved.leaves = leaves.iter().map(|row| row.text(0).to_string()).collect();
        }
        session.run("COMMIT")?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_testkit::pg::Scratch;

    #[test]
    fn what_is_kept_comes_back_and_a_job_is_locked_once() {
        let db = Scratch::new();
        let store = PostgresState::new(&Endpoint::parse(&db.url()).unwrap(), &Environment::default()).unwrap();
        assert_eq!(store.all().unwrap(), []);
        store.remove("r1").unwrap();
        let saved = |run: &str, started| Saved {
            job: "j".into(),
            run: run.into(),
            source: "a'b".into(),
            target: "c".into(),
            shape: "x".into(),
            fingerprint: (started > 5).then(|| "line\nline".into()),
            splits: vec![
                Split { id: 0, what: "\"s\".\"line\nbreak\" pages 0-9".into(), rows: None, bytes: Some(81920) },
                Split { id: 1, what: "it's".into(), rows: Some(7), bytes: None },
            ],
            leaves: vec!["table \"s\".\"haul_r_t\"".into(), "notes \"s\"".into()],
            direct: started > 5,
            started,
            ended: (started > 5).then_some(7),
        };
        let (one, two) = (saved("r1", 5), saved("r2", 6));
        for saved in [&one, &two, &two] {
            store.save(saved).unwrap();
        }
        assert_eq!(store.all().unwrap(), [two, one]);
        store.remove("r1").unwrap();
        assert_eq!(store.all().unwrap().len(), 1);
        let held = store.lock("j").unwrap();
        assert!(held.is_some() && store.lock("j").unwrap().is_none() && store.lock("k").unwrap().is_some());
        drop(held);
        // The server takes a moment to see that the session has ended.
        let begun = std::time::Instant::now();
        while store.lock("j").unwrap().is_none() {
            assert!(begun.elapsed() < std::time::Duration::from_secs(20));
        }
    }
}

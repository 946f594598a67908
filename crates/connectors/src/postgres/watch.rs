//! Wait events of a job's own backends, from `pg_stat_activity`.

use super::config::Target;
use super::session::Session;
use haul_model::{Environment, Result, Watch};

/// Which of the job's sessions: those of its source, or those of its sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Sink,
}

/// Looks at one side's sessions, which are known by their application names.
pub(super) struct Waits {
    target: Target,
    env: Environment,
    side: Side,
    session: Option<Session>,
}

impl Waits {
    /// `None` where the sessions cannot be told apart: the user gave them another name.
    pub fn of(target: &Target, env: &Environment, side: Side) -> Option<Box<dyn Watch>> {
        let named = target.application_name.is_none() && !env.run_id.is_empty();
        named.then(|| -> Box<dyn Watch> { Box::new(Self { target: target.clone(), env: env.clone(), side, session: None }) })
    }
}

impl Watch for Waits {
    fn look(&mut self) -> Result<Vec<(String, u64)>> {
        if self.session.is_none() {
            self.session = Some(Session::open(&self.target, &self.env, "watch")?);
        }
        let Some(session) = &mut self.session else { return Ok(Vec::new()) };
        let prefix = |lane: &str| format!("haul/{}/{lane}", self.env.run_id);
        let lanes = match self.side {
            Side::Source => [prefix("split "), prefix("read")],
            Side::Sink => [prefix("lane "), prefix("finish")],
        };
        let sql = "SELECT COALESCE(wait_event_type || ':' || wait_event, 'running'), pg_catalog.count(*) FROM pg_catalog.pg_stat_activity \
                   WHERE state = 'active' AND (pg_catalog.starts_with(application_name, $1) OR pg_catalog.starts_with(application_name, $2)) \
                   GROUP BY 1";
        let rows = session.query(sql, &[Some(&lanes[0]), Some(&lanes[1])])?;
        Ok(rows.iter().map(|row| (row.text(0).to_string(), row.parse(1).unwrap_or(0))).collect())
    }
}

//! What a stream holds at its source: the slot, and the log that the server keeps for it; the publication.

use super::publication::{self, SlotState};
use super::settings::Options;
use super::source::default_name;
use crate::postgres::catalog::quote_ident;
use crate::postgres::config;
use crate::postgres::session::Session;
use haul_model::{CheckLine, Endpoint, Environment, Error, ErrorKind, Result, Settings};

/// A slot that is there, or a publication, or both.
pub(super) struct Held {
    session: Session,
    slot: String,
    state: Option<SlotState>,
    publication: String,
    published: bool,
}

impl Held {
    /// Looks for the slot and the publication that a job with these settings has.
    ///
    /// # Errors
    /// `NotFound`: there is neither.
    pub fn find(endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Self> {
        let options = Options::of(settings)?;
        let mut session = Session::open(&config::target(endpoint, settings, env)?, env, "cdc")?;
        let (slot, publication) = match (&options.slot, &options.publication) {
            (Some(slot), Some(publication)) => (slot.clone(), publication.clone()),
            _ => {
                // Names are made of the tables.
                let name = default_name(&publication::tables(&mut session, &options)?);
                (options.slot.clone().unwrap_or_else(|| name.clone()), options.publication.clone().unwrap_or(name))
            }
        };
        let state = publication::slot(&mut session, &slot)?;
        let there = "SELECT FROM pg_catalog.pg_publication WHERE pubname = $1";
        let published = session.row(there, &[Some(&publication)])?.is_some();
        if state.is_none() && !published {
            return Err(Error::new(ErrorKind::NotFound, format!("there is neither a slot {slot} nor a publication {publication}"))
                .object(session.host())
                .hint("name them with --slot and --publication, or say the same tables as the job does"));
        }
        Ok(Self { session, slot, state, publication, published })
    }

    /// How it stands.
    ///
    /// # Errors
    /// The server's.
    pub fn status(mut self) -> Result<Vec<CheckLine>> {
        let line = |what: &str, ok: Option<bool>, found: String| CheckLine { what: what.into(), ok, found };
        let published = if self.published { "is there" } else { "is missing" };
        let mut lines = vec![line("publication", Some(self.published), format!("{} {published}", self.publication))];
        let Some(state) = &self.state else {
            lines.push(line("slot", Some(false), format!("{} is missing: nothing is kept for the stream", self.slot)));
            return Ok(lines);
        };
        let lost = state.wal_status == "lost" || state.invalid.is_some();
        let health = match (&state.invalid, state.wal_status.as_str()) {
            (Some(why), _) => format!("invalidated ({why})"),
            (None, "lost") => "invalidated: the log that it needs is gone".into(),
            (None, "unreserved") => "in danger: log that it needs may go with the next checkpoint".into(),
            (None, "extended") => "more log than max_wal_size is kept for it".into(),
            _ => "well".into(),
        };
        lines.push(line("slot", Some(!lost), format!("{} {health}", self.slot)));
        let reader = state.active.map_or_else(|| "nobody reads it".to_string(), |pid| format!("process {pid} reads it"));
        lines.push(line("reader", None, reader));
        lines.push(line("kept", None, format!("{} bytes of log", state.kept)));
        if let Some(confirmed) = state.confirmed {
            let sql = "SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), $1::pg_catalog.pg_lsn)";
            let behind = self.session.row(sql, &[Some(&confirmed.to_string())])?.and_then(|row| row.parse::<u64>(0)).unwrap_or(0);
            lines.push(line("behind", None, format!("{behind} bytes of log: {confirmed} is confirmed")));
        }
        Ok(lines)
    }

    /// Drops the slot, and a publication that bears a name of Haul's own.
    ///
    /// # Errors
    /// `Exists`: the slot is being read; rights.
    pub fn drop(mut self) -> Result<Vec<String>> {
        let mut dropped = Vec::new();
        if let Some(state) = &self.state {
            if let Some(pid) = state.active {
                return Err(Error::new(ErrorKind::Exists, format!("the slot is being read by process {pid}"))
                    .object(&self.slot)
                    .hint("end the job first"));
            }
            self.session.run(&publication::drop_slot(&self.slot)).map_err(|e| e.object(&self.slot))?;
            dropped.push(format!("slot {} ({} bytes of log were kept for it)", self.slot, state.kept));
        }
        // One of another name may have other readers.
        if self.published && self.publication.starts_with("haul_") {
            self.session.run(&format!("DROP PUBLICATION {}", quote_ident(&self.publication))).map_err(|e| e.object(&self.publication))?;
            dropped.push(format!("publication {}", self.publication));
        }
        Ok(dropped)
    }
}

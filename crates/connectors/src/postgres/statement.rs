//! Rows that never leave the server: when source and sink are the same database, seen by the same role with the same settings, the sink can
//! run the source's SELECT itself. The statement travels as an encoding of its own, whose bytes are the SELECT.

use super::config::Target;
use super::session::Session;
use haul_model::{Batch, Encoding, Next, Payload, Position, Raw, Reader, Result, Span};

/// The encoding's format.
pub(super) const FORMAT: &str = "pg-statement";
/// How the only split of such a read is called.
pub(super) const SPLIT: &str = "statement";

/// The encoding that a session can give or take; `None` where the role may not ask which database this is.
///
/// # Errors
/// The server's.
pub(super) fn encoding(session: &mut Session, target: &Target, identity: Option<&str>) -> Result<Option<Encoding>> {
    let Some(identity) = identity else { return Ok(None) };
    let role = session.role()?;
    // Settings of the connection decide what a condition of the user's own means.
    let options = target.config.options.clone().unwrap_or_default();
    Ok(Some(Encoding { format: FORMAT, detail: format!("{identity} {role} {options}") }))
}

/// Gives the SELECT, once.
pub(super) struct StatementReader {
    select: Option<String>,
    split: u32,
}

impl StatementReader {
    pub fn new(select: String, split: u32) -> Self {
        Self { select: Some(select), split }
    }
}

impl Reader for StatementReader {
    fn next(&mut self) -> Result<Next> {
        let Some(select) = self.select.take() else { return Ok(Next::End) };
        let span = Span { split: self.split, from: Position::start(), to: Position::number(1) };
        let raw = Raw { bytes: select.into_bytes().into(), records: None, ..Raw::default() };
        Ok(Next::Batch(Batch { spans: vec![span], payload: Payload::Raw(raw) }))
    }
}

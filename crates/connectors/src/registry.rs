//! The registry: one line per connector. Docs, completions, config checks and conformance tests walk it.

use haul_model::{Connector, Error, ErrorKind, Result, nearest};

/// Every connector.
pub static CONNECTORS: &[&dyn Connector] = &[
    &crate::file::FileConnector,
    &crate::generate::GenerateConnector,
    #[cfg(feature = "object")]
    &crate::object::ObjectConnector,
    &crate::postgres::Postgres,
    &crate::postgres::cdc::PostgresCdc,
];

/// The connector that answers to a URI scheme.
///
/// # Errors
/// `Config`, with the nearest scheme.
pub fn by_scheme(scheme: &str) -> Result<&'static dyn Connector> {
    let found = CONNECTORS.iter().find(|c| c.spec().schemes.contains(&scheme));
    found.copied().ok_or_else(|| {
        let schemes = || CONNECTORS.iter().flat_map(|c| c.spec().schemes.iter().copied());
        let error = Error::new(ErrorKind::Config, format!("no connector answers to {scheme}://"));
        match nearest(scheme, schemes()) {
            Some(near) => error.hint(format!("did you mean {near}://?")),
            None => error.hint("`haul connectors` lists them"),
        }
    })
}

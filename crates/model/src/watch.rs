//! Looking at what a server is doing for a job, from the side.

use crate::Result;

/// Looks at the sessions that a job holds on one server. Made by [`crate::Source::watch`] and [`crate::Sink::watch`]; used by one thread, a few
/// times a second, over a connection of its own that is opened at the first look.
pub trait Watch: Send {
    /// What the job's sessions are at right now, and how many of them: `running`, or what they wait for in the server's own words
    /// (`IO:DataFileExtend`).
    ///
    /// # Errors
    /// Connection or rights. The caller stops looking; the job is not concerned.
    fn look(&mut self) -> Result<Vec<(String, u64)>>;
}

/// How [`Watch::look`] names a session that does not wait.
pub const RUNNING: &str = "running";

//! Which failures are tried again, after how long, and what the user can do about the others: one table.
//!
//! A lane that fails is started again from its last durable split, if the sink takes back what was sent since and the source opens
//! a split twice. The waits grow (1, 2, 4 ... times the first, with up to half as much again by chance, so that lanes which failed
//! together do not come back together).

use haul_model::{Error, ErrorKind};
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// What is done about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The kind that it is about.
    pub kind: ErrorKind,
    /// Only with this code of the server (its first letters); `None`: with any.
    pub code: Option<&'static str>,
    /// Whether the same step may succeed when tried again unchanged.
    pub retry: bool,
    /// Whether what is durable is worth keeping for `--resume`: the world failed, not the data.
    pub keep: bool,
}

const fn rule(kind: ErrorKind, code: Option<&'static str>, retry: bool, keep: bool) -> Rule {
    Rule { kind, code, retry, keep }
}

/// The table; the first rule that fits holds, and what no rule names is neither tried again nor kept.
pub static RULES: &[Rule] = &[
    // A source on a standby whose rows were vacuumed away: the snapshot is lost for good.
    rule(ErrorKind::Conflict, Some("40P02"), false, true),
    // Deadlock, serialization failure, a standby's conflict with replay.
    rule(ErrorKind::Conflict, None, true, true),
    // The user's own limits: the same again would take as long.
    rule(ErrorKind::Timeout, Some("57014"), false, true),
    rule(ErrorKind::Timeout, Some("55P03"), false, true),
    // Silence, or a session that was idle for too long.
    rule(ErrorKind::Timeout, None, true, true),
    // The snapshot that all lanes read is gone with the session that held it.
    rule(ErrorKind::Connect, Some("72000"), false, true),
    // Refused, reset, closed, shut down, starting up.
    rule(ErrorKind::Connect, None, true, true),
    // Too many connections, out of memory: the next moment may have room.
    rule(ErrorKind::Limit, Some("53"), true, true),
    // Room can be made, and the run gone on with.
    rule(ErrorKind::DiskFull, None, false, true),
];

/// The rule for an error.
pub fn rule_for(error: &Error) -> Option<&'static Rule> {
    let fits = |rule: &&Rule| {
        rule.kind == error.kind() && rule.code.is_none_or(|code| error.code_text().is_some_and(|found| found.starts_with(code)))
    };
    RULES.iter().find(fits)
}

/// How often and how patiently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Tries after the first, for each split.
    pub most: u32,
    /// The first wait.
    pub wait: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { most: 3, wait: Duration::from_secs(1) }
    }
}

/// No wait is longer.
const LONGEST: Duration = Duration::from_secs(60);

impl Retries {
    /// How long to wait before try `number` (from 1), if there is one.
    pub fn pause(&self, error: &Error, number: u32) -> Option<Duration> {
        if number > self.most || !rule_for(error).is_some_and(|rule| rule.retry) {
            return None;
        }
        let wait = self.wait.saturating_mul(1 << (number - 1).min(16)).min(LONGEST);
        // The standard library's hash keys are the randomness at hand.
        let chance = std::collections::hash_map::RandomState::new().build_hasher().finish();
        Some(wait + wait.mul_f64((chance % 1000) as f64 / 2000.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_again() {
        let error = |kind, code: &str| {
            let error = Error::new(kind, "x");
            if code.is_empty() { error } else { error.code(code) }
        };
        for (kind, code, retry, keep) in [
            (ErrorKind::Connect, "", true, true),
            (ErrorKind::Connect, "57P01", true, true),
            (ErrorKind::Connect, "72000", false, true),
            (ErrorKind::Timeout, "", true, true),
            (ErrorKind::Timeout, "57014", false, true),
            (ErrorKind::Conflict, "40P01", true, true),
            (ErrorKind::Conflict, "40001", true, true),
            (ErrorKind::Limit, "53300", true, true),
            (ErrorKind::Limit, "54000", false, false),
            (ErrorKind::Limit, "", false, false),
            (ErrorKind::DiskFull, "53100", false, true),
            (ErrorKind::Data, "22P02", false, false),
            (ErrorKind::Constraint, "23505", false, false),
            (ErrorKind::Cancelled, "", false, false),
            (ErrorKind::Internal, "", false, false),
        ] {
            let found = rule_for(&error(kind, code)).map_or((false, false), |rule| (rule.retry, rule.keep));
            assert_eq!(found, (retry, keep), "{kind:?} {code}");
        }
    }

    #[test]
    fn waits_grow_and_end() {
        let retries = Retries { most: 20, wait: Duration::from_millis(100) };
        let lost = Error::new(ErrorKind::Connect, "gone");
        for (number, least) in [(1, 100), (2, 200), (5, 1600), (20, 60_000)] {
            let pause = retries.pause(&lost, number).unwrap().as_millis();
            assert!((least..=least * 3 / 2).contains(&pause), "{number}: {pause}");
        }
        assert_eq!(retries.pause(&lost, 21), None);
        assert_eq!(retries.pause(&Error::new(ErrorKind::Data, "bad"), 1), None);
        assert_eq!(Retries { most: 0, ..retries }.pause(&lost, 1), None);
    }
}

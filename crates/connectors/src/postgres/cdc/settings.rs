//! Settings of a stream of changes.

use crate::postgres::config::{CONNECTION, TableName, joined};
use haul_model::{Error, ErrorKind, Kind, OnLossy, Result, Setting, Settings};
use haul_pgwire::Lsn;
use std::time::Duration;

const STREAMING: &[Setting] = &[
    Setting::new(
        "tables",
        Kind::List,
        "",
        "The tables, separated by commas: names as for table, or patterns (public.*). Without it, table names one, or the publication all.",
    ),
    Setting::new(
        "capture",
        Kind::Choice(&["snapshot+stream", "stream", "snapshot"]),
        "snapshot+stream",
        "snapshot+stream reads the rows that are there and then what changes, without a gap or an overlap; stream only what changes from now on (or from where the slot stands); snapshot only the rows that are there.",
    ),
    Setting::new("publication", Kind::Text, "haul_...", "Name of the publication. It is made if it is missing."),
    Setting::new("slot", Kind::Text, "haul_...", "Name of the replication slot. It is made if it is missing."),
    Setting::new(
        "follow",
        Kind::Bool,
        "false",
        "Go on until it is stopped. Without it a run ends where the log ended when the stream began.",
    )
    .tuning(),
    Setting::new(
        "until_lsn",
        Kind::Text,
        "",
        "Where a run ends: after the last transaction that commits before this place (16/B374D848). Overrides follow.",
    )
    .tuning(),
    Setting::new(
        "heartbeat",
        Kind::Duration,
        "10s",
        "How often the slot moves on while the tables have no changes, so that the server can let go of its log.",
    )
    .tuning(),
    Setting::new(
        "events",
        Kind::Choice(&["auto", "columns", "json"]),
        "auto",
        "How an event carries its row: in columns of its own (one table), or as one JSON object in _row (several tables, or tables whose columns change).",
    ),
    Setting::new("max_row_bytes", Kind::Bytes, "64MiB", "A larger change is an error, so that memory stays bounded.").tuning(),
    Setting::new(
        "on_lossy",
        Kind::Choice(&["error", "text", "null", "clamp"]),
        "error",
        "What to do with a value that the target cannot hold exactly.",
    ),
];

/// Settings for reading.
pub static SOURCE: &[Setting] = &joined::<{ CONNECTION.len() + STREAMING.len() }>(CONNECTION, STREAMING);

/// What is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    Both,
    Stream,
    Snapshot,
}

/// How events carry rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Events {
    Columns,
    Json,
}

/// What the user chose.
#[derive(Debug, Clone)]
pub struct Options {
    /// Names and patterns; empty: what the publication has.
    pub tables: Vec<String>,
    pub capture: Capture,
    pub publication: Option<String>,
    pub slot: Option<String>,
    pub until: Option<Lsn>,
    /// The stream has no end.
    pub follow: bool,
    pub heartbeat: Duration,
    /// `None`: by the number of tables.
    pub events: Option<Events>,
    pub max_row_bytes: u64,
    pub on_lossy: OnLossy,
}

impl Options {
    /// Reads the settings.
    ///
    /// # Errors
    /// `Config`.
    pub fn of(settings: &Settings) -> Result<Self> {
        let mut tables = settings.list("tables").unwrap_or_default();
        if let Some(table) = settings.text("table") {
            if !tables.is_empty() {
                return Err(Error::new(ErrorKind::Config, "both table and tables are given").hint("give one of them"));
            }
            tables.push(table.to_string());
        }
        for name in tables.iter().filter(|name| !is_pattern(name)) {
            TableName::parse(name)?;
        }
        let until = settings
            .text("until_lsn")
            .map(|text| text.parse::<Lsn>().map_err(|e| Error::new(ErrorKind::Config, format!("until_lsn {text:?} is {e}"))));
        let slot = settings.text("slot").map(str::to_string);
        if let Some(name) = slot.as_ref().filter(|name| !is_slot_name(name)) {
            return Err(Error::new(ErrorKind::Config, format!("{name:?} cannot be the name of a slot"))
                .hint("up to 63 lower-case letters, digits and underscores"));
        }
        Ok(Self {
            tables,
            capture: match settings.choice("capture").as_deref() {
                Some("stream") => Capture::Stream,
                Some("snapshot") => Capture::Snapshot,
                _ => Capture::Both,
            },
            publication: settings.text("publication").map(str::to_string),
            slot,
            until: until.transpose()?,
            follow: settings.flag("follow", false),
            heartbeat: settings.duration("heartbeat").unwrap_or(Duration::from_secs(10)),
            events: match settings.choice("events").as_deref() {
                Some("columns") => Some(Events::Columns),
                Some("json") => Some(Events::Json),
                _ => None,
            },
            max_row_bytes: settings.bytes("max_row_bytes").unwrap_or(64 << 20),
            on_lossy: match settings.choice("on_lossy").as_deref() {
                Some("text") => OnLossy::Text,
                Some("null") => OnLossy::Null,
                Some("clamp") => OnLossy::Clamp,
                _ => OnLossy::Error,
            },
        })
    }
}

/// Whether a name of `tables` means several tables.
pub fn is_pattern(name: &str) -> bool {
    !name.contains('"') && name.contains(['*', '?'])
}

fn is_slot_name(name: &str) -> bool {
    (1..=63).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Result<Options> {
        Options::of(&Settings::resolve(&[SOURCE], pairs.iter().copied(), "postgres-cdc")?)
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_connects() {
        let bad = [
            (&[("table", "a"), ("tables", "b")][..], "both table and tables"),
            (&[("until_lsn", "12")], "until_lsn \"12\" is not a place in the log"),
            (&[("slot", "Big")], "cannot be the name of a slot"),
            (&[("tables", "a.b.c.d")], "more than two parts"),
        ];
        for (pairs, told) in bad {
            let error = options(pairs).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
        let good = options(&[("tables", "public.*,other.t"), ("capture", "stream"), ("until_lsn", "1/F")]).unwrap();
        assert_eq!((good.tables.len(), good.capture, good.until), (2, Capture::Stream, Some(Lsn(0x1_0000_000f))));
    }
}

//! Bad rows. The default stops at the first, with its place. `--on-error reject` writes them aside (raw record,
//! place, reason), counts them, and goes on until `--max-rejects`.

use crate::progress::Progress;
use haul_model::{Error, ErrorKind, Rejects, Result, Rows};
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

/// What happens to a bad row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// The job stops.
    #[default]
    Stop,
    /// The row is written aside.
    Reject {
        /// More than this many stop the job.
        max: u64,
    },
}

/// Where rejected rows go: JSON lines with object, line, row, column, reason and the raw record.
pub struct RejectLog(Mutex<Box<dyn Write + Send>>);

impl RejectLog {
    /// A log that writes to `out`.
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self(Mutex::new(out))
    }

    fn write(&self, error: &Error, record: &[u8]) -> Result<()> {
        let place = error.place();
        let mut entry = serde_json::Map::new();
        let mut put = |key: &str, value: Option<serde_json::Value>| {
            if let Some(value) = value {
                entry.insert(key.to_string(), value);
            }
        };
        put("object", place.object.clone().map(Into::into));
        put("line", place.line.map(Into::into));
        put("row", place.row.map(Into::into));
        put("column", place.column.clone().map(Into::into));
        put("reason", Some(error.detail().into()));
        match std::str::from_utf8(record) {
            Ok(text) => put("record", Some(text.into())),
            Err(_) => put("record_hex", Some(record.iter().map(|b| format!("{b:02x}")).collect::<String>().into())),
        }
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_writer(&mut *out, &entry)
            .map_err(std::io::Error::from)
            .and_then(|()| out.write_all(b"\n"))
            .map_err(|e| Error::io("the rejects file", "cannot write", e))
    }

    /// Makes sure that everything is on its way to the disk.
    ///
    /// # Errors
    /// IO.
    pub fn flush(&self) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush().map_err(|e| Error::io("the rejects file", "cannot write", e))
    }
}

/// The policy of a job, shared by its workers.
pub(crate) struct Policy<'a> {
    pub on_error: OnError,
    pub log: Option<&'a RejectLog>,
    pub progress: &'a Progress,
}

/// One worker's [`Rejects`]: holds the rejects of a chunk until its first row number is known.
pub(crate) struct WorkerRejects<'a> {
    policy: &'a Policy<'a>,
    /// Records of the chunk that never became rows.
    pub records: u64,
    /// Rows taken out later.
    pub rows: u64,
    /// Values replaced.
    pub lossy: u64,
    held: Vec<(Error, Vec<u8>)>,
}

impl<'a> WorkerRejects<'a> {
    pub fn new(policy: &'a Policy<'a>) -> Self {
        Self { policy, records: 0, rows: 0, lossy: 0, held: Vec::new() }
    }

    fn hold(&mut self, error: Error, record: &[u8]) -> Result<()> {
        let OnError::Reject { max } = self.policy.on_error else { return Err(error) };
        let so_far = self.policy.progress.rejected.fetch_add(1, Relaxed) + 1;
        if so_far > max {
            return Err(error.context(format!("{so_far} rows rejected, more than --max-rejects {max} allows; the last one")));
        }
        if self.policy.log.is_some() {
            self.held.push((error, record.to_vec()));
        }
        Ok(())
    }

    /// A row that the sink refused.
    pub fn refused(&mut self, rows: &Rows, row: usize, error: Error) -> Result<()> {
        self.row(rows, row, error)
    }

    /// The chunk's first record is number `records_before + 1`: write what was held.
    pub fn settle(&mut self, records_before: u64) -> Result<()> {
        for (error, record) in self.held.drain(..) {
            if let Some(log) = self.policy.log {
                log.write(&error.resolve_row(records_before), &record)?;
            }
        }
        Ok(())
    }
}

impl Rejects for WorkerRejects<'_> {
    fn row(&mut self, rows: &Rows, row: usize, error: Error) -> Result<()> {
        let error = rows.locate(row, error);
        let rendered;
        let record = match rows.raw_record(row) {
            Some(record) => record,
            None => {
                rendered = render(rows, row);
                &rendered
            }
        };
        self.hold(error, record)?;
        self.rows += 1;
        Ok(())
    }

    fn record(&mut self, record: &[u8], error: Error) -> Result<()> {
        self.hold(error, record)?;
        self.records += 1;
        Ok(())
    }

    fn lossy(&mut self, _column: &str, count: u64) {
        self.lossy += count;
    }
}

/// A row without a raw record (it came from a database), as JSON.
fn render(rows: &Rows, row: usize) -> Vec<u8> {
    let mut out = vec![b'{'];
    for (i, field) in rows.batch.schema_ref().fields().iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend(serde_json::Value::from(field.name().as_str()).to_string().into_bytes());
        out.push(b':');
        // A value that JSON has no form for (NaN) is left as null: the log is for people.
        let before = out.len();
        if haul_formats::jsonl::write_json_value(rows.batch.column(i).as_ref(), field, row, &mut out).is_err() {
            out.truncate(before);
            out.extend_from_slice(b"null");
        }
    }
    out.push(b'}');
    out
}

/// `Limit`-kind errors end a job under `Reject` too; so does anything that is not about one row.
pub(crate) fn is_row_error(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Data | ErrorKind::Lossy | ErrorKind::Constraint)
}

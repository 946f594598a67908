//! Proof that a target holds what was sent: counts, or checksums of every column.
//!
//! What is sent is added up in the same pass and snapshot as it is read (`witness.rs`), after transforms, limits and rejects. When the
//! target has been committed it is read again in parallel lanes and added up in the same way (`reread.rs`); the sums must be equal
//! ([`haul_model::digest`] says what they are, and what they can miss).
//!
//! # Canonical forms
//! Where bytes pass through untouched (PostgreSQL to PostgreSQL, same types), values are compared by their bytes in that encoding:
//! nothing is equal that is not the same. Otherwise each column is compared by value, in the form that the side with the stronger type
//! has, so that PostgreSQL, Parquet, CSV and JSON Lines agree:
//!
//! | form | equal are |
//! |---|---|
//! | boolean, integer | the same value at any width, signed or not |
//! | number | the same value: 1.5 and 1.50 (the scale is not looked at), digits without limit; an integer beside a decimal is a number |
//! | float | the same bits; every NaN is one NaN; -0 is not 0; single is widened only beside double |
//! | text | the same bytes: no normalisation, no trimming; beside a `char(n)`, blanks at the end are left away |
//! | bytes, uuid | the same bytes; as text in hex, `\x` in front |
//! | date, time, timestamp | the same day, time of day, instant (with a zone) or local time (without), to the nanosecond |
//! | JSON | the same parsed value: members in any order, of equal keys the last, numbers as above; beside text, a JSON string is the text that it stands for |
//! | lists, structs, maps | the same JSON |
//! | anything else of a server | its own text |
//!
//! NULL is equal to NULL only: not to "", nor to JSON's null. A text that is no value of its column's form (`infinity` as a date) is compared as text.

pub(crate) mod arrays;
pub(crate) mod canon;
mod compare;
pub(crate) mod reread;
mod value;
pub(crate) mod witness;

#[cfg(test)]
mod tests;

use crate::plan::{Job, Plan};
use crate::resume::Resume;
use canon::Canon;
use haul_model::{Error, ErrorKind, Form, Holds, ReadBack, Result, Source, Split, Sums};
use reread::{Hashing, Summing};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use witness::Proof;

/// How much is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The number of rows.
    Count,
    /// Every value.
    Checksum,
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Count => "count",
            Self::Checksum => "checksum",
        })
    }
}

/// Opens the target for reading.
pub trait Target: Send + Sync {
    /// A source at the sink's endpoint (or where it says) with these settings.
    ///
    /// # Errors
    /// As [`haul_model::Connector::source`].
    fn source(&self, back: &ReadBack) -> Result<Box<dyn Source>>;
}

/// A proof that was asked for.
#[derive(Clone)]
pub struct Verify {
    /// Of what.
    pub how: How,
    /// The way back in.
    pub target: Arc<dyn Target>,
}

impl std::fmt::Debug for Verify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Verify({})", self.how)
    }
}

/// What was proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Of what.
    pub how: How,
    /// Rows of the load that the target holds.
    pub rows: u64,
    /// Columns that were compared.
    pub columns: usize,
    /// By their bytes, not by value.
    pub exact: bool,
}

impl std::fmt::Display for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.how {
            How::Count => f.write_str("count"),
            How::Checksum => write!(f, "checksum of {} column(s){}", self.columns, if self.exact { ", byte for byte" } else { "" }),
        }
    }
}

/// Whether bytes of this job may pass through: what nobody can add up is decoded.
pub(crate) fn may_pass(job: &Job, encoding: &haul_model::Encoding) -> bool {
    match &job.options.verify {
        None => true,
        Some(Verify { how: How::Count, .. }) => encoding.format != STATEMENT,
        Some(Verify { how: How::Checksum, .. }) => job.source.digester(encoding).is_some(),
    }
}

/// Rows that never come by cannot be counted here.
const STATEMENT: &str = "pg-statement";

/// What will be proven, for the plan.
///
/// # Errors
/// `Unsupported`: it cannot be.
pub(crate) fn plan(job: &Job, pass_through: bool, resume: &Resume) -> Result<Option<String>> {
    let Some(verify) = &job.options.verify else { return Ok(None) };
    let back = job.sink.read_back().map_err(|e| e.context(format!("--verify {}", verify.how)).hint("leave --verify out"))?;
    let refuse = |why: &str, hint: &str| {
        Err(Error::new(ErrorKind::Unsupported, format!("--verify {}: {why}", verify.how)).object(job.sink.name()).hint(hint))
    };
    if back.holds == Holds::Merged {
        return refuse(
            "the target will also hold rows that were there, and which of them are the load's only their key tells",
            "load without --verify; then haul diff FROM TO --key COLUMNS compares row by row",
        );
    }
    let earlier = !resume.done().is_empty();
    if earlier && verify.how == How::Checksum {
        return refuse(
            "an earlier run has read part of the rows, and left no checksums of them",
            "--verify count counts them too; or go on without --verify, then haul diff FROM TO --key COLUMNS; or --restart",
        );
    }
    if earlier && back.holds == Holds::More {
        return refuse("rows of an earlier run are in the target already", "go on without --verify, then haul diff FROM TO --key COLUMNS");
    }
    let what = match (verify.how, pass_through) {
        (How::Count, _) => "count",
        (How::Checksum, true) => "checksum of every column, byte for byte",
        (How::Checksum, false) => "checksum of every column, by value",
    };
    let before = if back.holds == Holds::More { ", less what it held before" } else { "" };
    Ok(Some(format!("{what}: of what is sent, in the same pass, and of the target, read again after the commit{before}")))
}

/// An earlier run has done everything: nothing is sent that could be proven.
pub(crate) fn finished_before(name: String) -> Error {
    Error::new(ErrorKind::Unsupported, "--verify: an earlier run has written everything, and nothing is left to be sent")
        .object(name)
        .hint("go on without --verify, then haul diff FROM TO --key COLUMNS compares both sides")
}

/// A proof that has begun.
pub(crate) struct Prepared {
    verify: Verify,
    /// For the workers; `None` where rows are counted.
    pub proof: Option<Proof>,
    back: ReadBack,
    /// Names and forms of the columns that are compared.
    columns: Vec<Compared>,
    before: Sums,
    threads: usize,
}

/// A column on both sides.
#[derive(Debug, Clone)]
pub(crate) struct Compared {
    /// Where it stands in what is sent.
    sent: usize,
    pub name: String,
    canon: Canon,
    /// The type there, if the server may write its values in a way of its own.
    rewritten: Option<String>,
}

/// Before the target changes: what is compared as what, and what the target holds.
///
/// # Errors
/// Columns that cannot be compared, named; whatever reading the target can meet.
pub(crate) fn prepare(job: &Job, plan: &Plan, stop: &AtomicBool) -> Result<Option<Prepared>> {
    let Some(verify) = job.options.verify.clone() else { return Ok(None) };
    let back = job.sink.read_back()?;
    let threads = plan.workers.max(job.options.cores).max(1);
    let mut prepared = Prepared { proof: None, columns: Vec::new(), before: Sums::default(), threads, back, verify };
    // A file is replaced as a whole, whatever it was.
    let mut target = match (plan.write.own_connections && prepared.back.at.is_none()).then(|| prepared.verify.target.source(&prepared.back))
    {
        None => None,
        Some(Ok(target)) => Some(target),
        Some(Err(error)) if error.kind() == ErrorKind::NotFound => None,
        Some(Err(error)) => return Err(error.context(format!("--verify {}", prepared.verify.how))),
    };
    let exact = plan.pass_through.clone();
    if prepared.verify.how == How::Checksum {
        prepared.columns = prepared.compared(plan, target.as_deref())?;
        let columns = prepared.columns.iter().map(|column| (column.sent, column.canon)).collect();
        prepared.proof = Some(Proof::new(columns, exact));
    }
    if let (Holds::More, Some(target)) = (prepared.back.holds, &mut target) {
        prepared.before = prepared.sum(target.as_mut(), plan, stop)?;
    }
    Ok(Some(prepared))
}

impl Prepared {
    fn compared(&self, plan: &Plan, target: Option<&dyn Source>) -> Result<Vec<Compared>> {
        let forms = [Form::Text, Form::Json];
        let schemas =
            target.map(|target| forms.map(|form| target.schema(form))).map(|[text, json]| Ok::<_, Error>([text?, json?])).transpose()?;
        let mut columns = Vec::new();
        for (place, (sent, name)) in self.back.columns.iter().enumerate() {
            let Some(field) = plan.schema.fields().get(*sent) else { return Err(Error::internal("a column that is not sent")) };
            let there = schemas.as_ref().map(|schemas| schemas.each_ref().map(|schema| schema.field(place).clone()));
            let canon = match (&plan.pass_through, &there) {
                // Its bytes are compared, whatever they mean.
                (Some(_), _) => Some(Canon::Text),
                (None, None) => canon::agree(field, None, self.back.tokens),
                (None, Some(there)) => there.iter().find_map(|there| canon::agree(field, Some(there), self.back.tokens)),
            };
            let canon = canon
                .ok_or_else(|| incomparable(name, &field.data_type().to_string(), there.as_ref().map(|t| t[0].data_type().to_string())))?;
            let rewritten = there.as_ref().filter(|there| canon::is_rewritten(field, &there[0], canon));
            let rewritten = rewritten.and_then(|there| haul_model::field_meta::source_type(&there[0], "postgres").map(str::to_string));
            columns.push(Compared { sent: *sent, name: name.clone(), canon, rewritten });
        }
        Ok(columns)
    }

    /// How the target is read.
    fn hashing(&self, target: &dyn Source, plan: &Plan) -> Result<Hashing> {
        let encoding = match (self.verify.how, &plan.pass_through) {
            (How::Count, _) => return Ok(Hashing::None),
            (How::Checksum, encoding) => encoding.clone(),
        };
        if let Some(encoding) = encoding {
            if !target.encodings().contains(&encoding) {
                return Err(Error::new(ErrorKind::Mismatch, "the target's types are not the source's any more").object(target.name()));
            }
            return Ok(Hashing::Exact(encoding));
        }
        let mut first_refused = None;
        for form in [Form::Text, Form::Json] {
            let schema = target.schema(form)?;
            if schema.fields().len() != self.columns.len() {
                return Err(Error::new(
                    ErrorKind::Mismatch,
                    format!("{} columns were written, and {} are there", self.columns.len(), schema.fields().len()),
                )
                .object(target.name()));
            }
            let refused =
                self.columns.iter().zip(schema.fields()).find(|(column, field)| !canon::readable(field, column.canon, self.back.tokens));
            match refused {
                None => {
                    let columns = self.columns.iter().enumerate().map(|(place, column)| (place, column.canon)).collect();
                    return Ok(Hashing::Typed { form, columns, tokens: self.back.tokens });
                }
                Some((column, field)) => {
                    let sent = plan.schema.field(column.sent).data_type().to_string();
                    first_refused.get_or_insert_with(|| incomparable(&column.name, &sent, Some(field.data_type().to_string())));
                }
            }
        }
        Err(first_refused.unwrap_or_else(|| Error::internal("no way to read the target")))
    }

    fn sum(&self, target: &mut dyn Source, plan: &Plan, stop: &AtomicBool) -> Result<Sums> {
        if self.verify.how == How::Count
            && let Some(rows) = target.count()?
        {
            return Ok(Sums { rows, ..Sums::default() });
        }
        let hashing = self.hashing(target, plan)?;
        let summing = Summing::plan(target, hashing, self.threads, stop)?;
        let sums = summing.all()?;
        summing.finish()?;
        Ok(sums)
    }

    /// After the commit: reads the target again and compares.
    ///
    /// # Errors
    /// `Mismatch`, with the columns and, where they can be told, the splits; whatever reading the target can meet.
    pub fn prove(self, job: &Job, plan: &Plan, sent_rows: u64, stop: &AtomicBool) -> Result<Verified> {
        let unproven =
            |e: Error| e.context(format!("--verify {}", self.verify.how)).also("the load itself is committed; only its proof is missing");
        let mut target = self.verify.target.source(&self.back).map_err(unproven)?;
        let by_split = self.proof.as_ref().map(Proof::sums).unwrap_or_default();
        let mut sent = Sums { rows: if self.proof.is_some() { 0 } else { sent_rows }, ..Sums::default() };
        by_split.values().for_each(|sums| sent.merge(sums));
        if sent.rows != sent_rows {
            return Err(Error::internal(format!("{sent_rows} rows were sent, and {} summed up", sent.rows)));
        }
        let exact = plan.pass_through.is_some() && self.verify.how == How::Checksum;
        let verified = Verified { how: self.verify.how, rows: sent_rows, columns: self.columns.len(), exact };
        let count = if self.verify.how == How::Count { target.count().map_err(unproven)? } else { None };
        if let Some(rows) = count {
            let mut found = Sums { rows, ..Sums::default() };
            found.take(&self.before);
            return compare::compare(&self.columns, &sent, &found).map(|()| verified).map_err(|e| self.named(e, job, sent_rows));
        }
        let hashing = self.hashing(target.as_ref(), plan).map_err(unproven)?;
        let summing = Summing::plan(target.as_mut(), hashing, self.threads, stop).map_err(unproven)?;
        let mut found = summing.all().map_err(unproven)?;
        found.take(&self.before);
        let Err(mismatch) = compare::compare(&self.columns, &sent, &found) else {
            summing.finish().map_err(unproven)?;
            return Ok(verified);
        };
        let splits = match self.splits(&summing, plan) {
            Ok(Some(found)) => compare::differing(&plan.read.splits, &by_split, &found),
            _ => Vec::new(),
        };
        Err(self.named(compare::in_splits(mismatch, &splits), job, sent_rows))
    }

    /// The target's rows by the source's splits, where they are told by values that both sides have.
    fn splits(&self, summing: &Summing<'_>, plan: &Plan) -> Result<Option<BTreeMap<u32, Sums>>> {
        let same_names = self.columns.iter().all(|column| plan.schema.field(column.sent).name() == &column.name);
        if self.proof.is_none() || !same_names || self.before.rows > 0 {
            return Ok(None);
        }
        let splits: &[Split] = &plan.read.splits;
        summing.shared(splits)
    }

    /// A mismatch with its place, and what can be done.
    fn named(&self, error: Error, job: &Job, rows: u64) -> Error {
        let mut error = error.object(job.sink.name());
        if let Some(column) = self.columns.iter().find(|c| error.place().column.as_ref() == Some(&c.name))
            && let Some(type_name) = &column.rewritten
        {
            error = error.also(format!(
                "the server writes values of type {type_name} in its own way: if the source has them in another one, --verify count is what can be proven"
            ));
        }
        let before = if self.before.rows > 0 { ", or other sessions changed the table meanwhile" } else { "" };
        if rows == 0 {
            error
        } else {
            error.also(format!("the load is committed as it is{before}: haul diff FROM TO --key COLUMNS finds the rows"))
        }
    }
}

fn incomparable(name: &str, sent: &str, there: Option<String>) -> Error {
    let what = match there {
        Some(there) => format!("--verify checksum: {sent} cannot be compared with {there} there"),
        None => format!("--verify checksum: values of type {sent} have no canonical form"),
    };
    Error::new(ErrorKind::Unsupported, what).column(name).hint("--verify count compares the number of rows")
}

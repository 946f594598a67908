//! `haul demo`: the main job on generated data, with proof.
//!
//! CSV -> JSONL (values as strings) -> JSONL (typed) -> Parquet, and from each of them back to CSV. The proof is the
//! strongest there is: every CSV that comes back is byte for byte the one that went in.

use crate::commands::copy;
use crate::render::{self, Table};
use clap::ArgMatches;
use haul_model::{Environment, Error, ErrorKind, Result};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

const CASTS: &str = "id:bigint,amount:double,created_at:timestamptz,active:boolean,attributes:json";
const TYPED_SCHEMA: &str =
    r#"{"type":"object","properties":{"id":{"type":"integer"},"attributes":{"type":"string","contentMediaType":"application/json"}}}"#;

/// A folder that goes away with the demo.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One line of the demo: a title, a copy, and the flags that it takes.
struct Step {
    title: &'static str,
    from: String,
    to: String,
    flags: Vec<(&'static str, String)>,
}

/// Runs the command.
///
/// # Errors
/// A step failed, or the proof did not hold.
pub fn run(matches: &ArgMatches, env: &Environment) -> Result<()> {
    let rows = *matches.get_one::<u64>("rows").unwrap_or(&1_000_000);
    let folder = std::env::temp_dir().join(format!("haul-demo-{}", env.run_id));
    std::fs::create_dir(&folder).map_err(|e| Error::io(folder.display().to_string(), "cannot create", e))?;
    let scratch = Scratch(folder);
    let schema = scratch.0.join("bench.json");
    std::fs::write(&schema, TYPED_SCHEMA).map_err(|e| Error::io(schema.display().to_string(), "cannot write", e))?;
    render::print(&format!("haul demo: {} rows in {}\n\n", render::count(rows), scratch.0.display()))?;

    let mut table = Table::new(&["step", "rows", "seconds", "rows/s", "MB/s in", "bytes out", "peak memory"]).right(&[1, 2, 3, 4, 5, 6]);
    for step in steps(&scratch.0, &schema, rows) {
        table.row(measure(step, env)?);
    }
    render::print(&format!("{}\n", table.render()))?;
    prove(&scratch.0, rows)
}

fn steps(folder: &Path, schema: &Path, rows: u64) -> Vec<Step> {
    let at = |name: &str| folder.join(name).display().to_string();
    let step = |title, from: String, to: String, flags: &[(&'static str, &str)]| Step {
        title,
        from,
        to,
        flags: flags.iter().map(|(n, v)| (*n, (*v).to_string())).collect(),
    };
    let schema = schema.display().to_string();
    vec![
        step("generate CSV", format!("generate://bench?rows={rows}&seed=42"), at("bench.csv"), &[("newline", "crlf")]),
        step("CSV -> JSONL, as strings", at("bench.csv"), at("strings.jsonl"), &[]),
        step("CSV -> JSONL, typed", at("bench.csv"), at("typed.jsonl"), &[("json_schema", &schema)]),
        step("CSV -> Parquet, typed", at("bench.csv"), at("bench.parquet"), &[("cast", CASTS)]),
        step("JSONL strings -> CSV", at("strings.jsonl"), at("from-strings.csv"), &[("newline", "crlf")]),
        step("JSONL typed -> CSV", at("typed.jsonl"), at("from-typed.csv"), &[("newline", "crlf")]),
        step("Parquet -> CSV", at("bench.parquet"), at("from-parquet.csv"), &[("newline", "crlf")]),
    ]
}

/// Runs a step; returns its line of the table.
fn measure(step: Step, env: &Environment) -> Result<Vec<String>> {
    reset_peak();
    let started = Instant::now();
    let flags: Vec<(String, String)> = step.flags.into_iter().map(|(n, v)| (n.to_string(), v)).collect();
    let done = copy::copy(&step.from, &step.to, &flags, env)?;
    let seconds = started.elapsed().as_secs_f64().max(1e-6);
    let (counts, finished) = (&done.outcome.counts, &done.outcome.finished);
    let bytes_in = std::fs::metadata(&step.from).map_or(counts.bytes_in, |m| m.len());
    Ok(vec![
        step.title.into(),
        render::count(finished.rows),
        format!("{seconds:.2}"),
        render::count((finished.rows as f64 / seconds) as u64),
        format!("{:.0}", bytes_in as f64 / seconds / 1e6),
        render::bytes(finished.bytes),
        render::bytes(copy::peak_rss()),
    ])
}

/// Starts a new peak for `VmHWM` (Linux: proc(5), clear_refs 5). Without it the peaks only grow.
fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn prove(folder: &Path, rows: u64) -> Result<()> {
    let original = folder.join("bench.csv");
    for name in ["from-strings.csv", "from-typed.csv", "from-parquet.csv"] {
        if !same_bytes(&original, &folder.join(name))? {
            return Err(Error::new(ErrorKind::Data, "is not the CSV that went in").object(name));
        }
    }
    render::print(&format!(
        "proof: {} rows each way, and all three CSV files that came back are byte for byte the one that went in\n",
        render::count(rows)
    ))?;
    Ok(())
}

fn same_bytes(a: &Path, b: &Path) -> Result<bool> {
    let open = |path: &Path| std::fs::File::open(path).map_err(|e| Error::io(path.display().to_string(), "cannot open", e));
    let (mut a, mut b) = (std::io::BufReader::with_capacity(1 << 20, open(a)?), std::io::BufReader::with_capacity(1 << 20, open(b)?));
    let (mut x, mut y) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let fill = |reader: &mut dyn Read, buffer: &mut [u8]| -> Result<usize> {
            let mut have = 0;
            while have < buffer.len() {
                match reader.read(&mut buffer[have..]).map_err(|e| Error::io("the demo's files", "cannot read", e))? {
                    0 => break,
                    n => have += n,
                }
            }
            Ok(have)
        };
        let (n, m) = (fill(&mut a, &mut x)?, fill(&mut b, &mut y)?);
        if x[..n] != y[..m] {
            return Ok(false);
        }
        if n == 0 {
            return Ok(true);
        }
    }
}

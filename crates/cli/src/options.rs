//! Settings of a job, beside those of its connectors. Flags, docs and completions are generated from here.

use haul_model::{Kind, Setting};

/// Settings that belong to the job itself.
pub static JOB: &[Setting] = &[
    Setting::new(
        "degree",
        Kind::Int,
        "0",
        "Lanes on the network (connections at once), 1 to 1024; 0 = automatic, -N = cores / N. CPU work always uses every core.",
    )
    .alias(&["concurrency"])
    .tuning(),
    Setting::new("batch_size", Kind::Int, "automatic", "At most this many rows in a batch.").alias(&["batch_rows"]).tuning(),
    Setting::new("batch_bytes", Kind::Bytes, "automatic", "About this many bytes in a block that is sent to a database at once; rows that pass through go as they are read.").tuning(),
    Setting::new("extractors", Kind::Int, "", "Threads that read ahead, each a split of its own. Without it the workers read themselves.").tuning(),
    Setting::new("extractor_queue", Kind::Int, "8", "Chunks (of about 256 KiB) that may lie ready for each split.").tuning(),
    Setting::new("transformers", Kind::Int, "", "Threads that decode, transform and encode. Without it: the cores, or the lanes of a database.").tuning(),
    Setting::new("loaders", Kind::Int, "", "Threads that write, each over a connection of its own. Without it the workers write themselves, and a failed run can be gone on with.").tuning(),
    Setting::new("loader_queue", Kind::Int, "2", "Blocks that may wait for each loader.").tuning(),
    Setting::new("batches_per_split", Kind::Int, "", "A split has about this many batches of batch_size rows (the split_rows of a database).").tuning(),
    Setting::new("limit", Kind::Int, "", "Stop after this many rows."),
    Setting::new("columns", Kind::List, "auto", "Only these columns, in this order. auto: all, mapped to the target by name."),
    Setting::new("cast", Kind::Text, "", "Types for columns: id:bigint,ts:timestamptz,attributes:json. SQL and Arrow names both work."),
    Setting::new(
        "filter",
        Kind::Text,
        "",
        "Only rows that meet this condition, after any casts: comparisons, in, between, is null, and, or, not. The others are counted. A database does it itself with --where.",
    ),
    Setting::new("rename", Kind::Text, "", "New names for columns: old:new,old2:new2."),
    Setting::new(
        "infer",
        Kind::Bool,
        "false",
        "Find the types of text columns from a sample. A later value that does not fit is an error with its line.",
    ),
    Setting::new("json_schema", Kind::Path, "", "A JSON Schema file that types and checks the columns.").alias(&["schema_file"]),
    Setting::new(
        "on_error",
        Kind::Choice(&["stop", "reject"]),
        "stop",
        "stop: a bad row ends the job. reject: it is counted, written to --rejects, and the job goes on.",
    ),
    Setting::new("rejects", Kind::Path, "", "File for rejected rows (JSON lines: place, reason, raw record).").tuning(),
    Setting::new("max_rejects", Kind::Int, "1000", "More rejected rows than this fail the job.").tuning(),
    Setting::new(
        "on_lossy",
        Kind::Choice(&["error", "text", "null", "clamp"]),
        "error",
        "A value that the target cannot hold exactly: stop, carry it as exact text, write NULL, or write the nearest value. Counted.",
    ),
    Setting::new("budget", Kind::Bytes, "64MiB", "Bytes in flight.").tuning(),
    Setting::new(
        "drain",
        Kind::Bool,
        "true",
        "Read to the end and stop. Always the case for files and tables; accepted for scripts that say it.",
    )
    .tuning(),
    Setting::new(
        "max_latency",
        Kind::Duration,
        "1s",
        "Endless jobs: rows are durable at the latest after this time, also while more keep coming. An idle stream never waits.",
    )
    .tuning(),
    Setting::new(
        "grace",
        Kind::Duration,
        "10s",
        "Endless jobs: how long SIGTERM or Ctrl-C waits for what was read to become durable. Past that it is read again next time.",
    )
    .tuning(),
    Setting::new(
        "retries",
        Kind::Int,
        "3",
        "A lane whose connection fails (or that the server asks to try again) starts again from its last durable split, this often in a row (endless jobs: 20 by default).",
    )
    .tuning(),
    Setting::new("retry_wait", Kind::Duration, "1s", "Before the first such try; then twice as long each time, at most a minute.").tuning(),
    Setting::new(
        "resume",
        Kind::Choice(&["off", "on", "stale-ok"]),
        "off",
        "Go on with the last run of this job that failed or was killed, if there is one. Finished splits are kept only where the source is proven unchanged; stale-ok accepts that splits by key show an earlier instant.",
    )
    .bare("on")
    .tuning(),
    Setting::new(
        "verify",
        Kind::Choice(&["off", "count", "checksum"]),
        "off",
        "Prove that the target holds what was sent: read it again after the commit and compare the number of rows, or checksums of every column that do not depend on the order of rows. A difference fails the job.",
    )
    .bare("checksum")
    .tuning(),
    Setting::new("restart", Kind::Bool, "false", "Start over, and remove what earlier runs of this job have left.").tuning(),
    Setting::new(
        "state",
        Kind::Text,
        "$XDG_STATE_HOME/haul",
        "Where is remembered what a run may leave: a folder, or postgres://user@host/db for several machines.",
    )
    .tuning(),
];

/// Settings of a job that are said for a run of it, never in its file.
pub static OF_THE_RUN: &[&str] = &["resume", "restart", "state"];

/// Settings of the command line itself.
pub static DISPLAY: &[Setting] = &[
    Setting::new("progress", Kind::Choice(&["auto", "bar", "plain", "none"]), "auto", "auto: a bar on a terminal, else a line every 30 s.")
        .tuning(),
    Setting::new("json", Kind::Bool, "false", "Print the result as one JSON object on standard output.").tuning(),
    Setting::new("dry_run", Kind::Bool, "false", "Print the plan and stop.").tuning(),
];

//! Keys that people know from go-migrate's files, and what they are called here.

static KEYS: &[(&[&str], &str)] = &[
    (&["max_parallel_workers"], "max_parallel_tables (beside streams)"),
    (&["batches_per_partition"], "batches_per_split"),
    (&["max_extractors"], "extractors"),
    (&["max_transformers"], "transformers"),
    (&["max_loaders"], "loaders"),
    (&["extractor_batch_size"], "extractor_batch_rows"),
    (&["transformer_batch_size"], "transformer_batch_rows"),
    (&["loader_batch_size"], "loader_batch_rows"),
    (&["extractor_queue_size"], "extractor_queue"),
    (&["transformer_queue_size"], "transformer_queue"),
    (&["tables", "migrations", "jobs"], "streams"),
    (&["source", "source_table", "src"], "from: CONNECTION:SCHEMA.TABLE"),
    (&["target", "target_table", "destination", "dst"], "to: CONNECTION:SCHEMA.TABLE"),
    (&["databases", "sources", "targets"], "connections"),
    (&["primary_key", "key_columns", "range_column", "partition_column"], "split_key (to cut a table) or key (to merge by)"),
    (&["truncate", "truncate_target"], "mode: truncate"),
    (&["max_retries", "retry_count"], "retries"),
    (&["retry_delay", "retry_interval"], "retry_wait"),
];

/// What to write in place of a key.
pub fn instead(key: &str) -> Option<&'static str> {
    let key = key.replace('-', "_").to_ascii_lowercase();
    KEYS.iter().find(|(names, _)| names.contains(&key.as_str())).map(|(_, instead)| *instead)
}

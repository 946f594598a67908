//! Keys that people know from go-migrate's files, and what they are called here.

static KEYS: &[(&[&str], &str)] = &[
    (&["max_parallel_workers"], "max_parallel_tables (beside streams)"),
    (&["batches_per_partition"], "batches_per_split (with batch_size; else splits are cut by size)"),
    (&["max_extractors"], "extractors (off unless it is said: degree is the number of connections on both sides)"),
    (&["max_transformers"], "transformers (work on values uses every core by itself)"),
    (&["max_loaders"], "loaders (off unless it is said: degree is the number of connections on both sides)"),
    (&["extractor_batch_size", "transformer_batch_size", "loader_batch_size"], "batch_size"),
    (&["extractor_queue_size"], "extractor_queue (chunks for each split)"),
    (&["transformer_queue_size", "loader_queue_size"], "loader_queue (blocks for each loader)"),
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

#[cfg(test)]
mod tests {
    use super::super::{STREAM, TOP, settings};

    #[test]
    fn what_is_named_instead_exists() {
        for (keys, instead) in super::KEYS {
            let name = instead.split([' ', ':']).next().unwrap();
            let known = settings().any(|s| s.name == name) || STREAM.iter().chain(TOP).any(|w| w.name == name) || name == "nothing";
            assert!(known, "{keys:?}: {instead}");
        }
    }
}

//! The name of a job: a hash of what it does.

use sha2::{Digest, Sha256};

/// Changes when two versions of Haul would cut or write the same job differently.
const VERSION: &str = "haul job 1";

/// The id of a job, from where it reads, where it writes, and the settings that say what (not how). The order of the settings
/// does not matter; values are taken as they are written.
pub fn job_id(source: &str, sink: &str, settings: &[(String, String)]) -> String {
    let mut sorted: Vec<_> = settings.iter().collect();
    sorted.sort();
    let mut hash = Sha256::new();
    let mut put = |text: &str| {
        // With the length in front, no two lists of texts run into the same bytes.
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    };
    for text in [VERSION, source, sink] {
        put(text);
    }
    for (name, value) in sorted {
        put(name);
        put(value);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
    }

    #[test]
    fn what_is_done_decides_and_the_order_of_flags_does_not() {
        let id = |s: &str, t: &str, pairs: &[(&str, &str)]| job_id(s, t, &settings(pairs));
        let one = id("a", "b", &[("where", "x > 1"), ("mode", "replace")]);
        assert_eq!(one, id("a", "b", &[("mode", "replace"), ("where", "x > 1")]));
        assert_eq!(one.len(), 16);
        for other in [
            id("a", "c", &[("where", "x > 1"), ("mode", "replace")]),
            id("a", "b", &[("where", "x > 2"), ("mode", "replace")]),
            id("a", "b", &[("mode", "replace")]),
            id("ab", "", &[("where", "x > 1"), ("mode", "replace")]),
        ] {
            assert_ne!(one, other);
        }
    }
}

//! Pages that are generated, and statements about the tree that can be checked.
//!
//! `HAUL_UPDATE=1 ./test -p haul-cli --test cli docs` writes the pages again.

use crate::runner::Folder;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    // Asked for at run time: a build may be older than the place that it runs in.
    Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).ancestors().nth(2).unwrap().to_path_buf()
}

fn page_is_current(page: &str, arguments: &[&str]) {
    let now = Folder::new().haul(arguments).ok().out;
    let path = root().join(page);
    if std::env::var_os("HAUL_UPDATE").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == now, "{page} is out of date; run HAUL_UPDATE=1 ./test -p haul-cli --test cli docs");
}

#[test]
fn the_reference_is_current() {
    page_is_current("docs/reference.md", &["connectors", "--markdown"]);
}

#[test]
fn the_type_tables_are_current() {
    page_is_current("docs/types.md", &["connectors", "--types"]);
}

#[test]
fn each_path_in_the_picture_exists() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let picture = text.split("```").nth(1).unwrap();
    let mut checked = 0;
    for word in picture.split(|c: char| c.is_whitespace() || "[]:,".contains(c)).filter(|w| w.contains('/')) {
        let path = root().join("crates").join(word.strip_prefix("crates/").unwrap_or(word));
        // `connectors/*/source` is a file in each folder of a system that can be read.
        let found = if let Some((before, after)) = word.split_once("*/") {
            let folder = root().join("crates").join(before).join("src");
            let folders = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir());
            folders.into_iter().any(|f| f.join(format!("{after}.rs")).exists() || f.join(after).is_dir())
        } else {
            let (krate, file) = word.split_once('/').unwrap();
            path.exists() || root().join("crates").join(krate).join("src").join(file).exists()
        };
        assert!(found, "{word} is in the picture but not in the tree");
        checked += 1;
    }
    assert!(checked >= 5, "the picture names {checked} paths only");
}

#[test]
fn the_readme_only_shows_commands_that_parse() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let dir = Folder::new();
    let mut seen = 0;
    for line in text.lines().filter_map(|l| l.strip_prefix("haul ")) {
        let words = shell_words(line.split("  #").next().unwrap().trim());
        let ran = dir.haul(&words.iter().map(String::as_str).chain(["--help"]).collect::<Vec<_>>());
        assert_eq!(ran.code, 0, "haul {line}: {}", ran.err);
        seen += 1;
    }
    assert!(seen >= 10, "{seen} commands only");
}

/// Splits at spaces outside single and double quotes.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ') => words.push(std::mem::take(&mut word)),
            (None, c) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|w| !w.is_empty());
    words
}

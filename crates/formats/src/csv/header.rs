//! Column names: from the header, made up, made unique.

use haul_model::Note;
use std::collections::HashSet;

/// Gives blank and repeated names a name of their own; what was done is in the notes. No made-up name equals a name of the header.
pub(crate) fn unique_names(names: Vec<String>) -> (Vec<String>, Vec<Note>) {
    let given: HashSet<String> = names.iter().cloned().collect();
    let mut taken: HashSet<String> = HashSet::new();
    let mut notes = Vec::new();
    let mut out = Vec::with_capacity(names.len());
    for (i, name) in names.into_iter().enumerate() {
        let is_free = |candidate: &String, taken: &HashSet<String>| !given.contains(candidate) && !taken.contains(candidate);
        let name = if name.is_empty() {
            let base = format!("column_{}", i + 1);
            let made = numbered(&base, true, |c| is_free(c, &taken));
            notes.push(Note::column(&made, format!("column {} has no name in the header: called {made:?}", i + 1)));
            made
        } else if taken.contains(&name) {
            let made = numbered(&name, false, |c| is_free(c, &taken));
            notes.push(Note::column(&made, format!("the header names {name:?} more than once: column {} is called {made:?}", i + 1)));
            made
        } else {
            name
        };
        taken.insert(name.clone());
        out.push(name);
    }
    (out, notes)
}

/// `base` itself, if it may be, else `base_1`, `base_2`, ...: the first that is free.
fn numbered(base: &str, itself: bool, is_free: impl Fn(&String) -> bool) -> String {
    let numbered = (1u64..).map(|n| format!("{base}_{n}"));
    let first = itself.then(|| base.to_string());
    first.into_iter().chain(numbered).find(is_free).expect("some number is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(header: &[&str]) -> Vec<String> {
        unique_names(header.iter().map(|s| (*s).to_string()).collect()).0
    }

    #[test]
    fn blank_and_repeated_names_become_unique() {
        assert_eq!(names(&["id", "id", "", "name", "", "Name"]), ["id", "id_1", "column_3", "name", "column_5", "Name"]);
        assert_eq!(names(&["id", "id_1", "id"]), ["id", "id_1", "id_2"]);
        assert_eq!(names(&["id", "id", "id_1"]), ["id", "id_2", "id_1"]);
        assert_eq!(names(&["", "column_1"]), ["column_1_1", "column_1"]);
        assert_eq!(unique_names(vec!["a".into(), "a".into(), String::new()]).1.len(), 2);
    }
}

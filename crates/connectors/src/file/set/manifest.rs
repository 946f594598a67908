//! The list of a set's files. Who reads by it sees a whole set: the one before or the one after, never some files of each.
//!
//! It is written last. While files get their names it says `replacing` and names both what each file is called until then and what has to
//! go, so that whoever comes next, after a crash too, can read the new set and finish the work.

use haul_model::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::path::Path;

/// Its name in the root of the set: hidden from globs, folders, and other tools.
pub const NAME: &str = "_manifest.json";

/// A set of files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// The run that wrote it.
    pub run: String,
    /// The names of its files, as a template.
    pub template: String,
    /// Its files, in order.
    pub files: Vec<Member>,
    /// Files of the set before, which have to go. Only while it is being replaced.
    pub remove: Vec<String>,
    /// The files have not all got their names yet.
    pub replacing: bool,
}

/// A file of a set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// Its path below the root.
    pub path: String,
    /// What stands for it until it has that name.
    pub pending: Option<String>,
    /// Rows in it.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// Which content it is, where its place can tell (an object's ETag).
    pub version: Option<String>,
}

impl Manifest {
    /// As it is stored.
    pub fn to_json(&self) -> Vec<u8> {
        let member = |m: &Member| {
            let mut value = json!({"path": m.path, "rows": m.rows, "bytes": m.bytes});
            for (name, text) in [("pending", &m.pending), ("version", &m.version)] {
                if let Some(text) = text {
                    value[name] = json!(text);
                }
            }
            value
        };
        let (rows, bytes): (u64, u64) = (self.files.iter().map(|m| m.rows).sum(), self.files.iter().map(|m| m.bytes).sum());
        let mut value = json!({
            "haul": 1,
            "state": if self.replacing { "replacing" } else { "whole" },
            "run": self.run,
            "template": self.template,
            "rows": rows,
            "bytes": bytes,
            "files": self.files.iter().map(member).collect::<Vec<_>>(),
        });
        if self.replacing {
            value["remove"] = json!(self.remove);
        }
        let mut text = serde_json::to_vec_pretty(&value).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// Reads one. `None`: it is of another tool.
    ///
    /// # Errors
    /// `Data`: it is one of ours, and damaged or newer.
    pub fn parse(text: &[u8], name: &str) -> Result<Option<Self>> {
        let damaged = |what: &str| {
            Error::new(ErrorKind::Data, format!("the manifest cannot be read: {what}"))
                .object(name)
                .hint("write the set again, or remove the manifest and name the files with a glob")
        };
        let Ok(value) = serde_json::from_slice::<Value>(text) else { return Err(damaged("it is no JSON")) };
        match value.get("haul").and_then(Value::as_u64) {
            None => return Ok(None),
            Some(1) => {}
            Some(version) => return Err(damaged(&format!("it has version {version}, this haul reads 1"))),
        }
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_string);
        let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_u64);
        let list = |key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let member = |value: &Value| {
            let path = text(value, "path").filter(|path| stays_inside(path))?;
            let pending = text(value, "pending");
            Some(Member { path, pending, rows: number(value, "rows")?, bytes: number(value, "bytes")?, version: text(value, "version") })
        };
        let files: Option<Vec<Member>> = list("files").iter().map(member).collect();
        let remove: Vec<String> =
            list("remove").iter().filter_map(|v| v.as_str().map(str::to_string)).filter(|p| stays_inside(p)).collect();
        Ok(Some(Self {
            run: text(&value, "run").unwrap_or_default(),
            template: text(&value, "template").unwrap_or_default(),
            files: files.ok_or_else(|| damaged("a file without path, rows or bytes"))?,
            remove,
            replacing: text(&value, "state").as_deref() == Some("replacing"),
        }))
    }

    /// The manifest of a folder, if it has one of ours.
    ///
    /// # Errors
    /// IO, or [`Manifest::parse`].
    pub fn read_local(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(NAME);
        let name = path.display().to_string();
        match std::fs::read(&path) {
            Ok(text) => Self::parse(&text, &name),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(name, "cannot read", e)),
        }
    }
}

/// A manifest that somebody else wrote must not lead out of its folder.
pub fn stays_inside(path: &str) -> bool {
    !path.is_empty() && !path.starts_with('/') && path.split('/').all(|part| part != ".." && !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let whole = Manifest {
            run: "r1".into(),
            template: "t_{part:04}.csv".into(),
            files: vec![Member { path: "a/t_0000.csv".into(), pending: None, rows: 7, bytes: 70, version: Some("\"e\"".into()) }],
            ..Manifest::default()
        };
        assert_eq!(Manifest::parse(&whole.to_json(), "m").unwrap(), Some(whole.clone()));
        let mut half = Manifest { replacing: true, remove: vec!["t_0001.csv".into()], ..whole };
        half.files[0].pending = Some(".t".into());
        assert_eq!(Manifest::parse(&half.to_json(), "m").unwrap(), Some(half));
    }

    #[test]
    fn others_and_damaged_ones() {
        assert_eq!(Manifest::parse(b"{\"formatVersion\": 2}", "m").unwrap(), None);
        for text in
            ["{", r#"{"haul":2}"#, r#"{"haul":1,"files":[{"path":"x"}]}"#, r#"{"haul":1,"files":[{"path":"../x","rows":1,"bytes":1}]}"#]
        {
            assert!(Manifest::parse(text.as_bytes(), "m").unwrap_err().to_string().contains("manifest cannot be read"), "{text}");
        }
    }
}

//! A YAML document as a tree whose nodes know their line. Scalars stay the text that was written: `007`, `1.10` and `on` are not
//! turned into something else on the way to the setting that knows what they mean.

use haul_model::{Error, ErrorKind, Result};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};
use std::fmt;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its line, from 1.
    pub line: u64,
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// A scalar, as it is written.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in order. Keys are told apart: a double key is an error of the document.
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its text.
    pub text: String,
    /// Its line, from 1.
    pub line: u64,
}

impl Node {
    /// Reads a document.
    ///
    /// # Errors
    /// `Config`, with the line.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let tree: Tree = serde_saphyr::from_str(text).map_err(|error| {
            // The library's report goes on over the lines of the document; its first line says what is wrong.
            let full = error.without_snippet().to_string();
            let what = full.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("this is not YAML");
            // The place is told in our own words, and how a program would allow it is no help to a user.
            let what = what.split(", set DuplicateKeyPolicy").next().unwrap_or(what);
            let what = what.rfind(" at line ").map_or(what, |at| &what[..at]);
            let told = Error::new(ErrorKind::Config, what).object(name);
            match error.location() {
                Some(place) => told.line(place.line()),
                None => told,
            }
        })?;
        Ok(tree.into_node(text))
    }

    /// What kind of value it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Text(_) => "a word",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// A node as it comes from the parser.
struct Tree(Spanned<Raw>);

enum Raw {
    Null,
    Text(String),
    /// A number or truth value: its text is taken from the document.
    Resolved(String),
    List(Vec<Tree>),
    Map(Vec<(Spanned<String>, Tree)>),
}

impl Tree {
    fn into_node(self, text: &str) -> Node {
        let Spanned { value, defined, .. } = self.0;
        let value = match value {
            Raw::Null => Value::Null,
            Raw::Text(word) => Value::Text(word),
            Raw::Resolved(word) => Value::Text(written(text, defined).unwrap_or(word)),
            Raw::List(items) => Value::List(items.into_iter().map(|item| item.into_node(text)).collect()),
            Raw::Map(pairs) => Value::Map(
                pairs.into_iter().map(|(key, value)| (Key { line: key.defined.line(), text: key.value }, value.into_node(text))).collect(),
            ),
        };
        Node { value, line: defined.line() }
    }
}

/// What stands in the document at a place.
fn written(text: &str, place: Location) -> Option<String> {
    let (from, length) = (place.span().byte_offset()?, place.span().byte_len()?);
    let from = usize::try_from(from).ok()?;
    let slice = text.get(from..from.checked_add(usize::try_from(length).ok()?)?)?.trim();
    (!slice.is_empty()).then(|| slice.to_string())
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Spanned::<Raw>::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word, a list or a mapping")
    }
    fn visit_unit<E>(self) -> std::result::Result<Raw, E> {
        Ok(Raw::Null)
    }
    fn visit_none<E>(self) -> std::result::Result<Raw, E> {
        Ok(Raw::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }
    fn visit_bool<E>(self, value: bool) -> std::result::Result<Raw, E> {
        Ok(Raw::Resolved(value.to_string()))
    }
    fn visit_i64<E>(self, value: i64) -> std::result::Result<Raw, E> {
        Ok(Raw::Resolved(value.to_string()))
    }
    fn visit_u64<E>(self, value: u64) -> std::result::Result<Raw, E> {
        Ok(Raw::Resolved(value.to_string()))
    }
    fn visit_i128<E>(self, value: i128) -> std::result::Result<Raw, E> {
        Ok(Raw::Resolved(value.to_string()))
    }
    fn visit_u128<E>(self, value: u128) -> std::result::Result<Raw, E> {
        Ok(Raw::Resolved(value.to_string()))
    }
    fn visit_f64<E>(self, value: f64) -> std::result::Result<Raw, E> {
        Ok(Raw::Resolved(value.to_string()))
    }
    fn visit_str<E>(self, value: &str) -> std::result::Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Raw, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Raw::Map(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_stay_as_they_are_written_and_know_their_line() {
        let node = Node::parse("a: 007\nb: [1.10, on, \"x: y\", ~, true, 0x1F]\n# c\nc:\n  d: text\n", "j").unwrap();
        let Value::Map(pairs) = &node.value else { panic!("{node:?}") };
        let text = |node: &Node| match &node.value {
            Value::Text(text) => text.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!((text(&pairs[0].1), pairs[0].1.line), ("007".into(), 1));
        let Value::List(items) = &pairs[1].1.value else { panic!() };
        assert_eq!(items.iter().map(text).collect::<Vec<_>>(), ["1.10", "on", "x: y", "Null", "true", "0x1F"]);
        let Value::Map(inner) = &pairs[2].1.value else { panic!() };
        assert_eq!((inner[0].0.text.as_str(), inner[0].0.line, inner[0].1.line), ("d", 5, 5));
    }

    #[test]
    fn aliases_are_what_they_stand_for() {
        let node = Node::parse("x: &x {mode: replace, degree: 04}\ny: *x\n", "j").unwrap();
        let Value::Map(pairs) = node.value else { panic!() };
        assert_eq!(pairs[0].1.value, pairs[1].1.value);
    }

    #[test]
    fn a_broken_document_is_told_with_its_line() {
        for (text, line) in [("a: 1\na: 2\n", 2), ("a: [1\nb: 2\n", 2)] {
            let error = Node::parse(text, "job.yaml").unwrap_err();
            assert_eq!((error.place().object.as_deref(), error.place().line), (Some("job.yaml"), Some(line)), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}

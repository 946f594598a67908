//! Which way a read is cut: as asked for, or chosen with its reason.

use haul_model::{Error, ErrorKind, Result};

/// How a read is cut into splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::postgres) enum Method {
    /// Whatever is best here.
    Auto,
    /// Not at all.
    None,
    /// By ranges of pages.
    Ctid,
    /// By ranges of a key.
    Range,
    /// By ranges of a key with equally many rows.
    Ntile,
    /// By the hash of keys.
    Hash,
    /// One split for each value.
    Values,
}

/// What `--method` takes.
pub(in crate::postgres) const WORDS: &[&str] =
    &["auto", "none", "ctid", "range", "rangeid", "ntile", "hash", "random", "values", "distinct", "datadriven", "physloc", "rowid"];

impl Method {
    /// From a word of [`WORDS`] in lower case.
    ///
    /// # Errors
    /// `Config`: a method of another engine.
    pub fn parse(word: &str) -> Result<Self> {
        let elsewhere = |engine: &str, what: &str| {
            Err(Error::new(ErrorKind::Config, format!("--method {word} cuts by {what}: it needs {engine}, and this is PostgreSQL"))
                .hint("--method ctid is PostgreSQL's own way to cut by physical place, and what auto uses where it can"))
        };
        Ok(match word {
            "none" => Self::None,
            "ctid" => Self::Ctid,
            "range" | "rangeid" => Self::Range,
            "ntile" => Self::Ntile,
            "hash" | "random" => Self::Hash,
            "values" | "distinct" | "datadriven" => Self::Values,
            "physloc" => return elsewhere("SQL Server", "the physical location %%physloc%%"),
            "rowid" => return elsewhere("Oracle", "ROWID"),
            _ => Self::Auto,
        })
    }

    /// As one would type it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Ctid => "ctid",
            Self::Range => "range",
            Self::Ntile => "ntile",
            Self::Hash => "hash",
            Self::Values => "values",
        }
    }
}

/// Whether pages can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::postgres) enum Pages {
    /// Each range reads only its pages.
    Fine,
    /// Each range reads the whole table, for this reason.
    Slow(String),
    /// For this reason not.
    Impossible(String),
}

/// What the choice depends on.
#[derive(Debug, Clone)]
pub(in crate::postgres) struct Facts {
    pub asked: Method,
    /// Lanes wanted.
    pub lanes: usize,
    /// Why only one lane is wanted, if so.
    pub one_lane: &'static str,
    /// Whether one split would be larger than a split should be.
    pub large: bool,
    /// Why the rows must come in one piece, if they must.
    pub in_one_piece: Option<&'static str>,
    pub pages: Pages,
    /// The method that suits the key that the user named, if one was.
    pub by_key: Option<Method>,
    /// The primary key, if it could be cut into ranges.
    pub primary_key: Option<String>,
}

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::postgres) struct Choice {
    pub method: Method,
    /// The reason, if the choice was ours.
    pub why: Option<String>,
    /// What is lost by it, and what would help.
    pub note: Option<String>,
}

/// Decides. [`Method::None`] means one piece.
///
/// # Errors
/// `Unsupported`: what was asked for by name is impossible.
pub(in crate::postgres) fn choose(facts: &Facts) -> Result<Choice> {
    let as_asked = |note| Ok(Choice { method: facts.asked, why: None, note });
    let refused = |why: &str, hint: &str| {
        Err(Error::new(ErrorKind::Unsupported, format!("--method {} is impossible here: {why}", facts.asked.word())).hint(hint))
    };
    match (facts.asked, facts.in_one_piece, &facts.pages) {
        (Method::Auto, ..) => Ok(automatic(facts)),
        (Method::None, ..) => as_asked(None),
        (_, Some(why), _) => refused(why, "leave --method away, or read without an order and a limit"),
        (Method::Ctid, None, Pages::Impossible(why)) => {
            refused(why, "--method range, ntile or hash with --split-key COLUMN cuts by a key; --method auto chooses by itself")
        }
        (Method::Ctid, None, Pages::Slow(why)) => as_asked(Some(format!("{why}; --method range with --split-key reads an index instead"))),
        _ => as_asked(None),
    }
}

fn automatic(facts: &Facts) -> Choice {
    let chosen = |method, why: String, note| Choice { method, why: Some(why), note };
    let parallel = facts.lanes > 1;
    // A note only where something is lost.
    let lost = |why: &str, more: &str| parallel.then(|| format!("{why}: it is read over one connection{more}"));
    if let Some(why) = facts.in_one_piece {
        return chosen(Method::None, why.to_string(), lost(why, ""));
    }
    if facts.by_key == Some(Method::Values) {
        return chosen(Method::Values, "a split query was given".into(), None);
    }
    if !parallel && !facts.large {
        return chosen(Method::None, facts.one_lane.to_string(), None);
    }
    if let Some(method) = facts.by_key {
        return chosen(method, "a split key was given, and this suits its type".into(), None);
    }
    match (&facts.pages, &facts.primary_key) {
        (Pages::Fine, _) => chosen(Method::Ctid, "every page is read once".into(), None),
        (Pages::Slow(why) | Pages::Impossible(why), Some(_)) if parallel => {
            chosen(Method::Range, format!("{why}, but there is a primary key"), None)
        }
        (Pages::Slow(why) | Pages::Impossible(why), _) => {
            chosen(Method::None, why.clone(), lost(why, "; --split-key COLUMN cuts it by a key"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            asked: Method::Auto,
            lanes: 4,
            one_lane: "it is small",
            large: false,
            in_one_piece: None,
            pages: Pages::Fine,
            by_key: None,
            primary_key: None,
        }
    }

    #[test]
    fn words() {
        for word in WORDS {
            match Method::parse(word) {
                Ok(method) => assert!(WORDS.contains(&method.word())),
                Err(error) => {
                    assert!(matches!(*word, "physloc" | "rowid"), "{error}");
                    assert!(error.to_string().contains(if *word == "rowid" { "Oracle" } else { "SQL Server" }), "{error}");
                    assert!(error.hint_text().unwrap().contains("ctid"), "{error:?}");
                }
            }
        }
        assert_eq!((Method::parse("rangeid").unwrap(), Method::parse("random").unwrap()), (Method::Range, Method::Hash));
        assert_eq!((Method::parse("distinct").unwrap(), Method::parse("datadriven").unwrap()), (Method::Values, Method::Values));
    }

    #[test]
    fn what_auto_chooses() {
        let (old, view) = (Pages::Slow("an old server".into()), Pages::Impossible("a view".into()));
        let key = Some("id".to_string());
        for (facts, method, noted) in [
            (facts(), Method::Ctid, false),
            (Facts { lanes: 1, ..facts() }, Method::None, false),
            (Facts { lanes: 1, large: true, ..facts() }, Method::Ctid, false),
            (Facts { lanes: 1, large: true, pages: view.clone(), ..facts() }, Method::None, false),
            (Facts { in_one_piece: Some("in order"), ..facts() }, Method::None, true),
            (Facts { in_one_piece: Some("in order"), by_key: Some(Method::Range), ..facts() }, Method::None, true),
            (Facts { pages: view.clone(), ..facts() }, Method::None, true),
            (Facts { pages: view.clone(), by_key: Some(Method::Ntile), ..facts() }, Method::Ntile, false),
            (Facts { by_key: Some(Method::Range), ..facts() }, Method::Range, false),
            (Facts { lanes: 1, by_key: Some(Method::Range), ..facts() }, Method::None, false),
            (Facts { lanes: 1, by_key: Some(Method::Values), ..facts() }, Method::Values, false),
            (Facts { pages: old.clone(), primary_key: key.clone(), ..facts() }, Method::Range, false),
            (Facts { pages: old, ..facts() }, Method::None, true),
            (Facts { pages: view, primary_key: key, ..facts() }, Method::Range, false),
        ] {
            let choice = choose(&facts).unwrap();
            assert_eq!((choice.method, choice.note.is_some()), (method, noted), "{facts:?}: {choice:?}");
            assert!(choice.why.is_some(), "{choice:?}");
        }
    }

    #[test]
    fn what_is_asked_for_is_done_or_refused() {
        let view = Pages::Impossible("a view has no pages".into());
        let error = choose(&Facts { asked: Method::Ctid, pages: view.clone(), ..facts() }).unwrap_err();
        assert_eq!(error.to_string(), "--method ctid is impossible here: a view has no pages");
        assert!(error.hint_text().unwrap().contains("--split-key"), "{error:?}");
        let error =
            choose(&Facts { asked: Method::Hash, in_one_piece: Some("rows in an order are read in one lane"), ..facts() }).unwrap_err();
        assert!(error.to_string().contains("order"), "{error}");
        let slow = choose(&Facts { asked: Method::Ctid, pages: Pages::Slow("old".into()), ..facts() }).unwrap();
        assert!(slow.method == Method::Ctid && slow.note.is_some(), "{slow:?}");
        let key = choose(&Facts { asked: Method::Ntile, pages: view, ..facts() }).unwrap();
        assert_eq!(key, Choice { method: Method::Ntile, why: None, note: None });
        let none = choose(&Facts { asked: Method::None, in_one_piece: Some("x"), ..facts() }).unwrap();
        assert_eq!(none.method, Method::None);
    }
}

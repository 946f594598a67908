//! A system with many objects, as a job of many streams sees it: objects by pattern, and one instant for all of them.

use crate::{Endpoint, Environment, Result, Settings, Source};

/// A table, or whatever the system calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The schema that it is in, where the system has schemas.
    pub schema: Option<String>,
    /// Its name, as it is.
    pub name: String,
    /// Bytes as they are stored, as far as the system knows. Decides which streams begin first.
    pub bytes: u64,
}

impl Object {
    /// `public.orders`: for messages and for patterns.
    pub fn display(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// A connected system. Between [`Catalog::hold`] and its end, everything that is opened through it shows one instant.
///
/// Concurrency: `open` is called from several threads.
pub trait Catalog: Send + Sync {
    /// The objects that a pattern means, in the order of their names. A pattern with `*` or `?` finds what holds rows of its own
    /// (tables; no views, nothing of an extension's, nothing of Haul's), maybe nothing; a name finds the one object of this name.
    ///
    /// # Errors
    /// A name that is not there; connection.
    fn find(&self, pattern: &str) -> Result<Vec<Object>>;
    /// Which objects refer to which by a foreign key: (the one with the key, the one that it points to).
    ///
    /// # Errors
    /// Connection.
    fn references(&self) -> Result<Vec<(Object, Object)>>;
    /// Fixes the instant. From now on these objects can be neither dropped nor changed in shape.
    ///
    /// # Errors
    /// Rights, connection; an object that went away.
    fn hold(&self, objects: &[Object]) -> Result<()>;
    /// As [`crate::Connector::source`], under the instant that is held.
    ///
    /// # Errors
    /// As there.
    fn open(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Box<dyn Source>>;
}

/// Whether `name` is what the pattern means: `*` for any characters, `?` for one. A pattern without a dot is compared with the name alone.
pub fn matches_pattern(pattern: &str, object: &Object) -> bool {
    let text: Vec<char> = if pattern.contains('.') { object.display() } else { object.name.clone() }.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where the last `*` stands, and up to where it has been taken to reach.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, reached)) => {
                    star = Some((at, reached + 1));
                    (p, t) = (at + 1, reached + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_names_with_or_without_their_schema() {
        let orders = Object { schema: Some("public".into()), name: "orders_2026".into(), bytes: 0 };
        for yes in ["*", "orders_*", "public.*", "*.orders_2026", "p?blic.orders_20*6", "public.orders_2026", "*.*", "*2*"] {
            assert!(matches_pattern(yes, &orders), "{yes}");
        }
        for no in ["", "orders", "sales.*", "public.orders_2027", "*.*.*", "orders_2026?", "?.orders_2026"] {
            assert!(!matches_pattern(no, &orders), "{no}");
        }
    }
}

//! Conditions on rows: `status = 'open' and (day >= '2024-01-01' or amount is null)`.
//!
//! A [`Predicate`] is parsed from text once, bound to the columns of a file ([`Bound`]: every literal becomes a value of its column's own
//! type, or the condition is refused), and asked in two ways: which rows of a batch meet it, and which row groups cannot hold such a
//! row, going by the smallest and largest values that their footer names. As in SQL, a comparison with NULL is not met, and `not`
//! of it is not met either.
//!
//! Floats compare as in PostgreSQL: -0 equals 0, and NaN is larger than every number.

mod bind;
mod meets;
mod parse;

#[cfg(test)]
mod tests;

pub use bind::Bound;
pub use meets::{Limits, Met};

use haul_model::Result;

/// A condition as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    root: Node,
}

impl Predicate {
    /// Parses `text`: comparisons (`= <> != < <= > >=`), `in (...)`, `between ... and ...`, `is [not] null`, `and`, `or`, `not`, parentheses.
    /// Columns are words, or anything in double quotes; values are numbers, `'text'`, `true`, `false`.
    ///
    /// # Errors
    /// `Config`: what was expected, and where.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self { root: parse::parse(text)? })
    }

    /// The columns that it names, each once, in the order of their appearance.
    pub fn columns(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.root.collect_columns(&mut out);
        out
    }
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compare {
    Equal,
    Other,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Compare {
    /// The comparison that is met where this one is not (NULL aside).
    fn opposite(self) -> Self {
        match self {
            Self::Equal => Self::Other,
            Self::Other => Self::Equal,
            Self::Less => Self::AtLeast,
            Self::AtLeast => Self::Less,
            Self::Greater => Self::AtMost,
            Self::AtMost => Self::Greater,
        }
    }

    fn met_by(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Other => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Literal {
    Number(String),
    Text(String),
    Bool(bool),
}

/// A condition without `not`: that was moved inwards, to where it only turns a comparison around.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Compare(String, Compare, Literal),
    Null(String, bool),
}

impl Node {
    fn not(self) -> Self {
        match self {
            Self::All(nodes) => Self::Any(nodes.into_iter().map(Self::not).collect()),
            Self::Any(nodes) => Self::All(nodes.into_iter().map(Self::not).collect()),
            Self::Compare(column, compare, literal) => Self::Compare(column, compare.opposite(), literal),
            Self::Null(column, is) => Self::Null(column, !is),
        }
    }

    fn collect_columns(&self, out: &mut Vec<String>) {
        match self {
            Self::All(nodes) | Self::Any(nodes) => nodes.iter().for_each(|node| node.collect_columns(out)),
            Self::Compare(column, ..) | Self::Null(column, _) => {
                if !out.contains(column) {
                    out.push(column.clone());
                }
            }
        }
    }
}

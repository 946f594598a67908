//! What a table is beside its columns and rows.

/// Keys, indexes, constraints, defaults and sequences of a table, in the words of the engine that has it. A sink of the same
/// engine can make them again; others cannot read the words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableDefinition {
    /// Whose words they are: `postgres`.
    pub engine: &'static str,
    /// The table's bare name.
    pub name: String,
    /// The table as `refers_to` of a part would name it.
    pub sql_name: String,
    /// In an order in which they can be made, the foreign keys last.
    pub parts: Vec<TablePart>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePart {
    /// What it is.
    pub kind: PartKind,
    /// Name of the constraint or index; the column of a default, identity, sequence or generated column.
    pub name: String,
    /// The table's columns that it needs.
    pub columns: Vec<String>,
    /// Its text, without name and table.
    pub sql: String,
    /// The table that a foreign key points to.
    pub refers_to: Option<String>,
    /// The last number that an identity or sequence gave out.
    pub position: Option<i64>,
}

/// What a [`TablePart`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// `0`: the value of a column that nobody fills.
    Default,
    /// `GENERATED ALWAYS AS IDENTITY (...)`.
    Identity,
    /// The options of a sequence that belongs to the column and is its default.
    Sequence,
    /// An expression that the engine computes the column from.
    Generated,
    /// `CHECK (...)`.
    Check,
    /// `PRIMARY KEY (...)`.
    PrimaryKey,
    /// `UNIQUE (...)`, `EXCLUDE ...`.
    Unique,
    /// `UNIQUE USING btree (...) WHERE ...`.
    Index,
    /// `FOREIGN KEY (a) REFERENCES {}(b) ...`; `{}` stands for the table that it refers to.
    ForeignKey,
}

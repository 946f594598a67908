//! Changes applied to the tables of another database: effectively once, in commit order for each key.

mod marks;
mod net;
mod sql;
mod stretch;
mod table;
mod writer;

pub use super::changes::FORMAT;
use crate::postgres::catalog::quote_literal;
use crate::postgres::config::TableName;
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Guarantee, Incoming, Mark, Note, Result, WritePlan, Writer};
use marks::Marks;
use std::sync::Arc;
use table::Missing;
use writer::{ChangesWriter, Lane, Shared};

/// What the sink's settings say about changes.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The one table, if it is named.
    pub named: Option<TableName>,
    pub create: bool,
    /// Columns that the source got are added.
    pub add_columns: bool,
    /// `Some(false)`: rows that are there stay; `Some(true)`: they go before the snapshot comes.
    pub meets: Option<bool>,
    /// Triggers and foreign keys are held back.
    pub replica: bool,
}

/// What the source says in [`haul_model::Encoding::detail`]: where it is, and which tables come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Cluster and database; empty where it is not known.
    pub identity: String,
    /// The split's name.
    pub stream: String,
    pub tables: Vec<String>,
}

impl Origin {
    pub fn print(&self) -> String {
        [&[self.identity.clone(), self.stream.clone()][..], &self.tables].concat().join("\n")
    }

    pub fn parse(detail: &str) -> Self {
        let mut lines = detail.split('\n').map(str::to_string);
        let (identity, stream) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        Self { identity, stream, tables: lines.collect() }
    }
}

/// A planned application of changes.
#[derive(Debug)]
pub struct Apply(Arc<Shared>);

impl Apply {
    /// Plans it: looks at marks and tables, changes nothing.
    ///
    /// # Errors
    /// Tables that are missing, a stream into its own source.
    pub fn plan(session: &mut Session, incoming: &Incoming, asked: Asked, identity: Option<&str>) -> Result<(Self, WritePlan)> {
        let detail = incoming.pass_through.as_ref().filter(|e| e.format == FORMAT).map(|e| e.detail.clone()).unwrap_or_default();
        let origin = Origin::parse(&detail);
        if asked.named.is_some() && origin.tables.len() > 1 {
            return Err(Error::new(ErrorKind::Config, "the changes are of several tables, and table names one")
                .hint("leave it out: each table has the same name in the target"));
        }
        if identity == Some(origin.identity.as_str())
            && asked.named.as_ref().is_none_or(|n| origin.tables.iter().any(|t| *t == n.to_string()))
        {
            return Err(Error::new(ErrorKind::Config, "the target is the source: every change would be a change again")
                .hint("name another table, or another database"));
        }
        if !asked.create {
            for table in &origin.tables {
                let name = asked.named.as_ref().map_or_else(|| table.clone(), ToString::to_string);
                let sql = format!("SELECT pg_catalog.to_regclass({}) IS NOT NULL", quote_literal(&quoted(&name, asked.named.as_ref())));
                if !session.row(&sql, &[])?.is_some_and(|row| row.flag(0)) {
                    return Err(Error::new(ErrorKind::NotFound, format!("the target has no table {name} for the changes of {table}"))
                        .hint("create it there, or say --create"));
                }
            }
        }
        let marks = Marks::look(session, &origin.stream)?;
        let mut notes = Vec::new();
        if asked.replica {
            notes.push(Note::new("triggers and foreign keys of the target are held back (session_replication_role = replica)"));
        }
        let plan = WritePlan {
            method: "each change to its table, by its key; what is settled is one transaction, with its mark in haul_checkpoint".into(),
            ddl: Vec::new(),
            columns: Vec::new(),
            notes,
            guarantee: Guarantee::AllOrNothing,
            own_connections: true,
            whole_splits: false,
            in_split_order: false,
            max_writers: Some(1),
            block_bytes: 256 << 10,
            run_bytes: None,
        };
        let missing = if asked.add_columns { Missing::Add } else { Missing::Stop };
        let shared = Shared { marks, named: asked.named, create: asked.create, missing, meets: asked.meets, replica: asked.replica };
        Ok((Self(Arc::new(shared)), plan))
    }

    /// Makes the table for marks.
    ///
    /// # Errors
    /// Rights.
    pub fn begin(&self, session: &mut Session) -> Result<()> {
        self.0.marks.begin(session)
    }

    /// The way into the target.
    ///
    /// # Errors
    /// Rights.
    pub fn open(&self, mut session: Session) -> Result<Box<dyn Writer>> {
        // What was read is settled also when the job is to stop.
        session.connection().set_stop(Arc::default());
        Ok(Box::new(ChangesWriter::new(Lane::new(session, Arc::clone(&self.0))?)))
    }

    /// Where the target stands, looked at again.
    ///
    /// # Errors
    /// The server's.
    pub fn marks(&self, session: &mut Session) -> Result<Vec<Mark>> {
        self.0.marks.again(session)
    }
}

/// The marks of all streams, before anything is planned.
///
/// # Errors
/// The server's.
pub fn marks(session: &mut Session) -> Result<Vec<Mark>> {
    marks::all(session)
}

fn quoted(name: &str, named: Option<&TableName>) -> String {
    use crate::postgres::catalog::quote_ident;
    match named {
        Some(TableName { schema: Some(schema), name }) => format!("{}.{}", quote_ident(schema), quote_ident(name)),
        Some(TableName { schema: None, name }) => quote_ident(name),
        None => match name.split_once('.') {
            Some((schema, table)) => format!("{}.{}", quote_ident(schema), quote_ident(table)),
            None => quote_ident(name),
        },
    }
}

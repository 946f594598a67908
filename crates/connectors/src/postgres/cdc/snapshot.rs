//! The rows that are there when the stream begins, table by table, as records of the same encoding.

use super::changes::{ChunkWriter, Head};
use super::pgoutput::{WireColumn, WireRelation};
use super::shape::Shape;
use super::source::Subject;
use crate::postgres::array_wire;
use crate::postgres::catalog::{PgColumn, Relation, quote_ident, quote_literal};
use crate::postgres::decode::{frame_end, header_len};
use crate::postgres::lanes::READ_ONLY;
use crate::postgres::session::{self, Session};
use crate::postgres::source::Wire;
use crate::postgres::types::{oid, server_text};
use haul_model::{Error, ErrorKind, Result};
use haul_pgwire::{Connection, CopyOut, Lsn};
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows of about this many bytes are handed out at once.
const CHUNK: usize = 256 << 10;

/// A table that is to be read.
struct Table {
    shape: Arc<Shape>,
    /// The COPY statement.
    copy: String,
}

enum State {
    Idle(Box<Session>),
    Copying(Box<CopyOut<Wire>>),
    Over,
}

/// A read of all tables under one snapshot.
pub(super) struct Snapshot {
    tables: VecDeque<Table>,
    state: State,
    chunk: ChunkWriter,
    head: Head,
    rows: u64,
    /// An earlier run may have left some of the rows: each table begins with a truncate.
    again: bool,
    text: bool,
    tuple: Vec<u8>,
    max_row_bytes: u64,
    /// The connection that exported the snapshot, and where the stream begins.
    wire: Option<(Connection, Lsn)>,
}

impl Snapshot {
    /// Under the snapshot that a new slot has exported.
    ///
    /// # Errors
    /// The server's.
    pub fn of_slot(subject: &Subject, mut session: Session, name: &str, wire: (Connection, Lsn), text: bool, again: bool) -> Result<Self> {
        let import = format!("SET TRANSACTION SNAPSHOT {}", quote_literal(name));
        session.run(&format!("BEGIN {READ_ONLY}; {import}; {}", session.exact_settings()))?;
        Self::new(subject, session, Some(wire), text, again)
    }

    /// Under a snapshot of its own.
    ///
    /// # Errors
    /// The server's.
    pub fn plain(subject: &Subject, mut session: Session, text: bool, again: bool) -> Result<Self> {
        session.begin(READ_ONLY)?;
        Self::new(subject, session, None, text, again)
    }

    fn new(subject: &Subject, mut session: Session, wire: Option<(Connection, Lsn)>, text: bool, again: bool) -> Result<Self> {
        let tables = subject.relations.iter().map(|r| table(subject, &mut session, r, text)).collect::<Result<_>>()?;
        let head = Head { commit: wire.as_ref().map_or(Lsn(0), |(_, start)| *start), ..Head::default() };
        Ok(Self {
            tables,
            state: State::Idle(Box::new(session)),
            chunk: ChunkWriter::default(),
            head,
            rows: 0,
            again,
            text,
            tuple: Vec::new(),
            max_row_bytes: subject.options.max_row_bytes,
            wire,
        })
    }

    /// The next chunk, its records, and the rows read so far. `None`: everything was read.
    ///
    /// # Errors
    /// The server's; a row that is too large.
    pub fn next(&mut self) -> Result<Option<(Vec<u8>, u64, u64)>> {
        while self.chunk.len() < CHUNK {
            let Some(table) = self.tables.front() else { break };
            if let State::Idle(_) = self.state
                && let State::Idle(session) = std::mem::replace(&mut self.state, State::Over)
            {
                if self.again {
                    self.chunk.truncate(&self.head, &table.shape);
                    self.advance();
                    let Some(table) = self.tables.front() else { break };
                    self.state = copying(*session, table, self.max_row_bytes)?;
                } else {
                    self.state = copying(*session, table, self.max_row_bytes)?;
                }
            }
            let State::Copying(copy) = &mut self.state else {
                return Err(Error::internal("a snapshot that has failed is read on"));
            };
            let chunk = copy.next_chunk(CHUNK).map_err(session::error)?;
            match chunk {
                Some(chunk) => self.take(&chunk.bytes)?,
                None => {
                    if let State::Copying(copy) = std::mem::replace(&mut self.state, State::Over) {
                        self.state = State::Idle(Box::new(copy.into_inner().0));
                    }
                    self.tables.pop_front();
                }
            }
        }
        if self.chunk.rows() == 0 {
            return Ok(None);
        }
        let (bytes, records) = self.chunk.take();
        Ok(Some((bytes, records, self.rows)))
    }

    /// What goes on after the snapshot, if a stream does.
    pub fn into_wire(self) -> Option<(Connection, Lsn)> {
        self.wire
    }

    fn advance(&mut self) {
        self.head.next += 1;
        self.rows += 1;
    }

    /// Frames of a COPY to records.
    fn take(&mut self, frames: &[u8]) -> Result<()> {
        let Some(table) = self.tables.front() else { return Ok(()) };
        let shape = Arc::clone(&table.shape);
        let broken = || Error::new(ErrorKind::Protocol, "the COPY stream is broken").object(shape.display());
        let kind = if self.text { b't' } else { b'b' };
        let mut at = 0;
        while at < frames.len() {
            let end = frame_end(frames, at).ok_or_else(broken)?;
            let body = &frames[at + 5..end];
            let mut rest = &body[header_len(body)..];
            at = end;
            while let Some((count, after)) = rest.split_first_chunk::<2>() {
                if *count == [0xff, 0xff] {
                    break;
                }
                rest = after;
                self.tuple.clear();
                self.tuple.push(b'N');
                self.tuple.extend_from_slice(count);
                for _ in 0..u16::from_be_bytes(*count) {
                    let (value, after) = array_wire::field(rest).ok_or_else(broken)?;
                    match value {
                        None => self.tuple.push(b'n'),
                        Some(value) => {
                            self.tuple.push(kind);
                            self.tuple.extend_from_slice(&(value.len() as u32).to_be_bytes());
                            self.tuple.extend_from_slice(value);
                        }
                    }
                    rest = after;
                }
                self.chunk.row(&self.head, &shape, b'S', &self.tuple);
                self.advance();
            }
        }
        Ok(())
    }
}

fn copying(session: Session, table: &Table, max_row_bytes: u64) -> Result<State> {
    let copy = CopyOut::start(Wire(session), &table.copy).map_err(|e| session::error(e).object(table.shape.display()))?;
    Ok(State::Copying(Box::new(copy.max_row_bytes(max_row_bytes))))
}

/// How a table is read: with the columns and rows that the publication has.
fn table(subject: &Subject, session: &mut Session, relation: &Relation, text: bool) -> Result<Table> {
    let mut columns = Subject::streamed(relation);
    let mut condition = String::new();
    if subject.version >= 150_000 && subject.publication.create.is_none() {
        let sql = "SELECT attnames::pg_catalog.text[]::pg_catalog.text, rowfilter, pg_catalog.array_to_string(ARRAY( \
                   SELECT a.attnum FROM pg_catalog.pg_attribute a WHERE a.attrelid = $2::pg_catalog.oid AND a.attname = ANY (t.attnames)), ',') \
                   FROM pg_catalog.pg_publication_tables t WHERE pubname = $1 AND pg_catalog.format('%I.%I', schemaname, tablename)::pg_catalog.regclass = $2::pg_catalog.oid";
        if let Some(row) = session.row(sql, &[Some(&subject.publication.name), Some(&relation.oid.to_string())])? {
            let numbers: Vec<i16> = row.text(2).split(',').filter_map(|n| n.parse().ok()).collect();
            if row.get(0).is_some() {
                columns.retain(|c| numbers.contains(&c.number));
            }
            condition = row.get(1).map(|filter| format!(" WHERE {filter}")).unwrap_or_default();
        }
    }
    let list: Vec<String> = columns
        .iter()
        .map(|c| match (text, c.base.oid) {
            (false, _) => quote_ident(&c.name),
            // The cast to text would take the padding off, which the stream has.
            (true, oid::BPCHAR) => format!("pg_catalog.textin(pg_catalog.bpcharout({}))", quote_ident(&c.name)),
            (true, _) => server_text(&quote_ident(&c.name), &c.base),
        })
        .collect();
    let only = if relation.has_children { "ONLY " } else { "" };
    let copy = format!("COPY (SELECT {} FROM {only}{}{condition}) TO STDOUT (FORMAT binary)", list.join(", "), relation.sql());
    Ok(Table { shape: shape(subject, session, relation, columns)?, copy })
}

/// The shape of a table as the catalog has it.
fn shape(subject: &Subject, session: &mut Session, relation: &Relation, columns: Vec<PgColumn>) -> Result<Arc<Shape>> {
    let sql = "SELECT c.relreplident, ARRAY(SELECT k FROM pg_catalog.pg_index i, pg_catalog.unnest(i.indkey) k WHERE i.indrelid = c.oid AND \
               (i.indisprimary AND c.relreplident = 'd' OR i.indisreplident AND c.relreplident = 'i'))::pg_catalog.text \
               FROM pg_catalog.pg_class c WHERE c.oid = $1::pg_catalog.oid";
    let row = session.row(sql, &[Some(&relation.oid.to_string())])?;
    let (identity, keys) = row.map_or((b'd', String::new()), |row| (row.text(0).bytes().next().unwrap_or(b'd'), row.text(1).to_string()));
    let keys: Vec<i16> = keys.trim_matches(['{', '}']).split(',').filter_map(|k| k.parse().ok()).collect();
    let wire = |c: &PgColumn| WireColumn {
        key: identity == b'f' || keys.contains(&c.number),
        name: c.name.clone(),
        type_oid: c.type_oid,
        typmod: c.base.typmod,
    };
    let wire = WireRelation {
        schema: relation.schema.clone(),
        name: relation.name.clone(),
        identity,
        columns: columns.iter().map(wire).collect(),
    };
    Ok(subject.shapes.add(relation.oid, &wire, columns))
}

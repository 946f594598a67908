//! Databases for tests: each test gets its own on the server that `./test` starts.

use super::catalog::{Relation, quote_ident};
use super::config::{self, TableName};
use super::decode::CopyDecoder;
use super::discover;
use super::encode::{CopyEncoder, WriteColumns};
use super::session::Session;
use super::text::TextEncoder;
use super::types::{ColumnPlan, column_plan};
use arrow_schema::Field;
use haul_model::{BlockBody, Decoder, Encoder, Endpoint, Environment, Form, OnLossy, Raw, Result, Rows, Settings, Strict};
use std::sync::atomic::{AtomicU32, Ordering};

/// The type zoo of the exactness tests.
pub(super) const EXACT: &str = include_str!("../../../../tests/fixtures/exact.sql");

/// A database of its own, dropped with it.
pub(super) struct TestDb {
    pub name: String,
    pub session: Session,
}

/// `HAUL_PG_URL` with another database in it.
pub(super) fn url(database: &str) -> String {
    let url =
        std::env::var("HAUL_PG_URL").unwrap_or_else(|_| panic!("HAUL_PG_URL is not set: these tests need the server that ./test starts"));
    let (server, _) = url.rsplit_once('/').unwrap();
    format!("{server}/{database}")
}

pub(super) fn open(url: &str) -> Session {
    let endpoint = Endpoint::parse(url).unwrap();
    let mut target = config::target(&endpoint, &Settings::default(), &Environment::default()).unwrap();
    target.config.sslmode = haul_pgwire::SslMode::Disable;
    Session::open(&target, &Environment::default(), "test").unwrap()
}

impl TestDb {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("haul_t_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        open(&url("postgres")).run(&format!("CREATE DATABASE {name}")).unwrap();
        let session = open(&url(&name));
        Self { name, session }
    }

    /// With the table `exact` and its types.
    pub fn exact() -> Self {
        let mut db = Self::new();
        db.run(EXACT);
        db
    }

    pub fn run(&mut self, sql: &str) {
        self.session.run(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// The first value of a query.
    pub fn value(&mut self, sql: &str) -> String {
        self.session
            .row(sql, &[])
            .unwrap_or_else(|e| panic!("{sql}: {e}"))
            .map(|r| r.get(0).unwrap_or("NULL").to_string())
            .unwrap_or_default()
    }

    /// The first column of a query.
    pub fn list(&mut self, sql: &str) -> Vec<String> {
        let rows = self.session.query(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}"));
        rows.iter().map(|r| r.get(0).unwrap_or("NULL").to_string()).collect()
    }

    pub fn relation(&mut self, table: &str) -> Relation {
        discover::relation(&mut self.session, &TableName::parse(table).unwrap()).unwrap()
    }

    /// How the columns of a table are read; generated ones left out.
    pub fn plans(&mut self, table: &str, form: Form, on_lossy: OnLossy) -> Vec<ColumnPlan> {
        let relation = self.relation(table);
        relation.columns.iter().filter(|c| !c.generated).map(|c| column_plan(form, on_lossy, c).unwrap()).collect()
    }

    /// Reads a table by COPY BINARY and decodes it; the first refusal is the error.
    pub fn read(&mut self, table: &str, order: &str, form: Form, on_lossy: OnLossy) -> Result<(Vec<Rows>, u64)> {
        let plans = self.plans(table, form, on_lossy);
        let columns: Vec<&str> = plans.iter().map(|p| p.select.as_str()).collect();
        self.session.begin("").unwrap();
        let sql = format!("COPY (SELECT {} FROM {} ORDER BY {order}) TO STDOUT (FORMAT binary)", columns.join(", "), quote_ident(table));
        let mut chunks = Vec::new();
        let mut copy = self.session.connection().copy_out(&sql).unwrap();
        while let Some(chunk) = copy.next_chunk(64 << 10).unwrap() {
            chunks.push(chunk.bytes);
        }
        drop(copy);
        self.run("COMMIT");
        let mut decoder = CopyDecoder::new(table, &plans, form, on_lossy);
        let (mut rows, mut strict, mut before) = (Vec::new(), Strict::default(), 0);
        for bytes in chunks {
            let mut here = 0;
            let decoded = decoder.decode(Raw { bytes, ..Raw::default() }, &mut strict, &mut |r, _| {
                here += r.batch.num_rows() as u64;
                rows.push(r);
                Ok(())
            });
            decoded.map_err(|e| e.resolve_row(before))?;
            before += here;
        }
        Ok((rows, strict.lossy))
    }

    /// Encodes rows for the columns of `table` with the same names, and copies them in. Returns the rows that the server counted
    /// and whether it was binary.
    pub fn load(&mut self, table: &str, rows: &[Rows], on_lossy: OnLossy) -> Result<(u64, bool)> {
        let relation = self.relation(table);
        let Some(first) = rows.first() else { return Ok((0, true)) };
        let schema = first.batch.schema();
        let pairs: Vec<(usize, Field, _)> = (schema.fields().iter().enumerate())
            .map(|(i, f)| (i, f.as_ref().clone(), relation.columns.iter().find(|c| c.name == *f.name()).unwrap().clone()))
            .collect();
        let plan = WriteColumns::new(table, &pairs, on_lossy)?;
        let binary = plan.all_binary();
        let mut encoder: Box<dyn Encoder> = if binary { Box::new(CopyEncoder::new(&plan)?) } else { Box::new(TextEncoder::new(&plan)) };
        for batch in rows {
            encoder.push(batch, &mut Strict::default())?;
        }
        let Some(block) = encoder.take()? else { return Ok((0, binary)) };
        let BlockBody::Bytes(bytes) = block.body else { panic!("an encoder of bytes") };
        let names: Vec<String> = pairs.iter().map(|(_, _, c)| quote_ident(&c.name)).collect();
        let format = if binary { "binary" } else { "text" };
        self.session.begin("")?;
        let sql = format!("COPY {} ({}) FROM STDIN (FORMAT {format})", quote_ident(table), names.join(", "));
        let loaded = (|| {
            let mut copy = self.session.connection().copy_in(&sql)?;
            copy.write_data(&bytes)?;
            copy.finish().map(|(rows, _)| rows)
        })();
        let count = loaded.map_err(super::session::error);
        if count.is_err() {
            // After a broken connection this fails too, and the first error is the one to tell.
            let _ = self.session.run("ROLLBACK");
        }
        let count = count?;
        self.run("COMMIT");
        Ok((count, binary))
    }

    /// Asserts that two tables hold the same rows: their text, and the bytes of their floats.
    pub fn assert_same(&mut self, a: &str, b: &str) {
        let relation = self.relation(a);
        let sent = |c: &super::catalog::PgColumn| {
            let name = quote_ident(&c.name);
            match c.base.oid {
                700 => format!("pg_catalog.float4send({name})"),
                701 => format!("pg_catalog.float8send({name})"),
                18 => format!("pg_catalog.charsend({name})"),
                1042 => format!("pg_catalog.bpcharsend({name})"),
                _ if c.base.kind == super::catalog::TypeKind::Enum => name,
                _ => format!("({name})::text"),
            }
        };
        let list = relation.columns.iter().map(sent).collect::<Vec<_>>().join(", ");
        let differ = |x: &str, y: &str| format!("(SELECT {list} FROM {x} EXCEPT ALL SELECT {list} FROM {y})");
        let sql = format!("SELECT count(*) FROM ({} UNION ALL {}) d", differ(a, b), differ(b, a));
        assert_eq!(self.value(&sql), "0", "{a} and {b} differ");
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        let _ = open(&url("postgres")).run(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

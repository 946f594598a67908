//! Asking the catalog: tables by name, columns with their types, the columns of a query.

use super::catalog::{Identity, PgColumn, PgType, Relation, RelationKind, TypeKind, quote_ident};
use super::config::TableName;
use super::session::{self, Session};
use haul_model::{Error, ErrorKind, Result, nearest};
use std::collections::HashMap;

/// A column before its type is looked up.
struct Bare {
    column: PgColumn,
    typmod: i32,
}

/// What `pg_type` and `pg_range` say about one type.
#[derive(Debug, Clone)]
struct TypeRow {
    own: PgType,
    base_oid: u32,
    base_typmod: i32,
    elem: u32,
    subtype: u32,
    not_null: bool,
}

/// Where a table stands: enough to lock it before anything else is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// `pg_class.oid`.
    pub oid: u32,
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: RelationKind,
    /// Whether the role has SELECT on the table as a whole.
    pub readable: bool,
}

impl Located {
    /// `"schema"."name"` for SQL.
    pub fn sql(&self) -> String {
        format!("{}.{}", quote_ident(&self.schema), quote_ident(&self.name))
    }
}

/// Finds a table, view or the like. A bare name goes through `search_path`.
///
/// # Errors
/// `NotFound` with the nearest names, `Permission` on the schema, the server's.
pub fn locate(session: &mut Session, name: &TableName) -> Result<Located> {
    let quoted = match &name.schema {
        Some(schema) => format!("{}.{}", quote_ident(schema), quote_ident(&name.name)),
        None => quote_ident(&name.name),
    };
    let sql = "SELECT c.oid, n.nspname, c.relname, c.relkind, pg_catalog.has_table_privilege(c.oid, 'SELECT') \
               FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = pg_catalog.to_regclass($1)";
    let Some(row) = session.row(sql, &[Some(&quoted)])? else { return Err(not_found(session, name)?) };
    Ok(Located {
        oid: row.parse(0).unwrap_or(0),
        schema: row.text(1).to_string(),
        name: row.text(2).to_string(),
        kind: RelationKind::from_letter(row.text(3).bytes().next().unwrap_or(0)),
        readable: row.flag(4),
    })
}

/// Finds a table, view or the like, and reads its columns.
///
/// # Errors
/// As [`locate`].
pub fn relation(session: &mut Session, name: &TableName) -> Result<Relation> {
    let located = locate(session, name)?;
    relation_by_oid(session, located.oid)
}

/// As [`relation`], by OID.
///
/// # Errors
/// The server's; `NotFound` if it is gone.
pub fn relation_by_oid(session: &mut Session, oid: u32) -> Result<Relation> {
    let sql = "SELECT n.nspname, c.relname, c.relkind, COALESCE(am.amname, ''), \
               CASE WHEN c.relkind IN ('r', 'm') THEN pg_catalog.pg_relation_size(c.oid) END, \
               pg_catalog.current_setting('block_size'), \
               c.reltuples::pg_catalog.float8::pg_catalog.numeric::pg_catalog.text, c.relpages, pg_catalog.row_security_active(c.oid), \
               EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid) AND c.relkind <> 'p' \
               FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam WHERE c.oid = $1::pg_catalog.oid";
    let Some(row) = session.row(sql, &[Some(&oid.to_string())])? else {
        return Err(Error::new(ErrorKind::NotFound, format!("the table with OID {oid} is gone")));
    };
    let kind = RelationKind::from_letter(row.text(2).bytes().next().unwrap_or(0));
    let bytes: u64 = row.parse(4).unwrap_or(0);
    let columns = columns(session, oid)?;
    Ok(Relation {
        oid,
        schema: row.text(0).to_string(),
        name: row.text(1).to_string(),
        kind,
        access_method: access_method(row.text(3), kind),
        pages: bytes / row.parse(5).unwrap_or(8192).max(1),
        bytes,
        rows: known_rows(row.text(6), row.text(7)),
        row_security: row.flag(8),
        has_children: row.flag(9),
        columns,
    })
}

/// Before version 12 there was only one access method for tables, and `pg_am` did not list it.
fn access_method(name: &str, kind: RelationKind) -> String {
    match (name, kind) {
        ("", RelationKind::Table | RelationKind::MaterializedView) => "heap".to_string(),
        (name, _) => name.to_string(),
    }
}

/// `reltuples`: -1 (from version 14), or 0 without pages, means that nobody has looked.
fn known_rows(rows: &str, pages: &str) -> Option<u64> {
    rows.parse().ok().filter(|n: &u64| *n > 0 || pages != "0")
}

/// A table that holds rows itself: the relation, or one below it in a tree of partitions or inheritance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// `"schema"."name"` for SQL.
    pub sql: String,
    /// Whether it can be cut into ranges of pages.
    pub heap: bool,
    /// Size of the main fork.
    pub bytes: u64,
    /// Size of the values that lie beside it, compressed perhaps.
    pub toast: u64,
    /// Size of a page.
    pub block: u64,
    /// Rows, if the table was ever analysed.
    pub rows: Option<u64>,
    /// Whether this role can read it directly, with the same rows as through its parent.
    pub direct: bool,
}

impl Leaf {
    /// Everything that a read of it fetches.
    pub fn size(&self) -> u64 {
        self.bytes + self.toast
    }
}

/// The tables that hold the rows of a relation; none for views and foreign tables.
///
/// # Errors
/// The server's.
pub fn leaves(session: &mut Session, oid: u32) -> Result<Vec<Leaf>> {
    let detached = if session.version() >= 140_000 { "AND NOT i.inhdetachpending" } else { "" };
    let sql = format!(
        "WITH RECURSIVE tree(oid) AS (SELECT $1::pg_catalog.oid UNION \
           SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree t ON i.inhparent = t.oid {detached}) \
         SELECT n.nspname, c.relname, c.relkind, COALESCE(am.amname, ''), \
           CASE WHEN c.relkind IN ('r', 'm') THEN pg_catalog.pg_relation_size(c.oid) END, pg_catalog.current_setting('block_size'), \
           c.reltuples::pg_catalog.float8::pg_catalog.numeric::pg_catalog.text, c.relpages, \
           NOT c.relrowsecurity AND pg_catalog.has_table_privilege(c.oid, 'SELECT') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE'), \
           pg_catalog.pg_relation_size(NULLIF(c.reltoastrelid, 0)) \
         FROM tree t JOIN pg_catalog.pg_class c ON c.oid = t.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam WHERE c.relkind IN ('r', 'm', 'f') ORDER BY c.oid = $1::pg_catalog.oid DESC, 1, 2"
    );
    let found = session.query(&sql, &[Some(&oid.to_string())])?;
    let leaf = |row: &haul_pgwire::Row| {
        let kind = RelationKind::from_letter(row.text(2).bytes().next().unwrap_or(0));
        Leaf {
            sql: format!("{}.{}", quote_ident(row.text(0)), quote_ident(row.text(1))),
            heap: kind != RelationKind::Foreign && access_method(row.text(3), kind) == "heap",
            bytes: row.parse(4).unwrap_or(0),
            toast: row.parse(9).unwrap_or(0),
            block: row.parse(5).unwrap_or(8192),
            rows: known_rows(row.text(6), row.text(7)),
            direct: row.flag(8),
        }
    };
    Ok(found.iter().map(leaf).collect())
}

/// The columns of a relation in `attnum` order, without dropped ones.
///
/// # Errors
/// The server's.
pub fn columns(session: &mut Session, relation: u32) -> Result<Vec<PgColumn>> {
    let generated = if session.version() >= 120_000 { "a.attgenerated" } else { "''" };
    let sql = format!(
        "SELECT a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull, {generated}, a.attidentity, a.atthasdef \
         FROM pg_catalog.pg_attribute a WHERE a.attrelid = $1::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    );
    let found = session.query(&sql, &[Some(&relation.to_string())])?;
    let bare = found.iter().map(|row| {
        let identity = match row.text(6) {
            "a" => Some(Identity::Always),
            "d" => Some(Identity::ByDefault),
            _ => None,
        };
        let generated = !row.text(5).is_empty();
        let column = PgColumn {
            name: row.text(1).to_string(),
            number: row.parse(0).unwrap_or(0),
            type_oid: row.parse(2).unwrap_or(0),
            not_null: row.flag(4),
            generated,
            identity,
            has_default: identity.is_some() || (row.flag(7) && !generated),
            ..PgColumn::default()
        };
        Bare { column, typmod: row.parse(3).unwrap_or(-1) }
    });
    typed(session, bare.collect())
}

/// The columns that a query returns, without running it.
///
/// # Errors
/// The server's (syntax, missing objects), or a query that returns nothing.
pub fn query_columns(session: &mut Session, query: &str) -> Result<Vec<PgColumn>> {
    let described = session.connection().describe(query).map_err(session::error)?;
    let bare = described.into_iter().zip(1..).map(|(found, number)| {
        let column = PgColumn { name: found.name, number, type_oid: found.type_oid, ..PgColumn::default() };
        Bare { column, typmod: found.typmod }
    });
    typed(session, bare.collect())
}

/// Columns of which only name, type and modifier are known.
///
/// # Errors
/// The server's.
pub(super) fn named_columns(session: &mut Session, named: &[(String, u32, i32)]) -> Result<Vec<PgColumn>> {
    let bare = named.iter().zip(1..).map(|((name, type_oid, typmod), number)| {
        let column = PgColumn { name: name.clone(), number, type_oid: *type_oid, ..PgColumn::default() };
        Bare { column, typmod: *typmod }
    });
    typed(session, bare.collect())
}

/// Looks up the types of columns and everything inside them.
fn typed(session: &mut Session, bare: Vec<Bare>) -> Result<Vec<PgColumn>> {
    if bare.is_empty() {
        return Ok(Vec::new());
    }
    let types = type_rows(session, bare.iter().map(|b| b.column.type_oid))?;
    let mut columns: Vec<PgColumn> = Vec::with_capacity(bare.len());
    for Bare { mut column, typmod } in bare {
        let (base, not_null, is_domain) = resolve(&types, column.type_oid, typmod);
        column.is_domain = is_domain;
        column.not_null |= not_null;
        if let Some(row) = types.get(&base.oid) {
            column.elem_oid = row.elem;
            column.elem = (row.elem != 0).then(|| resolve(&types, row.elem, -1).0);
            column.subtype = (row.subtype != 0).then(|| resolve(&types, row.subtype, -1).0);
        }
        // The declared type's name is found together with the others below.
        column.type_name = typmod.to_string();
        column.base = base;
        columns.push(column);
    }
    name_types(session, &mut columns)?;
    label_enums(session, &mut columns)?;
    Ok(columns)
}

/// The type behind any domains, the modifier that applies to it, whether a domain forbids NULL, and whether there was one.
fn resolve(types: &HashMap<u32, TypeRow>, oid: u32, typmod: i32) -> (PgType, bool, bool) {
    let (mut oid, mut typmod, mut not_null, mut domain) = (oid, typmod, false, false);
    while let Some(row) = types.get(&oid) {
        if row.own.kind != TypeKind::Domain {
            return (PgType { typmod, ..row.own.clone() }, not_null, domain);
        }
        not_null |= row.not_null;
        domain = true;
        if typmod < 0 {
            typmod = row.base_typmod;
        }
        oid = row.base_oid;
    }
    (PgType { oid, typmod, ..PgType::default() }, not_null, domain)
}

/// `pg_type` rows of these types and, transitively, of what they are made of.
fn type_rows(session: &mut Session, oids: impl Iterator<Item = u32>) -> Result<HashMap<u32, TypeRow>> {
    let list = array(oids);
    let multirange = if session.version() >= 140_000 { "OR r.rngmultitypid = p.oid" } else { "" };
    let sql = format!(
        "WITH RECURSIVE needed(oid) AS ( \
           SELECT o FROM pg_catalog.unnest($1::pg_catalog.oid[]) o \
           UNION SELECT part FROM needed JOIN pg_catalog.pg_type p ON p.oid = needed.oid \
             LEFT JOIN pg_catalog.pg_range r ON r.rngtypid = p.oid {multirange} \
             CROSS JOIN LATERAL (VALUES (p.typbasetype), (CASE WHEN p.typlen = -1 THEN p.typelem ELSE 0 END), (r.rngsubtype)) v(part) \
             WHERE part <> 0) \
         SELECT p.oid, n.nspname, p.typname, p.typtype, p.typcategory, p.typbasetype, p.typtypmod, \
           CASE WHEN p.typlen = -1 AND p.typcategory = 'A' THEN p.typelem ELSE 0 END, COALESCE(r.rngsubtype, 0), p.typnotnull, p.typsend <> 0 \
         FROM needed JOIN pg_catalog.pg_type p ON p.oid = needed.oid JOIN pg_catalog.pg_namespace n ON n.oid = p.typnamespace \
         LEFT JOIN pg_catalog.pg_range r ON r.rngtypid = p.oid {multirange}"
    );
    let found = session.query(&sql, &[Some(&list)])?;
    let row = |row: &haul_pgwire::Row| {
        let letter = |i: usize| row.text(i).bytes().next().unwrap_or(0);
        let own = PgType {
            oid: row.parse(0).unwrap_or(0),
            typmod: -1,
            schema: row.text(1).to_string(),
            name: row.text(2).to_string(),
            sql: String::new(),
            kind: TypeKind::from_letter(letter(3)),
            category: letter(4),
            has_binary: row.flag(10),
        };
        let number = |i: usize| row.parse(i).unwrap_or(0);
        let base_typmod = row.parse(6).unwrap_or(-1);
        (own.oid, TypeRow { own, base_oid: number(5), base_typmod, elem: number(7), subtype: number(8), not_null: row.flag(9) })
    };
    Ok(found.iter().map(row).collect())
}

fn array(numbers: impl Iterator<Item = u32>) -> String {
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    format!("{{{}}}", numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
}

/// Runs `ask` while only `pg_catalog` is searched, so that all other names come with their schema.
///
/// # Errors
/// Those of `ask`; the server's.
pub(super) fn with_plain_path<T>(session: &mut Session, ask: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
    // set_config(.., true) holds to the end of the transaction, or of this statement outside of one.
    let before = session.row("SELECT pg_catalog.current_setting('search_path')", &[])?.map_or(String::new(), |row| row.text(0).to_string());
    let set = "SELECT pg_catalog.set_config('search_path', $1, true)";
    let in_transaction = session.connection().transaction() != haul_pgwire::Transaction::None;
    if !in_transaction {
        session.run("BEGIN")?;
    }
    session.query(set, &[Some("pg_catalog")])?;
    let found = ask(session)?;
    if in_transaction {
        session.query(set, &[Some(&before)])?;
    } else {
        session.run("COMMIT")?;
    }
    Ok(found)
}

/// Fills in every type's SQL name. Only `pg_catalog` is searched meanwhile, so that other types come with their schema.
fn name_types(session: &mut Session, columns: &mut [PgColumn]) -> Result<()> {
    let mut slots: Vec<(u32, i32, &mut String)> = Vec::new();
    for column in columns {
        let typmod = column.type_name.parse().unwrap_or(-1);
        slots.push((column.type_oid, typmod, &mut column.type_name));
        let parts = [Some(&mut column.base), column.elem.as_mut(), column.subtype.as_mut()];
        slots.extend(parts.into_iter().flatten().map(|part| (part.oid, part.typmod, &mut part.sql)));
    }
    let list = |values: Vec<String>| format!("{{{}}}", values.join(","));
    let (oids, typmods) = slots.iter().map(|(oid, typmod, _)| (oid.to_string(), typmod.to_string())).unzip();
    let found = with_plain_path(session, |session| {
        let sql = "SELECT pg_catalog.format_type(t.o, t.m) FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.oid[]), \
                   pg_catalog.unnest($2::pg_catalog.int4[])) WITH ORDINALITY t(o, m, i) ORDER BY t.i";
        session.query(sql, &[Some(&list(oids)), Some(&list(typmods))])
    })?;
    for ((_, _, slot), row) in slots.into_iter().zip(&found) {
        *slot = row.text(0).to_string();
    }
    Ok(())
}

/// Fills in the labels of enums and of arrays of enums.
fn label_enums(session: &mut Session, columns: &mut [PgColumn]) -> Result<()> {
    let of = |column: &PgColumn| {
        let inner = column.elem.as_ref().unwrap_or(&column.base);
        (inner.kind == TypeKind::Enum).then_some(inner.oid)
    };
    let enums: Vec<u32> = columns.iter().filter_map(of).collect();
    if enums.is_empty() {
        return Ok(());
    }
    let sql = "SELECT enumtypid, enumlabel FROM pg_catalog.pg_enum WHERE enumtypid = ANY ($1::pg_catalog.oid[]) ORDER BY enumtypid, enumsortorder";
    let found = session.query(sql, &[Some(&array(enums.into_iter()))])?;
    for column in columns {
        if let Some(oid) = of(column) {
            column.labels = found.iter().filter(|row| row.parse(0) == Some(oid)).map(|row| row.text(1).to_string()).collect();
        }
    }
    Ok(())
}

/// The error for a table that is not there: names that differ only in case, else the nearest.
fn not_found(session: &mut Session, name: &TableName) -> Result<Error> {
    let error = Error::new(ErrorKind::NotFound, format!("there is no table {:?}", name.to_string()));
    let sql = "SELECT n.nspname, c.relname, n.nspname = ANY (pg_catalog.current_schemas(true)) FROM pg_catalog.pg_class c \
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' \
               ORDER BY 1, 2 LIMIT 10000";
    let found = session.query(sql, &[])?;
    let full = |row: &haul_pgwire::Row| format!("{}.{}", quote_if_needed(row.text(0)), quote_if_needed(row.text(1)));
    let wanted = |row: &&haul_pgwire::Row| match &name.schema {
        Some(schema) => row.text(0).eq_ignore_ascii_case(schema),
        None => true,
    };
    if let Some(row) = found.iter().filter(wanted).find(|row| row.text(1).to_lowercase() == name.name.to_lowercase()) {
        let what = match &name.schema {
            None if row.text(1) == name.name => "it is there in a schema that is not in search_path",
            _ => "only the case differs (names are exact here)",
        };
        return Ok(error.hint(format!("did you mean {}? {what}", full(row))));
    }
    let names: Vec<String> = found.iter().map(full).collect();
    let given = match &name.schema {
        Some(schema) => format!("{schema}.{}", name.name),
        None => name.name.clone(),
    };
    let bare: Vec<&str> = found.iter().map(|row| row.text(1)).collect();
    let near = match name.schema {
        Some(_) => nearest(&given, names.iter().map(String::as_str)).map(str::to_string),
        None => nearest(&given, bare.iter().copied()).and_then(|b| bare.iter().position(|x| *x == b)).map(|i| names[i].clone()),
    };
    Ok(match near {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint("`table=schema.name` names it; a table that this role may not see is not found either"),
    })
}

/// A name as one would type it for `table=`.
pub fn quote_if_needed(name: &str) -> String {
    if name.contains(['.', '"']) || name.is_empty() { quote_ident(name) } else { name.to_string() }
}

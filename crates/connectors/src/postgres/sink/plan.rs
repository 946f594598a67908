//! What will happen, decided with the catalog at hand. Nothing is changed here.

use super::mapping::{self, Mapping};
use super::merge::{Merge, Merging};
use super::objects::{self, Objects};
use super::settings::{Format, KeyedMode, Mode};
use super::staging::Staging;
use super::triggers::{self, Held};
use super::way::{self, Way, qualified};
use super::{BLOCK, Planned, PostgresSink, Shared};
use crate::postgres::catalog::{Relation, RelationKind, quote_ident};
use crate::postgres::config::TableName;
use crate::postgres::ddl;
use crate::postgres::discover;
use crate::postgres::session::Session;
use crate::postgres::slots;
use crate::postgres::statement;
use haul_model::{ColumnMapping, Error, ErrorKind, Guarantee, Incoming, Note, PartKind, Result, TableDefinition, WritePlan};
use std::sync::Arc;

/// The table, or where a new one will be.
pub(super) struct Located {
    pub relation: Option<Relation>,
    pub schema: String,
    pub name: String,
    /// For messages.
    pub display: String,
}

const EACH_LANE_ALONE: &str = "each lane commits on its own, one after the other at the very end: --degree 1, --mode replace, or a server \
                               with max_prepared_transactions makes it all or nothing";

/// Whether something of the table's own, or of its partitions, may change or skip rows that are inserted: rules, which COPY does not follow, and
/// triggers, whose skipped rows nobody would have counted.
pub(super) fn is_watched(session: &mut Session, relation: &Relation) -> Result<bool> {
    if relation.kind == RelationKind::Partitioned {
        return Ok(true);
    }
    let sql = "SELECT relhasrules OR relhastriggers FROM pg_catalog.pg_class WHERE oid = $1::pg_catalog.oid";
    Ok(session.row(sql, &[Some(&relation.oid.to_string())])?.is_none_or(|row| row.flag(0)))
}

impl PostgresSink {
    /// The name that the user gave, or one made of the source's.
    fn table_name(&self, source: &str) -> Result<TableName> {
        match &self.target.table {
            Some(name) => Ok(name.clone()),
            None => default_name(source).ok_or_else(|| {
                Error::new(ErrorKind::Config, "no table to write to").object(&self.place).hint("name it: ?table=schema.name")
            }),
        }
    }

    /// Decides everything, with a session to look with.
    pub(super) fn plan_with(&mut self, control: &mut Session, incoming: &Incoming) -> Result<WritePlan> {
        let located = self.locate(control, &incoming.source)?;
        let (mapping, create) = self.mapped(control, &located, incoming)?;
        let binary = self.binary(&mapping, incoming)?;
        let had_rows = self.had_rows(control, &located)?;
        let mut notes = mapping.notes.clone();
        let way = self.way(control, located.relation.as_ref(), &mut notes)?;
        let merging = match self.options.mode {
            Some(Mode::Keyed(mode)) => {
                let definition = incoming.definition.as_ref();
                Some(self.merging(control, mode, &located, (&mapping, definition), create.as_deref(), &mut notes)?)
            }
            _ => None,
        };
        let key = merging.as_ref().map(|m| m.merge.key.as_slice());
        let (objects, held) = self.surroundings(control, (way, key), &located, incoming, &mut notes)?;
        let remarks = unmoved_sequences(control, &located, &mapping, &mut notes)?;
        let prepared = max_prepared(control)?;
        let room = slots::room(control, &self.env.run_id)?.map(|room| (room.sessions + control.waiting()).max(1));
        notes.extend(self.notes(&mapping, incoming, binary));
        let Located { relation, schema, name, display } = located;
        let (staging, copied) = self.first_table(way, merging.as_ref(), &schema, &name);
        let create = staging_ddl(way, &copied, &qualified(&schema, &name), create, &self.options.table_options);
        let statement = incoming.pass_through.as_ref().is_some_and(|encoding| encoding.format == statement::FORMAT);
        let (list, overriding) = (mapping.list(), way::overriding(&mapping.targets));
        let format = if binary { "binary" } else { "text" };
        let run: String = self.env.run_id.chars().filter(char::is_ascii_alphanumeric).collect();
        let planned = Planned {
            transaction_name: format!("haul_{run}_{}_{name}", std::process::id()),
            columns: if self.options.format == Format::Text { mapping.columns.lenient() } else { mapping.columns },
            shared: Arc::new(Shared {
                copy_sql: match statement {
                    true => format!("INSERT INTO {copied} ({list}){overriding}"),
                    false => format!("COPY {copied} ({list}) FROM STDIN (FORMAT {format})"),
                },
                statement,
                binary,
                reject: self.options.reject,
                table: display,
                names: (staging.clone(), name.clone()),
                key: merging.as_ref().map(|m| m.merge.key.clone()).unwrap_or_default(),
                prelude: if way == Way::Append { held.before.join("; ") } else { String::new() },
                ..Shared::default()
            }),
            column_list: list,
            held: if way == Way::Append { Held::default() } else { held },
            objects,
            overriding,
            way,
            merging,
            schema,
            name,
            staging,
            relation,
            create,
            had_rows,
            prepared,
            remarks,
        };
        let plan = self.write_plan(&planned, mapping.shown, notes, room);
        self.planned = Some(planned);
        Ok(plan)
    }

    /// The table that rows go to first: its bare name, and as SQL.
    fn first_table(&self, way: Way, merging: Option<&Merging>, schema: &str, name: &str) -> (String, String) {
        if let Some(merging) = merging {
            return (merging.staging.name(0), merging.staging.table(0).sql);
        }
        let bare = if way.is_staged() { way::staging_name(&self.env.run_id, name) } else { name.to_string() };
        let sql = qualified(schema, &bare);
        (bare, sql)
    }

    /// What was decided, told. `room`: sessions that the server still has.
    fn write_plan(&self, planned: &Planned, columns: Vec<ColumnMapping>, notes: Vec<Note>, room: Option<usize>) -> WritePlan {
        let (table, copied) = (planned.table_sql(), planned.staging_sql());
        let objects = [planned.objects.statements(&table), planned.objects.positions(&table)].concat();
        let (described, done) = match &planned.merging {
            Some(merging) => (merging.described(), merging.shown(objects)),
            None => {
                let shown = shown_ddl(planned.way, planned.create.as_deref(), &copied, &planned.schema, &planned.name);
                (described(planned.way, &copied), [shown, objects].concat())
            }
        };
        let most = match &planned.merging {
            Some(merging) => merging.staging.is_for_one().then_some(1),
            None => (planned.way == Way::Append && planned.prepared >= 2).then_some(planned.prepared),
        };
        let format = if planned.shared.binary { "COPY BINARY" } else { "COPY TEXT" };
        WritePlan {
            method: format!("{} {described}", if planned.shared.statement { "INSERT ... SELECT" } else { format }),
            ddl: self.options.pre_sql.iter().cloned().chain(done).chain(self.options.post_sql.clone()).collect(),
            columns,
            notes,
            guarantee: Guarantee::AllOrNothing,
            own_connections: true,
            whole_splits: planned.merging.is_some(),
            in_split_order: false,
            max_writers: room.into_iter().chain(most).min(),
            block_bytes: BLOCK,
            run_bytes: None,
        }
    }

    /// How rows with a key are staged and merged.
    fn merging(
        &self,
        control: &mut Session,
        mode: KeyedMode,
        located: &Located,
        (mapping, definition): (&Mapping, Option<&TableDefinition>),
        create: Option<&str>,
        notes: &mut Vec<Note>,
    ) -> Result<Merging> {
        let targets = &mapping.targets;
        let primary = definition.and_then(|d| d.parts.iter().find(|part| part.kind == PartKind::PrimaryKey));
        let primary = primary.filter(|_| located.relation.is_none() && self.options.with_keys).map(|part| part.columns.as_slice());
        let asked = self.options.key.as_deref().or(primary);
        let merge = Merge::plan(control, located, mode, asked, targets, self.options.triggers)?;
        let mut staging = Staging::plan(&self.env.run_id, located, create, targets, &merge, control.version());
        if !may_create(control, &located.schema)? {
            staging.temporary = true;
            notes.push(Note::new(format!(
                "no right to create tables in schema {:?}: one lane, and a temporary staging table",
                located.schema
            )));
        }
        for column in merge.kept(targets) {
            notes.push(Note::column(column, "is GENERATED ALWAYS: rows that are there keep theirs"));
        }
        let create = create.map(|columns| merge.create_target(columns, &self.options.table_options));
        Ok(Merging { merge, staging, create })
    }

    /// What the plan says about so many writers.
    pub(super) fn settle_width(&mut self, count: usize, plan: &mut WritePlan) {
        let Some(planned) = &mut self.planned else { return };
        if let Some(merging) = &mut planned.merging {
            merging.staging.lanes = u32::try_from(count).unwrap_or(u32::MAX).max(1);
            // The staging tables of several lanes have one column more.
            let shown = merging.staging.create(0);
            if let Some(at) = plan.ddl.iter().position(|sql| *sql == shown[0]) {
                plan.ddl.splice(at..at + shown.len(), shown);
            }
            plan.notes.push(Note::new(match count {
                0 | 1 => "of several rows with the same key the last one stays, the others are counted as superseded",
                _ => {
                    "of several rows with the same key the last one stays, the others are counted as superseded: the row of the later split, \
                     in it the later row; --degree 1 keeps to the order of the source"
                }
            }));
        }
        if planned.way == Way::Append && count > 1 && (planned.prepared < count || self.options.commit_splits) {
            plan.guarantee = Guarantee::AtLeastOnce;
            plan.notes.push(Note::new(EACH_LANE_ALONE));
        }
    }

    /// The table, or where a new one will be.
    fn locate(&self, control: &mut Session, source: &str) -> Result<Located> {
        let name = self.table_name(source)?;
        let relation = match look_up(control, &name)? {
            Ok(relation) => Some(relation),
            Err(_) if self.options.create => None,
            Err(error) => return Err(missing_table(error, &name)),
        };
        let (schema, name) = match &relation {
            Some(relation) => (relation.schema.clone(), relation.name.clone()),
            None => (schema_for(control, &name)?, name.name.clone()),
        };
        if let Some(relation) = &relation {
            check_relation(control, relation)?;
        }
        Ok(Located { relation, display: format!("{schema}.{name}"), schema, name })
    }

    /// The columns, mapped; and the column list of a CREATE TABLE, if there will be one.
    fn mapped(&self, control: &mut Session, located: &Located, incoming: &Incoming) -> Result<(Mapping, Option<String>)> {
        let (columns, create) = match &located.relation {
            Some(relation) => (relation.columns.clone(), None),
            None => {
                let columns = mapping::future_columns(control, &located.display, &incoming.schema)?;
                (columns, Some(ddl::column_list(&incoming.schema)?))
            }
        };
        let mapping = mapping::map(&located.display, &incoming.schema, &columns, self.options.map_by(), self.options.on_lossy)?;
        if mapping.targets.is_empty() {
            return Err(Error::new(ErrorKind::Schema, "no column to write").object(&located.display));
        }
        if incoming.pass_through.is_some() && !mapping.is_identity(&incoming.schema) {
            return Err(Error::internal("bytes were to pass through into other columns").object(&located.display));
        }
        Ok((mapping, create))
    }

    /// Whether the table has rows; if so, the mode must have been said.
    fn had_rows(&self, control: &mut Session, located: &Located) -> Result<bool> {
        let had_rows = match &located.relation {
            Some(relation) => has_rows(control, relation)?,
            None => false,
        };
        if had_rows && self.options.mode.is_none() {
            return Err(Error::new(ErrorKind::Exists, "the table has rows already, and the mode was not said")
                .object(&located.display)
                .hint("--mode append adds to them, --mode replace and --mode truncate put the new rows in their place"));
        }
        Ok(had_rows)
    }

    /// Whether COPY BINARY is used.
    fn binary(&self, mapping: &Mapping, incoming: &Incoming) -> Result<bool> {
        if let Some(encoding) = &incoming.pass_through {
            return Ok(encoding.format == "pgcopy-binary");
        }
        match (self.options.format, mapping.columns.text_only().as_slice()) {
            (Format::Text, _) => Ok(false),
            (Format::Binary, [column, ..]) => {
                Err(Error::new(ErrorKind::Unsupported, "the column has no binary writer, and copy_format=binary was asked for")
                    .column(*column)
                    .hint("leave copy_format=auto"))
            }
            (Format::Binary, []) => Ok(true),
            (_, text_only) => Ok(text_only.is_empty() && !mapping.columns.arrays_from_json()),
        }
    }

    fn way(&self, control: &mut Session, found: Option<&Relation>, notes: &mut Vec<Note>) -> Result<Way> {
        let mode = self.options.mode.unwrap_or(Mode::Append);
        if matches!(mode, Mode::Keyed(_)) {
            return Ok(Way::Merge);
        }
        if self.options.key.is_some() {
            return Err(Error::new(ErrorKind::Config, "--key is given, and the mode has no use for it")
                .hint("--mode upsert, insert-ignore or delete-insert tell rows apart by a key"));
        }
        let Some(relation) = found else { return Ok(Way::Create) };
        if mode == Mode::Append {
            return Ok(Way::Append);
        }
        if !may_create(control, &relation.schema)? {
            return Err(Error::new(ErrorKind::Permission, format!("no right to create the staging table in schema {:?}", relation.schema))
                .object(relation.display())
                .hint("GRANT CREATE ON SCHEMA to this role, or empty the table yourself and use --mode append"));
        }
        if mode == Mode::Truncate && way::can_truncate(control, relation)? {
            return Ok(Way::Refill { truncate: true });
        }
        if mode == Mode::Replace {
            let obstacles = way::swap_obstacles(control, relation)?;
            if obstacles.is_empty() {
                notes.push(Note::new("nothing depends on the table: the new one takes its name by rename"));
                return Ok(Way::Swap);
            }
            notes.push(Note::new(format!("the table stays and its rows are replaced, because {}", obstacles.join(", "))));
        } else {
            notes.push(Note::new("the table is emptied by DELETE: foreign keys point to it, or this role may not TRUNCATE"));
        }
        way::check_delete(control, relation)?;
        Ok(Way::Refill { truncate: false })
    }

    /// What a new table gets beside its columns, and what becomes of the triggers of one that is there.
    fn surroundings(
        &self,
        control: &mut Session,
        (way, key): (Way, Option<&[String]>),
        located: &Located,
        incoming: &Incoming,
        notes: &mut Vec<Note>,
    ) -> Result<(Objects, Held)> {
        let options = &self.options;
        if let Some(relation) = &located.relation {
            if options.create && (objects::wanted(options) || options.table_options.0 || !options.table_options.1.is_empty()) {
                notes.push(Note::new("the table is there already: what --create is told to give a new one changes nothing"));
            }
            return Ok((Objects::default(), triggers::plan(control, relation, way, options, notes)?));
        }
        let columns: Vec<&str> = incoming.schema.fields().iter().map(|f| f.name().as_str()).collect();
        Ok((Objects::plan(control, options, incoming, located, &columns, key, notes)?, Held::default()))
    }

    fn notes(&self, mapping: &Mapping, incoming: &Incoming, binary: bool) -> Vec<Note> {
        let mut notes = self.target.notes.clone();
        if incoming.pass_through.is_some() {
            notes.push(Note::new("rows pass through as the source's server sends them"));
        } else if !binary {
            let columns = mapping.columns.text_only();
            notes.push(Note::new(match columns.as_slice() {
                [] => "COPY TEXT: the server parses the values (copy_format=text)".to_string(),
                columns => format!("COPY TEXT, because only the server can parse {}", columns.join(", ")),
            }));
        }
        notes
    }
}

fn may_create(control: &mut Session, schema: &str) -> Result<bool> {
    let row = control.row("SELECT pg_catalog.has_schema_privilege($1, 'CREATE')", &[Some(schema)])?;
    Ok(row.is_some_and(|row| row.flag(0)))
}

/// Columns that are filled from the source although a sequence stands behind them.
fn unmoved_sequences(control: &mut Session, located: &Located, mapping: &Mapping, notes: &mut Vec<Note>) -> Result<Vec<String>> {
    let Some(relation) = &located.relation else { return Ok(Vec::new()) };
    let columns = mapping::sequence_columns(control, relation, &mapping.targets)?;
    Ok(columns
        .into_iter()
        .map(|column| {
            let text = format!("the values of {column:?} come from the source: the sequence behind it is not moved");
            notes.push(Note::column(&column, text.clone()));
            text
        })
        .collect())
}

fn schema_for(control: &mut Session, name: &TableName) -> Result<String> {
    if name.name.len() > ddl::MAX_NAME {
        return Err(Error::new(
            ErrorKind::Schema,
            format!("the table name {:?} is {} bytes long, PostgreSQL keeps {}", name.name, name.name.len(), ddl::MAX_NAME),
        ));
    }
    let sql = "SELECT COALESCE($1, pg_catalog.current_schema()), pg_catalog.to_regnamespace(pg_catalog.quote_ident(COALESCE($1, pg_catalog.current_schema()))) IS NOT NULL";
    let row = control.row(sql, &[name.schema.as_deref()])?;
    let schema = row.as_ref().and_then(|row| row.get(0)).map(str::to_string);
    match (schema, row.is_some_and(|row| row.flag(1))) {
        (Some(schema), true) => Ok(schema),
        (schema, _) => Err(Error::new(ErrorKind::NotFound, format!("there is no schema {:?}", schema.unwrap_or_default()))
            .object(name.to_string())
            .hint("create it first: CREATE SCHEMA ...")),
    }
}

/// Finds the table; the inner error says that it is not there.
pub(super) fn look_up(session: &mut Session, name: &TableName) -> Result<Result<Relation>> {
    match discover::relation(session, name) {
        Ok(relation) => Ok(Ok(relation)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Err(error)),
        Err(error) => Err(error),
    }
}

fn missing_table(error: Error, name: &TableName) -> Error {
    let near = error.hint_text().filter(|h| h.starts_with("did you mean")).map(str::to_string);
    let error = Error::new(ErrorKind::NotFound, format!("there is no table {:?} to write to", name.to_string()));
    error.hint(match near {
        Some(near) => format!("{near}; --create makes a new one"),
        None => "--create makes it from the source's columns".into(),
    })
}

/// `/data/bench.csv.gz` and `public.orders` as table names.
fn default_name(source: &str) -> Option<TableName> {
    let file = source.rsplit(['/', '\\']).next()?;
    let known = ["csv", "tsv", "tab", "jsonl", "ndjson", "json", "parquet", "arrow", "arrows", "ipc", "feather", "gz", "zst", "lz4"];
    let mut stem = file;
    while let Some((rest, extension)) = stem.rsplit_once('.')
        && known.contains(&extension.to_ascii_lowercase().as_str())
    {
        stem = rest;
    }
    if stem.is_empty() || stem == "-" || stem == "query" || stem.contains(['*', '?']) || source == "standard input" {
        return None;
    }
    // A file's name is one name, dots and all; a table's is schema and name.
    if stem != source {
        return Some(TableName { schema: None, name: stem.to_string() });
    }
    match stem.split_once('.') {
        Some((schema, name)) => Some(TableName { schema: Some(schema.into()), name: name.into() }),
        None => Some(TableName { schema: None, name: stem.into() }),
    }
}

/// Refuses what COPY cannot write to.
fn check_relation(session: &mut Session, relation: &Relation) -> Result<()> {
    if !matches!(relation.kind, RelationKind::Table | RelationKind::Partitioned | RelationKind::Foreign) {
        return Err(Error::new(ErrorKind::Unsupported, format!("a {} cannot be copied into", relation.kind.word()))
            .object(relation.display())
            .hint("name the table behind it"));
    }
    let sql = "SELECT pg_catalog.has_any_column_privilege($1::pg_catalog.oid, 'INSERT')";
    if !session.row(sql, &[Some(&relation.oid.to_string())])?.is_some_and(|row| row.flag(0)) {
        return Err(Error::new(ErrorKind::Permission, "no right to insert into the table")
            .object(relation.display())
            .hint("GRANT INSERT to this role, or use another one"));
    }
    if relation.row_security {
        return Err(Error::new(ErrorKind::Permission, "the table has row-level security for this role, and COPY cannot obey it")
            .object(relation.display())
            .hint("use the owner, or a role with BYPASSRLS"));
    }
    Ok(())
}

fn has_rows(session: &mut Session, relation: &Relation) -> Result<bool> {
    let may = session.row("SELECT pg_catalog.has_table_privilege($1::pg_catalog.oid, 'SELECT')", &[Some(&relation.oid.to_string())])?;
    if !may.is_some_and(|row| row.flag(0)) {
        return Ok(false);
    }
    Ok(session.row(&format!("SELECT EXISTS (SELECT FROM {})", relation.sql()), &[])?.is_some_and(|row| row.flag(0)))
}

fn max_prepared(session: &mut Session) -> Result<usize> {
    let row = session.row("SELECT pg_catalog.current_setting('max_prepared_transactions')", &[])?;
    Ok(row.and_then(|row| row.parse(0)).unwrap_or(0))
}

/// CREATE TABLE with what the user wants of it.
pub(super) fn create_table(unlogged: bool, table: &str, columns: &str, options: &str) -> String {
    let (kind, space) = (if unlogged { "UNLOGGED " } else { "" }, if options.is_empty() { "" } else { " " });
    format!("CREATE {kind}TABLE {table} ({columns}){space}{options}")
}

/// The statement that makes the staging table.
fn staging_ddl(way: Way, staging: &str, table: &str, columns: Option<String>, options: &(bool, String)) -> Option<String> {
    match (way, columns) {
        (Way::Create, Some(columns)) => Some(create_table(options.0, staging, &columns, &options.1)),
        (Way::Swap, _) => Some(format!("CREATE TABLE {staging} (LIKE {table} INCLUDING ALL)")),
        // Refilling writes the rows once more, into the log too: once is enough.
        (Way::Refill { .. }, _) => Some(format!("CREATE UNLOGGED TABLE {staging} (LIKE {table} INCLUDING ALL)")),
        _ => None,
    }
}

fn shown_ddl(way: Way, create: Option<&str>, staging: &str, schema: &str, name: &str) -> Vec<String> {
    let table = qualified(schema, name);
    let mut ddl: Vec<String> = create.into_iter().map(str::to_string).collect();
    let rename = format!("ALTER TABLE {staging} RENAME TO {}", quote_ident(name));
    match way {
        Way::Append | Way::Merge => {}
        Way::Create => ddl.push(rename),
        Way::Swap => ddl.extend([format!("DROP TABLE {table}"), rename]),
        Way::Refill { truncate } => {
            let empty = if truncate { "TRUNCATE" } else { "DELETE FROM" };
            ddl.extend([
                format!("{empty} {table}"),
                format!("INSERT INTO {table} SELECT ... FROM {staging}"),
                format!("DROP TABLE {staging}"),
            ]);
        }
    }
    ddl
}

fn described(way: Way, staging: &str) -> String {
    match way {
        Way::Append | Way::Merge => "into the table, committed at the end".into(),
        Way::Create => format!("into {staging}, which gets its name at the end"),
        Way::Swap => format!("into {staging}, which replaces the table by rename at the end"),
        Way::Refill { truncate: true } => format!("into {staging}; at the end one transaction truncates the table and inserts from it"),
        Way::Refill { truncate: false } => format!("into {staging}; at the end one transaction deletes the old rows and inserts from it"),
    }
}

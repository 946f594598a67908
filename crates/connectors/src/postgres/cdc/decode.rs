//! Changes to Arrow columns. One pass over a chunk; text and JSON are views into it, and nothing is allocated per row.
//!
//! A change whose value is refused is taken back from the columns before it, told to `Rejects`, and left out.

use super::changes::{Head, Record, Records};
use super::events;
use super::pgoutput::{Tuples, Value, value};
use super::settings::Events;
use super::shape::Shape;
use super::source::Subject;
use super::texts::{Texts, printed};
use super::value::{JsonColumn, is_text, print_json, to_binary};
use crate::postgres::datetime::{self, EPOCH_MICROS};
use crate::postgres::decode_column::{Column, Refused};
use crate::postgres::target::Target;
use crate::postgres::types::{ColumnPlan, ReadAs, column_plan};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use haul_model::{Decoder, Emit, Error, ErrorKind, Form, OnLossy, Raw, Rejects, Result, Rows};
use std::collections::HashMap;
use std::sync::Arc;

/// How the changes of one shape become rows.
struct ShapePlan {
    shape: Arc<Shape>,
    /// For `_old` and `_row`.
    json: Vec<JsonColumn>,
    /// For columns of their own: for each value of a tuple, its column.
    places: Vec<usize>,
    /// The columns that the table had not when this change was made.
    missing: Vec<usize>,
}

/// A tuple that is walked over, and beside it the whole old row, if that is there.
struct Seen<'a> {
    tuple: &'a [u8],
    old: Option<&'a [u8]>,
    /// Only the replica identity is sent, and NULL stands for all else.
    key_only: bool,
}

impl<'a> Seen<'a> {
    /// The next value; where it is unchanged and the old row is there, that one's. `in_key`: the column belongs to the replica identity.
    #[inline]
    fn next(&mut self, in_key: bool) -> std::result::Result<Value<'a>, Refused> {
        let found = value(&mut self.tuple).ok_or(Refused::Malformed)?;
        let before = match &mut self.old {
            Some(old) => Some(value(old).ok_or(Refused::Malformed)?),
            None => None,
        };
        Ok(match (found, before) {
            (Value::Unchanged, Some(before)) => before,
            _ if self.key_only && !in_key => Value::Unchanged,
            _ => found,
        })
    }
}

/// The bytes that values are views of: the chunk, and behind it what was made of values that came as text.
struct Ground {
    chunk: Bytes,
    grown: Option<Vec<u8>>,
}

impl Ground {
    fn bytes(&self) -> &[u8] {
        self.grown.as_deref().unwrap_or(&self.chunk)
    }

    /// To append to it.
    fn grow(&mut self) -> &mut Vec<u8> {
        let chunk = &self.chunk;
        self.grown.get_or_insert_with(|| chunk.to_vec())
    }
}

/// Columns before the row's own.
#[derive(Default)]
struct Meta {
    op: Texts,
    lsn: Texts,
    seq: Vec<i64>,
    xid: Vec<Option<i64>>,
    at: Vec<Option<i64>>,
    at_text: Texts,
    table: Texts,
    old: Texts,
    /// `_absent` or `_row`.
    last: Texts,
}

/// Decodes chunks of changes. One per worker; keeps no state between chunks but plans of shapes.
pub(super) struct ChangesDecoder {
    subject: Arc<Subject>,
    form: Form,
    schema: SchemaRef,
    /// The row's own columns, and how they are read.
    columns: Vec<Column>,
    plans: Vec<ColumnPlan>,
    targets: Vec<Target>,
    shapes: HashMap<u32, Arc<ShapePlan>>,
    meta: Meta,
    lossy: u64,
}

impl ChangesDecoder {
    /// A decoder for a form.
    ///
    /// # Errors
    /// A type that cannot be carried in it.
    pub fn new(subject: Arc<Subject>, form: Form) -> Result<Self> {
        let schema = events::schema(&subject, form)?;
        let (mut plans, mut targets) = (Vec::new(), Vec::new());
        if subject.events == Events::Columns {
            for column in Subject::streamed(&subject.relations[0]) {
                let plan = column_plan(form, subject.options.on_lossy, &column)?;
                plans.push(ColumnPlan { field: plan.field.clone().with_nullable(true), ..plan });
                targets.push(Target::of(&column));
            }
        }
        let column = |p: &ColumnPlan| Column::new(&p.read, &p.field, subject.options.on_lossy, form == Form::Typed);
        let columns = plans.iter().map(column).collect();
        Ok(Self { subject, form, schema, columns, plans, targets, shapes: HashMap::new(), meta: Meta::default(), lossy: 0 })
    }

    fn plan(&mut self, id: u32) -> Result<Arc<ShapePlan>> {
        if let Some(plan) = self.shapes.get(&id) {
            return Ok(Arc::clone(plan));
        }
        let shape = self.subject.shapes.get(id).ok_or_else(|| Error::internal("a change of a shape that nobody knows"))?;
        let mut json = Vec::new();
        for column in &shape.columns {
            json.push(JsonColumn::new(column, column_plan(Form::Json, self.subject.options.on_lossy, column)?.read));
        }
        let (mut places, mut missing) = (Vec::new(), Vec::new());
        if self.subject.events == Events::Columns {
            places = self.places(&shape)?;
            missing = (0..self.plans.len()).filter(|i| !places.contains(i)).collect();
        }
        let plan = Arc::new(ShapePlan { shape, json, places, missing });
        self.shapes.insert(id, Arc::clone(&plan));
        Ok(plan)
    }

    /// Which of the planned columns the columns of a shape are.
    fn places(&self, shape: &Shape) -> Result<Vec<usize>> {
        let planned = Subject::streamed(&self.subject.relations[0]);
        let place = |column: &crate::postgres::catalog::PgColumn| {
            let altered = |what: String| {
                Error::new(ErrorKind::Schema, format!("the table was altered: {what}")).object(shape.display()).column(&column.name).hint(
                    "start the job again: it goes on from here with the table's new columns; or use --events json, whose rows may change",
                )
            };
            let Some(at) = planned.iter().position(|p| p.name == column.name) else {
                return Err(altered(format!(
                    "it has a column {} of type {} that the job was not planned with",
                    column.name, column.type_name
                )));
            };
            let (was, is) = (&planned[at], column);
            if was.base.oid != is.base.oid || was.elem_oid != is.elem_oid || was.base.typmod != is.base.typmod {
                return Err(altered(format!(
                    "the type of the column is {} here, and the job was planned with {}",
                    is.type_name, was.type_name
                )));
            }
            Ok(at)
        };
        shape.columns.iter().map(place).collect()
    }

    fn broken(&self, what: &str) -> Error {
        Error::new(ErrorKind::Protocol, format!("the stream of changes is broken: {what}"))
    }

    /// One pass over the chunk: the rows taken, and the records refused.
    fn pass(&mut self, ground: &mut Ground, careful: bool, left_out: &mut Vec<(u32, std::ops::Range<usize>, Error)>) -> Result<usize> {
        let (mut rows, mut record, mut head) = (0, 0u32, Head::default());
        let chunk = ground.chunk.clone();
        let base = chunk.as_ptr() as usize;
        for step in Records::new(&chunk) {
            let (op, id, tuples) = match step.map_err(|_| self.broken("a chunk is cut"))? {
                Record::Begin(begun) => {
                    head = begun;
                    self.meta.begin(&head, self.form);
                    continue;
                }
                Record::Commit { .. } | Record::Shape { .. } => continue,
                Record::Row { op, shape, tuples } => (op, shape, tuples),
                Record::Truncate { shape } => (b'T', shape, &[][..]),
            };
            let plan = self.plan(id)?;
            match self.change(&plan, op, tuples, ground, base, careful) {
                Ok(()) => {
                    self.meta.row(op, &head, &plan.shape);
                    rows += 1;
                }
                Err((column, refused)) => {
                    self.columns.iter_mut().for_each(|c| c.truncate(rows));
                    self.meta.old.truncate(rows);
                    self.meta.last.truncate(rows);
                    let at = tuples.as_ptr() as usize - base;
                    left_out.push((record, at..at + tuples.len(), self.value_error(&plan, column, refused, record)));
                }
            }
            head.next += 1;
            record += 1;
        }
        Ok(rows)
    }

    /// The row's own columns, `_old`, and what comes last.
    fn change(
        &mut self,
        plan: &ShapePlan,
        op: u8,
        tuples: &[u8],
        ground: &mut Ground,
        base: usize,
        careful: bool,
    ) -> std::result::Result<(), (usize, Refused)> {
        if op == b'T' {
            self.columns.iter_mut().for_each(Column::push_null);
            self.meta.old.push_null();
            self.meta.last.push_null();
            return Ok(());
        }
        let malformed = (0, Refused::Malformed);
        let tuples = Tuples::parse(tuples, plan.shape.columns.len()).ok_or(malformed)?;
        let old = tuples.old.map(|(kind, tuple)| Seen { tuple, old: None, key_only: kind == b'K' });
        let row = match (tuples.new, old) {
            (Some(tuple), None) => {
                self.meta.old.push_null();
                Seen { tuple, old: None, key_only: false }
            }
            (Some(tuple), Some(old)) => {
                let whole = (!old.key_only).then_some(old.tuple);
                self.print_row(plan, old, true)?;
                Seen { tuple, old: whole, key_only: false }
            }
            (None, Some(old)) => {
                self.meta.old.push_null();
                old
            }
            (None, None) => return Err(malformed),
        };
        match self.subject.events {
            Events::Json => self.print_row(plan, row, false),
            Events::Columns => self.fill(plan, row, ground, base, careful),
        }
    }

    /// One row into columns of its own, and the names of those that are absent.
    fn fill(
        &mut self,
        plan: &ShapePlan,
        mut row: Seen<'_>,
        ground: &mut Ground,
        base: usize,
        careful: bool,
    ) -> std::result::Result<(), (usize, Refused)> {
        let absent = self.meta.last.start();
        for (index, &place) in plan.places.iter().enumerate() {
            let found = row.next(plan.shape.key[index]).map_err(|refused| (index, refused))?;
            let column = &mut self.columns[place];
            let read = &self.plans[place].read;
            match found {
                Value::Unchanged => {
                    column.push_null();
                    self.meta.last.name(absent, &plan.json[index].key);
                }
                Value::Null => column.push_null(),
                Value::Text(text) if !is_text(read) => {
                    let grown = ground.grow();
                    let start = grown.len();
                    to_binary(read, &self.targets[place], text, grown).map_err(|refused| (index, refused))?;
                    let bytes = ground.bytes();
                    column.push(bytes, &bytes[start..], start, careful).map_err(|refused| (index, refused))?;
                }
                Value::Binary(_) if *read == ReadAs::ServerText => return Err((index, Refused::Malformed)),
                Value::Text(bytes) | Value::Binary(bytes) => {
                    let at = bytes.as_ptr() as usize - base;
                    column.push(ground.bytes(), bytes, at, careful).map_err(|refused| (index, refused))?;
                }
            }
        }
        for &place in &plan.missing {
            self.columns[place].push_null();
        }
        self.meta.last.end_list(absent);
        Ok(())
    }

    /// A row as a JSON object. What is absent is left out.
    fn print_row(&mut self, plan: &ShapePlan, mut row: Seen<'_>, is_old: bool) -> std::result::Result<(), (usize, Refused)> {
        let on_lossy = self.subject.options.on_lossy;
        let texts = if is_old { &mut self.meta.old } else { &mut self.meta.last };
        let start = texts.start();
        let (mut empty, mut scratch) = (true, Vec::new());
        texts.text.push(b'{');
        for (index, column) in plan.json.iter().enumerate() {
            let found = row.next(plan.shape.key[index]).map_err(|refused| (index, refused))?;
            if found == Value::Unchanged {
                continue;
            }
            if !std::mem::take(&mut empty) {
                texts.text.push(b',');
            }
            texts.text.extend_from_slice(&column.key);
            let bytes = match found {
                Value::Null | Value::Unchanged => {
                    texts.text.extend_from_slice(b"null");
                    continue;
                }
                Value::Text(text) if !is_text(&column.read) => {
                    scratch.clear();
                    to_binary(&column.read, &column.target, text, &mut scratch).map_err(|refused| (index, refused))?;
                    scratch.as_slice()
                }
                Value::Binary(_) if column.read == ReadAs::ServerText => return Err((index, Refused::Malformed)),
                Value::Text(bytes) | Value::Binary(bytes) => bytes,
            };
            let lossy = print_json(&column.read, bytes, &mut texts.text, on_lossy).map_err(|refused| (index, refused))?;
            self.lossy += u64::from(lossy);
        }
        texts.text.push(b'}');
        texts.end(start);
        Ok(())
    }

    fn value_error(&self, plan: &ShapePlan, column: usize, refused: Refused, record: u32) -> Error {
        let (name, of) = plan.shape.columns.get(column).map_or(("", ""), |c| (c.name.as_str(), c.type_name.as_str()));
        let error = match refused {
            Refused::Malformed => {
                Error::new(ErrorKind::Protocol, format!("the server sent a value that is not a form of {of} that is known"))
                    .hint("was the column added or altered a moment ago? Then start the job again: it goes on from here")
            }
            Refused::Utf8 => Error::new(ErrorKind::Data, "a text value is not UTF-8"),
            Refused::Lossy(what) => {
                Error::new(ErrorKind::Lossy, format!("a value of type {of} cannot be carried exactly: {what} does not fit"))
                    .hint("--on-lossy text carries the server's own text; null and clamp replace such values and count them")
            }
        };
        error.object(plan.shape.display()).column(name).row_in_chunk(u64::from(record))
    }

    fn forget(&mut self) {
        self.columns.iter_mut().for_each(|c| {
            c.truncate(0);
            c.lossy = 0;
        });
        self.meta = Meta::default();
        self.lossy = 0;
    }

    fn arrays(&mut self, ground: &Buffer) -> std::result::Result<Vec<ArrayRef>, Refused> {
        let mut arrays = self.meta.finish(self.form)?;
        for column in &mut self.columns {
            arrays.push(column.finish(ground)?);
        }
        Ok(arrays)
    }
}

impl Meta {
    /// What all changes of a transaction share is printed once.
    fn begin(&mut self, head: &Head, form: Form) {
        let start = self.lsn.start();
        let _ = std::io::Write::write_fmt(&mut self.lsn.text, format_args!("{}", head.commit));
        self.lsn.keep(start);
        if form != Form::Typed && head.xid != 0 {
            let start = self.at_text.start();
            datetime::print_timestamp(head.at, true, &mut self.at_text.text);
            self.at_text.keep(start);
        }
    }

    fn row(&mut self, op: u8, head: &Head, shape: &Shape) {
        self.op.push(match op {
            b'I' => b"insert",
            b'U' => b"update",
            b'D' => b"delete",
            b'T' => b"truncate",
            _ => b"read",
        });
        self.lsn.again();
        self.seq.push(head.next as i64);
        let stream = head.xid != 0;
        self.xid.push(stream.then_some(i64::from(head.xid)));
        self.at.push(stream.then(|| head.at.saturating_add(EPOCH_MICROS)));
        if stream {
            self.at_text.again()
        } else {
            self.at_text.push_null()
        }
        self.table.name_of(shape.id, &shape.schema, &shape.name);
    }

    fn finish(&mut self, form: Form) -> std::result::Result<Vec<ArrayRef>, Refused> {
        let meta = std::mem::take(self);
        let at: ArrayRef = match form {
            Form::Typed => Arc::new(TimestampMicrosecondArray::from(meta.at).with_timezone("UTC")),
            _ => printed(meta.at_text)?,
        };
        Ok(vec![
            printed(meta.op)?,
            printed(meta.lsn)?,
            Arc::new(Int64Array::from(meta.seq)),
            Arc::new(Int64Array::from(meta.xid)),
            at,
            printed(meta.table)?,
            printed(meta.old)?,
            printed(meta.last)?,
        ])
    }
}

impl Decoder for ChangesDecoder {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn decode(&mut self, raw: Raw, rejects: &mut dyn Rejects, emit: &mut Emit<'_>) -> Result<()> {
        let mut careful = false;
        let (rows, arrays, left_out) = loop {
            let mut ground = Ground { chunk: raw.bytes.clone(), grown: None };
            let mut left_out = Vec::new();
            let rows = match self.pass(&mut ground, careful, &mut left_out) {
                Ok(rows) => rows,
                Err(error) => {
                    self.forget();
                    return Err(error);
                }
            };
            let buffer = ground.grown.map_or_else(|| Buffer::from(ground.chunk), Buffer::from_vec);
            match self.arrays(&buffer) {
                Ok(arrays) => break (rows, arrays, left_out),
                // Text is checked column by column: read again with checks at each value.
                Err(Refused::Utf8) if !careful => {
                    self.forget();
                    careful = true;
                }
                Err(refused) => return Err(Error::internal(format!("a decoded column could not be built: {refused:?}"))),
            }
        };
        let mut records = Vec::with_capacity(left_out.len());
        for (record, at, error) in left_out {
            rejects.record(&raw.bytes[at], error)?;
            records.push(record);
        }
        for (column, plan) in self.columns.iter_mut().zip(&self.plans) {
            let lossy = std::mem::take(&mut column.lossy);
            if lossy > 0 && self.subject.options.on_lossy != OnLossy::Error {
                rejects.lossy(plan.field.name(), lossy);
            }
        }
        let lossy = std::mem::take(&mut self.lossy);
        if lossy > 0 {
            rejects.lossy(events::ROW, lossy);
        }
        if rows == 0 {
            return Ok(());
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays)
            .map_err(|e| Error::internal(format!("decoded columns do not make a batch: {e}")))?;
        let mut rows = Rows::new(batch, 0);
        if !records.is_empty() {
            let total = (rows.batch.num_rows() + records.len()) as u32;
            rows.selection = Some(Arc::new((0..total).filter(|r| records.binary_search(r).is_err()).collect()));
        }
        emit(rows, rejects)
    }
}

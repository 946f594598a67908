use crate::rows::{assert_same, assert_same_set, texts};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use haul_model::{Batch, Decoder, Form, Next, Payload, Position, Reader, Reading, Result, Rows, Source, Split, Strict};

/// What a source should give.
#[derive(Debug, Clone)]
pub struct ReadCase {
    /// The form to read in.
    pub form: Form,
    /// Every row, in source order.
    pub rows: Vec<RecordBatch>,
    /// Whether a reader can start after any position that another has given.
    pub resumes: bool,
    /// Degrees to read at.
    pub degrees: &'static [usize],
}

impl ReadCase {
    /// These rows, typed; resumes; at degrees 0, 1 and 4.
    pub fn new(rows: Vec<RecordBatch>) -> Self {
        Self { form: Form::Typed, rows, resumes: true, degrees: &[0, 1, 4] }
    }
}

/// Checks the contract of [`Source`], [`Reader`] and [`Decoder`]. `make` connects anew each time.
///
/// # Panics
/// At the first breach, saying which.
pub fn source(make: &dyn Fn() -> Result<Box<dyn Source>>, case: &ReadCase) {
    announced_schema(make, case);
    let expected = texts(&case.rows);
    for &degree in case.degrees {
        let mut source = make().unwrap();
        let splits = plan(source.as_mut(), case, degree);
        let read: Vec<Read> = splits.iter().map(|split| read(source.as_ref(), case, split, &Position::start())).collect();
        let rows: Vec<String> = read.iter().flat_map(|r| r.rows.clone()).collect();
        if splits.len() == 1 {
            assert_same(&format!("degree {degree}"), &rows, &expected);
        } else {
            assert_same_set(&format!("degree {degree}, {} splits", splits.len()), &rows, &expected);
        }
        if let Some(total) = splits.iter().map(|s| s.rows).sum::<Option<u64>>() {
            assert_eq!(total, expected.len() as u64, "the splits promise another number of rows");
        }
        if case.resumes {
            for (split, whole) in splits.iter().zip(&read) {
                resume(source.as_ref(), case, split, whole);
            }
        }
        source.finish().unwrap();
    }
    interleaved(make, case, &expected);
    abandoned(make, case);
    pass_through(make, case, expected.len() as u64);
}

/// The schema is the same whenever it is asked for, and the decoder's own.
fn announced_schema(make: &dyn Fn() -> Result<Box<dyn Source>>, case: &ReadCase) {
    let source = make().unwrap();
    assert!(!source.name().is_empty(), "a source has a name for messages");
    let schema = source.schema(case.form).unwrap();
    assert_eq!(schema, source.schema(case.form).unwrap(), "the schema changes from call to call");
    assert_eq!(schema, make().unwrap().schema(case.form).unwrap(), "the schema changes from connection to connection");
    assert_eq!(schema, source.decoder(case.form).unwrap().schema(), "the decoder announces another schema than its source");
}

fn plan(source: &mut dyn Source, case: &ReadCase, degree: usize) -> Vec<Split> {
    let plan = source.plan(&Reading { pass_through: None, form: case.form, degree, ordered: true }).unwrap();
    let ids: Vec<u32> = plan.splits.iter().map(|s| s.id).collect();
    assert_eq!(ids, (0..ids.len() as u32).collect::<Vec<_>>(), "splits are numbered densely from 0, in source order");
    assert!(!plan.method.is_empty(), "a read plan says how it reads");
    plan.splits
}

/// What reading a split has given.
struct Read {
    rows: Vec<String>,
    /// Where each batch ended, and the rows up to there.
    ends: Vec<(Position, usize)>,
}

fn read(source: &dyn Source, case: &ReadCase, split: &Split, from: &Position) -> Read {
    let mut reader = source.open(split, from).unwrap();
    let schema = source.schema(case.form).unwrap();
    // Two workers take turns: a decoder keeps nothing from one chunk to the next.
    let mut decoders = [source.decoder(case.form).unwrap(), source.decoder(case.form).unwrap()];
    let (mut at, mut out) = (from.clone(), Read { rows: Vec::new(), ends: Vec::new() });
    while let Some(batch) = next(reader.as_mut()) {
        at = chain(&batch, split, at);
        let turn = out.ends.len() % 2;
        out.rows.extend(texts(&decode(decoders[turn].as_mut(), batch, &schema)));
        out.ends.push((at.clone(), out.rows.len()));
    }
    for _ in 0..2 {
        assert!(next(reader.as_mut()).is_none(), "after the end, more records came");
    }
    out
}

/// The next batch of a bounded source.
fn next(reader: &mut dyn Reader) -> Option<Batch> {
    match reader.next().unwrap() {
        Next::Batch(batch) => Some(batch),
        Next::End => None,
        Next::Idle => panic!("a bounded source said that it had nothing for now"),
    }
}

/// Spans follow each other without gap or overlap, and move forward.
fn chain(batch: &Batch, split: &Split, mut at: Position) -> Position {
    assert!(!batch.spans.is_empty(), "a batch without a span");
    for span in &batch.spans {
        assert_eq!(span.split, split.id, "a span of another split");
        assert_eq!(span.from, at, "spans do not chain");
        assert!(span.to > span.from, "a span that does not move: {span:?}");
        at = span.to.clone();
    }
    at
}

fn decode(decoder: &mut dyn Decoder, batch: Batch, schema: &SchemaRef) -> Vec<RecordBatch> {
    let mut out = Vec::new();
    match batch.payload {
        Payload::Columns(columns) => out.push(columns),
        Payload::Raw(raw) => {
            let said = raw.records;
            let mut emit = |rows: Rows, _: &mut dyn haul_model::Rejects| {
                out.push(rows.batch);
                Ok(())
            };
            decoder.decode(raw, &mut Strict::default(), &mut emit).unwrap();
            let rows = out.iter().map(RecordBatch::num_rows).sum::<usize>() as u64;
            assert!(said.is_none_or(|said| said == rows), "a chunk said {said:?} records and had {rows}");
        }
    }
    for batch in &out {
        assert_eq!(batch.schema(), *schema, "a batch does not have the announced schema");
    }
    out
}

/// A reader that starts where a span ended gives exactly the rest. Looks at the first spans, the middle and the last.
fn resume(source: &dyn Source, case: &ReadCase, split: &Split, whole: &Read) {
    let last = whole.ends.len().saturating_sub(1);
    for (i, (position, rows)) in whole.ends.iter().enumerate() {
        if i < 3 || i == last || i == last / 2 {
            let rest = read(source, case, split, position);
            assert_same(&format!("split {} after {position:?}", split.id), &rest.rows, &whole.rows[*rows..]);
        }
    }
}

/// All splits open at once, a batch from each in turn: readers do not disturb each other.
fn interleaved(make: &dyn Fn() -> Result<Box<dyn Source>>, case: &ReadCase, expected: &[String]) {
    let mut source = make().unwrap();
    let splits = plan(source.as_mut(), case, 4);
    let schema = source.schema(case.form).unwrap();
    let mut decoder = source.decoder(case.form).unwrap();
    let mut open: Vec<_> = splits.iter().map(|split| source.open(split, &Position::start()).unwrap()).collect();
    let mut rows = Vec::new();
    while !open.is_empty() {
        open.retain_mut(|reader| match next(reader.as_mut()) {
            Some(batch) => {
                let spans = batch.spans.clone();
                rows.extend(texts(&decode(decoder.as_mut(), batch, &schema)));
                reader.ack(&spans).unwrap();
                true
            }
            None => false,
        });
    }
    assert_same_set("interleaved readers", &rows, expected);
    source.finish().unwrap();
}

/// A reader that is dropped in the middle leaves the source usable.
fn abandoned(make: &dyn Fn() -> Result<Box<dyn Source>>, case: &ReadCase) {
    let mut source = make().unwrap();
    for split in plan(source.as_mut(), case, 1) {
        let mut reader = source.open(&split, &Position::start()).unwrap();
        reader.next().unwrap();
    }
    drop(source);
    make().unwrap().schema(case.form).unwrap();
}

/// Every encoding on offer can be had, with records counted, unless the other side counts them.
fn pass_through(make: &dyn Fn() -> Result<Box<dyn Source>>, case: &ReadCase, expected: u64) {
    for encoding in make().unwrap().encodings() {
        let mut source = make().unwrap();
        let reading = Reading { pass_through: Some(encoding.clone()), form: case.form, degree: 0, ordered: true };
        let mut records = Some(0);
        for split in source.plan(&reading).unwrap().splits {
            let (mut reader, mut at) = (source.open(&split, &Position::start()).unwrap(), Position::start());
            while let Some(batch) = next(reader.as_mut()) {
                at = chain(&batch, &split, at);
                let Payload::Raw(raw) = batch.payload else { panic!("{encoding:?} was asked for and columns came") };
                records = records.zip(raw.records).map(|(all, these)| all + these);
            }
        }
        source.finish().unwrap();
        assert!(records.is_none_or(|records| records == expected), "{encoding:?}: {records:?} records of all chunks, not {expected}");
    }
}

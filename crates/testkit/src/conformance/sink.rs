use crate::rows::{assert_same, assert_same_set};
use arrow_array::RecordBatch;
use haul_model::{Block, Encoder, Guarantee, Incoming, Result, Rows, Sink, Strict, WritePlan};

/// A target that a test can look into. Each call to the maker gives a fresh one.
pub trait Target {
    /// A sink for this target, connected.
    ///
    /// # Errors
    /// The connector's.
    fn sink(&self) -> Result<Box<dyn Sink>>;
    /// What a reader of the target sees now, row by row as text; `None` when there is no target (no file, no table).
    fn rows(&self) -> Option<Vec<String>>;
}

/// Checks the contract of [`Sink`], its writers and encoders. `make` gives a fresh target; `batches` have one schema and at
/// least three rows in all; `expected` is what the target shows afterwards, on top of what it held.
///
/// # Panics
/// At the first breach, saying which.
pub fn sink(make: &dyn Fn() -> Box<dyn Target>, batches: &[RecordBatch], expected: &[String]) {
    let case = Case { make, batches, expected };
    case.planning_changes_nothing();
    case.all_rows_arrive();
    case.abort_takes_everything_back();
    case.writers_work_side_by_side();
    case.nothing_written_is_no_rows();
    case.blocks_do_not_depend_on_pushes();
}

struct Case<'a> {
    make: &'a dyn Fn() -> Box<dyn Target>,
    batches: &'a [RecordBatch],
    expected: &'a [String],
}

impl Case<'_> {
    fn plan(&self, sink: &mut dyn Sink) -> WritePlan {
        let schema = self.batches[0].schema();
        let plan = sink.plan(&Incoming::new("conformance", schema.clone())).unwrap();
        assert!(!plan.method.is_empty(), "a write plan says how it writes");
        assert_eq!(plan.columns.len(), schema.fields().len(), "a write plan maps every column");
        plan
    }

    /// Target, sink after `plan` and `begin`, what was there before, and the plan.
    fn begun(&self) -> (Box<dyn Target>, Box<dyn Sink>, Vec<String>, WritePlan) {
        let target = (self.make)();
        let before = target.rows().unwrap_or_default();
        let mut sink = target.sink().unwrap();
        let plan = self.plan(sink.as_mut());
        sink.begin().unwrap();
        (target, sink, before, plan)
    }

    fn check(&self, what: &str, plan: &WritePlan, target: &dyn Target, before: &[String]) {
        let expected = [before, self.expected].concat();
        let rows = target.rows().unwrap_or_else(|| panic!("{what}: there is no target after finish"));
        if plan.own_connections {
            assert_same_set(what, &rows, &expected);
        } else {
            assert_same(what, &rows, &expected);
        }
    }

    fn total(&self) -> u64 {
        self.batches.iter().map(RecordBatch::num_rows).sum::<usize>() as u64
    }

    fn planning_changes_nothing(&self) {
        let target = (self.make)();
        let before = target.rows();
        let mut sink = target.sink().unwrap();
        assert!(!sink.name().is_empty(), "a sink has a name for messages");
        self.plan(sink.as_mut());
        drop(sink);
        assert_eq!(target.rows(), before, "planning changed the target");
    }

    fn all_rows_arrive(&self) {
        let (target, mut sink, before, plan) = self.begun();
        let seen = target.rows();
        let mut encoder = sink.encoder().unwrap();
        assert!(encoder.take().unwrap().is_none(), "an encoder that was given nothing hands out a block");
        let mut writer = sink.open(0).unwrap();
        for block in blocks(encoder.as_mut(), self.batches) {
            write(writer.as_mut(), block);
        }
        assert!(writer.close().unwrap().is_empty(), "rows were refused");
        drop(writer);
        if plan.guarantee == Guarantee::AllOrNothing {
            assert_eq!(target.rows(), seen, "rows are visible before finish");
        }
        let finished = sink.finish().unwrap();
        assert_eq!(finished.rows, self.total(), "finish reports another number of rows than were written");
        self.check("one writer", &plan, target.as_ref(), &before);
    }

    fn abort_takes_everything_back(&self) {
        for written in [0, 1, self.batches.len()] {
            let (target, mut sink, before, plan) = self.begun();
            let mut encoder = sink.encoder().unwrap();
            let mut writer = sink.open(0).unwrap();
            for block in blocks(encoder.as_mut(), &self.batches[..written]) {
                write(writer.as_mut(), block);
            }
            drop(writer);
            let left = sink.abort();
            assert!(left.is_empty(), "abort left something behind: {left:?}");
            drop(sink);
            if plan.guarantee == Guarantee::AllOrNothing {
                assert_same("after abort", &target.rows().unwrap_or_default(), &before);
            }
            // The target is as good as new.
            let mut sink = target.sink().unwrap();
            self.plan(sink.as_mut());
        }
    }

    /// Places are taken in order; the bytes are then written last block first where the sink has places at all.
    fn writers_work_side_by_side(&self) {
        let (target, mut sink, before, plan) = self.begun();
        let count = plan.max_writers.unwrap_or(3).clamp(1, 3);
        let mut writers: Vec<_> = (0..count).map(|lane| sink.open(lane as u32).unwrap()).collect();
        let mut encoders: Vec<_> = (0..count).map(|_| sink.encoder().unwrap()).collect();
        let mut taken = Vec::new();
        for (i, batch) in self.batches.iter().enumerate() {
            for mut block in blocks(encoders[i % count].as_mut(), std::slice::from_ref(batch)) {
                let slot = writers[i % count].reserve(&mut block).unwrap();
                taken.push((i % count, slot, block));
            }
        }
        while let Some((lane, slot, mut block)) = taken.pop() {
            assert!(writers[lane].write(slot, &mut block).unwrap().is_empty(), "rows were refused");
        }
        for writer in &mut writers {
            assert!(writer.close().unwrap().is_empty(), "rows were refused");
        }
        drop(writers);
        assert_eq!(sink.finish().unwrap().rows, self.total(), "rows of {count} writers");
        self.check("several writers", &plan, target.as_ref(), &before);
    }

    fn nothing_written_is_no_rows(&self) {
        let (target, mut sink, before, _) = self.begun();
        let mut writer = sink.open(0).unwrap();
        writer.close().unwrap();
        drop(writer);
        assert_eq!(sink.finish().unwrap().rows, 0);
        assert_same("nothing written", &target.rows().unwrap_or_else(|| panic!("an empty target is a target")), &before);
    }

    fn blocks_do_not_depend_on_pushes(&self) {
        let (target, mut sink, before, plan) = self.begun();
        let mut encoder = sink.encoder().unwrap();
        let mut writer = sink.open(0).unwrap();
        let rows = self.batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| batch.slice(row, 1)));
        for (i, row) in rows.enumerate() {
            encoder.push(&Rows::new(row, i as u64), &mut Strict::default()).unwrap();
            if i % 3 == 2 {
                write(writer.as_mut(), encoder.take().unwrap().unwrap_or_else(|| panic!("rows were pushed and no block came")));
            }
        }
        if let Some(block) = encoder.take().unwrap() {
            write(writer.as_mut(), block);
        }
        assert!(writer.close().unwrap().is_empty(), "rows were refused");
        drop(writer);
        assert_eq!(sink.finish().unwrap().rows, self.total(), "rows pushed one by one");
        self.check("rows pushed one by one", &plan, target.as_ref(), &before);
    }
}

/// One block per batch that has rows.
fn blocks(encoder: &mut dyn Encoder, batches: &[RecordBatch]) -> Vec<Block> {
    let mut out = Vec::new();
    for batch in batches {
        encoder.push(&Rows::new(batch.clone(), 0), &mut Strict::default()).unwrap();
        let block = encoder.take().unwrap();
        assert_eq!(block.as_ref().map_or(0, |b| b.rows), batch.num_rows() as u64, "a block counts another number of rows");
        out.extend(block);
    }
    out
}

fn write(writer: &mut dyn haul_model::Writer, mut block: Block) {
    let slot = writer.reserve(&mut block).unwrap();
    assert!(writer.write(slot, &mut block).unwrap().is_empty(), "rows were refused");
}

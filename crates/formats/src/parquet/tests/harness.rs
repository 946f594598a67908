//! Files in memory, and a second reader and writer in Python.

use crate::{ContainerInput, Output, ReadAt, piece_token};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use bytes::Bytes;
use haul_model::{BlockBody, Error, ErrorKind, Raw, Result, Rows, Settings, Strict};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

/// A file in memory.
pub(crate) struct Memory(pub Bytes);

impl ReadAt for Memory {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let end = (offset as usize).checked_add(length).filter(|end| *end <= self.0.len());
        let end = end.ok_or_else(|| Error::new(ErrorKind::Io, format!("read past the end at byte {offset}")))?;
        Ok(self.0.slice(offset as usize..end))
    }
}

pub(crate) fn memory(file: &[u8]) -> Arc<dyn ReadAt> {
    Arc::new(Memory(Bytes::copy_from_slice(file)))
}

pub(crate) fn settings(spec: &crate::FormatSpec, pairs: &[(&str, &str)]) -> Settings {
    Settings::resolve(&[spec.read, spec.write], pairs.iter().copied(), spec.name).unwrap()
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes a file from pieces: each inner slice goes to an encoder of its own, all of them are encoded before the
/// first one is assembled, as parallel workers do.
pub(crate) fn write_pieces(output: &dyn Output, pieces: &[&[RecordBatch]]) -> Result<Vec<u8>> {
    let mut blocks = Vec::new();
    for piece in pieces.iter().rev() {
        let mut encoder = output.encoder()?;
        for batch in *piece {
            encoder.push(&Rows::new(batch.clone(), 0), &mut Strict::default())?;
        }
        blocks.extend(encoder.take()?);
        assert_eq!(encoder.pending(), 0);
        assert!(encoder.take()?.is_none());
    }
    let out = Shared::default();
    let mut assembler = output.assembler(Box::new(out.clone()))?.expect("a container");
    for block in blocks.into_iter().rev() {
        let BlockBody::Opaque(body) = block.body else { panic!("a container makes opaque blocks") };
        assert_eq!(assembler.add(body)?, block.rows);
    }
    assembler.finish()?;
    let file = out.0.lock().unwrap().clone();
    Ok(file)
}

/// All batches of a file, in order; each piece must have the rows that were announced.
pub(crate) fn read_batches(input: &dyn ContainerInput) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    for (piece, rows) in input.pieces().into_iter().enumerate() {
        let before = input.records_before(piece as u32).unwrap_or(0);
        let mut seen = before;
        let raw = Raw { bytes: piece_token(piece as u32), ..Raw::default() };
        input.decoder()?.decode(raw, &mut Strict::default(), &mut |rows, _| {
            assert_eq!(rows.first_record, seen);
            seen += rows.batch.num_rows() as u64;
            assert_eq!(rows.batch.schema(), input.schema());
            batches.push(rows.batch);
            Ok(())
        })?;
        assert_eq!(seen - before, rows);
    }
    Ok(batches)
}

/// All rows of a file in one batch.
pub(crate) fn read_all(input: &dyn ContainerInput) -> Result<RecordBatch> {
    let batches = read_batches(input)?;
    Ok(arrow_select::concat::concat_batches(&input.schema(), &batches).unwrap())
}

pub(crate) fn batch(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// A Python that has pyarrow: the one that `HAUL_TEST_PYTHON` names, which must, or `python3` if it does.
pub(crate) fn python() -> Option<PathBuf> {
    let named = std::env::var_os("HAUL_TEST_PYTHON").filter(|path| !path.is_empty()).map(PathBuf::from);
    let must = named.is_some();
    let path = named.unwrap_or_else(|| "python3".into());
    let has = Command::new(&path).args(["-c", "import pyarrow.parquet"]).output().is_ok_and(|out| out.status.success());
    assert!(has || !must, "{} has no pyarrow", path.display());
    if !has {
        eprintln!("skipped: no Python with pyarrow; set HAUL_TEST_PYTHON");
    }
    has.then_some(path)
}

/// Runs a script with pyarrow as `pa` and `pq`, the folder as working directory, and returns what it prints.
pub(crate) fn run_python(python: &Path, folder: &Path, script: &str) -> String {
    let prelude = "import pyarrow as pa, pyarrow.parquet as pq, datetime as dt, decimal\nfrom decimal import Decimal as D\n";
    let out = Command::new(python).arg("-c").arg(format!("{prelude}{script}")).current_dir(folder).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().trim().to_string()
}

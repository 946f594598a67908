//! One workbook with one sheet.

use super::cells::{Cell, Class, Column};
use super::{MAX_COLUMNS, MAX_ROWS};
use crate::{Assembler, Output};
use arrow_schema::SchemaRef;
use haul_model::{Block, BlockBody, Encoder, Encoding, Error, ErrorKind, Note, Rejects, Result, Rows, Settings};
use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};
use std::any::Any;
use std::io::Write;

/// Input that a worker takes at a time.
const RUN_BYTES: usize = 1 << 20;
/// Rows of a piece.
const PIECE_ROWS: usize = 8_192;

/// A workbook with known columns.
pub struct XlsxOutput {
    schema: SchemaRef,
    sheet: String,
    header: bool,
}

impl XlsxOutput {
    /// For `schema`, with the write settings of [`super::SPEC`].
    ///
    /// # Errors
    /// `Schema`: no columns, or too many. `Config`: a name that a sheet cannot have. `Unsupported`: a type without text.
    pub fn new(settings: &Settings, schema: SchemaRef) -> Result<Self> {
        let columns = schema.fields().len();
        if columns == 0 || columns > MAX_COLUMNS {
            return Err(Error::new(ErrorKind::Schema, format!("{columns} columns, and a sheet has from 1 to {MAX_COLUMNS}")));
        }
        for field in schema.fields() {
            crate::jsonl::check(field).map_err(|e| e.context("XLSX"))?;
        }
        let sheet = settings.text("sheet").unwrap_or("Sheet1").to_string();
        Worksheet::new().set_name(&sheet).map_err(|error| {
            let reason = error.to_string();
            Error::new(ErrorKind::Config, format!("a sheet cannot be called {sheet:?}: {reason}"))
                .hint("--sheet NAME: at most 31 characters, none of []:*?/\\")
        })?;
        Ok(Self { schema, sheet, header: settings.flag("header", true) })
    }
}

impl Output for XlsxOutput {
    fn encoding(&self) -> Option<Encoding> {
        None
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(CellEncoder { schema: self.schema.clone(), piece: Piece::default(), bytes: 0 }))
    }

    fn assembler(&self, out: Box<dyn Write + Send>) -> Result<Option<Box<dyn Assembler>>> {
        let mut workbook = Workbook::new();
        // Rows go into a temporary file and not into memory; texts stand in their cells.
        let sheet = workbook.add_worksheet_with_constant_memory().map_err(|e| from_xlsx("the sheet cannot be begun", e))?;
        let named = |sheet: &mut Worksheet| -> Result<(), XlsxError> {
            sheet.set_name(&self.sheet)?;
            if self.header {
                let bold = Format::new().set_bold();
                for (number, field) in (0..).zip(self.schema.fields()) {
                    sheet.write_string_with_format(0, number, field.name(), &bold)?;
                }
                sheet.set_freeze_panes(1, 0)?;
            }
            Ok(())
        };
        named(sheet).map_err(|e| from_xlsx("the header cannot be written", e))?;
        Ok(Some(Box::new(SheetAssembler {
            workbook,
            out,
            next: u32::from(self.header),
            columns: self.schema.fields().len(),
            day: Format::new().set_num_format("yyyy-mm-dd"),
            moment: Format::new().set_num_format("yyyy-mm-dd hh:mm:ss.000"),
        })))
    }

    fn run_bytes(&self) -> Option<usize> {
        Some(RUN_BYTES)
    }

    fn piece_rows(&self) -> Option<usize> {
        Some(PIECE_ROWS)
    }

    fn columns(&self) -> Vec<(String, String, Option<String>)> {
        let told = self.schema.fields().iter().map(|field| {
            let (name, note) = Class::of(field.data_type()).told(field);
            (field.name().clone(), name.to_string(), note)
        });
        told.collect()
    }

    fn notes(&self) -> Vec<Note> {
        let rows = MAX_ROWS - u32::from(self.header);
        vec![
            Note::new(format!("a sheet holds {rows} rows; a job with more of them fails, and --file-rows {rows} writes several files")),
            Note::new("NULL and empty text are both an empty cell").lossy(),
        ]
    }
}

/// Cells of some rows, row by row.
#[derive(Default)]
struct Piece {
    cells: Vec<Cell>,
    rows: u64,
}

/// Makes cells of rows.
struct CellEncoder {
    schema: SchemaRef,
    piece: Piece,
    bytes: usize,
}

impl Encoder for CellEncoder {
    fn push(&mut self, rows: &Rows, rejects: &mut dyn Rejects) -> Result<()> {
        let columns = rows.batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(array, field)| Column::new(array, field)).collect::<Result<Vec<_>>>()?;
        for row in 0..rows.batch.num_rows() {
            let start = self.piece.cells.len();
            let refused = columns.iter().enumerate().find_map(|(number, column)| match column.cell(row) {
                Ok(cell) => {
                    self.bytes += size_of::<Cell>() + if let Cell::Text(text) = &cell { text.len() } else { 0 };
                    self.piece.cells.push(cell);
                    None
                }
                Err(error) => Some((number, error)),
            });
            match refused {
                None => self.piece.rows += 1,
                Some((number, error)) => {
                    self.piece.cells.truncate(start);
                    rejects.row(rows, row, error.column(self.schema.field(number).name()))?;
                }
            }
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        self.bytes
    }

    fn take(&mut self) -> Result<Option<Block>> {
        self.bytes = 0;
        let piece = std::mem::take(&mut self.piece);
        let rows = piece.rows;
        Ok((rows > 0).then(|| Block { body: BlockBody::Opaque(Box::new(piece)), rows }))
    }
}

struct SheetAssembler {
    workbook: Workbook,
    out: Box<dyn Write + Send>,
    /// The row that comes next.
    next: u32,
    columns: usize,
    day: Format,
    moment: Format,
}

impl Assembler for SheetAssembler {
    fn add(&mut self, piece: Box<dyn Any + Send>) -> Result<u64> {
        let piece = piece.downcast::<Piece>().map_err(|_| Error::internal("a workbook got a piece of another format"))?;
        if u64::from(self.next) + piece.rows > u64::from(MAX_ROWS) {
            return Err(Error::new(ErrorKind::Limit, format!("more rows than a sheet holds ({MAX_ROWS}, the header's included)"))
                .hint("write several files (--file-rows 1000000, with {part} in the name), or CSV or Parquet"));
        }
        let sheet = self.workbook.worksheet_from_index(0).map_err(|e| from_xlsx("the sheet is gone", e))?;
        for row in piece.cells.chunks(self.columns) {
            for (number, cell) in (0..).zip(row) {
                write(sheet, (self.next, number), cell, (&self.day, &self.moment)).map_err(|e| from_xlsx("a row cannot be written", e))?;
            }
            self.next += 1;
        }
        Ok(piece.rows)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.workbook.save_to_writer(&mut self.out).map_err(|e| from_xlsx("the workbook cannot be written", e))?;
        self.out.flush().map_err(|e| from_io("the workbook cannot be written", e))
    }
}

fn write(sheet: &mut Worksheet, (row, column): (u32, u16), cell: &Cell, (day, moment): (&Format, &Format)) -> Result<(), XlsxError> {
    match cell {
        Cell::Empty => return Ok(()),
        Cell::Number(number) => sheet.write_number(row, column, *number)?,
        Cell::Flag(flag) => sheet.write_boolean(row, column, *flag)?,
        Cell::Day(number) => sheet.write_number_with_format(row, column, *number, day)?,
        Cell::Moment(number) => sheet.write_number_with_format(row, column, *number, moment)?,
        Cell::Text(text) => sheet.write_string(row, column, text.as_str())?,
    };
    Ok(())
}

/// An error of the library in Haul's words; errors of our own that travelled through it come out whole.
fn from_xlsx(what: &str, error: XlsxError) -> Error {
    match error {
        XlsxError::IoError(error) => from_io(what, error),
        error => Error::new(ErrorKind::Data, format!("{what}: {error}")),
    }
}

fn from_io(what: &str, error: std::io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) => Error::io("the workbook", what, error),
    }
}

//! XLSX (Office Open XML, ECMA-376), written a sheet at a time. Not read.
//!
//! Workers make cells of their rows; an assembler puts them into one worksheet in order and lets a library write the file. A cell holds
//! a number only if the number comes out of it again: Excel keeps 15 digits, so longer ones are written as text, and so are times
//! finer than a millisecond and days before March 1900, which Excel counts in its own way.

mod cells;
mod output;

pub use output::XlsxOutput;

use crate::FormatSpec;
use haul_model::{Kind, Setting};

/// Most rows of a sheet, the header's included.
pub const MAX_ROWS: u32 = 1_048_576;
/// Most columns of a sheet.
pub const MAX_COLUMNS: usize = 16_384;
/// Most UTF-16 units of a text.
pub const MAX_TEXT: usize = 32_767;

/// The reference of this format.
pub static SPEC: FormatSpec = FormatSpec {
    name: "xlsx",
    aliases: &["excel"],
    extensions: &["xlsx"],
    title: "Excel workbook (written, not read)",
    read: &[],
    write: WRITE,
    container: true,
};

const WRITE: &[Setting] = &[
    Setting::new("header", Kind::Bool, "true", "Write the names of the columns into the first row."),
    Setting::new("sheet", Kind::Text, "Sheet1", "Name of the worksheet: at most 31 characters, none of []:*?/\\."),
];

//! Columns to JSON Lines: keys are escaped once, each row is written cell by cell from typed column accessors.

use super::value::{NoJson, ValueWriter, check, key};
use crate::Output;
use arrow_schema::SchemaRef;
use haul_model::{Block, BlockBody, Encoder, Encoding, OnLossy, Rejects, Result, Rows, Settings, field_meta};
use std::sync::Arc;

/// JSON Lines, configured for writing columns: compact objects, keys in column order, LF after each.
///
/// A NULL is `null`, except in a column of JSON values: there `null` is a value, so a NULL leaves its key out.
pub struct JsonlOutput {
    schema: SchemaRef,
    keys: Arc<[Key]>,
    omit_nulls: bool,
    on_lossy: OnLossy,
}

impl JsonlOutput {
    /// For `schema`, with the settings of [`super::SPEC`].
    ///
    /// # Errors
    /// `Unsupported`: a column whose type has no form in JSON, named.
    pub fn new(settings: &Settings, schema: SchemaRef) -> Result<Self> {
        for field in schema.fields() {
            check(field)?;
        }
        let keys = schema.fields().iter().map(|f| Key::new(f.name())).collect();
        let omit_nulls = settings.choice("nulls").as_deref() == Some("omit");
        Ok(Self { schema, keys, omit_nulls, on_lossy: OnLossy::Error })
    }

    /// What becomes of NaN and infinity: `Text` writes them as strings, `Null` as `null`, both counted. There is nothing
    /// near them to clamp to in JSON, so `Clamp` is an error like `Error`.
    pub fn on_lossy(mut self, policy: OnLossy) -> Self {
        self.on_lossy = policy;
        self
    }
}

impl Output for JsonlOutput {
    fn encoding(&self) -> Option<Encoding> {
        Some(super::encoding())
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(JsonlEncoder {
            schema: self.schema.clone(),
            keys: self.keys.clone(),
            omit_nulls: self.omit_nulls,
            on_lossy: self.on_lossy,
            out: Vec::new(),
            rows: 0,
            spare: Vec::new(),
        }))
    }

    fn assembler(&self, _out: Box<dyn std::io::Write + Send>) -> Result<Option<Box<dyn crate::Assembler>>> {
        Ok(None)
    }

    /// Lines: LF never stands inside a record.
    fn count_records(&self, bytes: &[u8]) -> Option<u64> {
        // A blank line that came through untouched is no record; our own encoder writes none.
        let mut from = 0;
        let records = memchr::memchr_iter(b'\n', bytes).filter(|&end| {
            let line = &bytes[std::mem::replace(&mut from, end + 1)..end];
            line.first().is_some_and(|b| *b == b'{') || !line.iter().all(|b| b.is_ascii_whitespace())
        });
        Some(records.count() as u64)
    }

    fn columns(&self) -> Vec<(String, String, Option<String>)> {
        self.schema.fields().iter().map(|f| (f.name().clone(), json_type(f).to_string(), remark(f))).collect()
    }
}

fn json_type(field: &arrow_schema::Field) -> &'static str {
    use arrow_schema::DataType as T;
    match field.data_type() {
        _ if field_meta::is_json(field) => "any",
        T::Null => "null",
        T::Boolean => "boolean",
        t if t.is_integer() => "integer",
        t if t.is_numeric() => "number",
        T::List(_) | T::LargeList(_) | T::FixedSizeList(..) => "array",
        T::Struct(_) | T::Map(..) => "object",
        _ => "string",
    }
}

fn remark(field: &arrow_schema::Field) -> Option<String> {
    use arrow_schema::DataType as T;
    let text = match field.data_type() {
        _ if field_meta::is_json(field) => "as it is; NULL leaves the key out",
        T::Binary | T::LargeBinary | T::BinaryView => "hex, with \\x before it",
        T::FixedSizeBinary(_) if !field_meta::is_uuid(field) => "hex, with \\x before it",
        T::Float16 | T::Float32 | T::Float64 => "NaN and infinity have no form",
        T::Interval(_) | T::Duration(_) => "ISO 8601",
        _ => return None,
    };
    Some(text.to_string())
}

/// A column's `,"name":`.
struct Key {
    /// The text, padded: short keys are stored as two whole registers.
    padded: [u8; 32],
    text: Vec<u8>,
}

impl Key {
    fn new(name: &str) -> Self {
        let text = key(name);
        let mut padded = [0; 32];
        let short = text.len().min(32);
        padded[..short].copy_from_slice(&text[..short]);
        Self { padded, text }
    }

    #[inline(always)]
    fn push(&self, out: &mut Vec<u8>) {
        let length = self.text.len();
        if length <= 32 {
            let after = out.len() + length;
            out.extend_from_slice(&self.padded);
            out.truncate(after);
        } else {
            out.extend_from_slice(&self.text);
        }
    }
}

/// Writes rows as JSON Lines. Made by [`JsonlOutput::encoder`].
struct JsonlEncoder {
    schema: SchemaRef,
    keys: Arc<[Key]>,
    omit_nulls: bool,
    on_lossy: OnLossy,
    out: Vec<u8>,
    rows: u64,
    spare: Vec<Vec<u8>>,
}

impl Encoder for JsonlEncoder {
    fn push(&mut self, rows: &Rows, rejects: &mut dyn Rejects) -> Result<()> {
        let fields = self.schema.fields().iter();
        let columns = rows.batch.columns().iter().zip(fields);
        let columns = columns.map(|(array, field)| ValueWriter::new(array.as_ref(), field)).collect::<Result<Vec<_>>>()?;
        for row in 0..rows.batch.num_rows() {
            let start = self.out.len();
            match self.write_row(&columns, row, rejects) {
                Ok(()) => self.rows += 1,
                Err((column, value)) => {
                    self.out.truncate(start);
                    rejects.row(rows, row, value.error().column(self.schema.field(column).name()))?;
                }
            }
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        self.out.len()
    }

    fn take(&mut self) -> Result<Option<Block>> {
        if self.out.is_empty() {
            return Ok(None);
        }
        let next = self.spare.pop().unwrap_or_default();
        let body = BlockBody::Bytes(std::mem::replace(&mut self.out, next));
        Ok(Some(Block { body, rows: std::mem::take(&mut self.rows) }))
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < 2 {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

impl JsonlEncoder {
    /// Appends one row; on a value without a form, its column and what it is.
    #[inline]
    fn write_row(&mut self, columns: &[ValueWriter], row: usize, rejects: &mut dyn Rejects) -> Result<(), (usize, NoJson)> {
        let start = self.out.len();
        for (number, (column, key)) in columns.iter().zip(self.keys.iter()).enumerate() {
            let out = &mut self.out;
            if column.is_null(row) {
                if !self.omit_nulls && !column.omits_null() {
                    key.push(out);
                    out.extend_from_slice(b"null");
                }
                continue;
            }
            key.push(out);
            let value = out.len();
            if let Err(no_json) = column.write_valid(row, out) {
                replace(self.on_lossy, no_json, value, out).map_err(|e| (number, e))?;
                rejects.lossy(self.schema.field(number).name(), 1);
            }
        }
        // Every key begins with a comma; the first one's place is the brace's.
        match self.out.get_mut(start) {
            Some(comma) => *comma = b'{',
            None => self.out.push(b'{'),
        }
        self.out.extend_from_slice(b"}\n");
        Ok(())
    }
}

/// Puts what `policy` wants in place of a value without a form in JSON, from offset `value` on.
#[cold]
fn replace(policy: OnLossy, no_json: NoJson, value: usize, out: &mut Vec<u8>) -> Result<(), NoJson> {
    out.truncate(value);
    match policy {
        OnLossy::Error | OnLossy::Clamp => return Err(no_json),
        OnLossy::Text => out.extend_from_slice(format!("\"{}\"", no_json.text()).as_bytes()),
        OnLossy::Null => out.extend_from_slice(b"null"),
    }
    Ok(())
}

//! CSV, configured for writing.

use super::encoder::{CsvEncoder, Quoter};
use super::input::fingerprint;
use super::options::{Quoting, WriteOptions};
use crate::{Assembler, Output};
use arrow_schema::{DataType, Field, SchemaRef};
use haul_model::{Encoder, Encoding, Error, ErrorKind, Result, Settings, field_meta};
use std::sync::Arc;

/// CSV with known columns: a header, then records that the reader of this module, with the same settings, reads back equal.
pub struct CsvOutput {
    options: Arc<WriteOptions>,
    schema: SchemaRef,
    header: Vec<u8>,
}

impl CsvOutput {
    /// For `schema`, with the write settings of [`super::SPEC`].
    ///
    /// # Errors
    /// `Config`: settings under which the file could not be read back. `Unsupported`: a column whose type has no text form.
    /// `Schema`: no columns at all.
    pub fn new(settings: &Settings, schema: SchemaRef) -> Result<Self> {
        let options = WriteOptions::parse(settings)?;
        flattens(settings.text("csv"))?;
        if schema.fields().is_empty() {
            return Err(Error::new(ErrorKind::Schema, "a CSV file needs at least one column"));
        }
        for field in schema.fields() {
            crate::jsonl::check(field).map_err(|e| e.context("CSV"))?;
        }
        let header = header(&options, &schema)?;
        Ok(Self { options: Arc::new(options), schema, header })
    }
}

/// Whether `csv={"nested":"flatten"}` asks for objects to be spread over several columns. That happens before the rows get here.
///
/// # Errors
/// `Config`: any other content than a choice for `nested`.
pub fn flattens(setting: Option<&str>) -> Result<bool> {
    let compact: String = setting.unwrap_or("{}").chars().filter(|c| !c.is_whitespace()).collect();
    match compact.as_str() {
        "{}" | r#"{"nested":"json"}"# => Ok(false),
        r#"{"nested":"flatten"}"# => Ok(true),
        _ => Err(Error::new(ErrorKind::Config, format!("setting \"csv\" cannot be {:?}", setting.unwrap_or_default()))
            .hint(r#"write {"nested":"json"} or {"nested":"flatten"}"#)),
    }
}

fn header(options: &WriteOptions, schema: &SchemaRef) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    if options.bom {
        out.extend_from_slice(b"\xef\xbb\xbf");
    }
    if !options.header {
        return Ok(out);
    }
    let quoter = Quoter::new(options);
    for (i, field) in schema.fields().iter().enumerate() {
        if i > 0 {
            out.push(options.dialect.delimiter);
        }
        quoter.push(field.name().as_bytes(), i == 0, &mut out).map_err(|e| e.context("header").column(field.name()))?;
    }
    out.extend_from_slice(options.terminator());
    Ok(out)
}

impl Output for CsvOutput {
    fn prolog(&self) -> Vec<u8> {
        self.header.clone()
    }

    fn encoding(&self) -> Option<Encoding> {
        let options = &self.options;
        // Bytes of another file are quoted as that file likes it.
        if options.quoting != Quoting::Minimal || options.dialect.comment.is_some() {
            return None;
        }
        let nulls: &[Vec<u8>] = if options.null.is_empty() { &[] } else { std::slice::from_ref(&options.null) };
        let terminator = if options.crlf { "crlf" } else { "lf" };
        let names = self.schema.fields().iter().map(|f| f.name().as_str());
        Some(Encoding { format: "csv", detail: fingerprint(&options.dialect, terminator, nulls, false, names) })
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(CsvEncoder::new(self.options.clone(), self.schema.clone())))
    }

    fn assembler(&self, _out: Box<dyn std::io::Write + Send>) -> Result<Option<Box<dyn Assembler>>> {
        Ok(None)
    }

    fn columns(&self) -> Vec<(String, String, Option<String>)> {
        self.schema.fields().iter().map(|f| (f.name().clone(), "text".to_string(), remark(f).map(str::to_string))).collect()
    }
}

fn remark(field: &Field) -> Option<&'static str> {
    Some(match field.data_type() {
        _ if field_meta::is_json(field) => "JSON text as it is",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "hex, with \\x before it",
        DataType::FixedSizeBinary(_) if !field_meta::is_uuid(field) => "hex, with \\x before it",
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Struct(_) | DataType::Map(..) => "JSON text",
        DataType::Interval(_) | DataType::Duration(_) => "ISO 8601",
        _ => return None,
    })
}

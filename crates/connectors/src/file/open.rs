//! Setting a file up for reading: compression, encoding, and the columns that its beginning (or its end) tells.

use super::config;
use super::input::ByteStream;
use super::shape::Wanted;
use super::stored::Stored;
use arrow_schema::SchemaRef;
use haul_formats::arrow_ipc::ArrowInput;
use haul_formats::compression::Compression;
use haul_formats::csv::{CsvInput, TextEncoding, Transcoder, detect_encoding};
use haul_formats::jsonl::JsonlInput;
use haul_formats::parquet::ParquetInput;
use haul_formats::{ContainerInput, FormatSpec, RecordInput};
use haul_model::{Error, ErrorKind, Result, Settings};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes looked at to find header, dialect and types.
const SAMPLE: usize = 1 << 20;

/// One input with its format set up.
pub struct FileInput {
    /// Its name, for messages.
    pub label: Arc<str>,
    /// Where its bytes are; `None` for a pipe that waits in `body`, and for a file without a byte.
    pub stored: Option<Arc<dyn Stored>>,
    /// Bytes of records, where nothing hides them.
    pub bytes: Option<u64>,
    /// How they are compressed.
    pub compression: Compression,
    /// Its format.
    pub body: Body,
}

/// A configured format.
#[derive(Clone)]
pub enum Body {
    /// A stream of records.
    Records(Arc<Records>),
    /// Pieces.
    Container(Arc<dyn ContainerInput>),
}

/// A stream of records, set up.
pub struct Records {
    /// The format.
    pub input: Arc<dyn RecordInput>,
    /// What the bytes have to be turned into UTF-8 from.
    pub encoding: Option<TextEncoding>,
    /// Length of a byte order mark.
    pub bom: usize,
    /// A pipe can be opened once: it waits here, sample put back.
    pub pipe: Mutex<Option<ByteStream>>,
}

impl Body {
    /// What its decoder emits.
    pub fn schema(&self) -> SchemaRef {
        match self {
            Self::Records(records) => records.input.schema(),
            Self::Container(container) => container.schema(),
        }
    }
}

/// Opens a file. `columns` are those of the files before it, where these have to be the same; `None` for a file without a byte.
///
/// # Errors
/// IO, or a beginning that cannot be read.
pub fn open_file(
    stored: &Arc<dyn Stored>,
    format: &FormatSpec,
    settings: &Settings,
    columns: Option<&SchemaRef>,
    wanted: &Wanted,
) -> Result<Option<FileInput>> {
    let label: Arc<str> = stored.label().into();
    if format.container {
        let container = open_container(stored, format, settings, wanted, &label)?;
        let (bytes, stored) = (stored.bytes(), Some(stored.clone()));
        return Ok(Some(FileInput { label, stored, bytes, compression: Compression::None, body: Body::Container(container) }));
    }
    let bytes = stored.bytes();
    let (mut stream, compression) = inflate(stored.stream()?, &label, settings).map_err(|e| e.object(label.as_ref()))?;
    let found = records(&label, &mut stream, format, settings, columns).map_err(|e| e.object(label.as_ref()))?;
    let Some((body, sample)) = found else { return Ok(None) };
    // A FIFO or device can be read only once.
    if bytes.is_none()
        && let Body::Records(records) = &body
    {
        stream.push_back(sample);
        *records.pipe.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    }
    let bytes = bytes.filter(|_| compression == Compression::None);
    Ok(Some(FileInput { label, stored: Some(stored.clone()), bytes, compression, body }))
}

/// Opens a container with those of the wanted columns that it has.
fn open_container(
    stored: &Arc<dyn Stored>,
    format: &FormatSpec,
    settings: &Settings,
    wanted: &Wanted,
    label: &str,
) -> Result<Arc<dyn ContainerInput>> {
    let at = stored.at()?;
    let open = |settings: &Settings| -> Result<Arc<dyn ContainerInput>> {
        Ok(match format.name {
            "parquet" => Arc::new(ParquetInput::open(at.clone(), settings, label)?),
            "xlsx" => {
                return Err(Error::new(ErrorKind::Unsupported, "Excel workbooks are written, and not read")
                    .object(label)
                    .hint("save the sheet as CSV, and read that"));
            }
            _ => Arc::new(ArrowInput::open(at.clone(), settings, label)?),
        })
    };
    let Some(columns) = &wanted.columns else { return open(settings) };
    // Some of them this file may lack (a union), others are no file's at all (`_file`).
    let mut settings = settings.clone();
    settings.remove("columns");
    let schema = open(&settings)?.schema();
    let has: Vec<&str> = columns.iter().map(String::as_str).filter(|name| schema.index_of(name).is_ok()).collect();
    if !has.is_empty() {
        settings.set("columns", quoted_list(has.into_iter()));
    }
    open(&settings)
}

/// Starts inflating where the setting, the name or the first bytes say so.
///
/// # Errors
/// IO; a codec that cannot be started.
pub fn inflate(mut stream: ByteStream, label: &str, settings: &Settings) -> Result<(ByteStream, Compression)> {
    let mut magic = Vec::with_capacity(64);
    while magic.len() < 8 && stream.read_into(&mut magic)? > 0 {}
    let compression = Compression::for_reading(settings, label, &magic);
    stream.push_back(magic);
    Ok((if compression == Compression::None { stream } else { stream.decompress(compression, label)? }, compression))
}

/// Sets the format up from a sample; `None` for an input without a single byte. Gives the raw sample back.
///
/// # Errors
/// IO, or a beginning that cannot be read.
pub fn records(
    label: &str,
    stream: &mut ByteStream,
    format: &FormatSpec,
    settings: &Settings,
    columns: Option<&SchemaRef>,
) -> Result<Option<(Body, Vec<u8>)>> {
    let mut raw = Vec::with_capacity(SAMPLE);
    let mut complete = false;
    let is_csv = matches!(format.name, "csv" | "tsv");
    let max_row = config::max_row_bytes(settings);
    let mut has_line = false;
    // The first line of JSON belongs to the sample, however long it may be.
    while raw.len() < SAMPLE || !is_csv && !has_line && raw.len() as u64 <= max_row {
        let seen = raw.len();
        if seen == raw.capacity() {
            // Doubled, but not far past the longest record allowed.
            raw.reserve_exact(seen.min((max_row as usize).saturating_add(SAMPLE).saturating_sub(seen)).max(1));
        }
        if stream.read_into(&mut raw)? == 0 {
            complete = true;
            break;
        }
        has_line = has_line || raw[seen..].contains(&b'\n');
        if !stream.fills_whole_chunks() && has_line && raw.len() > 64 << 10 {
            break;
        }
    }
    if !is_csv && !has_line && !complete {
        return Err(super::reader::too_long(max_row, label, 1, 0));
    }
    let blank = raw.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&raw).iter().all(|b| b"\r\n".contains(b));
    if raw.is_empty() && !is_csv || blank && complete && columns.is_some() {
        return Ok(None);
    }
    let (encoding, bom) = if is_csv { foreign_encoding(&raw, settings)? } else { (None, 0) };
    let mut decoded = Vec::new();
    let sample: &[u8] = match encoding {
        None => &raw,
        Some(encoding) => {
            Transcoder::new(encoding).push(&raw[bom..], complete, &mut decoded)?;
            &decoded
        }
    };
    let input: Arc<dyn RecordInput> = if is_csv {
        Arc::new(detect_csv(&config::dialect(format, settings), sample, complete, label, columns)?)
    } else {
        let input = JsonlInput::detect(settings, sample, complete, label)?;
        match columns {
            Some(columns) => Arc::new(input.with_schema(columns)?),
            None => Arc::new(input),
        }
    };
    if is_csv && input.schema().fields().is_empty() {
        return Ok(None);
    }
    Ok(Some((Body::Records(Arc::new(Records { input, encoding, bom, pipe: Mutex::new(None) })), raw)))
}

/// A later file gives the first one's columns in their order, if it has the same names; else its own, for the difference to be told.
fn detect_csv(settings: &Settings, sample: &[u8], complete: bool, label: &str, columns: Option<&SchemaRef>) -> Result<CsvInput> {
    let input = CsvInput::detect(settings, sample, complete, label);
    let Some(columns) = columns else { return input };
    let mut settings = settings.clone();
    if !settings.has("columns") {
        let own = input?;
        let (mut here, mut first) = (names(&own.schema()), names(columns));
        here.sort_unstable();
        first.sort_unstable();
        if here != first {
            return Ok(own);
        }
    }
    settings.set("columns", quoted_list(columns.fields().iter().map(|f| f.name().as_str())));
    CsvInput::detect(&settings, sample, complete, label)
}

fn names(schema: &SchemaRef) -> Vec<String> {
    schema.fields().iter().map(|f| f.name().clone()).collect()
}

/// An input without a byte: no rows, where the format has no header that would be missing.
///
/// # Errors
/// The format's own.
pub fn without_rows(format: &FormatSpec, settings: &Settings, label: &str) -> Result<Option<Body>> {
    let input: Arc<dyn RecordInput> = match format.name {
        "jsonl" => Arc::new(JsonlInput::detect(settings, b"", true, label)?),
        _ => return Ok(None),
    };
    let nothing = ByteStream::pipe(Box::new(std::io::empty()));
    Ok(Some(Body::Records(Arc::new(Records { input, encoding: None, bom: 0, pipe: Mutex::new(Some(nothing)) }))))
}

/// The encoding to turn into UTF-8, and the length of its BOM; `None` for UTF-8, whose BOM the format itself skips.
fn foreign_encoding(raw: &[u8], settings: &Settings) -> Result<(Option<TextEncoding>, usize)> {
    Ok(match detect_encoding(raw, settings.text("encoding"))? {
        (TextEncoding::Utf8, _) => (None, 0),
        (encoding, bom) => (Some(encoding), bom),
    })
}

/// Names as a list setting takes them.
pub fn quoted_list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect::<Vec<_>>().join(",")
}

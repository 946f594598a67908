//! Files as a source: one split per file, its schema known from the first bytes.

use super::config;
use super::input::{ByteStream, FileAt};
use super::reader::{PieceReader, RecordReader};
use arrow_schema::SchemaRef;
use haul_formats::compression::Compression;
use haul_formats::csv::{CsvInput, TextEncoding, Transcoder, detect_encoding};
use haul_formats::jsonl::JsonlInput;
use haul_formats::{ContainerInput, FormatSpec, RecordInput};
use haul_model::{
    Decoder, Emit, Encoding, Error, ErrorKind, Estimate, Form, Note, Position, Raw, ReadPlan, Reader, Reading, Rejects, Result, Settings,
    Source, Split,
};
use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes looked at to find header, dialect and types.
const SAMPLE: usize = 1 << 20;

/// One or several files of one format, or a pipe.
pub struct FileSource {
    files: Vec<FileInput>,
    name: String,
    max_row: u64,
    notes: Vec<Note>,
}

/// One input with its format set up.
struct FileInput {
    label: Arc<str>,
    path: Option<PathBuf>,
    bytes: Option<u64>,
    compression: Compression,
    body: Body,
}

#[derive(Clone)]
enum Body {
    Records(Arc<Records>),
    Container(Arc<dyn ContainerInput>),
}

struct Records {
    input: Arc<dyn RecordInput>,
    encoding: Option<TextEncoding>,
    bom: usize,
    /// A pipe can be opened once: it waits here, sample put back.
    pipe: Mutex<Option<ByteStream>>,
}

impl FileSource {
    /// Opens files (all of the format of the first) and looks at their beginnings.
    ///
    /// # Errors
    /// IO, an unreadable beginning, or files whose columns differ.
    pub fn files(paths: Vec<PathBuf>, given: &str, settings: &Settings) -> Result<Self> {
        let choose = |path: &PathBuf| config::choose(&path.to_string_lossy(), settings.text("format"));
        let first = paths.first().ok_or_else(|| Error::new(ErrorKind::NotFound, "no input file").object(given))?;
        let format = choose(first)?;
        let mut source = Self { files: Vec::new(), name: given.to_string(), max_row: config::max_row_bytes(settings), notes: Vec::new() };
        for path in &paths {
            let this = choose(path)?;
            if this.name != format.name {
                return Err(Error::new(ErrorKind::Config, format!("is {}, but {} is {}", this.name, first.display(), format.name))
                    .object(path.display().to_string())
                    .hint("copy one format at a time, or name it with ?format="));
            }
            let columns = source.files.first().map(|f| f.body.schema());
            match open_file(path, format, settings, columns.as_ref())? {
                Some(input) => source.files.push(input),
                None => source.notes.push(Note::new(format!("{} is empty: 0 rows", path.display()))),
            }
        }
        if source.files.is_empty() {
            let label: Arc<str> = first.display().to_string().into();
            let body = without_rows(format, settings, &label)?.ok_or_else(|| {
                Error::new(ErrorKind::Data, "the file is empty, so its columns are unknown")
                    .object(given)
                    .hint("an empty CSV still has its header line; --header id,name gives the names of a file without one")
            })?;
            source.files.push(FileInput { label, path: None, bytes: Some(0), compression: Compression::None, body });
        }
        Ok(source)
    }

    /// Reads a pipe.
    ///
    /// # Errors
    /// As [`FileSource::files`]; containers cannot be read from a pipe.
    pub fn pipe(stream: Box<dyn Read + Send>, settings: &Settings) -> Result<Self> {
        let format = config::choose("-", settings.text("format"))?;
        if format.container {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("{} is read from its end, so it cannot come through a pipe", format.name),
            )
            .hint("write it to a file first"));
        }
        let stream = ByteStream::pipe(stream);
        let (mut stream, compression) = inflate(stream, "-", settings)?;
        let (body, sample) = match records("-", &mut stream, format, settings, None)? {
            Some(found) => found,
            None => match without_rows(format, settings, "-")? {
                Some(body) => (body, Vec::new()),
                None => {
                    return Err(Error::new(ErrorKind::Data, "standard input is empty, so its columns are unknown")
                        .hint("an empty CSV still has its header line"));
                }
            },
        };
        stream.push_back(sample);
        if let Body::Records(records) = &body {
            *records.pipe.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
        }
        let input = FileInput { label: "-".into(), path: None, bytes: None, compression, body };
        Ok(Self { files: vec![input], name: "standard input".into(), max_row: config::max_row_bytes(settings), notes: Vec::new() })
    }
}

impl Body {
    fn schema(&self) -> SchemaRef {
        match self {
            Self::Records(records) => records.input.schema(),
            Self::Container(container) => container.schema(),
        }
    }
}

fn open_file(path: &PathBuf, format: &FormatSpec, settings: &Settings, columns: Option<&SchemaRef>) -> Result<Option<FileInput>> {
    let label: Arc<str> = path.display().to_string().into();
    if format.container {
        let file = FileAt::open(path)?;
        let bytes = haul_formats::ReadAt::len(&file);
        let container: Arc<dyn ContainerInput> = match format.name {
            "parquet" => Arc::new(haul_formats::parquet::ParquetInput::open(Arc::new(file), settings, &label)?),
            _ => Arc::new(haul_formats::arrow_ipc::ArrowInput::open(Arc::new(file), settings, &label)?),
        };
        if let Some(columns) = columns {
            same_columns(columns, &container.schema(), &label)?;
        }
        return Ok(Some(FileInput {
            label,
            path: Some(path.clone()),
            bytes: Some(bytes),
            compression: Compression::None,
            body: Body::Container(container),
        }));
    }
    let stream = ByteStream::file(path)?;
    let bytes = std::fs::metadata(path).ok().filter(|m| m.is_file()).map(|m| m.len());
    let (mut stream, compression) = inflate(stream, &label, settings).map_err(|e| e.object(label.as_ref()))?;
    let found = records(&label, &mut stream, format, settings, columns).map_err(|e| e.object(label.as_ref()))?;
    let Some((body, sample)) = found else { return Ok(None) };
    // A FIFO or device can be read only once.
    if bytes.is_none()
        && let Body::Records(records) = &body
    {
        stream.push_back(sample);
        *records.pipe.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    }
    Ok(Some(FileInput { label, path: Some(path.clone()), bytes: bytes.filter(|_| compression == Compression::None), compression, body }))
}

/// Starts inflating where the setting, the name or the first bytes say so.
fn inflate(mut stream: ByteStream, label: &str, settings: &Settings) -> Result<(ByteStream, Compression)> {
    let mut magic = Vec::with_capacity(64);
    while magic.len() < 8 && stream.read_into(&mut magic)? > 0 {}
    let compression = Compression::for_reading(settings, label, &magic);
    stream.push_back(magic);
    Ok((if compression == Compression::None { stream } else { stream.decompress(compression, label)? }, compression))
}

/// Sets the format up from a sample; `None` for an input without a single byte. Gives the raw sample back.
fn records(
    label: &str,
    stream: &mut ByteStream,
    format: &FormatSpec,
    settings: &Settings,
    columns: Option<&SchemaRef>,
) -> Result<Option<(Body, Vec<u8>)>> {
    let mut raw = Vec::with_capacity(SAMPLE);
    let mut complete = false;
    while raw.len() < SAMPLE {
        if stream.read_into(&mut raw)? == 0 {
            complete = true;
            break;
        }
        if !stream.fills_whole_chunks() && raw.contains(&b'\n') && raw.len() > 64 << 10 {
            break;
        }
    }
    let is_csv = matches!(format.name, "csv" | "tsv");
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
        let mut settings = config::dialect(format, settings);
        let input = CsvInput::detect(&settings, sample, complete, label);
        match columns {
            None => Arc::new(input?),
            Some(columns) => {
                // Later files give the first file's columns, by name; a column that only they have is not dropped in silence.
                if !settings.has("columns") {
                    same_names(columns, &input?.schema(), label)?;
                }
                settings.set("columns", quoted_list(columns));
                Arc::new(CsvInput::detect(&settings, sample, complete, label)?)
            }
        }
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
    if let Some(columns) = columns {
        same_columns(columns, &input.schema(), label)?;
    }
    Ok(Some((Body::Records(Arc::new(Records { input, encoding, bom, pipe: Mutex::new(None) })), raw)))
}

/// An input without a byte: no rows, where the format has no header that would be missing.
fn without_rows(format: &FormatSpec, settings: &Settings, label: &str) -> Result<Option<Body>> {
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

fn quoted_list(schema: &SchemaRef) -> String {
    schema.fields().iter().map(|f| format!("\"{}\"", f.name().replace('"', "\"\""))).collect::<Vec<_>>().join(",")
}

/// Files that are read by name must have the same names, in any order.
fn same_names(first: &SchemaRef, here: &SchemaRef, label: &str) -> Result<()> {
    let names = |s: &SchemaRef| s.fields().iter().map(|f| f.name().clone()).collect::<BTreeSet<_>>();
    if names(first) == names(here) { Ok(()) } else { Err(other_columns(first, here, label)) }
}

/// Files that are read by position must have the same columns.
fn same_columns(first: &SchemaRef, here: &SchemaRef, label: &str) -> Result<()> {
    let names = |s: &SchemaRef| s.fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect::<Vec<_>>();
    if names(first) == names(here) { Ok(()) } else { Err(other_columns(first, here, label)) }
}

fn other_columns(first: &SchemaRef, here: &SchemaRef, label: &str) -> Error {
    let list = |s: &SchemaRef| s.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", ");
    Error::new(ErrorKind::Schema, format!("its columns ({}) differ from the first file's ({})", list(here), list(first)))
        .object(label)
        .hint("copy files with other columns in a run of their own, or name the common ones with --columns")
}

impl Source for FileSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn estimate(&self) -> Estimate {
        let rows = self.files.iter().map(|f| match &f.body {
            Body::Container(container) => Some(container.pieces().iter().sum::<u64>()),
            Body::Records(_) => None,
        });
        Estimate { rows: rows.sum(), bytes: self.files.iter().map(|f| f.bytes).sum() }
    }

    fn encodings(&self) -> Vec<Encoding> {
        // The last record of a file may lack its line feed; behind it another file's bytes cannot follow as they are.
        if self.files.len() > 1 {
            return Vec::new();
        }
        let encoding = |file: &FileInput| match &file.body {
            Body::Records(records) => records.input.encoding(),
            Body::Container(_) => None,
        };
        self.files.first().and_then(encoding).into_iter().collect()
    }

    fn schema(&self, _form: Form) -> Result<SchemaRef> {
        Ok(self.files[0].body.schema())
    }

    fn notes(&self, _form: Form) -> Vec<Note> {
        let mut notes = self.notes.clone();
        for file in &self.files {
            let more = match &file.body {
                Body::Records(records) => records.input.notes(),
                Body::Container(container) => container.notes(),
            };
            notes.extend(more);
        }
        notes.dedup();
        notes
    }

    fn plan(&mut self, _reading: &Reading) -> Result<ReadPlan> {
        let splits: Vec<Split> = (0u32..)
            .zip(&self.files)
            .map(|(id, file)| Split { id, what: format!("file:{}", file.label), rows: None, bytes: file.bytes })
            .collect();
        let method = match splits.len() {
            1 => "one file, framed once, decoded on every core".to_string(),
            n => format!("{n} files, one after another, decoded on every core"),
        };
        // One file at a time: the order of the files is the order of the rows, and every core works on each.
        Ok(ReadPlan { splits, method, lanes: 1, network: false, notes: Vec::new() })
    }

    fn open(&self, split: &Split, _from: &Position) -> Result<Box<dyn Reader>> {
        let file = self.files.get(split.id as usize).ok_or_else(|| Error::internal("a split that was not planned"))?;
        match &file.body {
            Body::Container(container) => {
                Ok(Box::new(PieceReader::new((0u32..).zip(container.pieces()).collect(), file.label.clone(), split.id)))
            }
            Body::Records(records) => self.open_records(file, records, split.id),
        }
    }

    fn decoder(&self, _form: Form) -> Result<Box<dyn Decoder>> {
        let bodies: HashMap<Arc<str>, Body> = self.files.iter().map(|f| (f.label.clone(), f.body.clone())).collect();
        let first = make_decoder(&self.files[0].body)?;
        Ok(Box::new(FileDecoder { bodies, current: self.files[0].label.clone(), decoder: first }))
    }
}

impl FileSource {
    fn open_records(&self, file: &FileInput, records: &Records, split: u32) -> Result<Box<dyn Reader>> {
        let waiting = records.pipe.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut stream = match (waiting, &file.path) {
            (Some(stream), _) => stream,
            (None, Some(path)) if file.compression == Compression::None => ByteStream::file(path)?,
            (None, Some(path)) => ByteStream::file(path)?.decompress(file.compression, &file.label)?,
            (None, None) => return Err(Error::internal("a pipe can be read only once")),
        };
        if let Some(encoding) = records.encoding {
            stream.skip(records.bom)?;
            stream = stream.transcode(Transcoder::new(encoding));
        }
        let prolog = records.input.prolog();
        stream.skip(prolog.bytes)?;
        let start = (prolog.bytes as u64, 1 + prolog.lines);
        Ok(Box::new(RecordReader::new(stream, records.input.framer(), file.label.clone(), split, start, self.max_row)))
    }
}

fn make_decoder(body: &Body) -> Result<Box<dyn Decoder>> {
    match body {
        Body::Records(records) => Ok(records.input.decoder()),
        Body::Container(container) => container.decoder(),
    }
}

/// Decodes chunks of several files: each file has its own dialect and column order.
struct FileDecoder {
    bodies: HashMap<Arc<str>, Body>,
    current: Arc<str>,
    decoder: Box<dyn Decoder>,
}

impl Decoder for FileDecoder {
    fn schema(&self) -> SchemaRef {
        self.decoder.schema()
    }

    fn decode(&mut self, raw: Raw, rejects: &mut dyn Rejects, emit: &mut Emit<'_>) -> Result<()> {
        if let Some(object) = raw.object.as_ref().filter(|o| **o != self.current) {
            let body = self.bodies.get(object).ok_or_else(|| Error::internal("a chunk of an unknown file"))?;
            self.decoder = make_decoder(body)?;
            self.current = object.clone();
        }
        self.decoder.decode(raw, rejects, emit)
    }
}

//! Files as a source, their schema known from the first bytes: splits are files, of Parquet its row groups.

use super::config;
use super::input::ByteStream;
use super::open::{Body, FileInput, Records, inflate, open_file, records, without_rows};
use super::reader::{PieceReader, RecordReader};
use super::shape::{self, FILE_COLUMN, Part, Shape, Wanted, hive_columns};
use super::stored::Stored;
use arrow_schema::SchemaRef;
use haul_formats::compression::Compression;
use haul_formats::csv::Transcoder;
use haul_formats::{ContainerInput, FormatSpec};
use haul_model::{
    Decoder, Emit, Encoding, Error, ErrorKind, Estimate, Form, Note, Position, Raw, ReadPlan, Reader, Reading, Rejects, Result, Settings,
    Source, Split,
};
use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, PoisonError};

/// One or several files of one format, or a pipe.
pub struct FileSource {
    files: Vec<FileInput>,
    /// How each file's batches become those of all; `None` where they are already.
    shapes: Vec<Option<Arc<Shape>>>,
    schema: SchemaRef,
    name: String,
    max_row: u64,
    notes: Vec<Note>,
    /// Splits by number: a file, and the piece of it where that is a split of its own.
    splits: Vec<(usize, Option<u32>)>,
}

impl FileSource {
    /// Sets up files, all of one format, by their beginnings.
    ///
    /// # Errors
    /// IO, an unreadable beginning, or files whose columns differ.
    pub fn files(stored: &[Arc<dyn Stored>], given: &str, settings: &Settings) -> Result<Self> {
        let format = common_format(stored, given, settings)?;
        let (wanted, settings) = wanted(settings, format);
        let (mut files, mut notes) = (Vec::<FileInput>::new(), Vec::new());
        for file in stored {
            let before = files.first().map(|f| f.body.schema()).filter(|_| !wanted.union);
            match open_file(file, format, &settings, before.as_ref(), &wanted)? {
                Some(input) => files.push(input),
                None => notes.push(Note::new(format!("{} is empty: 0 rows", file.label()))),
            }
        }
        if files.is_empty() {
            let label: Arc<str> = stored.first().map_or(given, |file| file.label()).into();
            let body = without_rows(format, &settings, &label)?.ok_or_else(|| {
                Error::new(ErrorKind::Data, "the file is empty, so its columns are unknown")
                    .object(given)
                    .hint("an empty CSV still has its header line; --header id,name gives the names of a file without one")
            })?;
            files.push(FileInput { label, stored: None, bytes: Some(0), compression: Compression::None, body });
        }
        let hive = settings.flag("hive", false);
        Self::united(files, given, &settings, (wanted, hive, format), notes)
    }

    /// Makes the files alike.
    fn united(
        mut files: Vec<FileInput>,
        given: &str,
        settings: &Settings,
        how: (Wanted, bool, &FormatSpec),
        notes: Vec<Note>,
    ) -> Result<Self> {
        let (wanted, hive, format) = how;
        let part = |file: &FileInput| Part {
            label: file.label.clone(),
            schema: file.body.schema(),
            places: if hive { hive_columns(&file.label) } else { Vec::new() },
        };
        let parts: Vec<Part> = files.iter().map(part).collect();
        let (schema, mut shapes) = shape::unite(&parts, &wanted)?;
        if wanted.union && format.name == "jsonl" {
            // A key that a file's beginning does not have may still come later in it.
            retype(&mut files, &parts, format, settings)?;
            let parts: Vec<Part> = files.iter().map(part).collect();
            shapes = shape::unite(&parts, &wanted)?.1;
        }
        let shapes = shapes.into_iter().map(|shape| shape.map(Arc::new)).collect();
        let max_row = config::max_row_bytes(settings);
        Ok(Self { files, shapes, schema, name: given.to_string(), max_row, notes, splits: Vec::new() })
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
        let schema = body.schema();
        let input = FileInput { label: "-".into(), stored: None, bytes: None, compression, body };
        let max_row = config::max_row_bytes(settings);
        let name = "standard input".into();
        Ok(Self { files: vec![input], shapes: vec![None], schema, name, max_row, notes: Vec::new(), splits: Vec::new() })
    }

    fn open_records(&self, file: &FileInput, records: &Records, split: u32) -> Result<Box<dyn Reader>> {
        let waiting = records.pipe.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut stream = match (waiting, &file.stored) {
            (Some(stream), _) => stream,
            (None, Some(stored)) if file.compression == Compression::None => stored.stream()?,
            (None, Some(stored)) => stored.stream()?.decompress(file.compression, &file.label)?,
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

    /// Cuts the files; the name of a split says which file it is of.
    fn cut(&mut self) -> Vec<Split> {
        let mut splits = Vec::new();
        self.splits.clear();
        for (index, file) in self.files.iter().enumerate() {
            let mut add = |piece: Option<u32>, what: String, rows, bytes| {
                splits.push(Split { id: self.splits.len() as u32, what, rows, bytes });
                self.splits.push((index, piece));
            };
            let container = match &file.body {
                Body::Container(container) if is_cut(container.as_ref()) => container,
                _ => {
                    add(None, format!("file:{}", file.label), None, file.bytes);
                    continue;
                }
            };
            let pieces = container.pieces();
            let share = |rows: u64| file.bytes.map(|bytes| bytes * rows / pieces.iter().sum::<u64>().max(1));
            for (piece, rows) in (0u32..).zip(&pieces) {
                let from = container.records_before(piece).unwrap_or_default() + 1;
                let what = match pieces.len() as u64 + container.skipped() {
                    1 => format!("file:{}", file.label),
                    _ => format!("file:{} rows {from}-{}", file.label, from + rows - 1),
                };
                add(Some(piece), what, Some(*rows), share(*rows));
            }
        }
        if splits.is_empty() {
            // Nothing to read is still read.
            self.splits.push((0, None));
            splits.push(Split { id: 0, what: format!("file:{}", self.files[0].label), rows: Some(0), bytes: Some(0) });
        }
        splits
    }

    /// How it is read, in words.
    fn method(&self, pieces: usize, apart: bool) -> String {
        let files = match self.files.len() {
            1 => "one file".to_string(),
            n => format!("{n} files"),
        };
        let skipped: u64 = self.files.iter().filter_map(|f| if let Body::Container(c) = &f.body { Some(c.skipped()) } else { None }).sum();
        let in_groups = self.files.iter().all(|f| matches!(&f.body, Body::Container(c) if is_cut(c.as_ref())));
        let mut text = match (in_groups, self.files.len(), apart) {
            (true, _, true) => format!("{files}, {pieces} row group(s), each in a lane of its own"),
            (true, 1, false) => format!("{files}, {pieces} row group(s), decoded on every core"),
            (true, _, false) => format!("{files}, {pieces} row group(s), one file after another, decoded on every core"),
            (false, 1, _) => format!("{files}, framed once, decoded on every core"),
            (false, _, true) => format!("{files}, each in a lane of its own"),
            (false, _, false) => format!("{files}, one after another, decoded on every core"),
        };
        if skipped > 0 {
            text.push_str(&format!("; {skipped} of {} row groups are ruled out by their statistics", skipped + pieces as u64));
        }
        text
    }
}

/// Whether each piece is a split of its own.
fn is_cut(container: &dyn ContainerInput) -> bool {
    container.records_before(0).is_some() || container.pieces().is_empty()
}

/// The format that all files have.
fn common_format(stored: &[Arc<dyn Stored>], given: &str, settings: &Settings) -> Result<&'static FormatSpec> {
    let choose = |file: &Arc<dyn Stored>| config::choose(file.label(), settings.text("format"));
    let first = stored.first().ok_or_else(|| Error::new(ErrorKind::NotFound, "no input file").object(given))?;
    let format = choose(first)?;
    for file in stored {
        let this = choose(file)?;
        if this.name != format.name {
            return Err(Error::new(ErrorKind::Config, format!("is {}, but {} is {}", this.name, first.label(), format.name))
                .object(file.label())
                .hint("copy one format at a time, or name it with ?format="));
        }
    }
    Ok(format)
}

/// How the files are made alike, and the settings for the formats: they know nothing of columns that come from where a file lies.
fn wanted(settings: &Settings, format: &FormatSpec) -> (Wanted, Settings) {
    let union = settings.choice("schemas").as_deref() == Some("union");
    let mut columns = settings.list("columns");
    let named = columns.as_ref().is_some_and(|names| names.iter().any(|name| name == FILE_COLUMN));
    let file_column = named || settings.flag("file_column", false);
    let mut settings = settings.clone();
    let outside = file_column || settings.flag("hive", false);
    if let Some(names) = columns.as_mut().filter(|_| outside) {
        if file_column && !named {
            names.push(FILE_COLUMN.to_string());
        }
    } else if !union {
        // The formats do it, and the files are alike then.
        columns = None;
    }
    if columns.is_some() && !format.container {
        // Which of them a file itself has is known only when it is open.
        settings.remove("columns");
    }
    (Wanted { union, columns, file_column }, settings)
}

/// Sets files of JSON Lines up again with the columns of all.
fn retype(files: &mut [FileInput], parts: &[Part], format: &FormatSpec, settings: &Settings) -> Result<()> {
    let all = Wanted { union: true, ..Wanted::default() };
    let plain: Vec<Part> = parts.iter().map(|p| Part { label: p.label.clone(), schema: p.schema.clone(), places: Vec::new() }).collect();
    let (schema, _) = shape::unite(&plain, &all)?;
    for file in files {
        let Some(stored) = file.stored.clone().filter(|stored| stored.bytes().is_some()) else { continue };
        if let Some(again) = open_file(&stored, format, settings, Some(&schema), &all)? {
            *file = again;
        }
    }
    Ok(())
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
        if self.files.len() > 1 || self.shapes.iter().any(Option::is_some) {
            return Vec::new();
        }
        let encoding = |file: &FileInput| match &file.body {
            Body::Records(records) => records.input.encoding(),
            Body::Container(_) => None,
        };
        self.files.first().and_then(encoding).into_iter().collect()
    }

    fn schema(&self, _form: Form) -> Result<SchemaRef> {
        Ok(self.schema.clone())
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

    fn plan(&mut self, reading: &Reading) -> Result<ReadPlan> {
        let splits = self.cut();
        // Where the order counts, it is one file at a time, and every core works on each. Else a lane of its own pays for what one core must
        // do alone: row groups, and files that have to be inflated.
        let alone = |f: &FileInput| matches!(&f.body, Body::Container(c) if is_cut(c.as_ref())) || f.compression != Compression::None;
        let apart = !reading.ordered && splits.len() > 1 && self.files.iter().all(alone);
        let pieces: usize = self.files.iter().map(|f| if let Body::Container(c) = &f.body { c.pieces().len() } else { 1 }).sum();
        let method = self.method(pieces, apart);
        let network = apart && self.files.iter().any(|file| file.stored.as_ref().is_some_and(|stored| stored.is_far()));
        Ok(ReadPlan { splits, method, lanes: usize::from(!apart), network, notes: Vec::new() })
    }

    fn reopens(&self) -> bool {
        self.files.iter().all(|file| file.stored.as_ref().is_some_and(|stored| stored.bytes().is_some()))
    }

    fn open(&self, split: &Split, _from: &Position) -> Result<Box<dyn Reader>> {
        let planned = self.splits.get(split.id as usize).and_then(|(file, piece)| Some((self.files.get(*file)?, *piece)));
        let (file, piece) = planned.ok_or_else(|| Error::internal("a split that was not planned"))?;
        match &file.body {
            Body::Container(container) => {
                let pieces = (0u32..).zip(container.pieces()).filter(|(number, _)| piece.is_none_or(|piece| piece == *number)).collect();
                Ok(Box::new(PieceReader::new(pieces, file.label.clone(), split.id)))
            }
            Body::Records(records) => self.open_records(file, records, split.id),
        }
    }

    fn decoder(&self, _form: Form) -> Result<Box<dyn Decoder>> {
        let bodies = self.files.iter().zip(&self.shapes).map(|(f, s)| (f.label.clone(), (f.body.clone(), s.clone())));
        let decoder = make_decoder(&self.files[0].body)?;
        let (current, shape) = (self.files[0].label.clone(), self.shapes[0].clone());
        Ok(Box::new(FileDecoder { bodies: bodies.collect(), current, decoder, shape, schema: self.schema.clone() }))
    }
}

fn make_decoder(body: &Body) -> Result<Box<dyn Decoder>> {
    match body {
        Body::Records(records) => Ok(records.input.decoder()),
        Body::Container(container) => container.decoder(),
    }
}

/// Decodes chunks of several files: each file has its own dialect, column order and shape.
struct FileDecoder {
    bodies: HashMap<Arc<str>, (Body, Option<Arc<Shape>>)>,
    current: Arc<str>,
    decoder: Box<dyn Decoder>,
    shape: Option<Arc<Shape>>,
    schema: SchemaRef,
}

impl Decoder for FileDecoder {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn decode(&mut self, raw: Raw, rejects: &mut dyn Rejects, emit: &mut Emit<'_>) -> Result<()> {
        if let Some(object) = raw.object.as_ref().filter(|o| **o != self.current) {
            let (body, shape) = self.bodies.get(object).ok_or_else(|| Error::internal("a chunk of an unknown file"))?;
            self.decoder = make_decoder(body)?;
            self.shape = shape.clone();
            self.current = object.clone();
        }
        match &self.shape {
            None => self.decoder.decode(raw, rejects, emit),
            Some(shape) => self.decoder.decode(raw, rejects, &mut |rows, rejects| emit(shape.apply(rows)?, rejects)),
        }
    }
}

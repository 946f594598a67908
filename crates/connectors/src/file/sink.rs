//! A file as a sink: a new file beside the old one, which takes its name only when it is whole and durable.
//!
//! Workers write positionally at offsets handed out in order; containers and pipes are written in order. Until `finish` the
//! new file has no name (`O_TMPFILE`) where the file system allows it, so that even a killed run leaves nothing behind.

use super::config;
use super::set::{Template, is_template, origin};
use super::target::{open_target, would_leave};
use super::writing::{Dress, Writing};
use haul_formats::compression::Compression;
use haul_formats::{Output, form_of};
use haul_model::{
    Block, ColumnMapping, Encoder, Encoding, Error, ErrorKind, Finished, Form, Guarantee, Holds, Incoming, Note, ReadBack, Result,
    Settings, Sink, Slot, WritePlan, Writer, field_meta,
};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Output of a record format is taken from the encoder in blocks of about this size.
pub const BLOCK: usize = 256 << 10;

/// Where the bytes go.
pub enum Destination {
    /// A path.
    Path(PathBuf),
    /// A pipe, handed in by the caller.
    Pipe(Box<dyn Write + Send + Sync>),
}

/// One output file (or pipe).
pub struct FileSink {
    name: String,
    destination: Mutex<Option<Destination>>,
    path: Option<PathBuf>,
    /// Names to put into the path; its folder is made if need be.
    template: Option<Template>,
    dress: Dress,
    run_id: String,
    /// Names of the columns as they are written, once planned.
    columns: Vec<String>,
    output: Option<Arc<dyn Output>>,
    open: Option<Arc<Writing>>,
}

impl FileSink {
    /// A sink for `destination`.
    ///
    /// # Errors
    /// An unknown format, or a mode that files do not have.
    pub fn new(destination: Destination, settings: &Settings, run_id: &str) -> Result<Self> {
        let path = match &destination {
            Destination::Path(path) => Some(path.clone()),
            Destination::Pipe(_) => None,
        };
        let name = path.as_ref().map_or("standard output".to_string(), |p| p.display().to_string());
        let dress = Dress::new(if path.is_some() { name.as_str() } else { "-" }, settings)?;
        if settings.choice("mode").as_deref() == Some("append") {
            return Err(Error::new(ErrorKind::Unsupported, "a file cannot be appended to without risking half a record")
                .object(name)
                .hint("write another file beside it"));
        }
        let template = path.as_ref().filter(|_| is_template(&name)).map(|_| Template::parse(&name)).transpose()?;
        let (destination, run_id) = (Mutex::new(Some(destination)), run_id.to_string());
        Ok(Self { name, destination, path, template, dress, run_id, columns: Vec::new(), output: None, open: None })
    }

    /// Puts the names of the source into the path.
    fn resolve(&mut self, source: &str) -> Result<()> {
        let Some(template) = &self.template else { return Ok(()) };
        let names = template.resolve(&origin(source, &self.run_id), &self.name)?;
        self.name = format!("{}{}", names.root, names.path("", 0, 0));
        self.path = Some(PathBuf::from(&self.name));
        self.destination = Mutex::new(Some(Destination::Path(PathBuf::from(&self.name))));
        Ok(())
    }

    fn output(&self) -> Result<&Arc<dyn Output>> {
        self.output.as_ref().ok_or_else(|| Error::internal("the file sink was not planned"))
    }

    fn fsync(&self) -> bool {
        self.dress.settings.flag("fsync", true)
    }

    /// Whether a folder that is missing is made.
    fn makes_folder(&self) -> bool {
        self.template.is_some() || self.dress.settings.flag("mkdir", false)
    }

    /// How it is written, and what that promises.
    fn method(&self) -> Result<(String, Guarantee)> {
        let Some(path) = &self.path else { return Ok(("written to the pipe in order".into(), Guarantee::None)) };
        if self.makes_folder() && path.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
            let durable = if self.fsync() {
                "a new folder; temporary file, fsync, rename"
            } else {
                "a new folder; temporary file, rename (no fsync)"
            };
            return Ok((durable.into(), Guarantee::AllOrNothing));
        }
        super::target::check(path, self.dress.settings.choice("mode").as_deref() == Some("create"))?;
        if super::target::is_special(path) {
            return Ok(("written straight to the device or pipe".into(), Guarantee::None));
        }
        let durable = if self.fsync() { "temporary file, fsync, rename" } else { "temporary file, rename (no fsync)" };
        Ok((durable.into(), Guarantee::AllOrNothing))
    }
}

/// How what was written reads, at the sink's endpoint or elsewhere.
///
/// # Errors
/// `Unsupported`: a format that is only written.
pub fn read_back(dress: &Dress, name: &str, at: Option<String>, columns: Vec<(usize, String)>) -> Result<ReadBack> {
    if dress.format.name == "xlsx" {
        return Err(Error::new(ErrorKind::Unsupported, "Excel workbooks are written, and not read").object(name));
    }
    let names: Vec<String> = columns.iter().map(|(_, name)| name.clone()).collect();
    let settings = config::reading(dress.format, &dress.settings, &names);
    Ok(ReadBack { at, settings, columns, holds: Holds::Written, tokens: dress.format.name == "jsonl" })
}

/// How each column of a file is written.
pub fn mappings(incoming: &Incoming, output: &dyn Output) -> Vec<ColumnMapping> {
    let columns = incoming.schema.fields().iter().zip(output.columns()).map(|(field, (target, target_type, note))| ColumnMapping {
        source: field.name().clone(),
        source_type: field_meta::source_type(field, "postgres").map_or_else(|| field.data_type().to_string(), str::to_string),
        target,
        target_type,
        note,
    });
    columns.collect()
}

impl Sink for FileSink {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn form(&self) -> Form {
        form_of(self.dress.format)
    }

    fn accepts(&self, encoding: &Encoding, schema: &arrow_schema::SchemaRef) -> bool {
        // Compressed output is made block by block from encoded rows.
        self.dress.compression == Compression::None && self.dress.output(schema).is_ok_and(|o| o.encoding().as_ref() == Some(encoding))
    }

    fn plan(&mut self, incoming: &Incoming) -> Result<WritePlan> {
        self.resolve(&incoming.source)?;
        let output = self.dress.output(&incoming.schema).map_err(|e| e.object(&self.name))?;
        let mut notes: Vec<Note> = output.notes();
        let (method, guarantee) = self.method()?;
        if self.dress.compression != Compression::None {
            notes.push(Note::new(format!("compressed with {}, block by block on every core", self.dress.compression.name())));
        }
        let run_bytes = output.run_bytes();
        let plan = WritePlan {
            method,
            ddl: Vec::new(),
            columns: mappings(incoming, output.as_ref()),
            notes,
            guarantee,
            own_connections: false,
            whole_splits: false,
            in_split_order: self.dress.settings.flag("merge", false),
            max_writers: None,
            block_bytes: run_bytes.map_or(BLOCK, |_| usize::MAX),
            run_bytes,
        };
        self.columns = plan.columns.iter().map(|column| column.target.clone()).collect();
        self.output = Some(output);
        Ok(plan)
    }

    fn leaves(&self) -> Vec<String> {
        let temp = self.path.as_ref().and_then(|path| would_leave(path, &self.run_id));
        temp.map(|temp| format!("file {}", temp.display())).into_iter().collect()
    }

    fn read_back(&self) -> Result<ReadBack> {
        if self.path.as_ref().is_none_or(|path| super::target::is_special(path)) {
            return Err(Error::new(ErrorKind::Unsupported, "what goes into a pipe or device cannot be read again").object(&self.name));
        }
        let columns = self.columns.iter().cloned().enumerate().collect();
        read_back(&self.dress, &self.name, self.template.as_ref().map(|_| self.name.clone()), columns)
    }

    fn begin(&mut self) -> Result<()> {
        let output = self.output()?.clone();
        let destination = self.destination.lock().unwrap_or_else(PoisonError::into_inner).take();
        let destination = destination.ok_or_else(|| Error::internal("the file sink was begun twice"))?;
        if self.makes_folder()
            && let Destination::Path(path) = &destination
            && let Some(folder) = path.parent()
        {
            std::fs::create_dir_all(folder).map_err(|e| Error::io(folder.display().to_string(), "cannot make the folder", e))?;
        }
        let target = open_target(destination, &self.run_id)?;
        self.open = Some(Arc::new(Writing::begin(target, &self.dress, output)?));
        Ok(())
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        self.dress.encoder(self.output()?.as_ref())
    }

    fn open(&self, _lane: u32) -> Result<Box<dyn Writer>> {
        let open = self.open.clone().ok_or_else(|| Error::internal("the file sink was not begun"))?;
        Ok(Box::new(FileWriter { open }))
    }

    fn finish(&mut self) -> Result<Finished> {
        let open = self.open.take().ok_or_else(|| Error::internal("the file sink was not begun"))?;
        let rows = open.complete()?;
        let bytes = open.target.publish(self.fsync())?;
        Ok(Finished { rows, bytes, ..Finished::default() })
    }

    fn abort(&mut self) -> Vec<String> {
        self.open.take().map_or_else(Vec::new, |open| open.discard())
    }
}

/// A worker's way into a file.
pub struct FileWriter {
    /// The file.
    pub open: Arc<Writing>,
}

impl Writer for FileWriter {
    fn reserve(&mut self, block: &mut Block) -> Result<Slot> {
        self.open.reserve(&mut block.body)
    }

    fn write(&mut self, slot: Slot, block: &mut Block) -> Result<Vec<(u64, Error)>> {
        self.open.write(slot, block)?;
        Ok(Vec::new())
    }

    fn close(&mut self) -> Result<Vec<(u64, Error)>> {
        Ok(Vec::new())
    }
}

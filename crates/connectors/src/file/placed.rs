//! One file in a place that is no folder of this machine: complete there first, and visible under its name at the end.

use super::set::{MakePlace, Place, Template, is_template, origin};
use super::sink::{BLOCK, FileWriter, mappings, read_back};
use super::writing::{Dress, Writing};
use haul_formats::compression::Compression;
use haul_formats::{Output, form_of};
use haul_model::{
    Encoder, Encoding, Error, ErrorKind, Finished, Form, Guarantee, Incoming, Note, ReadBack, Result, Settings, Sink, WritePlan, Writer,
};
use std::sync::Arc;

/// One output file.
pub struct PlacedSink {
    /// What it is called in messages.
    name: String,
    template: Template,
    dress: Dress,
    run: String,
    make: Box<MakePlace>,
    planned: Option<Planned>,
    open: Option<Arc<Writing>>,
    /// What stands for the complete file until it has its name.
    sealed: Option<String>,
    /// How its place is reached.
    reach: Vec<(String, String)>,
}

struct Planned {
    place: Arc<dyn Place>,
    path: String,
    output: Arc<dyn Output>,
    /// Names of the columns as they are written.
    columns: Vec<String>,
}

impl PlacedSink {
    /// A file at `path` (a template with names, perhaps), in the place that `make` makes of its folder.
    ///
    /// # Errors
    /// An unknown format, or a mode that files do not have.
    pub fn new(name: &str, path: &str, settings: &Settings, run: &str, make: Box<MakePlace>) -> Result<Self> {
        let dress = Dress::new(path, settings)?;
        if settings.choice("mode").as_deref() == Some("append") {
            return Err(Error::new(ErrorKind::Unsupported, "an object cannot be appended to")
                .object(name)
                .hint("write another one beside it"));
        }
        let text = if is_template(path) { path.to_string() } else { path.replace('}', "}}") };
        let template = Template::parse(&text)?;
        Ok(Self {
            name: name.to_string(),
            template,
            dress,
            run: run.to_string(),
            make,
            planned: None,
            open: None,
            sealed: None,
            reach: Vec::new(),
        })
    }

    /// With the settings by which its place is reached, to read there.
    pub fn reached_by(self, reach: Vec<(String, String)>) -> Self {
        Self { reach, ..self }
    }

    fn planned(&self) -> Result<&Planned> {
        self.planned.as_ref().ok_or_else(|| Error::internal("the sink was not planned"))
    }
}

impl Sink for PlacedSink {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn form(&self) -> Form {
        form_of(self.dress.format)
    }

    fn accepts(&self, encoding: &Encoding, schema: &arrow_schema::SchemaRef) -> bool {
        self.dress.compression == Compression::None && self.dress.output(schema).is_ok_and(|o| o.encoding().as_ref() == Some(encoding))
    }

    fn plan(&mut self, incoming: &Incoming) -> Result<WritePlan> {
        let names = self.template.resolve(&origin(&incoming.source, &self.run), &self.name)?;
        let place = (self.make)(&names.root)?;
        let path = names.path("", 0, 0);
        self.name = place.label(&path);
        let output = self.dress.output(&incoming.schema).map_err(|e| e.object(&self.name))?;
        place.check()?;
        let must_be_new = self.dress.settings.choice("mode").as_deref() == Some("create");
        if must_be_new && place.exists(&path)? {
            return Err(Error::new(ErrorKind::Exists, "the object exists").object(&self.name).hint("use --mode replace to replace it"));
        }
        let mut notes = output.notes();
        if self.dress.compression != Compression::None {
            notes.push(Note::new(format!("compressed with {}, block by block on every core", self.dress.compression.name())));
        }
        let run_bytes = output.run_bytes();
        let plan = WritePlan {
            method: place.method(),
            ddl: Vec::new(),
            columns: mappings(incoming, output.as_ref()),
            notes,
            guarantee: Guarantee::AllOrNothing,
            own_connections: false,
            whole_splits: false,
            in_split_order: self.dress.settings.flag("merge", false),
            max_writers: None,
            block_bytes: run_bytes.map_or(BLOCK, |_| usize::MAX),
            run_bytes,
        };
        let columns = plan.columns.iter().map(|column| column.target.clone()).collect();
        self.planned = Some(Planned { place, path, output, columns });
        Ok(plan)
    }

    fn leaves(&self) -> Vec<String> {
        self.planned.as_ref().map_or_else(Vec::new, |planned| planned.place.leaves())
    }

    fn read_back(&self) -> Result<ReadBack> {
        let columns = self.planned()?.columns.iter().cloned().enumerate().collect();
        let mut back = read_back(&self.dress, &self.name, Some(self.name.clone()), columns)?;
        back.settings.extend(self.reach.iter().cloned());
        Ok(back)
    }

    fn begin(&mut self) -> Result<()> {
        let Planned { place, path, output, .. } = self.planned()?;
        let writing = Writing::begin(place.create(path)?, &self.dress, output.clone())?;
        self.open = Some(Arc::new(writing));
        Ok(())
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        self.dress.encoder(self.planned()?.output.as_ref())
    }

    fn open(&self, _lane: u32) -> Result<Box<dyn Writer>> {
        let open = self.open.clone().ok_or_else(|| Error::internal("the sink was not begun"))?;
        Ok(Box::new(FileWriter { open }))
    }

    fn finish(&mut self) -> Result<Finished> {
        // It stays open until it is sealed: a failure on the way takes it back.
        let open = self.open.clone().ok_or_else(|| Error::internal("the sink was not begun"))?;
        let rows = open.complete()?;
        let (place, path) = self.planned().map(|planned| (planned.place.clone(), planned.path.clone()))?;
        let (pending, bytes) = place.seal(&open.target)?;
        self.open = None;
        self.sealed = Some(pending.clone());
        place.publish(&path, &pending)?;
        self.sealed = None;
        Ok(Finished { rows, bytes, ..Finished::default() })
    }

    fn abort(&mut self) -> Vec<String> {
        let mut left = self.open.take().map_or_else(Vec::new, |open| open.discard());
        if let (Some(pending), Some(planned)) = (self.sealed.take(), &self.planned)
            && planned.place.discard(&planned.path, &pending).is_err()
        {
            left.push(format!("an unfinished upload of {}", self.name));
        }
        left
    }
}

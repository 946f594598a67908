//! A set of files as a sink: each lane writes files of its own, and all of them appear at the end.
//!
//! Who reads by the manifest sees the old set or the new one, whenever he looks and whatever fails. A glob of another tool may see some files
//! of each for as long as it takes to rename them.

mod commit;
mod encoder;
pub mod manifest;
pub mod partition;
mod place;
mod template;
mod writer;

pub use commit::finish;
pub use place::{Folder, Place, remove_temporaries};
pub use template::{Names, Template, is_template, origin};

use super::sink::{mappings, read_back};
use super::writing::Dress;
use arrow_schema::SchemaRef;
use encoder::{Limits, SetEncoder};
use haul_formats::{Output, form_of};
use haul_model::{
    ColumnMapping, Encoder, Encoding, Error, ErrorKind, Finished, Form, Guarantee, Incoming, Note, ReadBack, Result, Settings, Sink,
    WritePlan, Writer, field_meta,
};
use manifest::{Manifest, Member};
use partition::PartitionBy;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use writer::{SetWriter, Shared};

/// Makes the place for a root, once the names are known.
pub type MakePlace = dyn Fn(&str) -> Result<Arc<dyn Place>> + Send + Sync;

/// A set that is to be written.
pub struct SetSink {
    /// What it is called in messages.
    name: String,
    /// The template as it was given.
    text: String,
    template: Template,
    dress: Dress,
    limits: Limits,
    run: String,
    make: Box<MakePlace>,
    planned: Option<Planned>,
    shared: Option<Arc<Shared>>,
    /// How its place is reached.
    reach: Vec<(String, String)>,
}

struct Planned {
    place: Arc<dyn Place>,
    names: Names,
    output: Arc<dyn Output>,
    partition: Option<Arc<PartitionBy>>,
    /// Names of the columns as they are written, those that become folders too.
    columns: Vec<String>,
}

impl SetSink {
    /// A set of files called like `text`, in the place that `make` makes of its root.
    ///
    /// # Errors
    /// `Config`: a template or settings that do not fit together.
    pub fn new(text: &str, settings: &Settings, run: &str, make: Box<MakePlace>) -> Result<Self> {
        let template = Template::parse(text)?;
        let dress = Dress::new(text, settings)?;
        let positive = |name: &str, value: Option<u64>| match value {
            Some(0) => Err(Error::new(ErrorKind::Config, format!("setting {name:?} must be at least 1"))),
            value => Ok(value),
        };
        let rows = settings.int("file_rows").map(|rows| u64::try_from(rows).unwrap_or(0));
        let limits = Limits { rows: positive("file_rows", rows)?, bytes: positive("file_bytes", settings.bytes("file_bytes"))? };
        match settings.choice("mode").as_deref() {
            Some("append") => {
                return Err(Error::new(ErrorKind::Unsupported, "a set of files is replaced as a whole, not appended to")
                    .object(text)
                    .hint("write another set beside it"));
            }
            _ if settings.flag("merge", false) => {
                return Err(Error::new(ErrorKind::Config, "--merge makes one file, but the target names several")
                    .object(text)
                    .hint("name one file, without {lane} and {part}"));
            }
            _ => {}
        }
        let (name, text, run) = (text.to_string(), text.to_string(), run.to_string());
        Ok(Self { name, text, template, dress, limits, run, make, planned: None, shared: None, reach: Vec::new() })
    }

    /// With the settings by which its place is reached, to read there.
    pub fn reached_by(self, reach: Vec<(String, String)>) -> Self {
        Self { reach, ..self }
    }

    /// Called otherwise than its template in messages: by a URI.
    pub fn called(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    fn planned(&self) -> Result<&Planned> {
        self.planned.as_ref().ok_or_else(|| Error::internal("the set was not planned"))
    }

    /// The names must have room for all the files that there can be.
    fn check_names(&self, names: &Names, partitioned: bool) -> Result<()> {
        let cut = self.limits.rows.is_some() || self.limits.bytes.is_some() || partitioned;
        if cut && !names.by_part() {
            return Err(Error::new(ErrorKind::Config, "the names of the files leave no room for the number of the part")
                .object(&self.name)
                .hint("put {part:04} into the name"));
        }
        Ok(())
    }

    /// What is there already: it will be replaced, or is in the way.
    fn look(&self, place: &dyn Place, names: &Names) -> Result<BTreeSet<String>> {
        let before = place.manifest()?;
        if let Some(before) = before.as_ref().filter(|before| before.template != names.text) {
            return Err(Error::new(ErrorKind::Exists, format!("another set is there, whose files are called {}", before.template))
                .object(place.name())
                .hint("write to another folder, or remove that set first"));
        }
        let old = commit::old_files(place, before.as_ref(), &|path| names.is_one_of_them(path))?;
        let ends = |path: &str| self.dress.format.extensions.iter().any(|e| path.contains(&format!(".{e}")));
        if let Some(other) = place.list()?.into_iter().find(|path| !old.contains(path) && ends(path)) {
            return Err(Error::new(ErrorKind::Exists, "is no file of the set, and who reads the folder would read it too")
                .object(place.label(&other))
                .hint("write to another folder, or move that file away"));
        }
        if self.dress.settings.choice("mode").as_deref() == Some("create") && !old.is_empty() {
            return Err(Error::new(ErrorKind::Exists, format!("{} file(s) of the set exist", old.len()))
                .object(place.name())
                .hint("use --mode replace to replace them"));
        }
        Ok(old)
    }

    fn notes(&self, output: &dyn Output, old: &BTreeSet<String>) -> Vec<Note> {
        let mut notes = output.notes();
        if !old.is_empty() {
            notes.push(Note::new(format!("{} file(s) of the set before are replaced at the end", old.len())));
        }
        notes
    }
}

/// Columns of the files, and those that become folders.
fn columns(incoming: &Incoming, output: &dyn Output, partition: Option<&PartitionBy>) -> Vec<ColumnMapping> {
    let Some(partition) = partition else { return mappings(incoming, output) };
    let in_files = Incoming { schema: partition.files().clone(), ..incoming.clone() };
    let mut in_files = mappings(&in_files, output).into_iter();
    let column = |(index, field): (usize, &arrow_schema::FieldRef)| match partition.is_folder(index) {
        false => in_files.next(),
        true => Some(ColumnMapping {
            source: field.name().clone(),
            source_type: field_meta::source_type(field, "postgres").map_or_else(|| field.data_type().to_string(), str::to_string),
            target: field.name().clone(),
            target_type: "folder".into(),
            note: Some(format!("{}=VALUE/", field.name())),
        }),
    };
    incoming.schema.fields().iter().enumerate().filter_map(column).collect()
}

impl Sink for SetSink {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn form(&self) -> Form {
        form_of(self.dress.format)
    }

    fn accepts(&self, _encoding: &Encoding, _schema: &SchemaRef) -> bool {
        // Where a file ends is decided by rows.
        false
    }

    fn plan(&mut self, incoming: &Incoming) -> Result<WritePlan> {
        let names = self.template.resolve(&origin(&incoming.source, &self.run), &self.text)?;
        let by = self.dress.settings.list("partition_by").unwrap_or_default();
        let partition = if by.is_empty() { None } else { Some(PartitionBy::new(&by, &incoming.schema)?) };
        self.check_names(&names, partition.is_some())?;
        let files = partition.as_ref().map_or(&incoming.schema, PartitionBy::files);
        let output = self.dress.output(files).map_err(|e| e.object(&self.name))?;
        let place = (self.make)(&names.root)?;
        place.check()?;
        let old = self.look(place.as_ref(), &names)?;
        let plan = WritePlan {
            method: format!(
                "a set of files in {}, each lane its own: {}; all appear at the end, the manifest last",
                place.name(),
                place.method()
            ),
            ddl: Vec::new(),
            columns: columns(incoming, output.as_ref(), partition.as_ref()),
            notes: self.notes(output.as_ref(), &old),
            guarantee: Guarantee::AllOrNothing,
            own_connections: true,
            whole_splits: false,
            in_split_order: false,
            max_writers: (!names.by_lane() && !names.by_part()).then_some(1),
            // Pieces go out when they are finished.
            block_bytes: 1,
            run_bytes: None,
        };
        let columns = plan.columns.iter().map(|column| column.target.clone()).collect();
        self.planned = Some(Planned { place, names, output, partition: partition.map(Arc::new), columns });
        Ok(plan)
    }

    fn leaves(&self) -> Vec<String> {
        self.planned.as_ref().map_or_else(Vec::new, |planned| planned.place.leaves())
    }

    fn read_back(&self) -> Result<ReadBack> {
        let Planned { place, partition, columns, .. } = self.planned()?;
        let columns = columns.iter().cloned().enumerate();
        let (folders, files): (Vec<_>, Vec<_>) =
            columns.partition(|(index, _)| partition.as_ref().is_some_and(|partition| partition.is_folder(*index)));
        let hive = (!folders.is_empty()).then(|| ("hive".to_string(), "true".to_string()));
        // Folders' columns stand behind those of the files, in the order in which the folders do.
        let by = self.dress.settings.list("partition_by").unwrap_or_default();
        let folders = by.iter().filter_map(|name| folders.iter().find(|(_, folder)| folder == name).cloned());
        let columns = files.into_iter().chain(folders).collect();
        let mut back = read_back(&self.dress, &self.name, Some(place.name()), columns)?;
        back.settings.extend(hive);
        back.settings.extend(self.reach.iter().cloned());
        Ok(back)
    }

    fn begin(&mut self) -> Result<()> {
        let Planned { place, names, output, .. } = self.planned()?;
        self.shared = Some(Arc::new(Shared {
            place: place.clone(),
            names: names.clone(),
            dress: self.dress.clone(),
            output: output.clone(),
            sealed: Mutex::default(),
            parts: Mutex::default(),
        }));
        Ok(())
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        let Planned { output, partition, .. } = self.planned()?;
        Ok(Box::new(SetEncoder::new(self.dress.clone(), output.clone(), self.limits, partition.clone())))
    }

    fn open(&self, lane: u32) -> Result<Box<dyn Writer>> {
        let shared = self.shared.clone().ok_or_else(|| Error::internal("the set was not begun"))?;
        Ok(Box::new(SetWriter::new(shared, lane)))
    }

    fn finish(&mut self) -> Result<Finished> {
        let shared = self.shared.clone().ok_or_else(|| Error::internal("the set was not begun"))?;
        if shared.sealed.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            shared.seal_an_empty_one()?;
        }
        let mut files: Vec<Member> = shared.sealed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let (rows, bytes, count) = (files.iter().map(|m| m.rows).sum(), files.iter().map(|m| m.bytes).sum(), files.len());
        let place = shared.place.as_ref();
        let before = place.manifest()?;
        let old = commit::old_files(place, before.as_ref(), &|path| shared.names.is_one_of_them(path))?;
        let new = Manifest { run: self.run.clone(), template: shared.names.text.clone(), files, ..Manifest::default() };
        commit::commit(place, new, &old, before.as_ref())?;
        self.shared = None;
        Ok(Finished { rows, bytes, notes: vec![format!("{count} file(s) in {}", place.name())], ..Finished::default() })
    }

    fn abort(&mut self) -> Vec<String> {
        let Some(shared) = self.shared.take() else { return Vec::new() };
        let place = shared.place.as_ref();
        // Past the commit point the set is the new one, and what is left to do stands in its manifest.
        if place.manifest().is_ok_and(|m| m.is_some_and(|m| m.run == self.run)) {
            return vec![format!("the set in {} is written but not finished: haul state clean finishes it", place.name())];
        }
        let sealed = std::mem::take(&mut *shared.sealed.lock().unwrap_or_else(PoisonError::into_inner));
        let left = sealed.iter().filter_map(|m| {
            let pending = m.pending.as_ref()?;
            place.discard(&m.path, pending).err().map(|_| place.label(pending))
        });
        let left = left.collect();
        place.tidy();
        left
    }
}

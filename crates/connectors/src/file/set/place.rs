//! Where a set is written. Files become whole and durable there first, and visible later, all together.

use super::manifest::{Manifest, NAME, stays_inside};
use crate::file::config;
use crate::file::target::{self, Target};
use haul_model::{Error, ErrorKind, Result, failpoint};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The root of a set. Paths are relative to it, with `/`.
///
/// A file is made in three steps: [`Place::create`], then [`Place::seal`] when its bytes are complete (durable, and still invisible under
/// its name; what it gives stands for the file until then, also for another process), then [`Place::publish`]. The last two steps of a
/// set that was interrupted may be repeated.
pub trait Place: Send + Sync {
    /// For messages.
    fn name(&self) -> String;
    /// How a file gets there, for the plan.
    fn method(&self) -> String;
    /// A file's name, for messages.
    fn label(&self, path: &str) -> String;
    /// Whether files can be made here. Changes nothing.
    ///
    /// # Errors
    /// `NotFound`, `Permission`, IO.
    fn check(&self) -> Result<()>;
    /// The manifest, if there is one of ours.
    ///
    /// # Errors
    /// IO; it is damaged.
    fn manifest(&self) -> Result<Option<Manifest>>;
    /// Puts a manifest in the place of the one before, at once and durably.
    ///
    /// # Errors
    /// IO.
    fn put_manifest(&self, manifest: &Manifest) -> Result<()>;
    /// Whether a visible file is there.
    ///
    /// # Errors
    /// IO.
    fn exists(&self, path: &str) -> Result<bool>;
    /// Every visible file, hidden ones left out.
    ///
    /// # Errors
    /// IO.
    fn list(&self) -> Result<Vec<String>>;
    /// Begins a file.
    ///
    /// # Errors
    /// IO.
    fn create(&self, path: &str) -> Result<Target>;
    /// Makes a complete file durable; what stands for it, and its length.
    ///
    /// # Errors
    /// IO.
    fn seal(&self, target: &Target) -> Result<(String, u64)>;
    /// Gives a sealed file its name; which content that is, where the place can tell. One that has it already is no error.
    ///
    /// # Errors
    /// IO; neither is there.
    fn publish(&self, path: &str, pending: &str) -> Result<Option<String>>;
    /// Removes a sealed file that will not be published. One that is not there is no error.
    ///
    /// # Errors
    /// IO.
    fn discard(&self, path: &str, pending: &str) -> Result<()>;
    /// Removes a visible file. One that is not there is no error.
    ///
    /// # Errors
    /// IO.
    fn remove(&self, path: &str) -> Result<()>;
    /// Makes names that were given and taken durable.
    ///
    /// # Errors
    /// IO.
    fn settle(&self) -> Result<()>;
    /// After nothing came of it: removes what was made to make files in.
    fn tidy(&self);
    /// What a killed run may leave, for [`haul_model::Connector::clean`].
    fn leaves(&self) -> Vec<String>;
}

/// A folder of this machine.
pub struct Folder {
    root: PathBuf,
    run: String,
    fsync: bool,
    /// Folders that were made for this set, and those in which names change.
    made: Mutex<Vec<PathBuf>>,
    touched: Mutex<std::collections::BTreeSet<PathBuf>>,
}

impl Folder {
    /// The folder `root`, for the run `run`.
    pub fn new(root: &str, run: &str, fsync: bool) -> Self {
        let root = PathBuf::from(if root.is_empty() { "." } else { root });
        Self { root, run: run.to_string(), fsync, made: Mutex::default(), touched: Mutex::default() }
    }

    fn at(&self, path: &str) -> Result<PathBuf> {
        match stays_inside(path) {
            true => Ok(self.root.join(path)),
            false => Err(Error::new(ErrorKind::Data, format!("the name {path:?} leads out of the set")).object(self.name())),
        }
    }

    /// Makes a folder and those above it, and remembers which were not there.
    fn make(&self, folder: &Path) -> Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let missing: Vec<PathBuf> =
            folder.ancestors().take_while(|f| !f.as_os_str().is_empty() && !f.exists()).map(Path::to_path_buf).collect();
        std::fs::create_dir_all(folder).map_err(|e| Error::io(folder.display().to_string(), "cannot make the folder", e))?;
        self.made.lock().unwrap_or_else(PoisonError::into_inner).extend(missing);
        Ok(())
    }

    fn touch(&self, path: &Path) {
        if let Some(folder) = path.parent() {
            self.touched.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_path_buf());
        }
    }
}

fn removed(result: std::io::Result<()>, path: &Path) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io(path.display().to_string(), "cannot remove the file", e)),
    }
}

impl Place for Folder {
    fn name(&self) -> String {
        self.root.display().to_string()
    }

    fn method(&self) -> String {
        if self.fsync { "temporary files, fsync, rename" } else { "temporary files, rename (no fsync)" }.into()
    }

    fn label(&self, path: &str) -> String {
        self.root.join(path).display().to_string()
    }

    fn check(&self) -> Result<()> {
        let there = self.root.ancestors().map(|f| if f.as_os_str().is_empty() { Path::new(".") } else { f }).find(|f| f.exists());
        let there = there.unwrap_or(Path::new("/"));
        if !there.is_dir() {
            return Err(Error::new(ErrorKind::Exists, "is a file, not a folder").object(there.display().to_string()));
        }
        rustix::fs::access(there, rustix::fs::Access::WRITE_OK)
            .map_err(|e| Error::io(there.display().to_string(), "cannot write into the folder", e.into()))
    }

    fn manifest(&self) -> Result<Option<Manifest>> {
        Manifest::read_local(&self.root)
    }

    fn put_manifest(&self, manifest: &Manifest) -> Result<()> {
        let path = self.root.join(NAME);
        let temp = self.root.join(target::temporary(NAME, &self.run));
        let write = || {
            let mut file = File::create(&temp)?;
            file.write_all(&manifest.to_json())?;
            if self.fsync {
                file.sync_all()?;
            }
            failpoint::pass("set-before-manifest");
            std::fs::rename(&temp, &path)?;
            if self.fsync { File::open(&self.root)?.sync_all() } else { Ok(()) }
        };
        write().map_err(|e| {
            let _ = std::fs::remove_file(&temp);
            Error::io(path.display().to_string(), "cannot write", e)
        })
    }

    fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.at(path)?.exists())
    }

    fn list(&self) -> Result<Vec<String>> {
        if !self.root.is_dir() {
            return Ok(Vec::new());
        }
        let mut files = Vec::new();
        config::walk(&self.root, &mut files).map_err(|e| Error::io(self.name(), "cannot list the folder", e))?;
        Ok(files.iter().filter_map(|f| f.strip_prefix(&self.root).ok()).map(|f| f.to_string_lossy().into_owned()).collect())
    }

    fn create(&self, path: &str) -> Result<Target> {
        let path = self.at(path)?;
        self.make(path.parent().unwrap_or(&self.root))?;
        target::create_temporary(&path, &self.run)
    }

    fn seal(&self, target: &Target) -> Result<(String, u64)> {
        let (temp, bytes) = target.seal(self.fsync)?;
        let inside = Path::new(&temp).strip_prefix(&self.root).map_err(|_| Error::internal("a temporary file outside of the set"))?;
        Ok((inside.to_string_lossy().into_owned(), bytes))
    }

    fn publish(&self, path: &str, pending: &str) -> Result<Option<String>> {
        let (from, to) = (self.at(pending)?, self.at(path)?);
        self.touch(&to);
        match std::fs::rename(&from, &to) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && to.exists() => Ok(None),
            result => result.map(|()| None).map_err(|e| Error::io(to.display().to_string(), "cannot give the file its name", e)),
        }
    }

    fn discard(&self, _path: &str, pending: &str) -> Result<()> {
        let path = self.at(pending)?;
        removed(std::fs::remove_file(&path), &path).map(|_| ())
    }

    fn remove(&self, path: &str) -> Result<()> {
        let path = self.at(path)?;
        self.touch(&path);
        if removed(std::fs::remove_file(&path), &path)? {
            // Partition folders go with their last file.
            for folder in path.ancestors().skip(1).take_while(|folder| *folder != self.root && folder.starts_with(&self.root)) {
                if std::fs::remove_dir(folder).is_err() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        let touched = std::mem::take(&mut *self.touched.lock().unwrap_or_else(PoisonError::into_inner));
        for folder in touched.iter().filter(|folder| self.fsync && folder.is_dir()) {
            File::open(folder)
                .and_then(|f| f.sync_all())
                .map_err(|e| Error::io(folder.display().to_string(), "cannot make names durable", e))?;
        }
        Ok(())
    }

    fn tidy(&self) {
        let mut made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        // The deepest first.
        made.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        for folder in made {
            let _ = std::fs::remove_dir(folder);
        }
    }

    fn leaves(&self) -> Vec<String> {
        let root = std::path::absolute(&self.root).unwrap_or_else(|_| self.root.clone());
        vec![format!("set {}", root.display())]
    }
}

/// The temporary files of a run in and below a folder: removes them; how many there were.
///
/// # Errors
/// IO.
pub fn remove_temporaries(folder: &Path, run: &str) -> Result<usize> {
    let failed = |e| Error::io(folder.display().to_string(), "cannot list the folder", e);
    let entries = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        entries => entries.map_err(failed)?,
    };
    let mut count = 0;
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if entry.file_type().map_err(failed)?.is_dir() {
            count += remove_temporaries(&path, run)?;
        } else if target::is_temporary(&path, run) {
            count += usize::from(target::remove_left(&path, run)?);
        }
    }
    Ok(count)
}

//! What there is to read: files that were found and opened, wherever they are.
//!
//! A source opens everything that it will read before it looks at the first byte. A file that is replaced meanwhile is read as it was;
//! of a set with a manifest either the old files are read or the new ones, never some of each.

use super::config;
use super::input::{ByteStream, FileAt, cannot_open};
use super::set::manifest::{Manifest, Member, stays_inside};
use haul_formats::ReadAt;
use haul_model::{Error, ErrorKind, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// One file that can be read, as often as need be (a pipe once).
pub trait Stored: Send + Sync {
    /// For messages, and for the name of the split: a path or URI without secrets.
    fn label(&self) -> &str;
    /// Bytes; `None` for a pipe.
    fn bytes(&self) -> Option<u64>;
    /// Whether each read of it waits for the network.
    fn is_far(&self) -> bool {
        false
    }
    /// Its bytes from the start.
    ///
    /// # Errors
    /// IO; a pipe that was read already.
    fn stream(&self) -> Result<ByteStream>;
    /// Its bytes in any order.
    ///
    /// # Errors
    /// `Config` for a pipe.
    fn at(&self) -> Result<Arc<dyn ReadAt>>;
}

/// A path of this machine. Regular files stay open, so that what is read is what was found.
struct LocalFile {
    label: String,
    path: PathBuf,
    open: Option<(Arc<File>, u64)>,
}

impl Stored for LocalFile {
    fn label(&self) -> &str {
        &self.label
    }

    fn bytes(&self) -> Option<u64> {
        self.open.as_ref().map(|(_, bytes)| *bytes)
    }

    fn stream(&self) -> Result<ByteStream> {
        match &self.open {
            Some((file, _)) => Ok(ByteStream::regular(file.clone())),
            None => Ok(ByteStream::special(File::open(&self.path).map_err(|e| cannot_open(&self.path, e))?)),
        }
    }

    fn at(&self) -> Result<Arc<dyn ReadAt>> {
        match &self.open {
            Some((file, bytes)) => Ok(Arc::new(FileAt::new(file.clone(), *bytes, &self.label))),
            None => Err(Error::new(ErrorKind::Config, "must be a regular file to be read as Parquet or Arrow (it is read from its end)")
                .object(&self.label)),
        }
    }
}

fn open(path: &Path, label: String) -> Result<LocalFile> {
    let is_special = super::target::is_special(path);
    if is_special {
        return Ok(LocalFile { label, path: path.to_path_buf(), open: None });
    }
    let file = File::open(path).map_err(|e| match e.raw_os_error() {
        Some(code) if code == rustix::io::Errno::MFILE.raw_os_error() => Error::io(&label, "cannot open", e)
            .hint("all files of a set are open at the same time: raise the limit with ulimit -n, or read fewer"),
        _ => cannot_open(path, e),
    })?;
    let meta = file.metadata().map_err(|e| Error::io(&label, "cannot look at", e))?;
    if meta.is_dir() {
        return Err(Error::new(ErrorKind::Config, "is a folder, not a file").object(label));
    }
    Ok(LocalFile { label, path: path.to_path_buf(), open: Some((Arc::new(file), meta.len())) })
}

/// How often a set is looked at again that was being replaced, and how long in between.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// Opens the files of a path, glob or folder, in the order in which they will be read.
///
/// # Errors
/// `NotFound` when there is none; IO; a set that does not come to rest.
pub fn open_local(path: &str) -> Result<Vec<Arc<dyn Stored>>> {
    let folder = Path::new(path);
    if folder.is_dir() {
        let mut last = None;
        for look in 0..LOOKS {
            if look > 0 {
                std::thread::sleep(PAUSE);
            }
            let Some(manifest) = Manifest::read_local(folder)? else {
                // It was there a moment ago: its writer is about to put the next one there, or somebody has cleared the folder.
                match last {
                    Some(_) if look < LOOKS / 2 => continue,
                    _ => break,
                }
            };
            match open_members(folder, &manifest) {
                Ok(files) if Manifest::read_local(folder)?.as_ref() == Some(&manifest) => return Ok(files),
                Ok(_) => last = Some(Error::new(ErrorKind::Conflict, "the set is being replaced again and again").object(path)),
                Err(error) => last = Some(error),
            }
        }
        if let Some(error) = last {
            let hint = "its manifest names files that are not there, or not so: write the set again, or name its files with a glob";
            return Err(Error::new(error.kind(), error.to_string()).hint(hint));
        }
    }
    let files = config::expand(path)?;
    files.iter().map(|file| Ok(Arc::new(open(file, file.display().to_string())?) as Arc<dyn Stored>)).collect()
}

/// The files that a manifest names. One that has not got its own name yet still has its temporary one.
fn open_members(folder: &Path, manifest: &Manifest) -> Result<Vec<Arc<dyn Stored>>> {
    let member = |member: &Member| -> Result<Arc<dyn Stored>> {
        let path = folder.join(&member.path);
        let label = path.display().to_string();
        let found = match &member.pending {
            Some(pending) if stays_inside(pending) => open(&folder.join(pending), label.clone()).or_else(|_| open(&path, label)),
            _ => open(&path, label),
        }?;
        match found.bytes() {
            Some(bytes) if bytes != member.bytes => {
                let told = format!("has {bytes} bytes, but the manifest of its set says {}", member.bytes);
                Err(Error::new(ErrorKind::Data, told).object(found.label))
            }
            _ => Ok(Arc::new(found)),
        }
    };
    manifest.files.iter().map(member).collect()
}

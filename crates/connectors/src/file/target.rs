//! The file that is being written, until it is published under its name or discarded.

use super::sink::Destination;
use haul_model::{Error, ErrorKind, Result, failpoint};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// An open output.
pub enum Target {
    /// A regular file, written positionally.
    File(FileTarget),
    /// A pipe or device, written in order.
    Stream(StreamTarget),
    /// Something that is sent elsewhere, in order.
    Upload(Arc<dyn Upload>),
}

/// A file that is sent elsewhere while it is written. Nobody sees anything of it until it is published; dropped before it is sealed, it is taken back.
pub trait Upload: Send + Sync {
    /// For messages.
    fn name(&self) -> String;
    /// Takes the next bytes.
    ///
    /// # Errors
    /// Connection, rights, limits of the other side.
    fn write(&self, bytes: &[u8]) -> Result<()>;
    /// Sends what is left and waits until all of it has arrived; what stands for the file, and its length.
    ///
    /// # Errors
    /// As [`Upload::write`].
    fn seal(&self) -> Result<(String, u64)>;
    /// Takes back what was not sealed; names what could not be.
    fn discard(&self) -> Vec<String>;
}

/// An upload as a `Write`, for an assembler.
struct UploadShare(Arc<dyn Upload>);

impl Write for UploadShare {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes).map_err(std::io::Error::other)?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A regular file that has no name yet, or a temporary one.
pub struct FileTarget {
    file: File,
    /// The final name, symbolic links resolved.
    path: PathBuf,
    /// The temporary name; `None` while the file has none at all.
    temp: Mutex<Option<PathBuf>>,
    temp_name: PathBuf,
}

/// A pipe or device.
pub struct StreamTarget {
    out: Arc<Mutex<Pipe>>,
    name: String,
}

/// An output that is written in order.
struct Pipe {
    out: Box<dyn Write + Send + Sync>,
    written: u64,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// A share of a pipe, for an assembler.
struct PipeShare(Arc<Mutex<Pipe>>);

impl Write for PipeShare {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

impl StreamTarget {
    fn new(out: Box<dyn Write + Send + Sync>, name: String) -> Self {
        Self { out: Arc::new(Mutex::new(Pipe { out, written: 0 })), name }
    }
}

/// Refuses what is sure to fail: a missing folder, a folder in place of a file, an existing file under `mode=create`.
///
/// # Errors
/// `NotFound`, `Exists`, `Permission`.
pub fn check(path: &Path, must_be_new: bool) -> Result<()> {
    not_a_folder(path)?;
    let name = path.display().to_string();
    if must_be_new && path.exists() {
        return Err(Error::new(ErrorKind::Exists, "the file exists").object(name).hint("use --mode replace to replace it"));
    }
    let folder = folder_of(path);
    if !folder.is_dir() {
        return Err(Error::new(ErrorKind::NotFound, "the folder does not exist")
            .object(name)
            .hint(format!("make it first: mkdir -p {}", folder.display())));
    }
    rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK)
        .or_else(|e| if is_special(path) { Ok(()) } else { Err(e) })
        .map_err(|e| Error::io(folder.display().to_string(), "cannot write into the folder", e.into()))
}

/// Refuses a folder in place of a file.
///
/// # Errors
/// `Exists`.
pub fn not_a_folder(path: &Path) -> Result<()> {
    if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        let example = path.join("out.jsonl");
        return Err(Error::new(ErrorKind::Config, "is a folder")
            .object(path.display().to_string())
            .hint(format!("name a file in it, for example {}", example.display())));
    }
    Ok(())
}

/// Whether the path is there and is not a regular file (a FIFO, `/dev/null`, a socket's pipe).
pub fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| {
        let kind = m.file_type();
        kind.is_fifo() || kind.is_char_device() || kind.is_socket() || kind.is_block_device()
    })
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Opens the destination for writing, under no or a temporary name.
///
/// # Errors
/// IO.
pub fn open_target(destination: Destination, run_id: &str) -> Result<Target> {
    let path = match destination {
        Destination::Pipe(out) => {
            return Ok(Target::Stream(StreamTarget::new(out, "standard output".into())));
        }
        Destination::Path(path) => path,
    };
    let name = path.display().to_string();
    if is_special(&path) {
        let file = File::options().write(true).open(&path).map_err(|e| Error::io(&name, "cannot open for writing", e))?;
        return Ok(Target::Stream(StreamTarget::new(Box::new(file), name)));
    }
    let (path, temp_name) = names(path, run_id);
    let (file, temp) = match unnamed(&folder_of(&path)) {
        Some(file) => (file, None),
        None => {
            let file = File::options()
                .write(true)
                .create_new(true)
                .open(&temp_name)
                .map_err(|e| Error::io(&name, "cannot create the temporary file", e))?;
            (file, Some(temp_name.clone()))
        }
    };
    if let Ok(old) = std::fs::metadata(&path) {
        // The new file keeps the old one's permissions; failing that (another owner) it keeps its own.
        let _ = file.set_permissions(old.permissions());
    }
    Ok(Target::File(FileTarget { file, path, temp: Mutex::new(temp), temp_name }))
}

/// The final name and the temporary one. A symbolic link stays one: the file that it points to is replaced.
fn names(path: PathBuf, run_id: &str) -> (PathBuf, PathBuf) {
    let path = std::fs::canonicalize(&path).unwrap_or_else(|_| follow_links(path));
    let file_name = path.file_name().map_or_else(|| "out".to_string(), |n| n.to_string_lossy().into_owned());
    let temp_name = folder_of(&path).join(temporary(&file_name, run_id));
    (path, temp_name)
}

/// The temporary name of a file called `name`.
pub fn temporary(name: &str, run_id: &str) -> String {
    format!(".{name}{}", suffix(run_id))
}

/// Whether a file is a temporary one of a run.
pub fn is_temporary(path: &Path, run_id: &str) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.starts_with('.') && name.ends_with(&suffix(run_id))
}

/// Begins the file that will be called `path` under its temporary name.
///
/// # Errors
/// IO.
pub fn create_temporary(path: &Path, run_id: &str) -> Result<Target> {
    let file_name = path.file_name().map_or_else(|| "out".to_string(), |n| n.to_string_lossy().into_owned());
    let temp_name = folder_of(path).join(temporary(&file_name, run_id));
    let file = File::options().write(true).create_new(true).open(&temp_name);
    let file = file.map_err(|e| Error::io(path.display().to_string(), "cannot create the temporary file", e))?;
    Ok(Target::File(FileTarget { file, path: path.to_path_buf(), temp: Mutex::new(Some(temp_name.clone())), temp_name }))
}

/// How temporary names of a run end.
fn suffix(run_id: &str) -> String {
    format!(".haul-{}.tmp", run_id.replace('/', "-"))
}

/// A file without a name, where the file system has such.
fn unnamed(folder: &Path) -> Option<File> {
    let mode = Mode::from_raw_mode(0o666);
    let fd = rustix::fs::open(folder, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode).ok()?;
    can_be_named(&fd).then(|| File::from(fd))
}

/// The temporary file that a killed run would leave at `path`; `None` where it has no name.
pub fn would_leave(path: &Path, run_id: &str) -> Option<PathBuf> {
    let (path, temp_name) = names(path.to_path_buf(), run_id);
    let nameless = is_special(&path) || unnamed(&folder_of(&path)).is_some();
    (!nameless).then(|| std::path::absolute(&temp_name).unwrap_or(temp_name))
}

/// Removes the temporary file of a run; whether it was there.
///
/// # Errors
/// A name that no such run could have given; IO.
pub fn remove_left(temp: &Path, run_id: &str) -> Result<bool> {
    if !is_temporary(temp, run_id) {
        return Err(Error::new(ErrorKind::Data, format!("is no temporary file of run {run_id}")).object(temp.display().to_string()));
    }
    match std::fs::remove_file(temp) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io(temp.display().to_string(), "cannot remove the temporary file", e)),
    }
}

/// Where symbolic links that end nowhere yet lead to.
fn follow_links(mut path: PathBuf) -> PathBuf {
    for _ in 0..40 {
        match std::fs::read_link(&path) {
            Ok(next) => path = folder_of(&path).join(next),
            Err(_) => break,
        }
    }
    path
}

/// Giving an unnamed file a name goes through /proc; without it a named temporary file is used.
fn can_be_named(fd: &impl AsRawFd) -> bool {
    Path::new(&format!("/proc/self/fd/{}", fd.as_raw_fd())).exists()
}

impl Target {
    /// For messages.
    pub fn name(&self) -> String {
        match self {
            Self::File(file) => file.path.display().to_string(),
            Self::Stream(stream) => stream.name.clone(),
            Self::Upload(upload) => upload.name(),
        }
    }

    /// An assembler knows only that it writes: the error gets the name of the file.
    pub fn named(&self, error: Error) -> Error {
        if error.place().object.as_deref() == Some(self.name().as_str()) { error } else { error.context(self.name()) }
    }

    /// Whether several threads may write at their own offsets.
    pub fn positional(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Writes all bytes at `offset` (or next, for a stream).
    ///
    /// # Errors
    /// IO.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let result = match self {
            Self::File(file) => file.file.write_all_at(bytes, offset),
            Self::Stream(stream) => stream.out.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes),
            Self::Upload(upload) => return upload.write(bytes),
        };
        result.map_err(|e| self.cannot_write(e))
    }

    fn cannot_write(&self, error: std::io::Error) -> Error {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Error::new(ErrorKind::Io, "the reader of the pipe has gone").object(self.name());
        }
        Error::io(self.name(), "cannot write", error)
    }

    /// The target as a `Write` for assemblers. For files it starts at the beginning.
    ///
    /// # Errors
    /// IO.
    pub fn writer(&self) -> Result<Box<dyn Write + Send>> {
        match self {
            Self::File(file) => {
                let file = file.file.try_clone().map_err(|e| self.cannot_write(e))?;
                Ok(Box::new(BufWriter::with_capacity(256 << 10, file)))
            }
            Self::Stream(stream) => Ok(Box::new(BufWriter::with_capacity(256 << 10, PipeShare(stream.out.clone())))),
            Self::Upload(upload) => Ok(Box::new(BufWriter::with_capacity(256 << 10, UploadShare(upload.clone())))),
        }
    }

    /// Checks that the file is as long as what was written.
    ///
    /// # Errors
    /// `Io`, if it is not.
    pub fn expect_length(&self, expected: u64) -> Result<()> {
        let Self::File(file) = self else { return Ok(()) };
        let found = file.file.metadata().map_err(|e| self.cannot_write(e))?.len();
        if found != expected {
            return Err(Error::new(ErrorKind::Io, format!("{expected} bytes were written but the file has {found}")).object(self.name()));
        }
        Ok(())
    }

    /// Makes the file durable (if asked) and gives it its name; returns its length.
    ///
    /// # Errors
    /// IO: the old file is still there.
    pub fn publish(&self, fsync: bool) -> Result<u64> {
        match self {
            Self::Stream(stream) => {
                let mut pipe = stream.out.lock().unwrap_or_else(PoisonError::into_inner);
                pipe.flush().map_err(|e| self.cannot_write(e))?;
                Ok(pipe.written)
            }
            Self::File(file) => file.publish(fsync).map_err(|e| self.cannot_write(e)),
            Self::Upload(_) => Err(Error::internal("an upload is published by its place")),
        }
    }

    /// Makes the file durable (if asked) and leaves it where it is, under its temporary name; what stands for it, and its length.
    ///
    /// # Errors
    /// IO; a pipe.
    pub fn seal(&self, fsync: bool) -> Result<(String, u64)> {
        match self {
            Self::Stream(_) => Err(Error::internal("a pipe is no file of a set")),
            Self::File(file) => file.seal(fsync).map_err(|e| self.cannot_write(e)),
            Self::Upload(upload) => upload.seal(),
        }
    }

    /// Takes the file back; names what could not be removed.
    pub fn discard(&self) -> Vec<String> {
        let file = match self {
            Self::File(file) => file,
            Self::Stream(_) => return Vec::new(),
            Self::Upload(upload) => return upload.discard(),
        };
        match file.temp.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(temp) if std::fs::remove_file(&temp).is_err() => vec![temp.display().to_string()],
            _ => Vec::new(),
        }
    }
}

impl FileTarget {
    fn seal(&self, fsync: bool) -> std::io::Result<(String, u64)> {
        if fsync {
            self.file.sync_all()?;
        }
        let bytes = self.file.metadata()?.len();
        // From here on it is not removed when this is dropped.
        *self.temp.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok((self.temp_name.display().to_string(), bytes))
    }

    fn publish(&self, fsync: bool) -> std::io::Result<u64> {
        failpoint::pass("file-before-sync");
        if fsync {
            self.file.sync_all()?;
        }
        failpoint::pass("file-after-sync");
        let mut temp = self.temp.lock().unwrap_or_else(PoisonError::into_inner);
        if temp.is_none() {
            // An unnamed file cannot take the place of another one at once: it gets its temporary name first.
            let from = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            rustix::fs::linkat(CWD, from, CWD, &self.temp_name, AtFlags::SYMLINK_FOLLOW)?;
            *temp = Some(self.temp_name.clone());
        }
        failpoint::pass("file-before-rename");
        std::fs::rename(&self.temp_name, &self.path)?;
        failpoint::pass("file-after-rename");
        *temp = None;
        if fsync {
            File::open(folder_of(&self.path))?.sync_all()?;
        }
        Ok(self.file.metadata()?.len())
    }
}

impl Drop for FileTarget {
    fn drop(&mut self) {
        if let Some(temp) = self.temp.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = std::fs::remove_file(temp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_temporary_files_of_the_run_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (_, temp) = names(folder.path().join("out.csv"), "j1");
        assert_eq!(temp.file_name().unwrap(), ".out.csv.haul-j1.tmp");
        std::fs::write(&temp, "half").unwrap();
        assert!(remove_left(&temp, "j2").unwrap_err().to_string().contains("no temporary file of run j2"));
        assert!(remove_left(&folder.path().join("out.csv"), "j1").is_err());
        assert!(remove_left(&temp, "j1").unwrap());
        assert!(!remove_left(&temp, "j1").unwrap());
    }

    #[test]
    fn a_file_without_a_name_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let left = would_leave(&folder.path().join("out.csv"), "j1");
        assert_eq!(left.is_none(), unnamed(folder.path()).is_some());
        // /proc has no files without a name.
        assert_eq!(would_leave(Path::new("/proc/out.csv"), "j1"), Some(PathBuf::from("/proc/.out.csv.haul-j1.tmp")));
        assert_eq!(would_leave(Path::new("/dev/null"), "j1"), None);
    }
}

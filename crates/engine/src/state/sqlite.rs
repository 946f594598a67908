//! The store of one machine: a SQLite file in a folder, and a lock file per job beside it.

use haul_model::{Error, ErrorKind, Held, Result, Saved, Split, StateStore};
use rusqlite::{Connection, params};
use rustix::fs::FlockOperation;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The file in the folder.
const FILE: &str = "state.db";
/// `PRAGMA user_version` of the tables below.
const VERSION: i64 = 2;

const TABLES: &str = "
    CREATE TABLE runs (run TEXT PRIMARY KEY, job TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL, shape TEXT NOT NULL,
        fingerprint TEXT, direct INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER) STRICT;
    CREATE TABLE splits (run TEXT NOT NULL, split INTEGER NOT NULL, what TEXT NOT NULL, rows INTEGER, bytes INTEGER,
        PRIMARY KEY (run, split)) STRICT;
    CREATE TABLE leaves (run TEXT NOT NULL, what TEXT NOT NULL) STRICT;
    PRAGMA user_version = 2;";

/// From version 1 to 2.
const UPGRADE: &str = "BEGIN; ALTER TABLE runs ADD COLUMN ended INTEGER; PRAGMA user_version = 2; COMMIT;";

/// A folder with a SQLite file. Made on first use.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    folder: PathBuf,
}

/// A lock on a file, which the operating system takes back when the process ends.
struct FileLock {
    _file: File,
}

impl Held for FileLock {}

impl SqliteStore {
    /// A store in this folder, which is made with its parents when something is kept.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    fn make_folder(&self) -> Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        // Names of hosts and tables are nobody else's business.
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|e| Error::io(self.name(), "cannot make the folder for state", e).hint("--state DIR puts it elsewhere"))
    }

    /// The database, if there is one.
    fn open(&self) -> Result<Option<Connection>> {
        let path = self.path();
        match std::fs::metadata(&path) {
            Ok(found) if found.len() == 0 => return Err(damaged(&path, "it is empty")),
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(path.display().to_string(), "cannot look at the state", e)),
        }
        let wrong = |e: rusqlite::Error| explain(&path, &e);
        let db = Connection::open(&path).map_err(wrong)?;
        db.busy_timeout(Duration::from_secs(10)).map_err(wrong)?;
        let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(wrong)?;
        if version == 1 {
            db.execute_batch(UPGRADE).map_err(wrong)?;
        } else if version != VERSION {
            return Err(Error::new(ErrorKind::Unsupported, format!("the state is of version {version}, this program knows {VERSION}"))
                .object(path.display().to_string())
                .hint("use the haul that wrote it, or another --state DIR"));
        }
        Ok(Some(db))
    }

    /// The database, made if there is none. It appears under its name with its tables in it, so that an empty file always means damage.
    fn open_or_make(&self) -> Result<Connection> {
        if let Some(db) = self.open()? {
            return Ok(db);
        }
        self.make_folder()?;
        let path = self.path();
        // Streams of one process may all be the first to keep something.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let fresh = self.folder.join(format!("{FILE}.{}.{}", std::process::id(), MADE.fetch_add(1, Relaxed)));
        let _ = std::fs::remove_file(&fresh);
        let wrong = |e: rusqlite::Error| explain(&path, &e);
        let db = Connection::open(&fresh).map_err(wrong)?;
        db.execute_batch(&format!("BEGIN; {TABLES} COMMIT;")).map_err(wrong)?;
        drop(db);
        // Not over one that another process has made meanwhile.
        let linked = std::fs::hard_link(&fresh, &path);
        let _ = std::fs::remove_file(&fresh);
        match linked {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(Error::io(path.display().to_string(), "cannot make the state", e))
            }
            _ => self.open()?.ok_or_else(|| damaged(&path, "it was removed a moment ago")),
        }
    }
}

impl StateStore for SqliteStore {
    fn name(&self) -> String {
        self.folder.display().to_string()
    }

    fn lock(&self, job: &str) -> Result<Option<Box<dyn Held>>> {
        self.make_folder()?;
        let path = self.folder.join(format!("{job}.lock"));
        let io = |e: std::io::Error| Error::io(path.display().to_string(), "cannot lock the job", e);
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(io)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(FileLock { _file: file }))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(io(e.into())),
        }
    }

    fn save(&self, saved: &Saved) -> Result<()> {
        let mut db = self.open_or_make()?;
        let path = self.path();
        let written = (|| {
            let change = db.transaction()?;
            forget(&change, &saved.run)?;
            change.execute(
                "INSERT INTO runs (run, job, source, target, shape, fingerprint, direct, started, ended) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    saved.run,
                    saved.job,
                    saved.source,
                    saved.target,
                    saved.shape,
                    saved.fingerprint,
                    saved.direct,
                    signed(saved.started),
                    saved.ended.map(signed)
                ],
            )?;
            let mut insert = change.prepare("INSERT INTO splits (run, split, what, rows, bytes) VALUES (?1, ?2, ?3, ?4, ?5)")?;
            for split in &saved.splits {
                insert.execute(params![saved.run, split.id, split.what, split.rows.map(signed), split.bytes.map(signed)])?;
            }
            drop(insert);
            for what in &saved.leaves {
                change.execute("INSERT INTO leaves (run, what) VALUES (?1, ?2)", params![saved.run, what])?;
            }
            change.commit()
        })();
        written.map_err(|e: rusqlite::Error| explain(&path, &e))
    }

    fn remove(&self, run: &str) -> Result<()> {
        let Some(mut db) = self.open()? else { return Ok(()) };
        let path = self.path();
        let written = (|| {
            let change = db.transaction()?;
            forget(&change, run)?;
            change.commit()
        })();
        written.map_err(|e: rusqlite::Error| explain(&path, &e))
    }

    fn all(&self) -> Result<Vec<Saved>> {
        let Some(db) = self.open()? else { return Ok(Vec::new()) };
        let path = self.path();
        let health: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(|e| explain(&path, &e))?;
        if health != "ok" {
            return Err(damaged(&path, &health.replace('\n', " ")));
        }
        read_all(&db).map_err(|e| explain(&path, &e))
    }
}

fn forget(db: &Connection, run: &str) -> rusqlite::Result<()> {
    for table in ["runs", "splits", "leaves"] {
        db.execute(&format!("DELETE FROM {table} WHERE run = ?1"), [run])?;
    }
    Ok(())
}

fn read_all(db: &Connection) -> rusqlite::Result<Vec<Saved>> {
    let mut runs = db
        .prepare("SELECT run, job, source, target, shape, fingerprint, direct, started, ended FROM runs ORDER BY started DESC, run DESC")?;
    let mut splits = db.prepare("SELECT split, what, rows, bytes FROM splits WHERE run = ?1 ORDER BY split")?;
    let mut leaves = db.prepare("SELECT what FROM leaves WHERE run = ?1 ORDER BY rowid")?;
    let found = runs.query_map([], |row| {
        Ok(Saved {
            run: row.get(0)?,
            job: row.get(1)?,
            source: row.get(2)?,
            target: row.get(3)?,
            shape: row.get(4)?,
            fingerprint: row.get(5)?,
            direct: row.get(6)?,
            started: unsigned(row.get(7)?),
            ended: row.get::<_, Option<i64>>(8)?.map(unsigned),
            ..Saved::default()
        })
    })?;
    let mut out = Vec::new();
    for saved in found {
        let mut saved = saved?;
        let rows = splits.query_map([&saved.run], |row| {
            let (rows, bytes): (Option<i64>, Option<i64>) = (row.get(2)?, row.get(3)?);
            Ok(Split { id: row.get(0)?, what: row.get(1)?, rows: rows.map(unsigned), bytes: bytes.map(unsigned) })
        })?;
        saved.splits = rows.collect::<rusqlite::Result<_>>()?;
        saved.leaves = leaves.query_map([&saved.run], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        out.push(saved);
    }
    Ok(out)
}

/// SQLite's numbers are signed.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

fn damaged(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Data, format!("the state of earlier runs cannot be read: {why}")).object(path.display().to_string()).hint(
        "remove the file to start with a new one (what killed runs have left must then be removed by hand), or use another --state DIR",
    )
}

fn explain(path: &Path, error: &rusqlite::Error) -> Error {
    use rusqlite::ErrorCode as Code;
    match error.sqlite_error_code() {
        Some(Code::DatabaseCorrupt | Code::NotADatabase) | None => damaged(path, &error.to_string()),
        Some(code) => {
            let kind = match code {
                Code::DiskFull => ErrorKind::DiskFull,
                Code::DatabaseBusy | Code::DatabaseLocked => ErrorKind::Timeout,
                Code::PermissionDenied | Code::ReadOnly | Code::CannotOpen => ErrorKind::Permission,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot use the state: {error}"))
                .object(path.display().to_string())
                .hint("--state DIR puts it elsewhere")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(job: &str, run: &str, started: u64) -> Saved {
        Saved {
            job: job.into(),
            run: run.into(),
            source: "postgres://a/b".into(),
            target: "postgres://c/d".into(),
            shape: "x".into(),
            fingerprint: Some("{}".into()),
            splits: vec![
                Split { id: 0, what: "\"s\".\"line\nbreak\" pages 0-9".into(), rows: None, bytes: Some(81920) },
                Split { id: 1, what: "all".into(), rows: Some(u64::MAX), bytes: None },
            ],
            leaves: vec!["table \"s\".\"haul_r_t\"".into()],
            direct: false,
            started,
            ended: (started > 5).then_some(7),
        }
    }

    #[test]
    fn what_is_kept_comes_back_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::new(folder.path().join("deep/er"));
        assert_eq!(store.all().unwrap(), []);
        store.remove("r1").unwrap();
        let (one, two) = (saved("j", "r1", 5), saved("j", "r2", 6));
        store.save(&one).unwrap();
        store.save(&two).unwrap();
        store.save(&two).unwrap();
        let mut back = store.all().unwrap();
        back[0].splits[1].rows = Some(u64::MAX);
        back[1].splits[1].rows = Some(u64::MAX);
        assert_eq!(back, [two.clone(), one]);
        store.remove("r1").unwrap();
        assert_eq!(store.all().unwrap().len(), 1);
    }

    #[test]
    fn re_03_a_damaged_file_is_named_and_never_taken_for_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::new(folder.path());
        store.save(&saved("j", "r1", 5)).unwrap();
        let path = folder.path().join(FILE);
        let whole = std::fs::read(&path).unwrap();
        for cut in [0, 10, whole.len() / 2] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let error = store.all().unwrap_err();
            assert_eq!(error.place().object.as_deref(), Some(path.display().to_string().as_str()), "{cut}: {error}");
            assert!(error.hint_text().unwrap().contains("--state DIR"), "{cut}: {error}");
        }
        std::fs::write(&path, b"this is not a database, whatever its name may say of it").unwrap();
        assert!(store.save(&saved("j", "r2", 6)).is_err());
    }

    #[test]
    fn re_03_a_job_is_run_by_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::new(folder.path());
        let held = store.lock("j").unwrap();
        assert!(held.is_some());
        assert!(store.lock("j").unwrap().is_none());
        assert!(store.lock("k").unwrap().is_some());
        drop(held);
        assert!(store.lock("j").unwrap().is_some());
    }
}

//! The password file: lines of `host:port:database:user:password`, `*` for any, `\:` and `\\` for the characters themselves.

use haul_model::{Error, Result};
use haul_pgwire::Host;
use std::io::ErrorKind;
use std::path::Path;

/// What was found at the file's place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Its text.
    Text(String),
    /// No such file, or not a plain one.
    Absent,
    /// Others may read it (its mode), so it is not used.
    Unsafe(u32),
}

/// Reads the file.
///
/// # Errors
/// A file that is there and cannot be read.
pub(super) fn read(path: &Path) -> Result<Content> {
    use std::os::unix::fs::PermissionsExt;
    let meta = match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => meta,
        Ok(_) => return Ok(Content::Absent),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::NotADirectory) => {
            return Ok(Content::Absent);
        }
        Err(e) => return Err(Error::io(path.display().to_string(), "cannot read the password file", e)),
    };
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Ok(Content::Unsafe(mode));
    }
    let bytes = std::fs::read(path).map_err(|e| Error::io(path.display().to_string(), "cannot read the password file", e))?;
    Ok(Content::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The password of the first line that fits.
pub(super) fn find(text: &str, host: &Host, database: &str, user: &str) -> Option<String> {
    let (name, folder, port) = match host {
        Host::Tcp(name, port) => (name.clone(), None, *port),
        Host::Unix(folder, port) => ("localhost".to_string(), Some(folder.display().to_string()), *port),
    };
    let port = port.to_string();
    text.lines().map(|line| line.trim_end_matches('\r')).filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = Fields(line);
        let fits = |field: Option<Field>, value: &str| field.is_some_and(|f| f.any || f.text == value);
        let host = fields.next()?;
        let host_fits = host.any || host.text == name || folder.as_ref().is_some_and(|f| *f == host.text);
        (host_fits & fits(fields.next(), &port) & fits(fields.next(), database) & fits(fields.next(), user)).then_some(())?;
        Some(unescape(fields.0)).filter(|p| !p.is_empty())
    })
}

struct Field {
    any: bool,
    text: String,
}

/// The fields of a line, one by one; what is left is the password.
struct Fields<'a>(&'a str);

impl Fields<'_> {
    fn next(&mut self) -> Option<Field> {
        let mut escaped = false;
        let end = self.0.find(|c| {
            let ends = c == ':' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })?;
        let (field, rest) = (&self.0[..end], &self.0[end + 1..]);
        self.0 = rest;
        Some(Field { any: field == "*", text: unescape(field) })
    }
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next().unwrap_or('\\') } else { c });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "# comment\nshort:line\nh:5432:d b/1:u@x:p@\\:/#?%25\\\\ é\r\n*:*:*:any:wild\n/sock:1:*:s:sock\nlocalhost:*:*:l:local\n";

    #[test]
    fn cn_01_escapes_and_wildcards() {
        let find = |host: &str, port, database, user| find(FILE, &Host::Tcp(host.into(), port), database, user);
        assert_eq!(find("h", 5432, "d b/1", "u@x").as_deref(), Some("p@:/#?%25\\ é"));
        assert_eq!(find("h", 5433, "d b/1", "u@x"), None);
        assert_eq!(find("whatever", 1, "x", "any").as_deref(), Some("wild"));
    }

    #[test]
    fn cn_03_sockets_match_their_folder_or_localhost() {
        let find = |folder: &str, user| find(FILE, &Host::Unix(folder.into(), 1), "d", user);
        assert_eq!((find("/sock", "s").as_deref(), find("/tmp", "l").as_deref(), find("/tmp", "s")), (Some("sock"), Some("local"), None));
    }

    #[test]
    fn cn_03_a_file_that_others_can_read_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgpass");
        assert_eq!(read(&path).unwrap(), Content::Absent);
        std::fs::write(&path, "*:*:*:*:x").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read(&path).unwrap(), Content::Unsafe(0o644));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(&path).unwrap(), Content::Text("*:*:*:*:x".into()));
    }
}

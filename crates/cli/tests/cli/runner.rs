//! Runs the real binary in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// What a run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Exit code; -1 when ended by a signal.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error, times and rates replaced.
    pub err: String,
}

impl Ran {
    /// The output of a run that must have succeeded.
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
    /// The output of a run that must have failed as a job (exit 1).
    pub fn failed(self) -> Self {
        assert_eq!(self.code, 1, "{self:?}");
        self
    }
    /// The output of a run that must have been refused before it began (exit 2).
    pub fn failed_config(self) -> Self {
        assert_eq!(self.code, 2, "{self:?}");
        self
    }
    /// The output of a run that must have failed, before or after it began.
    pub fn refused(self) -> Self {
        assert!(self.code > 0, "{self:?}");
        self
    }
    /// All of it, for snapshots.
    pub fn whole(&self) -> String {
        format!("exit {}\n--- stdout\n{}--- stderr\n{}", self.code, self.out, self.err)
    }
    /// The (read, written, rejected) of the last line.
    pub fn account(&self) -> (u64, u64, u64) {
        let line = self.err.lines().rev().find(|l| l.starts_with("read ")).unwrap_or_else(|| panic!("no last line in {self:?}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words[i].replace(',', "").parse().unwrap();
        (number(1), number(3), number(5))
    }
}

/// Whether the slow sets are wanted.
pub fn full() -> bool {
    std::env::var_os("HAUL_FULL").is_some()
}

/// A folder for one test, removed with it.
/// The state of its runs is kept in a second one, so that it holds only what a test has put there.
pub struct Folder(tempfile::TempDir, tempfile::TempDir);

impl Folder {
    /// A new one.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap())
    }
    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    /// Writes a file; gives its path as text.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name).display().to_string()
    }
    /// Reads a file.
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }
    /// Reads a text file.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }
    /// Copies `from` to JSON Lines with these flags; gives the lines.
    pub fn lines_of(&self, from: &str, flags: &[&str]) -> Vec<String> {
        let mut arguments = vec!["copy", from, "lines.jsonl"];
        arguments.extend(flags);
        let ran = self.haul(&arguments).ok();
        let lines: Vec<String> = self.text("lines.jsonl").lines().map(str::to_string).collect();
        assert_eq!(ran.account().1, lines.len() as u64, "{ran:?}");
        lines
    }
    /// What Python (standard library only) prints, run here.
    pub fn python(&self, code: &str) -> String {
        let output = Command::new("python3").args(["-c", code]).current_dir(self.0.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
    /// Names of the files in it, hidden ones too, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(self.0.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
    /// The command, with this as its working folder and a clean environment. Most tests are about rows that go through Haul: between
    /// two tables the server is not to move them by itself, unless `--pushdown` is said.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        command.args(arguments);
        if let ["copy" | "plan", from, to, rest @ ..] = arguments
            && [from, to].iter().all(|end| end.starts_with("postgres://"))
            && !rest.contains(&"--pushdown")
        {
            command.args(["--pushdown", "never"]);
        }
        command.current_dir(self.0.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(n, _)| n.starts_with("PG")) {
            command.env_remove(name);
        }
        command.env("XDG_STATE_HOME", self.1.path());
        command
    }
    /// Runs `haul ARGUMENTS` here.
    pub fn haul(&self, arguments: &[&str]) -> Ran {
        self.ran(self.command(arguments).output().unwrap())
    }
    /// As [`Folder::haul`], on one core: with one worker.
    pub fn on_one_core(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new("taskset");
        let core = std::fs::read_to_string("/proc/self/status").unwrap();
        let core = core.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let core: String = core.trim().chars().take_while(char::is_ascii_digit).collect();
        command.args(["-c", &core, env!("CARGO_BIN_EXE_haul")]).args(arguments).current_dir(self.0.path());
        command.env("XDG_STATE_HOME", self.1.path());
        self.ran(command.output().unwrap())
    }
    /// Runs a command line split at spaces.
    pub fn line(&self, line: &str) -> Ran {
        self.haul(&line.split_whitespace().collect::<Vec<_>>())
    }
    /// Runs with bytes on standard input.
    pub fn piped(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let file = self.write(".stdin", input);
        let output = self.command(arguments).stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
        std::fs::remove_file(file).unwrap();
        self.ran(output)
    }
    /// Runs `haul ARGUMENTS` here with a failpoint.
    pub fn failing(&self, place: &str, arguments: &[&str]) -> Ran {
        self.ran(self.command(arguments).env("HAUL_FAILPOINT", place).output().unwrap())
    }
    /// Starts and does not wait.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
    /// The output of a finished process, scrubbed.
    pub fn ran(&self, output: Output) -> Ran {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: self.scrub(&text(output.stdout), self.0.path()),
            err: self.scrub(&text(output.stderr), self.0.path()),
        }
    }

    /// The folder's name becomes DIR, times and rates TIME.
    fn scrub(&self, text: &str, folder: &Path) -> String {
        let text = text.replace(&folder.display().to_string(), "DIR");
        let lines = text.split_inclusive('\n').map(|line| match line.find("  in ") {
            Some(at) if line.starts_with("read ") => format!("{}  in TIME\n", &line[..at]),
            _ => line.to_string(),
        });
        lines.collect()
    }
}

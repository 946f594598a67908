//! A PostgreSQL server of a test's own, which it may stop as a power cut would.

use crate::services::postgres;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs servers for `./test` when it is run by root.
const USER: &str = "haultest";

/// A server with nothing in it, durable (`fsync` on), on a port of 127.0.0.1. Ends with the test.
#[derive(Debug)]
pub struct Instance {
    folder: tempfile::TempDir,
    bin: PathBuf,
    /// Where it listens.
    pub port: u16,
}

impl Default for Instance {
    fn default() -> Self {
        Self::new()
    }
}

impl Instance {
    /// Makes and starts one.
    ///
    /// # Panics
    /// Outside `./test`, or when it does not start.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let instance = Self { folder, bin: postgres().bin, port };
        if root() {
            let folder = instance.folder.path().display().to_string();
            assert!(Command::new("chown").args([USER, &folder]).status().unwrap().success());
        }
        instance.run("initdb", &["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "-D"]);
        instance.start();
        instance
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    /// One of the server's programs, with the data folder as its last argument.
    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = if root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(self.bin.join(program));
            command
        } else {
            Command::new(self.bin.join(program))
        };
        command.args(arguments).arg(self.data()).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        // Not through pipes: the server that pg_ctl leaves behind would hold them open.
        let log = self.folder.path().join(format!("{program}.log"));
        let out = std::fs::File::create(&log).unwrap();
        let status = self.command(program, arguments).stdout(out.try_clone().unwrap()).stderr(out).status().unwrap();
        assert!(status.success(), "{program}: {}", std::fs::read_to_string(log).unwrap_or_default());
    }

    /// Starts it (again), and waits until it answers.
    ///
    /// # Panics
    /// When it does not within a minute.
    pub fn start(&self) {
        let options = format!(
            "-c port={} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=30 -c shared_buffers=32MB",
            self.port
        );
        self.run("pg_ctl", &["start", "-w", "-t", "60", "-s", "-l", "server.log", "-o", &options, "-D"]);
        let begun = Instant::now();
        while !self.psql("select 1").status.success() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the server does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it at once, without a word to its clients and without a checkpoint: it recovers when it starts again.
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop_immediately(&self) {
        self.run("pg_ctl", &["stop", "-m", "immediate", "-w", "-s", "-D"]);
    }

    /// URI of a table in the database `postgres`, over this port or that of a proxy.
    pub fn table(&self, port: u16, table: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable&table={table}")
    }

    /// What statements print, as [`crate::pg::Scratch::sql`].
    ///
    /// # Panics
    /// With the server's message.
    pub fn sql(&self, sql: &str) -> String {
        let output = self.psql(sql);
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_string()
    }

    fn psql(&self, sql: &str) -> Output {
        let mut command = Command::new(self.bin.join("psql"));
        command.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-d",
            "postgres",
            "-c",
            sql,
            "-p",
        ]);
        command.arg(self.port.to_string()).env_remove("PGOPTIONS").output().unwrap()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.command("pg_ctl", &["stop", "-m", "immediate", "-w", "-s", "-D"]).status();
    }
}

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

//! Topics of a test's own, and records in and out of them by another client than Haul's.

use crate::services::{python, required};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A topic. Names are not used twice.
#[derive(Debug, Clone)]
pub struct Topic {
    /// `host:port`.
    pub brokers: String,
    /// Its name.
    pub name: String,
}

/// A name that no other test has.
pub fn unique(what: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{what}-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed))
}

/// The broker that `./test` has started.
///
/// # Panics
/// Outside `./test`.
pub fn brokers() -> String {
    required("HAUL_KAFKA")
}

/// Runs the other client: its output.
///
/// # Panics
/// When it fails.
pub fn client(brokers: &str, arguments: &[&str], input: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/kafka.py");
    let mut command = Command::new(python());
    command.arg(script).arg(brokers).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_string();
    let feeder = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

impl Topic {
    /// Makes one on the broker of `./test`.
    ///
    /// # Panics
    /// Outside `./test`.
    pub fn new(partitions: u32, settings: &[&str]) -> Self {
        Self::on(&brokers(), partitions, settings)
    }
    /// Makes one.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn on(brokers: &str, partitions: u32, settings: &[&str]) -> Self {
        let topic = Self::named(brokers);
        let count = partitions.to_string();
        topic.run(&[&["create", &topic.name, &count], settings].concat(), "");
        topic
    }
    /// One that is not there.
    pub fn named(brokers: &str) -> Self {
        Self { brokers: brokers.to_string(), name: unique("haul.t") }
    }
    /// `kafka://host:port/topic`.
    pub fn uri(&self) -> String {
        format!("kafka://{}/{}", self.brokers, self.name)
    }
    /// Runs the other client.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, arguments: &[&str], input: &str) -> String {
        client(&self.brokers, arguments, input)
    }
    /// Records: JSON lines of `kafka.py`.
    pub fn produce(&self, records: &str) {
        self.run(&["produce", &self.name], records);
    }
    /// `{"id": n, "text": ...}` for each number, spread over the partitions.
    pub fn numbers(&self, from: u64, to: u64, partitions: u32, pad: usize) {
        let [from, to, partitions, pad] = [from.to_string(), to.to_string(), partitions.to_string(), pad.to_string()];
        self.run(&["numbers", &self.name, &from, &to, &partitions, &pad], "");
    }
    /// All records that a reader of committed ones sees, as JSON lines.
    pub fn dump(&self) -> String {
        self.run(&["dump", &self.name], "")
    }
    /// The ids in the values of all committed records, in ascending order.
    pub fn ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.run(&["ids", &self.name], "").lines().map(|line| line.parse().unwrap()).collect();
        ids.sort_unstable();
        ids
    }
    /// What a group has committed: `{"0": 17}`.
    pub fn committed(&self, group: &str) -> String {
        self.run(&["committed", group, &self.name], "").trim().to_string()
    }
}

/// A broker of a test's own, which it may stop and start again.
#[derive(Debug)]
pub struct Broker {
    folder: tempfile::TempDir,
    child: Option<Child>,
    /// `127.0.0.1:port`.
    pub brokers: String,
}

impl Default for Broker {
    fn default() -> Self {
        Self::new()
    }
}

impl Broker {
    /// Makes and starts one.
    ///
    /// # Panics
    /// Outside `./test`, or when it does not start.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let free: Vec<_> = (0..2).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let [control, port] = [0, 1].map(|i: usize| free[i].local_addr().unwrap().port());
        drop(free);
        let text = std::fs::read_to_string(home().join("server.properties")).unwrap();
        let mine = [
            format!("controller.quorum.voters=1@127.0.0.1:{control}"),
            format!("listeners=CONTROLLER://127.0.0.1:{control},PLAINTEXT://127.0.0.1:{port}"),
            format!("advertised.listeners=PLAINTEXT://127.0.0.1:{port}"),
            format!("log.dirs={}", folder.path().join("data").display()),
        ];
        let named = |line: &str| mine.iter().any(|m| m.split('=').next() == line.split('=').next());
        let other = text.lines().filter(|line| !named(line) && !line.contains("ssl") && !line.contains("sasl"));
        let all: Vec<&str> = other
            .chain(mine.iter().map(String::as_str))
            .chain(["listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"])
            .collect();
        std::fs::write(folder.path().join("server.properties"), all.join("\n")).unwrap();
        let mut broker = Self { folder, child: None, brokers: format!("127.0.0.1:{port}") };
        let format = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c"];
        let output = broker.java(&format).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        broker.start();
        broker
    }

    fn java(&self, arguments: &[&str]) -> Command {
        let home = home();
        let mut command = Command::new("java");
        command.args(["-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.arg(format!("-Dlog4j2.configurationFile={}", home.join("log4j2.properties").display()));
        command.arg("-cp").arg(format!("{}/*", home.join("libs").display())).args(arguments);
        command.arg(self.folder.path().join("server.properties")).stdin(Stdio::null());
        command
    }

    /// Starts it (again) and waits until it answers.
    ///
    /// # Panics
    /// When it does not within a minute.
    pub fn start(&mut self) {
        let log = self.folder.path().join("log");
        let out = std::fs::File::create(&log).unwrap();
        self.child = Some(self.java(&["kafka.Kafka"]).stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap());
        let begun = Instant::now();
        while !std::fs::read_to_string(&log).unwrap_or_default().contains("Kafka Server started") {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", std::fs::read_to_string(&log).unwrap());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

fn home() -> PathBuf {
    required("HAUL_KAFKA_HOME").into()
}

//! The S3 servers of tests: the one that `./test` has started, and others of a test's own that it may end.

use crate::services::required;
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An S3 that answers, with a bucket `haul`.
#[derive(Debug, Clone)]
pub struct S3 {
    /// `http://127.0.0.1:PORT`.
    pub endpoint: String,
    /// Who may do everything.
    pub key: String,
    /// His secret.
    pub secret: String,
}

impl S3 {
    /// The server that all tests share: work below a prefix of your own. The key `haulread` with the secret `readsecret` may only read.
    pub fn shared() -> Self {
        Self { endpoint: required("HAUL_S3_ENDPOINT"), key: required("HAUL_S3_KEY"), secret: required("HAUL_S3_SECRET") }
    }

    /// One request, signed: its status (0: nobody answers) and the answer.
    pub fn ask(&self, method: &str, target: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut child = Command::new("python3")
            .args(["-c", include_str!("s3.py"), &self.endpoint, &self.key, &self.secret, method, target])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(body).unwrap();
        let mut answer = child.wait_with_output().unwrap().stdout;
        let line = answer.iter().position(|b| *b == b'\n').unwrap();
        let rest = answer.split_off(line + 1);
        (String::from_utf8(answer).unwrap().trim().parse().unwrap(), rest)
    }

    /// An object of the bucket.
    pub fn get(&self, key: &str) -> Vec<u8> {
        let (status, body) = self.ask("GET", &format!("/haul/{key}"), b"");
        assert_eq!(status, 200, "{key}: {}", String::from_utf8_lossy(&body));
        body
    }

    /// Puts an object into the bucket.
    pub fn put(&self, key: &str, body: &[u8]) {
        assert_eq!(self.ask("PUT", &format!("/haul/{key}"), body).0, 200, "{key}");
    }

    /// Keys below a prefix, in order.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let (status, body) = self.ask("GET", &format!("/haul?list-type=2&prefix={prefix}"), b"");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        found(&body, "<Key>", "</Key>")
    }

    /// Keys of uploads that are not finished, below a prefix.
    pub fn uploads(&self, prefix: &str) -> Vec<String> {
        let (status, body) = self.ask("GET", "/haul?uploads=", b"");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        found(&body, "<Key>", "</Key>").into_iter().filter(|key| key.starts_with(prefix)).collect()
    }
}

fn found(body: &[u8], from: &str, to: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(body);
    text.split(from).skip(1).filter_map(|rest| rest.split_once(to)).map(|(key, _)| key.to_string()).collect()
}

/// A server of a test's own, which ends with it.
#[derive(Debug)]
pub struct OwnS3 {
    /// How it is asked.
    pub s3: S3,
    ports: [u16; 5],
    folder: PathBuf,
    process: Option<Child>,
}

impl OwnS3 {
    /// Starts one, with its files in `folder`.
    ///
    /// # Panics
    /// When it does not answer within a minute.
    pub fn start(folder: PathBuf) -> Self {
        let ports = free_ports();
        let shared = S3::shared();
        let s3 = S3 { endpoint: format!("http://127.0.0.1:{}", ports[0]), ..shared };
        let mut own = Self { s3, ports, folder, process: None };
        own.begin();
        own
    }

    /// Starts it again, with what it had.
    pub fn begin(&mut self) {
        std::fs::create_dir_all(&self.folder).unwrap();
        let [s3, master, volume, filer, other] = self.ports.map(|port| port.to_string());
        let log = std::fs::File::create(self.folder.with_extension("log")).unwrap();
        let mut command = Command::new(required("HAUL_S3_WEED"));
        command.arg("server").arg(format!("-dir={}", self.folder.display()));
        command.args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=20"]);
        command.args([format!("-master.port={master}"), format!("-volume.port={volume}"), format!("-filer.port={filer}")]);
        command.args(["-filer", "-s3", "-s3.port.lance=0"]).args([format!("-s3.port={s3}"), format!("-s3.port.iceberg={other}")]);
        command.arg(format!("-s3.config={}", required("HAUL_S3_CONFIG")));
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.process = Some(child);
        let start = Instant::now();
        let ready = |s3: &S3| matches!(s3.ask("PUT", "/haul", b"").0, 200 | 409) && s3.ask("PUT", "/haul/_ready", b"ready").0 == 200;
        while !ready(&self.s3) {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "SeaweedFS does not answer: see {}",
                self.folder.with_extension("log").display()
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

impl Drop for OwnS3 {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Five ports under 45000 whose neighbours 10000 above are free too: SeaweedFS listens there as well.
fn free_ports() -> [u16; 5] {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let mut at = 20_000 + (std::process::id() as u16 % 200) * 50;
    [(); 5].map(|()| {
        loop {
            at = if at > 44_000 { 20_000 } else { at + 1 };
            if free(at) && free(at + 10_000) {
                return at;
            }
        }
    })
}

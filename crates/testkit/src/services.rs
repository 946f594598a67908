//! The servers that `./test` has started, by what it exported.

use std::path::PathBuf;

/// A variable that `./test` exports.
///
/// # Panics
/// When it is missing, with the way to run the tests.
pub fn required(name: &str) -> String {
    match optional(name) {
        Some(value) => value,
        None => panic!("{name} is not set: this test needs its servers. Run it as `./test ...`, or `./test --with cargo test ...`"),
    }
}

/// A variable that may be empty where the machine could not offer the thing (see each caller).
pub fn optional(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether the slow sets were asked for (`./test --full`).
pub fn full() -> bool {
    optional("HAUL_FULL").is_some()
}

/// A 20 MiB disk that tests may fill, or `None` where it could not be mounted (no root). Tests share it: work in a folder
/// of your own and remove it.
pub fn small_disk() -> Option<PathBuf> {
    optional("HAUL_SMALL_DISK").map(PathBuf::from)
}

/// A Python with pyarrow, as a second reader of Parquet and Arrow files.
pub fn python() -> PathBuf {
    required("HAUL_TEST_PYTHON").into()
}

/// Runs a Python script with arguments; returns what it printed.
///
/// # Panics
/// When it fails, with its error output.
pub fn run_python(script: &str, arguments: &[&str]) -> String {
    let output = std::process::Command::new(python()).arg("-c").arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The PostgreSQL server: version 15, TLS on, superuser `postgres` without a password on this machine. Roles
/// `haul_cert` (client certificate), `haul_tls` (TLS only), `haul_md5` and `haul_clear` get those methods when a test creates
/// them; every other role needs SCRAM.
#[derive(Debug, Clone)]
pub struct Postgres {
    /// `postgres://postgres@127.0.0.1:PORT/postgres`.
    pub url: String,
    /// TCP port on 127.0.0.1 and ::1.
    pub port: u16,
    /// Folder of the Unix socket.
    pub socket: PathBuf,
    /// Folder of `psql`, `pg_dump` and the server's own programs.
    pub bin: PathBuf,
    /// The authority that signed the server's certificate (for `localhost` and `::1`, not for 127.0.0.1).
    pub ca: PathBuf,
    /// An authority that signed nothing here.
    pub other_ca: PathBuf,
    /// Client certificate of the role `haul_cert`, and its key.
    pub client: (PathBuf, PathBuf),
    /// A tablespace of 20 MiB, where one could be mounted.
    pub small_tablespace: Option<String>,
}

/// The PostgreSQL server.
///
/// # Panics
/// Outside `./test`.
pub fn postgres() -> Postgres {
    let path = |name| PathBuf::from(required(name));
    Postgres {
        url: required("HAUL_PG_URL"),
        port: port("HAUL_PG_PORT"),
        socket: path("HAUL_PG_SOCKET"),
        bin: path("HAUL_PG_BIN"),
        ca: path("HAUL_PG_CA"),
        other_ca: path("HAUL_PG_OTHER_CA"),
        client: (path("HAUL_PG_CLIENT_CERT"), path("HAUL_PG_CLIENT_KEY")),
        small_tablespace: optional("HAUL_PG_SMALL_TABLESPACE"),
    }
}

/// PostgreSQL 18: superuser `postgres` without a password, no TLS. The clients are those of the other server.
///
/// # Panics
/// Outside `./test`.
pub fn postgres18() -> Postgres {
    let socket = required("HAUL_PG18_SOCKET").into();
    Postgres { url: required("HAUL_PG18_URL"), port: port("HAUL_PG18_PORT"), socket, small_tablespace: None, ..postgres() }
}

/// Ports of pgbouncer in front of every database of that server, user `postgres`: session pools, transaction pools.
///
/// # Panics
/// Outside `./test`.
pub fn pgbouncer() -> (u16, u16) {
    (port("HAUL_PGBOUNCER_PORT"), port("HAUL_PGBOUNCER_TX_PORT"))
}

fn port(name: &str) -> u16 {
    required(name).parse().unwrap_or_else(|_| panic!("{name} is not a port"))
}

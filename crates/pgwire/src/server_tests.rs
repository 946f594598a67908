//! Against a real server (`HAUL_PG_URL`, which `./test` sets) and against small fakes of a broken one.

use crate::{Config, Connection, CopyFormat, CopyOut, Error, Host, RootCert, Secret, SslMode, TargetSession, Transaction};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: these tests need the server that ./test starts"))
}

/// Port of `postgres://postgres@127.0.0.1:PORT/postgres`.
fn port() -> u16 {
    let url = variable("HAUL_PG_URL");
    url.rsplit(':').next().and_then(|rest| rest.split('/').next()?.parse().ok()).expect("HAUL_PG_URL has a port")
}

pub(crate) fn config() -> Config {
    let mut config = Config::new(Host::Tcp("127.0.0.1".into(), port()), "postgres", "postgres");
    config.sslmode = SslMode::Disable;
    config
}

pub(crate) fn no_stop() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

pub(crate) fn connect() -> Connection {
    Connection::connect(&config(), no_stop()).unwrap()
}

/// A role that logs in with the method that the server has for this name.
fn role(name: &str, password: &str, encryption: &str) -> Config {
    let mut admin = connect();
    admin.execute(&format!("SET password_encryption = '{encryption}'")).unwrap();
    admin.execute(&format!("DROP ROLE IF EXISTS {name}")).unwrap();
    admin.execute(&format!("CREATE ROLE {name} LOGIN PASSWORD '{password}'")).unwrap();
    let mut config = config();
    config.user = name.into();
    config.password = Some(Secret::new(password));
    config
}

/// A server that takes one connection, and what it does with it.
pub(crate) fn fake(serve: impl FnOnce(std::net::TcpStream) + Send + 'static) -> Config {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || serve(listener.accept().unwrap().0));
    let mut config = Config::new(Host::Tcp("127.0.0.1".into(), port), "u", "d");
    config.connect_timeout = Some(Duration::from_millis(600));
    config
}

pub(crate) fn read_frame(stream: &mut std::net::TcpStream) -> Vec<u8> {
    let mut head = [0u8; 4];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0u8; u32::from_be_bytes(head) as usize - 4];
    stream.read_exact(&mut body).unwrap();
    body
}

/// A CA that signed nothing here. Asked for at run time: a build may be older than the place that it runs in.
fn another_ca() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it for tests")).join("src/testdata/another_ca.pem")
}

#[test]
fn statements_results_and_errors() {
    let mut c = connect();
    assert!(c.server_version() >= 100_000 && c.backend_pid() > 0);
    let results = c.simple_query("SELECT 1 AS a, NULL AS b; CREATE TEMP TABLE t(x int); INSERT INTO t VALUES (1),(2)").unwrap();
    assert_eq!((results[0].first().unwrap().text(0), results[0].first().unwrap().get(1)), ("1", None));
    assert_eq!((results[0].columns[0].name.as_str(), results[2].count()), ("a", 2));
    let rows = c.query("SELECT $1::int + 1, $2::text, $3::text", &[Some("41"), None, Some("it's")]).unwrap();
    assert_eq!((rows[0].parse::<i32>(0), rows[0].get(1), rows[0].text(2)), (Some(42), None, "it's"));
    assert_eq!(c.query("DELETE FROM t", &[]).unwrap().count(), 2);
    let columns = c.describe("SELECT 1::numeric(5,2) AS n, 'x'::text AS t").unwrap();
    assert_eq!((columns[0].type_oid, columns[0].typmod, columns[1].type_oid), (1700, ((5 << 16) | 2) + 4, 25));
    assert!(c.describe("CREATE TEMP TABLE never()").unwrap().is_empty());

    c.execute("BEGIN").unwrap();
    assert_eq!(c.transaction(), Transaction::Open);
    let error = c.execute("SELECT nope FROM t").unwrap_err();
    let server = error.server().unwrap();
    assert_eq!((server.code.as_str(), server.position), ("42703", Some(8)));
    assert_eq!(c.transaction(), Transaction::Failed);
    c.execute("ROLLBACK").unwrap();
    c.execute("DO $$ BEGIN RAISE NOTICE 'hello'; END $$").unwrap();
    assert_eq!(c.take_notices()[0].message, "hello");
    assert!(c.simple_query("SELECT 1; COPY t FROM STDIN").is_err() && c.is_usable());
    c.execute("SET application_name = 'x y'").unwrap();
    assert_eq!(c.parameter_status("application_name"), Some("x y"));
}

#[test]
fn log_in_by_every_password_method() {
    for (name, encryption) in [("haul_wire_scram", "scram-sha-256"), ("haul_md5", "md5"), ("haul_clear", "scram-sha-256")] {
        let mut good = role(name, "pä ss", encryption);
        Connection::connect(&good, no_stop()).unwrap();
        good.password = Some(Secret::new("wrong-secret"));
        let error = Connection::connect(&good, no_stop()).unwrap_err();
        assert_eq!(error.code(), Some("28P01"), "{name}");
        assert!(!format!("{error} {error:?}").contains("wrong-secret"));
        good.password = None;
        assert!(matches!(Connection::connect(&good, no_stop()).unwrap_err(), Error::Auth { .. }), "{name}");
    }
}

#[test]
fn cn_02_ssl_modes_do_what_they_say() {
    let ca = PathBuf::from(variable("HAUL_PG_CA"));
    let other = another_ca();
    let open = |mode: SslMode, host: &str, root: RootCert| {
        let mut config = config();
        config.hosts = vec![Host::Tcp(host.into(), port())];
        (config.sslmode, config.sslrootcert) = (mode, root);
        Connection::connect(&config, no_stop())
    };
    let file = || RootCert::File(ca.clone());
    assert_eq!(open(SslMode::Disable, "127.0.0.1", RootCert::None).unwrap().tls(), None);
    for mode in [SslMode::Prefer, SslMode::Require] {
        assert!(open(mode, "127.0.0.1", RootCert::None).unwrap().tls().is_some());
    }
    assert_eq!(open(SslMode::Allow, "127.0.0.1", RootCert::None).unwrap().tls(), None);
    // The certificate is for `localhost`, not for the address.
    assert!(open(SslMode::VerifyCa, "127.0.0.1", file()).unwrap().tls().is_some());
    assert!(open(SslMode::VerifyFull, "localhost", file()).unwrap().tls().is_some());
    assert!(open(SslMode::Require, "127.0.0.1", file()).unwrap().tls().is_some());
    let refused = |mode, host: &str, root| match open(mode, host, root) {
        Err(Error::Tls { reason, .. }) => reason,
        other => panic!("{mode:?}: {other:?}"),
    };
    assert!(refused(SslMode::VerifyFull, "127.0.0.1", file()).contains("another host name"));
    for mode in [SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull] {
        assert!(refused(mode, "localhost", RootCert::File(other.clone())).contains("not signed by a CA in"), "{mode:?}");
    }
    // No public CA has signed it (on a machine without any, the reason says so).
    let reason = refused(SslMode::VerifyFull, "localhost", RootCert::System);
    assert!(reason.contains("not signed by") || reason.contains("no trusted CA"), "{reason}");
    assert!(refused(SslMode::VerifyCa, "localhost", RootCert::None).contains("sslrootcert"));
    let weak = open(SslMode::VerifyCa, "localhost", RootCert::System).unwrap_err();
    assert!(matches!(weak, Error::Config(_)) && weak.to_string().contains("verify-full"));
    assert!(refused(SslMode::VerifyCa, "localhost", RootCert::File("/nonexistent.pem".into())).contains("/nonexistent.pem"));
}

#[test]
fn scram_binds_to_the_tls_channel() {
    let mut config = role("haul_wire_plus", "pw", "scram-sha-256");
    config.sslmode = SslMode::Require;
    let mut c = Connection::connect(&config, no_stop()).unwrap();
    // With this, SCRAM-SHA-256-PLUS is chosen, and the server compares the hash with its own certificate's.
    assert_eq!(c.link().socket.channel_binding().map(|hash| hash.len()), Some(32));
}

#[test]
fn cn_02_a_server_without_tls() {
    let answer_no = |mut stream: std::net::TcpStream| {
        read_frame(&mut stream);
        stream.write_all(b"N").unwrap();
        let mut rest = [0u8; 4096];
        while stream.read(&mut rest).is_ok_and(|n| n > 0) {}
    };
    for mode in [SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull] {
        let mut config = fake(answer_no);
        config.sslmode = mode;
        config.sslrootcert = match mode {
            SslMode::VerifyCa => RootCert::File(another_ca()),
            _ => RootCert::None,
        };
        match Connection::connect(&config, no_stop()).unwrap_err() {
            Error::Tls { reason, .. } => assert!(reason.contains("does not offer TLS") || reason.contains("no trusted CA"), "{reason}"),
            other => panic!("{mode:?}: {other}"),
        }
    }
    // `prefer` goes on in clear after an honest "no", and does not when clear text was smuggled in behind a "yes".
    let mut config = fake(|mut stream| {
        read_frame(&mut stream);
        stream.write_all(b"N").unwrap();
        assert!(read_frame(&mut stream).starts_with(&[0, 3, 0, 0]));
        stream.write_all(b"E\0\0\0\x16VFATAL\0C57P03\0Mup\0\0").unwrap();
    });
    config.sslmode = SslMode::Prefer;
    assert!(matches!(Connection::connect(&config, no_stop()).unwrap_err(), Error::Server(_)));
    let mut config = fake(|mut stream| {
        read_frame(&mut stream);
        stream.write_all(b"SR\0\0\0\x08\0\0\0\0").unwrap();
        let _ = stream.read(&mut [0u8; 16]);
    });
    config.sslmode = SslMode::Prefer;
    assert!(matches!(Connection::connect(&config, no_stop()).unwrap_err(), Error::Protocol { .. } | Error::Tls { .. }));
}

#[test]
fn a_silent_server_times_out_by_name() {
    let mut config = fake(|stream| {
        std::thread::sleep(Duration::from_secs(3));
        drop(stream);
    });
    config.sslmode = SslMode::Disable;
    let begun = Instant::now();
    let error = Connection::connect(&config, no_stop()).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }) && begun.elapsed() < Duration::from_secs(2), "{error}");
    assert!(error.to_string().starts_with("127.0.0.1:"), "{error}");
}

#[test]
fn cn_03_sockets_addresses_and_several_hosts() {
    let mut socket = config();
    socket.hosts = vec![Host::Unix(variable("HAUL_PG_SOCKET").into(), port())];
    socket.sslmode = SslMode::Require;
    assert_eq!(Connection::connect(&socket, no_stop()).unwrap().tls(), None, "no TLS on sockets");

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut several = config();
    several.hosts.insert(0, Host::Tcp("127.0.0.1".into(), closed));
    several.target_session_attrs = TargetSession::ReadWrite;
    assert_eq!(Connection::connect(&several, no_stop()).unwrap().host(), &several.hosts[1]);
    several.target_session_attrs = TargetSession::Standby;
    let text = Connection::connect(&several, no_stop()).unwrap_err().to_string();
    assert!(text.contains(&closed.to_string()) && text.contains("a primary"), "{text}");

    let mut unknown = config();
    unknown.hosts = vec![Host::Tcp("no-such-host.invalid".into(), 5432)];
    assert!(matches!(Connection::connect(&unknown, no_stop()).unwrap_err(), Error::Resolve { .. } | Error::Timeout { .. }));
}

#[test]
fn copies_out_whole_frames_in_both_formats() {
    let mut c = connect();
    for (format, sql) in [(CopyFormat::Binary, "(FORMAT binary)"), (CopyFormat::Text, "")] {
        for want in [4096, 262_144] {
            let select = "SELECT g, repeat('x', (g % 50)::int) FROM generate_series(1, 50000) g";
            let mut copy = c.copy_out(&format!("COPY ({select}) TO STDOUT {sql}")).unwrap();
            assert_eq!((copy.format(), copy.columns()), (format, 2));
            let (mut rows, mut ids) = (0, 0u64);
            while let Some(chunk) = copy.next_chunk(want).unwrap() {
                let mut rest = &chunk.bytes[..];
                let mut frames = 0;
                while !rest.is_empty() {
                    let length = 1 + u32::from_be_bytes(rest[1..5].try_into().unwrap()) as usize;
                    let body = &rest[5..length];
                    assert_eq!(rest[0], b'd');
                    match format {
                        CopyFormat::Binary => {
                            assert_eq!(body[..6], [0, 2, 0, 0, 0, 4]);
                            ids += u64::from(u32::from_be_bytes(body[6..10].try_into().unwrap()));
                        }
                        CopyFormat::Text => {
                            let line = std::str::from_utf8(body).unwrap();
                            ids += line.split('\t').next().unwrap().parse::<u64>().unwrap();
                        }
                    }
                    rest = &rest[length..];
                    frames += 1;
                }
                assert_eq!(frames, chunk.rows);
                rows += chunk.rows;
            }
            assert!(copy.next_chunk(want).unwrap().is_none());
            assert_eq!((rows, copy.rows(), ids), (50_000, 50_000, 50_000 * 50_001 / 2));
        }
    }
    for sql in ["COPY (SELECT 1 WHERE false) TO STDOUT (FORMAT binary)", "COPY (SELECT 1 WHERE false) TO STDOUT"] {
        assert!(c.copy_out(sql).unwrap().next_chunk(1).unwrap().is_none());
    }
    let mut none = c.copy_out("COPY (SELECT FROM generate_series(1, 3)) TO STDOUT (FORMAT binary)").unwrap();
    assert_eq!(none.next_chunk(4096).unwrap().unwrap().rows, 3, "rows without columns");
    assert!(none.next_chunk(4096).unwrap().is_none());
    assert!(c.execute("SELECT 1").is_ok());
}

#[test]
fn copy_out_errors_leave_the_connection_usable() {
    let mut c = connect();
    assert_eq!(c.copy_out("COPY no_such TO STDOUT").unwrap_err_code(), Some("42P01".to_string()));
    let mut copy = c.copy_out("COPY (SELECT 1/(30000 - g) FROM generate_series(1, 40000) g) TO STDOUT (FORMAT binary)").unwrap();
    let error = loop {
        match copy.next_chunk(65536) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the copy ended well"),
            Err(e) => break e,
        }
    };
    assert_eq!(error.code(), Some("22012"));
    assert!(c.execute("SELECT 1").is_ok());
}

#[test]
fn a_copy_out_that_is_given_up_leaves_the_connection_usable() {
    let mut c = connect();
    c.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SAVEPOINT s").unwrap();
    for rows in [1, 1_000, 100_000_000] {
        let mut copy = CopyOut::start(c, &format!("COPY (SELECT g FROM generate_series(1, {rows}) g) TO STDOUT (FORMAT binary)")).unwrap();
        assert!(copy.next_chunk(4096).unwrap().is_some());
        let begun = std::time::Instant::now();
        c = copy.give_up(Duration::from_secs(20)).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20), "{rows} rows were read to the end");
        c.execute("ROLLBACK TO SAVEPOINT s").unwrap();
        assert_eq!(c.query("SELECT 1", &[]).unwrap()[0].text(0), "1");
    }
    // At its end there is nothing to give up.
    let mut copy = CopyOut::start(c, "COPY (SELECT 1) TO STDOUT").unwrap();
    while copy.next_chunk(4096).unwrap().is_some() {}
    c = copy.give_up(Duration::from_secs(5)).unwrap();
    c.execute("COMMIT").unwrap();
}

/// `unwrap_err` for a result whose value has no `Debug`.
trait ErrCode {
    fn unwrap_err_code(self) -> Option<String>;
}

impl<T> ErrCode for crate::Result<T> {
    fn unwrap_err_code(self) -> Option<String> {
        self.err().expect("an error").code().map(str::to_string)
    }
}

#[test]
fn huge_rows_come_whole_or_are_refused() {
    let mut c = connect();
    let sql = "COPY (SELECT repeat('y', 3000000) FROM generate_series(1, 3)) TO STDOUT (FORMAT binary)";
    let mut copy = c.copy_out(sql).unwrap();
    let mut sizes = Vec::new();
    while let Some(chunk) = copy.next_chunk(65536).unwrap() {
        sizes.push((chunk.rows, chunk.bytes.len()));
    }
    assert_eq!(sizes.iter().map(|s| s.0).sum::<u64>(), 3);
    assert_eq!(sizes.iter().map(|s| s.1).sum::<usize>(), 3 * (3_000_000 + 11));
    let mut copy = c.copy_out(sql).unwrap().max_row_bytes(1 << 20);
    let error = copy.next_chunk(65536).unwrap_err();
    assert!(matches!(error, Error::RowTooLarge { limit: 1_048_576, row: 0, .. }), "{error}");
    assert!(!c.is_usable());
}

#[test]
fn frames_pass_from_server_to_server() {
    let (mut from, mut to) = (connect(), connect());
    to.execute("CREATE TEMP TABLE copied (g int, t text)").unwrap();
    for format in ["(FORMAT binary)", ""] {
        let select = "SELECT g, CASE WHEN g % 3 > 0 THEN repeat('z', g % 100) END FROM generate_series(1, 100000) g";
        let mut source = from.copy_out(&format!("COPY ({select}) TO STDOUT {format}")).unwrap();
        let mut sink = to.copy_in(&format!("COPY copied FROM STDIN {format}")).unwrap();
        while let Some(chunk) = source.next_chunk(262_144).unwrap() {
            sink.write(&chunk.bytes).unwrap();
        }
        assert_eq!(sink.finish().unwrap().0, 100_000);
    }
    let found = to.query("SELECT count(*), sum(g), count(t) FROM copied", &[]).unwrap();
    assert_eq!((found[0].text(0), found[0].text(1), found[0].text(2)), ("200000", "10000100000", "133334"));
}

#[test]
fn copy_in_payload_failure_and_early_refusal() {
    let mut c = connect();
    c.execute("CREATE TEMP TABLE target (n int CHECK (n <> 7))").unwrap();
    let mut copy = c.copy_in("COPY target FROM STDIN").unwrap();
    copy.write_data(b"1\n2\n").unwrap();
    copy.write_data(b"3\n").unwrap();
    assert_eq!(copy.finish().unwrap().0, 3);

    let mut copy = c.copy_in("COPY target FROM STDIN").unwrap();
    copy.write_data(b"4\n").unwrap();
    copy.fail("changed my mind").unwrap();
    assert_eq!(c.query("SELECT count(*) FROM target", &[]).unwrap()[0].text(0), "3");

    // The bad row is in the first block; hundreds of megabytes could follow and must not.
    c.execute("BEGIN; SAVEPOINT s").unwrap();
    let mut copy = c.copy_in("COPY target FROM STDIN").unwrap();
    let rows = "1000000\n".repeat(60_000);
    let mut error = copy.write_data(b"5\n7\n").err();
    let mut blocks = 0;
    while error.is_none() && blocks < 1000 {
        error = copy.write_data(rows.as_bytes()).err();
        blocks += 1;
    }
    let error = error.expect("the server refuses row 2");
    let server = error.server().unwrap();
    assert_eq!((server.code.as_str(), server.where_.as_deref()), ("23514", Some("COPY target, line 2: \"7\"")));
    assert!(blocks < 100, "{blocks} blocks were sent after the refusal");
    c.execute("ROLLBACK TO s").unwrap();
    c.execute("COMMIT").unwrap();
    assert_eq!(c.query("SELECT count(*) FROM target", &[]).unwrap()[0].text(0), "3");
}

#[test]
fn a_chatty_server_cannot_block_a_copy() {
    let mut c = connect();
    c.execute("CREATE TEMP TABLE noisy (t text)").unwrap();
    c.execute(
        "CREATE FUNCTION pg_temp.shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', repeat('n', 20000); RETURN NEW; END $$",
    )
    .unwrap();
    c.execute("CREATE TRIGGER shout BEFORE INSERT ON noisy FOR EACH ROW EXECUTE FUNCTION pg_temp.shout()").unwrap();
    let mut copy = c.copy_in("COPY noisy FROM STDIN").unwrap();
    let rows = format!("{}\n", "r".repeat(1000)).repeat(1000);
    (0..3).for_each(|_| copy.write_data(rows.as_bytes()).unwrap());
    assert_eq!(copy.finish().unwrap().0, 3000);
    assert_eq!(c.take_notices().len(), 100);
}

#[test]
fn stop_cancels_the_running_statement() {
    let stop = no_stop();
    let mut c = Connection::connect(&config(), stop.clone()).unwrap();
    let pid = c.backend_pid().to_string();
    let flag = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        flag.store(true, Ordering::Relaxed);
    });
    let begun = Instant::now();
    assert!(matches!(c.execute("SELECT pg_sleep(20)").unwrap_err(), Error::Cancelled));
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert!(!c.is_usable());
    let mut other = connect();
    let busy = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1::int AND state = 'active'";
    let gone = (0..40).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        other.query(busy, &[Some(&pid)]).unwrap()[0].text(0) == "0"
    });
    assert!(gone, "the statement still runs at the server");
}

#[test]
fn idle_limit_terminated_backend_and_cancel() {
    let mut limited = config();
    limited.idle_timeout = Some(Duration::from_millis(400));
    let mut c = Connection::connect(&limited, no_stop()).unwrap();
    let error = c.execute("SELECT pg_sleep(10)").unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }) && error.to_string().contains("127.0.0.1"), "{error}");
    assert!(matches!(c.execute("SELECT 1").unwrap_err(), Error::Broken { .. }));

    let mut c = connect();
    let pid = c.backend_pid();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        connect().execute(&format!("SELECT pg_terminate_backend({pid})")).unwrap()
    });
    assert_eq!(c.execute("SELECT pg_sleep(10)").unwrap_err().code(), Some("57P01"));
    killer.join().unwrap();

    let mut c = connect();
    let canceller = c.canceller().unwrap();
    let request = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        canceller.cancel()
    });
    assert_eq!(c.execute("SELECT pg_sleep(10)").unwrap_err().code(), Some("57014"));
    request.join().unwrap().unwrap();
    assert!(c.execute("SELECT 1").is_ok());
}

#[test]
fn copy_works_under_tls_both_ways() {
    let mut config = config();
    config.sslmode = SslMode::Require;
    let (mut from, mut to) = (Connection::connect(&config, no_stop()).unwrap(), Connection::connect(&config, no_stop()).unwrap());
    to.execute("CREATE TEMP TABLE t (g int, t text)").unwrap();
    let select = "SELECT g, repeat(g::text, 40) FROM generate_series(1, 40000) g";
    let mut source = from.copy_out(&format!("COPY ({select}) TO STDOUT (FORMAT binary)")).unwrap();
    let mut sink = to.copy_in("COPY t FROM STDIN (FORMAT binary)").unwrap();
    while let Some(chunk) = source.next_chunk(262_144).unwrap() {
        sink.write(&chunk.bytes).unwrap();
    }
    assert_eq!(sink.finish().unwrap().0, 40_000);
    let sums =
        |c: &mut Connection, from: &str| c.query(&format!("SELECT count(*), md5(string_agg(t, ',' ORDER BY g)) FROM {from}"), &[]).unwrap();
    assert_eq!(sums(&mut to, "t"), sums(&mut from, "(SELECT g, repeat(g::text, 40) t FROM generate_series(1, 40000) g) s"));
}

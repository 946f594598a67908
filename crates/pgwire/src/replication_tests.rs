//! Streams of changes from the real server, and from a small fake that asks for signs of life.

use crate::server_tests::{config, connect, fake, no_stop, read_frame};
use crate::{Config, Connection, Error, Lsn, Replication, SslMode, WalMessage};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

fn replicating() -> Connection {
    let mut config = config();
    config.replication = true;
    Connection::connect(&config, no_stop()).unwrap()
}

/// A table and its publication, dropped with it.
struct Published(String);

impl Published {
    fn new(name: &str) -> Self {
        let name = format!("repl_{name}_{}", std::process::id());
        let mut c = connect();
        c.execute(&format!("DROP TABLE IF EXISTS {name}; CREATE TABLE {name} (id int PRIMARY KEY, t text)")).unwrap();
        c.execute(&format!("CREATE PUBLICATION {name} FOR TABLE {name}")).unwrap();
        Self(name)
    }

    fn options(&self) -> [(&str, &str); 2] {
        [("proto_version", "1"), ("publication_names", &self.0)]
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        let _ = connect().execute(&format!("DROP PUBLICATION {0}; DROP TABLE {0}", self.0));
    }
}

/// A slot that outlives its connection, dropped with it.
struct Slot(String);

impl Drop for Slot {
    fn drop(&mut self) {
        let drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND NOT active";
        let begun = Instant::now();
        while begun.elapsed() < LONG && connect().query(drop, &[Some(&self.0)]).map_or(0, |rows| rows.count()) == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The messages of the plugin until `enough` of what has been seen.
fn seen<C: std::borrow::BorrowMut<Connection>>(stream: &mut Replication<C>, enough: impl Fn(&[Vec<u8>]) -> bool) -> Vec<Vec<u8>> {
    let (mut seen, begun) = (Vec::new(), Instant::now());
    while !enough(&seen) {
        assert!(begun.elapsed() < LONG, "only {seen:?} came");
        match stream.message().unwrap() {
            Some(WalMessage::Data { payload, .. }) => seen.push(payload.to_vec()),
            Some(WalMessage::KeepAlive { .. }) => {}
            None => {
                stream.wait(Duration::from_millis(200)).unwrap();
            }
        }
    }
    seen
}

fn tags(messages: &[Vec<u8>]) -> String {
    messages.iter().map(|m| char::from(m[0])).collect()
}

fn commits(n: usize) -> impl Fn(&[Vec<u8>]) -> bool {
    move |seen| seen.iter().filter(|m| m[0] == b'C').count() == n
}

#[test]
fn a_slot_its_snapshot_and_its_stream_fit_together() {
    let table = Published::new("fit");
    let name = &table.0;
    let mut sql = connect();
    sql.execute(&format!("INSERT INTO {name} VALUES (1, 'before')")).unwrap();
    let mut c = replicating();
    let system = c.identify_system().unwrap();
    assert!(system.id.parse::<u64>().is_ok() && system.timeline >= 1 && system.flushed > Lsn(0), "{system:?}");
    let slot = c.create_logical_slot(name, "pgoutput", false, true).unwrap();
    let _dropped = Slot(name.clone());
    sql.execute(&format!("INSERT INTO {name} VALUES (2, 'after')")).unwrap();
    let snapshot = slot.snapshot.clone().unwrap();
    sql.execute(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{snapshot}'")).unwrap();
    assert_eq!(sql.execute(&format!("SELECT FROM {name}")).unwrap(), 1, "the snapshot shows what was there before the slot");
    sql.execute("COMMIT").unwrap();

    let mut stream = c.start_replication(name, slot.start, &table.options()).unwrap();
    let messages = seen(&mut stream, commits(1));
    assert_eq!(tags(&messages), "BRIC", "the stream has what came after it");
    assert!(messages[2].ends_with(b"2t\0\0\0\x05after"), "{messages:?}");
    // Nothing moves the slot but a confirmation.
    let confirmed = |sql: &mut Connection| {
        let row = sql.query("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = $1", &[Some(name)]).unwrap();
        row.first().unwrap().parse::<Lsn>(0).unwrap()
    };
    assert_eq!(confirmed(&mut sql), slot.start);
    let end = Lsn(u64::from_be_bytes(messages[3][10..18].try_into().unwrap()));
    assert!(end > slot.start);
    stream.confirm(end).unwrap();
    let begun = Instant::now();
    while confirmed(&mut sql) != end {
        assert!(begun.elapsed() < LONG, "the slot stays at {}", confirmed(&mut sql));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(stream.confirmed(), end);
    stream.ask().unwrap();
    let begun = Instant::now();
    while !matches!(stream.message().unwrap(), Some(WalMessage::KeepAlive { end: sent, .. }) if sent >= end) {
        assert!(begun.elapsed() < LONG, "no sign of life");
        stream.wait(Duration::from_millis(50)).unwrap();
    }

    // A stop in the middle of things, and a start from there: nothing twice, nothing lost.
    sql.execute(&format!("INSERT INTO {name} VALUES (3, 'third'); UPDATE {name} SET t = 'x' WHERE id = 3")).unwrap();
    stream.stop(LONG).unwrap();
    assert!(c.is_usable() && c.simple_query("SELECT 1").unwrap()[0].first().unwrap().text(0) == "1");
    let mut c = replicating();
    let mut again = c.start_replication(name, end, &table.options()).unwrap();
    assert_eq!(tags(&seen(&mut again, commits(1))), "BRIUC");
    again.stop(LONG).unwrap();
}

#[test]
fn values_larger_than_any_buffer_arrive_whole() {
    let table = Published::new("large");
    let mut c = replicating();
    let slot = c.create_logical_slot(&table.0, "pgoutput", true, false).unwrap();
    assert_eq!(slot.snapshot, None);
    connect().execute(&format!("INSERT INTO {} SELECT g, repeat(chr(64 + g), 9000000) FROM generate_series(1, 2) g", table.0)).unwrap();
    connect().execute(&format!("INSERT INTO {} SELECT g, g FROM generate_series(3, 3000) g", table.0)).unwrap();
    let mut stream = c.start_replication(&table.0, slot.start, &table.options()).unwrap();
    let messages = seen(&mut stream, commits(2));
    let inserts: Vec<&Vec<u8>> = messages.iter().filter(|m| m[0] == b'I').collect();
    assert_eq!(inserts.len(), 3000);
    assert!(inserts[0].ends_with(&[b'A'; 9_000_000]) && inserts[1].ends_with(&[b'B'; 9_000_000]) && inserts[2999].ends_with(b"3000"));
}

#[test]
fn what_the_server_refuses_is_told_in_its_words() {
    let table = Published::new("refused");
    let mut c = replicating();
    let error = c.start_replication("no_such_slot", Lsn(0), &table.options()).unwrap_err();
    assert_eq!(error.code(), Some("42704"), "{error}");
    assert!(c.is_usable());
    assert_eq!(c.create_logical_slot("it's", "pgoutput", true, false).unwrap_err().code(), Some("42602"));
    let slot = c.create_logical_slot(&table.0, "pgoutput", true, false).unwrap();
    let error = replicating().start_replication(&table.0, slot.start, &table.options()).unwrap_err();
    assert_eq!(error.code(), Some("55006"), "another connection has the slot: {error}");
    assert_eq!(replicating().create_logical_slot(&table.0, "pgoutput", true, false).unwrap_err().code(), Some("42710"));
    let pid = c.backend_pid();
    let mut stream = c.start_replication(&table.0, slot.start, &table.options()).unwrap();
    connect().query("SELECT pg_terminate_backend($1)", &[Some(&pid.to_string())]).unwrap();
    let begun = Instant::now();
    let error = loop {
        assert!(begun.elapsed() < LONG);
        if let Err(error) = stream.message() {
            break error;
        }
        if let Err(error) = stream.wait(Duration::from_millis(100)) {
            break error;
        }
    };
    assert_eq!(error.code(), Some("57P01"), "{error}");
}

#[test]
fn a_server_that_asks_for_a_sign_of_life_gets_one() {
    let (told, hear) = std::sync::mpsc::channel();
    let config = fake(move |mut stream| {
        read_frame(&mut stream);
        stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
        let mut query = [0; 1];
        stream.read_exact(&mut query).unwrap();
        read_frame(&mut stream);
        stream.write_all(b"W\0\0\0\x07\0\0\0").unwrap();
        stream.write_all(b"d\0\0\0\x16k\0\0\0\0\0\0\0\x63\0\0\0\0\0\0\0\0\x01").unwrap();
        let mut status = [0; 39];
        stream.read_exact(&mut status).unwrap();
        told.send(status).unwrap();
        stream.write_all(b"d\0\0\0\x04").unwrap();
        let _ = stream.read(&mut query);
    });
    let config = Config { sslmode: SslMode::Disable, ..config };
    let mut c = Connection::connect(&config, no_stop()).unwrap();
    let mut stream = c.start_replication("s", Lsn(7), &[("a", "b")]).unwrap();
    while stream.message().unwrap() != Some(WalMessage::KeepAlive { end: Lsn(0x63), reply: true }) {
        stream.wait(LONG).unwrap();
    }
    let status = hear.recv_timeout(LONG).unwrap();
    assert_eq!((status[5], status[13], status[21]), (b'r', 0x63, 0), "received, and nothing safe");
    let error = loop {
        match stream.message() {
            Ok(None) => stream.wait(LONG).map(drop).unwrap(),
            Ok(Some(message)) => panic!("{message:?}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Protocol { detail, .. } if detail.contains("none")), "{error}");
    assert!(!c.is_usable());
}

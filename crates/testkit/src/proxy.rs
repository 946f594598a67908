//! A TCP proxy on loopback that breaks connections at a chosen point: for what happens between a client and a server that are both well.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// When a connection breaks. Text is looked for in what the client sends, so the connection must not be encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// After so many bytes from the client.
    Sent(usize),
    /// After so many bytes from the server.
    Received(usize),
    /// When the client sends this: it does not reach the server.
    Before(&'static str),
    /// When the client has sent this: it reaches the server, but no answer comes back.
    After(&'static str),
}

/// How it breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Both sides see an end.
    Close,
    /// The client sees a reset.
    Reset,
    /// Nothing moves any more, and nobody is told.
    Stall,
}

#[derive(Debug, Default)]
struct Faults {
    rule: Mutex<Option<(When, How)>>,
    /// Only connections over which the client has sent this before.
    marker: Mutex<Option<&'static str>>,
    /// Connections still to be broken.
    left: AtomicU32,
    broken: AtomicU32,
    over: AtomicBool,
}

/// A proxy in front of a port of this machine. Its connections end with it.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    faults: Arc<Faults>,
}

impl Proxy {
    /// One that passes everything on, until it is told otherwise.
    ///
    /// # Panics
    /// When it cannot listen.
    pub fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        let faults = Arc::new(Faults::default());
        let shared = faults.clone();
        std::thread::spawn(move || {
            while !shared.over.load(Ordering::SeqCst) {
                match listener.accept() {
                    Ok((client, _)) => serve(client, target, &shared),
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Self { port, faults }
    }

    /// Breaks the next `times` connections (new or open ones) that come to this point.
    pub fn break_at(&self, when: When, how: How, times: u32) {
        *self.faults.marker.lock().unwrap() = None;
        *self.faults.rule.lock().unwrap() = Some((when, how));
        self.faults.left.store(times, Ordering::SeqCst);
    }

    /// As [`Proxy::break_at`], only for connections over which the client sends `marker` before.
    pub fn break_marked(&self, marker: &'static str, when: When, how: How, times: u32) {
        self.break_at(when, how, 0);
        *self.faults.marker.lock().unwrap() = Some(marker);
        self.faults.left.store(times, Ordering::SeqCst);
    }

    /// How many it has broken.
    pub fn broken(&self) -> u32 {
        self.faults.broken.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.faults.over.store(true, Ordering::SeqCst);
    }
}

/// One connection: both of its ends, and what has become of it.
struct Line {
    client: TcpStream,
    server: TcpStream,
    /// Nothing moves any more.
    cut: AtomicBool,
    /// Both threads let go of it.
    dead: AtomicBool,
    /// The client has sent the marker, or none is asked for.
    marked: AtomicBool,
}

fn serve(client: TcpStream, target: u16, faults: &Arc<Faults>) {
    client.set_nonblocking(false).unwrap();
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { return };
    let line = Arc::new(Line { client, server, cut: AtomicBool::new(false), dead: AtomicBool::new(false), marked: AtomicBool::new(false) });
    for from_client in [true, false] {
        let (faults, line) = (faults.clone(), line.clone());
        std::thread::spawn(move || pump(&line, from_client, &faults));
    }
}

/// Moves bytes one way until an end or a fault.
fn pump(line: &Line, from_client: bool, faults: &Faults) {
    let (mut from, mut to) = if from_client { (&line.client, &line.server) } else { (&line.server, &line.client) };
    let mut buffer = vec![0; 16 << 10];
    let mut moved = 0;
    from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    while !faults.over.load(Ordering::SeqCst) && !line.dead.load(Ordering::SeqCst) {
        if line.cut.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        let n = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => continue,
            Err(_) => break,
        };
        moved += n;
        if from_client && faults.marks(&buffer[..n]) {
            line.marked.store(true, Ordering::SeqCst);
        }
        let hit = line.marked.load(Ordering::SeqCst).then(|| faults.hit(from_client, moved, &buffer[..n])).flatten();
        match hit {
            // The cut comes first, so that no answer slips through.
            Some((pass, how)) => {
                line.cut.store(true, Ordering::SeqCst);
                if pass {
                    let _ = to.write_all(&buffer[..n]);
                    // Time to do what it was sent.
                    std::thread::sleep(Duration::from_millis(200));
                }
                line.end(how);
            }
            None if line.cut.load(Ordering::SeqCst) => {}
            None if to.write_all(&buffer[..n]).is_err() => break,
            None => {}
        }
    }
    if !line.cut.load(Ordering::SeqCst) {
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    }
}

impl Faults {
    fn marks(&self, bytes: &[u8]) -> bool {
        match *self.marker.lock().unwrap() {
            Some(marker) => bytes.windows(marker.len()).any(|window| window == marker.as_bytes()),
            None => true,
        }
    }

    /// Whether these bytes meet the rule: whether they still pass, and how the line ends.
    fn hit(&self, from_client: bool, moved: usize, bytes: &[u8]) -> Option<(bool, How)> {
        let (when, how) = self.rule.lock().unwrap().clone()?;
        let holds = |text: &str| from_client && bytes.windows(text.len()).any(|window| window == text.as_bytes());
        let (met, pass) = match when {
            When::Sent(limit) => (from_client && moved >= limit, false),
            When::Received(limit) => (!from_client && moved >= limit, false),
            When::Before(text) => (holds(text), false),
            When::After(text) => (holds(text), true),
        };
        let counted = met && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        counted.then(|| {
            self.broken.fetch_add(1, Ordering::SeqCst);
            (pass, how)
        })
    }
}

impl Line {
    fn end(&self, how: How) {
        match how {
            How::Close => {
                let _ = self.client.shutdown(Shutdown::Both);
                let _ = self.server.shutdown(Shutdown::Both);
                self.dead.store(true, Ordering::SeqCst);
            }
            How::Reset => {
                // Closing without lingering sends a reset instead of an end.
                rustix::net::sockopt::set_socket_linger(&self.client, Some(Duration::ZERO)).unwrap();
                self.dead.store(true, Ordering::SeqCst);
            }
            How::Stall => {}
        }
    }
}

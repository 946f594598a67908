//! A non-blocking socket, plain or under TLS, and the waiting around it.
//!
//! Nothing here blocks for longer than [`SLICE`] without a look at the stop flag.

use crate::{Config, Error, Host, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType};
use std::io::{self, BufRead, IoSlice, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait between two looks at the stop flag.
pub(crate) const SLICE: Duration = Duration::from_millis(200);

/// Ciphertext is taken from the socket in blocks of this size.
const TLS_READ: usize = 64 * 1024;

/// Where a socket leads, so that a second one (for CancelRequest) can be made without a look-up.
#[derive(Debug, Clone)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(std::path::PathBuf),
}

/// The addresses of a host.
pub(crate) fn resolve(host: &Host, wait: &Waiting) -> Result<Vec<Address>> {
    let (name, port) = match host {
        Host::Unix(folder, port) => return Ok(vec![Address::Unix(folder.join(format!(".s.PGSQL.{port}")))]),
        Host::Tcp(name, port) => (name.clone(), *port),
    };
    if let Ok(ip) = name.parse() {
        return Ok(vec![Address::Tcp(SocketAddr::new(ip, port))]);
    }
    // The system's resolver blocks for as long as it likes, so it does that in a thread of its own.
    let (sender, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let _ = sender.send(found);
    });
    loop {
        match answer.recv_timeout(wait.slice("looking up the host name")?) {
            Ok(Ok(found)) if !found.is_empty() => return Ok(found.into_iter().map(Address::Tcp).collect()),
            Ok(Ok(_)) => {
                let source = io::Error::new(io::ErrorKind::NotFound, "no address");
                return Err(Error::Resolve { host: wait.host.clone(), source });
            }
            Ok(Err(source)) => return Err(Error::Resolve { host: wait.host.clone(), source }),
            Err(_) => {}
        }
    }
}

/// How long to wait for what, and when to give up.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    /// For messages.
    pub host: String,
    /// The user's wish to stop.
    pub stop: Arc<AtomicBool>,
    /// End of the connection attempt, with the limit that it came from.
    pub deadline: Option<(Instant, Duration)>,
    /// Longest silence.
    pub idle: Option<Duration>,
}

impl Waiting {
    /// The next piece of waiting.
    ///
    /// # Errors
    /// The stop flag, or the deadline.
    pub fn slice(&self, what: &'static str) -> Result<Duration> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let Some((end, after)) = self.deadline else { return Ok(SLICE) };
        match end.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(left.min(SLICE)),
            _ => Err(Error::Timeout { host: self.host.clone(), what, after }),
        }
    }

    pub fn io(&self, what: &'static str, source: io::Error) -> Error {
        if source.kind() == io::ErrorKind::TimedOut {
            return Error::Io { host: self.host.clone(), what: "the server does not answer any more", source };
        }
        Error::Io { host: self.host.clone(), what, source }
    }
}

/// The two ways of a TLS session over the socket.
struct Tls {
    session: rustls::ClientConnection,
    /// Ciphertext that was received and not yet taken by the session.
    raw: Vec<u8>,
    taken: usize,
}

/// A connected, non-blocking socket.
pub(crate) struct Socket {
    fd: OwnedFd,
    tls: Option<Box<Tls>>,
    /// A low-water mark is set: the socket may hold bytes although it is not reported readable.
    low_water: bool,
}

/// With a low-water mark, how long `wait` waits before its caller looks for less.
const LOW_WATER_WAIT: Duration = Duration::from_millis(3);

impl Socket {
    /// Connects to one address.
    pub fn connect(address: &Address, config: &Config, wait: &Waiting) -> Result<Self> {
        let fail = |e: Errno| wait.io("cannot connect", e.into());
        let family = match address {
            Address::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Address::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
            Address::Unix(_) => AddressFamily::UNIX,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = net::socket_with(family, SocketType::STREAM, flags, None).map_err(fail)?;
        let begun = match address {
            Address::Tcp(addr) => {
                let silence = config.tcp_user_timeout;
                net::sockopt::set_tcp_nodelay(&fd, true).map_err(fail)?;
                net::sockopt::set_socket_keepalive(&fd, true).map_err(fail)?;
                // Probes start after half the allowed silence and must be answered within the other half.
                let half = Duration::from_secs((silence.as_secs() / 2).max(1));
                net::sockopt::set_tcp_keepidle(&fd, half).map_err(fail)?;
                net::sockopt::set_tcp_keepintvl(&fd, Duration::from_secs((half.as_secs() / 3).max(1))).map_err(fail)?;
                net::sockopt::set_tcp_keepcnt(&fd, 3).map_err(fail)?;
                #[cfg(target_os = "linux")]
                net::sockopt::set_tcp_user_timeout(&fd, u32::try_from(silence.as_millis()).unwrap_or(u32::MAX)).map_err(fail)?;
                net::connect(&fd, addr)
            }
            Address::Unix(path) => loop {
                match unix_address(path).and_then(|addr| net::connect(&fd, &addr)) {
                    // The server's queue is full. A Unix socket cannot be polled for that.
                    Err(Errno::AGAIN) => std::thread::sleep(wait.slice("connecting")?.min(Duration::from_millis(20))),
                    done => break done,
                }
            },
        };
        match begun {
            Ok(()) => {}
            Err(Errno::INPROGRESS | Errno::INTR) => {
                let socket = Self { fd, tls: None, low_water: false };
                while !socket.wait(false, true, wait.slice("connecting")?).map_err(|e| wait.io("cannot connect", e))?.1 {}
                net::sockopt::socket_error(&socket.fd).map_err(fail)?.map_err(fail)?;
                return Ok(socket);
            }
            Err(e) => return Err(fail(e)),
        }
        Ok(Self { fd, tls: None, low_water: false })
    }

    /// Has `wait` report the socket readable only from `bytes` on (1: from the first byte). Only a hint, and only for plain TCP: after a
    /// few milliseconds `wait` returns anyway, and `try_read` gives whatever is there.
    pub fn low_water(&mut self, bytes: i32) {
        if self.tls.is_none() && (bytes > 1 || self.low_water) {
            self.low_water = crate::lowat::set(self.fd.as_fd(), bytes) && bytes > 1;
        }
    }

    /// Waits until the socket can be read or written; (readable, writable). Both false: time is up.
    pub fn wait(&self, read: bool, write: bool, time: Duration) -> io::Result<(bool, bool)> {
        let time = if self.low_water && read { time.min(LOW_WATER_WAIT) } else { time };
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, read);
        flags.set(PollFlags::OUT, write);
        let mut fds = [PollFd::new(&self.fd, flags)];
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        match poll(&mut fds, Some(&time)) {
            Ok(0) | Err(Errno::INTR) => return Ok((false, false)),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let got = fds[0].revents();
        // An error or hang-up counts as ready: the read or write that follows tells what it is.
        let bad = got.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        Ok((bad || got.contains(PollFlags::IN), bad || got.contains(PollFlags::OUT)))
    }

    /// Appends what is there to `into`, up to its spare capacity (which must not be empty). `None`: nothing yet; `Some(0)`: end.
    pub fn try_read(&mut self, into: &mut Vec<u8>) -> io::Result<Option<usize>> {
        match &mut self.tls {
            None => read_spare(&self.fd, into),
            Some(tls) => tls.read(&self.fd, into),
        }
    }

    /// Sends as much as the socket takes now; `None`: nothing.
    pub fn try_write(&mut self, data: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        match &mut self.tls {
            None => send(&self.fd, data),
            Some(tls) => tls.write(&self.fd, data),
        }
    }

    /// Pushes ciphertext that is still held back. `false`: the socket is full.
    pub fn try_flush(&mut self) -> io::Result<bool> {
        match &mut self.tls {
            None => Ok(true),
            Some(tls) => tls.push(&self.fd),
        }
    }

    /// Whether received plaintext is waiting that `wait` cannot see.
    pub fn holds_plaintext(&mut self) -> bool {
        self.tls.as_mut().is_some_and(|tls| tls.taken < tls.raw.len() || tls.session.reader().fill_buf().is_ok_and(|b| !b.is_empty()))
    }

    /// Whether TLS is on.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// `TLSv1.3` and the like, for reports.
    pub fn tls_version(&self) -> Option<String> {
        self.tls.as_ref()?.session.protocol_version().map(|v| format!("{v:?}").replace('_', "."))
    }

    /// Channel binding data of the server's certificate, under TLS.
    pub fn channel_binding(&self) -> Option<Vec<u8>> {
        crate::tls::channel_binding(&self.tls.as_ref()?.session)
    }

    /// Puts TLS on the socket. `explain` turns the session's error into a reason.
    pub fn start_tls(
        &mut self,
        session: rustls::ClientConnection,
        wait: &Waiting,
        explain: impl Fn(&rustls::Error) -> String,
    ) -> Result<()> {
        let mut tls = Box::new(Tls { session, raw: Vec::with_capacity(TLS_READ), taken: 0 });
        while tls.session.is_handshaking() {
            let flushed = tls.push(&self.fd).map_err(|e| wait.io("TLS handshake", e))?;
            if flushed && !tls.session.is_handshaking() {
                break;
            }
            let (readable, _) = self.wait(flushed, !flushed, wait.slice("the TLS handshake")?).map_err(|e| wait.io("TLS handshake", e))?;
            if !readable || !flushed {
                continue;
            }
            match tls.take_in(&self.fd) {
                Ok(Some(0)) => return Err(Error::Closed { host: wait.host.clone() }),
                Ok(_) => {}
                Err(TlsFault::Io(e)) => return Err(wait.io("TLS handshake", e)),
                Err(TlsFault::Tls(e)) => {
                    // Let the server know why, as far as the socket takes it.
                    let _ = tls.push(&self.fd);
                    return Err(Error::Tls { host: wait.host.clone(), reason: explain(&e) });
                }
            }
        }
        tls.push(&self.fd).map_err(|e| wait.io("TLS handshake", e))?;
        self.tls = Some(tls);
        Ok(())
    }
}

/// A fault of the socket or of the session.
enum TlsFault {
    Io(io::Error),
    Tls(rustls::Error),
}

impl From<TlsFault> for io::Error {
    fn from(fault: TlsFault) -> Self {
        match fault {
            TlsFault::Io(e) => e,
            TlsFault::Tls(e) => io::Error::new(io::ErrorKind::InvalidData, e),
        }
    }
}

impl Tls {
    /// One step: ciphertext from the socket into the session. `Some(0)`: end; `None`: nothing there.
    fn take_in(&mut self, fd: &OwnedFd) -> Result<Option<usize>, TlsFault> {
        if self.taken == self.raw.len() {
            self.raw.clear();
            self.taken = 0;
            match read_spare(fd, &mut self.raw).map_err(TlsFault::Io)? {
                Some(0) => return Ok(Some(0)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
        let n = self.session.read_tls(&mut &self.raw[self.taken..]).map_err(TlsFault::Io)?;
        self.taken += n;
        self.session.process_new_packets().map_err(TlsFault::Tls)?;
        Ok(Some(n))
    }

    fn read(&mut self, fd: &OwnedFd, into: &mut Vec<u8>) -> io::Result<Option<usize>> {
        loop {
            let mut plain = self.session.reader();
            match plain.fill_buf() {
                Ok([]) => return Ok(Some(0)),
                Ok(chunk) => {
                    let n = chunk.len().min(into.capacity() - into.len());
                    into.extend_from_slice(&chunk[..n]);
                    plain.consume(n);
                    return Ok(Some(n));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
            match self.take_in(fd)? {
                Some(0) => return Ok(Some(0)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    fn write(&mut self, fd: &OwnedFd, data: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        if !self.push(fd)? {
            return Ok(None);
        }
        let n = self.session.writer().write_vectored(data)?;
        self.push(fd)?;
        Ok(Some(n))
    }

    fn push(&mut self, fd: &OwnedFd) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Outgoing(fd)) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}

/// The socket as the session writes to it.
struct Outgoing<'a>(&'a OwnedFd);

impl Write for Outgoing<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(data)])
    }
    fn write_vectored(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        send(self.0, data)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A folder that starts with `@` stands for Linux's abstract sockets, as in libpq.
fn unix_address(path: &std::path::Path) -> rustix::io::Result<net::SocketAddrUnix> {
    #[cfg(target_os = "linux")]
    if let Some(name) = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).strip_prefix(b"@") {
        return net::SocketAddrUnix::new_abstract_name(name);
    }
    net::SocketAddrUnix::new(path)
}

fn read_spare(fd: &OwnedFd, into: &mut Vec<u8>) -> io::Result<Option<usize>> {
    loop {
        match rustix::io::read(fd, rustix::buffer::spare_capacity(into)) {
            Ok(n) => return Ok(Some(n)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    }
}

fn send(fd: &OwnedFd, data: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    loop {
        match net::sendmsg(fd, data, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
            Ok(n) => return Ok(Some(n)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    }
}

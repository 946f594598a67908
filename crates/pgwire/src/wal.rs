//! What travels inside the CopyData frames of a replication stream, without IO.
//!
//! From the server: pieces of the log, each with its place, and keep-alives that say how far the server has sent. From us: status updates
//! that say how far everything is safe. Specification: PostgreSQL documentation, section "Streaming Replication Protocol".

use crate::link::frame_length;
use std::fmt;
use std::str::FromStr;

const HEAD: usize = 5;
/// `w`, where the piece starts, where the log ends, the server's clock.
const DATA_HEAD: usize = 25;
/// `k`, where the log ends, the server's clock, whether an answer is wanted.
const KEEP_ALIVE: usize = 18;

/// A place in the write-ahead log. Shown as the server does: `16/B374D848`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

/// Text that is no place in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoLsn;

impl fmt::Display for NoLsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a place in the log: it looks like 16/B374D848")
    }
}

impl std::error::Error for NoLsn {}

impl FromStr for Lsn {
    type Err = NoLsn;

    fn from_str(text: &str) -> Result<Self, NoLsn> {
        let half = |part: &str| {
            let plain = (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
            plain.then(|| u64::from_str_radix(part, 16).ok()).flatten().ok_or(NoLsn)
        };
        let (high, low) = text.split_once('/').ok_or(NoLsn)?;
        Ok(Self(half(high)? << 32 | half(low)?))
    }
}

/// What the server has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalMessage<'a> {
    /// A piece of the log: with a logical slot, one message of its output plugin.
    Data {
        /// Where the piece starts; 0 for messages that have no place of their own.
        start: Lsn,
        /// The message.
        payload: &'a [u8],
    },
    /// Nothing but a sign of life.
    KeepAlive {
        /// Up to here the server has sent everything that there was to send.
        end: Lsn,
        /// The server closes the connection soon, unless it is answered.
        reply: bool,
    },
}

/// One step of [`Inbox::next`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A message: where it lies in [`Inbox::bytes`].
    Message {
        start: Lsn,
        from: usize,
        to: usize,
    },
    KeepAlive {
        end: Lsn,
        reply: bool,
    },
    /// A frame that is no CopyData: its tag; it starts at the cursor and is whole.
    Other {
        tag: u8,
        length: usize,
    },
    /// The bytes are no replication stream.
    Broken(&'static str),
    /// No whole frame is left; with the bytes that the one at the cursor needs in all, if that is known.
    More {
        needed: usize,
    },
}

/// Frames that have arrived, and a cursor in them.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub bytes: Vec<u8>,
    /// Everything before it has been given out.
    pub next: usize,
}

impl Inbox {
    /// Walks over the next frame.
    pub fn next(&mut self) -> Step {
        let rest = &self.bytes[self.next..];
        let Some(length) = frame_length(rest) else { return Step::More { needed: HEAD } };
        if length < HEAD {
            return Step::Broken("a message with an impossible length");
        }
        if rest.len() < length {
            return Step::More { needed: length };
        }
        if rest[0] != b'd' {
            return Step::Other { tag: rest[0], length };
        }
        let (body, from) = (&rest[HEAD..length], self.next + HEAD);
        let step = match body.first() {
            Some(b'w') if body.len() >= DATA_HEAD => {
                Step::Message { start: lsn_at(body, 1), from: from + DATA_HEAD, to: from + body.len() }
            }
            Some(b'k') if body.len() >= KEEP_ALIVE => Step::KeepAlive { end: lsn_at(body, 1), reply: body[KEEP_ALIVE - 1] != 0 },
            _ => Step::Broken("a piece of the log that is none"),
        };
        self.next += length;
        step
    }

    /// Drops what has been given out, and makes room for `needed` bytes behind the cursor, and some more.
    pub fn make_room(&mut self, needed: usize, usual: usize) {
        self.bytes.drain(..self.next);
        self.next = 0;
        let want = needed.max(usual);
        self.bytes.reserve(want.saturating_sub(self.bytes.len()).max(1));
    }
}

fn lsn_at(body: &[u8], at: usize) -> Lsn {
    let bytes = body.get(at..at + 8).and_then(|b| b.try_into().ok()).unwrap_or_default();
    Lsn(u64::from_be_bytes(bytes))
}

/// A standby status update as a whole CopyData frame. `now`: microseconds since 2000. `reply`: the server is to answer at once.
pub(crate) fn status(received: Lsn, safe: Lsn, now: i64, reply: bool) -> [u8; HEAD + 34] {
    let mut frame = [0; HEAD + 34];
    frame[0] = b'd';
    frame[1..5].copy_from_slice(&38u32.to_be_bytes());
    frame[5] = b'r';
    frame[6..14].copy_from_slice(&received.0.to_be_bytes());
    frame[14..22].copy_from_slice(&safe.0.to_be_bytes());
    frame[22..30].copy_from_slice(&safe.0.to_be_bytes());
    frame[30..38].copy_from_slice(&now.to_be_bytes());
    frame[38] = u8::from(reply);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut frame = vec![tag];
        frame.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        frame.extend_from_slice(body);
        frame
    }

    fn data(start: u64, payload: &[u8]) -> Vec<u8> {
        let mut body = vec![b'w'];
        for n in [start, start + 1, 7] {
            body.extend_from_slice(&n.to_be_bytes());
        }
        body.extend_from_slice(payload);
        frame(b'd', &body)
    }

    fn keep_alive(end: u64, reply: u8) -> Vec<u8> {
        let mut body = vec![b'k'];
        body.extend_from_slice(&end.to_be_bytes());
        body.extend_from_slice(&[0; 8]);
        body.push(reply);
        frame(b'd', &body)
    }

    #[test]
    fn places_are_shown_and_read_as_the_server_does() {
        for (text, n) in [("0/0", 0), ("16/B374D848", 0x16_B374_D848), ("FFFFFFFF/FFFFFFFF", u64::MAX), ("1/0", 1 << 32)] {
            assert_eq!((text.parse(), Lsn(n).to_string().as_str()), (Ok(Lsn(n)), text));
        }
        for bad in ["", "1", "/", "1/", "/1", "g/1", "1/123456789", "+1/1", "1/1/1"] {
            assert_eq!(bad.parse::<Lsn>(), Err(NoLsn), "{bad}");
        }
        assert!(Lsn(9) < Lsn(10));
    }

    #[test]
    fn frames_are_found_at_every_cut() {
        let whole = [data(5, b"hello"), keep_alive(77, 1), data(6, b""), keep_alive(78, 0), frame(b'N', b"x")].concat();
        for cut in 0..=whole.len() {
            let mut inbox = Inbox::default();
            let (mut seen, mut told) = (Vec::new(), 0);
            for part in [&whole[..cut], &whole[cut..]] {
                inbox.make_room(0, 8);
                inbox.bytes.extend_from_slice(part);
                loop {
                    match inbox.next() {
                        Step::Message { start, from, to } => seen.push((start.0, inbox.bytes[from..to].to_vec(), false)),
                        Step::KeepAlive { end, reply } => seen.push((end.0, b"alive".to_vec(), reply)),
                        Step::Other { tag: b'N', length } => {
                            told += 1;
                            inbox.next += length;
                        }
                        Step::More { needed } => {
                            assert!(needed > inbox.bytes.len() - inbox.next);
                            break;
                        }
                        step => panic!("{cut}: {step:?}"),
                    }
                }
            }
            let expected =
                [(5, b"hello".to_vec(), false), (77, b"alive".to_vec(), true), (6, vec![], false), (78, b"alive".to_vec(), false)];
            assert_eq!((seen.as_slice(), told), (&expected[..], 1), "{cut}");
        }
    }

    #[test]
    fn what_is_no_stream_is_said_to_be_broken() {
        let broken = |bytes: Vec<u8>| matches!(Inbox { bytes, next: 0 }.next(), Step::Broken(_));
        assert!(broken(vec![b'd', 0, 0, 0, 3]));
        assert!(broken(frame(b'd', b"")));
        assert!(broken(frame(b'd', b"x")));
        assert!(broken(frame(b'd', &[b'w'; DATA_HEAD - 1])));
        assert!(broken(frame(b'd', &[b'k'; KEEP_ALIVE - 1])));
    }

    #[test]
    fn a_status_says_how_far_all_is_safe() {
        let frame = status(Lsn(3), Lsn(2), 1, true);
        assert_eq!((frame[0], frame[5], frame_length(&frame)), (b'd', b'r', Some(frame.len())));
        assert_eq!((lsn_at(&frame, 6), lsn_at(&frame, 14), lsn_at(&frame, 22), lsn_at(&frame, 30)), (Lsn(3), Lsn(2), Lsn(2), Lsn(1)));
        assert_eq!(frame[38], 1);
    }
}

//! Where a job's time went: what its workers did, and what the servers on both sides waited for.
//!
//! Workers run to completion, so there are no pools to look at; each worker's time is split by what it was doing: reading (waiting for the source
//! included), working (decode, transform, encode), writing (waiting for the sink included), and waiting for its turn or for memory.
//! Servers are asked from the side a few times a second, over a connection of their own, and only in jobs that last long enough.

use haul_model::{RUNNING, Watch};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A job that is over sooner is not looked at.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(250);
/// How long the end of a job waits for a look that is going on.
const GRACE: Duration = Duration::from_millis(500);

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// In the source's reader.
    Reading,
    /// Decoding, transforming, encoding.
    Working,
    /// In the sink's writer.
    Writing,
    /// Its turn has not come, or the budget is used up.
    Waiting,
}

const DOINGS: [(Doing, &str); 4] =
    [(Doing::Reading, "reading"), (Doing::Working, "working"), (Doing::Writing, "writing"), (Doing::Waiting, "waiting")];

/// Nanoseconds by what was done, over all workers.
#[derive(Debug, Default)]
pub struct Shares([AtomicU64; 4]);

impl Shares {
    fn add(&self, doing: Doing, time: Duration) {
        self.0[doing as usize].fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Each as a share of all: reading, working, writing, waiting; nothing before any time was added.
    pub fn shares(&self) -> Vec<(&'static str, f64)> {
        let nanos = self.0.each_ref().map(|n| n.load(Relaxed) as f64);
        let all: f64 = nanos.iter().sum();
        if all == 0.0 {
            return Vec::new();
        }
        DOINGS.iter().map(|(doing, name)| (*name, nanos[*doing as usize] / all)).collect()
    }
}

/// One worker's watch: it is always doing one thing, and says when that changes. A few times a chunk, never per row.
#[derive(Debug)]
pub(crate) struct Clock<'a> {
    shares: &'a Shares,
    doing: Doing,
    since: Instant,
}

impl<'a> Clock<'a> {
    pub fn new(shares: &'a Shares) -> Self {
        Self { shares, doing: Doing::Writing, since: Instant::now() }
    }

    pub fn now(&mut self, doing: Doing) {
        let now = Instant::now();
        self.shares.add(self.doing, now - self.since);
        (self.doing, self.since) = (doing, now);
    }
}

impl Drop for Clock<'_> {
    fn drop(&mut self) {
        self.now(self.doing);
    }
}

/// What the sessions of one side were at: by the server's words, the share of all looks, most frequent first.
pub type Waits = Vec<(String, f64)>;

/// Where the time went.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TimeSpent {
    /// Of the workers.
    pub workers: Vec<(&'static str, f64)>,
    /// Of the source's sessions; empty when nobody looked.
    pub source: Waits,
    /// Of the sink's sessions.
    pub sink: Waits,
}

/// Stops the watchers when the lanes have ended.
#[derive(Debug, Default)]
struct Whistle {
    over: Mutex<bool>,
    heard: Condvar,
}

impl Whistle {
    fn blow(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.heard.notify_all();
    }

    /// Whether it was blown within `limit`.
    fn heard_within(&self, limit: Duration) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        *self.heard.wait_timeout_while(over, limit, |over| !*over).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// How often what was seen.
type Seen = Mutex<BTreeMap<String, u64>>;

/// Does `work` with both sides watched. A watcher that does not answer is not waited for.
pub(crate) fn beside(sides: [Option<Box<dyn Watch>>; 2], work: impl FnOnce()) -> [Waits; 2] {
    let whistle = Arc::new(Whistle::default());
    let watchers = sides.map(|side| {
        let mut side = side?;
        let (whistle, seen) = (whistle.clone(), Arc::new(Seen::default()));
        let noted = seen.clone();
        let thread = std::thread::Builder::new().name("haul-watch".into()).stack_size(1 << 20);
        // Without a watcher the job runs as well.
        let handle = thread.spawn(move || watch(side.as_mut(), &whistle, &noted)).ok()?;
        Some((handle, seen))
    });
    work();
    whistle.blow();
    let patience = Instant::now() + GRACE;
    watchers.map(|watcher| {
        let Some((handle, seen)) = watcher else { return Waits::new() };
        while !handle.is_finished() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        in_shares(&seen)
    })
}

/// Looks until the whistle is blown, or until it fails once.
fn watch(watch: &mut dyn Watch, whistle: &Whistle, seen: &Seen) {
    let mut wait = PATIENCE;
    while !whistle.heard_within(wait) {
        wait = INTERVAL;
        let Ok(found) = watch.look() else { break };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        for (what, count) in found {
            *seen.entry(what).or_default() += count;
        }
    }
}

fn in_shares(seen: &BTreeMap<String, u64>) -> Waits {
    let all: u64 = seen.values().sum();
    let mut waits: Waits = seen.iter().map(|(what, count)| (what.clone(), *count as f64 / all.max(1) as f64)).collect();
    waits.sort_by(|a, b| b.1.total_cmp(&a.1));
    waits
}

/// Advice for what a server's sessions wait for: the beginning of the event's name, and what follows from it.
const ON_WAITS: &[(&str, &str)] = &[
    ("IO:DataFileExtend", "the target extends the table block by block: fewer lanes lose nothing, a table in several partitions gains"),
    ("Lock:extend", "the lanes wait for each other to extend the table: fewer lanes lose nothing, a table in several partitions gains"),
    (
        "LWLock:WAL",
        "the target's log is the limit: an UNLOGGED table, a faster disk for pg_wal, or larger wal_buffers help; more lanes do not",
    ),
    ("IO:WAL", "the target's log is the limit: an UNLOGGED table, a faster disk for pg_wal, or larger wal_buffers help; more lanes do not"),
    ("LWLock:BufferMapping", "the lanes contend for the buffer cache: fewer lanes, or larger shared_buffers"),
    ("LWLock:BufferContent", "the lanes contend for the same pages (an index?): load without indexes, or use fewer lanes"),
    ("IO:DataFileRead", "the server reads from its disk: more lanes help as long as the disk has more to give"),
    ("Lock:", "other sessions hold locks that the job waits for"),
];

impl TimeSpent {
    /// One line of advice, where something stands out.
    pub fn advice(&self) -> Option<String> {
        let part = |waits: &Waits, begins: &str| waits.iter().filter(|(w, _)| w.starts_with(begins)).map(|(_, s)| s).sum::<f64>();
        for (side, waits) in [("target", &self.sink), ("source", &self.source)] {
            let known = ON_WAITS.iter().map(|(event, advice)| (part(waits, event), event, advice)).max_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((share, event, advice)) = known.filter(|(share, ..)| *share >= 0.25) {
                return Some(format!("{:.0} % of the {side}'s time is {}: {advice}", 100.0 * share, event.trim_end_matches(':')));
            }
        }
        let worker = |name: &str| self.workers.iter().find(|(n, _)| *n == name).map_or(0.0, |(_, share)| *share);
        let busy = |waits: &Waits| !waits.is_empty() && part(waits, RUNNING) >= 0.6;
        if busy(&self.sink) && worker("writing") >= 0.5 {
            return Some("the target's own work is the limit: more lanes help as long as it has idle cores".into());
        }
        if busy(&self.source) && worker("reading") >= 0.5 {
            return Some("the source's own work is the limit: more lanes help as long as it has idle cores".into());
        }
        (worker("working") >= 0.6).then(|| "decoding and encoding here is the limit: more cores for Haul help".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(workers: [f64; 4], source: &[(&str, f64)], sink: &[(&str, f64)]) -> TimeSpent {
        let own = |waits: &[(&str, f64)]| waits.iter().map(|(w, s)| ((*w).to_string(), *s)).collect();
        TimeSpent { workers: DOINGS.iter().map(|(d, n)| (*n, workers[*d as usize])).collect(), source: own(source), sink: own(sink) }
    }

    #[test]
    fn advice_names_what_stands_out() {
        let said = |t: TimeSpent| t.advice().unwrap_or_default();
        assert!(said(spent([0.1, 0.1, 0.8, 0.0], &[], &[("IO:DataFileExtend", 0.4), ("running", 0.6)])).contains("40 % of the target"));
        assert!(
            said(spent([0.1, 0.1, 0.8, 0.0], &[], &[("IO:WALSync", 0.2), ("IO:WALWrite", 0.2), ("running", 0.6)]))
                .contains("log is the limit")
        );
        assert!(said(spent([0.8, 0.1, 0.1, 0.0], &[("running", 0.9)], &[])).contains("source's own work"));
        assert!(said(spent([0.1, 0.8, 0.1, 0.0], &[("Client:ClientWrite", 1.0)], &[])).contains("here is the limit"));
        assert_eq!(spent([0.3, 0.3, 0.3, 0.1], &[], &[]).advice(), None);
    }

    #[test]
    fn shares_add_up_and_watching_ends_with_the_job() {
        let shares = Shares::default();
        assert!(shares.shares().is_empty());
        shares.add(Doing::Reading, Duration::from_millis(30));
        shares.add(Doing::Waiting, Duration::from_millis(10));
        assert_eq!(shares.shares()[0], ("reading", 0.75));
        let mut clock = Clock::new(&shares);
        std::thread::sleep(Duration::from_millis(2));
        clock.now(Doing::Working);
        drop(clock);
        assert!(shares.shares()[2].1 > 0.0, "it starts by opening a writer");
        let sum: f64 = shares.shares().iter().map(|(_, s)| s).sum();
        assert!((sum - 1.0).abs() < 1e-9);

        struct Once(Arc<AtomicU64>);
        impl Watch for Once {
            fn look(&mut self) -> haul_model::Result<Vec<(String, u64)>> {
                match self.0.fetch_add(1, Relaxed) {
                    0 => Ok(vec![("running".into(), 3), ("IO:X".into(), 1)]),
                    _ => Err(haul_model::Error::internal("gone")),
                }
            }
        }
        let looks = Arc::new(AtomicU64::new(0));
        let short = beside([Some(Box::new(Once(looks.clone()))), None], || {});
        assert_eq!((short, looks.load(Relaxed)), ([Vec::new(), Vec::new()], 0), "nobody looks at a short job");
        let [source, sink] = beside([None, Some(Box::new(Once(looks.clone())))], || {
            // It looks, fails at the second look, and is done.
            while Arc::strong_count(&looks) > 1 {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        assert_eq!(sink, [("running".to_string(), 0.75), ("IO:X".to_string(), 0.25)]);
        assert_eq!((source, looks.load(Relaxed)), (Waits::new(), 2));
    }
}

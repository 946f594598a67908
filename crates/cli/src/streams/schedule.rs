//! Several streams at a time: the largest first, none before those that it waits for.

use super::Item;
use crate::commands::copy::Done;
use haul_model::{Error, ErrorKind, KeysLater};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};

/// What became of a stream.
pub enum End {
    /// It ended well.
    Done(Box<Done>),
    /// It was finished by the run that this one goes on with.
    Before {
        /// Rows, as they were counted then.
        rows: u64,
        /// What is still to be made of its table.
        keys_later: Option<KeysLater>,
    },
    /// It failed.
    Failed(Error),
    /// It did not begin; why.
    Skipped(String),
}

impl End {
    /// What is still to be made of its table.
    pub fn keys_later(&self) -> Option<&KeysLater> {
        match self {
            Self::Done(done) => done.outcome.finished.keys_later.as_ref(),
            Self::Before { keys_later, .. } => keys_later.as_ref(),
            _ => None,
        }
    }

    /// In a word or a clause.
    pub fn word(&self) -> String {
        match self {
            Self::Done(_) => "ok".into(),
            Self::Before { .. } => "done before".into(),
            Self::Failed(_) => "FAILED".into(),
            Self::Skipped(why) => format!("skipped: {why}"),
        }
    }

    /// Whether the target has what the stream should bring.
    pub fn is_well(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Before { .. })
    }
}

/// Runs every item once, `width` at a time, and returns what became of each, in their order. After the first failure under
/// `fail_fast`, and after a stop, no more begin.
pub fn schedule(items: &[Item], width: usize, fail_fast: bool, stop: &AtomicBool, run: &(dyn Fn(usize, &Item) -> End + Sync)) -> Vec<End> {
    let state = Mutex::new(State { begun: vec![false; items.len()], ends: items.iter().map(|_| None).collect() });
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for number in 0..width.clamp(1, items.len().max(1)) {
            let worker = || work(items, fail_fast, stop, run, &state, &changed);
            // Without further threads the first one does it all.
            let spawned = std::thread::Builder::new().name(format!("haul-stream-{number}")).spawn_scoped(scope, worker);
            if spawned.is_err() {
                break;
            }
        }
    });
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.ends.into_iter().map(|end| end.unwrap_or_else(|| End::Failed(Error::internal("a stream was never run")))).collect()
}

struct State {
    begun: Vec<bool>,
    ends: Vec<Option<End>>,
}

impl State {
    /// What is to be done next; `None`: nothing is left to begin.
    fn next(&mut self, items: &[Item]) -> Option<Next> {
        let mut ready: Option<usize> = None;
        let mut waiting = false;
        for (number, item) in items.iter().enumerate().filter(|(n, _)| !self.begun[*n]) {
            let unfinished = item.waits_for.iter().any(|before| self.ends[*before].is_none());
            if unfinished {
                waiting = true;
            } else if ready.is_none_or(|best| item.bytes > items[best].bytes) {
                ready = Some(number);
            }
        }
        match (ready, waiting) {
            (Some(number), _) => {
                self.begun[number] = true;
                let failed = items[number].waits_for.iter().find(|before| !self.ends[**before].as_ref().is_some_and(End::is_well));
                Some(Next::Begin { number, missing: failed.copied() })
            }
            (None, true) => Some(Next::Wait),
            (None, false) => None,
        }
    }
}

enum Next {
    Begin { number: usize, missing: Option<usize> },
    Wait,
}

fn work(
    items: &[Item],
    fail_fast: bool,
    stop: &AtomicBool,
    run: &(dyn Fn(usize, &Item) -> End + Sync),
    state: &Mutex<State>,
    changed: &Condvar,
) {
    let mut held = state.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(next) = held.next(items) {
        let Next::Begin { number, missing } = next else {
            held = changed.wait(held).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let failed = held.ends.iter().flatten().any(|end| matches!(end, End::Failed(_)));
        let end = if stop.load(Relaxed) {
            End::Skipped("the job was stopped".into())
        } else if fail_fast && failed {
            End::Skipped("another stream failed (fail_fast)".into())
        } else if let Some(before) = missing {
            End::Skipped(format!("it refers to {}, which is not there", items[before].name))
        } else {
            drop(held);
            let guarded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(number, &items[number])));
            let end = guarded.unwrap_or_else(|_| End::Failed(Error::new(ErrorKind::Internal, "the stream panicked")));
            held = state.lock().unwrap_or_else(PoisonError::into_inner);
            end
        };
        held.ends[number] = Some(end);
        changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::Endpoint;
    use std::sync::atomic::AtomicUsize;

    fn item(name: &str, bytes: u64, waits_for: &[usize]) -> Item {
        let end = || Endpoint::parse("x.csv").unwrap();
        let waits_for = waits_for.to_vec();
        Item { name: name.into(), from: end(), to: end(), settings: Vec::new(), defaults: Vec::new(), catalog: None, bytes, waits_for }
    }

    fn told(ends: &[End]) -> Vec<String> {
        let one = |end: &End| match end {
            End::Done(_) => "done".into(),
            End::Before { rows, .. } => format!("{rows}"),
            End::Failed(error) => error.to_string(),
            End::Skipped(why) => why.clone(),
        };
        ends.iter().map(one).collect()
    }

    #[test]
    fn the_largest_comes_first_and_what_is_referred_to_before() {
        let items = [item("child", 900, &[2]), item("small", 1, &[]), item("parent", 10, &[]), item("large", 500, &[])];
        let order = Mutex::new(Vec::new());
        let ends = schedule(&items, 1, false, &AtomicBool::new(false), &|_, item| {
            order.lock().unwrap().push(item.name.clone());
            End::Before { rows: item.bytes, keys_later: None }
        });
        assert_eq!(order.into_inner().unwrap(), ["large", "parent", "child", "small"]);
        assert_eq!(told(&ends), ["900", "1", "10", "500"]);
    }

    #[test]
    fn one_failure_stops_what_depends_on_it_or_everything() {
        let items = [item("a", 3, &[]), item("b", 2, &[0]), item("c", 1, &[])];
        let run = |_: usize, item: &Item| match item.name.as_str() {
            "a" => End::Failed(Error::new(ErrorKind::Data, "bad")),
            _ => End::Before { rows: 0, keys_later: None },
        };
        let stop = AtomicBool::new(false);
        assert_eq!(told(&schedule(&items, 3, false, &stop, &run)), ["bad", "it refers to a, which is not there", "0"]);
        assert_eq!(told(&schedule(&items, 1, true, &stop, &run))[2], "another stream failed (fail_fast)");
    }

    #[test]
    fn no_more_than_so_many_run_at_a_time() {
        let items: Vec<Item> = (0..20).map(|n| item(&n.to_string(), n, &[])).collect();
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        schedule(&items, 3, false, &AtomicBool::new(false), &|_, _| {
            most.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(2));
            now.fetch_sub(1, Relaxed);
            End::Before { rows: 0, keys_later: None }
        });
        assert!((1..=3).contains(&most.into_inner()));
    }
}

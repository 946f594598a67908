//! Jobs without an end, on endpoints in memory: what is settled and acknowledged, and when; failures on the way.
#![allow(clippy::unwrap_used)]

use haul_engine::{Endless, Job, Options, Outcome, Progress, Retries, plan, run};
use haul_model::{Error, ErrorKind, Result, Sink, Source};
use haul_testkit::faults::{At, Fault, FaultySink, FaultySource};
use haul_testkit::log::{Log, SettlingSink};
use haul_testkit::memory::MemorySink;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn options() -> Options {
    Options {
        endless: Endless { job: "j".into(), max_latency: Duration::from_millis(50), ..Endless::default() },
        retries: Retries { most: 3, wait: Duration::from_millis(1) },
        ..Options::default()
    }
}

fn execute(source: impl Source + 'static, sink: impl Sink + 'static, stop: &AtomicBool, progress: &Progress) -> Result<Outcome> {
    let mut job = Job { source: Box::new(source), transforms: Vec::new(), sink: Box::new(sink), options: options() };
    let plan = plan(&mut job)?;
    assert!(plan.endless);
    run(&mut job, &plan, stop, progress, None)
}

/// Runs to the end of a log that is closed.
fn to_the_end(source: impl Source + 'static, sink: impl Sink + 'static) -> Result<Outcome> {
    execute(source, sink, &AtomicBool::new(false), &Progress::default())
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn sorted(sink: &SettlingSink) -> Vec<i64> {
    let mut rows = sink.look(|s| s.rows.clone());
    rows.sort_unstable();
    rows
}

#[test]
fn what_arrives_is_settled_and_acknowledged_before_the_job_waits() {
    for sink in [SettlingSink::database(), SettlingSink::file()] {
        let (log, stop, progress) = (Log::new(2, 10), AtomicBool::new(false), Progress::default());
        std::thread::scope(|scope| {
            let job = scope.spawn(|| execute(log.clone(), sink.clone(), &stop, &progress));
            log.append(0, 0..25);
            eventually("the first rows", || log.acknowledged(0) == 25);
            assert_eq!(sorted(&sink), (0..25).collect::<Vec<_>>());
            log.append(1, 25..26);
            eventually("one more", || log.acknowledged(1) == 1);
            assert_eq!(sorted(&sink), (0..26).collect::<Vec<_>>());
            assert_eq!(progress.behind(), Some(0));
            // A part that has no rows was never settled: nothing is noted of what was not read.
            stop.store(true, SeqCst);
            let outcome = job.join().unwrap().unwrap();
            assert_eq!((outcome.counts.read, outcome.finished.rows), (26, 26));
            assert!(outcome.finished.notes[0].contains("stopped by a signal"), "{:?}", outcome.finished.notes);
        });
        assert_eq!(sink.look(|s| (s.left, s.marks.len())), (1, 2));
    }
}

#[test]
fn a_busy_stream_is_settled_in_time_and_not_with_every_batch() {
    let (log, sink) = (Log::new(1, 10), SettlingSink::database());
    log.append(0, 0..2_000);
    log.close();
    let slow = FaultySource::new(log, &(1..=100).map(|n| (At::Read(n), Fault::Delay(Duration::from_millis(2)))).collect::<Vec<_>>());
    to_the_end(slow, sink.clone()).unwrap();
    let times = sink.look(|s| s.times);
    // 200 batches in at least 200 ms, with 50 ms of patience.
    assert!((3..60).contains(&times), "settled {times} times");
}

#[test]
fn a_later_run_goes_on_behind_the_marks_of_the_target() {
    for sink in [SettlingSink::database(), SettlingSink::file()] {
        for grouped in [false, true] {
            let base = if grouped { Log::new(2, 7).grouped() } else { Log::new(2, 7) };
            base.append(0, 0..50);
            base.append(1, 50..60);
            base.close();
            let sink = SettlingSink::clone(&sink);
            let before = sorted(&sink).len();
            // The answer to the second settling is lost, and with it every later try.
            let faults: Vec<_> = (2..=9).map(|n| (At::Settled(n), Fault::Fail(ErrorKind::Data))).collect();
            let error = to_the_end(base.clone(), FaultySink::new(sink.clone(), &faults));
            let first = sorted(&sink).len() - before;
            sink.crash();
            to_the_end(base.clone(), sink.clone()).unwrap();
            if before == 0 {
                assert_eq!(sorted(&sink), (0..60).collect::<Vec<_>>(), "{error:?} after {first}");
                assert!(error.is_err() || first == 60);
                assert!(!base.begun_at().is_empty());
            } else {
                // The marks of this job are there already, so nothing is read twice.
                assert_eq!(sorted(&sink).len(), before);
            }
        }
    }
}

#[test]
fn connections_that_break_are_made_again_without_loss_or_doubles() {
    let lost = Fault::Fail(ErrorKind::Connect);
    for grouped in [false, true] {
        for at in
            [At::Read(3), At::Write(2), At::Settle(1), At::Settled(1), At::Settled(2), At::Ack(1), At::OpenWriter(1), At::OpenReader(1)]
        {
            for as_file in [false, true] {
                if as_file && matches!(at, At::Write(_) | At::Settle(_) | At::Settled(_)) {
                    continue;
                }
                let log = if grouped { Log::new(3, 5).grouped() } else { Log::new(3, 5) };
                let sink = if as_file { SettlingSink::file() } else { SettlingSink::database() };
                (0..3).for_each(|part| log.append(part, (0..40).map(|n| n * 3 + part as i64)));
                log.close();
                let outcome = to_the_end(FaultySource::new(log.clone(), &[(at, lost)]), FaultySink::new(sink.clone(), &[(at, lost)]));
                let outcome = outcome.unwrap_or_else(|e| panic!("{at:?}, grouped {grouped}, as file {as_file}: {e}"));
                assert_eq!(sorted(&sink), (0..120).collect::<Vec<_>>(), "{at:?}, grouped {grouped}, as file {as_file}");
                (0..3).for_each(|part| assert_eq!(log.acknowledged(part), 40, "{at:?}"));
                assert_eq!(outcome.counts.sent, outcome.finished.rows);
            }
        }
    }
}

#[test]
fn what_cannot_be_tried_away_ends_the_job_and_leaves_what_is_durable() {
    let log = Log::new(1, 10);
    log.append(0, 0..100);
    let sink = SettlingSink::database();
    let faulty = FaultySource::new(log.clone(), &[(At::Read(4), Fault::Fail(ErrorKind::Data))]);
    let error = to_the_end(faulty, sink.clone()).unwrap_err();
    assert!(error.to_string().contains("injected"), "{error}");
    assert_eq!(sink.look(|s| s.left), 1);
    assert_eq!(log.acknowledged(0), sink.look(|s| s.rows.len()) as u64);
    // A connection that never comes back.
    let never: Vec<_> = (1..50).map(|n| (At::Read(n), Fault::Fail(ErrorKind::Connect))).collect();
    let error = to_the_end(FaultySource::new(log, &never), SettlingSink::database()).unwrap_err();
    assert_eq!((error.kind(), error.detail()), (ErrorKind::Connect, "tried 4 times in a row: injected"));
}

#[test]
fn a_target_that_confirms_less_fails_the_job() {
    let log = Log::new(1, 10);
    log.append(0, 0..100);
    log.close();
    let error = to_the_end(log.clone(), FaultySink::new(SettlingSink::database(), &[(At::Settle(1), Fault::Short)])).unwrap_err();
    assert_eq!(error.detail(), "100 rows were sent but the target confirmed 99");
    assert_eq!(log.acknowledged(0), 0);
}

#[test]
fn what_needs_an_end_is_refused() {
    let told = |change: fn(&mut Options), sink: Box<dyn Sink>| -> Error {
        let mut options = options();
        change(&mut options);
        let mut job = Job { source: Box::new(Log::new(1, 1)), transforms: Vec::new(), sink, options };
        plan(&mut job).unwrap_err()
    };
    let error = told(|o| o.limit = Some(3), Box::new(SettlingSink::database()));
    assert_eq!((error.kind(), error.detail()), (ErrorKind::Usage, "--limit needs an end, and this source has none"));
    let error = told(|_| (), Box::new(MemorySink::new()));
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.hint_text().unwrap().contains("a table of PostgreSQL takes such a job"), "{error:?}");
}

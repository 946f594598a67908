//! What a running job shows: a line for each stream that runs, and one for the whole.

use crate::progress::{Display, Style, every, line};
use crate::render;
use haul_engine::Progress;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Streams that run, and those that have ended.
pub struct Board {
    running: Mutex<Vec<Running>>,
    ended: AtomicUsize,
    total: usize,
    rows: AtomicU64,
    /// Bytes as they are stored in the sources: of all streams, and of those that have ended.
    bytes: u64,
    bytes_ended: AtomicU64,
    started: Instant,
}

struct Running {
    number: usize,
    name: String,
    bytes: u64,
    progress: Arc<Progress>,
    started: Instant,
}

impl Board {
    /// For so many streams, of so many bytes together.
    pub fn new(total: usize, bytes: u64) -> Self {
        Self {
            running: Mutex::default(),
            ended: AtomicUsize::new(0),
            total,
            rows: AtomicU64::new(0),
            bytes,
            bytes_ended: AtomicU64::new(0),
            started: Instant::now(),
        }
    }

    /// A stream begins.
    pub fn begin(&self, number: usize, name: &str, bytes: u64, progress: Arc<Progress>) {
        self.running().push(Running { number, name: name.to_string(), bytes, progress, started: Instant::now() });
    }

    /// It has ended.
    pub fn end(&self, number: usize) {
        let mut running = self.running();
        if let Some(at) = running.iter().position(|r| r.number == number) {
            let ended = running.remove(at);
            self.rows.fetch_add(ended.progress.counts().sent, Relaxed);
            self.bytes_ended.fetch_add(ended.bytes, Relaxed);
        }
        self.ended.fetch_add(1, Relaxed);
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines(&self) -> Vec<String> {
        let running = self.running();
        let mut lines: Vec<String> = running.iter().map(|r| line(&r.name, &r.progress, r.started.elapsed())).collect();
        let rows = self.rows.load(Relaxed) + running.iter().map(|r| r.progress.counts().sent).sum::<u64>();
        let halves: f64 = running.iter().map(|r| r.bytes as f64 * r.progress.fraction().unwrap_or(0.0)).sum();
        let elapsed = self.started.elapsed();
        let done = if self.bytes == 0 { 0.0 } else { (self.bytes_ended.load(Relaxed) as f64 + halves) / self.bytes as f64 };
        lines.push(total(self.ended.load(Relaxed), self.total, rows, done, elapsed));
        lines
    }
}

/// `total  3 of 12 streams  1,234,567 rows  450,000 rows/s  37%  ETA 12.00 s`.
fn total(ended: usize, streams: usize, rows: u64, done: f64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    let mut text = format!(
        "total  {ended} of {streams} streams  {} rows  {} rows/s",
        render::count(rows),
        render::count((rows as f64 / seconds) as u64)
    );
    if done > 0.0 {
        text.push_str(&format!("  {:.0}%  ETA {}", done * 100.0, render::seconds(seconds * (1.0 - done).max(0.0) / done)));
    }
    text
}

/// Shows the board until the display is dropped.
pub fn show_board(style: Style, board: Arc<Board>) -> Display {
    let live = (style == Style::Bar).then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
    let mut bars: Vec<ProgressBar> = Vec::new();
    every(style, move |last| {
        let Some(live) = &live else {
            if !last {
                board.lines().iter().for_each(|line| eprintln!("{line}"));
            }
            return;
        };
        let lines = if last { Vec::new() } else { board.lines() };
        while bars.len() < lines.len() {
            let bar = live.add(ProgressBar::new_spinner());
            bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bars.push(bar);
        }
        for bar in bars.drain(lines.len()..) {
            bar.finish_and_clear();
        }
        for (bar, line) in bars.iter().zip(lines) {
            bar.set_message(line);
            bar.tick();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_counts_streams_rows_and_stored_bytes() {
        assert_eq!(total(3, 12, 9000, 0.25, Duration::from_secs(3)), "total  3 of 12 streams  9,000 rows  3,000 rows/s  25%  ETA 9.00 s");
        assert_eq!(total(0, 2, 0, 0.0, Duration::from_secs(1)), "total  0 of 2 streams  0 rows  0 rows/s");
        let board = Board::new(2, 1000);
        let progress = Arc::new(Progress::default());
        board.begin(0, "prod:public.a", 400, progress.clone());
        progress.sent.store(7, Relaxed);
        progress.read.store(7, Relaxed);
        assert_eq!(board.lines().len(), 2);
        board.end(0);
        let lines = board.lines();
        assert!(lines.len() == 1 && lines[0].starts_with("total  1 of 2 streams  7 rows"), "{lines:?}");
        assert!(lines[0].contains("40%"), "{lines:?}");
    }
}

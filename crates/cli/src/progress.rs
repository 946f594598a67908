//! Shows a running job: a bar on a terminal, a line every 30 s elsewhere.

use crate::render;
use haul_engine::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How to show progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A live line.
    Bar,
    /// A line every 30 s.
    Plain,
    /// Nothing.
    None,
}

impl Style {
    /// From the setting; `auto` looks at standard error.
    pub fn of(word: Option<&str>) -> Self {
        match word {
            Some("bar") => Self::Bar,
            Some("plain") => Self::Plain,
            Some("none") => Self::None,
            _ if std::io::stderr().is_terminal() => Self::Bar,
            _ => Self::Plain,
        }
    }
}

/// A running display; ends when dropped.
pub struct Display {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts showing `progress` of the job called `name`.
pub fn show(style: Style, name: &str, progress: Arc<Progress>) -> Display {
    let (name, started) = (name.to_string(), Instant::now());
    let bar = (style == Style::Bar).then(|| {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar
    });
    every(style, move |last| match &bar {
        Some(bar) if last => bar.finish_and_clear(),
        Some(bar) => {
            bar.set_message(line(&name, &progress, started.elapsed()));
            bar.tick();
        }
        None if last => {}
        None => eprintln!("{}", line(&name, &progress, started.elapsed())),
    })
}

/// Calls `draw` as often as the style has it, on a thread of its own, and once more, with `true`, at the end.
pub fn every(style: Style, mut draw: impl FnMut(bool) + Send + 'static) -> Display {
    if style == Style::None {
        return Display { stop: None, thread: None };
    }
    let every = if style == Style::Bar { Duration::from_millis(100) } else { Duration::from_secs(30) };
    let (stop, stopped) = channel::<()>();
    let thread = std::thread::Builder::new().name("haul-progress".into()).spawn(move || {
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(every) {
            draw(false);
        }
        draw(true);
    });
    Display { stop: Some(stop), thread: thread.ok() }
}

impl Drop for Display {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// `orders  1,234,567 rows  450,000 rows/s  52.1 MB/s  37%  ETA 12.00 s`.
pub fn line(name: &str, progress: &Progress, elapsed: Duration) -> String {
    let counts = progress.counts();
    let seconds = elapsed.as_secs_f64().max(0.001);
    let bytes = counts.bytes_in.max(counts.bytes_out);
    let mut text = format!(
        "{name}  {} rows  {} rows/s  {}/s",
        render::count(counts.read),
        render::count((counts.read as f64 / seconds) as u64),
        render::bytes((bytes as f64 / seconds) as u64)
    );
    if counts.rejected > 0 {
        text.push_str(&format!("  {} rejected", render::count(counts.rejected)));
    }
    if let Some(behind) = progress.behind() {
        text.push_str(&format!("  {} behind", render::count(behind)));
    }
    if let Some(done) = progress.fraction().filter(|d| *d > 0.0) {
        text.push_str(&format!("  {:.0}%  ETA {}", done * 100.0, render::seconds(seconds * (1.0 - done) / done)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn the_line_shows_rates_and_eta_only_where_known() {
        let progress = Progress::default();
        progress.read.store(1000, Relaxed);
        progress.bytes_in.store(50_000, Relaxed);
        assert_eq!(line("t", &progress, Duration::from_secs(2)), "t  1,000 rows  500 rows/s  25.0 kB/s");
        progress.lag.store(7, Relaxed);
        progress.lag_known.store(true, Relaxed);
        assert!(line("t", &progress, Duration::from_secs(2)).ends_with("  7 behind"));
        progress.lag_known.store(false, Relaxed);
        progress.expected_rows.store(4000, Relaxed);
        assert_eq!(line("t", &progress, Duration::from_secs(2)), "t  1,000 rows  500 rows/s  25.0 kB/s  25%  ETA 6.00 s");
    }
}

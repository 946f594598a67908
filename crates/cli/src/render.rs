//! Text for people: errors with hints, aligned tables, numbers.

use haul_model::{Error, ErrorKind, Result};
use std::io::{IsTerminal, Write};

/// Prints an error once: what failed, where, and what to do.
pub fn error(error: &Error) {
    let (red, bold, plain) = if std::io::stderr().is_terminal() { ("\x1b[31;1m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
    eprintln!("{red}error:{plain} {error}");
    if let Some(hint) = error.hint_text() {
        eprintln!(" {bold}hint:{plain} {hint}");
    }
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no error.
///
/// # Errors
/// IO, for example a full disk.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("standard output", "cannot write", error)),
        _ => Ok(()),
    }
}

/// The exit code of an error: 2 for usage and configuration, 1 for a failed job.
pub fn exit_code(error: &Error) -> u8 {
    match error.kind() {
        kind if kind.is_usage() => 2,
        // A server that ends a session is a failure; only the user's own Ctrl-C is not.
        ErrorKind::Cancelled if error.code_text().is_none() => 130,
        _ => 1,
    }
}

/// `1234567` as `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Bytes as `123.4 MB` (powers of 1000, as disks and networks count).
pub fn bytes(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} B"),
        1_000..1_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{:.2} GB", n as f64 / 1e9),
    }
}

/// Seconds as `0.28 s`, `2 min 3 s`.
pub fn seconds(s: f64) -> String {
    if s < 60.0 {
        return format!("{s:.2} s");
    }
    let whole = s.round() as u64;
    if whole < 3600 { format!("{} min {} s", whole / 60, whole % 60) } else { format!("{} h {} min", whole / 3600, whole % 3600 / 60) }
}

/// An aligned table. Columns named in `right` are aligned to the right.
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl Table {
    /// A table with a header.
    pub fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|h| (*h).to_string()).collect()], right: Vec::new() }
    }
    /// Aligns columns to the right.
    pub fn right(mut self, columns: &[usize]) -> Self {
        self.right = columns.to_vec();
        self
    }
    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
    /// The text, each line ending with a line feed, the header underlined.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| self.rows.iter().filter_map(|r| r.get(c)).map(|s| display_width(s)).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for (i, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[c] - display_width(cell));
                if c > 0 {
                    line.push_str("  ");
                }
                if self.right.contains(&c) {
                    line.push_str(&pad);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&pad);
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
            if i == 0 {
                let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
                out.push_str(&rule.join("  "));
                out.push('\n');
            }
        }
        out
    }
}

/// Terminal cells: wide East Asian characters and emoji take two.
fn display_width(text: &str) -> usize {
    text.chars().map(|c| if matches!(c as u32, 0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF | 0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0x1F300..=0x1FAFF) { 2 } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_tables() {
        assert_eq!((count(0), count(999), count(1_234_567)), ("0".into(), "999".into(), "1,234,567".into()));
        assert_eq!((seconds(0.284), seconds(123.0), seconds(7322.0)), ("0.28 s".into(), "2 min 3 s".into(), "2 h 2 min".into()));
        let mut table = Table::new(&["name", "n"]).right(&[1]);
        table.row(vec!["日本".into(), "12".into()]);
        assert_eq!(table.render(), "name   n\n----  --\n日本  12\n");
    }
}

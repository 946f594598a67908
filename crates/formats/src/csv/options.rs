//! The settings of CSV and TSV, and what they mean together.

use super::decoder::Ragged;
use super::dialect::{Dialect, Newline};
use super::fields::FieldRule;
use crate::FormatSpec;
use haul_model::{Error, ErrorKind, Kind, Result, Setting, Settings};

static READ: &[Setting] = &[
    Setting::new(
        "delimiter",
        Kind::Text,
        ",",
        "The byte between fields: one ASCII character, `tab`, or `auto` to find it out from the first lines.",
    )
    .alias(&["sep", "separator", "delim"]),
    Setting::new("quote", Kind::Char, "\"", "The byte around fields; `none` makes quotes data.").alias(&["quotechar"]),
    Setting::new(
        "escape",
        Kind::Char,
        "",
        "Inside quotes, the byte in front of a quote (or of itself) that makes it data: usually `\\`. Doubled quotes always work.",
    )
    .alias(&["escapechar"]),
    Setting::new(
        "header",
        Kind::Text,
        "true",
        "`true`: the first record names the columns; `false`: columns are called column_1, column_2, ...; or the names, separated by commas, of a file without header.",
    ),
    Setting::new("null", Kind::List, "", "Texts that mean NULL when they stand unquoted, beside the empty field.")
        .alias(&["null_string", "nullstr"]),
    Setting::new("empty", Kind::Choice(&["null", "string"]), "null", "What an unquoted empty field is: NULL, or an empty string."),
    Setting::new("comment", Kind::Char, "none", "Lines that start with this byte are no records."),
    Setting::new("skip", Kind::Int, "0", "Physical lines to leave out before the header. A cut inside quotes is an error.")
        .alias(&["skip_lines"]),
    Setting::new("skip_records", Kind::Int, "0", "Records to leave out after the header."),
    Setting::new("trim", Kind::Bool, "false", "Drop spaces and tabs around unquoted fields and behind quoted ones."),
    Setting::new(
        "ragged",
        Kind::Choice(&["error", "pad"]),
        "error",
        "A record with fewer fields than the header: an error, or filled up with NULL. More fields are always an error.",
    ),
    Setting::new(
        "trailing_delimiter",
        Kind::Choice(&["keep", "drop"]),
        "keep",
        "An unnamed last column that a delimiter at the end of each line makes: keep it, or drop it where it is empty (a value in it is an error).",
    ),
    Setting::new(
        "encoding",
        Kind::Text,
        "auto",
        "utf-8, utf-16le, utf-16be, latin-1, windows-1252; `auto` goes by the byte order mark, UTF-8 without one.",
    ),
    Setting::new(
        "newline",
        Kind::Choice(&["auto", "lf", "crlf", "cr"]),
        "auto",
        "What ends a record. `auto`: LF or CR LF; lone CR if the first line ends so. `lf`: also CR LF, a lone CR is data. `crlf`: a lone CR or LF is data.",
    ),
    Setting::new("columns", Kind::List, "", "Columns to read, in this order; `auto` or nothing: all."),
];

static WRITE: &[Setting] = &[
    Setting::new("delimiter", Kind::Char, ",", "The byte between fields.").alias(&["sep", "separator", "delim"]),
    Setting::new("quote", Kind::Char, "\"", "The byte around fields that need it.").alias(&["quotechar"]),
    Setting::new("header", Kind::Bool, "true", "Whether the first line names the columns."),
    Setting::new("null", Kind::Text, "", "The text that stands for NULL, unquoted. A value that equals it is quoted.")
        .alias(&["null_string", "nullstr"]),
    Setting::new("newline", Kind::Choice(&["lf", "crlf"]), "lf", "What ends a record."),
    Setting::new(
        "quoting",
        Kind::Choice(&["minimal", "all", "none"]),
        "minimal",
        "Quote values that need it, all but NULL, or none (a value that needs quotes is an error).",
    ),
    Setting::new(
        "comment",
        Kind::Char,
        "none",
        "Quote first values that start with this byte, for readers that take such lines for comments.",
    ),
    Setting::new(
        "csv",
        Kind::Text,
        r#"{"nested":"json"}"#,
        r#"How objects are written: `{"nested":"json"}` as JSON text in one column, `{"nested":"flatten"}` as columns `parent.child`, whose names come from a sample of the rows (another key later is an error). Lists are JSON text."#,
    ),
    Setting::new("bom", Kind::Bool, "false", "Start with a UTF-8 byte order mark, for spreadsheet programs."),
];

/// The reference of this format.
pub static SPEC: FormatSpec = FormatSpec {
    name: "csv",
    aliases: &[],
    extensions: &["csv"],
    title: "Comma-separated values (RFC 4180)",
    read: READ,
    write: WRITE,
    container: false,
};

/// The reference of this format.
pub static TSV_SPEC: FormatSpec = FormatSpec {
    name: "tsv",
    aliases: &[],
    extensions: &["tsv", "tab"],
    title: "Tab-separated values",
    read: READ,
    write: WRITE,
    container: false,
};

/// Fills in what is different from CSV in the format called `format`: the tab of TSV.
pub fn apply_defaults(format: &str, settings: &mut Settings) {
    if format == TSV_SPEC.name && !settings.has("delimiter") {
        settings.set("delimiter", "tab");
    }
}

/// What the first record is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Header {
    /// The names.
    First,
    /// A record; names are made up.
    Absent,
    /// A record; these are the names.
    Given(Vec<String>),
}

/// The settings for reading, parsed. `dialect.newline` is final only after a look at the input.
#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    pub dialect: Dialect,
    pub sniff_delimiter: bool,
    pub detect_newline: bool,
    pub header: Header,
    pub rule: FieldRule,
    pub skip_lines: u64,
    pub skip_records: u64,
    pub ragged: Ragged,
    pub drop_trailing: bool,
    pub columns: Option<Vec<String>>,
}

fn config(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, text)
}

impl ReadOptions {
    /// Reads and checks the settings.
    ///
    /// # Errors
    /// `Config`: bytes that mean two things, or a value that makes no sense.
    pub(crate) fn parse(settings: &Settings) -> Result<Self> {
        let delimiter = settings.text("delimiter");
        let sniff_delimiter = delimiter.is_some_and(|d| d.eq_ignore_ascii_case("auto"));
        let dialect = Dialect {
            delimiter: if sniff_delimiter { b',' } else { delimiter_byte(settings)? },
            quote: settings.char("quote").unwrap_or(Some(b'"')),
            escape: settings.char("escape").flatten(),
            newline: match settings.choice("newline").as_deref() {
                Some("lf") => Newline::Lf,
                Some("crlf") => Newline::CrLf,
                Some("cr") => Newline::Cr,
                _ => Newline::Auto,
            },
            comment: settings.char("comment").flatten(),
            trim: settings.flag("trim", false),
        };
        let options = Self {
            // An escape that is the quote is the doubled quote.
            dialect: Dialect { escape: dialect.escape.filter(|e| Some(*e) != dialect.quote && dialect.quote.is_some()), ..dialect },
            sniff_delimiter,
            detect_newline: dialect.newline == Newline::Auto,
            header: header(settings)?,
            rule: FieldRule {
                nulls: settings.list("null").unwrap_or_default().into_iter().map(String::into_bytes).collect(),
                empty_is_string: settings.choice("empty").as_deref() == Some("string"),
            },
            skip_lines: count(settings, "skip")?,
            skip_records: count(settings, "skip_records")?,
            ragged: if settings.choice("ragged").as_deref() == Some("pad") { Ragged::Pad } else { Ragged::Error },
            drop_trailing: settings.choice("trailing_delimiter").as_deref() == Some("drop"),
            columns: settings.list("columns").filter(|c| !(c.is_empty() || c.len() == 1 && c[0] == "auto")),
        };
        check_bytes(&options.dialect)?;
        check_nulls(&options.dialect, &options.rule.nulls)?;
        Ok(options)
    }
}

pub(crate) fn delimiter_byte(settings: &Settings) -> Result<u8> {
    match settings.char("delimiter") {
        Some(Some(byte)) => Ok(byte),
        Some(None) => Err(config("delimiter=none: fields need a delimiter")),
        None => match settings.text("delimiter") {
            None => Ok(b','),
            Some(text) => Err(config(format!("setting \"delimiter\" takes one ASCII character, not {text:?}"))
                .hint("tab (or \\t) is a tab; auto finds out which of , ; tab | it is")),
        },
    }
}

fn header(settings: &Settings) -> Result<Header> {
    let Some(text) = settings.text("header") else { return Ok(Header::First) };
    Ok(match text.to_ascii_lowercase().as_str() {
        "" | "true" | "yes" | "on" | "1" => Header::First,
        "false" | "no" | "off" | "0" | "none" => Header::Absent,
        _ => {
            let names = settings.list("header").unwrap_or_default();
            if let Some(twice) = names.iter().enumerate().find(|(i, n)| names[..*i].contains(n)) {
                return Err(config(format!("header= names {:?} twice", twice.1)));
            }
            Header::Given(names)
        }
    })
}

fn count(settings: &Settings, name: &str) -> Result<u64> {
    let number = settings.int(name).unwrap_or(0);
    u64::try_from(number).map_err(|_| config(format!("setting {name:?} takes a number of at least 0, not {number}")))
}

/// Refuses dialects in which one byte means two things.
pub(crate) fn check_bytes(dialect: &Dialect) -> Result<()> {
    let named =
        [("delimiter", Some(dialect.delimiter)), ("quote", dialect.quote), ("escape", dialect.escape), ("comment", dialect.comment)];
    for (i, (name, byte)) in named.iter().enumerate() {
        let Some(byte) = byte else { continue };
        if matches!(byte, b'\r' | b'\n') {
            return Err(config(format!("{name} cannot be a line break")).hint("line breaks end records"));
        }
        if let Some((other, _)) = named[..i].iter().find(|(_, b)| *b == Some(*byte)) {
            return Err(config(format!("{other} and {name} are both {:?}", char::from(*byte))).hint("give one of them another character"));
        }
        if dialect.trim && matches!(byte, b' ' | b'\t') && *name != "delimiter" {
            return Err(config(format!("{name} cannot be a blank together with trim=true")));
        }
    }
    if dialect.trim && dialect.delimiter == b' ' {
        return Err(config("delimiter cannot be a space together with trim=true"));
    }
    Ok(())
}

/// Refuses NULL tokens that cannot be told from structure.
pub(crate) fn check_nulls(dialect: &Dialect, nulls: &[Vec<u8>]) -> Result<()> {
    for null in nulls {
        let text = String::from_utf8_lossy(null);
        if null.iter().any(|b| [b'\r', b'\n', dialect.delimiter].contains(b)) || dialect.quote.is_some_and(|q| null.contains(&q)) {
            return Err(config(format!("null={text:?} holds the delimiter, the quote or a line break")).hint("choose a token without them"));
        }
        if dialect.comment.is_some() && null.first().copied() == dialect.comment {
            return Err(config(format!("null={text:?} starts with the comment character")).hint("choose another token"));
        }
    }
    Ok(())
}

/// Which values the writer quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quoting {
    /// Those that would be read as something else without.
    Minimal,
    /// All but NULL.
    All,
    /// None: a value that needs quotes is an error.
    None,
}

/// The settings for writing, parsed.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub dialect: Dialect,
    pub header: bool,
    pub null: Vec<u8>,
    pub crlf: bool,
    pub quoting: Quoting,
    pub bom: bool,
}

impl WriteOptions {
    /// Reads and checks the settings.
    ///
    /// # Errors
    /// `Config`: what is written could not be read back.
    pub(crate) fn parse(settings: &Settings) -> Result<Self> {
        let quoting = match settings.choice("quoting").as_deref() {
            Some("all") => Quoting::All,
            Some("none") => Quoting::None,
            _ => Quoting::Minimal,
        };
        let quote = settings.char("quote").unwrap_or(Some(b'"'));
        if quote.is_none() && quoting == Quoting::All {
            return Err(config("quoting=all needs a quote, and quote=none says there is none"));
        }
        let dialect =
            Dialect { delimiter: delimiter_byte(settings)?, quote, comment: settings.char("comment").flatten(), ..Dialect::default() };
        check_bytes(&dialect)?;
        let null = settings.text("null").unwrap_or_default().as_bytes().to_vec();
        check_nulls(&dialect, std::slice::from_ref(&null))?;
        if super::dialect::trim_blanks(&null).len() < null.len() {
            return Err(
                config(format!("null={:?} starts or ends with a blank", String::from_utf8_lossy(&null))).hint("readers may trim it")
            );
        }
        Ok(Self {
            dialect,
            header: settings.flag("header", true),
            null,
            crlf: settings.choice("newline").as_deref() == Some("crlf"),
            quoting: if quote.is_none() { Quoting::None } else { quoting },
            bom: settings.flag("bom", false),
        })
    }

    /// What ends a record.
    pub(crate) fn terminator(&self) -> &'static [u8] {
        if self.crlf { b"\r\n" } else { b"\n" }
    }
}

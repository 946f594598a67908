//! Made-up rows that are the same everywhere: `generate://bench?rows=1000000&seed=42`, `generate://padded?bytes=256`,
//! `generate://orders?scale=2`.
//!
//! Figures compare only over the same bytes. The bench table is drawn from MT19937, so that any language can make it
//! again; the padded table has rows of one exact size, and orders is TPC-H's. Reading only.

mod bench;
mod mersenne;
mod orders;
mod padded;
mod source;
#[cfg(test)]
mod tests;

pub use bench::{Bench, HEADER as BENCH_HEADER};
use orders::Orders;
pub use source::{GenerateSource, Table};

use haul_formats::{Output, csv};
use haul_model::{
    CheckLine, Connector, ConnectorSpec, Encoding, Endpoint, Environment, Error, ErrorKind, Example, Kind, Result, Setting, Settings, Sink,
    Source, nearest,
};

/// The tables, as they are named behind `generate://`.
const TABLES: [&str; 3] = ["bench", "padded", "orders"];

/// The reference.
pub static SPEC: ConnectorSpec = ConnectorSpec {
    name: "generate",
    schemes: &["generate"],
    title: "Made-up rows, the same on every machine",
    doc: include_str!("README.md"),
    source: &[
        Setting::new("rows", Kind::Int, "1000000", "How many rows of bench or padded."),
        Setting::new("seed", Kind::Int, "42", "Seed of the bench table, from 0. The same seed gives the same rows."),
        Setting::new("bytes", Kind::Bytes, "256", "Size of a padded row as JSON, without its line end."),
        Setting::new("scale", Kind::Text, "1", "TPC-H scale factor of orders: 1 makes 1,500,000 rows."),
    ],
    sink: &[],
    examples: &[
        Example { command: "haul generate bench --rows 1000000 --seed 42 bench.csv", what: "The bench fixture, 116 MiB of CSV." },
        Example { command: "haul copy 'generate://bench?rows=1000000' bench.parquet", what: "The same rows as Parquet." },
        Example { command: "haul generate padded --bytes 4096 --rows 100000 padded.jsonl", what: "Rows of 4 KiB." },
        Example { command: "haul generate orders --scale 2 orders.parquet", what: "TPC-H's orders, 3,000,000 rows." },
    ],
};

/// The raw encoding of the bench fixture: the one that a CSV sink with `newline=crlf` takes as it is.
fn csv_encoding() -> Option<Encoding> {
    let settings = Settings::resolve(&[csv::SPEC.write], [("newline", "crlf")], csv::SPEC.name).ok()?;
    csv::CsvOutput::new(&settings, bench::schema()).ok()?.encoding()
}

/// The connector.
pub struct GenerateConnector;

impl GenerateConnector {
    fn parse(endpoint: &Endpoint, settings: &Settings) -> Result<GenerateSource> {
        let name = endpoint.address.trim_end_matches('/');
        let number = |setting: &str, default: i64| {
            let given = settings.int(setting).unwrap_or(default);
            u64::try_from(given)
                .map_err(|_| Error::new(ErrorKind::Config, format!("setting {setting:?} cannot be negative, as {given} is")))
        };
        let rows = number("rows", 1_000_000)?;
        let table = match name {
            "bench" => Table::Bench { seed: number("seed", 42)? },
            "padded" => {
                let bytes = settings.bytes("bytes").unwrap_or(256);
                padded::check(bytes, rows)?;
                Table::Padded { bytes: bytes as usize }
            }
            "orders" => {
                if settings.has("rows") {
                    return Err(Error::new(ErrorKind::Config, "setting \"rows\" means nothing for orders")
                        .hint("scale says how many there are: 1 makes 1,500,000"));
                }
                let orders = Orders::new(settings.text("scale").unwrap_or("1"))?;
                return Ok(GenerateSource::new(Table::Orders(orders), orders.rows()));
            }
            other => {
                let error = Error::new(ErrorKind::Config, format!("no generated table is called {other:?}"));
                return Err(match nearest(other, TABLES) {
                    Some(near) => error.hint(format!("did you mean generate://{near}?")),
                    None => error.hint(format!("there are {}", TABLES.join(", "))),
                });
            }
        };
        Ok(GenerateSource::new(table, rows))
    }
}

impl Connector for GenerateConnector {
    fn spec(&self) -> &'static ConnectorSpec {
        &SPEC
    }

    fn source(&self, endpoint: &Endpoint, settings: &Settings, _env: &Environment) -> Result<Box<dyn Source>> {
        Ok(Box::new(Self::parse(endpoint, settings)?))
    }

    fn sink(&self, _endpoint: &Endpoint, _settings: &Settings, _env: &Environment) -> Result<Box<dyn Sink>> {
        Err(Error::new(ErrorKind::Unsupported, "generated rows can only be read").hint("name another target"))
    }

    fn check(&self, endpoint: &Endpoint, settings: &Settings, _env: &Environment) -> Result<Vec<CheckLine>> {
        let source = Self::parse(endpoint, settings)?;
        let rows = source.estimate().rows.unwrap_or_default();
        Ok(vec![CheckLine { what: source.name(), ok: Some(true), found: format!("{rows} rows, made on the fly") }])
    }
}

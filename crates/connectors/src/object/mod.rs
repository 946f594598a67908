//! Object stores: sets of files in buckets. Listing, ranges and uploads are here; formats, sets and their manifest are those of files.

mod config;
mod credentials;
mod errors;
mod list;
mod others;
mod place;
mod read;
mod store;
mod upload;

use crate::file::{self, Place, PlacedSink, SetSink};
use config::Address;
use haul_model::{
    CheckLine, Connector, ConnectorSpec, Endpoint, Environment, Error, ErrorKind, Example, Leftover, Result, Setting, Settings, Sink,
    Source,
};
use place::Prefix;
use std::sync::Arc;
use store::Store;

/// The reference.
pub static SPEC: ConnectorSpec = ConnectorSpec {
    name: "object",
    schemes: &["s3", "s3a", "gs", "az", "http", "https"],
    title: "Object stores: S3 and what speaks like it; Google Cloud Storage, Azure and HTTP for reading",
    doc: include_str!("README.md"),
    source: config::SOURCE,
    sink: config::SINK,
    examples: &[
        Example { command: "haul copy 's3://lake/orders/*.parquet' orders.csv --where \"price > 1000\"", what: "some rows of a set" },
        Example {
            command: "haul copy 'postgres://app@db/shop?table=orders' 's3://lake/{schema}.{table}/{lane:02}_{part:03}.parquet' --degree 4",
            what: "a table into a set of files",
        },
        Example {
            command: "haul copy orders.csv s3://lake/orders.parquet?endpoint=http://127.0.0.1:9000",
            what: "another S3 than Amazon's",
        },
    ],
};

/// The connector.
pub struct ObjectConnector;

/// The smallest part that S3 takes, but for the last.
const LEAST_PART: u64 = 5 << 20;
const MOST_PART: u64 = 5 << 30;

/// The format's name is that of the key's end: a URI as a path.
fn as_path(endpoint: &Endpoint) -> Result<String> {
    let address = Address::of(endpoint)?;
    Ok(address.uri(&address.key))
}

fn part_size(settings: &Settings) -> Result<usize> {
    match settings.bytes("part_size").unwrap_or(8 << 20) {
        size @ LEAST_PART..=MOST_PART => Ok(size as usize),
        size => Err(Error::new(ErrorKind::Config, format!("setting \"part_size\" goes from 5MiB to 5GiB, not {size}"))),
    }
}

/// Where an S3 is reached that is not Amazon's.
fn endpoint_of(address: &Address, settings: &Settings, env: &Environment) -> Result<Option<String>> {
    match address.scheme.as_str() {
        "s3" => Ok(credentials::find(settings, env)?.endpoint),
        _ => Ok(None),
    }
}

impl Connector for ObjectConnector {
    fn spec(&self) -> &'static ConnectorSpec {
        &SPEC
    }

    fn source_settings(&self, endpoint: &Endpoint) -> Result<Vec<&'static [Setting]>> {
        let format = file::format_by_name(&as_path(endpoint)?, endpoint.get("format"))?;
        Ok(vec![config::SOURCE, format.read])
    }

    fn sink_settings(&self, endpoint: &Endpoint) -> Result<Vec<&'static [Setting]>> {
        let format = file::format_by_name(&as_path(endpoint)?, endpoint.get("format"))?;
        Ok(vec![format.write, config::SINK])
    }

    fn source(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Box<dyn Source>> {
        let store = Store::new(Address::of(endpoint)?, settings, env)?;
        let name = store.address.uri(&store.address.key);
        Ok(Box::new(file::FileSource::files(&list::find(&store)?, &name, settings)?))
    }

    fn sink(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Box<dyn Sink>> {
        let address = Address::of(endpoint)?;
        let (key, part_size) = (address.key.clone(), part_size(settings)?);
        let store = Store::new(address, settings, env)?;
        store.parts()?;
        let told = |setting: &Setting| Some((setting.name.to_string(), settings.text(setting.name)?.to_string()));
        let reach = config::COMMON.iter().filter_map(told).collect();
        let run = env.run_id.clone();
        let make = {
            let store = store.clone();
            move |root: &str| -> Result<Arc<dyn Place>> { Ok(Arc::new(Prefix::new(store.clone(), root, &run, part_size))) }
        };
        let name = store.address.uri(&key);
        let set = match key.is_empty() || key.ends_with('/') {
            true => Some(file::template_in_folder(&key, file::format_by_name(&name, settings.text("format"))?, settings)),
            false => file::template_of_several(&key)?,
        };
        if let Some(template) = set {
            return Ok(Box::new(SetSink::new(&template, settings, &env.run_id, Box::new(make))?.called(name).reached_by(reach)));
        }
        file::no_set(settings, &name)?;
        Ok(Box::new(PlacedSink::new(&name, &key, settings, &env.run_id, Box::new(make))?.reached_by(reach)))
    }

    fn object(&self, connection: &Endpoint, name: &str) -> Result<Endpoint> {
        let folder = connection.address.trim_end_matches('/');
        Ok(Endpoint { address: format!("{folder}/{}", haul_model::percent_encode_path(name)), ..connection.clone() })
    }

    /// A name is one part of a key, whatever is in it.
    fn quoted(&self, name: &str) -> String {
        match name {
            "." | ".." => name.replace('.', "%2E"),
            _ => name.replace('/', "%2F"),
        }
    }

    fn identity(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<String> {
        let address = Address::of(endpoint)?;
        let elsewhere = endpoint_of(&address, settings, env)?;
        let uri = address.uri(&address.key);
        Ok(elsewhere.map_or(uri.clone(), |endpoint| format!("{uri} at {endpoint}")))
    }

    fn clean(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment, left: &[Leftover]) -> Result<Vec<String>> {
        let mut removed = Vec::new();
        for left in left {
            let Some(place) = left.what.strip_prefix(place::LEFT) else { continue };
            let (uri, at) = place.split_once(" at ").unwrap_or((place, ""));
            let mut settings = settings.clone();
            if !at.is_empty() {
                settings.set("endpoint", at.to_string());
            }
            let store = Store::new(Address::of(endpoint)?, &settings, env)?;
            let Some(root) = uri.strip_prefix(&store.address.uri("")) else {
                return Err(Error::new(ErrorKind::Data, format!("{uri} is not in {}", store.address.uri(""))));
            };
            let place = Prefix::new(store.clone(), root, &left.run, LEAST_PART as usize);
            if let Some(manifest) = place.manifest()?.filter(|m| m.replacing && m.run == left.run) {
                file::finish_set(&place, manifest)?;
                removed.push(format!("the last step of the set in {uri}: it is whole now"));
            }
            match place.abort_noted()? {
                0 => {}
                count => removed.push(format!("{count} unfinished upload(s) below {uri}")),
            }
        }
        Ok(removed)
    }

    fn check(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Vec<CheckLine>> {
        let line = |what: &str, ok, found: String| CheckLine { what: what.to_string(), ok, found };
        let store = Store::new(Address::of(endpoint)?, settings, env)?;
        let name = store.address.uri(&store.address.key);
        let mut lines = Vec::new();
        match list::find(&store) {
            Ok(objects) => {
                let bytes: u64 = objects.iter().filter_map(|o| o.bytes()).sum();
                lines.push(line("exists", Some(true), format!("{} object(s), {bytes} bytes", objects.len())));
                match file::FileSource::files(&objects, &name, settings) {
                    Ok(source) => {
                        let columns = source.schema(haul_model::Form::Typed)?.fields().len();
                        lines.push(line("read", Some(true), format!("{columns} columns")));
                    }
                    Err(error) => lines.push(line("read", Some(false), error.to_string())),
                }
            }
            Err(error) => lines.push(line("exists", Some(false), error.to_string())),
        }
        Ok(lines)
    }
}

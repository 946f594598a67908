//! The connector as the registry knows it.

use super::held::Held;
use super::settings;
use super::source::CdcSource;
use crate::postgres::config;
use crate::postgres::session::Session;
use haul_model::{
    CheckLine, Connector, ConnectorSpec, Endpoint, Environment, Error, ErrorKind, Example, Result, Setting, Settings, Sink, Source,
};

/// The reference.
pub static SPEC: ConnectorSpec = ConnectorSpec {
    name: "postgres-cdc",
    schemes: &["postgres-cdc"],
    title: "Changes of PostgreSQL tables, by logical replication (pgoutput)",
    doc: include_str!("README.md"),
    source: settings::SOURCE,
    sink: &[],
    examples: &[
        Example {
            command: "haul copy 'postgres-cdc://app@db1/prod?table=public.orders' orders.jsonl --follow",
            what: "the rows that are there, then every change, until it is stopped",
        },
        Example {
            command: "haul copy 'postgres-cdc://app@db1/prod?tables=public.*' changes.jsonl --capture stream",
            what: "what has changed since the last run",
        },
    ],
};

/// The connector.
pub struct PostgresCdc;

impl Connector for PostgresCdc {
    fn spec(&self) -> &'static ConnectorSpec {
        &SPEC
    }

    fn source_settings(&self, endpoint: &Endpoint) -> Result<Vec<&'static [Setting]>> {
        config::check_shape(endpoint)?;
        Ok(vec![SPEC.source])
    }

    fn source(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Box<dyn Source>> {
        Ok(Box::new(CdcSource::open(endpoint, settings, env)?))
    }

    fn sink(&self, _endpoint: &Endpoint, _settings: &Settings, _env: &Environment) -> Result<Box<dyn Sink>> {
        Err(Error::new(ErrorKind::Unsupported, "changes are read from postgres-cdc://, and written to postgres://"))
    }

    fn object(&self, connection: &Endpoint, name: &str) -> Result<Endpoint> {
        config::TableName::parse(name)?;
        let mut endpoint = connection.clone();
        endpoint.query.retain(|(key, _)| key != "table" && key != "tables");
        endpoint.query.insert(0, ("table".to_string(), name.to_string()));
        Ok(endpoint)
    }

    fn identity(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<String> {
        let target = config::target(endpoint, settings, env)?;
        let hosts: Vec<String> = target.config.hosts.iter().map(ToString::to_string).collect();
        Ok(format!("postgres-cdc://{}/{}", hosts.join(","), target.config.database))
    }

    fn stream_status(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Vec<CheckLine>> {
        Held::find(endpoint, settings, env)?.status()
    }

    fn stream_drop(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Vec<String>> {
        Held::find(endpoint, settings, env)?.drop()
    }

    fn check(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Vec<CheckLine>> {
        let mut session = Session::open(&config::target(endpoint, settings, env)?, env, "check")?;
        super::publication::check_server(&mut session)?;
        let sql = "SELECT r.rolreplication OR r.rolsuper, r.rolname FROM pg_catalog.pg_roles r WHERE r.rolname = current_user";
        let row = session.row(sql, &[])?;
        if !row.as_ref().is_some_and(|row| row.flag(0)) {
            let name = row.map_or(String::new(), |row| row.text(1).to_string());
            return Err(Error::new(ErrorKind::Permission, format!("role {name} may not replicate"))
                .object(session.host())
                .hint(format!("ALTER ROLE {name} REPLICATION")));
        }
        Ok(CdcSource::open(endpoint, settings, env)?.check_lines())
    }
}

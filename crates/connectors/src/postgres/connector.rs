//! The connector as the registry knows it.

use super::database::Database;
use super::sink::PostgresSink;
use super::{check, config, source::PostgresSource};
use haul_model::{
    Catalog, CheckLine, Connector, ConnectorSpec, Endpoint, Environment, Example, Leftover, Result, Setting, Settings, Sink, Source,
    StateStore, TablePart,
};

/// The reference.
pub static SPEC: ConnectorSpec = ConnectorSpec {
    name: "postgres",
    schemes: &["postgres", "postgresql"],
    title: "PostgreSQL 10 and newer: tables, views and queries by COPY",
    doc: include_str!("README.md"),
    source: config::SOURCE,
    sink: super::sink::SINK,
    examples: &[
        Example {
            command: "haul copy 'postgres://app@db1/prod?table=public.orders' orders.parquet",
            what: "a table to Parquet, types kept",
        },
        Example {
            command: "haul copy 'postgres://app@db1/prod?table=orders' orders.csv --where \"placed > '2026-01-01'\"",
            what: "some rows to CSV",
        },
        Example {
            command: "haul copy postgres://app@db1/prod --query 'SELECT id, total FROM orders' -",
            what: "a query to standard output",
        },
        Example {
            command: "haul copy orders.csv 'postgres://app@db1/prod?table=orders' --create",
            what: "a CSV file into a table, which is made if it is missing",
        },
        Example {
            command: "haul copy 'postgres://app@db1/prod?table=orders' 'postgres://app@db2/copy?table=orders' --mode replace",
            what: "a table to another server, in place of what is there",
        },
        Example { command: "haul check 'postgres://app@db1/prod?table=orders'", what: "can it be reached, with what rights" },
    ],
};

/// The connector.
pub struct Postgres;

impl Connector for Postgres {
    fn spec(&self) -> &'static ConnectorSpec {
        &SPEC
    }

    fn source_settings(&self, endpoint: &Endpoint) -> Result<Vec<&'static [Setting]>> {
        config::check_shape(endpoint)?;
        Ok(vec![SPEC.source])
    }

    fn sink_settings(&self, endpoint: &Endpoint) -> Result<Vec<&'static [Setting]>> {
        config::check_shape(endpoint)?;
        Ok(vec![SPEC.sink])
    }

    fn source(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Box<dyn Source>> {
        Ok(Box::new(PostgresSource::open(endpoint, settings, env)?))
    }

    fn sink(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Box<dyn Sink>> {
        Ok(Box::new(PostgresSink::open(endpoint, settings, env)?))
    }

    fn object(&self, connection: &Endpoint, name: &str) -> Result<Endpoint> {
        config::TableName::parse(name)?;
        let mut endpoint = connection.clone();
        endpoint.query.retain(|(key, _)| key != "table");
        endpoint.query.insert(0, ("table".to_string(), name.to_string()));
        Ok(endpoint)
    }

    fn quoted(&self, name: &str) -> String {
        if name.contains(['.', '"']) { super::catalog::quote_ident(name) } else { name.to_string() }
    }

    fn catalog(&self, connection: &Endpoint, env: &Environment) -> Result<Option<Box<dyn Catalog>>> {
        config::check_shape(connection)?;
        let of_connection = connection.query.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        let known = of_connection.filter(|(name, _)| config::CONNECTION.iter().any(|s| s.answers_to(name) && s.name != "table"));
        let settings = Settings::resolve(&[config::CONNECTION], known, SPEC.name)?;
        Ok(Some(Box::new(Database::connect(config::target(connection, &settings, env)?, env)?)))
    }

    fn identity(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<String> {
        let target = config::target(endpoint, settings, env)?;
        let hosts: Vec<String> = target.config.hosts.iter().map(ToString::to_string).collect();
        let table = target.table.map(|table| table.to_string()).unwrap_or_default();
        Ok(format!("postgres://{}/{}/{table}", hosts.join(","), target.config.database))
    }

    fn add_keys(
        &self,
        endpoint: &Endpoint,
        settings: &Settings,
        env: &Environment,
        table: &str,
        keys: &[TablePart],
    ) -> Result<Vec<String>> {
        let mut session = super::session::Session::open(&config::target(endpoint, settings, env)?, env, "keys")?;
        super::sink::add_keys(&mut session, table, keys).map_err(|e| e.object(table))
    }

    fn clean(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment, left: &[Leftover]) -> Result<Vec<String>> {
        super::sink::clean(&config::target(endpoint, settings, env)?, env, left)
    }

    fn state(&self, endpoint: &Endpoint, env: &Environment) -> Result<Box<dyn StateStore>> {
        Ok(Box::new(super::state::PostgresState::new(endpoint, env)?))
    }

    fn check(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Vec<CheckLine>> {
        check::check(endpoint, settings, env)
    }
}

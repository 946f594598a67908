//! The two ends of a stream as they are written: `prod:public.orders`, `lake:{schema}/{table}.parquet`, a path or a URI.

use haul_connectors::by_scheme;
use haul_model::{Connector, Endpoint, Error, ErrorKind, Object, Result, nearest, percent_encode};

/// An end before it is known which table it is about.
#[derive(Debug, Clone)]
pub struct Place {
    /// The name of the connection, if it is one of the file's.
    pub connection: Option<String>,
    /// The connection, or the whole address.
    pub base: Endpoint,
    /// The object inside of it (a table, a path, a pattern or a template), with settings and steps of its own.
    pub object: Option<Endpoint>,
}

impl Place {
    /// Reads an end.
    ///
    /// # Errors
    /// `Config`: a connection that the file does not have.
    pub fn parse(text: &str, connections: &[(String, Endpoint)]) -> Result<Self> {
        let known = |name: &str| connections.iter().find(|(n, _)| n == name);
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if let Some((name, base)) = known(name) {
            let mut base = base.clone();
            let object = match rest.strip_prefix(':') {
                Some(object) if !object.starts_with("//") => Some(Endpoint::parse(object)?),
                _ if rest.is_empty() => None,
                _ if rest.starts_with(['?', '|']) => {
                    // The connection itself, with settings or steps behind it.
                    let tail = Endpoint::parse(&format!("-{rest}"))?;
                    base.query.extend(tail.query);
                    base.suffixes.extend(tail.suffixes);
                    None
                }
                _ => return Ok(Self { connection: None, base: Endpoint::parse(text)?, object: None }),
            };
            return Ok(Self { connection: Some(name.clone()), base, object });
        }
        let looks_like_one = end > 1 && rest.starts_with(':') && !rest.starts_with("://");
        if looks_like_one && !connections.is_empty() {
            let error = Error::new(ErrorKind::Config, format!("there is no connection {name:?}"));
            return Err(match nearest(name, connections.iter().map(|(n, _)| n.as_str())) {
                Some(near) => error.hint(format!("did you mean {near:?}? (a path with a colon in it is written ./{text})")),
                None => error.hint("name it under connections"),
            });
        }
        Ok(Self { connection: None, base: Endpoint::parse(text)?, object: None })
    }

    /// The connector of this end.
    ///
    /// # Errors
    /// `Config`.
    pub fn connector(&self) -> Result<&'static dyn Connector> {
        by_scheme(&self.base.scheme)
    }

    /// The object as it is written, if one is: behind the connection, or as the `table` setting of an address.
    pub fn pattern(&self) -> Option<&str> {
        match &self.object {
            Some(object) => Some(&object.address),
            None => self.base.get("table").or_else(|| self.base.get("relation")),
        }
    }

    /// The address alone: the system that all of its objects are in.
    pub fn system(&self) -> Endpoint {
        let mut system = self.base.clone();
        system.query.retain(|(key, _)| key != "table" && key != "relation");
        system.suffixes.clear();
        system
    }

    /// The end for one object, under the name that the connector knows it by.
    ///
    /// # Errors
    /// `Config`.
    pub fn at(&self, name: &str) -> Result<Endpoint> {
        let mut endpoint = self.connector()?.object(&Endpoint { suffixes: self.base.suffixes.clone(), ..self.base.clone() }, name)?;
        if let Some(object) = &self.object {
            endpoint.query.extend(object.query.iter().cloned());
            endpoint.suffixes.extend(object.suffixes.iter().cloned());
        }
        Ok(endpoint)
    }

    /// The target for an object that is read: `{schema}` and `{table}` are put in place.
    ///
    /// # Errors
    /// `Config`: a placeholder where no table is read; no object where one is needed.
    pub fn target_of(&self, source: Option<&Object>) -> Result<Endpoint> {
        let connector = self.connector()?;
        let quoted = |name: &str| connector.quoted(name);
        let whole = "{schema}.{table}".to_string();
        let template = match (&self.object, self.base.get("table")) {
            (Some(object), _) => Some(object.address.clone()),
            // A database without a table: the table of the same name.
            (None, None) if has_tables(connector) && source.is_some() => Some(whole),
            _ => None,
        };
        if let Some(template) = template {
            return self.at(&fill(&template, source, &quoted)?);
        }
        let mut endpoint = self.base.clone();
        let encoded = |name: &str| if self.base.is_uri { percent_encode(name) } else { quoted(name) };
        endpoint.address = fill(&endpoint.address, source, &encoded)?;
        for (_, value) in endpoint.query.iter_mut().filter(|(key, _)| key == "table" || key == "relation") {
            *value = fill(value, source, &quoted)?;
        }
        Ok(endpoint)
    }
}

/// Whether a connector writes into tables, which have a setting of this name.
pub fn has_tables(connector: &dyn Connector) -> bool {
    connector.spec().sink.iter().any(|setting| setting.name == "table")
}

fn fill(template: &str, source: Option<&Object>, quoted: &dyn Fn(&str) -> String) -> Result<String> {
    let mut out = template.to_string();
    for (placeholder, value) in
        [("{schema}", source.map(|o| o.schema.as_deref().unwrap_or_default())), ("{table}", source.map(|o| o.name.as_str()))]
    {
        if !out.contains(placeholder) {
            continue;
        }
        let value = value.ok_or_else(|| {
            Error::new(ErrorKind::Config, format!("{placeholder} in {template:?}: the stream reads no table that could be named there"))
        })?;
        out = out.replace(placeholder, &quoted(value));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections() -> Vec<(String, Endpoint)> {
        let of = |name: &str, uri: &str| (name.to_string(), Endpoint::parse(uri).unwrap());
        vec![of("prod", "postgres://app@db1/prod?sslmode=disable"), of("lake", "/data/exports"), of("far", "file:///data/a%20b")]
    }

    fn target(text: &str) -> String {
        let source = Object { schema: Some("public".into()), name: "odd/na.me".into(), bytes: 0 };
        Place::parse(text, &connections()).unwrap().target_of(Some(&source)).unwrap().redacted()
    }

    #[test]
    fn connections_are_told_from_paths_and_addresses() {
        let place = |text: &str| Place::parse(text, &connections()).unwrap();
        let orders = place("prod:public.orders?where=id > 3|transform?cast=id:text");
        assert_eq!((orders.connection.as_deref(), orders.pattern()), (Some("prod"), Some("public.orders")));
        let at = orders.at("public.orders").unwrap();
        assert_eq!(at.redacted(), "postgres://app@db1/prod?table=public.orders&sslmode=disable&where=id > 3");
        assert_eq!(at.suffixes.len(), 1);
        assert_eq!(place("prod?query=SELECT 1").base.get("query"), Some("SELECT 1"));
        for path in ["./prod:x.csv", "out/prod.csv", "c", "postgres://h/d?table=t", "prod.csv"] {
            assert!(place(path).connection.is_none(), "{path}");
        }
        let error = Place::parse("prd:public.orders", &connections()).unwrap_err();
        assert_eq!(error.to_string(), "there is no connection \"prd\"");
        assert!(error.hint_text().unwrap().contains("\"prod\""));
    }

    #[test]
    fn templates_quote_names_as_their_end_needs_it() {
        assert_eq!(target("prod:copy.{table}"), "postgres://app@db1/prod?table=copy.\"odd/na.me\"&sslmode=disable");
        assert_eq!(target("prod"), "postgres://app@db1/prod?table=public.\"odd/na.me\"&sslmode=disable");
        assert_eq!(target("lake:{schema}/{table}.csv"), "/data/exports/public/odd%2Fna.me.csv");
        assert_eq!(target("far:{table}.csv"), "file:///data/a%20b/odd%252Fna.me.csv");
        assert_eq!(target("out/{schema}.{table}.csv"), "out/public.odd%2Fna.me.csv");
        let error = Place::parse("lake:{table}.csv", &connections()).unwrap().target_of(None).unwrap_err();
        assert!(error.to_string().contains("reads no table"), "{error}");
    }
}

//! The part of a `postgres://` URI between `://` and `?`: `user:password@host:port,host:port/database`.
//!
//! Every part may be percent-encoded. A part that could be a password is never repeated in a message.

use haul_model::{Error, ErrorKind, Result, percent_decode};

/// A parsed address. Parts that were left out are `None` or empty.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Address {
    pub user: Option<String>,
    pub password: Option<String>,
    /// Host (name, address without brackets, or folder) and port.
    pub hosts: Vec<(String, Option<u16>)>,
    pub database: Option<String>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Address({:?}, {:?}, {:?}, password: {})",
            self.user,
            self.hosts,
            self.database,
            if self.password.is_some() { "***" } else { "none" }
        )
    }
}

/// What an address with stray special characters most likely is.
pub(super) fn unencoded() -> Error {
    Error::new(ErrorKind::Config, "the address cannot be understood: a user name or password seems to hold special characters as they are")
        .hint("percent-encode them (@ as %40, : as %3A, / as %2F, ? as %3F, # as %23, % as %25), or give the password by PGPASSWORD or ~/.pgpass")
}

/// Parses the address.
///
/// # Errors
/// `Config`, without repeating any part of it.
pub(super) fn parse_address(text: &str) -> Result<Address> {
    let (authority, path) = match text.split_once('/') {
        Some((authority, path)) => (authority, Some(path)),
        None => (text, None),
    };
    if path.is_some_and(|p| p.contains('@')) {
        return Err(unencoded());
    }
    let (info, hosts) = match authority.split_once('@') {
        Some((_, hosts)) if hosts.contains('@') => return Err(unencoded()),
        Some((info, hosts)) => (Some(info), hosts),
        None => (None, authority),
    };
    let mut address = Address::default();
    if let Some(info) = info {
        let (user, password) = match info.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (info, None),
        };
        address.user = Some(decode(user)?).filter(|u| !u.is_empty());
        address.password = password.map(decode).transpose()?.filter(|p| !p.is_empty());
    }
    if !hosts.is_empty() {
        address.hosts = hosts.split(',').map(host_and_port).collect::<Result<_>>()?;
    }
    address.database = path.map(decode).transpose()?.filter(|d| !d.is_empty());
    Ok(address)
}

fn decode(text: &str) -> Result<String> {
    let decoded = percent_decode(text).map_err(|_| unencoded())?;
    if decoded.contains('\0') {
        return Err(Error::new(ErrorKind::Config, "a part of the address holds a NUL byte"));
    }
    Ok(decoded)
}

fn host_and_port(text: &str) -> Result<(String, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(unencoded)?;
            match rest {
                "" => (host, None),
                rest => (host, Some(rest.strip_prefix(':').ok_or_else(unencoded)?)),
            }
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(Error::new(ErrorKind::Config, "a host in the address has several colons")
                    .hint("write an IPv6 address in brackets: [::1]:5432; in a password, percent-encode @ as %40 and : as %3A"));
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None | Some("") => None,
        // What stands here may be the start of a password, so it is not repeated.
        Some(port) => Some(port.parse::<u16>().ok().filter(|p| *p > 0).ok_or_else(|| {
            Error::new(ErrorKind::Config, "the address has a port that is not a number from 1 to 65535")
                .hint("if this is a password, percent-encode its special characters (/ as %2F, @ as %40) and write user:password@host")
        })?),
    };
    Ok((decode(host)?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: Option<u16>) -> (String, Option<u16>) {
        (name.into(), port)
    }

    #[test]
    fn cn_01_every_part_may_be_encoded() {
        let text = "u%40x:p%40%3A%2F%23%3F%2525%2B%3B%3D%26%5B%5D%27%22%5C%20%C3%A9%E2%82%AC@h:1/d%20b%2F1";
        let address = parse_address(text).unwrap();
        assert_eq!(address.user.as_deref(), Some("u@x"));
        assert_eq!(address.password.as_deref(), Some("p@:/#?%25+;=&[]'\"\\ é€"));
        assert_eq!((address.hosts, address.database.as_deref()), (vec![host("h", Some(1))], Some("d b/1")));
    }

    #[test]
    fn cn_01_unencoded_parts_are_refused_without_being_shown() {
        for text in ["u:sec@ret@h/d", "u:sec/ret@h/d", "u:sec%ret@h/d", "u:se[c/ret@h", "u:secret/x", "u:sec:ret"] {
            let error = parse_address(text).err().unwrap_or_else(|| panic!("{text} was accepted"));
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("sec") && !shown.contains("ret"), "{shown}");
            assert!(error.hint_text().unwrap().contains("percent-encode"), "{error:?}");
        }
    }

    #[test]
    fn cn_03_short_forms() {
        assert_eq!(parse_address("/db").unwrap(), Address { database: Some("db".into()), ..Address::default() });
        assert_eq!(parse_address("%2Ftmp").unwrap().hosts, [host("/tmp", None)]);
        assert_eq!(parse_address("[::1]:5433/x").unwrap().hosts, [host("::1", Some(5433))]);
        assert_eq!(parse_address("a,b:2,[::1]/x").unwrap().hosts, [host("a", None), host("b", Some(2)), host("::1", None)]);
        assert_eq!(parse_address("").unwrap(), Address::default());
        assert_eq!(parse_address("u@").unwrap().user.as_deref(), Some("u"));
        assert!(parse_address("::1/x").unwrap_err().hint_text().unwrap().contains("[::1]"));
    }
}

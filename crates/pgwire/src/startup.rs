//! From a configuration to a session that is logged in.

use crate::connection::{Connection, Notices};
use crate::link::Link;
use crate::rows::Body;
use crate::socket::{Waiting, resolve};
use crate::{Config, Error, Host, PgError, Result, SslMode, TargetSession, tls};
use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use postgres_protocol::message::frontend;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Tries the hosts in order.
///
/// # Errors
/// The only host's error, or [`Error::AllHosts`]. A host that answers and refuses the log-in ends the attempt.
pub(crate) fn connect(config: &Config, stop: Arc<AtomicBool>) -> Result<Connection> {
    if config.hosts.is_empty() {
        return Err(Error::Config("no host to connect to".into()));
    }
    let config = Arc::new(config.clone());
    let mut failures = Vec::new();
    for host in &config.hosts {
        match connect_host(&config, host, &stop) {
            Ok(connection) => return Ok(connection),
            Err(e) if ends_the_attempt(&e) => return Err(e),
            Err(e) => failures.push(e),
        }
    }
    match failures.len() {
        1 => Err(failures.swap_remove(0)),
        _ => Err(Error::AllHosts(failures)),
    }
}

/// As in libpq, a refused log-in is final; a server that is starting or full is not.
fn ends_the_attempt(error: &Error) -> bool {
    match error {
        Error::Server(e) => !matches!(e.code.as_str(), "57P03" | "53300" | "57P01" | "57P02"),
        Error::Auth { .. } | Error::Config(_) | Error::Cancelled => true,
        _ => false,
    }
}

fn connect_host(config: &Arc<Config>, host: &Host, stop: &Arc<AtomicBool>) -> Result<Connection> {
    let deadline = config.connect_timeout.map(|limit| (Instant::now() + limit, limit));
    let wait = Waiting { host: host.to_string(), stop: stop.clone(), deadline, idle: None };
    let mut last = None;
    for address in resolve(host, &wait)? {
        let first = match (host, config.sslmode) {
            (Host::Unix(..), _) | (_, SslMode::Disable | SslMode::Allow) => Encryption::Plain,
            (_, SslMode::Prefer) => Encryption::IfOffered,
            _ => Encryption::Tls,
        };
        let attempt = |encryption| {
            let link = Link::connect(address.clone(), config.clone(), wait.clone())?;
            log_in(link, host, encryption)
        };
        let mut result = attempt(first);
        // `allow`: the server does not want this role or address in clear.
        if config.sslmode == SslMode::Allow
            && first == Encryption::Plain
            && matches!(host, Host::Tcp(..))
            && matches!(&result, Err(Error::Server(e)) if e.code.starts_with("28"))
        {
            result = attempt(Encryption::Tls);
        }
        match result.and_then(check_session) {
            Ok(mut connection) => {
                connection.link().wait.deadline = None;
                connection.link().wait.idle = config.idle_timeout;
                return Ok(connection);
            }
            Err(e @ (Error::Io { .. } | Error::Closed { .. })) => last = Some(e),
            Err(e) => return Err(e),
        }
    }
    Err(last.unwrap_or(Error::Closed { host: wait.host }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encryption {
    Plain,
    IfOffered,
    Tls,
}

fn log_in(mut link: Link, host: &Host, encryption: Encryption) -> Result<Connection> {
    let binding = match encryption {
        Encryption::Plain => None,
        _ => start_tls(&mut link, host, encryption)?,
    };
    let mut message = BytesMut::new();
    let config = link.config();
    let mut parameters = vec![
        ("user", config.user.as_str()),
        ("database", config.database.as_str()),
        ("client_encoding", "UTF8"),
        ("application_name", config.application_name.as_str()),
    ];
    if let Some(options) = &config.options {
        parameters.push(("options", options));
    }
    if config.replication {
        parameters.push(("replication", "database"));
    }
    let built = frontend::startup_message(parameters, &mut message);
    built.map_err(|_| Error::Config("the user, database, application name or options hold a NUL byte".into()))?;
    link.send(&message)?;
    authenticate(&mut link, binding)?;
    settle(link, host)
}

/// Asks for TLS; the channel binding data, if the server's certificate gives some.
fn start_tls(link: &mut Link, host: &Host, encryption: Encryption) -> Result<Option<Vec<u8>>> {
    let session = tls::session(link.config(), host)?;
    let mut message = BytesMut::new();
    frontend::ssl_request(&mut message);
    link.send(&message)?;
    match link.single_byte()? {
        b'S' => {}
        b'N' if encryption == Encryption::IfOffered => return Ok(None),
        b'N' => {
            let reason = format!("the server does not offer TLS, and sslmode={} asks for it", link.config().sslmode.word());
            return Err(Error::Tls { host: host.to_string(), reason });
        }
        // A server that is out of connections or processes answers with an error, in clear.
        b'E' => {
            return Err(Error::Protocol { host: host.to_string(), detail: "the server answers the TLS request with an error".into() });
        }
        other => {
            let detail = format!("the answer to the TLS request is {:?}: is this a PostgreSQL server?", char::from(other));
            return Err(Error::Protocol { host: host.to_string(), detail });
        }
    }
    let config = link.config().clone();
    let wait = link.wait.clone();
    link.socket.start_tls(session, &wait, |e| tls::explain(&config, e))?;
    Ok(link.socket.channel_binding())
}

/// Answers what the server asks for until it is satisfied.
fn authenticate(link: &mut Link, binding: Option<Vec<u8>>) -> Result<()> {
    let host = link.wait.host.clone();
    let mut scram: Option<ScramSha256> = None;
    loop {
        let frame = link.frame()?;
        match frame.tag {
            b'R' => {}
            b'E' => return Err(Error::Server(Box::new(PgError::parse(link.body(&frame))))),
            b'N' => continue,
            other => return Err(not_expected(&host, other, "the log-in")),
        }
        let mut body = Body::new(link.body(&frame), &host);
        let mut answer = BytesMut::new();
        let kind = body.i32()?;
        match kind {
            0 => return Ok(()),
            3 => frontend::password_message(password(link.config(), &host)?.as_bytes(), &mut answer).map_err(|e| auth(&host, e))?,
            5 => {
                let salt = body.bytes(4)?.try_into().expect("four bytes were asked for");
                let config = link.config();
                let hash = md5_hash(config.user.as_bytes(), password(config, &host)?.as_bytes(), salt);
                frontend::password_message(hash.as_bytes(), &mut answer).map_err(|e| auth(&host, e))?;
            }
            10 => {
                let (mechanism, binding) = choose(&offered(body)?, binding.clone(), link.socket.is_tls(), &host)?;
                let exchange = ScramSha256::new(password(link.config(), &host)?.as_bytes(), binding);
                frontend::sasl_initial_response(mechanism, exchange.message(), &mut answer).map_err(|e| auth(&host, e))?;
                scram = Some(exchange);
            }
            11 | 12 => {
                let exchange =
                    scram.as_mut().ok_or_else(|| not_expected(&host, b'R', "the log-in, before a SCRAM exchange was started,"))?;
                let data = &link.body(&frame)[4..];
                if kind == 12 {
                    // The server's proof that it knows the password too.
                    exchange.finish(data).map_err(|e| auth(&host, e))?;
                    continue;
                }
                exchange.update(data).map_err(|e| auth(&host, e))?;
                frontend::sasl_response(exchange.message(), &mut answer).map_err(|e| auth(&host, e))?;
            }
            other => return Err(Error::Auth { host, reason: format!("the server asks for {}, which is not supported", method(other)) }),
        }
        link.send(&answer)?;
    }
}

/// The SASL mechanisms that the server offers.
fn offered<'a>(mut body: Body<'a>) -> Result<Vec<&'a str>> {
    let mut names = Vec::new();
    loop {
        match body.cstr()? {
            "" => return Ok(names),
            name => names.push(name),
        }
    }
}

/// The strongest mechanism that both sides know.
fn choose(offered: &[&str], binding: Option<Vec<u8>>, tls: bool, host: &str) -> Result<(&'static str, ChannelBinding)> {
    const PLAIN: &str = "SCRAM-SHA-256";
    const PLUS: &str = "SCRAM-SHA-256-PLUS";
    Ok(match (offered.contains(&PLUS), offered.contains(&PLAIN), binding) {
        (true, _, Some(data)) => (PLUS, ChannelBinding::tls_server_end_point(data)),
        (true, true, None) => (PLAIN, ChannelBinding::unsupported()),
        // "We could have": lets the server find out if someone removed the PLUS offer on the way.
        (false, true, Some(_)) if tls => (PLAIN, ChannelBinding::unrequested()),
        (false, true, _) => (PLAIN, ChannelBinding::unsupported()),
        _ => {
            let reason = format!("the server only offers {}, not SCRAM-SHA-256", offered.join(", "));
            return Err(Error::Auth { host: host.to_string(), reason });
        }
    })
}

fn method(kind: i32) -> String {
    match kind {
        2 => "Kerberos V5".into(),
        7 | 8 => "GSSAPI".into(),
        9 => "SSPI".into(),
        other => format!("authentication method {other}"),
    }
}

fn password<'a>(config: &'a Config, host: &str) -> Result<&'a str> {
    config.password.as_ref().map(|p| p.expose()).ok_or_else(|| Error::Auth {
        host: host.to_string(),
        reason: format!("the server asks for a password for user {:?}, and none was given", config.user),
    })
}

fn auth(host: &str, error: io::Error) -> Error {
    Error::Auth { host: host.to_string(), reason: format!("authentication failed: {error}") }
}

pub(crate) fn not_expected(host: &str, tag: u8, during: &str) -> Error {
    let detail = format!("a message of type {:?} during {during} is not expected", char::from(tag));
    Error::Protocol { host: host.to_string(), detail }
}

/// Takes the server's parameters until it is ready for the first statement.
fn settle(mut link: Link, host: &Host) -> Result<Connection> {
    let name = host.to_string();
    let mut parameters = HashMap::new();
    let mut notices = Notices::default();
    loop {
        let frame = link.frame()?;
        let mut body = Body::new(link.body(&frame), &name);
        match frame.tag {
            b'S' => {
                parameters.insert(body.cstr()?.to_string(), body.cstr()?.to_string());
            }
            b'K' => {
                let key = (body.i32()?, body.i32()?);
                link.key = Some(key);
            }
            b'N' => notices.push(PgError::parse(link.body(&frame))),
            b'E' => return Err(Error::Server(Box::new(PgError::parse(link.body(&frame))))),
            // NegotiateProtocolVersion: an old server names options it does not know; none was sent.
            b'v' => {}
            b'Z' => return Ok(Connection::new(link, host.clone(), parameters, notices)),
            other => return Err(not_expected(&name, other, "the log-in")),
        }
    }
}

/// Whether the server is what `target_session_attrs` asks for.
fn check_session(mut connection: Connection) -> Result<Connection> {
    let (sql, good, is, wanted) = match connection.link().config().target_session_attrs {
        TargetSession::Any => return Ok(connection),
        TargetSession::ReadWrite => ("SHOW transaction_read_only", "off", "read-only", "read-write"),
        TargetSession::ReadOnly => ("SHOW transaction_read_only", "on", "read-write", "read-only"),
        TargetSession::Primary => ("SELECT pg_catalog.pg_is_in_recovery()", "f", "a standby", "primary"),
        TargetSession::Standby => ("SELECT pg_catalog.pg_is_in_recovery()", "t", "a primary", "standby"),
    };
    let found = connection.simple_query(sql)?;
    if found.first().and_then(|r| r.first()).is_some_and(|row| row.text(0) == good) {
        return Ok(connection);
    }
    Err(Error::WrongSession { host: connection.host().to_string(), is, wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scram_mechanisms() {
        let name = |offered: &[&str], binding: Option<Vec<u8>>| choose(offered, binding, true, "h").ok().map(|(n, _)| n);
        assert_eq!(name(&["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"], Some(vec![1])), Some("SCRAM-SHA-256-PLUS"));
        assert_eq!(name(&["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"], None), Some("SCRAM-SHA-256"));
        assert_eq!(name(&["SCRAM-SHA-256"], Some(vec![1])), Some("SCRAM-SHA-256"));
        assert_eq!(name(&["OTHER"], None), None);
    }
}

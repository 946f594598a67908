//! TLS sessions by `sslmode`: who is trusted, and how a refusal is explained.

use crate::certificate::{end_point_hash, is_in_date};
use crate::{Config, Error, Host, Result, RootCert, SslMode};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// How much of a certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Nothing: only eavesdropping is prevented.
    Nothing,
    /// The chain up to a trusted CA.
    Chain,
    /// The chain and the host name.
    ChainAndName,
}

/// The check that a configuration asks for: `require` with a root file means `verify-ca`, as in libpq.
fn check_of(config: &Config) -> Check {
    match (config.sslmode, &config.sslrootcert) {
        (SslMode::VerifyFull, _) => Check::ChainAndName,
        (SslMode::VerifyCa, _) | (SslMode::Require, RootCert::File(_)) => Check::Chain,
        _ => Check::Nothing,
    }
}

/// A session for `host`, before its handshake.
pub(crate) fn session(config: &Config, host: &Host) -> Result<rustls::ClientConnection> {
    let bad = |reason: String| Error::Tls { host: host.to_string(), reason };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let check = check_of(config);
    if config.sslrootcert == RootCert::System && config.sslmode != SslMode::VerifyFull {
        return Err(Error::Config(format!(
            "sslmode={} is too weak for sslrootcert=system: anyone can get a certificate from a public CA, so the name must be checked (sslmode=verify-full)",
            config.sslmode.word()
        )));
    }
    let verifier = Verifier::new(config, check, provider.clone()).map_err(bad)?;
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(e.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut settings = match (&config.sslcert, &config.sslkey) {
        (Some(cert), Some(key)) => {
            let chain = certificates(cert).map_err(bad)?;
            let key = private_key(key).map_err(bad)?;
            builder.with_client_auth_cert(chain, key).map_err(|e| bad(format!("the client certificate cannot be used: {e}")))?
        }
        (None, None) => builder.with_no_client_auth(),
        _ => return Err(Error::Config("sslcert and sslkey must be given together".into())),
    };
    // Sessions are not resumed: every connection checks the certificate again.
    settings.resumption = rustls::client::Resumption::disabled();
    let name = match host {
        Host::Tcp(name, _) => ServerName::try_from(name.clone()).map_err(|_| bad("not a valid host name for TLS".into()))?,
        Host::Unix(..) => return Err(bad("TLS is not used on Unix sockets".into())),
    };
    rustls::ClientConnection::new(Arc::new(settings), name).map_err(|e| bad(e.to_string()))
}

/// The channel binding data of the server's certificate, where its algorithm allows one.
pub(crate) fn channel_binding(session: &rustls::ClientConnection) -> Option<Vec<u8>> {
    end_point_hash(session.peer_certificates()?.first()?)
}

/// Why the handshake failed, in words.
pub(crate) fn explain(config: &Config, error: &rustls::Error) -> String {
    let trusted = match &config.sslrootcert {
        RootCert::File(path) => format!("a CA in {}", path.display()),
        _ => "a CA that this system trusts".to_string(),
    };
    match error {
        rustls::Error::InvalidCertificate(reason) => match reason {
            CertificateError::UnknownIssuer => {
                format!("the server's certificate is not signed by {trusted} (self-signed, or from another CA)")
            }
            CertificateError::BadSignature => format!("the server's certificate is not signed by {trusted} (its signature does not match)"),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("the server's certificate is for another host name (sslmode={} checks it): {reason}", config.sslmode.word())
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("the server's certificate has expired: {reason}")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!("the server's certificate is not valid yet: {reason}")
            }
            _ => format!("the server's certificate is not acceptable: {reason}"),
        },
        other => format!("TLS handshake: {other}"),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = std::fs::read(path).map_err(|e| format!("cannot read the certificates in {}: {e}", path.display()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|e| format!("cannot read the certificates in {}: {e}", path.display()))?;
    if found.is_empty() {
        return Err(format!("there is no PEM certificate in {}", path.display()));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = std::fs::read(path).map_err(|e| format!("cannot read the private key in {}: {e}", path.display()))?;
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| format!("there is no unencrypted PEM private key in {} (encrypted keys are not supported)", path.display()))
}

/// Checks a server's certificate as far as the mode asks.
#[derive(Debug)]
struct Verifier {
    check: Check,
    chain: Option<Arc<WebPkiServerVerifier>>,
    /// The certificates of the root file as they are: a server's own certificate may be among them.
    trusted: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(config: &Config, check: Check, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        if check == Check::Nothing {
            return Ok(Self { check, chain: None, trusted: Vec::new(), provider });
        }
        let mut roots = RootCertStore::empty();
        let trusted = match &config.sslrootcert {
            RootCert::File(path) => {
                let found = certificates(path)?;
                // Some may be plain server certificates that cannot serve as CA; those are matched as they are.
                roots.add_parsable_certificates(found.iter().cloned());
                found
            }
            RootCert::None if config.sslmode == SslMode::VerifyCa => {
                return Err("sslmode=verify-ca needs a root certificate: give sslrootcert=FILE".into());
            }
            RootCert::None | RootCert::System => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    return Err("this system has no trusted CA certificates: give sslrootcert=FILE".into());
                }
                Vec::new()
            }
        };
        let chain = match roots.is_empty() {
            true => None,
            false => Some(
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                    .build()
                    .map_err(|e| format!("the root certificates cannot be used: {e}"))?,
            ),
        };
        Ok(Self { check, chain, trusted, provider })
    }

    /// The server showed a certificate that stands in the root file itself.
    fn verify_pinned(&self, cert: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), rustls::Error> {
        match is_in_date(cert, SystemTime::now()) {
            Some(true) => {}
            Some(false) => return Err(CertificateError::Expired.into()),
            None => return Err(CertificateError::BadEncoding.into()),
        }
        if self.check == Check::ChainAndName {
            rustls::client::verify_server_name(&ParsedCertificate::try_from(cert)?, name)?;
        }
        Ok(())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        cert: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.check == Check::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        if self.trusted.iter().any(|t| t.as_ref() == cert.as_ref()) {
            self.verify_pinned(cert, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let Some(chain) = &self.chain else { return Err(CertificateError::UnknownIssuer.into()) };
        match chain.verify_server_cert(cert, intermediates, name, ocsp, now) {
            // The name is looked at last: this answer says that the chain holds.
            Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }))
                if self.check == Check::Chain =>
            {
                Ok(ServerCertVerified::assertion())
            }
            answer => answer,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if self.check == Check::Nothing && ParsedCertificate::try_from(cert).is_err() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        rustls::crypto::verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // A version 1 certificate (plain `openssl req`) cannot be parsed here; where nobody asked for a check, it is no
        // worse than any other.
        if self.check == Check::Nothing && ParsedCertificate::try_from(cert).is_err() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        rustls::crypto::verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

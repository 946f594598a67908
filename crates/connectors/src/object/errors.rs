//! What stores say, in Haul's words.

use haul_model::{Error, ErrorKind};
use std::error::Error as _;

/// The code of an answer that a bucket is not there.
pub const NO_BUCKET: &str = "NoSuchBucket";

/// `what` was asked of `uri` and failed. Of an answer's body only code and message are told: the rest may repeat a signed request.
pub fn translate(uri: &str, what: &str, error: &object_store::Error) -> Error {
    use object_store::Error as Theirs;
    let text = whole_text(error);
    let code = between(&text, "<Code>", "</Code>");
    if code.as_deref() == Some(NO_BUCKET) {
        let bucket = uri.match_indices('/').nth(2).map_or(uri, |(slash, _)| &uri[..slash]);
        return Error::new(ErrorKind::NotFound, "there is no such bucket")
            .object(bucket)
            .code(NO_BUCKET)
            .hint("make it first; if it is there, look at endpoint and region");
    }
    let message = between(&text, "<Message>", "</Message>");
    let connect =
        ["error sending request", "Connection refused", "connection closed", "tcp connect", "dns error", "error trying to connect"];
    let kind = match (error, code.as_deref()) {
        (_, Some("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "ExpiredToken" | "InvalidToken"))
        | (Theirs::Unauthenticated { .. }, _) => ErrorKind::Auth,
        (Theirs::NotFound { .. }, _) => ErrorKind::NotFound,
        (Theirs::PermissionDenied { .. }, _) => ErrorKind::Permission,
        (Theirs::AlreadyExists { .. }, _) => ErrorKind::Exists,
        (Theirs::Precondition { .. }, _) => ErrorKind::Data,
        _ if text.contains("operation timed out") => ErrorKind::Timeout,
        _ if connect.iter().any(|words| text.contains(words)) => ErrorKind::Connect,
        _ => ErrorKind::Server,
    };
    let detail = match (kind, &code, &message) {
        (ErrorKind::Data, ..) => "was replaced while it was read".to_string(),
        (_, Some(_), Some(message)) => format!("{what}: {}", message.trim_end_matches('.')),
        (_, Some(code), None) => format!("{what}: {code}"),
        (ErrorKind::NotFound, ..) => format!("{what}: not found"),
        (ErrorKind::Permission, ..) => format!("{what}: access denied"),
        (ErrorKind::Connect, ..) => format!("{what}: {}", last_cause(error)),
        (ErrorKind::Timeout, ..) => format!("{what}: no answer in time"),
        _ => format!("{what}: {}", last_cause(error)),
    };
    let mut told = Error::new(kind, detail).object(uri);
    if let Some(code) = code {
        told = told.code(code);
    }
    match kind {
        ErrorKind::Auth => {
            told.hint("look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN or the profile, and at the endpoint")
        }
        ErrorKind::Permission => {
            told.hint("the keys are known but may not do this, or the bucket is in another region or of another owner")
        }
        ErrorKind::Connect => told.hint("is the server there? endpoint and region decide where it is looked for"),
        ErrorKind::Data => told.hint("run it again"),
        _ => told,
    }
}

/// The error and everything that caused it.
fn whole_text(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(" | ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

/// The innermost cause: what the operating system or the other side said.
fn last_cause(error: &object_store::Error) -> String {
    let mut last = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        last = next.to_string();
        cause = next.source();
    }
    // No addresses with signatures in them.
    let line = last.lines().next().unwrap_or_default();
    line.split('?').next().unwrap_or_default().trim_end_matches('.').to_string()
}

fn between(text: &str, from: &str, to: &str) -> Option<String> {
    let (_, rest) = text.split_once(from)?;
    rest.split_once(to).map(|(found, _)| found.to_string())
}

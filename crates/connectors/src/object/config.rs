//! Settings of object stores, and what a URI means.

use crate::file::{SINK_SETTINGS, SOURCE_SETTINGS};
use haul_model::{Endpoint, Error, ErrorKind, Kind, Result, Setting, percent_decode};

/// How a store is reached: the same for reading and writing.
pub const COMMON: &[Setting] = &[
    Setting::new(
        "endpoint",
        Kind::Text,
        "Amazon's",
        "URL of another S3 than Amazon's: http://127.0.0.1:9000. Also AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL.",
    )
    .alias(&["endpoint_url"]),
    Setting::new("region", Kind::Text, "us-east-1", "Region of the bucket. Also AWS_REGION, AWS_DEFAULT_REGION, or the profile's."),
    Setting::new(
        "path_style",
        Kind::Bool,
        "on with an endpoint",
        "The bucket stands in the path (http://host/bucket/key), not in the host's name.",
    ),
    Setting::new("profile", Kind::Text, "default", "Profile in ~/.aws/config and ~/.aws/credentials. Also AWS_PROFILE."),
    Setting::new(
        "credentials",
        Kind::Choice(&["auto", "instance", "none"]),
        "auto",
        "auto: keys of variables, profile, web identity or container. instance: the machine's own (EC2). none: requests are not signed.",
    ),
    Setting::new("request_timeout", Kind::Duration, "300s", "One request may take so long, a connection 10 s.").tuning(),
];

/// Everything that reading takes beside the format's own settings.
pub static SOURCE: &[Setting] = &joined::<{ COMMON.len() + SOURCE_SETTINGS.len() }>(COMMON, SOURCE_SETTINGS);

/// Everything that writing takes beside the format's own settings.
pub static SINK: &[Setting] = &joined::<{ COMMON.len() + UPLOAD.len() + SINK_SETTINGS.len() }>(
    &joined::<{ COMMON.len() + UPLOAD.len() }>(COMMON, UPLOAD),
    SINK_SETTINGS,
);

const fn joined<const N: usize>(first: &[Setting], second: &[Setting]) -> [Setting; N] {
    let mut all = [first[0]; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < first.len() { first[at] } else { second[at - first.len()] };
        at += 1;
    }
    all
}

/// Settings of uploads.
const UPLOAD: &[Setting] = &[Setting::new(
    "part_size",
    Kind::Bytes,
    "8MiB",
    "Bytes of a part of a multipart upload, 5 MiB to 5 GiB. A lane holds up to three parts in memory; an object has 10,000 parts at most.",
)
.tuning()];

/// A bucket (or host) and a key in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `s3`, `gs`, `az`, `http`, `https`.
    pub scheme: String,
    /// The bucket, container or host.
    pub bucket: String,
    /// Without a leading slash.
    pub key: String,
}

impl Address {
    /// What a URI means.
    ///
    /// # Errors
    /// `Config`: no bucket, or credentials in the URI.
    pub fn of(endpoint: &Endpoint) -> Result<Self> {
        let scheme = match endpoint.scheme.as_str() {
            "s3a" => "s3",
            other => other,
        };
        let (bucket, key) = endpoint.address.split_once('/').unwrap_or((&endpoint.address, ""));
        let bad = |what: &str, hint: &str| Err(Error::new(ErrorKind::Config, what).object(endpoint.redacted()).hint(hint));
        if bucket.contains('@') {
            return bad(
                "credentials do not belong into the URI of a store",
                "give them by variables or a profile: AWS_ACCESS_KEY_ID, AWS_PROFILE",
            );
        }
        if bucket.is_empty() {
            return bad("the URI names no bucket", "for example s3://bucket/folder/orders.parquet");
        }
        let key = percent_decode(key)?;
        if key.starts_with('/') || key.contains("//") || key.split('/').any(|part| part == "." || part == "..") {
            return bad("a key with empty parts, or with . or .. for a part", "write it as s3://bucket/folder/file");
        }
        Ok(Self { scheme: scheme.to_string(), bucket: bucket.to_string(), key })
    }

    /// The URI of a key in the same place.
    pub fn uri(&self, key: &str) -> String {
        format!("{}://{}/{key}", self.scheme, self.bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_uri_means() {
        let of = |text: &str| Address::of(&Endpoint::parse(text).unwrap());
        let address = of("s3a://lake/a%20b/x.csv?region=r").unwrap();
        assert_eq!((address.scheme.as_str(), address.bucket.as_str(), address.key.as_str()), ("s3", "lake", "a b/x.csv"));
        assert_eq!(address.uri("k"), "s3://lake/k");
        assert_eq!(of("s3://lake").unwrap().key, "");
        for (text, told) in
            [("s3:///x", "no bucket"), ("s3://KEY:SECRET@b/x", "credentials"), ("s3://b/a//x", "empty parts"), ("s3://b/../x", "..")]
        {
            let error = of(text).unwrap_err();
            assert!(error.to_string().contains(told) && !error.to_string().contains("SECRET"), "{error}");
        }
    }
}

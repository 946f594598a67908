//! Stores that are only read: Google's, Azure's, and plain HTTP.

use super::config::Address;
use haul_model::{Environment, Error, ErrorKind, Result, Settings};
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use std::sync::Arc;

/// A store of one of these kinds.
///
/// # Errors
/// `Config`, `Auth`: what is needed to reach it is not there.
pub fn store(
    address: &Address,
    settings: &Settings,
    env: &Environment,
    options: ClientOptions,
    retry: RetryConfig,
) -> Result<Arc<dyn ObjectStore>> {
    for name in ["region", "profile", "path_style"] {
        if settings.has(name) {
            return Err(
                Error::new(ErrorKind::Config, format!("{name} means nothing for {}://", address.scheme)).object(address.uri(&address.key))
            );
        }
    }
    let failed = |e: object_store::Error| super::errors::translate(&address.uri(&address.key), "cannot be set up", &e);
    match address.scheme.as_str() {
        #[cfg(feature = "gcs")]
        "gs" => {
            use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
            let mut builder =
                GoogleCloudStorageBuilder::new().with_bucket_name(&address.bucket).with_client_options(options).with_retry(retry);
            for (key, value) in variables::<GoogleConfigKey>(env, "GOOGLE_") {
                builder = builder.with_config(key, value);
            }
            if settings.choice("credentials").as_deref() == Some("none") {
                builder = builder.with_skip_signature(true);
            }
            Ok(Arc::new(builder.build().map_err(failed)?))
        }
        #[cfg(feature = "azure")]
        "az" => {
            use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
            let mut builder =
                MicrosoftAzureBuilder::new().with_container_name(&address.bucket).with_client_options(options).with_retry(retry);
            for (key, value) in variables::<AzureConfigKey>(env, "AZURE_") {
                builder = builder.with_config(key, value);
            }
            if settings.choice("credentials").as_deref() == Some("none") {
                builder = builder.with_skip_signature(true);
            }
            Ok(Arc::new(builder.build().map_err(failed)?))
        }
        #[cfg(feature = "http")]
        "http" | "https" => {
            use object_store::http::HttpBuilder;
            let url = format!("{}://{}", address.scheme, address.bucket);
            let builder = HttpBuilder::new().with_url(url).with_client_options(options.with_allow_http(true)).with_retry(retry);
            Ok(Arc::new(builder.build().map_err(failed)?))
        }
        scheme => Err(Error::new(ErrorKind::Unsupported, format!("this haul was built without {scheme}://"))),
    }
}

/// The variables that a store's library knows, as it would read them itself.
#[cfg(any(feature = "gcs", feature = "azure"))]
fn variables<K: std::str::FromStr>(env: &Environment, prefix: &str) -> Vec<(K, String)> {
    let known = env.vars.iter().filter(|(name, value)| name.starts_with(prefix) && !value.is_empty());
    known.filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value.clone()))).collect()
}

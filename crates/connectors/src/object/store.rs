//! One store, connected: requests are made on a small runtime and waited for by the lane that needs them.
//!
//! The engine's lanes are plain threads; all sockets live on [`runtime`]. A lane that waits looks at the stop flag four times a second.

use super::config::Address;
use super::credentials;
use futures_util::{StreamExt, TryStreamExt};
use haul_model::{Environment, Error, ErrorKind, Result, Settings};
#[cfg(feature = "s3")]
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig};
use std::future::Future;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads that drive sockets (and TLS): they never see a row.
const THREADS: usize = 2;
/// Time for a connection to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How often the stop flag is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// The runtime of all object stores of this process.
///
/// # Errors
/// Threads cannot be made.
pub fn runtime() -> Result<&'static Handle> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(THREADS).thread_name("haul-net").enable_all().build());
    match made {
        Ok(runtime) => Ok(runtime.handle()),
        Err(e) => Err(Error::new(ErrorKind::Io, format!("the threads for the network cannot be made: {e}"))),
    }
}

/// A bucket (or host) that can be asked.
#[derive(Clone)]
pub struct Store {
    /// Where it is.
    pub address: Address,
    /// Where it is reached, if that is not where its kind always is.
    pub(super) endpoint: Option<String>,
    store: Arc<dyn ObjectStore>,
    /// Stores that take multipart uploads.
    parts: Option<Arc<dyn MultipartStore>>,
    stop: Arc<AtomicBool>,
}

/// What is known of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// Which content it is, where the store says so.
    pub version: Option<String>,
}

impl From<ObjectMeta> for Object {
    fn from(meta: ObjectMeta) -> Self {
        Self { key: meta.location.to_string(), bytes: meta.size, version: meta.e_tag }
    }
}

impl Store {
    /// Connects to nothing yet: the first request does.
    ///
    /// # Errors
    /// `Config`, `Auth`: what is needed to reach it is not there.
    pub fn new(address: Address, settings: &Settings, env: &Environment) -> Result<Self> {
        let options = ClientOptions::new()
            .with_connect_timeout(CONNECT)
            .with_timeout(settings.duration("request_timeout").unwrap_or(Duration::from_secs(300)));
        let (store, parts): (Arc<dyn ObjectStore>, Option<Arc<dyn MultipartStore>>) = match address.scheme.as_str() {
            #[cfg(feature = "s3")]
            "s3" => {
                let store = Arc::new(s3(&address, settings, env, options)?);
                (store.clone(), Some(store))
            }
            _ => (super::others::store(&address, settings, env, options, retry())?, None),
        };
        let endpoint = super::endpoint_of(&address, settings, env)?;
        Ok(Self { address, endpoint, store, parts, stop: env.stop.clone() })
    }

    /// Waits for a request, unless the job is stopped.
    pub(super) fn wait<T>(&self, key: &str, what: &str, request: impl Future<Output = object_store::Result<T>>) -> Result<T> {
        let stop = self.stop.clone();
        let stopped = async move {
            while !stop.load(Relaxed) {
                tokio::time::sleep(LOOK).await;
            }
        };
        runtime()?.block_on(async {
            tokio::select! {
                done = request => done.map_err(|e| self.failed(key, what, e)),
                () = stopped => Err(Error::new(ErrorKind::Cancelled, "stopped by the user")),
            }
        })
    }

    /// The same store for what stopping itself takes.
    pub(super) fn unstoppable(&self) -> Self {
        Self { stop: Arc::default(), ..self.clone() }
    }

    /// An error of the store, with what was asked and where.
    pub(super) fn failed(&self, key: &str, what: &str, error: object_store::Error) -> Error {
        super::errors::translate(&self.address.uri(key), what, &error)
    }

    fn path(&self, key: &str) -> Result<Path> {
        Path::parse(key).map_err(|_| Error::new(ErrorKind::Config, "a key that cannot be used").object(self.address.uri(key)))
    }

    /// What is known of a key; `None` if it is not there.
    ///
    /// # Errors
    /// Connection, rights.
    pub fn look(&self, key: &str) -> Result<Option<Object>> {
        let path = self.path(key)?;
        let found = self.wait(key, "cannot look at", self.store.head(&path));
        match not_found(found.map(Object::from)) {
            // An answer without a body does not say why: whoever asks for a byte is told.
            Err(e) if e.kind() == ErrorKind::Permission && e.code_text().is_none() => {
                self.wait(key, "cannot look at", self.store.get_range(&path, 0..1))?;
                Err(e)
            }
            found => found,
        }
    }

    /// Keys that start with `prefix` (a folder: it ends in `/`, or is empty), in their order.
    ///
    /// # Errors
    /// Connection, rights.
    pub fn list(&self, prefix: &str) -> Result<Vec<Object>> {
        let path = self.path(prefix)?;
        let all = self.store.list(Some(&path)).map_ok(Object::from).try_collect::<Vec<_>>();
        let mut all = self.wait(prefix, "cannot list", all)?;
        all.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(all)
    }

    /// A small object whole; `None` if it is not there.
    ///
    /// # Errors
    /// Connection, rights.
    pub fn get(&self, key: &str) -> Result<Option<bytes::Bytes>> {
        let path = self.path(key)?;
        not_found(self.wait(key, "cannot read", async { self.store.get(&path).await?.bytes().await }))
    }

    /// A request for bytes of a version of an object.
    ///
    /// # Errors
    /// `Config`: an impossible key.
    pub fn range(
        &self,
        object: &Object,
        range: Range<u64>,
    ) -> Result<impl Future<Output = object_store::Result<bytes::Bytes>> + Send + 'static + use<>> {
        let (store, path) = (self.store.clone(), self.path(&object.key)?);
        // A weak tag does not promise the same bytes, and must not be asked for.
        let if_match = object.version.clone().filter(|tag| !tag.starts_with("W/"));
        let options = GetOptions { range: Some(GetRange::Bounded(range)), if_match, ..GetOptions::default() };
        Ok(async move { store.get_opts(&path, options).await?.bytes().await })
    }

    /// Puts a small object there, at once.
    ///
    /// # Errors
    /// Connection, rights.
    pub fn put(&self, key: &str, bytes: Vec<u8>) -> Result<Option<String>> {
        let path = self.path(key)?;
        Ok(self.wait(key, "cannot write", self.store.put(&path, PutPayload::from(bytes)))?.e_tag)
    }

    /// Removes objects. Those that are not there are no error.
    ///
    /// # Errors
    /// Connection, rights.
    pub fn remove(&self, keys: &[String]) -> Result<()> {
        let paths = keys.iter().map(|key| self.path(key)).collect::<Result<Vec<_>>>()?;
        let first = keys.first().map_or("", String::as_str);
        let removed = self.store.delete_stream(futures_util::stream::iter(paths.into_iter().map(Ok)).boxed());
        let gone = removed.filter(|result| {
            let gone = matches!(result, Err(object_store::Error::NotFound { .. }));
            futures_util::future::ready(!gone)
        });
        self.wait(first, "cannot remove", gone.try_for_each(|_| futures_util::future::ready(Ok(()))))
    }

    /// The multipart interface.
    ///
    /// # Errors
    /// `Unsupported`: this kind of store is only read.
    pub(super) fn parts(&self) -> Result<&Arc<dyn MultipartStore>> {
        self.parts.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, format!("{}:// can be read, not written", self.address.scheme))
                .object(self.address.uri(&self.address.key))
                .hint("write to s3:// or to a file")
        })
    }

    /// A key as the library wants it.
    pub(super) fn key_path(&self, key: &str) -> Result<Path> {
        self.path(key)
    }
}

fn not_found<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == ErrorKind::NotFound && e.code_text() != Some(super::errors::NO_BUCKET) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Requests that fail for reasons that pass: about six seconds of patience.
fn retry() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(3), base: 2.0 },
        max_retries: 5,
        retry_timeout: Duration::from_secs(120),
    }
}

#[cfg(feature = "s3")]
fn s3(address: &Address, settings: &Settings, env: &Environment, options: ClientOptions) -> Result<AmazonS3> {
    let found = credentials::find(settings, env)?;
    let plain = found.endpoint.as_ref().is_some_and(|url| url.starts_with("http://"));
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&address.bucket)
        .with_region(found.region.as_deref().unwrap_or("us-east-1"))
        .with_virtual_hosted_style_request(!settings.flag("path_style", found.endpoint.is_some()))
        .with_client_options(options.with_allow_http(plain))
        .with_retry(retry());
    if let Some(endpoint) = &found.endpoint {
        builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
    }
    match (settings.choice("credentials").as_deref(), found.keys) {
        (Some("none"), _) => builder = builder.with_skip_signature(true),
        (Some("instance"), _) => {}
        (_, Some((id, secret, token))) => {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret);
            if let Some(token) = token {
                builder = builder.with_token(token);
            }
        }
        (_, None) => builder = given_by_surroundings(builder, env)?,
    }
    builder.build().map_err(|e| super::errors::translate(&address.uri(&address.key), "cannot be set up", &e))
}

#[cfg(feature = "s3")]
/// Keys that a container or a web identity gives.
fn given_by_surroundings(mut builder: AmazonS3Builder, env: &Environment) -> Result<AmazonS3Builder> {
    let mut any = false;
    for (name, key) in [
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", AmazonS3ConfigKey::ContainerCredentialsRelativeUri),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", AmazonS3ConfigKey::ContainerCredentialsFullUri),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", AmazonS3ConfigKey::ContainerAuthorizationTokenFile),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", AmazonS3ConfigKey::WebIdentityTokenFile),
        ("AWS_ROLE_ARN", AmazonS3ConfigKey::RoleArn),
        ("AWS_ROLE_SESSION_NAME", AmazonS3ConfigKey::RoleSessionName),
        ("AWS_ENDPOINT_URL_STS", AmazonS3ConfigKey::StsEndpoint),
    ] {
        if let Some(value) = env.var(name) {
            builder = builder.with_config(key, value);
            any |= !name.starts_with("AWS_ROLE") && !name.starts_with("AWS_ENDPOINT");
        }
    }
    match any {
        true => Ok(builder),
        false => Err(Error::new(ErrorKind::Auth, "there are no keys for S3: neither in variables nor in a profile")
            .hint("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; on EC2 say credentials=instance, for a public bucket credentials=none")),
    }
}

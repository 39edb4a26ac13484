//! An object store: S3 and servers with its protocol, Google Cloud Storage, Azure.
//!
//! An object is created by one conditional PUT: `If-None-Match: *` on S3 and Azure,
//! `x-goog-if-generation-match: 0` on Google Cloud Storage. So the store has an object completely or not at
//! all. The identity of a segment is metadata of its object. S3 verifies a checksum of each PUT:
//! [`PutChecksum`].
//!
//! During a PUT the file is in memory, because the head of the request contains its checksum. A call
//! therefore needs memory for at most one segment. [`ship_once`](crate::ship_once) makes two calls at once.
//!
//! | time-out | bound |
//! | --- | --- |
//! | time without progress of a request: connect, next piece, begin of the response | `timeout` |
//! | tries of one call after an error of the server | at most 3, and none later than 10 s after the first try |
//! | one call with all tries | four times `timeout`, plus the time for the bytes at 32 KiB/s or an eighth of the configured rate |
//!
//! The crate `object_store` signs requests and finds credentials. The connections are in [`connector`].

mod call_runtime;
mod cloud;
mod connect;
mod connector;
mod fault;
mod files;
mod lifecycle;
mod lifecycle_rules;
mod options;
mod place;
mod pool;
mod request_body;
mod response_body;
mod tables;
mod web;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use object_store::path::Path as Key;
use object_store::{
    Attribute, AttributeValue, Attributes, Error, GetOptions, GetResult, ObjectStore as Service,
    ObjectStoreExt, PutMode, PutOptions, PutPayload,
};
use tollgate_log::{FILE_MODE, join_chain};
use tollgate_tls::RootsError;

pub use cloud::CloudError;
pub use connect::{AddressFault, check_web_address};
pub use files::{Content, ObjectText};
pub use lifecycle::Lifecycle;
pub use lifecycle_rules::{Expiry, ExpiryRule};
pub use options::{Addressing, AwsKeys, ObjectStoreOptions, PutChecksum, Secret};
pub use place::{PlaceError, StorePlace, StoreService};
pub use web::{AwsSigner, WebAnswer, WebClient, WebError, WebOptions, WebRequest};

use crate::identity::SegmentIdentity;
use crate::name::ObjectName;
use crate::pace::Pacer;
use crate::store::{Created, LISTED_MAX, ObjectHead, Store, StoreError};
use call_runtime::CallRuntime;
use cloud::RETRIES_MAX;
use connect::{Dialer, DialerError};
use connector::Connector;
use lifecycle::Bucket;

/// Bytes of one piece of a body.
const PIECE_BYTES: usize = 256 << 10;
/// Minimum rate of a call, in bytes per second.
const BYTES_PER_SECOND_MIN: u64 = 32 << 10;
/// Divisor of the configured rate that gives the minimum rate of a call. Calls share the configured rate, so
/// each may be slower.
const RATE_PART: u64 = 8;
/// Error codes of the services for a missing bucket.
const BUCKET_FAULTS: [&str; 2] = ["NoSuchBucket", "ContainerNotFound"];
/// Maximum bytes of the text of an error, because the server writes a part of the text.
const ERROR_BYTES_MAX: usize = 400;

/// Why an object store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Endpoint, credentials or another option is wrong.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// The trusted authorities are unknown.
    #[error("the authorities for TLS: {0}")]
    Roots(#[source] RootsError),
    /// The text of the proxy is not a valid address.
    #[error("proxy {proxy:?} is no address of a proxy, allowed is http://HOST:PORT")]
    Proxy {
        /// Text of the proxy.
        proxy: String,
    },
    /// No event loop can be made.
    #[error("no event loop can be made")]
    Runtime(#[source] io::Error),
}

impl From<DialerError> for OpenError {
    fn from(error: DialerError) -> Self {
        match error {
            DialerError::Roots(source) => Self::Roots(source),
            DialerError::Proxy { proxy } => Self::Proxy { proxy },
        }
    }
}

/// Error text of the service, on one line. The server writes a part of the text, and the server may be
/// hostile.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ServiceError(String);

/// An object store.
///
/// Calls may run on several threads at once. The thread of one call drives the connections of all calls. No
/// call may be made on a thread of an event loop.
pub struct ObjectStore {
    options: ObjectStoreOptions,
    service: Arc<dyn Service>,
    /// The bucket, if its lifecycle rules can be read.
    bucket: Option<Bucket>,
    pacer: Arc<Pacer>,
    calls: CallRuntime,
}

impl ObjectStore {
    /// Opens a store. Sends nothing.
    ///
    /// # Errors
    /// The operator has to change the options, or a file that they name.
    pub fn open(options: ObjectStoreOptions, pacer: Arc<Pacer>) -> Result<Self, OpenError> {
        let dialer = Dialer::new(options.ca.as_deref(), options.proxy.as_deref(), options.timeout)?;
        let connector = Connector::new(dialer, pacer.clone(), options.timeout);
        let (service, bucket) = cloud::open(&options, connector)?;
        let calls = CallRuntime::new().map_err(OpenError::Runtime)?;
        Ok(Self { options, service, bucket, pacer, calls })
    }

    /// Reads the rules by which the store deletes segments by their age alone. Needs a right of its own.
    pub fn lifecycle(&self) -> Lifecycle {
        let unknown = |reason: &str| Lifecycle::Unknown(reason.to_owned());
        let bucket = &self.options.place.bucket;
        match (&self.bucket, self.options.place.service) {
            (Some(reader), _) => {
                let prefix = self.options.place.below(&ObjectName::segments());
                let read = async { Ok(reader.lifecycle(&prefix).await) };
                self.run("read the lifecycle rules of", bucket, 0, read)
                    .unwrap_or_else(|error| Lifecycle::Unknown(join_chain(&error)))
            }
            (None, StoreService::Azure) => {
                unknown("not checked for az://: look at the lifecycle management of the storage account")
            }
            (None, _) => unknown(&format!(
                "not checked for gs://: see `gcloud storage buckets describe gs://{bucket}`"
            )),
        }
    }

    /// Runs a call that transfers `bytes` bytes, until the call ends or its timeout has passed.
    fn run<T>(
        &self,
        action: &'static str,
        name: &str,
        bytes: u64,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let failed = |reason: &str| StoreError::call(action, name)(ServiceError(reason.to_owned()));
        self.calls.run(self.time_of(bytes), call).unwrap_or_else(|| Err(failed("the call timed out")))
    }

    /// Returns the longest time of a call.
    fn time_of(&self, bytes: u64) -> Duration {
        let configured = self.pacer.rate().map(|rate| (rate / RATE_PART).max(1));
        let rate = configured.unwrap_or(u64::MAX).min(BYTES_PER_SECOND_MIN);
        self.options.timeout * (RETRIES_MAX + 1) + Duration::from_secs(bytes / rate)
    }

    fn key(&self, name: &str) -> Result<Key, StoreError> {
        let key = self.options.place.key(name).ok_or_else(|| "it is not the name of an object".to_owned());
        let key = key.and_then(|key| Key::parse(key).map_err(|error| error.to_string()));
        key.map_err(|reason| StoreError::call("name", name)(ServiceError(reason)))
    }

    /// Lists the names in a folder that `is_wanted` accepts, after a key with its name.
    fn names<'list>(
        &'list self,
        folder: &Key,
        after: Option<(&Key, &'list str)>,
        is_wanted: impl Fn(&str) -> bool + Copy + 'list,
    ) -> impl Stream<Item = object_store::Result<String>> + 'list {
        let listed = match after {
            Some((after, _)) => self.service.list_with_offset(Some(folder), after),
            None => self.service.list(Some(folder)),
        };
        let after = after.map(|(_, name)| name);
        listed.try_filter_map(move |found| {
            let name = self.options.place.name(found.location.as_ref());
            // Some servers ignore the name after which the list begins.
            let is_due = |name: &&str| after.is_none_or(|after| **name > *after);
            let name = name.filter(is_due).filter(|name| is_wanted(name));
            std::future::ready(Ok(name.map(str::to_owned)))
        })
    }

    fn prefix(&self, prefix: &str) -> Result<Key, StoreError> {
        Key::parse(self.options.place.below(prefix)).map_err(StoreError::call("list", prefix))
    }

    /// Returns the key of the metadata with the identity.
    fn identity_key(&self) -> Attribute {
        Attribute::Metadata(match self.options.place.service {
            // On Azure, names of metadata must be identifiers of C#.
            StoreService::Azure => "tollgate_identity".into(),
            StoreService::S3 | StoreService::Gcs => "tollgate-identity".into(),
        })
    }

    fn put(
        &self,
        action: &'static str,
        name: &str,
        mode: PutMode,
        payload: PutPayload,
        identity: Option<&SegmentIdentity>,
    ) -> Result<Created, StoreError> {
        let key = self.key(name)?;
        let mut attributes = Attributes::new();
        if let Some(identity) = identity {
            attributes.insert(self.identity_key(), AttributeValue::from(identity.to_string()));
        }
        let is_create = mode == PutMode::Create;
        let bytes = payload.content_length() as u64;
        let options = PutOptions { mode, attributes, ..PutOptions::default() };
        self.run(action, name, bytes, async {
            match self.service.put_opts(&key, payload, options).await {
                Ok(_) => Ok(Created::Stored),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) if is_create => {
                    Ok(Created::Exists)
                }
                Err(error) => Err(failed(action, name)(error)),
            }
        })
    }

    /// Begins a download. `None`: there is no such object.
    async fn get(&self, action: &'static str, name: &str) -> Result<Option<GetResult>, StoreError> {
        let key = self.key(name)?;
        found(self.service.get(&key).await).map_err(failed(action, name))
    }
}

impl Store for ObjectStore {
    fn create(&self, name: &str, file: &Path, identity: &SegmentIdentity) -> Result<Created, StoreError> {
        self.put("create", name, PutMode::Create, read_file(file)?, Some(identity))
    }

    fn replace(&self, name: &str, file: &Path, identity: &SegmentIdentity) -> Result<(), StoreError> {
        self.put("replace", name, PutMode::Overwrite, read_file(file)?, Some(identity)).map(drop)
    }

    fn put_text(&self, name: &str, text: &str) -> Result<(), StoreError> {
        let payload = PutPayload::from(text.as_bytes().to_vec());
        self.put("write", name, PutMode::Overwrite, payload, None).map(drop)
    }

    fn head(&self, name: &str) -> Result<Option<ObjectHead>, StoreError> {
        let key = self.key(name)?;
        let options = GetOptions { head: true, ..GetOptions::default() };
        let result = self.run("look at", name, 0, async {
            found(self.service.get_opts(&key, options).await).map_err(failed("look at", name))
        })?;
        Ok(result.map(|found| ObjectHead {
            bytes: found.meta.size,
            modified_ms: u64::try_from(found.meta.last_modified.timestamp_millis()).unwrap_or_default(),
            identity: found
                .attributes
                .get(&self.identity_key())
                .map(|text| SegmentIdentity::from_store(text)),
        }))
    }

    fn text(&self, name: &str, bytes_max: u64) -> Result<Option<String>, StoreError> {
        self.run("read", name, bytes_max, async {
            let Some(result) = self.get("read", name).await? else { return Ok(None) };
            let mut text = Vec::new();
            let mut pieces = pieces(result, "read", name, bytes_max)?;
            while let Some(piece) = pieces.next().await? {
                text.extend_from_slice(&piece);
            }
            Ok(Some(String::from_utf8_lossy(&text).into_owned()))
        })
    }

    fn fetch(&self, name: &str, file: &Path, bytes_max: u64) -> Result<Option<u64>, StoreError> {
        self.run("fetch", name, bytes_max, async {
            let Some(result) = self.get("fetch", name).await? else { return Ok(None) };
            let mut pieces = pieces(result, "fetch", name, bytes_max)?;
            let mut options = OpenOptions::new();
            let target = options.write(true).create_new(true).mode(FILE_MODE).open(file);
            let mut target = target.map_err(StoreError::file("create", file))?;
            while let Some(piece) = pieces.next().await? {
                tokio::time::sleep(self.pacer.delay(piece.len() as u64, Instant::now())).await;
                target.write_all(&piece).map_err(StoreError::file("write", file))?;
            }
            Ok(Some(pieces.expected))
        })
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let key = self.key(name)?;
        self.run("delete", name, 0, async {
            found(self.service.delete(&key).await).map(drop).map_err(failed("delete", name))
        })
    }

    fn list(&self, prefix: &str, after_name: Option<&str>) -> Result<Vec<String>, StoreError> {
        let folder = self.prefix(prefix)?;
        let after = after_name.map(|after| self.key(after)).transpose()?;
        let names =
            self.names(&folder, after.as_ref().zip(after_name), |name| ObjectName::parse(name).is_some());
        let names: Vec<String> = self.run("list", prefix, 0, async {
            names.take(LISTED_MAX).try_collect().await.map_err(failed("list", prefix))
        })?;
        // The next call begins after the last name. So if names were out of order, some would never be
        // listed.
        if !names.is_sorted() {
            let reason = "the store does not list names in the order of their bytes".to_owned();
            return Err(StoreError::call("list", prefix)(ServiceError(reason)));
        }
        Ok(names)
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let folder = self.prefix(prefix)?;
        let found = self.run("list", prefix, 0, async {
            self.service.list_with_delimiter(Some(&folder)).await.map_err(failed("list", prefix))
        })?;
        let last = |key: &Key| key.filename().map(str::to_owned);
        let mut names: Vec<_> = found.common_prefixes.iter().filter_map(last).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn foreign(&self, prefix: &str, max: usize) -> Result<Vec<String>, StoreError> {
        let (folder, place) = (self.prefix(prefix)?, &self.options.place);
        let names = self.service.list(Some(&folder)).try_filter_map(async |found| {
            let name = place.name(found.location.as_ref());
            Ok(name.filter(|name| ObjectName::parse(name).is_none()).map(str::to_owned))
        });
        self.run("list", prefix, 0, async {
            names.take(max).try_collect().await.map_err(failed("list", prefix))
        })
    }
}

/// The pieces of a download. If the download ends before all bytes arrived, the result is an error.
struct Pieces<'name> {
    stream: futures_util::stream::BoxStream<'static, object_store::Result<Bytes>>,
    action: &'static str,
    name: &'name str,
    /// Size of the object in bytes.
    expected: u64,
    /// Number of bytes that arrived.
    count: u64,
}

/// Returns the pieces of a download.
fn pieces<'name>(
    result: GetResult,
    action: &'static str,
    name: &'name str,
    bytes_max: u64,
) -> Result<Pieces<'name>, StoreError> {
    let expected = result.meta.size;
    if expected > bytes_max {
        return Err(StoreError::TooLarge { name: name.to_owned(), found: expected, limit: bytes_max });
    }
    Ok(Pieces { stream: result.into_stream(), action, name, expected, count: 0 })
}

impl Pieces<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        let piece = self.stream.try_next().await.map_err(failed(self.action, self.name))?;
        self.count += piece.as_ref().map_or(0, Bytes::len) as u64;
        if self.count > self.expected || piece.is_none() && self.count < self.expected {
            let reason = format!("{} bytes came, the store said {}", self.count, self.expected);
            return Err(StoreError::call(self.action, self.name)(ServiceError(reason)));
        }
        Ok(piece)
    }
}

/// Reads a whole file, in pieces.
fn read_file(path: &Path) -> Result<PutPayload, StoreError> {
    let mut file = File::open(path).map_err(StoreError::file("open", path))?;
    let mut pieces = Vec::new();
    loop {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let read = (&mut file).take(PIECE_BYTES as u64).read_to_end(&mut piece);
        if read.map_err(StoreError::file("read", path))? == 0 {
            return Ok(pieces.into_iter().collect());
        }
        pieces.push(Bytes::from(piece));
    }
}

/// Returns `None` instead of an error about a missing object.
///
/// A missing bucket is an error. A reply to `HEAD` has no body, so it does not show whether the object or the
/// bucket is missing.
fn found<T>(result: object_store::Result<T>) -> object_store::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error @ Error::NotFound { .. }) => {
            let text = error.to_string();
            let is_bucket = BUCKET_FAULTS.iter().any(|fault| text.contains(fault));
            if is_bucket { Err(error) } else { Ok(None) }
        }
        Err(error) => Err(error),
    }
}

/// Returns a function that wraps an error of the service.
fn failed(action: &'static str, name: &str) -> impl FnOnce(Error) -> StoreError {
    // The text of each of these errors contains the texts of its sources.
    move |error| StoreError::call(action, name)(ServiceError(shown(&error.to_string())))
}

/// Returns the text of an error on one line, with at most `ERROR_BYTES_MAX` bytes.
pub(crate) fn shown(text: &str) -> String {
    let mut text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.len() > ERROR_BYTES_MAX {
        text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
        text.push_str("...");
    }
    text
}

//! The three services, with the options of the crate `object_store` for each.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{
    AmazonS3Builder, AmazonS3ConfigKey, AwsCredentialProvider, Checksum, S3ConditionalPut,
};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder, split_sas};
use object_store::client::HttpClient;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, ObjectStore, RetryConfig};

use super::connect::{AddressFault, check_web_address};
use super::connector::Connector;
use super::lifecycle::Bucket;
use super::options::{Addressing, AwsKeys, ObjectStoreOptions, PutChecksum, Secret};
use super::place::StoreService;

/// Maximum number of tries of one call after the first try. The caller repeats the call without end, with
/// longer waits.
pub(super) const RETRIES_MAX: u32 = 3;
/// Time after the first try after which a call begins no further try.
pub(super) const RETRY_TIME_MAX: Duration = Duration::from_secs(10);

/// The region of S3 if none is configured, as the crate chooses it.
const REGION: &str = "us-east-1";

/// Variables of the environment with credentials of S3. No other variable changes the store.
const AWS_KEYS: [AmazonS3ConfigKey; 13] = [
    AmazonS3ConfigKey::AccessKeyId,
    AmazonS3ConfigKey::SecretAccessKey,
    AmazonS3ConfigKey::Token,
    AmazonS3ConfigKey::Region,
    AmazonS3ConfigKey::DefaultRegion,
    AmazonS3ConfigKey::WebIdentityTokenFile,
    AmazonS3ConfigKey::RoleArn,
    AmazonS3ConfigKey::RoleSessionName,
    AmazonS3ConfigKey::StsEndpoint,
    AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
    AmazonS3ConfigKey::ContainerCredentialsFullUri,
    AmazonS3ConfigKey::ContainerAuthorizationTokenFile,
    AmazonS3ConfigKey::MetadataEndpoint,
];
/// Variables of the environment with credentials of Google Cloud Storage.
const GOOGLE_KEYS: [GoogleConfigKey; 4] = [
    GoogleConfigKey::ServiceAccount,
    GoogleConfigKey::ServiceAccountKey,
    GoogleConfigKey::ApplicationCredentials,
    GoogleConfigKey::BearerToken,
];
/// Variables of the environment with credentials of Azure.
const AZURE_KEYS: [AzureConfigKey; 12] = [
    AzureConfigKey::AccountName,
    AzureConfigKey::AccessKey,
    AzureConfigKey::ClientId,
    AzureConfigKey::ClientSecret,
    AzureConfigKey::AuthorityId,
    AzureConfigKey::AuthorityHost,
    AzureConfigKey::SasKey,
    AzureConfigKey::Token,
    AzureConfigKey::MsiEndpoint,
    AzureConfigKey::ObjectId,
    AzureConfigKey::MsiResourceId,
    AzureConfigKey::FederatedTokenFile,
];

/// Why a store cannot be opened. The operator has to change the configuration.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// The text of the endpoint is not a valid address.
    #[error("endpoint {endpoint:?} is no address: {reason}")]
    Endpoint {
        /// Text of the endpoint.
        endpoint: String,
        /// Why the text is not a valid address.
        reason: String,
    },
    /// The address would send keys and records over a network in plain text.
    #[error("endpoint {endpoint:?} is plain HTTP, which is allowed to loopback only, use https://")]
    PlainHttp {
        /// Text of the endpoint.
        endpoint: String,
    },
    /// Part of the credentials is missing, or the service does not use this part.
    #[error("{0}")]
    Credentials(&'static str),
    /// The crate refuses the options. The text of this error contains no secret.
    #[error("the store cannot be opened: {0}")]
    Refused(String),
}

/// A store, and its bucket if the lifecycle rules of the bucket can be read.
pub(super) type Opened = (Arc<dyn ObjectStore>, Option<Bucket>);

/// Opens a store. Sends nothing.
pub(super) fn open(options: &ObjectStoreOptions, connector: Connector) -> Result<Opened, CloudError> {
    if let Some(endpoint) = &options.endpoint {
        check_endpoint(endpoint)?;
    }
    match options.place.service {
        StoreService::S3 => open_s3(options, connector),
        StoreService::Gcs => Ok((open_gcs(options, connector)?, None)),
        StoreService::Azure => Ok((open_azure(options, connector)?, None)),
    }
}

fn check_endpoint(endpoint: &str) -> Result<(), CloudError> {
    let endpoint = endpoint.to_owned();
    let fault = |endpoint, reason: &str| CloudError::Endpoint { endpoint, reason: reason.to_owned() };
    check_web_address(&endpoint).map_err(|error| match error {
        AddressFault::NoAddress(reason) => fault(endpoint, &reason),
        AddressFault::User => {
            fault("(hidden)".to_owned(), "it has a name or a password, use access_key and secret_key")
        }
        AddressFault::Query => fault(endpoint, "it has a query"),
        AddressFault::PlainHttp => CloudError::PlainHttp { endpoint },
    })
}

fn retries() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(1),
        base: 2.0,
    };
    RetryConfig { backoff, max_retries: RETRIES_MAX as usize, retry_timeout: RETRY_TIME_MAX }
}

fn open_s3(options: &ObjectStoreOptions, connector: Connector) -> Result<Opened, CloudError> {
    let mut builder = with_keys(&options.aws_keys())?;
    let bucket = &options.place.bucket;
    let is_virtual = options.addressing == Addressing::VirtualHost;
    if let Some(endpoint) = &options.endpoint {
        let address = if is_virtual { with_bucket(endpoint, bucket) } else { endpoint.clone() };
        builder = builder.with_endpoint(address);
    }
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region).unwrap_or_else(|| REGION.to_owned());
    let address = bucket_address(options, &region);
    let client = HttpClient::new(connector.clone());
    let (checksum, is_unsigned) = match options.checksum {
        PutChecksum::Sha256 => (Checksum::SHA256, false),
        PutChecksum::Crc64Nvme => (Checksum::CRC64NVME, true),
    };
    let store = builder
        .with_bucket_name(bucket)
        .with_virtual_hosted_style_request(is_virtual)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_checksum_algorithm(checksum)
        .with_unsigned_payload(is_unsigned)
        // Some servers lack the call that deletes many objects.
        .with_disable_bulk_delete(true)
        .with_retry(retries())
        .with_http_connector(connector)
        .build()
        .map_err(refused)?;
    let bucket = Bucket { client, credentials: store.credentials().clone(), region, address };
    Ok((Arc::new(store), Some(bucket)))
}

/// Returns a builder with keys and region, from the options or else from the environment.
fn with_keys(keys: &AwsKeys) -> Result<AmazonS3Builder, CloudError> {
    let mut builder = AmazonS3Builder::new();
    let has_keys = keys.access_key.is_some() || keys.secret_key.is_some();
    if !has_keys && keys.session_token.is_some() {
        return Err(CloudError::Credentials("session_token needs access_key and secret_key"));
    }
    for (key, value) in environment("AWS_", &AWS_KEYS) {
        let is_region = matches!(key, AmazonS3ConfigKey::Region | AmazonS3ConfigKey::DefaultRegion);
        if is_region || !has_keys {
            builder = builder.with_config(key, value);
        }
    }
    if has_keys {
        let (Some(access), Some(secret)) = (&keys.access_key, &keys.secret_key) else {
            return Err(CloudError::Credentials("access_key and secret_key need each other"));
        };
        builder = builder.with_access_key_id(access).with_secret_access_key(secret.reveal());
    }
    if let Some(token) = &keys.session_token {
        builder = builder.with_token(token.reveal());
    }
    Ok(match &keys.region {
        Some(region) => builder.with_region(region),
        None => builder,
    })
}

/// Returns the keys that sign requests to a service of AWS.
pub(super) fn aws_credentials(
    keys: &AwsKeys,
    connector: Connector,
) -> Result<AwsCredentialProvider, CloudError> {
    // The crate makes credentials only for a bucket. No request goes there.
    let builder = with_keys(keys)?.with_bucket_name("none").with_retry(retries());
    Ok(builder.with_http_connector(connector).build().map_err(refused)?.credentials().clone())
}

/// Returns the address of a bucket, as the crate makes it.
fn bucket_address(options: &ObjectStoreOptions, region: &str) -> String {
    let bucket = &options.place.bucket;
    let endpoint = options.endpoint.clone().unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
    match options.addressing {
        Addressing::VirtualHost => with_bucket(&endpoint, bucket),
        Addressing::Path => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
    }
}

/// Returns an address whose host begins with the name of the bucket.
fn with_bucket(endpoint: &str, bucket: &str) -> String {
    match endpoint.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{bucket}.{}", rest.trim_end_matches('/')),
        None => endpoint.to_owned(),
    }
}

fn open_gcs(options: &ObjectStoreOptions, connector: Connector) -> Result<Arc<dyn ObjectStore>, CloudError> {
    if options.access_key.is_some() {
        let reason = "gs:// has no access_key: secret_key is the JSON text of a service account key";
        return Err(CloudError::Credentials(reason));
    }
    let mut builder = GoogleCloudStorageBuilder::new();
    match (&options.secret_key, &options.session_token) {
        (Some(_), Some(_)) => {
            return Err(CloudError::Credentials("gs:// takes secret_key or session_token, not both"));
        }
        (Some(key), None) => builder = builder.with_service_account_key(key.reveal()),
        (None, Some(token)) => builder = builder.with_bearer_token(token.reveal()),
        (None, None) => {
            for (key, value) in environment("GOOGLE_", &GOOGLE_KEYS) {
                builder = builder.with_config(key, value);
            }
        }
    }
    if let Some(endpoint) = &options.endpoint {
        builder = builder.with_base_url(endpoint.trim_end_matches('/'));
    }
    let builder = builder.with_bucket_name(&options.place.bucket).with_retry(retries());
    let store = builder.with_http_connector(connector).build();
    Ok(Arc::new(store.map_err(refused)?))
}

fn open_azure(
    options: &ObjectStoreOptions,
    connector: Connector,
) -> Result<Arc<dyn ObjectStore>, CloudError> {
    let mut builder = MicrosoftAzureBuilder::new();
    let has_keys = options.secret_key.is_some() || options.session_token.is_some();
    for (key, value) in environment("AZURE_", &AZURE_KEYS) {
        if !has_keys || key == AzureConfigKey::AccountName {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(account) = &options.access_key {
        builder = builder.with_account(account);
    }
    match (&options.secret_key, &options.session_token) {
        (Some(_), Some(_)) => {
            return Err(CloudError::Credentials("az:// takes secret_key or session_token, not both"));
        }
        (Some(key), None) => builder = builder.with_access_key(key.reveal()),
        (None, Some(token)) => builder = builder.with_sas_authorization(signature(token)?),
        (None, None) => {}
    }
    if let Some(endpoint) = &options.endpoint {
        builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_owned());
    }
    let builder = builder.with_container_name(&options.place.bucket).with_retry(retries());
    let store = builder.with_http_connector(connector).build();
    Ok(Arc::new(store.map_err(refused)?))
}

fn signature(token: &Secret) -> Result<Vec<(String, String)>, CloudError> {
    let reason = "session_token is no shared access signature: it has the form KEY=VALUE&KEY=VALUE";
    // The error of the crate contains parts of the token.
    split_sas(token.reveal()).map_err(|_| CloudError::Credentials(reason))
}

/// Returns the variables of the environment that stand for one of these keys.
fn environment<K>(prefix: &str, keys: &[K]) -> Vec<(K, String)>
where
    K: std::str::FromStr + PartialEq + Copy,
{
    let known = |(name, value): (OsString, OsString)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        let key = name.strip_prefix(prefix).and_then(|_| name.to_ascii_lowercase().parse().ok())?;
        (!value.is_empty() && keys.contains(&key)).then_some((key, value))
    };
    std::env::vars_os().filter_map(known).collect()
}

fn refused(error: object_store::Error) -> CloudError {
    // An error about a key may contain the key: `source` is not shown.
    CloudError::Refused(match error {
        object_store::Error::Generic { store, .. } => format!("{store} does not take these options"),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_loopback_only() {
        for endpoint in ["https://s3.example", "http://127.0.0.1:7070", "http://localhost", "http://[::1]:1/"]
        {
            check_endpoint(endpoint).unwrap();
        }
        for (endpoint, part) in [
            ("http://s3.example", "plain HTTP"),
            ("http://10.0.0.1:9000", "plain HTTP"),
            ("http://169.254.169.254", "plain HTTP"),
            ("ftp://127.0.0.1", "neither"),
            ("s3.example", "neither"),
            ("https://", "no address"),
            ("https://s3.example/?x=1", "query"),
        ] {
            let error = check_endpoint(endpoint).unwrap_err().to_string();
            assert!(error.contains(part), "{endpoint}: {error}");
        }
        let error = check_endpoint("https://me:sesame@s3.example").unwrap_err().to_string();
        assert!(!error.contains("sesame"), "{error}");
    }

    #[test]
    fn a_bucket_is_the_first_part_of_a_virtual_host() {
        assert_eq!(with_bucket("https://s3.example:9000/", "logs"), "https://logs.s3.example:9000");
    }
}

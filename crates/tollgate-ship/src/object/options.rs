//! Options of an object store.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::place::StorePlace;

/// A secret text, which no log line and no error shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text. It must not be printed.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Position of the bucket's name in an address of S3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Addressing {
    /// `https://HOST/BUCKET/KEY`: every server understands it.
    #[default]
    Path,
    /// `https://BUCKET.HOST/KEY`.
    VirtualHost,
}

/// The checksum that S3 computes and compares, before a PUT is successful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PutChecksum {
    /// SHA-256. The signature of the request contains it too, so each server with the protocol of S3 verifies
    /// it.
    #[default]
    Sha256,
    /// CRC-64/NVME, which takes less processor time on both machines. A server must know the field
    /// `x-amz-checksum-crc64nvme`. The signature contains the checksum, and does not contain the digest of
    /// the content.
    Crc64Nvme,
}

impl PutChecksum {
    /// All checksums, the default first.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Crc64Nvme];

    /// Returns the name of the checksum in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Crc64Nvme => "crc64nvme",
        }
    }
}

/// Options of an object store.
///
/// | key | S3 | Google Cloud Storage | Azure |
/// | --- | --- | --- | --- |
/// | `access_key` | the id of the access key | not allowed | the name of the account |
/// | `secret_key` | the secret access key | a service account key, as JSON | the key of the account |
/// | `session_token` | the token of temporary keys | an OAuth token | a shared access signature |
///
/// If these options have no credentials, the environment is read. If the environment has none, the machine
/// gives them: the web identity, the container, or the metadata service of the cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectStoreOptions {
    /// The place of the objects.
    pub place: StorePlace,
    /// The address of the service. `None`: the address of the cloud. Plain HTTP is allowed only to a loopback
    /// address.
    pub endpoint: Option<String>,
    /// The region, for S3. `None`: `AWS_REGION`, `AWS_DEFAULT_REGION`, else `us-east-1`.
    pub region: Option<String>,
    /// The public part of the credentials.
    pub access_key: Option<String>,
    /// The secret part of the credentials.
    pub secret_key: Option<Secret>,
    /// The token of temporary credentials.
    pub session_token: Option<Secret>,
    /// A PEM file with the trusted authorities. `None`: the authorities of the system.
    pub ca: Option<PathBuf>,
    /// `http://HOST:PORT` of a proxy, which is asked to `CONNECT`. Plain HTTP does not use it.
    pub proxy: Option<String>,
    /// Position of the bucket's name in an address of S3.
    pub addressing: Addressing,
    /// The checksum of each PUT, for S3.
    pub checksum: PutChecksum,
    /// Longest time without progress: to connect, to send a piece, to receive a piece, or until the response
    /// begins.
    pub timeout: Duration,
}

/// Keys of AWS. Without a pair of keys, the environment is read, and then the machine is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AwsKeys {
    /// The region. `None`: the environment, else `us-east-1`.
    pub region: Option<String>,
    /// The id of the access key.
    pub access_key: Option<String>,
    /// The secret access key.
    pub secret_key: Option<Secret>,
    /// The token of temporary keys.
    pub session_token: Option<Secret>,
}

impl ObjectStoreOptions {
    /// Returns the keys of AWS.
    pub fn aws_keys(&self) -> AwsKeys {
        AwsKeys {
            region: self.region.clone(),
            access_key: self.access_key.clone(),
            secret_key: self.secret_key.clone(),
            session_token: self.session_token.clone(),
        }
    }

    /// Returns the defaults for a place.
    pub fn new(place: StorePlace) -> Self {
        Self {
            place,
            endpoint: None,
            region: None,
            access_key: None,
            secret_key: None,
            session_token: None,
            ca: None,
            proxy: None,
            addressing: Addressing::default(),
            checksum: PutChecksum::default(),
            timeout: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_show_no_secret() {
        let mut options = ObjectStoreOptions::new(StorePlace::parse("s3://logs").unwrap());
        options.secret_key = Some(Secret::new("sesame"));
        options.session_token = Some(Secret::new("sesame"));
        let shown = format!("{options:?} {}", Secret::new("sesame"));
        assert!(!shown.contains("sesame") && shown.contains("***"), "{shown}");
    }
}

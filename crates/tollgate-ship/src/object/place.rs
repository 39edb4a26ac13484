//! The place of a store: which service, which bucket, which prefix.

use std::fmt;

use crate::name::ObjectName;

/// Maximum bytes of a prefix. The longest key of S3 has 1,024 bytes, and names need some of them.
const PREFIX_BYTES_MAX: usize = 512;

/// A service that stores objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreService {
    /// Amazon S3, and every server with its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl StoreService {
    const ALL: [Self; 3] = [Self::S3, Self::Gcs, Self::Azure];

    /// Returns the scheme of its places.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gs",
            Self::Azure => "az",
        }
    }
}

/// The place of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorePlace {
    /// The service that stores the objects.
    pub service: StoreService,
    /// The bucket. Azure calls it a container.
    pub bucket: String,
    /// The prefix of all keys, without a `/` at either end. The prefix may be empty.
    pub prefix: String,
}

/// Why a text is not a valid place of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// The text begins with another scheme, or with none.
    #[error(
        "{text:?} is no place of objects, allowed are s3://BUCKET/PREFIX, gs://BUCKET/PREFIX and \
         az://CONTAINER/PREFIX"
    )]
    Scheme {
        /// The refused text.
        text: String,
    },
    /// The bucket is missing or has a character that no bucket has.
    #[error("{bucket:?} is no bucket, allowed are letters, digits, \".\", \"-\" and \"_\"")]
    Bucket {
        /// The text between the scheme and the first `/`.
        bucket: String,
    },
    /// The prefix cannot be a part of every name.
    #[error("{prefix:?} is no prefix: {reason}")]
    Prefix {
        /// The text after the bucket.
        prefix: String,
        /// Why the prefix is not valid.
        reason: &'static str,
    },
}

impl StorePlace {
    /// Parses `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`. The prefix may be
    /// absent.
    ///
    /// # Errors The text is not a valid place.
    pub fn parse(text: &str) -> Result<Self, PlaceError> {
        let unknown = || PlaceError::Scheme { text: text.to_owned() };
        let (scheme, rest) = text.split_once("://").ok_or_else(unknown)?;
        let service = StoreService::ALL.into_iter().find(|service| service.scheme() == scheme);
        let service = service.ok_or_else(unknown)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if !bucket.bytes().all(is_plain) || bucket.trim_matches('.').is_empty() {
            return Err(PlaceError::Bucket { bucket: bucket.to_owned() });
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        if let Some(reason) = fault_of(prefix) {
            return Err(PlaceError::Prefix { prefix: prefix.to_owned(), reason });
        }
        Ok(Self { service, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }

    /// Returns the key of an object. `None`: the name is not in the layout.
    pub(super) fn key(&self, name: &str) -> Option<String> {
        ObjectName::parse(name).map(|_| self.below(name))
    }

    /// Returns a text with the prefix of this place before it.
    pub(super) fn below(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) }
    }

    /// Returns the name that a key stands for. `None`: the key is not in this place.
    pub(super) fn name<'key>(&self, key: &'key str) -> Option<&'key str> {
        if self.prefix.is_empty() {
            return Some(key);
        }
        key.strip_prefix(&self.prefix)?.strip_prefix('/')
    }
}

/// Returns why a text is not a valid prefix.
fn fault_of(prefix: &str) -> Option<&'static str> {
    if prefix.is_empty() {
        return None;
    }
    if prefix.len() > PREFIX_BYTES_MAX {
        return Some("it has more than 512 bytes");
    }
    if prefix.chars().any(char::is_control) || prefix.contains(['?', '#']) {
        return Some("it has a control character, \"?\" or \"#\"");
    }
    let is_folder = |part: &str| !part.is_empty() && part != "." && part != "..";
    (!prefix.split('/').all(is_folder)).then_some("it has an empty part, \".\" or \"..\"")
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, bucket, prefix } = self;
        let slash = if prefix.is_empty() { "" } else { "/" };
        write!(f, "{}://{bucket}{slash}{prefix}", service.scheme())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_service_bucket_and_prefix() {
        for (text, service, bucket, prefix, shown) in [
            ("s3://logs", StoreService::S3, "logs", "", "s3://logs"),
            ("s3://logs/", StoreService::S3, "logs", "", "s3://logs"),
            (
                "gs://my-logs.example/a/b",
                StoreService::Gcs,
                "my-logs.example",
                "a/b",
                "gs://my-logs.example/a/b",
            ),
            ("az://box/web-1/", StoreService::Azure, "box", "web-1", "az://box/web-1"),
        ] {
            let place = StorePlace::parse(text).unwrap();
            assert_eq!((place.service, &*place.bucket, &*place.prefix), (service, bucket, prefix), "{text}");
            assert_eq!(place.to_string(), shown);
        }
    }

    #[test]
    fn another_text_is_refused_with_the_part_that_is_wrong() {
        for (text, part) in [
            ("/mnt/handover", "no place of objects"),
            ("S3://logs", "no place of objects"),
            ("https://logs.s3.amazonaws.com", "no place of objects"),
            ("s3://", "\"\" is no bucket"),
            ("s3:///x", "\"\" is no bucket"),
            ("s3://..", "\"..\" is no bucket"),
            ("s3://key:secret@logs", "is no bucket"),
            ("s3://logs//x", "an empty part"),
            ("s3://logs/a/../b", "an empty part"),
            ("s3://logs/a?b", "\"?\""),
        ] {
            let error = StorePlace::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(StorePlace::parse(&format!("s3://logs/{}", "x".repeat(513))).is_err());
    }

    #[test]
    fn names_are_below_the_prefix() {
        let name = "v1/node/web";
        for (place, key) in [("s3://logs", "v1/node/web"), ("s3://logs/a/b", "a/b/v1/node/web")] {
            let place = StorePlace::parse(place).unwrap();
            assert_eq!(place.key(name).as_deref(), Some(key));
            assert_eq!(place.name(key), Some(name));
        }
        let place = StorePlace::parse("s3://logs/a").unwrap();
        assert_eq!(place.key("v2/node/web"), None);
        assert_eq!(place.name("ab/v1/node/web"), None);
    }
}

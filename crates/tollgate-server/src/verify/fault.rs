//! Why the signature of a request does not hold. No fault contains any part of a key or of a signature.

/// Reason why the signature of a request does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignatureFault {
    #[error("the request has no header {0}")]
    Absent(String),
    #[error("the request has the header {0} several times")]
    Repeated(String),
    #[error("the header {0} has no signature in the expected form")]
    Malformed(String),
    #[error("the header {header} has {found} signatures, limit {limit}")]
    TooMany { header: String, found: usize, limit: usize },
    #[error("the timestamp is not a number of seconds since 1970")]
    Timestamp,
    #[error("the timestamp is {seconds} s older than the clock, limit {limit} s")]
    Old { seconds: u64, limit: u64 },
    #[error("the timestamp is {seconds} s ahead of the clock, limit {limit} s")]
    Ahead { seconds: u64, limit: u64 },
    #[error("the request names no host")]
    Host,
    #[error("the content is no form, and the query has no bodySHA256 of the content")]
    Uncovered,
    #[error("no key makes this signature: the key, the content or the URL differs")]
    Mismatch,
    #[error("the route before verified no such signature")]
    Passed,
}

//! The hook that sets and removes records at a DNS provider.

use std::path::PathBuf;
use std::time::Duration;

/// The hook for challenges of an ACME server by DNS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsHookSpec {
    /// The file with the functions `set` and `remove`.
    pub file: PathBuf,
    /// The folder from which the script may load modules.
    pub root: PathBuf,
    /// Maximum time of one call, from its first wait on.
    pub timeout: Duration,
}

//! How many descriptors of served files a worker keeps open between requests.

use std::ops::RangeInclusive;

use rustix::process::{Resource, getrlimit};

use crate::options::ServerOptions;

/// The bounds of this number, whatever the limit of the process is.
const DESCRIPTORS_MAX: RangeInclusive<u64> = 16..=128;
/// Descriptors of the log, the databases, the listeners and the runtime, generously.
const DESCRIPTORS_BESIDE: u64 = 128;

/// Returns the share of one worker in the descriptors that the limit of the process leaves beside
/// connections.
pub(crate) fn file_descriptors_max(options: &ServerOptions) -> u64 {
    share(getrlimit(Resource::Nofile).current, options)
}

/// Returns the share of one worker. A connection takes one descriptor, and one more while its request waits
/// for a backend.
fn share(limit: Option<u64>, options: &ServerOptions) -> u64 {
    let of_each = if options.backends.is_empty() { 1 } else { 2 };
    let needed = (options.capacity.connections_max as u64).saturating_mul(of_each) + DESCRIPTORS_BESIDE;
    let left = limit.unwrap_or(u64::MAX).saturating_sub(needed) / options.workers.max(1) as u64;
    left.clamp(*DESCRIPTORS_MAX.start(), *DESCRIPTORS_MAX.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::options;

    #[test]
    fn descriptors_left_beside_connections_are_shared_by_the_workers() {
        let mut options = options();
        (options.workers, options.capacity.connections_max) = (2, 150);
        assert_eq!(share(Some(410), &options), 66);
        assert_eq!(share(Some(100), &options), 16);
        assert_eq!(share(None, &options), 128);
    }
}

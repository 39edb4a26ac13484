//! Counts wrong credentials of each client, so that nobody can try many passwords.

use std::net::IpAddr;
use std::time::Instant;

use super::bucket::Bucket;
use super::keys::Keys;
use crate::options::FailureLimit;

/// Number of clients that are remembered. Each needs 16 bytes.
const CLIENTS_MAX: usize = 65_536;

/// The wrong credentials of all clients.
///
/// A client without an address is not limited: all such clients would share one count, so that one of them
/// could lock out the others.
#[derive(Debug)]
pub(crate) struct FailedLogins {
    pub(crate) limit: FailureLimit,
    bucket: Bucket,
    clients: Keys,
    begun: Instant,
}

impl FailedLogins {
    pub(crate) fn new(limit: FailureLimit) -> Self {
        let bucket = Bucket::new(limit.count, limit.period, limit.count);
        Self { limit, bucket, clients: Keys::new(CLIENTS_MAX), begun: Instant::now() }
    }

    /// Returns the seconds until the client may try again. Returns `None` if the client may try now.
    pub(crate) fn wait_s(&self, client: Option<IpAddr>, now: Instant) -> Option<u64> {
        self.clients.wait_of_client(client?, &self.bucket, self.now_ns(now)).map(super::whole_seconds)
    }

    /// Counts wrong credentials of a client.
    pub(crate) fn add(&self, client: Option<IpAddr>, now: Instant) {
        if client.is_some() {
            // An empty bucket stays empty. The client then waits as before.
            let _ = self.clients.take_of_client(client, &self.bucket, self.now_ns(now));
        }
    }

    fn now_ns(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.begun).as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn client(address: &str) -> Option<IpAddr> {
        Some(address.parse().unwrap())
    }

    #[test]
    fn a_client_waits_after_its_failures_and_no_other_client_does() {
        let logins = FailedLogins::new(FailureLimit { count: 3, period: Duration::from_secs(60) });
        let now = Instant::now();
        let one = client("2001:db8::1");
        for _ in 0..3 {
            assert_eq!(logins.wait_s(one, now), None);
            logins.add(one, now);
        }
        assert_eq!(logins.wait_s(one, now), Some(20));
        // The same network of 64 bits, and others.
        assert_eq!(logins.wait_s(client("2001:db8::2"), now), Some(20));
        assert_eq!(logins.wait_s(client("2001:db8:0:1::1"), now), None);
        assert_eq!(logins.wait_s(client("192.0.2.1"), now), None);
        assert_eq!(logins.wait_s(one, now + Duration::from_secs(20)), None);
    }

    #[test]
    fn clients_without_an_address_do_not_lock_each_other_out() {
        let logins = FailedLogins::new(FailureLimit { count: 1, period: Duration::from_secs(60) });
        (0..5).for_each(|_| logins.add(None, Instant::now()));
        assert_eq!(logins.wait_s(None, Instant::now()), None);
    }
}

//! Counts wrong credentials of each client. A client above the limit cannot try more passwords.

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

    /// Counts wrong credentials of a client. Credentials whose check takes time count before the check, so
    /// that no client can try many at once.
    ///
    /// # Errors
    /// The client has no try left. The error is the time in seconds until the next one.
    pub(crate) fn add(&self, client: Option<IpAddr>, now: Instant) -> Result<(), u64> {
        match client {
            Some(_) => {
                let taken = self.clients.take_of_client(client, &self.bucket, self.now_ns(now));
                taken.map_err(super::whole_seconds)
            }
            None => Ok(()),
        }
    }

    /// Takes back one count of a client whose credentials were right, or were not checked.
    pub(crate) fn take_back(&self, client: Option<IpAddr>) {
        if let Some(client) = client {
            self.clients.give_back_to_client(client, &self.bucket);
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
            assert_eq!(logins.add(one, now), Ok(()));
        }
        assert_eq!(logins.add(one, now), Err(20));
        assert_eq!(logins.wait_s(one, now), Some(20));
        // The same network of 64 bits, and others.
        assert_eq!(logins.wait_s(client("2001:db8::2"), now), Some(20));
        assert_eq!(logins.wait_s(client("2001:db8:0:1::1"), now), None);
        assert_eq!(logins.wait_s(client("192.0.2.1"), now), None);
        assert_eq!(logins.wait_s(one, now + Duration::from_secs(20)), None);
    }

    #[test]
    fn a_count_that_is_taken_back_is_a_try_again() {
        let logins = FailedLogins::new(FailureLimit { count: 2, period: Duration::from_secs(60) });
        let (now, one) = (Instant::now(), client("192.0.2.1"));
        let tries = |count: usize| (0..count).map(|_| logins.add(one, now)).collect::<Vec<_>>();
        assert_eq!(tries(3), [Ok(()), Ok(()), Err(30)]);
        logins.take_back(one);
        assert_eq!(tries(2), [Ok(()), Err(30)]);
        logins.take_back(client("192.0.2.2"));
        assert_eq!(tries(1), [Err(30)]);
        (0..9).for_each(|_| logins.take_back(one));
        assert_eq!(tries(3), [Ok(()), Ok(()), Err(30)], "no more than the limit is there");
    }

    #[test]
    fn clients_without_an_address_do_not_lock_each_other_out() {
        let logins = FailedLogins::new(FailureLimit { count: 1, period: Duration::from_secs(60) });
        (0..5).for_each(|_| assert_eq!(logins.add(None, Instant::now()), Ok(())));
        assert_eq!(logins.wait_s(None, Instant::now()), None);
    }
}

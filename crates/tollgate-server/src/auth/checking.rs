//! Credentials whose check needs a wait, while their connection waits too.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tollgate_auth::Identity;

use super::authenticator::Authenticator;
use super::denied::Denied;
use super::wait::Wait;

/// Maximum time that a request waits for the check of its password. A full queue takes a few seconds.
const PASSWORD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time that a request waits for new keys.
const KEYS_TIMEOUT: Duration = Duration::from_secs(5);

/// Credentials whose check needs a wait.
pub(crate) struct Checking {
    authenticator: Arc<Authenticator>,
    client: Option<IpAddr>,
    wait: Wait,
}

impl fmt::Debug for Checking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Checking")
    }
}

impl Checking {
    pub(super) fn new(authenticator: Arc<Authenticator>, wait: Wait, client: Option<IpAddr>) -> Self {
        Self { authenticator, client, wait }
    }

    /// Waits for the event, and returns the caller.
    ///
    /// # Cancel safety
    /// The wait can be repeated until it has returned once.
    pub(super) async fn identity(&mut self) -> Result<Identity, Denied> {
        let Self { authenticator, client, wait } = self;
        match wait {
            Wait::Password { name, password, answer } => {
                // The thread is gone only if it panicked. The password is then treated as not checked, as
                // after the timeout.
                let answered = timeout(PASSWORD_TIMEOUT, answer).await;
                let is_right = answered.ok().and_then(Result::ok);
                authenticator.finish_password(name, password, *client, is_right)
            }
            Wait::Keys { token, wall_us, fetched } => {
                // The token is judged by the keys that are there now, whether or not they are new.
                let _ = timeout(KEYS_TIMEOUT, fetched.changed()).await;
                authenticator.finish_token(token, *wall_us, *client)
            }
        }
    }
}

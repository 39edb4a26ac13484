//! Checks the credentials of one section of the configuration, for all workers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_auth::{
    Credentials, CredentialsFault, Identity, JwtFault, KeySet, Remembered, Scheme, credentials, verify_jwt,
};
use tollgate_http::RequestHead;

use super::denied::Denied;
use super::password_pool::PasswordPool;
use super::remote_keys::{KeySource, RemoteKeys};
use super::wait::Wait;
use crate::clock::Moment;
use crate::options::{AuthSpec, JwtKeys, JwtSpec};
use crate::overload::FailedLogins;

/// How long a right password is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The credentials of one section, and the state of their checks.
#[derive(Debug)]
pub(crate) struct Authenticator {
    pub(crate) spec: Arc<AuthSpec>,
    /// Right passwords of the last minute. `None` if the system gives no random bytes: then nothing is
    /// remembered.
    remembered: Option<Arc<Remembered>>,
    failed: Option<Arc<FailedLogins>>,
    /// Keys that a backend publishes, if the configuration names one.
    pub(crate) remote_keys: Option<Arc<RemoteKeys>>,
    pool: Arc<PasswordPool>,
}

/// The result of a check that needs no wait, or the wait.
pub(super) enum Check {
    Known(Identity),
    Waits(Wait),
}

impl Authenticator {
    /// Creates the state of a section. State of the same section in `before` is kept.
    pub(crate) fn new(spec: &Arc<AuthSpec>, before: Option<&Self>, pool: &Arc<PasswordPool>) -> Arc<Self> {
        let kept = before.and_then(|before| before.remembered.clone());
        let remembered = kept.or_else(|| Remembered::new(REMEMBERED).ok().map(Arc::new));
        let failed = spec.failures.map(|limit| {
            let kept = before.and_then(|before| before.failed.clone());
            kept.filter(|kept| kept.limit == limit).unwrap_or_else(|| Arc::new(FailedLogins::new(limit)))
        });
        let remote_keys = remote_source(spec).map(|source| {
            let kept = before.and_then(|before| before.remote_keys.clone());
            let kept = kept.filter(|kept| kept.source == source).inspect(|kept| kept.fetch_again());
            kept.unwrap_or_else(|| Arc::new(RemoteKeys::new(source)))
        });
        Arc::new(Self { spec: spec.clone(), remembered, failed, remote_keys, pool: pool.clone() })
    }

    /// Checks the credentials of a request.
    pub(super) fn check(
        &self,
        head: &RequestHead,
        client: impl Fn() -> Option<IpAddr>,
        now: Moment,
    ) -> Result<Check, Denied> {
        let credentials = credentials(head.values_of("authorization")).map_err(Denied::Unusable)?;
        if let Some(wait_s) = self.failed.as_ref().and_then(|failed| failed.wait_s(client(), now.at)) {
            return Err(Denied::TooMany { wait_s });
        }
        let checked = match credentials {
            Credentials::Basic { name, password } => self.check_password(name, password, client(), now.at),
            Credentials::Bearer(token) => self.check_token(token, now),
        };
        checked.inspect_err(|denied| self.note(denied, client(), now.at))
    }

    /// Begins to check a password. It counts as wrong until it is known to be right.
    fn check_password(
        &self,
        name: String,
        password: String,
        client: Option<IpAddr>,
        now: Instant,
    ) -> Result<Check, Denied> {
        let basic = self.spec.basic.as_ref().ok_or(Denied::Unusable(CredentialsFault::Scheme))?;
        let passwords = &basic.content;
        if self.remembered.as_ref().is_some_and(|pairs| pairs.has(passwords, &name, &password, now)) {
            return Ok(Check::Known(Identity { scheme: Scheme::Basic, name, claims: None }));
        }
        let counted = self.failed.as_ref().map_or(Ok(()), |failed| failed.add(client, now));
        counted.map_err(|wait_s| Denied::TooMany { wait_s })?;
        let Some(answer) = self.pool.check(passwords, &name, &password) else {
            self.take_back(client);
            return Err(Denied::Busy);
        };
        Ok(Check::Waits(Wait::Password { name, password, answer }))
    }

    /// Finds a token in the token file, then verifies it as a JSON Web Token.
    fn check_token(&self, token: String, now: Moment) -> Result<Check, Denied> {
        let named = self.spec.bearer.as_ref().and_then(|tokens| tokens.content.name_of(&token));
        if let Some(name) = named {
            return Ok(Check::Known(Identity {
                scheme: Scheme::Bearer,
                name: name.to_owned(),
                claims: None,
            }));
        }
        match (&self.spec.jwt, &self.spec.bearer) {
            (Some(jwt), _) => self.check_jwt(jwt, token, now),
            (None, Some(_)) => Err(Denied::Wrong("the token is unknown")),
            (None, None) => Err(Denied::Unusable(CredentialsFault::Scheme)),
        }
    }

    fn check_jwt(&self, jwt: &JwtSpec, token: String, now: Moment) -> Result<Check, Denied> {
        match self.verify(jwt, &token, now.wall_us) {
            Err(Denied::Jwt(JwtFault::UnknownKey)) => {
                let asked = self.remote_keys.as_ref().and_then(|keys| keys.ask(now.at));
                let fetched = asked.ok_or(Denied::Jwt(JwtFault::UnknownKey))?;
                Ok(Check::Waits(Wait::Keys { token, wall_us: now.wall_us, fetched }))
            }
            verified => verified.map(Check::Known),
        }
    }

    fn verify(&self, jwt: &JwtSpec, token: &str, wall_us: i64) -> Result<Identity, Denied> {
        let keys = self.keys(jwt).ok_or(Denied::NoKeys)?;
        verify_jwt(token, &keys, &jwt.rules, wall_us.div_euclid(1_000_000)).map_err(Denied::Jwt)
    }

    fn keys(&self, jwt: &JwtSpec) -> Option<Arc<KeySet>> {
        match &jwt.keys {
            JwtKeys::File(file) => Some(file.content.clone()),
            JwtKeys::Secret { keys, .. } => Some(keys.clone()),
            JwtKeys::Backend { .. } => self.remote_keys.as_ref()?.keys(),
        }
    }

    /// Takes the result of a password check. `None`: the password was not checked in time.
    pub(super) fn finish_password(
        &self,
        name: &str,
        password: &str,
        client: Option<IpAddr>,
        is_right: Option<bool>,
    ) -> Result<Identity, Denied> {
        if is_right == Some(false) {
            return Err(Denied::Wrong("the name or the password is wrong"));
        }
        self.take_back(client);
        if is_right.is_none() {
            return Err(Denied::Busy);
        }
        if let (Some(pairs), Some(basic)) = (&self.remembered, &self.spec.basic) {
            pairs.add(&basic.content, name, password, Instant::now());
        }
        Ok(Identity { scheme: Scheme::Basic, name: name.to_owned(), claims: None })
    }

    /// Verifies a token after a fetch of keys.
    pub(super) fn finish_token(
        &self,
        token: &str,
        wall_us: i64,
        client: Option<IpAddr>,
    ) -> Result<Identity, Denied> {
        let jwt = self.spec.jwt.as_ref().ok_or(Denied::NoKeys)?;
        self.verify(jwt, token, wall_us).inspect_err(|denied| self.note(denied, client, Instant::now()))
    }

    /// Counts wrong credentials that may be a guess.
    fn note(&self, denied: &Denied, client: Option<IpAddr>, now: Instant) {
        if let Some(failed) = self.failed.as_ref().filter(|_| denied.is_guess()) {
            // Without a try left, the client waits as before.
            let _ = failed.add(client, now);
        }
    }

    fn take_back(&self, client: Option<IpAddr>) {
        if let Some(failed) = &self.failed {
            failed.take_back(client);
        }
    }
}

fn remote_source(spec: &AuthSpec) -> Option<KeySource> {
    match &spec.jwt.as_ref()?.keys {
        JwtKeys::Backend { name, path } => Some(KeySource { backend: name.clone(), path: path.clone() }),
        JwtKeys::File(_) | JwtKeys::Secret { .. } => None,
    }
}

#[cfg(test)]
mod tests;

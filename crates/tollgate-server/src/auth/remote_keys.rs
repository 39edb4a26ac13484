//! Keys that an issuer publishes: a JWK Set from a backend.
//!
//! Any worker fetches the set, and all workers use it. The set is fetched again when its `max-age` is over,
//! and when a token has an unknown `kid`, but at most each [`PAUSE_OF_UNKNOWN`]. While the backend is away,
//! the last good set is used. A start never waits for the set: until the first set is there, tokens get 503.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tollgate_auth::KeySet;

/// Minimum time between two fetches that unknown keys cause.
const PAUSE_OF_UNKNOWN: Duration = Duration::from_secs(30);
/// Bounds on the age after which the set is fetched again.
const AGE_MIN: Duration = Duration::from_secs(60);
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Age of a set whose reply has no `max-age`.
const AGE_DEFAULT: Duration = Duration::from_secs(3600);
/// Pause after the first failure. Each further pause is twice as long, up to [`AGE_MIN`].
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Where a set of keys comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeySource {
    /// Name of the backend.
    pub(crate) backend: String,
    /// Path and query of the set.
    pub(crate) path: String,
}

/// A set of keys that a backend publishes.
#[derive(Debug)]
pub(crate) struct RemoteKeys {
    pub(crate) source: KeySource,
    state: Mutex<State>,
    /// Counts the fetches that have ended. Requests with an unknown key wait for the next one.
    fetches: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    keys: Option<Arc<KeySet>>,
    /// Time of the next fetch.
    due: Instant,
    is_fetching: bool,
    /// Time when the last fetch ended.
    ended: Option<Instant>,
    /// Reason and number of the failures since the last good set, and the time of the first.
    trouble: Option<Trouble>,
}

#[derive(Debug, Clone)]
struct Trouble {
    reason: String,
    count: u32,
    since: Instant,
}

/// A set that was fetched, and how long it is fresh.
pub(super) struct FetchedKeys {
    pub(super) keys: KeySet,
    pub(super) max_age: Option<Duration>,
}

/// A fetch that has begun. A fetch that is dropped counts as failed, so that another worker tries again.
pub(crate) struct KeyFetch(Option<Arc<RemoteKeys>>);

impl RemoteKeys {
    pub(crate) fn new(source: KeySource) -> Self {
        let state = State { keys: None, due: Instant::now(), is_fetching: false, ended: None, trouble: None };
        Self { source, state: Mutex::new(state), fetches: watch::Sender::new(0) }
    }

    /// Returns the last good set.
    pub(super) fn keys(&self) -> Option<Arc<KeySet>> {
        self.state().keys.clone()
    }

    /// Makes a fetch due at once, because a reload may have given the backend another address.
    pub(super) fn fetch_again(&self) {
        self.state().due = Instant::now();
    }

    /// Asks for a new set, because a token has an unknown key. Returns a channel that changes when the fetch
    /// has ended. Returns `None` if the last fetch ended a short time ago.
    pub(super) fn ask(&self, now: Instant) -> Option<watch::Receiver<u64>> {
        let mut state = self.state();
        let is_recent = state.ended.is_some_and(|ended| now < ended + PAUSE_OF_UNKNOWN);
        if !state.is_fetching && is_recent {
            return None;
        }
        state.due = state.due.min(now);
        Some(self.fetches.subscribe())
    }

    /// Begins a fetch if one is due and no other worker fetches.
    pub(crate) fn begin(self: &Arc<Self>, now: Instant) -> Option<KeyFetch> {
        let mut state = self.state();
        let is_due = !state.is_fetching && now >= state.due;
        state.is_fetching |= is_due;
        is_due.then(|| KeyFetch(Some(self.clone())))
    }

    /// Returns whether the set is there, and the reason and duration of the present failure.
    pub(crate) fn trouble(&self) -> (bool, Option<(String, Duration)>) {
        let state = self.state();
        let trouble = state.trouble.as_ref().map(|trouble| (trouble.reason.clone(), trouble.since.elapsed()));
        (state.keys.is_some(), trouble)
    }

    pub(super) fn end(&self, result: Result<FetchedKeys, String>, now: Instant) {
        let mut state = self.state();
        state.is_fetching = false;
        state.ended = Some(now);
        match result {
            Ok(FetchedKeys { keys, max_age }) => {
                state.keys = Some(Arc::new(keys));
                state.due = now + max_age.unwrap_or(AGE_DEFAULT).clamp(AGE_MIN, AGE_MAX);
                if state.trouble.take().is_some() {
                    let KeySource { backend, path } = &self.source;
                    tracing::info!(backend, path, "the keys of tokens are there again");
                }
            }
            Err(reason) => self.note_trouble(&mut state, reason, now),
        }
        drop(state);
        self.fetches.send_modify(|count| *count += 1);
    }

    fn note_trouble(&self, state: &mut State, reason: String, now: Instant) {
        let before = state.trouble.take();
        if before.is_none() {
            let (KeySource { backend, path }, has_keys) = (&self.source, state.keys.is_some());
            tracing::warn!(backend, path, has_keys, "cannot get the keys of tokens: {reason}");
        }
        let (count, since) = before.map_or((0, now), |before| (before.count, before.since));
        let pause = RETRY_PAUSE.saturating_mul(1 << count.min(10)).min(AGE_MIN);
        state.due = now + pause;
        state.trouble = Some(Trouble { reason, count: count + 1, since });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyFetch {
    pub(super) fn source(&self) -> Option<&KeySource> {
        self.0.as_ref().map(|keys| &keys.source)
    }

    pub(super) fn end(mut self, result: Result<FetchedKeys, String>) {
        if let Some(keys) = self.0.take() {
            keys.end(result, Instant::now());
        }
    }
}

impl Drop for KeyFetch {
    fn drop(&mut self) {
        if let Some(keys) = self.0.take() {
            keys.end(Err("the worker that fetched them stopped".to_owned()), Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JWKS: &str =
        r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    fn fetched(max_age: Option<u64>) -> Result<FetchedKeys, String> {
        let keys = KeySet::from_issuer(JWKS).unwrap();
        Ok(FetchedKeys { keys, max_age: max_age.map(Duration::from_secs) })
    }

    fn remote() -> (Arc<RemoteKeys>, Instant) {
        let source = KeySource { backend: "idp".to_owned(), path: "/keys".to_owned() };
        (Arc::new(RemoteKeys::new(source)), Instant::now())
    }

    /// Returns whether a fetch is due `seconds` after `now`. The fetch is left open by `forget`.
    fn is_due(keys: &Arc<RemoteKeys>, now: Instant, seconds: u64) -> bool {
        let fetch = keys.begin(now + Duration::from_secs(seconds));
        let is_due = fetch.is_some();
        if let Some(mut fetch) = fetch {
            fetch.0 = None;
            keys.state().is_fetching = false;
        }
        is_due
    }

    #[test]
    fn the_set_is_fetched_at_once_and_again_by_its_age() {
        for (max_age, before, after) in [(Some(600), 599, 600), (Some(1), 59, 60), (None, 3599, 3600)] {
            let (keys, now) = remote();
            let first = keys.begin(now);
            assert!(first.is_some() && keys.begin(now).is_none(), "one worker fetches at a time");
            first.unwrap().0 = None;
            keys.end(fetched(max_age), now);
            assert!(keys.keys().is_some());
            assert_eq!(
                [before, after].map(|seconds| is_due(&keys, now, seconds)),
                [false, true],
                "{max_age:?}"
            );
        }
    }

    #[test]
    fn a_failure_keeps_the_last_set_and_is_tried_again_soon() {
        let (keys, now) = remote();
        keys.end(Err("away".to_owned()), now);
        assert!(!keys.trouble().0);
        assert_eq!([0, 1].map(|seconds| is_due(&keys, now, seconds)), [false, true]);
        keys.end(fetched(None), now);
        assert_eq!(keys.trouble().1, None);
        for (failure, pause) in [1, 2, 4, 8, 16, 32, 60, 60].into_iter().enumerate() {
            keys.end(Err("away".to_owned()), now);
            let found = [pause - 1, pause].map(|seconds| is_due(&keys, now, seconds));
            assert_eq!(found, [false, true], "{failure}");
        }
        let (has_keys, trouble) = keys.trouble();
        assert!(has_keys && keys.keys().is_some());
        assert_eq!(trouble.unwrap().0, "away");
    }

    #[test]
    fn an_unknown_key_causes_a_fetch_at_most_each_thirty_seconds() {
        let (keys, now) = remote();
        keys.end(fetched(None), now);
        let after = |seconds| now + Duration::from_secs(seconds);
        assert!(keys.ask(after(29)).is_none() && !is_due(&keys, now, 29));
        let asked = keys.ask(after(30)).unwrap();
        assert!(is_due(&keys, now, 30));
        assert!(!asked.has_changed().unwrap());
        keys.end(fetched(None), after(30));
        assert!(asked.has_changed().unwrap());
        assert!(keys.ask(after(59)).is_none());
    }

    #[test]
    fn a_fetch_that_is_dropped_leaves_room_for_another() {
        let (keys, now) = remote();
        drop(keys.begin(now));
        assert!(is_due(&keys, Instant::now(), 1));
    }
}

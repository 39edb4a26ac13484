//! Fetches a set of keys over the connections of a worker.

use std::time::Duration;

use tollgate_auth::KeySet;
use tollgate_backend::{Client, Outgoing};
use tollgate_http::{Method, StatusCode};

use super::remote_keys::{FetchedKeys, KeyFetch, KeySource};

/// Maximum bytes of a set.
const SET_BYTES_MAX: usize = 1 << 20;
/// Maximum time of a fetch.
const TIMEOUT: Duration = Duration::from_secs(10);

impl KeyFetch {
    /// Fetches the set, and ends the fetch with the result.
    pub(crate) async fn run(self, client: &Client) {
        let Some(source) = self.source().cloned() else { return };
        let result = fetch(client, &source).await;
        self.end(result);
    }
}

async fn fetch(client: &Client, source: &KeySource) -> Result<FetchedKeys, String> {
    let KeySource { backend, path } = source;
    let upstream = client.named(backend).cloned().ok_or_else(|| format!("unknown backend {backend:?}"))?;
    let host = upstream.host().to_owned();
    let mut out = Outgoing::new(Method::Get, &host, |target| target.extend_from_slice(path.as_bytes()));
    out.push("Accept", b"application/jwk-set+json, application/json");
    let incoming =
        upstream.send(out.finish(None), Some(TIMEOUT)).await.map_err(|failure| failure.to_string())?;
    let (head, mut content) = (incoming.head, incoming.content);
    let text = content.gather(SET_BYTES_MAX, |_| true).await.map_err(|failure| failure.to_string())?;
    if head.code() != StatusCode::OK.as_u16() {
        return Err(format!("the backend replied {}", head.code()));
    }
    let text = std::str::from_utf8(&text).map_err(|_| "the reply is not UTF-8".to_owned())?;
    let keys = KeySet::from_issuer(text).map_err(|fault| format!("the reply cannot be used: {fault}"))?;
    let mut controls =
        head.forwarded_fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"cache-control"));
    Ok(FetchedKeys { keys, max_age: controls.find_map(|(_, value)| max_age(value)) })
}

/// Reads `max-age` (RFC 9111 section 5.2.2.1).
fn max_age(value: &[u8]) -> Option<Duration> {
    let value = std::str::from_utf8(value).ok()?;
    let seconds = value.split(',').find_map(|directive| {
        let (name, seconds) = directive.split_once('=')?;
        name.trim().eq_ignore_ascii_case("max-age").then(|| seconds.trim().trim_matches('"').parse().ok())?
    });
    seconds.map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_age_is_found_among_other_directives() {
        for (value, expected) in [
            ("max-age=300", Some(300)),
            ("public, Max-Age = 20 , must-revalidate", Some(20)),
            ("max-age=\"5\"", Some(5)),
            ("s-maxage=5", None),
            ("no-store", None),
            ("max-age=-1", None),
            ("max-age=99999999999999999999", None),
        ] {
            assert_eq!(max_age(value.as_bytes()), expected.map(Duration::from_secs), "{value}");
        }
    }
}

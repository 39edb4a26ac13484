//! Decides which content types the `collect` handler accepts.

use tollgate_http::{RequestHead, StatusCode};

use crate::options::{MediaRange, MediaTypes};
use crate::reply::Reply;

/// Maximum bytes of a collected body after decoding. A worker parses a body in one turn, so it holds only one
/// such body in memory. A longer body would rarely fit into a transaction.
pub const BODY_BYTES_MAX: u64 = 16 << 20;

/// The most common types of [`MediaRange::Default`], for the field `Accept` of a refusal.
const DEFAULT_ACCEPTED: &str = "application/json, application/x-ndjson, text/plain";

/// Returns the refusal of a content type that is not accepted (RFC 9110 section 15.5.16).
pub(super) fn refusal(accepted: &MediaTypes, head: &RequestHead) -> Option<Reply> {
    let mut types = head.values_of("content-type");
    // If the request has several such fields, two readers may use different fields, so each field has to be
    // accepted.
    let first = types.next().unwrap_or_default();
    if accepted.accept(first) && types.all(|value| accepted.accept(value)) {
        return None;
    }
    let listed: Vec<_> = accepted.ranges().iter().filter_map(shown).collect();
    let listed = listed.join(", ");
    let text = format!("content type is not supported: allowed are {listed}");
    Some(Reply::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).with("Accept", listed))
}

/// Returns an entry in the form of a field `Accept`.
fn shown(range: &MediaRange) -> Option<String> {
    match range {
        MediaRange::Default => Some(DEFAULT_ACCEPTED.to_owned()),
        MediaRange::None => None,
        range => Some(range.to_string()),
    }
}

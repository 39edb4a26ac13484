//! Decides which content types the `collect` handler accepts.

use tollgate_http::{RequestHead, StatusCode};

use crate::reply::Reply;

/// Maximum bytes of a collected body after decoding. A worker parses a body in one turn, so it holds only one
/// such body in memory. A longer body would rarely fit into a transaction.
pub const BODY_BYTES_MAX: u64 = 16 << 20;

/// Value of `Accept` in a refusal.
const ACCEPTED: &str = "application/json, application/x-ndjson, text/plain";

/// Returns the refusal of a content type that is not accepted.
///
/// Beacons of browsers send `text/plain` or no type. Tools without a configured type send the type of a form.
/// All of these are accepted, because the content itself decides.
pub(super) fn refusal(head: &RequestHead) -> Option<Reply> {
    let mut types = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    // If the request has several such fields, two readers may use different fields, so each field has to be
    // accepted.
    if types.all(|(_, value)| is_taken(value)) {
        return None;
    }
    let text = format!("content type is not supported: allowed are {ACCEPTED}");
    Some(Reply::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).with("Accept", ACCEPTED))
}

fn is_taken(content_type: &[u8]) -> bool {
    let media_type = content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    match media_type.to_ascii_lowercase().as_slice() {
        b"" | b"text/plain" | b"application/x-www-form-urlencoded" => true,
        b"application/json" | b"application/x-ndjson" | b"application/ndjson" | b"application/jsonl" => true,
        other => other.starts_with(b"application/") && other.ends_with(b"+json"),
    }
}

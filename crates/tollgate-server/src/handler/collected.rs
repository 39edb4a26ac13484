//! Decides which contents the `collect` handler accepts.

use tollgate_http::{RequestHead, StatusCode};

use crate::reply::Reply;

/// Largest collected body after decoding. A worker parses the body at once, so it holds one such body in
/// memory at a time. More text would rarely fit into a transaction.
pub const BODY_BYTES_MAX: u64 = 16 << 20;

/// Value of `Accept` in a refusal.
const ACCEPTED: &str = "application/json, application/x-ndjson, text/plain";

/// Returns the refusal of a content type that is not accepted.
///
/// Beacons send `text/plain` or no type. Tools without a configured type send the type of a form. Both are
/// accepted, because the content itself decides.
pub(super) fn refusal(head: &RequestHead) -> Option<Reply> {
    let mut types = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    // If there are several fields, readers pick different ones, so all of them have to be accepted.
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

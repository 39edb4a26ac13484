//! Which contents `collect` takes.

use tollgate_http::{RequestHead, StatusCode};

use crate::reply::Reply;

/// Bytes of a collected body at most, decoded. It is parsed at one stroke, so a worker has one of them in
/// memory at a time; more text than that seldom has room in a transaction.
pub const BODY_BYTES_MAX: u64 = 16 << 20;

/// What `Accept` says is taken.
const ACCEPTED: &str = "application/json, application/x-ndjson, text/plain";

/// Why content of that type is not taken, if it is not.
///
/// Beacons say `text/plain`, or nothing. Tools that were not told a type say that it is a form; what it is is
/// seen when it is read.
pub(super) fn refusal(head: &RequestHead) -> Option<Reply> {
    let mut types = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    // Of several each reader picks another: all have to do.
    if types.all(|(_, value)| is_taken(value)) {
        return None;
    }
    let text = format!("the content type is none of: {ACCEPTED}");
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

//! Detects loops by the `Via` field, which shows the number of times that a request passed a Tollgate server
//! (RFC 9110 section 7.6.3).
//!
//! If the address of a backend leads back to this server, a request would loop until all descriptors are
//! used.

use tollgate_http::{RequestHead, StatusCode};

use crate::reply::Reply;

/// Name of Tollgate in `Via`.
const PSEUDONYM: &[u8] = b"tollgate";
/// Maximum number of servers of this name that a request may pass. Each server adds itself once, and no usual
/// setup has that many servers in a row.
const ROUNDS_MAX: usize = 8;

/// Returns whether a request is in a loop.
pub(super) fn are_too_many(head: &RequestHead) -> bool {
    let lines = head.raw_fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"via"));
    lines.flat_map(|(_, value)| value.split(|&byte| byte == b',')).filter(|member| is_own(member)).count()
        >= ROUNDS_MAX
}

/// Returns the reply to a request in a loop (RFC 5842 section 7.2).
pub(super) fn reply() -> Reply {
    Reply::text(StatusCode::LOOP_DETECTED, "a backend sends the request back to this server in a loop")
}

/// Parses `received-protocol RWS received-by [ RWS comment ]`. A comma in a comment splits the member in two.
/// The second part can contain the name only if a client writes it on purpose. Such a comment affects only
/// the request of that client.
fn is_own(member: &[u8]) -> bool {
    let mut words = member.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    words.nth(1).is_some_and(|received_by| received_by.eq_ignore_ascii_case(PSEUDONYM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_via_is_ours_by_its_second_word() {
        let check = |member: &str, expect| assert_eq!(is_own(member.as_bytes()), expect, "{member:?}");
        for own in ["1.1 tollgate", " 1.0\ttollgate", "HTTP/1.1  Tollgate (a comment)"] {
            check(own, true);
        }
        for other in ["", " ", "tollgate", "1.1 tollgate2", "1.1 other tollgate", "1.1 other (tollgate)"] {
            check(other, false);
        }
    }
}

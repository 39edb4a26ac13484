//! How often a request went through here before: Via says it, so a loop is seen (RFC 9110 section 7.6.3). A
//! backend that is our own listener, or leads back to it, would have a request go round until all descriptors
//! are taken.

use tollgate_http::{RequestHead, StatusCode};

use crate::reply::Reply;

/// What Tollgate calls itself in Via.
const PSEUDONYM: &[u8] = b"tollgate";
/// Servers of one name that may be on one way: each adds itself once, and nobody has so many behind each
/// other.
const ROUNDS_MAX: usize = 8;

/// Whether a request is in a loop.
pub(super) fn are_too_many(head: &RequestHead) -> bool {
    let lines = head.raw_fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"via"));
    lines.flat_map(|(_, value)| value.split(|&byte| byte == b',')).filter(|member| is_own(member)).count()
        >= ROUNDS_MAX
}

/// The reply to one that is (RFC 5842 section 7.2).
pub(super) fn reply() -> Reply {
    Reply::text(StatusCode::LOOP_DETECTED, "the request goes round in a loop")
}

/// `received-protocol RWS received-by [ RWS comment ]`. A comma within a comment cuts it: what is behind is
/// no member of ours but by intent, and that harms nobody else.
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

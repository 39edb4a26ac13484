//! Limits the number of further forwards of a request by `Max-Forwards` (RFC 9110 section 7.6.2). The field
//! counts only for OPTIONS and TRACE, and the server does not support TRACE.

use tollgate_backend::Outgoing;
use tollgate_http::{Method, RequestHead};

pub(super) const MAX_FORWARDS: &str = "Max-Forwards";

pub(super) fn are_counted(method: Method) -> bool {
    method == Method::Options
}

/// Returns whether a request may not be forwarded any more, so that this server has to answer it.
pub(super) fn are_used_up(head: &RequestHead) -> bool {
    are_counted(head.method()) && least(head) == Some(0)
}

/// Returns the smallest number in the fields. Values that are not numbers are ignored.
pub(super) fn least(head: &RequestHead) -> Option<u64> {
    let lines = head.raw_fields().filter(|(name, _)| name.eq_ignore_ascii_case(MAX_FORWARDS.as_bytes()));
    lines.filter_map(|(_, value)| read(value)).min()
}

/// Writes the field for the next hop.
pub(super) fn write_next(out: &mut Outgoing, hops: u64) {
    out.push_sound(MAX_FORWARDS, hops.saturating_sub(1).to_string().as_bytes());
}

/// Parses a number. A number that is too large becomes `u64::MAX`.
fn read(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(value).ok()?.parse().ok()).map(|hops| hops.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_however_long_and_nothing_else() {
        let check = |value: &str, expect| assert_eq!(read(value.as_bytes()), expect, "{value}");
        check("0", Some(0));
        check("007", Some(7));
        check("99999999999999999999", Some(u64::MAX));
        for value in ["", "-1", "+1", "1, 2", "0x1", "1.0", "x"] {
            check(value, None);
        }
    }
}

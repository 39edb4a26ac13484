//! Parts of the Common Log Format of Apache and nginx, which `tollgate log cat` and the access log share.

use tollgate_value::{CivilTime, civil_time};

use crate::print::push_formatted;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Appends a time in microseconds since 1970, in UTC. A time out of range is `-`.
pub(crate) fn push_time(out: &mut String, time_us: i64) {
    match civil_time(time_us) {
        Some(CivilTime { year, month, day, hour, minute, second, .. }) => {
            let month = MONTHS[month as usize - 1];
            push_formatted(
                out,
                format_args!("{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000"),
            );
        }
        None => out.push('-'),
    }
}

/// Appends a byte of a text. A byte that could end the field or control a terminal becomes `\xHH`, as in both
/// servers.
pub(crate) fn push_byte(out: &mut String, byte: u8) {
    match byte {
        b'"' | b'\\' | 0..b' ' | 0x7f.. => push_escape(out, byte),
        byte => out.push(char::from(byte)),
    }
}

/// Appends a byte as `\xHH`.
pub(crate) fn push_escape(out: &mut String, byte: u8) {
    push_formatted(out, format_args!("\\x{byte:02X}"));
}

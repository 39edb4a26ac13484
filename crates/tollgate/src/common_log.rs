//! Parts of the Common Log Format of Apache and nginx, which `tollgate log cat` and the access log share.

use tollgate_value::{CivilTime, civil_time};

use crate::print::push_formatted;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Appends a time in microseconds since 1970, in UTC. A time out of range is `-`.
pub(crate) fn push_time(out: &mut String, time_us: i64) {
    match civil_time(time_us) {
        Some(CivilTime { year, month, day, hour, minute, second, .. }) => {
            push_padded(out, day.unsigned_abs(), 2);
            out.push('/');
            out.push_str(MONTHS[month as usize - 1]);
            for (separator, number, width) in
                [('/', year, 4), (':', hour, 2), (':', minute, 2), (':', second, 2)]
            {
                out.push(separator);
                push_padded(out, number.unsigned_abs(), width);
            }
            out.push_str(" +0000");
        }
        None => out.push('-'),
    }
}

/// Appends a number with zeros before it. `fmt` needs ten times the instructions for a number, and each line
/// of an access log has several.
pub(crate) fn push_padded(out: &mut String, mut number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    while number > 0 || digits.len() - start < width.clamp(1, 20) {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend(digits[start..].iter().map(|&digit| char::from(digit)));
}

/// Returns whether a byte stands for itself in a text.
pub(crate) const fn is_plain(byte: u8) -> bool {
    !matches!(byte, b'"' | b'\\' | 0..b' ' | 0x7f..)
}

/// Appends a byte of a text. A byte that could end the field or control a terminal becomes `\xHH`, as in both
/// servers.
pub(crate) fn push_byte(out: &mut String, byte: u8) {
    if is_plain(byte) { out.push(char::from(byte)) } else { push_escape(out, byte) }
}

/// Appends a byte as `\xHH`.
pub(crate) fn push_escape(out: &mut String, byte: u8) {
    push_formatted(out, format_args!("\\x{byte:02X}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_width_at_least() {
        let padded = |number, width| {
            let mut out = String::new();
            push_padded(&mut out, number, width);
            out
        };
        assert_eq!([padded(0, 0), padded(0, 2), padded(7, 2), padded(123, 2)], ["0", "00", "07", "123"]);
        assert_eq!([padded(u64::MAX, 1), padded(5, 99)], ["18446744073709551615", "00000000000000000005"]);
    }

    #[test]
    fn a_time_is_that_of_apache() {
        let shown = |time_us| {
            let mut out = String::new();
            push_time(&mut out, time_us);
            out
        };
        assert_eq!(shown(0), "01/Jan/1970:00:00:00 +0000");
        assert_eq!(shown(1_764_360_009_999_999), "28/Nov/2025:20:00:09 +0000");
        assert_eq!(shown(i64::MAX), "-");
    }
}

//! The form of figures and texts on the screen.

use serde_json::Value;

use crate::print::printable;
use crate::progress::size;

pub(super) fn quantiles(latency: &Value) -> String {
    let quantile = |name: &str| latency[name].as_f64().map_or_else(|| "-".to_owned(), duration);
    format!("p50 {}   p99 {}", quantile("p50_seconds"), quantile("p99_seconds"))
}

pub(super) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// Formats a count in groups of three digits. A small count with a fraction has one digit after the point.
pub(super) fn count(value: &Value) -> String {
    let value = number(value);
    if value < 10.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(' ');
        }
        shown.push(digit);
    }
    shown
}

pub(super) fn bytes(value: &Value) -> String {
    size(number(value) as u64)
}

/// Formats a duration with the unit that fits it.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds == 0.0 => "0 s".to_owned(),
        _ if seconds < 1e-3 => format!("{:.0} us", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        _ if seconds < 120.0 => format!("{seconds:.1} s"),
        _ if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} d", seconds / 86_400.0),
    }
}

/// Returns a value without quotes and without control characters of a terminal.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => printable(text),
        other => printable(&other.to_string()),
    }
}

//! `concurrency_max` and `rate_limit` of a route: how many of its requests are admitted.

use std::ops::RangeInclusive;
use std::time::Duration;

use tollgate_server::{RateKey, RateSpec, Source};

use super::key::{Facts, inline, keys};
use super::quoted::quoted;
use super::section::{Section, Written};
use super::stream::check_source;

const ALLOWED: &str = "a table { rate = \"100/s\", ... }, or a list of such tables";
/// Allowed values of `concurrency_max`. They are far below the range of the 32-bit counter, which exceeds the
/// bound for a moment while a request is refused.
pub(super) const CONCURRENCY: RangeInclusive<u64> = 1..=1 << 24;
const COUNT_MAX: u32 = 1_000_000;
const PERIODS: [(&str, Duration); 3] =
    [("s", Duration::from_secs(1)), ("m", Duration::from_secs(60)), ("h", Duration::from_secs(3600))];
/// The values of `by`. A client is named by `request.remote_addr`, like the source of a column. `route`
/// counts all requests of the route together.
const CLIENT: &str = "request.remote_addr";
const ROUTE: &str = "route";
const BY_ALLOWED: &str = "`request.remote_addr`, `request.auth.name`, `request.header.NAME`, `request.cookie.NAME`, \
                          `request.query.NAME`, `route`";
const BY_NAMES: &str = "request.remote_addr, request.auth.name, request.header.NAME, request.cookie.NAME, \
                        request.query.NAME, route";

keys! {
    /// A table of `rate_limit`.
    pub(super) KEYS of RateSpec;
    /// How many requests are allowed in a second, a minute or an hour.
    rate [RATE] = other("needed", r#"`"100/s"`, `"10/m"`, `"5/h"`; 1 to 1000000"#);
    /// How many requests are allowed at once, after a time without requests.
    burst = integer(0, 1..=COUNT_MAX as u64).inherits("the count of `rate`") => burst;
    /// The value that requests are counted by. `route`: all requests together.
    by [BY] = text(CLIENT, BY_ALLOWED);
    /// How many of these values are remembered, rounded up to a power of two. Each needs 16 bytes.
    keys_max = integer(65_536, 64..=1 << 24) => keys_max;
}

/// Takes the rules of a route.
pub(super) fn rates(section: &mut Section<'_>, key: &Facts) -> Vec<RateSpec> {
    let near = section.as_written(key.name).map(|text| (text.to_owned(), nearest_rate(text)));
    if let Some((text, Some((count, period)))) = near {
        let write = format!("write {} = {{ rate = \"{}\" }}", key.name, show_count(count, period));
        section.fault_of(
            key.name,
            format!("{} in {} is {text:?}, allowed is a table: {write}", key.name, section.name()),
        );
        section.skip(key.name);
        return Vec::new();
    }
    let rates = section.table_or_tables(key.name, ALLOWED);
    rates.into_iter().filter_map(rate).collect()
}

fn rate(mut section: Section<'_>) -> Option<RateSpec> {
    let written = section.needed_text(RATE.name);
    let rate = written.and_then(|written| {
        let found = parse_rate(&written.value);
        if found.is_none() {
            let allowed = "1 to 1000000 in a second, a minute or an hour, like \"100/s\", \"10/m\", \"5/h\"";
            section.fault_at(&written.span, format!("rate is {:?}, allowed is {allowed}", written.value));
        }
        found
    });
    let by = section.text(BY.name).map_or(Some(RateKey::Client), |by| rate_key(&section, &by));
    let (count, period) = rate.unwrap_or_default();
    let mut spec = RateSpec { count, period, burst: count, by: RateKey::Client, keys_max: 0 };
    section.read(KEYS, &mut spec);
    section.finish();
    rate?;
    Some(RateSpec { by: by?, ..spec })
}

/// Reads `100/s`.
pub(super) fn parse_rate(text: &str) -> Option<(u32, Duration)> {
    let (count, unit) = text.split_once('/')?;
    let (_, period) = PERIODS.into_iter().find(|(name, _)| *name == unit)?;
    let is_number = count.bytes().all(|byte| byte.is_ascii_digit());
    let count = count.parse().ok().filter(|count| is_number && (1..=COUNT_MAX).contains(count))?;
    Some((count, period))
}

/// Reads a rate as other servers write it: `100r/s`, `100/sec`, `100/minute`.
fn nearest_rate(text: &str) -> Option<(u32, Duration)> {
    let (count, unit) = text.split_once('/')?;
    let count = count.trim().trim_end_matches('r');
    parse_rate(&format!("{count}/{}", unit.trim().get(..1)?))
}

fn rate_key(section: &Section<'_>, by: &Written<String>) -> Option<RateKey> {
    let key = match (by.value.as_str(), Source::from_name(&by.value)) {
        (ROUTE, _) => Some(RateKey::Route),
        (_, Some(Source::RequestRemoteAddr)) => Some(RateKey::Client),
        (
            _,
            Some(
                source @ (Source::RequestHeader(_)
                | Source::RequestCookie(_)
                | Source::RequestQueryItem(_)
                | Source::RequestAuthName),
            ),
        ) => Some(RateKey::Named(source)),
        _ => None,
    };
    if key.is_none() {
        section.fault_at(&by.span, format!("by is {:?}, allowed is one of: {BY_NAMES}", by.value));
    }
    if let Some(RateKey::Named(source)) = &key {
        check_source(section, source, "by", &by.span);
    }
    key
}

/// Shows the rules as the file writes them, with every key.
pub(super) fn show(rates: &[RateSpec]) -> String {
    let rates: Vec<_> = rates.iter().map(show_rate).collect();
    format!("[{}]", rates.join(", "))
}

fn show_rate(rate: &RateSpec) -> String {
    let RateSpec { count, period, by, .. } = rate;
    let by = match by {
        RateKey::Route => ROUTE.to_owned(),
        RateKey::Client => CLIENT.to_owned(),
        RateKey::Named(source) => source.name(),
    };
    inline(
        KEYS,
        rate,
        &[(RATE.name, Some(quoted(&show_count(*count, *period)))), (BY.name, Some(quoted(&by)))],
    )
}

/// Shows a count in a period, as [`parse_rate`] reads it.
pub(super) fn show_count(count: u32, period: Duration) -> String {
    let unit = PERIODS.iter().find(|(_, known)| *known == period).map_or("", |(name, _)| name);
    format!("{count}/{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_counts_in_a_second_a_minute_or_an_hour() {
        let seconds = |count, seconds| Some((count, Duration::from_secs(seconds)));
        for (text, expected) in [
            ("100/s", seconds(100, 1)),
            ("1/m", seconds(1, 60)),
            ("1000000/h", seconds(1_000_000, 3600)),
            ("0/s", None),
            ("1000001/s", None),
            ("100", None),
            ("100/d", None),
            ("/s", None),
            ("+1/s", None),
            ("1.5/s", None),
            ("100 / s", None),
        ] {
            assert_eq!(parse_rate(text), expected, "{text}");
        }
    }
}

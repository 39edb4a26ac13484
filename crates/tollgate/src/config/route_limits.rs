//! `concurrency_max` and `rate_limit` of a route: how many of its requests are taken on.

use std::time::Duration;

use tollgate_server::{RateKey, RateSpec, RouteLimits, Source};

use super::defaults::OFF;
use super::quoted::quoted;
use super::section::{Section, Written};
use super::stream::check_source;

const ALLOWED: &str = "a table { rate = \"100/s\", ... }, or a list of such";
/// One bit less than a count of 32 bits, so that it can be one too many for a moment.
const CONCURRENCY_MAX: u64 = 1 << 24;
const COUNT_MAX: u32 = 1_000_000;
const KEYS_MAX: u64 = 1 << 24;
const PERIODS: [(&str, Duration); 3] =
    [("s", Duration::from_secs(1)), ("m", Duration::from_secs(60)), ("h", Duration::from_secs(3600))];
/// As columns name what they are filled from; and all of the route together.
const CLIENT: &str = "request.remote_addr";
const ROUTE: &str = "route";
const BY: &str = "request.remote_addr, request.header.NAME, request.cookie.NAME, request.query.NAME, route";

/// Takes the bounds of a route.
pub(super) fn route_limits(section: &mut Section<'_>) -> RouteLimits {
    let concurrency_max = section.integer_or("concurrency_max", 1..=CONCURRENCY_MAX, OFF);
    let rates = section.table_or_tables("rate_limit", ALLOWED);
    RouteLimits {
        concurrency_max: concurrency_max.and_then(|max| max.try_into().ok()),
        rates: rates.into_iter().filter_map(rate).collect(),
    }
}

fn rate(mut section: Section<'_>) -> Option<RateSpec> {
    let written = section.needed_text("rate");
    let rate = written.and_then(|written| {
        let found = parse_rate(&written.value);
        if found.is_none() {
            let allowed = "1 to 1000000 in a second, a minute or an hour, like \"100/s\", \"10/m\", \"5/h\"";
            section.fault_at(&written.span, format!("rate is {:?}, allowed is {allowed}", written.value));
        }
        found
    });
    let burst = section.integer_or("burst", 1..=COUNT_MAX.into(), "").and_then(|burst| burst.try_into().ok());
    let by = section.text("by").map_or(Some(RateKey::Client), |by| rate_key(&section, &by));
    let keys_max = section.integer("keys_max", 64..=KEYS_MAX, RateSpec::KEYS_MAX);
    section.finish();
    let (count, period) = rate?;
    Some(RateSpec { count, period, burst: burst.unwrap_or(count), by: by?, keys_max })
}

/// Reads `100/s`.
fn parse_rate(text: &str) -> Option<(u32, Duration)> {
    let (count, unit) = text.split_once('/')?;
    let (_, period) = PERIODS.into_iter().find(|(name, _)| *name == unit)?;
    let is_number = count.bytes().all(|byte| byte.is_ascii_digit());
    let count = count.parse().ok().filter(|count| is_number && (1..=COUNT_MAX).contains(count))?;
    Some((count, period))
}

fn rate_key(section: &Section<'_>, by: &Written<String>) -> Option<RateKey> {
    let key = match (by.value.as_str(), Source::from_name(&by.value)) {
        (ROUTE, _) => Some(RateKey::Route),
        (_, Some(Source::RequestRemoteAddr)) => Some(RateKey::Client),
        (
            _,
            Some(
                source @ (Source::RequestHeader(_) | Source::RequestCookie(_) | Source::RequestQueryItem(_)),
            ),
        ) => Some(RateKey::Named(source)),
        _ => None,
    };
    if key.is_none() {
        section.fault_at(&by.span, format!("by is {:?}, allowed is one of: {BY}", by.value));
    }
    if let Some(RateKey::Named(source)) = &key {
        check_source(section, source, "by", &by.span);
    }
    key
}

/// The rules as the file has them, every key.
pub(super) fn show(rates: &[RateSpec]) -> String {
    let rates: Vec<_> = rates.iter().map(show_rate).collect();
    format!("[{}]", rates.join(", "))
}

fn show_rate(rate: &RateSpec) -> String {
    let RateSpec { count, period, burst, by, keys_max } = rate;
    let unit = PERIODS.iter().find(|(_, known)| known == period).map_or("", |(name, _)| name);
    let by = match by {
        RateKey::Route => ROUTE.to_owned(),
        RateKey::Client => CLIENT.to_owned(),
        RateKey::Named(source) => source.name(),
    };
    let by = quoted(&by);
    format!("{{ rate = \"{count}/{unit}\", burst = {burst}, by = {by}, keys_max = {keys_max} }}")
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

//! `cors` of a route: which pages of other origins may use it. The value is `"*"` or a table. The printed
//! table reads back to the same value.

use std::time::Duration;

use tollgate_server::{AnyOr, CorsSpec, Origins, split_pattern};

use super::key::{Facts, inline, keys, set_defaults};
use super::methods::{methods, show_methods};
use super::section::{Section, TextOrTable, Written};
use super::units::{HOUR_MS, MINUTE_MS, show_duration};

const ALLOWED: &str = "\"*\" or a table { origins = [...], ... }";

/// The value of `origins` that allows any page with credentials.
const ANY_WITH_CREDENTIALS: &str = "any-with-credentials";
/// Header fields that pages need for beacons of JSON.
const BEACON_HEADERS: &[&str] = &["Content-Type"];
const HEADERS_DEFAULT: &str =
    r#"`["*"]`; with `credentials`: none; with `"any-with-credentials"`: `["Content-Type"]`"#;

keys! {
    pub(super) KEYS of CorsSpec;
    /// Origins as browsers write them, or patterns such as `"https://*.shop.example"`.
    origins [ORIGINS] = other("needed", r#"a list, `["*"]`, or `"any-with-credentials"`"#);
    /// The methods that pages may send.
    methods [METHODS] = other("the methods of the route", "a list of methods");
    /// Header fields that pages may send, in addition to those that CORS always allows.
    headers [HEADERS] = other(HEADERS_DEFAULT, r#"a list, or `["*"]`"#);
    /// Header fields of a reply that pages may read.
    expose [EXPOSE] = other("`[]`", r#"a list, or `["*"]`"#);
    /// Whether pages may send cookies and other credentials.
    credentials [CREDENTIALS] = switch(false) => credentials;
    /// How long a browser remembers the answer to a preflight, in whole seconds.
    max_age [MAX_AGE] = duration(10 * MINUTE_MS, 0..=24 * HOUR_MS) => max_age;
}

/// Takes the policy of a route, if `cors` is set.
pub(super) fn cors(section: &mut Section<'_>, key: &Facts) -> Option<CorsSpec> {
    match section.text_or_table(key.name, ALLOWED)? {
        TextOrTable::Text(text) => {
            if text.value != "*" {
                let found = &text.value;
                section.fault_at(
                    &text.span,
                    format!("cors in [[route]] is the string {found:?}, allowed is {ALLOWED}"),
                );
            }
            Some(everybody())
        }
        TextOrTable::Table(table) => Some(policy(table)),
    }
}

/// Returns the policy that allows any page, without cookies.
fn everybody() -> CorsSpec {
    let mut policy = CorsSpec {
        origins: Origins::Any,
        methods: None,
        headers: AnyOr::Any,
        expose: AnyOr::Listed(Vec::new()),
        credentials: false,
        max_age: Duration::ZERO,
    };
    set_defaults(KEYS, &mut policy);
    policy
}

fn policy(mut section: Section<'_>) -> CorsSpec {
    if !section.has(ORIGINS.name) {
        section.fault("missing key \"origins\" in cors");
    }
    let mut policy = everybody();
    section.read(KEYS, &mut policy);
    check_max_age(&section, policy.max_age);
    if let Some(origins) = origins(&mut section, policy.credentials) {
        policy.origins = origins;
    }
    let is_any = policy.origins == Origins::AnyWithCredentials;
    if is_any {
        check_any_with_credentials(&section, policy.credentials);
        policy.credentials = true;
    }
    if policy.credentials {
        let names = if is_any { BEACON_HEADERS } else { &[] };
        policy.headers = AnyOr::Listed(names.iter().map(|&name| name.to_owned()).collect());
    }
    policy.methods = methods(&mut section, METHODS.name, "methods in cors");
    for (key, listed) in [(&HEADERS, &mut policy.headers), (&EXPOSE, &mut policy.expose)] {
        if let Some(found) = list(&mut section, key.name, policy.credentials, header_problem) {
            *listed = found;
        }
    }
    if is_any && policy.expose != AnyOr::Listed(Vec::new()) {
        section.fault_of(
            EXPOSE.name,
            "expose in cors is not allowed with origins = \"any-with-credentials\": any page could read the field",
        );
    }
    section.finish();
    policy
}

/// Takes the origins: a list, `"*"` alone, or the word for any page with credentials.
fn origins(section: &mut Section<'_>, credentials: bool) -> Option<Origins> {
    if section.as_written(ORIGINS.name) == Some(ANY_WITH_CREDENTIALS) {
        section.text(ORIGINS.name);
        return Some(Origins::AnyWithCredentials);
    }
    let origins = list(section, ORIGINS.name, credentials, origin_problem)?;
    Some(match origins {
        AnyOr::Any => Origins::Any,
        AnyOr::Listed(origins) => Origins::Listed(origins),
    })
}

fn check_any_with_credentials(section: &Section<'_>, credentials: bool) {
    if section.has(CREDENTIALS.name) && !credentials {
        section.fault_of(
            CREDENTIALS.name,
            "credentials in cors is false, allowed with origins = \"any-with-credentials\" is true: remove the key",
        );
    }
}

/// Takes a list of names, or `"*"` alone.
fn list(
    section: &mut Section<'_>,
    key: &'static str,
    credentials: bool,
    problem: fn(&str) -> Option<&'static str>,
) -> Option<AnyOr<String>> {
    let texts = section.texts(key)?;
    if key == ORIGINS.name && texts.is_empty() {
        section.fault_of(key, "origins in cors is empty, allowed is a list of origins, or [\"*\"]");
    }
    if let [Written { value, span }] = texts.as_slice()
        && value == "*"
    {
        if credentials {
            let text = format!(
                "{key} in cors is \"*\", allowed with credentials is a list of names: browsers refuse \"*\" \
                 there"
            );
            section.fault_at(span, text);
        }
        return Some(AnyOr::Any);
    }
    for text in &texts {
        if let Some(problem) = problem(&text.value) {
            section.fault_at(&text.span, format!("{key} in cors has {:?}, {problem}", text.value));
        }
    }
    Some(AnyOr::Listed(texts.into_iter().map(|text| text.value).collect()))
}

/// Checks an origin or a pattern. Browsers write each origin in only one way, so origins are compared byte by
/// byte (RFC 6454 section 6.2).
fn origin_problem(origin: &str) -> Option<&'static str> {
    if origin == "null" {
        return Some("which is the origin of every sandboxed page and every local file: allow \"*\" instead");
    }
    match split_pattern(origin) {
        None => exact_origin_problem(origin),
        Some((scheme, end)) => {
            let host = end.strip_prefix('.').unwrap_or(end);
            exact_origin_problem(&format!("{scheme}{host}")).or_else(|| end_problem(host))
        }
    }
}

/// Checks the host after `*.` of a pattern.
fn end_problem(host: &str) -> Option<&'static str> {
    let (name, _) = split_port(host);
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_address = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    if is_address || name.starts_with('[') {
        return Some("allowed after *. is a name: an address has no labels");
    }
    let has_empty_label = name.split('.').any(str::is_empty);
    let is_wide = has_empty_label || !name.contains('.') && name != "localhost";
    is_wide.then_some("allowed after *. are two labels or more: pages of anybody have a name below one label")
}

fn exact_origin_problem(origin: &str) -> Option<&'static str> {
    let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    let is_sound = host.is_some_and(|host| {
        let (name, port) = split_port(host);
        let is_port =
            port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
        super::route::is_host(name) && is_port
    });
    if !is_sound {
        return Some("allowed is scheme, host and port as browsers write them: \"https://app.example.org\"");
    }
    if origin.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Some("allowed are lower-case letters: browsers write origins in lower case");
    }
    let is_default_port = (origin.starts_with("https://") && origin.ends_with(":443"))
        || (origin.starts_with("http://") && origin.ends_with(":80"));
    is_default_port.then_some("allowed is an origin without its default port: browsers omit default ports")
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    }
}

/// Checks the name of a field (RFC 9110 section 5.1).
pub(super) fn header_problem(name: &str) -> Option<&'static str> {
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&byte));
    (!is_name).then_some("allowed is the name of a header, or \"*\" alone")
}

/// Returns whether a field of a reply reports the outcome of a record. Only the server writes such fields.
pub(super) fn is_own_field(name: &str) -> bool {
    name.get(..9).is_some_and(|front| front.eq_ignore_ascii_case("tollgate-"))
}

fn check_max_age(section: &Section<'_>, found: Duration) {
    if found.subsec_nanos() != 0 {
        let text = format!("max_age in cors is \"{}\", allowed are whole seconds", show_duration(found));
        section.fault_of(MAX_AGE.name, text);
    }
}

/// Shows a policy as the file writes it, with every key.
pub(super) fn show(cors: &CorsSpec) -> String {
    let own = [
        (ORIGINS.name, Some(show_origins(&cors.origins))),
        (METHODS.name, cors.methods.map(show_methods)),
        (HEADERS.name, Some(show_list(&cors.headers))),
        (EXPOSE.name, Some(show_list(&cors.expose))),
    ];
    inline(KEYS, cors, &own)
}

fn show_origins(origins: &Origins) -> String {
    match origins {
        Origins::Any => show_list(&AnyOr::Any),
        Origins::AnyWithCredentials => format!("\"{ANY_WITH_CREDENTIALS}\""),
        Origins::Listed(origins) => show_list(&AnyOr::Listed(origins.clone())),
    }
}

/// Shows a list of names. The names in it need no escapes.
pub(super) fn show_list(list: &AnyOr<String>) -> String {
    match list {
        AnyOr::Any => "[\"*\"]".to_owned(),
        AnyOr::Listed(names) => {
            let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
            format!("[{}]", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_write_them() {
        for origin in ["https://a.example", "http://localhost:3000", "https://[::1]:8443", "http://[::1]"] {
            assert_eq!(origin_problem(origin), None, "{origin}");
        }
        let check = |origin, expected: &str| {
            let problem = origin_problem(origin).unwrap();
            assert!(problem.contains(expected), "{origin}: {problem}");
        };
        check("null", "sandboxed");
        check("a.example", "scheme, host and port");
        check("https://a.example/", "scheme, host and port");
        check("https://", "scheme, host and port");
        check("https://a.example:", "scheme, host and port");
        for pattern in ["https://*.shop.example", "http://*.localhost:3000", "https://*.a.b.example:8443"] {
            assert_eq!(origin_problem(pattern), None, "{pattern}");
        }
        for pattern in
            ["https://*", "https://a.*.example", "https://*a.example", "https://*.*.example", "*.a.example"]
        {
            check(pattern, "scheme, host and port");
        }
        check("https://*.", "scheme, host and port");
        check("https://*..shop.example", "two labels or more");
        check("https://*.example.", "two labels or more");
        check("https://*.example", "two labels or more");
        check("https://*.example:8443", "two labels or more");
        check("https://*.0.0.1", "an address has no labels");
        check("https://*.[::1]", "an address has no labels");
        check("https://*.Shop.example", "lower-case letters");
        check("https://*.shop.example:443", "default ports");
        check("https://*.m\u{fc}nchen.example", "scheme, host and port");
        check("https://A.example", "lower-case letters");
        check("https://a.example:443", "default ports");
        check("http://a.example:80", "default ports");
    }
}

//! `cors` of a route: which pages of other origins may use it. The value is `"*"` or a table. The printed
//! table reads back to the same value.

use std::time::Duration;

use tollgate_server::{AnyOr, CorsSpec};

use super::key::{Facts, inline, keys, set_defaults};
use super::methods::{methods, show_methods};
use super::section::{Section, TextOrTable, Written};
use super::units::{HOUR_MS, MINUTE_MS, show_duration};

const ALLOWED: &str = "\"*\" or a table { origins = [...], ... }";

keys! {
    pub(super) KEYS of CorsSpec;
    /// Origins as browsers write them.
    origins [ORIGINS] = other("needed", r#"a list, or `["*"]`"#);
    /// The methods that pages may send.
    methods [METHODS] = other("the methods of the route", "a list of methods");
    /// Header fields that pages may send, in addition to those that CORS always allows.
    headers [HEADERS] = other(r#"`["*"]`; with `credentials`: none"#, r#"a list, or `["*"]`"#);
    /// Header fields of a reply that pages may read.
    expose [EXPOSE] = other("`[]`", r#"a list, or `["*"]`"#);
    /// Whether pages may send cookies and other credentials.
    credentials = switch(false) => credentials;
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
        origins: AnyOr::Any,
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
    let credentials = policy.credentials;
    if credentials {
        policy.headers = AnyOr::Listed(Vec::new());
    }
    policy.methods = methods(&mut section, METHODS.name, "methods in cors");
    let lists = [
        (&ORIGINS, &mut policy.origins, origin_problem as fn(&str) -> _),
        (&HEADERS, &mut policy.headers, header_problem),
        (&EXPOSE, &mut policy.expose, header_problem),
    ];
    for (key, listed, problem) in lists {
        if let Some(found) = list(&mut section, key.name, credentials, problem) {
            *listed = found;
        }
    }
    section.finish();
    policy
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

/// Checks an origin. Browsers write each origin in only one way, so origins are compared byte by byte (RFC
/// 6454 section 6.2).
fn origin_problem(origin: &str) -> Option<&'static str> {
    if origin == "null" {
        return Some("which is the origin of every sandboxed page and every local file: allow \"*\" instead");
    }
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
        (ORIGINS.name, Some(show_list(&cors.origins))),
        (METHODS.name, cors.methods.map(show_methods)),
        (HEADERS.name, Some(show_list(&cors.headers))),
        (EXPOSE.name, Some(show_list(&cors.expose))),
    ];
    inline(KEYS, cors, &own)
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
        check("https://*.example", "scheme, host and port");
        check("https://A.example", "lower-case letters");
        check("https://a.example:443", "default ports");
        check("http://a.example:80", "default ports");
    }
}

//! The JSON of a span, by the protocol buffers of OTLP 1 and the semantic conventions for HTTP servers.
//!
//! Ids are hexadecimal, and integers of 64 bits are texts. All texts are redacted before they come here.

use tollgate_http::UriScheme;
use tollgate_server::{AccessClient, AccessLine, SpanFacts};

use crate::print::{push_formatted, push_json_string};

/// `SPAN_KIND_SERVER`.
const KIND_SERVER: u32 = 2;
/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: u32 = 2;
/// The flag that says that the next flag is known.
const HAS_IS_REMOTE: u32 = 0x100;
/// The flag of a span whose parent is in another process.
const IS_REMOTE: u32 = 0x200;
/// The text in place of a hidden address.
const HIDDEN: &str = "***";
/// The methods that an attribute may name. Another method is `_OTHER`.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Returns the beginning of a request to the collector. Spans follow, with commas between them, then
/// [`END`].
pub(super) fn beginning(service_name: &str) -> String {
    let mut out = String::from("{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    push_text(&mut out, "service.name", service_name);
    out.push_str("]},\"scopeSpans\":[{\"scope\":{\"name\":\"tollgate\",\"version\":");
    push_json_string(&mut out, env!("CARGO_PKG_VERSION"));
    out.push_str("},\"spans\":[");
    out
}

/// The end of a request to the collector.
pub(super) const END: &str = "]}]}]}";

/// Appends the span of a request.
pub(super) fn push_span(out: &mut String, line: &AccessLine<'_>, span: SpanFacts) {
    let trace = span.trace;
    let flags = u32::from(trace.flags) | HAS_IS_REMOTE;
    push_formatted(
        out,
        format_args!("{{\"traceId\":\"{:032x}\",\"spanId\":\"{:016x}\"", trace.id, trace.span),
    );
    match trace.parent {
        Some(parent) => {
            let flags = flags | IS_REMOTE;
            push_formatted(out, format_args!(",\"parentSpanId\":\"{parent:016x}\",\"flags\":{flags}"));
        }
        None => push_formatted(out, format_args!(",\"flags\":{flags}")),
    }
    let begun_us = u64::try_from(line.time_us).unwrap_or_default();
    let (begun_ns, ended_ns) =
        (begun_us.saturating_mul(1000), begun_us.saturating_add(line.took_us).saturating_mul(1000));
    out.push_str(",\"name\":");
    push_json_string(out, &name(line));
    push_formatted(out, format_args!(",\"kind\":{KIND_SERVER},\"startTimeUnixNano\":\"{begun_ns}\""));
    push_formatted(out, format_args!(",\"endTimeUnixNano\":\"{ended_ns}\",\"attributes\":["));
    push_attributes(out, line, span.scheme);
    out.push(']');
    if is_failure(line) {
        push_formatted(out, format_args!(",\"status\":{{\"code\":{STATUS_ERROR}}}"));
    }
    out.push('}');
}

/// Returns the name: method and route.
fn name(line: &AccessLine<'_>) -> String {
    let method = known_method(line).unwrap_or("HTTP");
    match line.route {
        Some(route) => format!("{method} {}", String::from_utf8_lossy(route)),
        None => method.to_owned(),
    }
}

fn known_method(line: &AccessLine<'_>) -> Option<&'static str> {
    METHODS.into_iter().find(|method| Some(method.as_bytes()) == line.method)
}

fn is_failure(line: &AccessLine<'_>) -> bool {
    line.status.is_some_and(|status| status >= 500)
}

fn push_attributes(out: &mut String, line: &AccessLine<'_>, scheme: UriScheme) {
    let method = known_method(line);
    push_text(out, "http.request.method", method.unwrap_or("_OTHER"));
    let original = if method.is_none() { line.method } else { None };
    let client = match line.client {
        AccessClient::Unknown => None,
        AccessClient::Hidden => Some(HIDDEN.to_owned()),
        AccessClient::Address(address) => Some(address.to_string()),
    };
    let version = line.protocol.and_then(|protocol| protocol.strip_prefix("HTTP/"));
    let scheme = if scheme == UriScheme::Https { "https" } else { "http" };
    let failure = line.status.filter(|_| is_failure(line)).map(|status| status.to_string());
    for (key, text) in [
        ("http.request.method_original", original),
        ("url.scheme", Some(scheme.as_bytes())),
        ("url.path", line.target.map(path)),
        ("http.route", line.route),
        ("client.address", client.as_deref().map(str::as_bytes)),
        ("user_agent.original", line.user_agent),
        ("network.protocol.version", version.map(str::as_bytes)),
        ("error.type", failure.as_deref().map(str::as_bytes)),
        ("tollgate.ack", line.ack.map(str::as_bytes)),
        ("tollgate.outcome", line.outcome.name().map(str::as_bytes)),
    ] {
        if let Some(text) = text {
            out.push(',');
            push_text(out, key, &String::from_utf8_lossy(text));
        }
    }
    if let Some(status) = line.status {
        out.push_str(",{\"key\":\"http.response.status_code\"");
        push_formatted(out, format_args!(",\"value\":{{\"intValue\":\"{status}\"}}}}"));
    }
}

/// Returns the path of a target. The target of a proxy's client has scheme and host before it.
fn path(target: &[u8]) -> &[u8] {
    let target = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    let is_absolute = target.first().is_some_and(u8::is_ascii_alphabetic);
    let Some(host) = target.windows(3).position(|bytes| bytes == b"://").filter(|_| is_absolute) else {
        return target;
    };
    let after = &target[host + 3..];
    after.iter().position(|&byte| byte == b'/').map_or(b"/", |start| &after[start..])
}

fn push_text(out: &mut String, key: &str, text: &str) {
    push_formatted(out, format_args!("{{\"key\":\"{key}\",\"value\":{{\"stringValue\":"));
    push_json_string(out, text);
    out.push_str("}}");
}

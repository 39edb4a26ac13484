//! Tests of the encoding and of the judgement of answers.

use std::io;

use serde_json::{Value, json};
use tollgate_acme::{PostAnswer, RetryAfter};
use tollgate_http::UriScheme;
use tollgate_server::{AccessClient, AccessLine, AccessOutcome, SpanFacts, Trace};

use super::exporter::{Posted, judge};
use super::span::{END, beginning, push_span};

const LINE: AccessLine<'_> = AccessLine {
    time_us: 1_795_896_000_123_456,
    took_us: 12_345,
    reply_bytes: 512,
    status: Some(201),
    protocol: Some("HTTP/1.1"),
    ack: Some("synced"),
    outcome: AccessOutcome::Acknowledged,
    client: AccessClient::Unknown,
    method: Some(b"POST"),
    target: Some(b"/score?a=1"),
    user_agent: Some(b"curl/8"),
    referer: Some(b"http://a/"),
    user: None,
    route: Some(b"/{name}"),
    id: None,
    span: None,
};
const SPAN: SpanFacts =
    SpanFacts { trace: Trace { id: 0xab, parent: Some(0xc), span: 0xd, flags: 1 }, scheme: UriScheme::Https };

/// Returns the span as the only one of a whole request.
fn span(line: &AccessLine<'_>, span: SpanFacts) -> Value {
    let mut out = beginning("a \"service\"");
    push_span(&mut out, line, span);
    out.push_str(END);
    let request: Value = out.parse().unwrap();
    let resource = &request["resourceSpans"][0];
    let name = json!([{ "key": "service.name", "value": { "stringValue": "a \"service\"" } }]);
    assert_eq!(resource["resource"]["attributes"], name);
    resource["scopeSpans"][0]["spans"][0].clone()
}

fn attribute(span: &Value, key: &str) -> Option<String> {
    let found = span["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == key)?;
    let value = found["value"].as_object()?.values().next()?;
    value.as_str().map(str::to_owned)
}

#[test]
fn a_span_has_ids_in_hexadecimal_and_times_as_texts() {
    let found = span(&LINE, SPAN);
    let expected = json!({
        "traceId": "000000000000000000000000000000ab", "spanId": "000000000000000d",
        "parentSpanId": "000000000000000c", "flags": 0x301, "name": "POST /{name}", "kind": 2,
        "startTimeUnixNano": "1795896000123456000", "endTimeUnixNano": "1795896000135801000",
        "attributes": found["attributes"],
    });
    assert_eq!(found, expected);
    let root = SpanFacts { trace: Trace { parent: None, ..SPAN.trace }, ..SPAN };
    let found = span(&LINE, root);
    assert_eq!((found.get("parentSpanId"), &found["flags"]), (None, &json!(0x101)));
}

#[test]
fn each_attribute_has_the_value_of_the_request_or_is_absent() {
    let client = AccessClient::Address([192, 0, 2, 1].into());
    let failed = AccessLine {
        status: Some(503),
        outcome: AccessOutcome::Replied,
        ack: None,
        client,
        method: Some(b"BREW"),
        target: Some(b"http://host/a\xff?b"),
        ..LINE
    };
    let hidden = AccessLine { client: AccessClient::Hidden, route: None, target: Some(b"***?***"), ..LINE };
    let (sound, failed, hidden) = (span(&LINE, SPAN), span(&failed, SPAN), span(&hidden, SPAN));
    assert_eq!(failed["status"], json!({ "code": 2 }));
    assert_eq!((sound.get("status"), &hidden["name"]), (None, &json!("POST")));
    assert_eq!(failed["name"], "HTTP /{name}");
    for (key, expected) in [
        ("http.request.method", [Some("POST"), Some("_OTHER"), Some("POST")]),
        ("http.request.method_original", [None, Some("BREW"), None]),
        ("url.scheme", [Some("https"); 3]),
        ("url.path", [Some("/score"), Some("/a\u{fffd}"), Some("***")]),
        ("http.route", [Some("/{name}"), Some("/{name}"), None]),
        ("http.response.status_code", [Some("201"), Some("503"), Some("201")]),
        ("client.address", [None, Some("192.0.2.1"), Some("***")]),
        ("user_agent.original", [Some("curl/8"); 3]),
        ("network.protocol.version", [Some("1.1"); 3]),
        ("error.type", [None, Some("503"), None]),
        ("tollgate.ack", [Some("synced"), None, Some("synced")]),
        ("tollgate.outcome", [Some("acknowledged"), None, Some("acknowledged")]),
    ] {
        let found = [&sound, &failed, &hidden].map(|span| attribute(span, key));
        assert_eq!(found, expected.map(|text| text.map(str::to_owned)), "{key}");
    }
}

#[test]
fn answers_are_judged_by_the_rules_of_otlp() {
    let answer = |status, seconds: Option<u64>, content: &str| {
        let retry_after = seconds.map(RetryAfter::Seconds);
        judge(Ok(PostAnswer { status, retry_after, content: content.to_owned().into() }))
    };
    assert_eq!(answer(200, None, ""), Posted::Taken { rejected: 0 });
    assert_eq!(answer(200, None, "{\"partialSuccess\":{}}"), Posted::Taken { rejected: 0 });
    let partly = r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}"#;
    assert_eq!(answer(200, None, partly), Posted::Taken { rejected: 3 });
    assert_eq!(answer(200, None, &partly.replace("\"3\"", "4")), Posted::Taken { rejected: 4 });
    for status in [429, 502, 503, 504] {
        let later = |after| Posted::Later(format!("it answers {status}"), after);
        assert_eq!(answer(status, None, ""), later(None));
        assert_eq!(answer(status, Some(7), ""), later(Some(RetryAfter::Seconds(7))));
    }
    for status in [301, 400, 401, 404, 413, 500, 501] {
        assert_eq!(answer(status, Some(7), ""), Posted::Refused(format!("it answers {status}")));
    }
    let away = judge(Err(io::Error::other("nobody is there")));
    assert_eq!(away, Posted::Later("it cannot be reached: nobody is there".to_owned(), None));
}

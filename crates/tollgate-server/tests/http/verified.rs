//! Tests of signed requests: the signature covers the bytes as sent, in every framing and coding, and a
//! request without it reaches no handler.

use std::io::Write;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tollgate_log::Level;
use tollgate_server::{
    MessageTemplate, Network, PRESETS, SignatureAlgorithm, SignatureScheme, TrustedProxies, VerifyKeys,
    VerifySecret, VerifySpec,
};

use crate::backend::FakeBackend;
use crate::peer::Reply;
use crate::site::{Running, Site};

const SECRETS: [&str; 2] = ["new secret", "old secret"];

/// Returns the signature of a preset, with two secrets.
fn spec(preset: &str) -> VerifySpec {
    let preset = PRESETS.iter().find(|known| known.name == preset).unwrap();
    VerifySpec {
        preset: Some(preset.name),
        scheme: SignatureScheme::try_from(preset).unwrap(),
        keys: VerifyKeys::Secrets(SECRETS.map(|secret| VerifySecret(secret.into())).to_vec()),
        written: Vec::new(),
        secret_files: Vec::new(),
        public_url: None,
    }
}

/// Verifies requests of the last route as GitHub signs them.
pub(crate) fn verified(site: Site) -> Site {
    site.tune_route(|route| route.verify = Some(Arc::new(spec("github"))))
}

fn site() -> Site {
    verified(Site::new().handler("/", "return { body = req:body() }")).tune(|options| {
        options.connection.body_memory_max = 16 << 10;
        options.routes[0].body_bytes_max = 64 << 20;
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hmac_of(secret: &str, message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

pub(crate) fn signature(secret: &str, body: &[u8]) -> String {
    format!("X-Hub-Signature-256: sha256={}\r\n", hex(&hmac_of(secret, body)))
}

fn with_length(fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn in_chunks(fields: &str, body: &[u8]) -> Vec<u8> {
    let mut request =
        format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for chunk in body.chunks(1000) {
        request.extend([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
    }
    request.extend(b"0\r\n\r\n");
    request
}

fn ask(server: &Running, request: &[u8]) -> Reply {
    let mut peer = server.connect();
    peer.send(request);
    peer.reply(false)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Returns text that is long and does not compress to nothing.
fn text(bytes: usize) -> String {
    (0..)
        .flat_map(|number: u64| format!("{:x} ", number * number).into_bytes())
        .take(bytes)
        .map(char::from)
        .collect()
}

#[test]
fn a_signature_covers_the_content_in_every_framing_and_length() {
    let server = site().start();
    for bytes in [0, 1, 100, 16 << 10, (16 << 10) + 1, 3 << 20] {
        let body = text(bytes);
        for secret in SECRETS {
            let signed = signature(secret, body.as_bytes());
            for request in [with_length(&signed, body.as_bytes()), in_chunks(&signed, body.as_bytes())] {
                let reply = ask(&server, &request);
                assert_eq!((reply.status, reply.content == body), (200, true), "{bytes} {secret}");
            }
        }
        let wrong = signature(SECRETS[0], &[body.as_bytes(), b" "].concat());
        for request in [with_length(&wrong, body.as_bytes()), in_chunks(&wrong, body.as_bytes())] {
            assert_eq!(ask(&server, &request).status, 401, "{bytes}");
        }
        assert_eq!(
            ask(&server, &with_length(&signature("other", body.as_bytes()), body.as_bytes())).status,
            401
        );
    }
}

#[test]
fn a_signature_covers_the_content_before_its_coding_is_removed() {
    let server = site().start();
    for bytes in [10, 1 << 20] {
        let plain = text(bytes);
        let coded = gzip(plain.as_bytes());
        let fields = |body: &[u8]| format!("Content-Encoding: gzip\r\n{}", signature(SECRETS[0], body));
        for form in [with_length, in_chunks] {
            let reply = ask(&server, &form(&fields(&coded), &coded));
            assert_eq!((reply.status, reply.content == plain), (200, true), "{bytes}");
            assert_eq!(ask(&server, &form(&fields(plain.as_bytes()), &coded)).status, 401, "{bytes}");
        }
    }
}

#[test]
fn a_signed_request_may_be_split_anywhere() {
    let server = site().start();
    let body = b"{\"n\":1}";
    for request in
        [with_length(&signature(SECRETS[1], body), body), in_chunks(&signature(SECRETS[1], body), body)]
    {
        for at in 1..request.len() {
            let mut peer = server.connect();
            peer.send(&request[..at]);
            peer.send(&request[at..]);
            peer.expect("200", "{\"n\":1}");
        }
    }
}

#[test]
fn a_connection_stays_open_after_a_refusal_and_keeps_the_order() {
    let server = site().start();
    let mut peer = server.connect();
    let good = |body: &str| with_length(&signature(SECRETS[0], body.as_bytes()), body.as_bytes());
    let bad = with_length("X-Hub-Signature-256: sha256=00\r\n", b"bad");
    let unsigned = with_length("", b"unsigned");
    peer.send([good("one"), bad, good("two"), unsigned, good("three")].concat());
    let refused = "the request has no valid signature\n";
    for (status, content) in
        [("200", "one"), ("401", refused), ("200", "two"), ("401", refused), ("200", "three")]
    {
        let reply = peer.expect(status, content);
        let challenge = (status == "401").then_some("Signature");
        assert_eq!(reply.field("www-authenticate"), challenge, "{reply:?}");
    }
}

/// No byte of the content is needed to refuse a request without a signature.
#[test]
fn a_request_without_a_signature_is_refused_before_its_body() {
    let server = site().start();
    let mut peer = server.connect();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(peer.reply(false).status, 401);
    peer.expect_end();
    let body = text(900_000);
    let mut peer = server.connect();
    let signed = signature(SECRETS[0], body.as_bytes());
    peer.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\n{signed}Content-Length: 900000\r\nExpect: 100-continue\r\n\r\n"
    ));
    assert_eq!(peer.head().status, 100);
    peer.send(&body);
    peer.expect("200", &body);
}

#[test]
fn a_fixed_reply_and_a_request_without_content_need_a_signature_too() {
    let server = verified(Site::new().fixed("/", "hello")).start();
    let get = |fields: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes();
    assert_eq!(ask(&server, &get("")).status, 401);
    assert_eq!(ask(&server, &get(&signature(SECRETS[0], b"x"))).status, 401);
    let reply = ask(&server, &get(&signature(SECRETS[0], b"")));
    assert_eq!((reply.status, reply.content.as_str()), (200, "hello"));
}

#[test]
fn a_request_without_a_valid_signature_reaches_no_script_and_leaves_no_record() {
    let site = Site::new().stream("all", Level::Synced, &["body text record.body"]);
    let site = site.handler("/", "return { status = 204, record = { body = req:body() } }");
    let server = verified(site.before("req.ctx.seen = true")).start();
    for (secret, status) in [(SECRETS[0], 204), ("other", 401), (SECRETS[1], 204)] {
        assert_eq!(ask(&server, &with_length(&signature(secret, b"hi"), b"hi")).status, status);
    }
    assert_eq!(ask(&server, &with_length("", b"hi")).status, 401);
    assert_eq!(server.records().len(), 2);
}

/// The earlier route has read the content, so the later route cannot verify it any more.
#[test]
fn a_script_passes_no_request_to_a_route_with_another_signature() {
    let site = Site::new().handler("/*", "return 'hook'");
    let site =
        verified(site).handler("/open", "return tollgate.pass").handler("/same", "return tollgate.pass");
    let server = verified(site).start();
    let ask = |path: &str| {
        let request = with_length(&signature(SECRETS[0], b"hi"), b"hi");
        let request = String::from_utf8(request).unwrap().replace("POST /", &format!("POST {path}"));
        ask(&server, request.as_bytes()).status
    };
    assert_eq!((ask("/x"), ask("/same"), ask("/open")), (200, 200, 401));
}

#[test]
fn a_backend_gets_nothing_before_the_signature_is_verified() {
    let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let site = Site::new()
        .proxy("/*", backend.options(), |_| ())
        .tune_route(|route| route.body_bytes_max = 64 << 20);
    let server = verified(site).tune(|options| options.connection.body_memory_max = 16 << 10).start();
    let body = text(1 << 20);
    let wrong = with_length(&signature("other", body.as_bytes()), body.as_bytes());
    assert_eq!(ask(&server, &wrong).status, 401);
    assert_eq!(backend.connections(), 0);
    let good = with_length(&signature(SECRETS[0], body.as_bytes()), body.as_bytes());
    assert_eq!(ask(&server, &good).status, 200);
    assert!(backend.request().ends_with(&body));
}

/// Scheme and host come from the request, and a trusted proxy may name another scheme.
#[test]
fn the_url_of_a_request_is_the_one_that_a_trusted_proxy_names() {
    let proxies = TrustedProxies {
        networks: vec!["127.0.0.1".parse::<Network>().unwrap()],
        ..TrustedProxies::default()
    };
    let mut url = spec("github");
    url.scheme.message = MessageTemplate::parse("{method} {url} {body}").unwrap();
    let site = |proxies| {
        let site = Site::new().handler("/*", "return req.target");
        let url = Arc::new(url.clone());
        site.tune_route(|route| route.verify = Some(url))
            .tune(|options| options.trusted_proxies = proxies)
            .start()
    };
    let asks = |server: &Running, url: &str, fields: &str| {
        let signed = signature(SECRETS[0], format!("PUT {url} hi").as_bytes());
        let head = format!(
            "PUT /a%7Eb?x=%31 HTTP/1.1\r\nHost: h.example\r\n{fields}{signed}Content-Length: 2\r\n\r\n"
        );
        ask(server, [head.as_bytes(), b"hi"].concat().as_slice()).status
    };
    let told = "X-Forwarded-Proto: https\r\n";
    let server = site(proxies);
    assert_eq!(asks(&server, "https://h.example/a%7Eb?x=%31", told), 200);
    assert_eq!(asks(&server, "http://h.example/a%7Eb?x=%31", told), 401);
    assert_eq!(asks(&server, "http://h.example/a%7Eb?x=%31", ""), 200);
    assert_eq!(asks(&server, "http://h.example:80/a%7Eb?x=%31", ""), 200);
    assert_eq!(asks(&server, "http://h.example/a~b?x=1", ""), 401);
    let server = site(TrustedProxies::default());
    assert_eq!(asks(&server, "https://h.example/a%7Eb?x=%31", told), 401);
}

/// A form is sorted, so it is kept until it is complete, up to a bound.
#[test]
fn a_content_that_has_to_be_kept_is_bounded() {
    let mut form = spec("twilio");
    form.scheme.message = MessageTemplate::parse("{form}").unwrap();
    form.scheme.algorithm = SignatureAlgorithm::HmacSha256;
    let site = site().tune_route(|route| route.verify = Some(Arc::new(form)));
    let server = site.start();
    let ask = |body: &str, message: &str| {
        let code = base64_of(&hmac_of(SECRETS[0], message.as_bytes()));
        let fields =
            format!("Content-Type: application/x-www-form-urlencoded\r\nX-Twilio-Signature: {code}\r\n");
        [with_length(&fields, body.as_bytes()), in_chunks(&fields, body.as_bytes())]
            .map(|request| ask(&server, &request).status)
    };
    assert_eq!(ask("b=2&a=1", "a1b2"), [200, 200]);
    assert_eq!(ask("b=2&a=1", "b2a1"), [401, 401]);
    let long = "x".repeat((1 << 20) - 2);
    assert_eq!(ask(&format!("a={long}"), &format!("a{long}")), [200, 200]);
    assert_eq!(ask(&format!("a={long}x"), &format!("a{long}x")), [413, 413]);
}

fn base64_of(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

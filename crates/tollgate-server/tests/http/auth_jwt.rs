//! Tests of JSON Web Tokens at a route, and of keys that a backend publishes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::signature::Ed25519KeyPair;
use serde_json::{Value, json};
use tollgate_log::Level;
use tollgate_server::{AuthSpec, ClaimRule, JwtKeys, JwtRules, JwtSpec, KeySet, RouteSpec};

use crate::asking::until_status;
use crate::auth::{ask, challenges, needs, refused, spec};
use crate::backend::FakeBackend;
use crate::site::{Running, Site};

const SECRET: &[u8] = b"a secret of at least 32 bytes, for HS256";
/// The year 2100.
const FAR_FUTURE_S: u64 = 4_102_444_800;
/// The example key of RFC 8037 appendix A.1.
const SEED: &str = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A";
const PUBLIC: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

fn jwt(keys: JwtKeys) -> AuthSpec {
    let rules = JwtRules {
        issuers: vec!["https://id.example".into()],
        audiences: vec!["orders".into()],
        leeway_s: 60,
        name_claim: "sub".into(),
    };
    AuthSpec { jwt: Some(JwtSpec { rules, keys }), ..spec("jwt") }
}

fn by_secret() -> AuthSpec {
    let keys = Arc::new(KeySet::from_secret(SECRET).unwrap());
    jwt(JwtKeys::Secret { written: "${SECRET}".into(), file: None, keys })
}

fn by_backend() -> AuthSpec {
    jwt(JwtKeys::Backend { name: "idp".into(), path: "/keys?v=1".into() })
}

fn claims() -> Value {
    json!({"iss": "https://id.example", "aud": ["orders"], "sub": "anna", "exp": FAR_FUTURE_S,
        "role": "admin", "n": 7, "a": {"b": [true, "deep"]}})
}

fn signed(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let signed = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let signature = URL_SAFE_NO_PAD.encode(sign(signed.as_bytes()));
    format!("Authorization: Bearer {signed}.{signature}\r\n")
}

fn by_hmac(claims: &Value) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    signed(&json!({"alg": "HS256"}), claims, |message| hmac::sign(&key, message).as_ref().to_vec())
}

fn by_ed25519(kid: &str) -> String {
    let pair = Ed25519KeyPair::from_seed_unchecked(&URL_SAFE_NO_PAD.decode(SEED).unwrap()).unwrap();
    let header = json!({"alg": "EdDSA", "kid": kid});
    signed(&header, &claims(), |message| pair.sign(message).as_ref().to_vec())
}

fn jwks(kid: &str) -> String {
    let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": PUBLIC}]}).to_string();
    format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n{set}", set.len())
}

fn with_claim(claim: &str, allowed: Value) -> impl FnOnce(&mut RouteSpec) {
    let rule = ClaimRule { claim: claim.to_owned(), allowed: vec![allowed] };
    |route| route.auth.as_mut().unwrap().requirement.claims.push(rule)
}

#[test]
fn claims_reach_the_script_and_the_columns() {
    let columns = [
        "name text request.auth.name",
        "how text request.auth.scheme",
        "role text request.auth.claims.role",
        "n int request.auth.claims./n",
        "deep text request.auth.claims./a/b/1",
        "whole json request.auth.claims.a",
        "none text request.auth.claims./a/c",
    ];
    let body = "local claims = req.auth.claims \
                assert(not pcall(function() req.auth.name = 'root' end)) \
                return `{req.auth.name} {claims.role} {claims.a.b[2]} {claims.n + 1}`";
    let site = Site::new().stream("s", Level::Synced, &columns).handler("/", body);
    let server = site.tune_route(needs(by_secret())).start();
    let reply = ask(&server, &by_hmac(&claims()));
    assert_eq!((reply.status, reply.content.as_str()), (200, "anna admin deep 8"));
    let expected = "name=anna how=jwt role=admin n=7 deep=deep whole={\"b\":[true,\"deep\"]} none=null";
    assert_eq!(server.records(), [expected]);
}

#[test]
fn a_token_that_is_not_valid_says_why() {
    let server = Site::new().handler("/", "return 'in'").tune_route(needs(by_secret())).start();
    let but = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        by_hmac(&claims)
    };
    let good = by_hmac(&claims());
    let cut = good.trim_end().rsplit_once('.').unwrap().0;
    for (fields, expected) in [
        (but("exp", json!(1000)), "the token has expired"),
        (but("aud", json!("users")), "the audience of the token is another one"),
        (but("iss", json!("https://evil.example")), "the issuer of the token is not allowed"),
        (by_ed25519("x"), "the algorithm of the token does not belong to the key"),
        (format!("{cut}.AAAA\r\n"), "the signature of the token does not match"),
        ("Authorization: Bearer abc\r\n".to_owned(), "the token is not a signed JSON Web Token"),
    ] {
        let reply = ask(&server, &fields);
        let challenge =
            format!("Bearer realm=\"staff\", error=\"invalid_token\", error_description=\"{expected}\"");
        assert_eq!((reply.status, challenges(&reply)), (401, vec![challenge.as_str()]), "{fields}");
        assert!(!reply.content.contains(expected), "the content is for people: {}", reply.content);
    }
    assert_eq!(ask(&server, &good).content, "in");
}

#[test]
fn a_claim_decides_who_may_use_a_route() {
    let check = |claim: &str, allowed: Value, expected: u16| {
        let site = Site::new().handler("/", "return 'in'").tune_route(needs(by_secret()));
        let server = site.tune_route(with_claim(claim, allowed)).start();
        assert_eq!(ask(&server, &by_hmac(&claims())).status, expected, "{claim}");
    };
    check("role", json!("admin"), 200);
    check("role", json!("user"), 403);
    check("/a/b", json!("deep"), 200);
}

/// Returns the state of the only set of keys.
fn keys(server: &Running) -> (bool, bool) {
    let status = server.watch().status().token_keys.remove(0);
    assert_eq!((status.section.as_str(), status.backend.as_str()), ("jwt", "idp"));
    (status.is_there, status.trouble.is_some())
}

#[test]
fn keys_of_a_backend_that_is_away_at_the_start_are_fetched_when_it_is_back() {
    let is_back = Arc::new(AtomicBool::new(false));
    let looked = is_back.clone();
    let backend = FakeBackend::start(move |taken| {
        while taken.request().is_some() {
            let away = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_owned();
            taken.send(if looked.load(Ordering::SeqCst) { jwks("one") } else { away });
        }
    });
    let mut options = backend.options();
    options.name = "idp".to_owned();
    let site = Site::new().handler("/", "return req.auth.name").tune_route(needs(by_backend()));
    let server = site.tune(|site| site.backends.push(options)).start();
    let request = backend.request();
    assert!(request.starts_with("GET /keys?v=1 HTTP/1.1\r\n"), "{request}");
    assert!(!request.contains("Authorization"), "{request}");
    // Each request gets 503 at once, until the set is there.
    let reply = ask(&server, &by_ed25519("one"));
    assert_eq!((reply.status, reply.field("retry-after")), (503, Some("1")), "{reply:?}");
    let counted = refused(&server, "token_keys");
    assert!(counted >= 1, "{counted}");
    // A request without a token needs no keys.
    assert_eq!(ask(&server, "").status, 401);
    backend.request();
    assert_eq!(keys(&server), (false, true));
    is_back.store(true, Ordering::SeqCst);
    let reply = until_status(200, || ask(&server, &by_ed25519("one")));
    assert_eq!(reply.content, "anna");
    assert_eq!(keys(&server), (true, false));
    // An unknown key a short time after a fetch causes no other fetch.
    assert_eq!(ask(&server, &by_ed25519("two")).status, 401);
    assert_eq!(ask(&server, &by_ed25519("one")).status, 200);
}

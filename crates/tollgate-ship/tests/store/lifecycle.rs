//! Tests of lifecycle rules: what an S3 server answers, and the request itself.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use tollgate_ship::{Expiry, ExpiryRule, Lifecycle, ObjectStoreOptions, Secret, StorePlace};

use crate::gateway::{Gateway, SECRET_KEY, open, options};

const RULES: &str = "<LifecycleConfiguration><Rule><ID>old</ID><Filter><Prefix>team/</Prefix></Filter>\
    <Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>";

/// Asks a server that gives this answer for the rules of `s3://logs/team`. Returns the rules and the head of
/// the request.
fn asked(status: &str, content: &str) -> (Lifecycle, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let length = content.len();
    let answer =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{content}");
    let server = thread::spawn(move || {
        let mut connection = listener.accept().unwrap().0;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            connection.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        connection.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(head).unwrap()
    });
    let rules = open(options("s3://logs/team", address)).lifecycle();
    (rules, server.join().unwrap())
}

#[test]
fn the_rules_that_delete_segments_are_read_by_one_signed_request() {
    let (rules, head) = asked("200 OK", RULES);
    let rule = ExpiryRule { id: "old".to_owned(), prefix: "team/".to_owned(), expiry: Expiry::Days(3) };
    assert_eq!(rules, Lifecycle::Rules(vec![rule]));
    assert!(head.starts_with("GET /logs/?lifecycle HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: AWS4-HMAC-SHA256 Credential=tollgate-test/"), "{head}");
    assert!(!head.contains(SECRET_KEY), "{head}");
}

#[test]
fn an_answer_without_rules_says_why() {
    let none = "<Error><Code>NoSuchLifecycleConfiguration</Code></Error>";
    assert_eq!(asked("404 Not Found", none).0, Lifecycle::Rules(Vec::new()));
    for (status, content, part) in [
        ("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>", "s3:GetLifecycleConfiguration"),
        ("404 Not Found", "<Error><Code>NoSuchBucket</Code></Error>", "no such bucket"),
        ("501 Not Implemented", "", "no call for lifecycle rules (501)"),
        ("500 Internal Server Error", "", "answers 500"),
        ("200 OK", "<Rule><ID></Rule>", "cannot be read"),
    ] {
        let (rules, _) = asked(status, content);
        let Lifecycle::Unknown(reason) = &rules else { panic!("{status}: {rules:?}") };
        assert!(reason.contains(part), "{status}: {reason}");
    }
}

#[test]
fn a_real_server_accepts_the_signature() {
    let gateway = Gateway::start();
    let rules = gateway.store().lifecycle();
    // This version of the server has no lifecycle rules.
    assert!(
        matches!(&rules, Lifecycle::Unknown(reason) if reason.contains("no call for lifecycle rules")),
        "{rules:?}"
    );
    let wrong = ObjectStoreOptions { secret_key: Some(Secret::new("wrong")), ..gateway.options() };
    let rules = open(wrong).lifecycle();
    assert!(matches!(&rules, Lifecycle::Unknown(reason) if reason.contains("do not allow")), "{rules:?}");
}

#[test]
fn other_services_are_not_asked() {
    let named = |place: &str| ObjectStoreOptions::new(StorePlace::parse(place).unwrap());
    let (secret, account) = (Some(Secret::new("c2VzYW1l")), Some("account".to_owned()));
    let google = ObjectStoreOptions { session_token: secret.clone(), ..named("gs://logs") };
    let azure = ObjectStoreOptions { access_key: account, secret_key: secret, ..named("az://box") };
    for (options, part) in [(google, "buckets describe gs://logs"), (azure, "storage account")] {
        let rules = open(options).lifecycle();
        assert!(matches!(&rules, Lifecycle::Unknown(reason) if reason.contains(part)), "{rules:?}");
    }
}

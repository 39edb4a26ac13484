//! Tests of the maximum number of connections of each client, also behind a proxy.

use std::net::Ipv4Addr;
use std::time::Duration;

use tollgate_server::{AnyOr, CorsSpec, ServerOptions, TrustedProxies};

use crate::limits::{REQUEST, assert_refused, eventually_served, expect_refused, site};
use crate::peer::Peer;
use crate::site::Site;

/// Allows one connection for each client that a proxy of this machine names.
fn behind_a_proxy(options: &mut ServerOptions) {
    let networks = vec!["127.0.0.1".parse().unwrap()];
    options.capacity.connections_per_client_max = Some(1);
    options.trusted_proxies = TrustedProxies { networks, ..TrustedProxies::default() };
}

#[test]
fn a_client_has_its_share_of_connections_and_others_have_theirs() {
    let server = site(|options| options.capacity.connections_per_client_max = Some(2));
    let from = |last| Peer::connect_from(Ipv4Addr::new(127, 0, 0, last), server.address());
    let mut peers = [from(2), from(2)];
    for peer in &mut peers {
        peer.send(REQUEST);
        peer.expect("200", "hello");
    }
    expect_refused(from(2), 429);
    let mut other = from(3);
    other.send(REQUEST);
    other.expect("200", "hello");
    drop(peers);
    eventually_served(|| from(2));
}

#[test]
fn each_client_behind_a_trusted_proxy_has_its_share() {
    let server = site(behind_a_proxy);
    let of = |client: &str| format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n");
    let (mut one, mut other) = (server.connect(), server.connect());
    one.send(of("203.0.113.1"));
    one.expect("200", "hello");
    other.send(of("203.0.113.1"));
    assert_refused(&other.reply(false), 429);
    other.send(of("203.0.113.2"));
    other.expect("200", "hello");
    one.send(of("203.0.113.3"));
    one.expect("200", "hello");
    other.send(of("203.0.113.1"));
    other.expect("200", "hello");
}

#[test]
fn a_connection_behind_a_trusted_proxy_is_its_clients_as_soon_as_a_head_is_there() {
    let server = Site::new().handler("/", "return req:body()").tune(behind_a_proxy).start();
    let post =
        |fields: &str| format!("POST / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.1\r\n{fields}\r\n");
    let mut slow = server.connect();
    slow.send(post("Content-Length: 4\r\nExpect: 100-continue\r\n"));
    assert_eq!(slow.head().status, 100, "its head is there");
    slow.send("ab");
    // The server neither requests the content nor waits for it.
    let mut other = server.connect();
    other.send(post("Content-Length: 2\r\nExpect: 100-continue\r\n"));
    expect_refused(other, 429);
    let mut other = server.connect();
    other.send(post("Content-Length: 4\r\n") + "ab");
    expect_refused(other, 429);
    let mut other = server.connect();
    other.send(post("Content-Length: 900000\r\n") + &"x".repeat(100_000));
    expect_refused(other, 429);
    slow.send("cd");
    slow.expect("200", "abcd");
}

#[test]
fn a_page_can_read_that_its_client_has_too_many_connections() {
    let cors = CorsSpec {
        origins: tollgate_server::Origins::Any,
        methods: None,
        headers: AnyOr::Any,
        expose: AnyOr::Listed(Vec::new()),
        credentials: false,
        max_age: Duration::from_secs(600),
    };
    let site = Site::new().handler("/", "return 'hello'").tune_route(|route| route.cors = Some(cors));
    let server = site.tune(behind_a_proxy).start();
    let request =
        "GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\nX-Forwarded-For: 203.0.113.1\r\n\r\n";
    let (mut one, mut other) = (server.connect(), server.connect());
    one.send(request);
    one.expect("200", "hello");
    other.send(request);
    let refusal = other.reply(false);
    assert_refused(&refusal, 429);
    assert_eq!(refusal.field("access-control-allow-origin"), Some("*"));
}

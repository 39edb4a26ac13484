//! Redirects to HTTPS, and `Strict-Transport-Security`.

use std::net::SocketAddr;
use std::time::Duration;

use tollgate_server::{Hsts, ListenSpec, RedirectKind, TrustedProxies};

use crate::peer::Reply;
use crate::site::{Running, Site};

const HTTPS: &str = "X-Forwarded-Proto: https\r\n";

/// Makes the address of the site lead to HTTPS.
fn redirecting(site: Site) -> Site {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    site.tune(|options| options.listen = vec![ListenSpec { redirect_to_https: true, ..address.into() }])
}

/// Lets clients of the site tell the scheme, as a proxy that ended TLS does.
fn trusting(site: Site) -> Site {
    let networks = vec!["127.0.0.0/8".parse().unwrap()];
    site.tune(|options| options.trusted_proxies = TrustedProxies { networks, ..TrustedProxies::default() })
}

fn ask(server: &Running, request: &str) -> Reply {
    let mut peer = server.connect();
    peer.send(request);
    peer.reply(request.starts_with("HEAD"))
}

#[test]
fn a_request_without_tls_is_led_to_the_same_resource_over_tls() {
    let server = redirecting(Site::new().fixed("/*", "plain")).start();
    let check = |request: &str, location: &str| {
        let reply = ask(&server, &format!("{request}\r\n\r\n"));
        let found = (reply.status, reply.field("location"), reply.field("connection"));
        assert_eq!(found, (308, Some(location), None), "{request}: {reply:?}");
    };
    check("GET /a/b?c=d&e HTTP/1.1\r\nHost: shop.example", "https://shop.example/a/b?c=d&e");
    check("HEAD / HTTP/1.1\r\nHost: Shop.example:8080", "https://Shop.example/");
    check("GET //evil.example/ HTTP/1.1\r\nHost: [::1]:80", "https://[::1]//evil.example/");
    check("GET /a|b%2Fc?[d] HTTP/1.1\r\nHost: a", "https://a/a%7Cb%2Fc?%5Bd%5D");
    check("GET http://a:80?b HTTP/1.1\r\nHost: a", "https://a/?b");
    check(
        "OPTIONS /a HTTP/1.1\r\nHost: a\r\nOrigin: https://b\r\nAccess-Control-Request-Method: PUT",
        "https://a/a",
    );
    assert_eq!(server.watch().status().unrouted, [0, 0, 6, 0, 0]);
}

#[test]
fn a_post_is_redirected_and_not_recorded_and_its_connection_stays() {
    let site = Site::new().stream("s", tollgate_log::Level::Written, &["path text request.path"]);
    let server = redirecting(site.collect("/items")).start();
    let mut peer = server.connect();
    for _ in 0..2 {
        peer.send("POST /items HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}");
        assert_eq!(peer.reply(false).status, 308);
    }
    drop(peer);
    assert_eq!(server.records(), [""; 0]);
}

#[test]
fn the_kind_and_the_port_of_a_redirect_are_set() {
    let site = redirecting(Site::new()).tune(|options| {
        options.https.redirect = RedirectKind::Temporary;
        options.https.redirect_port = 8443;
    });
    let reply = ask(&site.start(), "GET /a HTTP/1.1\r\nHost: a:80\r\n\r\n");
    assert_eq!((reply.status, reply.field("location")), (307, Some("https://a:8443/a")));
}

#[test]
fn tokens_of_acme_the_server_itself_and_https_by_a_proxy_are_not_redirected() {
    let server = trusting(redirecting(Site::new().fixed("/*", "served"))).start();
    server.check("GET /.well-known/acme-challenge/t HTTP/1.1\r\nHost: a\r\n\r\n", "200", "served");
    server.check("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "204", "");
    server.check(&format!("GET /a HTTP/1.1\r\nHost: a\r\n{HTTPS}\r\n"), "200", "served");
    for path in ["/.well-known/acme-challenge", "/a/.well-known/acme-challenge/t"] {
        assert_eq!(ask(&server, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).status, 308, "{path}");
    }
    assert_eq!(ask(&server, "GET /a HTTP/1.0\r\n\r\n").status, 400);
    let untrusting = redirecting(Site::new().fixed("/*", "served")).start();
    assert_eq!(ask(&untrusting, &format!("GET /a HTTP/1.1\r\nHost: a\r\n{HTTPS}\r\n")).status, 308);
}

#[test]
fn each_reply_over_tls_announces_the_policy_once() {
    let hsts = Hsts { max_age: Duration::from_hours(1), include_subdomains: true, preload: false };
    let site = Site::new()
        .fixed("/fixed", "hello")
        .handler("/script", "return 'hello'")
        .handler("/own", "return { headers = { ['Strict-Transport-Security'] = 'max-age=0' } }");
    let server = trusting(site).tune(|options| options.https.hsts = Some(hsts)).start();
    let check = |path: &str, told: &str, expect: &[&str]| {
        let reply = ask(&server, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n{told}\r\n"));
        let name = |line: &&str| line.to_ascii_lowercase().starts_with("strict-transport-security: ");
        let found: Vec<_> =
            reply.head.lines().filter(name).filter_map(|line| line.split_once(": ")).collect();
        assert_eq!(found.iter().map(|(_, value)| *value).collect::<Vec<_>>(), expect, "{path}: {reply:?}");
    };
    let policy = ["max-age=3600; includeSubDomains"];
    for path in ["/fixed", "/script", "/missing", "/%zz"] {
        check(path, HTTPS, &policy);
        check(path, "", &[]);
    }
    check("/own", HTTPS, &["max-age=0"]);
}

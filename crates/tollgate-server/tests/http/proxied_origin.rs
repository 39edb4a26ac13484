//! Tests of proxied routes: the fields that tell a backend about the client, and the proxies that are trusted
//! (RFC 7239).

use std::net::Ipv4Addr;

use tollgate_server::{ClientHeader, TrustedProxies};

use crate::backend::{FakeBackend, field};
use crate::peer::Peer;
use crate::site::{Running, Site};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// Starts a server that trusts proxies of this machine.
fn serve_trusted(backend: &FakeBackend, header: ClientHeader) -> Running {
    let networks = vec!["127.0.0.0/8".parse().unwrap()];
    let trusted = TrustedProxies { networks, unix: false, header };
    let site = Site::new().proxy("/*", backend.options(), |_| {});
    site.tune(|options| options.trusted_proxies = trusted).start()
}

/// Returns the values of `Forwarded` and `X-Forwarded-For` that the backend gets for a request of this
/// machine, without the element for the peer.
fn lists_sent(header: ClientHeader, fields: &str) -> [String; 2] {
    let backend = FakeBackend::replying(OK);
    let server = serve_trusted(&backend, header);
    server.check(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_str(), "200", "hello");
    let got = backend.request();
    let forwarded = format!("for=127.0.0.1;host=\"a\";proto={}", server.scheme());
    let ours = [("forwarded", forwarded.as_str()), ("x-forwarded-for", "127.0.0.1")];
    ours.map(|(name, element)| {
        let all = field(&got, name).unwrap();
        all.strip_suffix(element).unwrap_or_else(|| panic!("{all}")).to_owned()
    })
}

#[test]
fn elements_of_a_trusted_proxy_stand_before_our_own() {
    let addresses = "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 203.0.113.9, 127.0.0.5\r\n";
    assert_eq!(lists_sent(ClientHeader::XForwardedFor, addresses)[1], "1.1.1.1, 203.0.113.9, 127.0.0.5, ");
    let forwarded =
        "Forwarded: for=1.1.1.1\r\nForwarded: for=203.0.113.9;proto=https, for=\"127.0.0.5:1\"\r\n";
    let expect = "for=1.1.1.1, for=203.0.113.9;proto=https, for=\"127.0.0.5:1\", ";
    assert_eq!(lists_sent(ClientHeader::Forwarded, forwarded)[0], expect);
}

#[test]
fn the_list_that_a_proxy_does_not_write_begins_with_the_client_of_the_other_list() {
    let check = |header, client: &str, expect: [&str; 2]| {
        let (named, forged) = match header {
            ClientHeader::XForwardedFor => (format!("X-Forwarded-For: {client}"), "Forwarded: for=6.6.6.6"),
            ClientHeader::Forwarded => (format!("Forwarded: {client}"), "X-Forwarded-For: 6.6.6.6"),
        };
        assert_eq!(lists_sent(header, &format!("{forged}\r\n{named}\r\n{forged}\r\n")), expect);
    };
    let (addresses, forwarded) = (ClientHeader::XForwardedFor, ClientHeader::Forwarded);
    check(addresses, "203.0.113.9", ["for=203.0.113.9, ", "203.0.113.9, "]);
    check(addresses, "2001:db8::1", ["for=\"[2001:db8::1]\", ", "2001:db8::1, "]);
    check(addresses, "203.0.113.9, 127.0.0.5", ["for=203.0.113.9, ", "203.0.113.9, 127.0.0.5, "]);
    check(addresses, "unknown", ["", "unknown, "]);
    check(forwarded, "for=203.0.113.9", ["for=203.0.113.9, ", "203.0.113.9, "]);
    check(forwarded, "for=\"[2001:db8::1]:9\"", ["for=\"[2001:db8::1]:9\", ", "2001:db8::1, "]);
    check(forwarded, "for=_hidden", ["for=_hidden, ", ""]);
}

#[test]
fn an_empty_line_of_a_trusted_proxy_makes_no_empty_member_of_a_list() {
    assert_eq!(lists_sent(ClientHeader::XForwardedFor, "Forwarded:\r\nX-Forwarded-For: \r\n"), ["", ""]);
    let between = "X-Forwarded-For:\r\nX-Forwarded-For: x\r\nX-Forwarded-For:\r\nX-Forwarded-For: y\r\n";
    assert_eq!(lists_sent(ClientHeader::XForwardedFor, between)[1], "x, y, ");
    let between = "Forwarded: for=x\r\nForwarded:\r\nForwarded: for=y\r\n";
    assert_eq!(lists_sent(ClientHeader::Forwarded, between)[0], "for=x, for=y, ");
}

#[test]
fn empty_members_of_a_list_are_not_sent_on() {
    let addresses = "X-Forwarded-For: ,x,, y ,\r\nX-Forwarded-For: ,\r\nX-Forwarded-For: z\r\n";
    assert_eq!(lists_sent(ClientHeader::XForwardedFor, addresses)[1], "x, y, z, ");
    let forwarded = "Forwarded: , for=x;host=\",,\",\t, for=y,\r\n";
    assert_eq!(lists_sent(ClientHeader::Forwarded, forwarded)[0], "for=x;host=\",,\", for=y, ");
}

#[test]
fn an_open_quote_of_a_client_hides_nothing_that_was_written_behind_it() {
    for forged in ["for=1.1.1.1, for=\"2.2.2.2", "for=\"2.2.2.2\\\"", "for=x;host=\"a\";by=\"", "\""] {
        let behind = format!("Forwarded: {forged}, for=203.0.113.9\r\nForwarded: for=127.0.0.5\r\n");
        let expect = ["for=203.0.113.9, for=127.0.0.5, ", "203.0.113.9, "];
        assert_eq!(lists_sent(ClientHeader::Forwarded, &behind), expect, "{forged}");
        assert_eq!(
            lists_sent(ClientHeader::Forwarded, &format!("Forwarded: {forged}\r\n"))[0],
            "",
            "{forged}"
        );
    }
}

#[test]
fn only_a_trusted_proxy_says_where_a_request_came_from() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.9.9.9\r\nForwarded: for=10.9.9.9\r\n\
                   X-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 1\r\nVia: 1.1 first\r\n\r\n";
    let backend = FakeBackend::replying(OK);
    let server = Site::new().proxy("/*", backend.options(), |_| {}).start();
    server.check(request, "200", "hello");
    let got = backend.request();
    assert!(!got.contains("10.9.9.9") && !got.contains("X-Forwarded-Port") && !got.contains("X-Real-IP"));
    assert_eq!(
        (field(&got, "x-forwarded-for"), field(&got, "x-forwarded-proto")),
        (Some("127.0.0.1"), Some(server.scheme()))
    );
    let server = serve_trusted(&backend, ClientHeader::XForwardedFor);
    let mut peer = Peer::connect_from(Ipv4Addr::new(127, 0, 0, 9), server.address());
    peer.send(request);
    peer.expect("200", "hello");
    let got = backend.request();
    assert_eq!(field(&got, "x-forwarded-for"), Some("10.9.9.9, 127.0.0.9"));
    let ours = format!("for=127.0.0.9;host=\"a\";proto={}", server.scheme());
    assert_eq!(field(&got, "forwarded"), Some(format!("for=10.9.9.9, {ours}").as_str()));
    assert_eq!(
        [field(&got, "x-forwarded-proto"), field(&got, "x-forwarded-host"), field(&got, "x-forwarded-port")],
        [Some("https"), Some("b"), Some("1")]
    );
    assert!(got.contains("Via: 1.1 first\r\n") && got.contains("Via: 1.1 tollgate\r\n"));
}

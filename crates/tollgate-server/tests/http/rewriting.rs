//! Tests of proxied routes: references and cookies in replies lead back through the route.

use tollgate_server::{ClientHeader, HostSent, ProxySpec, TrustedProxies};

use crate::backend::{FakeBackend, field};
use crate::site::{Running, Site};

fn stripped(proxy: &mut ProxySpec) {
    proxy.strip_prefix = true;
}

/// A route whose backend replies with one field, and the request of its client.
struct Route {
    path: &'static str,
    tune: fn(&mut ProxySpec),
    request: &'static str,
}

const APP: Route =
    Route { path: "/app/*", tune: stripped, request: "GET /app/a HTTP/1.1\r\nHost: shop.example\r\n\r\n" };

impl Route {
    /// Checks the values that the client gets for a field of the backend. `{backend}` stands for its address.
    fn check(&self, name: &str, value: &str, expect: &str) {
        let name_and_value = format!("{name}: {value}");
        let backend = FakeBackend::start(move |taken| {
            while taken.request().is_some() {
                let line = name_and_value.replace("{backend}", &taken.address().to_string());
                taken.send(format!("HTTP/1.1 200 OK\r\n{line}\r\nContent-Length: 5\r\n\r\nhello"));
            }
        });
        let server = Site::new().proxy(self.path, backend.options(), self.tune).start();
        let mut peer = server.connect();
        peer.send(self.request);
        let reply = peer.expect("200", "hello");
        let expect = expect.replace("{backend}", &backend.address.to_string());
        assert_eq!(reply.field(name), Some(&*expect), "{name}: {value}");
    }
}

#[test]
fn a_location_of_the_backend_leads_back_through_the_route() {
    for name in ["Location", "Content-Location"] {
        APP.check(name, "/login?next=/a#b", "/app/login?next=/a#b");
        APP.check(name, "/", "/app/");
        APP.check(name, "http://shop.example/login", "http://shop.example/app/login");
        APP.check(name, "https://shop.example:443", "https://shop.example:443/app/");
        APP.check(name, "//shop.example/login", "//shop.example/app/login");
        APP.check(name, "http://{backend}/login?a", "/app/login?a");
        APP.check(name, "http://{backend}", "/app/");
    }
}

#[test]
fn a_location_that_is_relative_or_of_another_origin_stays() {
    for value in [
        "login",
        "../login",
        "?a",
        "#a",
        "https://evil.example/login",
        "//evil.example/login",
        "/\\evil.example",
        "/\t/evil.example",
        "http://shop.example.evil.example/",
        "http://shop.example@evil.example/",
        "http://shop.example:8080/",
        "https://{backend}/",
        "mailto:a@shop.example",
    ] {
        APP.check("Location", value, value);
    }
}

#[test]
fn a_path_that_already_has_the_prefix_stays() {
    APP.check("Location", "/app/login", "/app/login");
    APP.check("Location", "/app", "/app");
    APP.check("Location", "/app?a", "/app?a");
    APP.check("Location", "/apple", "/app/apple");
    APP.check("Location", "http://{backend}/app/login", "/app/login");
    APP.check("Set-Cookie", "a=1; Path=/app", "a=1; Path=/app");
}

#[test]
fn a_refresh_leads_back_through_the_route() {
    APP.check("Refresh", "5; url=/next", "5; url=/app/next");
    APP.check("Refresh", "0;URL='/next'", "0;URL='/app/next'");
    APP.check("Refresh", "0, \"/next\" x", "0, \"/app/next\" x");
    APP.check("Refresh", "1; url = http://{backend}/", "1; url = /app/");
    for value in ["5", "5;", "5; url=", "5; url=next", "0; url=https://evil.example/", "0; url='"] {
        APP.check("Refresh", value, value);
    }
}

#[test]
fn a_cookie_has_the_path_of_the_client_and_no_domain_of_the_backend() {
    APP.check("Set-Cookie", "sid=1; Path=/; HttpOnly", "sid=1; Path=/app/; HttpOnly");
    APP.check("Set-Cookie", "sid=1;path=/a", "sid=1;path=/app/a");
    APP.check("Set-Cookie", "sid=1; Domain=127.0.0.1; Secure", "sid=1; Secure");
    for value in [
        "sid=1",
        "sid=1; HttpOnly",
        "sid=1; Path",
        "sid=1; Path=a",
        "sid=1; Domain=.example",
        "sid=1; Domain=other.example",
        "Path=/; Secure",
        "__Host-sid=1; Path=/; Secure",
    ] {
        APP.check("Set-Cookie", value, value);
    }
}

#[test]
fn an_added_prefix_is_removed_again() {
    let added = |proxy: &mut ProxySpec| proxy.prefix = "/v2".to_owned();
    let route = Route { path: "/*", tune: added, request: "GET /a HTTP/1.1\r\nHost: shop.example\r\n\r\n" };
    route.check("Location", "/v2/login", "/login");
    route.check("Location", "/v2", "/");
    route.check("Set-Cookie", "a=1; Path=/v2/b", "a=1; Path=/b");
    for value in ["/login", "/v20/login", "/v2//evil.example", "/v2/\\evil.example", "/v2/\t/evil.example"] {
        route.check("Location", value, value);
    }
    let both = |proxy: &mut ProxySpec| (proxy.strip_prefix, proxy.prefix) = (true, "/v2".to_owned());
    let route = Route { tune: both, ..APP };
    route.check("Location", "/v2/login", "/app/login");
    route.check("Location", "/login", "/login");
}

#[test]
fn an_address_of_the_backend_is_hidden_if_it_is_sent_as_host() {
    let backend = |proxy: &mut ProxySpec| proxy.host = HostSent::Backend;
    let request = "GET /a HTTP/1.1\r\nHost: shop.example\r\n\r\n";
    let route = Route { path: "/*", tune: backend, request };
    route.check("Location", "http://{backend}/login", "/login");
    route.check("Location", "/login", "/login");
}

#[test]
fn nothing_is_rewritten_without_a_reason_or_if_the_route_says_so() {
    let request = "GET /app/a HTTP/1.1\r\nHost: shop.example\r\n\r\n";
    let off = |proxy: &mut ProxySpec| (proxy.strip_prefix, proxy.rewrite_paths) = (true, false);
    for tune in [off as fn(&mut ProxySpec), |_| {}] {
        let route = Route { path: "/app/*", tune, request };
        for value in ["/login", "http://{backend}/login"] {
            route.check("Location", value, value);
        }
        route.check("Set-Cookie", "sid=1; Path=/", "sid=1; Path=/");
    }
}

#[test]
fn the_prefix_is_the_one_that_the_client_sent() {
    let request = "GET /t/a%20b/./x/y HTTP/1.1\r\nHost: a\r\n\r\n";
    let route = Route { path: "/t/{tenant}/*", tune: stripped, request };
    route.check("Location", "/login", "/t/a%20b/login");
    let request = "GET /t/a|b/x HTTP/1.1\r\nHost: a\r\n\r\n";
    let route = Route { path: "/t/{tenant}/*", tune: stripped, request };
    route.check("Location", "/login", "/t/a%7Cb/login");
}

/// Returns `X-Forwarded-Prefix` as the backend gets it.
fn prefix_sent(tune: fn(&mut ProxySpec), is_trusted: bool, fields: &str) -> Option<String> {
    let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let site = Site::new().proxy("/app/*", backend.options(), tune);
    let networks = if is_trusted { vec!["127.0.0.0/8".parse().unwrap()] } else { Vec::new() };
    let trusted = TrustedProxies { networks, unix: false, header: ClientHeader::XForwardedFor };
    let server: Running = site.tune(|options| options.trusted_proxies = trusted).start();
    server.check(&format!("GET /app/a HTTP/1.1\r\nHost: a\r\n{fields}\r\n"), "200", "hello");
    let request = backend.request();
    assert!(request.matches("refix:").count() <= 1, "{request}");
    field(&request, "x-forwarded-prefix").map(str::to_owned)
}

#[test]
fn a_backend_is_told_which_prefix_is_stripped() {
    let check = |is_trusted, fields: &str, expect| {
        assert_eq!(prefix_sent(stripped, is_trusted, fields).as_deref(), expect, "{fields:?}");
    };
    check(false, "", Some("/app"));
    check(false, "X-Forwarded-Prefix: /forged\r\n", Some("/app"));
    check(true, "X-Forwarded-Prefix: /outer\r\n", Some("/outer/app"));
    check(true, "X-Forwarded-Prefix: /outer/\r\n", Some("/outer/app"));
    check(true, "X-Forwarded-Prefix: a, /b\r\n", Some("/app"));
    let whole: fn(&mut ProxySpec) = |_| {};
    assert_eq!(prefix_sent(whole, false, "X-Forwarded-Prefix: /forged\r\n"), None);
    assert_eq!(prefix_sent(whole, true, "X-Forwarded-Prefix: /outer\r\n").as_deref(), Some("/outer"));
    let removed = |proxy: &mut ProxySpec| {
        (proxy.strip_prefix, proxy.remove_headers) = (true, vec!["x-forwarded-prefix".to_owned()]);
    };
    assert_eq!(prefix_sent(removed, false, ""), None);
}

#[test]
fn a_path_with_the_prefix_of_an_outer_proxy_stays() {
    let backend = FakeBackend::replying(
        "HTTP/1.1 200 OK\r\nLocation: /outer/app/login\r\nContent-Length: 5\r\n\r\nhello",
    );
    let networks = vec!["127.0.0.0/8".parse().unwrap()];
    let trusted = TrustedProxies { networks, unix: false, header: ClientHeader::XForwardedFor };
    let site = Site::new().proxy("/app/*", backend.options(), stripped);
    let server = site.tune(|options| options.trusted_proxies = trusted).start();
    let mut peer = server.connect();
    peer.send("GET /app/a HTTP/1.1\r\nHost: a\r\nX-Forwarded-Prefix: /outer\r\n\r\n");
    assert_eq!(peer.expect("200", "hello").field("location"), Some("/outer/app/login"));
}

#[test]
fn after_scripts_get_the_fields_of_the_backend_and_their_own_fields_stay() {
    let backend = FakeBackend::replying(
        "HTTP/1.1 200 OK\r\nSet-Cookie: sid=1; Path=/\r\nSet-Cookie: csrf=2; Path=/\r\nLocation: /old\r\n\
         Content-Location: /a\r\nContent-Length: 5\r\n\r\nhello",
    );
    let site = Site::new().proxy("/app/*", backend.options(), |proxy| {
        proxy.strip_prefix = true;
        proxy.set_reply_headers = vec![("Refresh".to_owned(), "1; url=/set".to_owned())];
    });
    let after = "return { headers = {
        ['set-cookie'] = (string.gsub(reply.headers['set-cookie'], 'Path=/', 'Path=/app/', 1)),
        location = '/login' .. reply.headers.location } }";
    let server = site.after(after).start();
    let mut peer = server.connect();
    peer.send(APP.request);
    let reply = peer.expect("200", "hello");
    let names = ["location", "content-location", "refresh"];
    let expect = ["/login/old", "/app/a", "1; url=/set"].map(Some);
    assert_eq!(names.map(|name| reply.field(name)), expect);
    for cookie in ["sid=1; Path=/app/\r\n", "csrf=2; Path=/app/\r\n"] {
        assert!(reply.head.contains(cookie), "{cookie:?}: {}", reply.head);
    }
}

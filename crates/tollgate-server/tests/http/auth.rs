//! Tests of the credentials that a route asks for: passwords, named tokens, refusals, limits, and what
//! handlers, records and backends learn of the caller.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tollgate_log::Level;
use tollgate_server::{
    AnyOr, AuthSpec, CorsSpec, FailureLimit, LoadedFile, Method, Methods, Origins, Passwords, RateKey,
    Requirement, RouteAuth, RouteLimits, RouteSpec, Source, Tokens, token_line,
};

use crate::backend::{FakeBackend, field};
use crate::peer::{Peer, Reply};
use crate::site::{Running, Site};
use crate::throttles::hourly;

/// A vector of the crypt_blowfish test suite: the hash of "U*U".
const HASH: &str = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
pub(crate) const PASSWORD: &str = "U*U";

/// Returns credentials of no scheme, without a limit on failures.
pub(crate) fn spec(id: &str) -> AuthSpec {
    AuthSpec {
        id: id.to_owned(),
        section: None,
        basic: None,
        bearer: None,
        jwt: None,
        realm: "staff".to_owned(),
        failures: None,
        name_header: None,
    }
}

/// Accepts the password of `anna` and `bert`.
pub(crate) fn basic() -> AuthSpec {
    let passwords = Passwords::parse(&format!("anna:{HASH}\nbert:{HASH}\n")).unwrap();
    let basic = LoadedFile { file: "users".into(), content: Arc::new(passwords) };
    AuthSpec { basic: Some(basic), ..spec("basic") }
}

/// Accepts a token of `ci`. Returns the token too.
fn bearer() -> (AuthSpec, String) {
    let made = token_line("ci").unwrap().unwrap();
    let tokens = LoadedFile { file: "tokens".into(), content: Arc::new(Tokens::parse(&made.line).unwrap()) };
    (AuthSpec { bearer: Some(tokens), ..spec("bearer") }, made.token)
}

/// Makes a route ask for credentials.
pub(crate) fn needs(spec: AuthSpec) -> impl FnOnce(&mut RouteSpec) {
    |route| route.auth = Some(RouteAuth { spec: Arc::new(spec), requirement: Requirement::default() })
}

pub(crate) fn password(name: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{name}:{password}")))
}

fn token(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

pub(crate) fn asked(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

pub(crate) fn ask(server: &Running, fields: &str) -> Reply {
    let mut peer = server.connect();
    peer.send(asked(fields));
    peer.reply(false)
}

/// Returns the values of all `WWW-Authenticate` fields.
pub(crate) fn challenges(reply: &Reply) -> Vec<&str> {
    reply.head.lines().filter_map(|line| line.strip_prefix("WWW-Authenticate: ")).collect()
}

/// Returns how often a route refused a request for this reason.
pub(crate) fn refused(server: &Running, reason: &str) -> u64 {
    let status = server.watch().status();
    let of_route = |route: &tollgate_server::RouteStatus| {
        route.refusals.iter().find(|(name, _)| *name == reason).unwrap().1
    };
    status.routes.iter().map(of_route).sum()
}

#[test]
fn a_request_without_valid_credentials_gets_the_challenges_of_its_route() {
    let (tokens, secret) = bearer();
    let server = Site::new()
        .handler("/", "return req.auth.scheme .. ' ' .. req.auth.name")
        .tune_route(needs(AuthSpec { basic: basic().basic, ..tokens }))
        .start();
    let basic = "Basic realm=\"staff\", charset=\"UTF-8\"";
    let bare = "Bearer realm=\"staff\"";
    let error = |text: &str| format!("{bare}, error=\"invalid_token\", error_description=\"{text}\"");
    let form = error("the credentials do not have the form of their scheme");
    let wrong = error("the name or the password is wrong");
    for (fields, expected) in [
        (String::new(), bare.to_owned()),
        ("Authorization: Digest a=\"b\"\r\n".to_owned(), bare.to_owned()),
        (password("anna", "U*V"), wrong.clone()),
        (password("carl", PASSWORD), wrong),
        (token("tollgate_wrong"), error("the token is unknown")),
        (token(""), form.clone()),
        ("Authorization: Basic Og==\r\n".to_owned(), form.clone()),
        ("Authorization: Basic !\r\n".to_owned(), form),
        (
            format!("{}{}", token(&secret), token(&secret)),
            error("the request has more than one Authorization field"),
        ),
        (token(&"x".repeat(9000)), error("the credentials are too long, limit 8192 bytes")),
    ] {
        let reply = ask(&server, &fields);
        assert_eq!((reply.status, challenges(&reply)), (401, vec![expected.as_str(), basic]), "{fields}");
    }
    assert_eq!(refused(&server, "credentials"), 10);
    for (fields, expected) in [
        (password("anna", PASSWORD), "basic anna"),
        (password("bert", PASSWORD), "basic bert"),
        (token(&secret), "bearer ci"),
        (format!("authorization: bEARER {secret}\r\n"), "bearer ci"),
    ] {
        assert_eq!(ask(&server, &fields).content, expected, "{fields}");
    }
}

#[test]
fn the_caller_becomes_columns_and_no_refused_request_is_recorded() {
    let (tokens, secret) = bearer();
    let columns =
        ["name text request.auth.name", "how text request.auth.scheme", "role text request.auth.claims.role"];
    let site = Site::new().stream("s", Level::Synced, &columns);
    let site = site.handler("/", "return 'x'").tune_route(needs(AuthSpec { basic: basic().basic, ..tokens }));
    let server = site.start();
    assert_eq!(ask(&server, &password("anna", PASSWORD)).status, 200);
    assert_eq!(ask(&server, "").status, 401);
    assert_eq!(ask(&server, &token("wrong")).status, 401);
    assert_eq!(ask(&server, &token(&secret)).status, 200);
    assert_eq!(server.records(), ["name=anna how=basic role=null", "name=ci how=bearer role=null"]);
}

#[test]
fn the_content_of_a_request_waits_for_its_credentials() {
    let server = Site::new().handler("/", "return req:body()").tune_route(needs(basic())).start();
    let post = |fields: &str, expect: &str| {
        format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: 3\r\n{expect}\r\n")
    };
    let mut peer = server.connect();
    peer.send(post(&password("anna", "wrong"), "Expect: 100-continue\r\n"));
    assert_eq!(peer.reply(false).status, 401);
    let mut peer = server.connect();
    peer.send(post(&password("anna", PASSWORD), "Expect: 100-continue\r\n"));
    assert_eq!(peer.through(b"\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    peer.send("abc");
    peer.expect("200", "abc");
    // The password is checked by a thread, and the requests after it keep their order.
    let mut peer = server.connect();
    let first = post(&password("bert", PASSWORD), "") + "one";
    let second = post(&password("bert", "wrong"), "") + "two";
    let third = post(&password("anna", PASSWORD), "") + "six";
    peer.send(format!("{first}{second}{third}"));
    peer.expect("200", "one");
    assert_eq!(peer.reply(false).status, 401);
    peer.expect("200", "six");
}

#[test]
fn a_fixed_reply_needs_credentials_too() {
    let (tokens, secret) = bearer();
    let server = Site::new().fixed("/", "hello").tune_route(needs(tokens)).start();
    let mut peer = server.connect();
    peer.send([asked(&token(&secret)), asked(""), asked(&token(&secret))].concat());
    peer.expect("200", "hello");
    assert_eq!(peer.reply(false).status, 401);
    peer.expect("200", "hello");
    let by_password = Site::new().fixed("/", "hello").tune_route(needs(basic())).start();
    let mut peer = by_password.connect();
    peer.send([asked(&password("anna", PASSWORD)), asked(&password("anna", PASSWORD)), asked("")].concat());
    peer.expect("200", "hello");
    peer.expect("200", "hello");
    assert_eq!(peer.reply(false).status, 401);
}

fn few_failures() -> AuthSpec {
    AuthSpec { failures: Some(FailureLimit { count: 3, period: Duration::from_hours(1) }), ..basic() }
}

fn from(server: &Running, last: u8, fields: &str) -> Reply {
    let mut peer = Peer::connect_from(Ipv4Addr::new(127, 0, 0, last), server.address());
    peer.send(asked(fields));
    peer.reply(false)
}

#[test]
fn a_client_with_many_wrong_passwords_waits() {
    let site = || Site::new().handler("/", "return 'in'").tune_route(needs(few_failures()));
    let mut server = site().start();
    let options = site().options;
    for _ in 0..20 {
        assert_eq!(from(&server, 2, "").status, 401, "a request without credentials is no failure");
    }
    for _ in 0..3 {
        assert_eq!(from(&server, 2, &password("anna", "wrong")).status, 401);
    }
    let reply = from(&server, 2, &password("anna", PASSWORD));
    let fields = ["retry-after", "tollgate-outcome", "www-authenticate"].map(|name| reply.field(name));
    assert_eq!((reply.status, fields), (429, [Some("1200"), Some("refused"), None]));
    assert_eq!(from(&server, 3, &password("anna", PASSWORD)).content, "in");
    assert_eq!((refused(&server, "failed_logins"), server.refusals("failed_logins")), (1, 1));
    // A reload does not forget the failures.
    let script = server.folder().join("route0.luau");
    let mut options = options;
    options.routes[0].handler =
        tollgate_server::HandlerSpec::Script { file: script, root: server.folder().to_owned() };
    server.reload(options);
    assert_eq!(from(&server, 2, &password("anna", PASSWORD)).status, 429);
    server = site().start();
    assert_eq!(from(&server, 2, &password("anna", PASSWORD)).status, 200);
}

#[test]
fn a_preflight_needs_no_credentials() {
    let origin = "Origin: https://a.example\r\n";
    let preflight = format!("{origin}Access-Control-Request-Method: GET\r\n");
    let options = |fields: &str| format!("OPTIONS / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let cors = CorsSpec {
        origins: Origins::Any,
        methods: None,
        headers: AnyOr::Any,
        expose: AnyOr::Listed(Vec::new()),
        credentials: false,
        max_age: Duration::from_secs(600),
    };
    let methods = Methods::from_iter([Method::Get, Method::Options]);
    let site = || Site::new().handler("/", "return req.auth == nil and 'unknown' or req.auth.name");
    let site = || site().tune_route(needs(basic())).tune_route(|route| route.methods = Some(methods));
    let server = site().tune_route(|route| route.cors = Some(cors)).start();
    server.check(&options(&preflight), "204", "");
    let reply = ask(&server, origin);
    assert_eq!((reply.status, reply.field("access-control-allow-origin")), (401, Some("*")));
    // A route that answers preflights itself gets them, but no other request of the method.
    let server = site().start();
    server.check(&options(&preflight), "200", "unknown");
    let mut peer = server.connect();
    peer.send([options(origin), options("")].concat());
    assert_eq!([peer.reply(false).status, peer.reply(false).status], [401, 401]);
}

#[test]
fn only_named_callers_may_use_a_route() {
    let site = Site::new().handler("/", "return req.auth.name").tune_route(needs(basic()));
    let server =
        site.tune_route(|route| route.auth.as_mut().unwrap().requirement.names = vec!["anna".into()]);
    let server = server.start();
    assert_eq!(ask(&server, &password("anna", PASSWORD)).content, "anna");
    let reply = ask(&server, &password("bert", PASSWORD));
    assert_eq!((reply.status, challenges(&reply)), (403, vec![]));
    assert_eq!(refused(&server, "forbidden"), 1);
    let (tokens, secret) = bearer();
    let site = Site::new().handler("/", "return req.auth.name").tune_route(needs(tokens));
    let server =
        site.tune_route(|route| route.auth.as_mut().unwrap().requirement.names = vec!["anna".into()]);
    let reply = ask(&server.start(), &token(&secret));
    let challenge = "Bearer realm=\"staff\", error=\"insufficient_scope\", \
                     error_description=\"the caller may not use this route\"";
    assert_eq!((reply.status, challenges(&reply)), (403, vec![challenge]));
}

#[test]
fn each_caller_has_its_rate() {
    let limits = RouteLimits {
        concurrency_max: None,
        rates: vec![hourly(2, RateKey::Named(Source::RequestAuthName))],
    };
    let site = Site::new().handler("/", "return 'in'").tune_route(needs(basic()));
    let server = site.tune_route(|route| route.limits = limits).start();
    let statuses = |name: &str| [(); 4].map(|()| ask(&server, &password(name, PASSWORD)).status);
    assert_eq!((statuses("anna"), statuses("bert")), ([200, 200, 429, 429], [200, 200, 429, 429]));
    // The rate counts callers only, so requests without one are refused for their credentials.
    assert_eq!(ask(&server, "").status, 401);
}

#[test]
fn a_backend_gets_the_name_of_the_caller_from_the_server_alone() {
    let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let spec = AuthSpec { name_header: Some("X-User".to_owned()), ..basic() };
    let server = Site::new().proxy("/*", backend.options(), |_| ()).tune_route(needs(spec)).start();
    let forged = "X-User: root\r\nx-user: admin\r\n";
    assert_eq!(ask(&server, &format!("{forged}{}", password("anna", PASSWORD))).status, 200);
    let request = backend.request();
    assert_eq!(
        (field(&request, "x-user"), request.to_ascii_lowercase().matches("x-user").count()),
        (Some("anna"), 1)
    );
    // A preflight has no caller, so the backend gets no name.
    let preflight = format!("Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n{forged}");
    server.check(&format!("OPTIONS / HTTP/1.1\r\nHost: a\r\n{preflight}\r\n"), "200", "");
    assert!(!backend.request().to_ascii_lowercase().contains("x-user"));
}

#[test]
fn a_handler_cannot_pass_a_request_to_a_route_with_other_credentials() {
    let site = |first: Option<AuthSpec>, second: AuthSpec| {
        let site =
            Site::new().handler("/*", "return 'secret of ' .. req.auth.name").tune_route(needs(second));
        let site = site.handler("/", "return tollgate.pass");
        match first {
            Some(first) => site.tune_route(needs(first)),
            None => site,
        }
    };
    let fields = password("anna", PASSWORD);
    let open = site(None, basic()).start();
    assert_eq!(ask(&open, "").status, 403);
    assert_eq!(ask(&open, &fields).status, 403);
    let other = site(Some(basic()), AuthSpec { id: "other".to_owned(), ..basic() }).start();
    assert_eq!(ask(&other, &fields).status, 403);
    // Both routes name the same section.
    let mut shared = site(Some(basic()), basic());
    let spec = shared.options.routes[0].auth.as_ref().unwrap().spec.clone();
    shared.options.routes[1].auth.as_mut().unwrap().spec = spec;
    assert_eq!(ask(&shared.start(), &fields).content, "secret of anna");
    let mut strict = site(Some(basic()), basic());
    let spec = strict.options.routes[0].auth.as_ref().unwrap().spec.clone();
    strict.options.routes[1].auth.as_mut().unwrap().spec = spec;
    strict.options.routes[0].auth.as_mut().unwrap().requirement.names = vec!["bert".into()];
    assert_eq!(ask(&strict.start(), &fields).status, 403);
}

#[test]
fn limits_by_address_come_before_the_credentials() {
    let limits = RouteLimits { concurrency_max: None, rates: vec![hourly(2, RateKey::Client)] };
    let site = Site::new().handler("/", "return 'in'").tune_route(needs(basic()));
    let server = site.tune_route(|route| route.limits = limits).start();
    let mut peer = server.connect();
    peer.send([asked(""), asked(""), asked(&password("anna", PASSWORD))].concat());
    let statuses = [(); 3].map(|()| peer.reply(false).status);
    assert_eq!(statuses, [401, 401, 429]);
}

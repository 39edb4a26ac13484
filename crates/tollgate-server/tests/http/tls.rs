//! Listeners with TLS: certificates by name, versions, resumed sessions, long replies, ends, and handshakes
//! that fail.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ALL_VERSIONS, ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, StreamOwned};
use sha2::{Digest, Sha256};
use tollgate_log::Level;
use tollgate_server::{
    CertificateFiles, ClientAuth, ClientAuthOptions, ClientCertificateRule, Hsts, ListenSpec, MinVersion,
    ServerTls, ServerTlsOptions, UnknownName,
};
use tollgate_tls::{ValidationCertificate, certificates, private_key, set_validations};

use crate::backend::{FakeBackend, field};
use crate::listening::of_client;
use crate::peer::PATIENCE;
use crate::site::{Running, Site};
use crate::terminator::{Authority, LONG};
use crate::tls_client::trusting;

type Client = StreamOwned<ClientConnection, TcpStream>;

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// An authority with certificates of servers, and a client that trusts it.
struct Tls {
    authority: Authority,
    client: Arc<ClientConfig>,
    options: ServerTlsOptions,
}

impl Tls {
    /// Issues a certificate for `localhost`, and one for `other.test`.
    fn new() -> Self {
        let authority = Authority::new();
        let files = [authority.server(), authority.other("DNS:other.test")]
            .map(|side| CertificateFiles { certificate: side.certificate, key: side.key });
        let mut client = trusting(&authority, ALL_VERSIONS).with_no_client_auth();
        client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let options = ServerTlsOptions { certificates: files.into(), ..ServerTlsOptions::default() };
        Self { authority, client: Arc::new(client), options }
    }

    /// Makes the first address of the site use TLS.
    fn on(&self, site: Site) -> Site {
        let tls = ServerTls::load(self.options.clone()).unwrap();
        site.tune(|options| {
            options.listen = vec![ListenSpec { tls: true, ..SocketAddr::from(([127, 0, 0, 1], 0)).into() }];
            options.tls = Some(Arc::new(tls));
        })
    }

    fn connect(&self, server: &Running, name: &'static str) -> Client {
        let session = ClientConnection::new(self.client.clone(), ServerName::try_from(name).unwrap());
        StreamOwned::new(session.unwrap(), tcp(server))
    }
}

fn tcp(server: &Running) -> TcpStream {
    let socket = TcpStream::connect(server.address()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

/// Reads until the content has ended with `end`.
fn read_until(client: &mut Client, end: &[u8]) -> Vec<u8> {
    let (mut came, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    while !came.ends_with(end) {
        let bytes = client.read(&mut buffer).unwrap();
        assert!(bytes > 0, "the connection ended after {}", came.escape_ascii());
        came.extend_from_slice(&buffer[..bytes]);
    }
    came
}

fn handshakes(server: &Running, end: &str) -> u64 {
    let all = server.watch().status().handshakes;
    all.into_iter().find(|(name, _)| *name == end).unwrap().1
}

/// Waits until a number of handshakes had this result.
fn expect_handshakes(server: &Running, end: &str, count: u64) {
    let begun = Instant::now();
    while handshakes(server, end) != count {
        assert!(begun.elapsed() < PATIENCE, "{end}: {:?}", server.watch().status().handshakes);
        std::thread::yield_now();
    }
}

#[test]
fn requests_are_answered_over_tls_and_sessions_are_resumed() {
    let tls = Tls::new();
    let server = tls.on(Site::new().fixed("/a", "hello")).start();
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let mut client = tls.connect(&server, "localhost");
        client.write_all(&[GET, GET].concat()).unwrap();
        let replies = String::from_utf8(read_until(&mut client, b"hello")).unwrap();
        let replies = match replies.matches("HTTP/1.1 200 OK\r\n").count() {
            2 => replies,
            _ => replies + std::str::from_utf8(&read_until(&mut client, b"hello")).unwrap(),
        };
        assert_eq!(replies.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{replies}");
        assert_eq!(client.conn.handshake_kind(), Some(kind));
        assert_eq!(client.conn.protocol_version(), Some(ProtocolVersion::TLSv1_3));
        assert_eq!(client.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    }
    expect_handshakes(&server, "full", 1);
    expect_handshakes(&server, "resumed", 1);
}

#[test]
fn the_name_of_the_client_chooses_the_certificate() {
    let tls = Tls::new();
    let server = tls.on(Site::new().fixed("/a", "hello")).start();
    for name in ["localhost", "other.test"] {
        let mut client = tls.connect(&server, name);
        client.write_all(GET).unwrap();
        read_until(&mut client, b"hello");
    }
    let mut client = tls.connect(&server, "unknown.test");
    assert!(client.write_all(GET).is_err(), "the first certificate is for another name");
    expect_handshakes(&server, "refused", 1);
}

#[test]
fn an_unknown_name_can_be_refused_and_an_old_version_too() {
    let mut tls = Tls::new();
    tls.options.unknown_name = UnknownName::Refused;
    tls.options.min_version = MinVersion::Tls13;
    let server = tls.on(Site::new().fixed("/a", "hello")).start();
    let mut client = tls.connect(&server, "unknown.test");
    assert!(client.write_all(GET).is_err());
    expect_handshakes(&server, "no_certificate", 1);
    let old = trusting(&tls.authority, &[&rustls::version::TLS12]).with_no_client_auth();
    let session = ClientConnection::new(Arc::new(old), ServerName::try_from("localhost").unwrap());
    let mut client = StreamOwned::new(session.unwrap(), tcp(&server));
    assert!(client.write_all(GET).is_err());
    expect_handshakes(&server, "protocol", 1);
}

#[test]
fn long_replies_of_memory_and_files_arrive_whole() {
    let tls = Tls::new();
    let content: Vec<u8> = (0..175_001u32).flat_map(u32::to_be_bytes).collect();
    let site = Site::new().files("/files/*", |_| {}).file("public/long.bin", &content).script(
        "/script",
        "return function(req) return { body = string.rep('0123456789abcdef', 40000) } end",
    );
    let server = tls.on(site).start();
    let mut client = tls.connect(&server, "localhost");
    client.write_all(b"GET /files/long.bin HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let tail = &content[content.len() - 100..];
    let reply = read_until(&mut client, tail);
    assert!(reply.ends_with(&content), "the file arrives whole");
    client.write_all(b"GET /script HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    client.read_to_end(&mut reply).unwrap();
    assert!(reply.ends_with("0123456789abcdef".repeat(40_000).as_bytes()), "an announced end follows");
}

#[test]
fn content_up_to_the_end_has_an_announced_end_only_if_it_is_complete() {
    let tls = Tls::new();
    let script = "return { write = function(out)
            out:write('content')
            if req.path == '/fails' then error('on purpose') end
        end }";
    let server = tls.on(Site::new().handler("/*", script)).start();
    for (path, is_complete) in [("/ends", true), ("/fails", false)] {
        let mut client = tls.connect(&server, "localhost");
        client.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
        let mut reply = Vec::new();
        // rustls reports an end without announcement as an error.
        assert_eq!(client.read_to_end(&mut reply).is_ok(), is_complete, "{path}");
        assert!(reply.starts_with(b"HTTP/1.1 200 OK\r\n") || !is_complete, "{}", reply.escape_ascii());
    }
}

#[test]
fn a_client_that_takes_no_more_of_its_reply_is_cut_off() {
    let tls = Tls::new();
    let [short, long] = [300, 300_000].map(Duration::from_millis);
    let site = Site::new().files("/*", |_| {}).file("public/a", vec![b'x'; 30 << 20]);
    let site = tls.on(site).tune(|options| {
        options.connection.write_timeout = short;
        options.drain_timeout = long;
    });
    let server = site.start();
    let mut client = tls.connect(&server, "localhost");
    client.write_all(GET).unwrap();
    client.read_exact(&mut [0; 64]).unwrap();
    let begun = Instant::now();
    // The drain ends when no connection remains, so the write deadline has ended this one.
    drop(server.drain());
    assert!((short..long).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    let ended = client.read_to_end(&mut Vec::new());
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_proxied_request_says_that_it_came_over_tls() {
    let tls = Tls::new();
    let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let server = tls.on(Site::new().proxy("/a", backend.options(), |_| {})).start();
    let mut client = tls.connect(&server, "localhost");
    client.write_all(GET).unwrap();
    read_until(&mut client, b"hello");
    let seen = backend.request();
    assert_eq!(field(&seen, "x-forwarded-proto"), Some("https"), "{seen}");
    assert!(field(&seen, "forwarded").is_some_and(|value| value.ends_with(";proto=https")), "{seen}");
}

#[test]
fn an_absolute_target_over_tls_must_have_the_scheme_https() {
    let tls = Tls::new();
    let server = tls.on(Site::new().fixed("/a", "hello")).start();
    let mut client = tls.connect(&server, "localhost");
    for host in ["localhost", "localhost:443"] {
        let request = format!("GET https://localhost/a HTTP/1.1\r\nHost: {host}\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        assert!(read_until(&mut client, b"hello").starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
    client.write_all(b"GET http://localhost/a HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    client.read_to_end(&mut reply).unwrap();
    assert!(reply.starts_with(b"HTTP/1.1 421 Misdirected Request\r\n"), "{}", reply.escape_ascii());
}

#[test]
fn a_policy_is_announced_over_tls_also_to_a_malformed_request() {
    let tls = Tls::new();
    let hsts = Hsts { max_age: Duration::from_hours(1), ..Hsts::default() };
    let site = tls.on(Site::new().fixed("/a", "hello")).tune(|options| options.https.hsts = Some(hsts));
    let server = site.start();
    let mut client = tls.connect(&server, "localhost");
    client.write_all(&[GET, b"\n\n"].concat()).unwrap();
    let mut replies = String::new();
    client.read_to_string(&mut replies).unwrap();
    assert!(replies.contains("HTTP/1.1 200 OK") && replies.contains("HTTP/1.1 400 Bad Request"), "{replies}");
    assert_eq!(replies.matches("\r\nStrict-Transport-Security: max-age=3600\r\n").count(), 2, "{replies}");
}

/// Asks each client for a certificate of the authority.
fn asking(tls: &mut Tls, auth: ClientAuth) {
    let authorities = tls.authority.path("ca.pem");
    tls.options.clients = Some(ClientAuthOptions { authorities, revoked: Vec::new(), auth });
}

/// Makes a client with a certificate for these names.
fn client_of(tls: &Tls, name: &str, names: &str) -> (Arc<ClientConfig>, Vec<u8>) {
    let side = tls.authority.issue(name, names, LONG);
    let chain = tollgate_tls::certificates(&side.certificate).unwrap();
    let digest = Sha256::digest(&chain[0]).to_vec();
    let key = tollgate_tls::private_key(&side.key).unwrap();
    let client = trusting(&tls.authority, ALL_VERSIONS).with_client_auth_cert(chain, key).unwrap();
    (Arc::new(client), digest)
}

fn get(client: &mut Client, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn scripts_and_records_have_the_certificate_of_the_client() {
    let mut tls = Tls::new();
    asking(&mut tls, ClientAuth::Required);
    let columns = [
        "version text request.tls.version",
        "cipher text request.tls.cipher",
        "sni text request.tls.sni",
        "subject text request.tls.client_subject",
        "san text request.tls.client_san",
        "sans json request.tls.client_san",
        "digest text request.tls.client_fingerprint",
    ];
    let body = "local c = req.client_certificate
                local names = table.concat(c.names, ' ')
                return `{c.subject} {names} {c.fingerprint} {string.format('%d', c.not_after)}`";
    let site = Site::new().stream("s", Level::Written, &columns).handler("/who", body);
    let server = tls.on(site).start();
    let (client, digest) = client_of(&tls, "billing", "DNS:Billing.internal,IP:10.0.0.7");
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    tls.client = client;
    let reply = get(&mut tls.connect(&server, "localhost"), "/who");
    // 2099-12-31T00:00:00Z.
    let expected = format!("\r\n\r\nCN=billing dns:billing.internal ip:10.0.0.7 {digest} 4102358400000000");
    assert!(reply.ends_with(&expected), "{reply}");
    let session = "version=1.3 cipher=TLS_AES_256_GCM_SHA384 sni=localhost subject=CN=billing";
    let names = r#"san=dns:billing.internal, ip:10.0.0.7 sans=["dns:billing.internal","ip:10.0.0.7"]"#;
    assert_eq!(server.records(), [format!("{session} {names} digest={digest}")]);
}

#[test]
fn a_client_without_a_certificate_is_refused_in_the_handshake_if_it_needs_one() {
    let mut tls = Tls::new();
    asking(&mut tls, ClientAuth::Required);
    let server = tls.on(Site::new().fixed("/a", "hello")).start();
    let mut client = tls.connect(&server, "localhost");
    // In TLS 1.3 the client learns of the refusal only after its part of the handshake.
    let ended = client.write_all(GET).and_then(|()| client.read(&mut [0; 64]));
    assert!(ended.is_err(), "{ended:?}");
    expect_handshakes(&server, "client_certificate", 1);
}

#[test]
fn a_route_accepts_certificates_by_name_or_digest_and_refuses_others() {
    let mut tls = Tls::new();
    asking(&mut tls, ClientAuth::Requested);
    let (billing, digest) = client_of(&tls, "billing", "DNS:billing.internal");
    let (reports, _) = client_of(&tls, "reports", "DNS:reports.internal");
    let rule = |names: &[&str], digests: &[&[u8]]| ClientCertificateRule {
        names: names.iter().map(|&name| name.to_owned()).collect(),
        fingerprints: digests
            .iter()
            .map(|digest| digest.iter().map(|byte| format!("{byte:02x}")).collect())
            .collect(),
    };
    let with = |site: Site, path, rule| {
        site.fixed(path, "served").tune_route(|route| route.client_certificate = Some(rule))
    };
    let site = Site::new().fixed("/open", "served");
    let site = with(site, "/any", rule(&[], &[]));
    let site = with(site, "/name", rule(&["dns:a", "dns:billing.internal"], &[]));
    let site = with(site, "/digest", rule(&["dns:a"], &[&digest]));
    let site = site.handler("/passed", "return tollgate.pass");
    let site = with(site, "/*", rule(&["dns:billing.internal"], &[]));
    let server = tls.on(site).start();
    let without = tls.client.clone();
    for (client, name, expected) in [
        (billing, "billing", [200, 200, 200, 200, 200]),
        (reports, "reports", [200, 200, 403, 403, 403]),
        (without, "none", [200, 403, 403, 403, 403]),
    ] {
        tls.client = client;
        let found = ["/open", "/any", "/name", "/digest", "/passed"].map(|path| {
            let reply = get(&mut tls.connect(&server, "localhost"), path);
            reply["HTTP/1.1 ".len()..][..3].parse::<u16>().unwrap()
        });
        assert_eq!(found, expected, "{name}");
    }
    let routes = server.watch().status().routes;
    let refused = routes.iter().flat_map(|route| &route.refusals);
    let refused: u64 =
        refused.filter(|(reason, _)| *reason == "client_certificate").map(|(_, count)| count).sum();
    assert_eq!(refused, 7);
}

#[test]
fn a_peer_without_tls_gets_an_alert_and_no_reply() {
    let tls = Tls::new();
    let server = tls.on(Site::new().fixed("/a", "hello")).start();
    let mut socket = tcp(&server);
    socket.write_all(GET).unwrap();
    let mut came = Vec::new();
    match socket.read_to_end(&mut came) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => {}
    }
    // Content type 21 is an alert (RFC 8446 section 5.1).
    assert_eq!(came.first(), Some(&21), "{}", came.escape_ascii());
    expect_handshakes(&server, "not_tls", 1);
}

#[test]
fn a_handshake_that_does_not_end_is_ended_and_counts_as_a_connection_before() {
    let tls = Tls::new();
    let site = tls.on(Site::new().fixed("/a", "hello"));
    let server =
        site.tune(|options| options.connection.handshake_timeout = Duration::from_millis(300)).start();
    let mut socket = tcp(&server);
    socket.write_all(&[22, 3, 1]).unwrap();
    let mut came = Vec::new();
    let ended = socket.read_to_end(&mut came);
    assert!(ended.is_ok_and(|bytes| bytes == 0) || came.is_empty());
    expect_handshakes(&server, "timeout", 1);
    let socket = tcp(&server);
    socket.shutdown(Shutdown::Both).unwrap();
    expect_handshakes(&server, "closed", 1);
}

#[test]
fn a_proxy_header_before_tls_reads_the_same_wherever_it_is_cut() {
    let tls = Tls::new();
    let site = tls.on(Site::new().handler("/a", "return tostring(req.remote_addr)"));
    let server = site.tune(|options| options.listen[0].proxy_protocol = true).start();
    let header = of_client();
    for cut in 0..header.len() + 16 {
        let name = ServerName::try_from("localhost").unwrap();
        let mut session = ClientConnection::new(tls.client.clone(), name).unwrap();
        let mut first = header.clone();
        session.write_tls(&mut first).unwrap();
        let mut socket = tcp(&server);
        socket.write_all(&first[..cut]).unwrap();
        socket.write_all(&first[cut..]).unwrap();
        let mut client = StreamOwned::new(session, socket);
        client.write_all(GET).unwrap();
        read_until(&mut client, b"203.0.113.9");
    }
}

#[test]
fn a_drain_ends_handshakes_and_lets_requests_end() {
    let tls = Tls::new();
    let server = tls.on(Site::new().fixed("/a", "hello")).start();
    let mut served = tls.connect(&server, "localhost");
    served.write_all(GET).unwrap();
    read_until(&mut served, b"hello");
    let mut silent = tcp(&server);
    while server.connections() < 2 {
        std::thread::yield_now();
    }
    drop(server.drain());
    let mut came = Vec::new();
    assert_eq!(served.read_to_end(&mut came).unwrap(), 0, "an announced end");
    assert!(silent.read_to_end(&mut came).map_or(true, |bytes| bytes == 0));
}

#[test]
fn a_validation_gets_its_own_certificate_and_no_request_is_served() {
    let tls = Tls::new();
    let server = tls.on(Site::new().fixed("/a", "hello")).start();
    let files = &tls.options.certificates[0];
    let certificate = certificates(&files.certificate).unwrap().remove(0);
    let answer = ValidationCertificate::new(certificate, private_key(&files.key).unwrap()).unwrap();
    set_validations([("localhost".to_owned(), answer)].into());
    let validator = |protocols: &[&[u8]], name: &'static str| {
        let mut config = (*tls.client).clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let session = ClientConnection::new(Arc::new(config), ServerName::try_from(name).unwrap());
        StreamOwned::new(session.unwrap(), tcp(&server))
    };
    let mut client = validator(&[b"acme-tls/1"], "localhost");
    client.write_all(GET).unwrap();
    assert_eq!(client.conn.alpn_protocol(), Some(&b"acme-tls/1"[..]));
    assert!(!matches!(client.read(&mut [0; 64]), Ok(1..)), "a validation ends with its handshake");
    // `other.test` has a certificate, but none for a validation.
    assert!(validator(&[b"acme-tls/1"], "other.test").write_all(GET).is_err());
    // A client that offers requests too does not validate.
    let mut client = validator(&[b"acme-tls/1", b"http/1.1"], "other.test");
    client.write_all(GET).unwrap();
    read_until(&mut client, b"hello");
    assert_eq!(client.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
}

//! Pebble, the ACME server of Let's Encrypt for tests, with a DNS server that leads every name to this
//! machine. Pebble forgets everything when it ends.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use crate::program::{App, Running, eventually, printed};

/// The programs that `make pebble` builds.
const PROGRAMS: &str = "../../target/tools/pebble-2.10.3/bin";
/// The external account that a Pebble with `needs_external_account` knows.
pub(crate) const EXTERNAL_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

/// The ports of servers and of Pebble.
const FREE_PORTS: RangeInclusive<u16> = 20_000..=32_000;

/// How Pebble behaves.
#[derive(Clone, Copy, Default)]
pub(crate) struct Behaviour {
    /// The share of good nonces that Pebble refuses, in percent.
    pub(crate) nonces_refused: u8,
    pub(crate) needs_external_account: bool,
}

/// The addresses of Pebble and of the server that it checks. They stay the same when Pebble starts again.
pub(crate) struct Place {
    folder: TempDir,
    pub(crate) directory: SocketAddr,
    management: SocketAddr,
    names: SocketAddr,
    /// The address of the API that sets and removes records of names.
    pub(crate) provider: SocketAddr,
    /// The address with TLS of the server.
    pub(crate) tls: SocketAddr,
    /// The address without TLS of the server.
    pub(crate) plain: SocketAddr,
}

/// A running Pebble. Dropping this value kills it.
pub(crate) struct Pebble([Child; 2]);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self {
            folder: TempDir::new().unwrap(),
            directory: free(),
            management: free(),
            names: free(),
            provider: free(),
            tls: free(),
            plain: free(),
        };
        let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=pebble \
                         -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
                         -keyout key.pem -out ca.pem";
        let mut command = Command::new("openssl");
        let output =
            command.args(arguments.split_whitespace()).current_dir(place.folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", printed(&output));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts Pebble with an empty state.
    pub(crate) fn start(&self, behaviour: Behaviour) -> Pebble {
        let mut config = json!({
            "listenAddress": self.directory.to_string(),
            "managementListenAddress": self.management.to_string(),
            "certificate": self.path("ca.pem"),
            "privateKey": self.path("key.pem"),
            "httpPort": self.plain.port(),
            "tlsPort": self.tls.port(),
            "retryAfter": { "authz": 0, "order": 0 },
            "keyAlgorithm": "ecdsa",
            "externalAccountBindingRequired": behaviour.needs_external_account,
            "profiles": {
                "default": { "description": "90 days", "validityPeriod": 7_776_000 },
                "minute": { "description": "a minute", "validityPeriod": 60 },
            },
        });
        if behaviour.needs_external_account {
            config["externalAccountMACKeys"] = json!({ "kid-1": EXTERNAL_KEY });
        }
        fs::write(self.path("pebble.json"), json!({ "pebble": config }).to_string()).unwrap();
        let names = self.names.to_string();
        let mut dns = program("pebble-challtestsrv");
        dns.args(["-dnsserver", &names, "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-http01", ""]);
        dns.args(["-https01", "", "-tlsalpn01", "", "-doh", "", "-management", &self.provider.to_string()]);
        let mut pebble = program("pebble");
        pebble.args(["-strict", "-dnsserver", &names, "-config"]).arg(self.path("pebble.json"));
        pebble.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_AUTHZREUSE", "0");
        pebble.env("PEBBLE_WFE_NONCEREJECT", behaviour.nonces_refused.to_string());
        dns.stdout(Stdio::null());
        pebble.stdout(fs::File::create(self.path("pebble.log")).unwrap());
        let started = Pebble([dns, pebble].map(|mut command| {
            command.stderr(Stdio::null()).spawn().unwrap_or_else(|error| {
                panic!("{}: {error}: `make pebble` builds it", command.get_program().display())
            })
        }));
        for address in [self.directory, self.management, self.provider] {
            eventually("Pebble listens", || TcpStream::connect(address).ok());
        }
        started
    }

    /// Returns `[server]` and `[acme]` of an app.
    pub(crate) fn config(&self, domains: &str, further: &str) -> String {
        format!(
            "[server]\nlisten = [\"{}\", {{ address = \"{}\", tls = true }}]\n[acme]\ndomains = [{domains}]\n\
             terms_agreed = true\nemail = \"me@example.com\"\ndirectory = \"https://{}/dir\"\nca_file = {:?}\n\
             {further}\n[[route]]\npath = \"/*\"\nreply = {{ body = \"hello\" }}\n",
            self.plain,
            self.tls,
            self.directory,
            self.path("ca.pem"),
        )
    }

    /// Returns the number of accounts that the present Pebble has, as its log reports it.
    pub(crate) fn accounts(&self) -> usize {
        let log = fs::read_to_string(self.path("pebble.log")).unwrap();
        let counts =
            log.lines().filter_map(|line| line.split_once("There are now ")?.1.split_once(" accounts"));
        counts.map(|(count, _)| count.parse().unwrap()).max().unwrap_or_default()
    }

    /// Returns whether the name server has a TXT record with this name (RFC 1035 section 4).
    pub(crate) fn has_record(&self, name: &str) -> bool {
        let mut question = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0".to_vec();
        for label in name.split('.') {
            question.push(u8::try_from(label.len()).unwrap());
            question.extend(label.bytes());
        }
        question.extend(b"\0\0\x10\0\x01");
        eventually("the name server answers", || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            socket.send_to(&question, self.names).unwrap();
            let mut answer = [0; 512];
            let bytes = socket.recv(&mut answer).ok()?;
            assert!(bytes > 12);
            Some(u16::from_be_bytes([answer[6], answer[7]]) > 0)
        })
    }

    /// Writes the authority of the certificates that the present Pebble issues.
    fn authority(&self) -> PathBuf {
        let file = self.path("issuer.pem");
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--fail", "--cacert"]).arg(self.path("ca.pem")).arg("-o").arg(&file);
        let output = curl.arg(format!("https://{}/roots/0", self.management)).output().unwrap();
        assert!(output.status.success(), "{}", printed(&output));
        file
    }

    /// Returns whether a client that trusts only Pebble gets a page from `https://NAME/`.
    pub(crate) fn is_trusted(&self, name: &str) -> bool {
        let (authority, port) = (self.authority(), self.tls.port());
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "60", "--resolve", &format!("{name}:{port}:127.0.0.1"), "--cacert"]);
        let output = curl.arg(authority).arg(format!("https://{name}:{port}/")).output().unwrap();
        output.status.success() && output.stdout == b"hello"
    }
}

impl Pebble {
    /// Stops the ACME server, or lets it continue. Its connections stay open.
    pub(crate) fn signal(&self, signal: Signal) {
        let [_, pebble] = &self.0;
        kill_process(Pid::from_child(pebble), signal).unwrap();
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A program that has ended needs no signal.
            drop(child.kill());
            child.wait().unwrap();
        }
    }
}

fn program(name: &str) -> Command {
    Command::new(Path::new(PROGRAMS).join(name))
}

/// Returns an address that is free for TCP and for UDP, and that no other call gets.
///
/// Its port is below the range of ports that Linux chooses for others (`ip_local_port_range` of ip(7)). No
/// other test can therefore get it while a server is down.
fn free() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(*FREE_PORTS.start());
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(FREE_PORTS.contains(&port), "no port is left");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

/// Waits until a server has a certificate of Pebble for a name.
pub(crate) fn expect_trusted(place: &Place, server: &Running, name: &str) {
    eventually("the certificate serves", || {
        assert!(!server.logged().contains("panicked"), "{}", server.logged());
        place.is_trusted(name).then_some(())
    });
}

/// Fetches a page by HTTPS, with any certificate.
pub(crate) fn expect_served(place: &Place) {
    let mut curl = Command::new("curl");
    let output =
        curl.args(["-sSk", "--max-time", "60", &format!("https://{}/", place.tls)]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello", "{}", printed(&output));
}

/// Returns what the status says of the certificates.
pub(crate) fn certificates(app: &App) -> Vec<serde_json::Value> {
    let status: serde_json::Value = app.succeed(&["status", "--json"]).parse().unwrap();
    status["certificates"].as_array().unwrap().clone()
}

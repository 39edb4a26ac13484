//! A real TLS server in front of any backend, with certificates that openssl creates.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::server::WebPkiClientVerifier;
use rustls::{
    HandshakeKind, ProtocolVersion, RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion,
};
use socket2::SockRef;
use tempfile::TempDir;
use tollgate_server::{BackendOptions, ClientIdentity, TlsFiles, TlsOptions};

use crate::peer::PATIENCE;

const CONFIG: &str = "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\ndefault_md=sha256\n\
                      unique_subject=no\npolicy=p\n[p]\ncommonName=supplied\n";
pub(crate) const LONG: [&str; 2] = ["20200101000000Z", "20991231000000Z"];
pub(crate) const OVER: [&str; 2] = ["20200101000000Z", "20200102000000Z"];

/// A certificate authority, with its files in a new folder.
pub(crate) struct Authority {
    folder: TempDir,
}

/// The parts of a TLS server.
pub(crate) struct ServerSide {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
    /// Certificate of the authority of allowed clients. `None` allows any client.
    pub(crate) clients: Option<PathBuf>,
    pub(crate) ending: Ending,
}

/// End of the connection to the client after the backend has closed its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The connection ends with a close_notify.
    Told,
    /// The connection ends without a close_notify.
    Cut,
    /// The connection ends with a close_notify. In addition, the beginning of a record follows each part that
    /// the backend sends.
    Half,
}

/// The values that a client sent in a handshake.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shaken {
    pub(crate) version: Option<ProtocolVersion>,
    pub(crate) server_name: Option<String>,
    pub(crate) protocol: Option<Vec<u8>>,
    pub(crate) is_resumed: bool,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let authority = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(authority.path("ca.cnf"), CONFIG).unwrap();
        fs::write(authority.path("index"), "").unwrap();
        // Each authority has a unique name, so that no test confuses two authorities.
        let name = authority.folder.path().file_name().unwrap().display();
        authority.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} \
             -addext keyUsage=critical,keyCertSign -keyout ca.key -out ca.pem"
        ));
        authority
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn openssl(&self, arguments: &str) {
        let output = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("openssl: {error}; apt-get install -y openssl"));
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Issues a certificate with these names, and its key, as NAME.crt and NAME.key.
    pub(crate) fn issue(&self, name: &str, names: &str, time: [&str; 2]) -> ServerSide {
        self.sign(
            name,
            &format!("basicConstraints=CA:FALSE\nsubjectAltName={names}\n"),
            "-cert ca.pem -keyfile ca.key",
            time,
        )
    }

    fn sign(&self, name: &str, extensions: &str, signer: &str, [from, until]: [&str; 2]) -> ServerSide {
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ));
        fs::write(self.path(&format!("{name}.ext")), extensions).unwrap();
        self.sign_again(name, signer, [from, until])
    }

    /// Issues another certificate for the same name and key.
    fn sign_again(&self, name: &str, signer: &str, [from, until]: [&str; 2]) -> ServerSide {
        self.openssl(&format!(
            "ca -batch -notext -config ca.cnf {signer} -in {name}.csr -extfile {name}.ext \
             -startdate {from} -enddate {until} -out {name}.crt"
        ));
        self.side(name)
    }

    fn side(&self, name: &str) -> ServerSide {
        ServerSide {
            certificate: self.path(&format!("{name}.crt")),
            key: self.path(&format!("{name}.key")),
            versions: vec![&rustls::version::TLS13, &rustls::version::TLS12],
            clients: None,
            ending: Ending::Told,
        }
    }

    /// Issues a certificate for `localhost` and its address.
    pub(crate) fn server(&self) -> ServerSide {
        self.issue("server", "DNS:localhost,IP:127.0.0.1", LONG)
    }

    /// Issues a certificate for another name.
    pub(crate) fn other(&self, names: &str) -> ServerSide {
        self.issue("other", names, LONG)
    }

    /// Issues a certificate that expired years ago.
    pub(crate) fn expired(&self) -> ServerSide {
        self.issue("expired", "DNS:localhost", OVER)
    }

    /// Issues a certificate that is not valid yet.
    pub(crate) fn early(&self) -> ServerSide {
        self.issue("early", "DNS:localhost", ["20980101000000Z", "20990101000000Z"])
    }

    /// Issues a self-signed certificate that states that it is an authority, like those of `openssl req
    /// -x509`.
    pub(crate) fn self_signed(&self, name: &str, time: [&str; 2]) -> ServerSide {
        let extensions = "basicConstraints=critical,CA:TRUE\nsubjectAltName=DNS:localhost\n";
        self.sign(name, extensions, &format!("-selfsign -keyfile {name}.key"), time)
    }

    /// Issues a certificate of [`Self::self_signed`] again, with the same key.
    pub(crate) fn renewed(&self, name: &str) -> ServerSide {
        self.sign_again(name, &format!("-selfsign -keyfile {name}.key"), LONG)
    }

    /// Issues the certificate and key of a client, in files.
    pub(crate) fn client(&self) -> ClientIdentity {
        let ServerSide { certificate, key, .. } = self.issue("client", "DNS:client", LONG);
        ClientIdentity { certificate, key }
    }

    /// Returns options that trust only this authority.
    pub(crate) fn trust(&self) -> TlsFiles {
        TlsFiles { ca: Some(self.path("ca.pem")), ..TlsFiles::default() }
    }

    pub(crate) fn options(&self, terminator: &Terminator) -> BackendOptions {
        options(&[terminator.url()], self.trust())
    }
}

pub(crate) fn options(urls: &[String], files: TlsFiles) -> BackendOptions {
    let addresses = urls.iter().map(|url| url.parse().unwrap()).collect();
    let tls = Some(Arc::new(TlsOptions::load(files).unwrap()));
    BackendOptions { tls, ..BackendOptions::new("app", addresses) }
}

/// A TLS server in front of a backend. Each connection has separate threads.
pub(crate) struct Terminator {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    shaken: Receiver<Shaken>,
}

impl Terminator {
    pub(crate) fn start(backend: SocketAddr, side: ServerSide) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, shaken) = channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, ending, config) = (connections.clone(), side.ending, side.config());
        thread::spawn(move || {
            for socket in listener.incoming() {
                let Ok(socket) = socket else { return };
                count.fetch_add(1, Ordering::SeqCst);
                let (config, sender) = (config.clone(), sender.clone());
                thread::spawn(move || terminate(socket, backend, config, ending, &sender));
            }
        });
        Self { address, connections, shaken }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the next handshake that succeeded.
    pub(crate) fn shaken(&self) -> Shaken {
        self.shaken.recv_timeout(PATIENCE).expect("a handshake succeeds")
    }
}

impl ServerSide {
    pub(crate) fn config(self) -> Arc<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(tollgate_tls::provider());
        let builder = builder.with_protocol_versions(&self.versions).unwrap();
        let builder = match &self.clients {
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(tollgate_tls::certificates(ca).unwrap());
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), tollgate_tls::provider());
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
            None => builder.with_no_client_auth(),
        };
        let certificates = tollgate_tls::certificates(&self.certificate).unwrap();
        let key = tollgate_tls::private_key(&self.key).unwrap();
        let mut config = builder.with_single_cert(certificates, key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

fn terminate(
    socket: TcpStream,
    backend: SocketAddr,
    config: Arc<ServerConfig>,
    ending: Ending,
    shaken: &Sender<Shaken>,
) {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_nodelay(true).unwrap();
    let mut session = ServerConnection::new(config).unwrap();
    session.set_buffer_limit(None);
    while session.is_handshaking() {
        if session.complete_io(&mut &socket).is_err() {
            let _ = session.write_tls(&mut &socket);
            return;
        }
    }
    let _ = shaken.send(Shaken {
        version: session.protocol_version(),
        server_name: session.server_name().map(str::to_owned),
        protocol: session.alpn_protocol().map(<[u8]>::to_vec),
        is_resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
    });
    let Ok(plain) = TcpStream::connect(backend) else {
        SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
        return;
    };
    plain.set_nodelay(true).unwrap();
    let (session, socket, plain) = (Arc::new(Mutex::new(session)), Arc::new(socket), Arc::new(plain));
    let down = (session.clone(), socket.clone(), plain.clone());
    thread::spawn(move || carry_down(&down.0, &down.1, &down.2, ending));
    // If one side ends, the other side is ended, too.
    let _ = carry_up(&session, &socket, &plain);
    let _ = plain.shutdown(Shutdown::Both);
}

fn send(session: &mut ServerConnection, socket: &TcpStream) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(&mut &*socket)?;
    }
    Ok(())
}

fn carry_up(
    session: &Mutex<ServerConnection>,
    mut socket: &TcpStream,
    mut plain: &TcpStream,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    let mut bytes = 0;
    loop {
        let mut content = Vec::new();
        {
            let mut session = session.lock().unwrap();
            let mut came = &buffer[..bytes];
            loop {
                if !came.is_empty() {
                    session.read_tls(&mut came)?;
                }
                let state = session.process_new_packets().map_err(io::Error::other)?;
                let from = content.len();
                content.resize(from + state.plaintext_bytes_to_read(), 0);
                session.reader().read_exact(&mut content[from..])?;
                if came.is_empty() {
                    break;
                }
            }
            send(&mut session, socket)?;
        }
        plain.write_all(&content)?;
        bytes = socket.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(());
        }
    }
}

fn carry_down(session: &Mutex<ServerConnection>, socket: &TcpStream, mut plain: &TcpStream, ending: Ending) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = plain.read(&mut buffer);
        let mut session = session.lock().unwrap();
        match read {
            Ok(0) => {
                if ending != Ending::Cut {
                    session.send_close_notify();
                    let _ = send(&mut session, socket);
                }
                let _ = socket.shutdown(Shutdown::Write);
                return;
            }
            Ok(bytes) => {
                session.writer().write_all(&buffer[..bytes]).unwrap();
                // All records are sent in one piece, so that the extra record arrives together with the
                // reply.
                let mut records = Vec::new();
                while session.wants_write() {
                    session.write_tls(&mut records).unwrap();
                }
                if ending == Ending::Half {
                    records.extend([23, 3, 3]);
                }
                let sent = (&*socket).write_all(&records);
                if sent.is_err() {
                    let _ = plain.shutdown(Shutdown::Both);
                    return;
                }
            }
            Err(_) => {
                SockRef::from(socket).set_linger(Some(Duration::ZERO)).unwrap();
                let _ = socket.shutdown(Shutdown::Read);
                return;
            }
        }
    }
}

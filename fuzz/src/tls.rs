//! Checks the byte stream of a server inside TLS against a real client of rustls, in memory. The server sends
//! back all content. The input is the content, the sizes of all reads and writes, the end of the client, and
//! a fault of the wire.
//!
//! Without a fault, both sides get exactly the content, and the server tells an announced end from another.
//! With a fault, each side gets a beginning of the content. No side hangs or holds more than its bound.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ServerConnection, SupportedProtocolVersion, version};
use tokio::io::ReadBuf;
use tollgate_tls::{
    Certificate, CertificateFiles, ServerTls, ServerTlsOptions, TlsStream, Trust, Verifier, WIRE_BYTES,
};

use super::tls_wire::{Call, End, Fault, Socket, Wire};

/// Maximum bytes of content that the server holds in one direction: 64 KiB, and one read with its record.
const HELD_BYTES_MAX: usize = (64 << 10) + 2 * WIRE_BYTES;
/// Rounds until the connection hangs. Each cycle of steps has at least one large step.
const ROUNDS_MAX: usize = 20_000;
/// Rounds after which a client gives up that has sent a changed byte. The server may wait for the rest of a
/// record whose length was changed, and only its deadlines end this wait.
const PATIENCE_ROUNDS: usize = 10_000;
/// Maximum number of reads of the server. Each makes a record, and a record may need a cycle of 16 steps.
/// With more reads, a slow wire would need more than [`ROUNDS_MAX`].
const READS_MAX: usize = 500;
/// Maximum content of one write of the client.
const PIECE_BYTES_MAX: usize = 20_000;

/// The certificate of the server, and a client of each version.
pub struct Sessions {
    server: ServerTls,
    clients: [Arc<ClientConfig>; 2],
}

/// An input in parts.
struct Plan<'a> {
    is_old_version: bool,
    /// `None`: the client announces its end, and the wire stays open.
    end: Option<End>,
    is_end_announced: bool,
    read_bytes: usize,
    steps: &'a [u8],
    fault: Fault,
    content: Vec<u8>,
}

impl<'a> Plan<'a> {
    /// Reads choice, fault (two bytes for the place, one for the bits) and steps. The rest is the content,
    /// which is repeated if the choice says so.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (&[choice, sizes, high, low, bits], rest) = bytes.split_first_chunk()?;
        let (steps, content) = rest.split_at_checked(usize::from(sizes & 15))?;
        let at = usize::from(u16::from_be_bytes([high, low]));
        let is_reset = choice & 4 != 0;
        let end = if is_reset { End::Reset } else { End::Closed };
        let fault = match choice >> 3 & 3 {
            1 if bits != 0 => Fault::Flipped { at, bits },
            2 => Fault::Cut { at, end },
            _ => Fault::None,
        };
        let is_end_announced = choice & 2 != 0;
        let content = content.repeat(if choice & 32 != 0 { 100 } else { 1 });
        Some(Self {
            is_old_version: choice & 1 != 0,
            end: (!is_end_announced || is_reset).then_some(end),
            is_end_announced,
            read_bytes: (1 << (sizes >> 4)).max(content.len() / READS_MAX),
            steps,
            fault,
            content,
        })
    }
}

/// How the stream of the server ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    NoHandshake,
    /// The client announced its end, and the server has answered with its own.
    Done,
    Broken(io::ErrorKind),
}

impl Sessions {
    /// Makes a certificate and the clients.
    ///
    /// # Panics
    /// The cryptography refuses the certificate.
    pub fn new() -> Self {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let chain = vec![params.self_signed(&key).expect("a certificate").der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key in PKCS #8");
        let files = CertificateFiles { certificate: "certificate".into(), key: "key".into() };
        let server = ServerTls::load(ServerTlsOptions::default()).expect("a server");
        let certificate = Certificate::new(chain, key, &files).expect("a certificate with its key");
        server.set_issued(vec![certificate]).expect("a server");
        Self { server, clients: [&version::TLS13, &version::TLS12].map(client) }
    }

    /// Checks one input.
    ///
    /// # Panics
    /// The stream breaks a rule.
    pub fn check(&self, bytes: &[u8]) {
        let Some(plan) = Plan::read(bytes) else { return };
        let config = self.clients[usize::from(plan.is_old_version)].clone();
        let name = ServerName::try_from("localhost").expect("a name");
        let wire = Rc::new(RefCell::new(Wire::new(plan.steps, plan.fault)));
        let session = self.server.begin_session().expect("a session");
        let stream = TlsStream::new(Socket(wire.clone()), session, Vec::new());
        let received = RefCell::new(Vec::new());
        let mut client = Client::new(ClientConnection::new(config, name).expect("a client"), wire.clone());
        let mut serving = pin!(serve(stream, plan.read_bytes, &received));
        let mut outcome = None;
        for round in 0..ROUNDS_MAX {
            client.act(&plan);
            if round == PATIENCE_ROUNDS && matches!(plan.fault, Fault::Flipped { .. }) {
                wire.borrow_mut().end.get_or_insert(End::Closed);
            }
            if outcome.is_none() {
                wire.borrow_mut().is_watched = false;
                match serving.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(ended) => outcome = Some(ended),
                    Poll::Pending => assert!(wire.borrow().is_watched, "nothing would wake the server"),
                }
                let held = client.delivered(wire.borrow().read) - received.borrow().len();
                assert!(held <= HELD_BYTES_MAX, "the server holds {held} bytes that were not read");
            } else if wire.borrow().down.is_empty() {
                break;
            }
        }
        let outcome = outcome
            .unwrap_or_else(|| panic!("the server hangs, {}: {}", client.shown(), bytes.escape_ascii()));
        judge(&plan, &outcome, &received.borrow(), &client, bytes);
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self::new()
    }
}

fn client(version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    let verifier = Verifier::new(None, Trust::Anybody).expect("a verifier");
    let config = ClientConfig::builder_with_details(tollgate_tls::provider(), tollgate_tls::clock())
        .with_protocol_versions(&[version])
        .expect("a version")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Arc::new(config)
}

/// Checks what both sides have at the end.
fn judge(plan: &Plan<'_>, outcome: &Outcome, received: &[u8], client: &Client, input: &[u8]) {
    let shown = format!("{outcome:?}, {:?}, end {:?}: {}", plan.fault, plan.end, input.escape_ascii());
    assert!(plan.content.starts_with(received), "the server got other content: {shown}");
    assert!(received.starts_with(&client.received), "the client got other content: {shown}");
    if *outcome == Outcome::Done {
        assert!(received == plan.content, "the server got a part: {shown}");
        assert!(plan.is_end_announced, "an end that was not announced: {shown}");
    }
    if plan.fault != Fault::None || plan.end == Some(End::Reset) {
        return;
    }
    let expected = match plan.is_end_announced {
        true => Outcome::Done,
        false => Outcome::Broken(io::ErrorKind::UnexpectedEof),
    };
    assert_eq!(*outcome, expected, "{shown}");
    assert!(received == plan.content, "the server got a part: {shown}");
    assert!(client.received == plan.content, "the client got a part: {shown}");
    // A stream that broke announces its end only if the socket takes the announcement at once.
    assert!(client.is_end_told || !plan.is_end_announced, "the client misses the announced end: {shown}");
}

/// Sends back all content until the end of the client.
async fn serve(
    mut stream: TlsStream<Socket, ServerConnection>,
    read_bytes: usize,
    received: &RefCell<Vec<u8>>,
) -> Outcome {
    let mut wire = vec![0; WIRE_BYTES];
    if poll_fn(|context| stream.poll_handshake(context, &mut wire)).await.is_err() {
        return Outcome::NoHandshake;
    }
    let before_content = stream.left_bytes();
    let mut buffer = vec![0; read_bytes];
    loop {
        let mut came = ReadBuf::new(&mut buffer);
        let read = poll_fn(|context| stream.poll_read(context, &mut wire, &mut came)).await;
        let mut content = came.filled();
        received.borrow_mut().extend_from_slice(content);
        if let Err(error) = read {
            let _ = poll_fn(|context| stream.poll_flush(context)).await;
            return Outcome::Broken(error.kind());
        }
        if content.is_empty() {
            let ended = poll_fn(|context| stream.poll_end(context)).await;
            return ended.map_or_else(|error| Outcome::Broken(error.kind()), |()| Outcome::Done);
        }
        while !content.is_empty() {
            let slices = [IoSlice::new(&content[..1]), IoSlice::new(&content[1..])];
            match poll_fn(|context| stream.poll_write(context, &slices)).await {
                Ok(taken) => content = &content[taken..],
                Err(error) => return Outcome::Broken(error.kind()),
            }
            // A record is longer than its content, so these are more bytes than the stream holds.
            let sent = usize::try_from(stream.left_bytes() - before_content).unwrap_or(usize::MAX);
            let held = (received.borrow().len() - content.len()).saturating_sub(sent);
            assert!(held <= HELD_BYTES_MAX, "the server holds {held} bytes that were not sent");
        }
    }
}

/// The client, its place in the content, and what it got.
struct Client {
    session: ClientConnection,
    wire: Rc<RefCell<Wire>>,
    written: usize,
    is_ended: bool,
    is_failed: bool,
    /// Bytes on the wire at the end of each write, and the content up to there.
    places: Vec<(usize, usize)>,
    queued: usize,
    received: Vec<u8>,
    is_end_told: bool,
}

impl Client {
    fn new(session: ClientConnection, wire: Rc<RefCell<Wire>>) -> Self {
        Self {
            session,
            wire,
            written: 0,
            is_ended: false,
            is_failed: false,
            places: vec![(0, 0)],
            queued: 0,
            received: Vec::new(),
            is_end_told: false,
        }
    }

    /// Returns its state, for a message.
    fn shown(&self) -> String {
        let (shaking, wire) = (self.session.is_handshaking(), self.wire.borrow());
        format!("handshaking {shaking}, ended {}, {wire:?}", self.is_ended)
    }

    /// Returns the content in the first `bytes` bytes on the wire.
    fn delivered(&self, bytes: usize) -> usize {
        self.places.iter().rev().find(|(place, _)| *place <= bytes).map_or(0, |(_, content)| *content)
    }

    /// Receives, writes and sends once.
    fn act(&mut self, plan: &Plan<'_>) {
        let wire = self.wire.clone();
        let mut wire = wire.borrow_mut();
        let bytes = wire.step(Call::ClientRead).min(wire.down.len());
        let came: Vec<u8> = wire.down.drain(..bytes).collect();
        if !self.is_failed && self.receive(&came).is_err() {
            assert!(plan.fault != Fault::None, "the server sent records that are wrong");
            self.is_failed = true;
            wire.end.get_or_insert(End::Closed);
        }
        if self.is_failed || !wire.has_space() {
            return;
        }
        let has_sent = !self.session.is_handshaking() && !self.session.wants_write();
        if has_sent && self.written < plan.content.len() {
            let bytes =
                wire.step(Call::ClientWrite).min(plan.content.len() - self.written).min(PIECE_BYTES_MAX);
            let piece = &plan.content[self.written..][..bytes];
            self.session.writer().write_all(piece).expect("the buffer of the session is empty");
            self.written += bytes;
        } else if has_sent && !self.is_ended {
            self.is_ended = true;
            if plan.is_end_announced {
                self.session.send_close_notify();
            }
        }
        let mut records = Vec::new();
        while self.session.wants_write() {
            self.session.write_tls(&mut records).expect("a vector takes all bytes");
        }
        wire.send(&records);
        self.queued += records.len();
        self.places.push((self.queued, self.written));
        if self.is_ended && plan.end.is_some() {
            wire.end.get_or_insert(plan.end.unwrap_or(End::Closed));
        }
    }

    fn receive(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.session.read_tls(&mut bytes)?;
            let state = self.session.process_new_packets().map_err(io::Error::other)?;
            let before = self.received.len();
            self.received.resize(before + state.plaintext_bytes_to_read(), 0);
            self.session.reader().read_exact(&mut self.received[before..])?;
            self.is_end_told |= state.peer_has_closed();
        }
        Ok(())
    }
}

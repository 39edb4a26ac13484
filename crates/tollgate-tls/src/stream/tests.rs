//! Both sides of a session over a pipe in memory.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tempfile::TempDir;

use super::*;
use crate::testing::certificate;
use crate::{ServerTls, ServerTlsOptions, Trust, Verifier, clock, provider};

/// One direction of a pipe.
#[derive(Default)]
struct Direction {
    bytes: Vec<u8>,
    is_ended: bool,
    reader: Option<Waker>,
}

/// One end of a pipe that passes at most `step` bytes in a call.
struct Pipe {
    read: Rc<RefCell<Direction>>,
    write: Rc<RefCell<Direction>>,
    step: usize,
}

fn pipe(step: usize) -> (Pipe, Pipe) {
    let (one, other) = (Rc::<RefCell<Direction>>::default(), Rc::<RefCell<Direction>>::default());
    (Pipe { read: one.clone(), write: other.clone(), step }, Pipe { read: other, write: one, step })
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut direction = self.read.borrow_mut();
        if direction.bytes.is_empty() && !direction.is_ended {
            direction.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let bytes = direction.bytes.len().min(self.step).min(out.remaining());
        out.put_slice(&direction.bytes[..bytes]);
        direction.bytes.drain(..bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut direction = self.write.borrow_mut();
        let bytes = &bytes[..bytes.len().min(self.step)];
        direction.bytes.extend_from_slice(bytes);
        direction.reader.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let mut direction = self.write.borrow_mut();
        direction.is_ended = true;
        direction.reader.take().into_iter().for_each(Waker::wake);
    }
}

type Client = TlsStream<Pipe, ClientConnection>;
type Server = TlsStream<Pipe, ServerConnection>;

/// The configurations of a server and of a client that trusts it.
struct Site {
    _folder: TempDir,
    server: ServerTls,
    client: Arc<ClientConfig>,
}

impl Site {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let files = certificate(folder.path(), "a", &["a.test"]);
        let verifier = Verifier::new(Some(&files.certificate), Trust::Host).unwrap();
        let client = ClientConfig::builder_with_details(provider(), clock())
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let options = ServerTlsOptions { certificates: vec![files], ..ServerTlsOptions::default() };
        let server = ServerTls::load(options).unwrap();
        Self { _folder: folder, server, client: Arc::new(client) }
    }

    /// Returns both sides of a connection before the handshake. The server has read `ahead` bytes already.
    fn pair(&self, step: usize) -> (Client, Server) {
        let (ours, theirs) = pipe(step);
        let name = ServerName::try_from("a.test").unwrap();
        let client = ClientConnection::new(self.client.clone(), name).unwrap();
        let server = ServerConnection::new(self.server.config()).unwrap();
        (TlsStream::new(ours, client, Vec::new()), TlsStream::new(theirs, server, Vec::new()))
    }
}

async fn shaken<C: Side>(stream: &mut TlsStream<Pipe, C>) -> Result<(), TlsHandshakeError> {
    let mut wire = vec![0; WIRE_BYTES];
    poll_fn(|context| stream.poll_handshake(context, &mut wire)).await
}

async fn send<C: Side>(stream: &mut TlsStream<Pipe, C>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let slices = [IoSlice::new(bytes)];
        let taken = poll_fn(|context| stream.poll_write(context, &slices)).await.unwrap();
        bytes = &bytes[taken..];
    }
    poll_fn(|context| stream.poll_flush(context)).await.unwrap();
}

async fn receive<C: Side>(stream: &mut TlsStream<Pipe, C>) -> io::Result<Vec<u8>> {
    let (mut wire, mut content) = (vec![0; WIRE_BYTES], vec![0; 64 << 10]);
    let mut out = ReadBuf::new(&mut content);
    poll_fn(|context| stream.poll_read(context, &mut wire, &mut out)).await?;
    Ok(out.filled().to_vec())
}

#[tokio::test(flavor = "current_thread")]
async fn content_passes_in_both_directions_however_its_bytes_come() {
    let site = Site::new();
    let long: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
    for step in [1, 2, 5, 100, 1_000, usize::MAX] {
        let (mut client, mut server) = site.pair(step);
        let asking = async {
            shaken(&mut client).await.unwrap();
            send(&mut client, b"question").await;
            let mut came = Vec::new();
            while came.len() < long.len() {
                came.extend(receive(&mut client).await.unwrap());
            }
            assert!(came == long, "step {step}");
            poll_fn(|context| client.poll_end(context)).await.unwrap();
        };
        let answering = async {
            shaken(&mut server).await.unwrap();
            let mut came = Vec::new();
            while came.len() < 8 {
                came.extend(receive(&mut server).await.unwrap());
            }
            assert_eq!(came, b"question");
            send(&mut server, &long).await;
            assert_eq!(receive(&mut server).await.unwrap(), b"", "the announced end");
        };
        tokio::join!(asking, answering);
        assert!(server.is_flushed() && server.left_bytes() > long.len() as u64);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn an_end_without_announcement_is_an_error() {
    let (mut client, mut server) = Site::new().pair(usize::MAX);
    let (one, other) = tokio::join!(shaken(&mut client), shaken(&mut server));
    one.and(other).unwrap();
    client.socket.write.borrow_mut().is_ended = true;
    let error = receive(&mut server).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test(flavor = "current_thread")]
async fn bytes_that_were_read_before_the_handshake_count() {
    let site = Site::new();
    let (mut client, server) = site.pair(usize::MAX);
    let mut shaking = pin!(shaken(&mut client));
    let hello = poll_fn(|context| {
        assert!(shaking.as_mut().poll(context).is_pending());
        Poll::Ready(std::mem::take(&mut server.socket.read.borrow_mut().bytes))
    })
    .await;
    assert!(!hello.is_empty());
    let (_, lost) = pipe(1);
    let mut server = server;
    let socket = std::mem::replace(&mut server.socket, lost);
    let session = ServerConnection::new(site.server.config()).unwrap();
    let mut server = TlsStream::new(socket, session, hello);
    let (one, other) = tokio::join!(shaking, shaken(&mut server));
    one.and(other).unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn a_peer_that_does_not_use_tls_gets_an_alert() {
    let (client, mut server) = Site::new().pair(usize::MAX);
    client.socket.write.borrow_mut().bytes.extend(b"GET / HTTP/1.1\r\n\r\n");
    let error = shaken(&mut server).await.unwrap_err();
    assert!(matches!(error, TlsHandshakeError::Tls { chosen: None, .. }), "{error:?}");
    // Content type 21 is an alert (RFC 8446 section 5.1).
    assert_eq!(client.socket.read.borrow().bytes[0], 21);
}

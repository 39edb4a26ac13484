//! The start of a connection with TLS: the PROXY header, if the listener requires it, and the handshake.
//!
//! A handshake costs as much processor time as many requests. So each worker processes the messages of one
//! handshake, and then lets all ready connections have their turn, before it processes the next ones.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use rustls::{Error, ServerConnection};
use tollgate_script::TlsSession;
use tollgate_tls::{ACME_TLS_1, ServerTls, TlsHandshakeError, TlsStream};

use super::client::Origin;
use super::connection::Connection;
use super::proxy_source::read_proxy_header;
use super::tls_socket::TlsSocket;
use super::transport::{ConnectionEnd, Transport};
use crate::deadline::{Deadlines, Phase, Slot};
use crate::observe::HandshakeEnd;
use crate::overload::ConnectionPermit;
use crate::session;
use crate::worker::Worker;

/// Serves one connection with TLS to its end.
///
/// The connection counts from this call on, not from the first poll, so that a worker that drains waits for
/// it.
pub(crate) fn serve_tls<S: Transport>(
    worker: Rc<Worker>,
    socket: S,
    origin: Origin,
    permit: ConnectionPermit,
) -> impl Future<Output = ()> {
    let opening = Opening { slot: Deadlines::enter(&worker.deadlines), worker };
    async move {
        let _permit = permit;
        // The future is on the heap, so that connections after the handshake stay small.
        let Some((stream, origin, tls)) = Box::pin(opening.open(socket, origin)).await else { return };
        let mut connection = Connection::new(opening.worker.clone(), stream);
        drop(opening);
        connection.serve(origin, Some(tls)).await;
    }
}

/// A connection before its first request.
struct Opening {
    worker: Rc<Worker>,
    slot: Slot,
}

impl Opening {
    /// Reads the PROXY header and performs the handshake. `None`: the connection is over.
    async fn open<S: Transport>(
        &self,
        mut socket: S,
        mut origin: Origin,
    ) -> Option<(TlsSocket<S>, Origin, Rc<TlsSession>)> {
        let rules = self.worker.rules();
        let mut ahead = BytesMut::new();
        if std::mem::take(&mut origin.proxy_protocol) {
            let header = read_proxy_header(
                &mut socket,
                &self.slot,
                &self.worker.scratch,
                &mut ahead,
                origin.peer,
                rules.limits.head_timeout,
            );
            origin.peer = header.await.ok()?;
        }
        self.slot.arm(Phase::Handshake, rules.limits.handshake_timeout);
        let tls = rules.tls.as_ref()?;
        let end = self.shake(socket, tls, ahead.to_vec()).await;
        let end = end.and_then(|stream| {
            let facts = session::facts_of(stream.session());
            let facts = facts.map_err(|error| Failure::of_client(&format!("cannot be read: {error}")))?;
            let is_validation = stream.session().alpn_protocol() == Some(ACME_TLS_1);
            if !is_validation && !tls.has_required_certificate(stream.session()) {
                return Err(Failure::of_client("is missing in a resumed session"));
            }
            if session::is_client_expired(&facts, self.worker.clock.now().wall_us) {
                return Err(Failure::of_client("expired after the session before"));
            }
            Ok((stream, facts))
        });
        match end {
            Ok((stream, facts)) => {
                self.worker.cells.count_handshake(HandshakeEnd::of_session(stream.session()));
                // RFC 8737 section 4: a validation ends with its handshake.
                if stream.session().alpn_protocol() == Some(ACME_TLS_1) {
                    return None;
                }
                Some((TlsSocket::new(stream, self.worker.clone()), origin, facts))
            }
            Err(failure) => {
                self.worker.cells.count_handshake(failure.end);
                tracing::debug!(peer = origin.peer.map(tracing::field::display), "{}", failure.text);
                None
            }
        }
    }

    async fn shake<S: Transport>(
        &self,
        socket: S,
        tls: &ServerTls,
        ahead: Vec<u8>,
    ) -> Result<TlsStream<S, ServerConnection>, Failure> {
        let session = tls.begin_session().map_err(|error| Failure::of_tls(&error, false))?;
        let mut stream = TlsStream::new(socket, session, ahead);
        while stream.is_handshaking() {
            self.until_deadline(&mut stream, |stream, context| {
                stream.poll_handshake_bytes(context, &mut self.worker.scratch.wire())
            })
            .await?;
            let turn = self.worker.handshake_turn.acquire().await;
            let processed =
                poll_fn(|context| Poll::Ready(stream.process_handshake(context))).await.map_err(Failure::of);
            tokio::task::yield_now().await;
            drop(turn);
            processed?;
        }
        self.until_deadline(&mut stream, |stream, context| {
            stream.poll_flush(context).map_err(TlsHandshakeError::Socket)
        })
        .await?;
        Ok(stream)
    }

    /// Polls a step of the handshake until its end or the deadline.
    async fn until_deadline<S: Transport>(
        &self,
        stream: &mut TlsStream<S, ServerConnection>,
        mut step: impl FnMut(
            &mut TlsStream<S, ServerConnection>,
            &mut Context<'_>,
        ) -> Poll<Result<(), TlsHandshakeError>>,
    ) -> Result<(), Failure> {
        poll_fn(|context| match step(stream, context) {
            Poll::Ready(done) => Poll::Ready(done.map_err(Failure::of)),
            Poll::Pending if self.slot.is_over() => {
                stream.socket_mut().when_dropped(ConnectionEnd::Reset);
                let text = "TLS handshake did not end in time".to_owned();
                Poll::Ready(Err(Failure { end: HandshakeEnd::TooLate, text }))
            }
            Poll::Pending => {
                self.slot.watch(context.waker());
                Poll::Pending
            }
        })
        .await
    }
}

/// A failed handshake: its kind for the counters, and a text for the log.
struct Failure {
    end: HandshakeEnd,
    text: String,
}

impl Failure {
    fn of(error: TlsHandshakeError) -> Self {
        match error {
            TlsHandshakeError::Tls { error, chosen } => Self::of_tls(&error, chosen.is_some()),
            TlsHandshakeError::Socket(error) => {
                Self { end: HandshakeEnd::Closed, text: format!("TLS handshake broke off: {error}") }
            }
        }
    }

    /// Returns the failure for the certificate of a client after its handshake.
    fn of_client(problem: &str) -> Self {
        Self { end: HandshakeEnd::ClientCertificate, text: format!("client certificate {problem}") }
    }

    fn of_tls(error: &Error, is_version_chosen: bool) -> Self {
        let end = match error {
            Error::InvalidMessage(_) | Error::InappropriateMessage { .. } if !is_version_chosen => {
                HandshakeEnd::NotTls
            }
            Error::NoCertificatesPresented
            | Error::InvalidCertificate(_)
            | Error::InvalidCertRevocationList(_) => HandshakeEnd::ClientCertificate,
            Error::AlertReceived(_) => HandshakeEnd::Refused,
            Error::General(_) => HandshakeEnd::NoCertificate,
            _ => HandshakeEnd::Protocol,
        };
        Self { end, text: format!("TLS handshake failed: {error}") }
    }
}

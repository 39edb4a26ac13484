//! What a connection waits for: the rest of a request, the next one, or the end.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tollgate_http::{CONTINUE, StatusCode};

use super::deadline::Phase;
use super::stream::{Came, read, write_all};
use super::{Connection, Gone, Reading};
use crate::reply::Reply;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Reads more of what the connection waits for; what does not come in time or at all ends it.
    pub(super) async fn read_on(&mut self) -> Result<(), Gone> {
        self.ask_for_body().await?;
        let (phase, timeout) = self.awaited();
        self.slot.arm(phase, timeout);
        if let Reading::Body(body) = &self.reading
            && body.is_full()
        {
            self.spool().await;
            return Ok(());
        }
        match &self.reading {
            // As much as came already: a length that is only announced takes no memory.
            Reading::Body(body) => self.input.reserve(body.missing_bytes(&self.input).min(self.input.len())),
            // A connection that waits for a request holds no buffer.
            Reading::Head if self.input.is_empty() => self.input = BytesMut::new(),
            Reading::Head => {}
        }
        if !self.held.set(self.memory_bytes()) {
            self.give_up();
            return Ok(());
        }
        let before = self.input.len();
        match read(&mut self.stream, &self.slot, &self.worker.scratch, &mut self.input).await? {
            Came::Bytes => {
                self.earn_time(self.input.len() - before);
                Ok(())
            }
            Came::End => self.end_of_stream(),
            Came::TooLate => self.too_late(),
        }
    }

    /// Moves what came of a body out of memory. The peer waits meanwhile: nothing is read.
    async fn spool(&mut self) {
        self.held.set(self.memory_bytes());
        let Reading::Body(body) = &mut self.reading else { return };
        if let Err(error) = body.spool(&self.worker.spool).await {
            tracing::warn!(peer = ?self.client.peer, "request refused: {error}");
            self.let_go(error.reply());
        }
    }

    /// What is waited for, and how long.
    fn awaited(&self) -> (Phase, Duration) {
        let limits = self.limits();
        match &self.reading {
            Reading::Head if self.head_reader.has_started() => (Phase::Head, limits.head_timeout),
            Reading::Head => (Phase::Idle, limits.idle_timeout),
            Reading::Body(body) => {
                let timeout = body.arrived.body_timeout(limits);
                let grace = if limits.body_rate_min == 0 { timeout } else { limits.body_rate_grace };
                (Phase::Body, grace.min(timeout))
            }
        }
    }

    /// Lets go of a request that did not come whole: there is no memory for the rest of it.
    fn give_up(&mut self) {
        let text = "too much is in flight: nothing was recorded";
        self.let_go(Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text));
    }

    /// Answers a request that did not come whole, and frees what came of it.
    fn let_go(&mut self, reply: Reply) {
        self.end_with(reply);
        self.input = BytesMut::new();
        self.reading = Reading::Head;
        self.held.set(self.memory_bytes());
    }

    /// A body that comes fast enough may go on coming.
    fn earn_time(&self, bytes: usize) {
        if let Reading::Body(body) = &self.reading {
            let limits = self.limits();
            self.slot.earn(
                bytes,
                limits.body_rate_min,
                self.slot.after(body.arrived.begun, body.arrived.body_timeout(limits)),
            );
        }
    }

    /// RFC 9110 section 10.1.1: a client that waits for it is told to send its body.
    async fn ask_for_body(&mut self) -> Result<(), Gone> {
        let Reading::Body(body) = &mut self.reading else { return Ok(()) };
        if body.take_continue() {
            write_all(&mut self.stream, &self.slot, &self.held, CONTINUE, &self.rules.limits).await?;
        }
        Ok(())
    }

    fn end_of_stream(&mut self) -> Result<(), Gone> {
        match &self.reading {
            _ if self.is_between_requests() => Err(Gone),
            Reading::Head => {
                self.end_with(Reply::text(StatusCode::BAD_REQUEST, "incomplete request"));
                Ok(())
            }
            Reading::Body(body) => {
                let error = body.incomplete(&self.input);
                self.refuse(&error);
                Ok(())
            }
        }
    }

    fn too_late(&mut self) -> Result<(), Gone> {
        if self.is_between_requests() {
            return Err(Gone);
        }
        self.end_with(Reply::text(StatusCode::REQUEST_TIMEOUT, "the request took too long"));
        Ok(())
    }
}

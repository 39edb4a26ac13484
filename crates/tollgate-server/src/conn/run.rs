//! Serves a connection to its end. Each pass answers the requests that have arrived, sends the replies, and
//! reads again.

use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use tollgate_http::StatusCode;
use tollgate_script::TlsSession;

use super::client::Origin;
use super::connection::{Connection, Reuse};
use super::gone::Gone;
use super::outlet::{Outlet, Then};
use super::streamed_reply::beside_content;
use super::transport::Transport;
use crate::overload::ConnectionPermit;
use crate::reply::Reply;
use crate::worker::Worker;

/// Serves one connection to its end.
///
/// The connection counts from this call on, not from the first poll, so that a worker that drains waits for
/// it.
pub(crate) fn serve<S: Transport>(
    worker: Rc<Worker>,
    stream: S,
    origin: Origin,
    permit: ConnectionPermit,
) -> impl Future<Output = ()> {
    let mut connection = Connection::new(worker, stream);
    async move {
        let _permit = permit;
        connection.serve(origin, None).await;
    }
}

/// Refuses a connection. The client gets 503 with `text` for any request.
pub(crate) fn refuse<S: Transport>(
    worker: Rc<Worker>,
    stream: S,
    text: &'static str,
) -> impl Future<Output = ()> {
    worker.refusals.set(worker.refusals.get() + 1);
    let mut connection = Connection::new(worker, stream);
    connection.end_with(Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text));
    async move {
        let _gone = connection.run().await;
        let refusals = &connection.worker.refusals;
        refusals.set(refusals.get() - 1);
    }
}

impl<S: Transport> Connection<S> {
    /// Finds the client, and serves the connection to its end.
    pub(super) async fn serve(&mut self, origin: Origin, tls: Option<Rc<TlsSession>>) {
        // An error of the stream means that the peer is gone, so there is no peer to report it to.
        if self.find_client(origin).await.is_ok() {
            self.client.set_tls(tls);
            let _gone = self.run().await;
        }
    }

    async fn run(&mut self) -> Result<(), Gone> {
        loop {
            self.answer_what_came();
            let is_followed = self.replies.is_followed();
            let is_more_there = is_followed || (self.replies.count() > 0 && self.is_full());
            let asked = self.replies.last_begun();
            self.send_replies().await?;
            match self.reuse {
                Reuse::Open if is_more_there => {}
                Reuse::Open if self.may_pause() => self.pause().await,
                Reuse::Open => self.read_on().await?,
                _ if !self.queue.is_empty() => self.read_on().await?,
                Reuse::Leave if self.was_answered_at_once(asked) => return Ok(()),
                Reuse::Leave | Reuse::Close => return self.close().await,
                Reuse::Linger => return self.linger().await,
                Reuse::Ended => return Ok(()),
            }
        }
    }

    /// Waits until the log has the records of the pending replies, then sends these replies.
    async fn send_replies(&mut self) -> Result<(), Gone> {
        if self.replies.count() == 0 {
            return Ok(());
        }
        // The memory of finished replies is counted, and these replies are always sent. Requests that would
        // add replies are refused until the client has taken them.
        self.count_held();
        self.queue.let_leave(self.replies.memory_bytes());
        self.flight.set(self.replies.count() + self.queue.count());
        let recorder = &self.worker.recorder;
        if !self.queue.beside(&self.worker, &self.held, pin!(self.replies.release(recorder))).await {
            self.reuse = Reuse::Linger;
            self.queue.cancel(recorder);
        }
        self.replies.count_leaving(&self.worker.cells);
        let mut streamed = self.replies.take_streamed();
        let is_end = self.reuse != Reuse::Open && self.queue.is_empty() && streamed.is_none();
        let then = if is_end { Then::End } else { Then::More };
        let Self { stream, slot, held, rules, worker, queue, replies, .. } = self;
        let mut outlet = Outlet { stream, slot, held, limits: &rules.limits, scratch: &worker.scratch };
        let waiting = streamed.as_mut().map(|(streamed, _)| streamed);
        queue.beside(worker, held, beside_content(pin!(outlet.send(replies, then)), waiting)).await?;
        queue.let_leave(0);
        self.worker.cells.count_sent(self.replies.bytes_len());
        if streamed.is_some() {
            self.streamed_line = self.replies.take_last_line();
        }
        self.replies.clear();
        self.flight.set(self.queue.count() + usize::from(streamed.is_some()));
        match streamed {
            // The future is on the heap, so that connections without a streamed reply stay small.
            Some((streamed, framing)) => Box::pin(self.send_streamed(streamed, framing)).await?,
            None => return Ok(()),
        }
        if let Some(mut line) = self.streamed_line.take() {
            line.leave(Instant::now());
        }
        Ok(())
    }
}

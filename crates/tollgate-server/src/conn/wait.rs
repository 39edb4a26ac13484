//! The wait of a connection for the remaining bytes of a request, the next request, a handler, or the end.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;

use bytes::BytesMut;
use tollgate_http::{CONTINUE, RequestError, StatusCode};

use super::connection::{Connection, Reading, Reuse};
use super::gone::Gone;
use super::outlet::Outlet;
use super::stream::{Came, read};
use super::transport::Transport;
use crate::deadline::Phase;
use crate::observe::Refusal;
use crate::reply::Reply;

impl<S: Transport> Connection<S> {
    /// Waits for a handler, and reads the bytes that the connection waits for. If these bytes do not arrive
    /// in time, the connection ends.
    pub(super) async fn read_on(&mut self) -> Result<(), Gone> {
        if let Reading::Checking(_) = self.reading {
            self.await_check().await;
            return Ok(());
        }
        self.ask_for_body().await?;
        if let Reading::Upload(_) = self.reading {
            // The handler may have taken bytes of the upload while replies were sent.
            self.feed_upload();
            if let Reading::Head = self.reading {
                return Ok(());
            }
        }
        self.await_time();
        if let Reading::Body(body) = &self.reading
            && body.is_full()
        {
            match body.upload_place() {
                Some(place) => self.begin_upload(place),
                None => self.spool().await,
            }
            return Ok(());
        }
        if (self.is_decoding() || self.is_judging()) && self.takes_requests() {
            self.give_turn().await;
            if !self.input.is_empty() || self.is_judging() {
                return Ok(());
            }
        }
        match &self.reading {
            // Reserves at most as many bytes as have arrived, because an announced length alone must not use
            // memory.
            Reading::Body(body) => self.input.reserve(body.missing_bytes(&self.input).min(self.input.len())),
            Reading::Head => self.let_room_go(),
            Reading::Checking(_) | Reading::Upload(_) => {}
        }
        self.flight.set(self.queue.count());
        let is_too_much = !self.count_held();
        if is_too_much && self.has_part_of_request() && self.takes_requests() {
            self.give_up();
            return Ok(());
        }
        let before = self.input.len();
        match self.come().await? {
            None => Ok(()),
            Some(Came::Bytes) => {
                let bytes = self.input.len() - before;
                self.worker.cells.count_received(bytes);
                self.earn_time(bytes);
                Ok(())
            }
            Some(Came::End) => self.end_of_stream(),
            Some(Came::TooLate) => self.too_late(),
        }
    }

    /// Waits for bytes, or for the answer to the first request. Returns `None` if the answer comes first.
    ///
    /// Bytes that cannot be used yet stay in the socket, except for one read. Without this read, the server
    /// would not notice that the peer is gone.
    async fn come(&mut self) -> io::Result<Option<Came>> {
        let reads = self.takes_requests() || (self.input.is_empty() && self.reuse != Reuse::Ended);
        let Self { stream, slot, held, worker, input, queue, reading, .. } = self;
        let came = pin!(async {
            match reading {
                Reading::Upload(uploading) if !uploading.takes_more() => {
                    let mut room = pin!(Self::upload_room(&uploading.upload));
                    let mut broken_off = pin!(stream.broken_off());
                    poll_fn(|context| match room.as_mut().poll(context) {
                        Poll::Ready(()) => Poll::Ready(Ok(Came::Bytes)),
                        Poll::Pending => broken_off.as_mut().poll(context).map(Err),
                    })
                    .await
                }
                Reading::Upload(_) => read(stream, slot, &worker.scratch, input).await,
                _ if reads => read(stream, slot, &worker.scratch, input).await,
                _ => Err(stream.broken_off().await),
            }
        });
        queue.race(worker, held, came).await.transpose()
    }

    /// Returns whether a refused client has to pause now. The client does not pause while one of its requests
    /// is in progress.
    pub(super) fn may_pause(&self) -> bool {
        self.paused_until.is_some() && self.queue.is_empty() && matches!(self.reading, Reading::Head)
    }

    /// Pauses the connection until `paused_until`, or until the server drains.
    pub(super) async fn pause(&mut self) {
        let Some(until) = self.paused_until.take() else { return };
        self.slot.set(Phase::Paused);
        self.let_room_go();
        self.count_held();
        let slot = &self.slot;
        // The timer is on the heap, so that connections that do not pause stay small.
        let mut sleep = Box::pin(tokio::time::sleep_until(until.into()));
        poll_fn(|context| {
            slot.watch(context.waker());
            if slot.is_over() { Poll::Ready(()) } else { sleep.as_mut().poll(context) }
        })
        .await;
    }

    /// Releases the empty buffers, so that a connection that waits for a request holds none.
    fn let_room_go(&mut self) {
        if self.input.is_empty() {
            self.worker.scratch.take_back(std::mem::take(&mut self.input));
            self.head_reader.let_go();
        }
    }

    fn is_decoding(&self) -> bool {
        matches!(&self.reading, Reading::Body(body) if body.is_decoding())
    }

    fn is_judging(&self) -> bool {
        match &self.reading {
            Reading::Body(body) => body.is_judging(),
            Reading::Upload(uploading) => uploading.is_judging(),
            Reading::Head | Reading::Checking(_) => false,
        }
    }

    /// Waits until all other ready connections of the worker have had their turn.
    async fn give_turn(&mut self) {
        self.count_held();
        self.queue.beside(&self.worker, &self.held, pin!(tokio::task::yield_now())).await;
    }

    /// Moves the content in memory to the spool. Nothing is read during this work, so the deadline of the
    /// peer stops.
    async fn spool(&mut self) {
        self.count_held();
        let Reading::Body(body) = &mut self.reading else { return };
        let left = self.slot.stop();
        let spooled = self.queue.beside(&self.worker, &self.held, pin!(body.spool(&self.worker.spool))).await;
        self.slot.go_on(left);
        if let Err(error) = spooled {
            tracing::warn!(peer = self.client.peer.map(tracing::field::display), "request refused: {error}");
            self.worker.cells.count_refusal(Refusal::from(&error));
            self.let_go(error.reply());
        }
    }

    /// Waits until the credentials of a request are checked, and begins the request or its refusal. Nothing
    /// is read during this wait, so the deadline of the peer stops.
    async fn await_check(&mut self) {
        self.slot.set(Phase::Handling);
        self.count_held();
        {
            let Reading::Checking(arrived) = &mut self.reading else { return };
            let checked = pin!(arrived.finish_check(&self.worker.cells));
            self.queue.beside(&self.worker, &self.held, checked).await;
        }
        if let Reading::Checking(arrived) = std::mem::replace(&mut self.reading, Reading::Head)
            && let Err(error) = self.begin(*arrived)
        {
            self.refuse(&error);
        }
    }

    /// Starts the deadline of the current wait. A handler has its own bounds, so the client may wait for the
    /// handler without a deadline.
    fn await_time(&self) {
        let limits = self.limits();
        let (phase, timeout) = match &self.reading {
            _ if !self.is_peer_awaited() => return self.slot.set(Phase::Handling),
            Reading::Head if self.head_reader.has_started() => (Phase::Head, limits.head_timeout),
            Reading::Head => (Phase::Idle, limits.idle_timeout),
            Reading::Checking(_) => return self.slot.set(Phase::Handling),
            Reading::Body(body) => (Phase::Body, body.arrived.body_pace(limits).patience()),
            Reading::Upload(uploading) => (Phase::Body, uploading.pace.patience()),
        };
        self.slot.arm(phase, timeout);
    }

    /// Returns whether the connection waits for the peer, and not for a handler.
    fn is_peer_awaited(&self) -> bool {
        match &self.reading {
            _ if self.queue.is_empty() => true,
            Reading::Upload(uploading) => uploading.takes_more(),
            Reading::Checking(_) => false,
            Reading::Body(body) if body.owes_continue() => false,
            Reading::Head | Reading::Body(_) => self.takes_requests() && !self.is_between_requests(),
        }
    }

    /// Returns whether the connection holds a part of a request that no handler has. An upload does not
    /// count, because it has its own bound.
    fn has_part_of_request(&self) -> bool {
        !self.is_between_requests() && !matches!(self.reading, Reading::Upload(_))
    }

    /// Refuses an incomplete request, because no memory is available for its remaining bytes.
    fn give_up(&mut self) {
        self.worker.cells.count_refusal(Refusal::Memory);
        let text = "the server has too little memory for this request: nothing was recorded";
        self.let_go(Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text));
    }

    /// Answers an incomplete request, and frees the part that has arrived.
    fn let_go(&mut self, reply: Reply) {
        self.end_with(reply);
        self.input = BytesMut::new();
        self.reading = Reading::Head;
        self.count_held();
    }

    /// Extends the deadline of a body that arrives fast enough.
    fn earn_time(&self, bytes: usize) {
        let (pace, begun) = match &self.reading {
            Reading::Head | Reading::Checking(_) => return,
            Reading::Body(body) => (body.arrived.body_pace(self.limits()), body.arrived.begun),
            Reading::Upload(uploading) => (uploading.pace, uploading.begun),
        };
        self.slot.earn(bytes, pace.rate_min, self.slot.after(begun, pace.timeout));
    }

    /// RFC 9110 section 10.1.1: sends 100 (Continue) to a client that waits for it, after all earlier
    /// replies.
    async fn ask_for_body(&mut self) -> Result<(), Gone> {
        let Reading::Body(body) = &mut self.reading else { return Ok(()) };
        if self.queue.is_empty() && body.take_continue() {
            let Self { stream, slot, held, rules, worker, .. } = self;
            let mut outlet = Outlet { stream, slot, held, limits: &rules.limits, scratch: &worker.scratch };
            outlet.write(CONTINUE).await?;
        }
        Ok(())
    }

    fn end_of_stream(&mut self) -> Result<(), Gone> {
        match &self.reading {
            // The stream ends inside a body, so the request is incomplete, whether or not the connection was
            // to be used again.
            Reading::Upload(uploading) => {
                let error = RequestError::BodyIncomplete { bytes: uploading.upload.bytes() as u64 };
                self.break_upload_off(&error);
                Ok(())
            }
            _ if self.reuse != Reuse::Open || self.is_between_requests() => self.end_of_requests(),
            Reading::Head | Reading::Checking(_) => {
                self.worker.cells.count_malformed(StatusCode::BAD_REQUEST);
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

    /// Handles a half-close. The peer is not gone, so pending requests are still answered.
    fn end_of_requests(&mut self) -> Result<(), Gone> {
        if self.queue.is_empty() {
            return Err(Gone);
        }
        self.reuse = Reuse::Ended;
        Ok(())
    }

    /// Ends a connection between requests. A client that has not taken all of its replies may be about to
    /// send a request, so the connection does not close at once.
    fn end_between_requests(&mut self) -> Result<(), Gone> {
        if self.stream.untaken_bytes().is_none_or(|bytes| bytes == 0) {
            return Err(Gone);
        }
        self.reuse = Reuse::Linger;
        Ok(())
    }

    fn too_late(&mut self) -> Result<(), Gone> {
        if self.is_between_requests() {
            return self.end_between_requests();
        }
        if matches!(self.reading, Reading::Upload(_)) {
            self.upload_too_late();
            return Ok(());
        }
        self.worker.cells.count_malformed(StatusCode::REQUEST_TIMEOUT);
        self.end_with(Reply::text(StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time"));
        Ok(())
    }
}

#[cfg(test)]
mod tests;

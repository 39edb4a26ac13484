//! Answers the complete requests in the read buffer, and appends their replies to
//! [`Replies`](super::replies::Replies).

use std::net::IpAddr;
use std::time::Instant;

use tollgate_http::{Connection as ConnectionOption, Method, RequestError, RequestHead, Version};
use tollgate_script::Body;

use super::body::{BodyReader, Progress};
use super::client::TooMany;
use super::connection::{Connection, Reading, Reuse};
use super::queue::{AnsweredRequest, ReplyForm, ReplySource};
use super::transport::Transport;
use crate::access_log::{AccessEntry, AccessHead};
use crate::admit::{Arrived, Destination, Received, Taken, Unserved};
use crate::auth::Access;
use crate::clock::Moment;
use crate::deadline::Phase;
use crate::handler::{Endpoint, GatedReply, Handled, Turn, Visit};
use crate::observe::{RequestFault, RouteTally};
use crate::reply::{Extent, Framing, Reply, Writing};

impl<S: Transport> Connection<S> {
    /// Appends the replies of handlers that have returned, then answers the complete requests of the buffer,
    /// in their order.
    pub(super) fn answer_what_came(&mut self) {
        self.feed_upload();
        while !self.replies.is_followed()
            && let Some(AnsweredRequest { answer, handled, form, .. }) = self.queue.pop()
        {
            self.reply(answer, handled.as_ref(), form);
        }
        if matches!(self.reading, Reading::Head) && !self.worker.goes_by(&self.rules) {
            self.rules = self.worker.rules();
            self.client.reconsider(&self.worker, &self.rules);
        }
        if self.input.is_empty() && matches!(self.reading, Reading::Head) {
            return;
        }
        // One clock reading serves all heads, because all of them are complete now.
        let now = self.worker.clock.now();
        while self.takes_requests() {
            match self.answer_next(now) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => self.refuse(&error),
            }
        }
    }

    /// Returns whether the next request may begin.
    ///
    /// While the server drains, no request begins after a request that still runs. After a refusal, no
    /// request begins before the client has paused.
    pub(super) fn takes_requests(&self) -> bool {
        let may_join =
            || self.queue.is_empty() || (self.queue.takes_more() && !self.worker.deadlines.is_draining());
        let is_paused = self.paused_until.is_some() && matches!(self.reading, Reading::Head);
        self.reuse == Reuse::Open
            && !is_paused
            && !self.is_full()
            && !self.replies.is_followed()
            && may_join()
    }

    /// Answers the next complete request of the buffer. Returns false if the request needs more bytes.
    #[inline]
    fn answer_next(&mut self, now: Moment) -> Result<bool, RequestError> {
        if let Reading::Head = &self.reading {
            let limits = &self.rules.limits.head;
            let Some(head) = self.head_reader.read(&mut self.input, limits)? else { return Ok(false) };
            let Some(arrived) = self.arrive_at_route(head, now) else { return Ok(true) };
            return self.begin(arrived);
        }
        self.answer_body()
    }

    /// Finds the destination of a request. Returns `None` if the request is already answered.
    #[inline]
    fn arrive_at_route(&mut self, mut head: RequestHead, now: Moment) -> Option<Arrived> {
        let worker = self.worker.clone();
        let service = worker.service();
        let client = self.client.of(&head, &worker, &self.rules);
        let received = match client {
            Ok(client) => match self.reply_without_route(&head) {
                Some(reply) => Err(Unserved::unrouted(reply)),
                None => worker.receive(&service, &head, now, self.client.tls(), || client),
            },
            Err(TooMany) => {
                if head.framing().has_content() {
                    // This connection exceeds the limit of its client. Reading the content would keep it
                    // open.
                    self.reuse = Reuse::Linger;
                }
                Err(Unserved::unrouted(worker.refuse_client(&service, &head, now.at, TooMany.reply())))
            }
        };
        let address = || client.as_ref().map_or(self.client.peer, |client| *client);
        let line = self.begin_line(now, &head, address, &received);
        let (destination, permit, access) = match received {
            Ok(Received { found, permit, access }) => {
                let is_checked = !matches!(access, Access::Checking(_));
                if is_checked && line.is_none() && self.replies_plainly(found.endpoint, &head, now) {
                    self.head_reader.recycle(&mut head);
                    return None;
                }
                (found.destination(&head), permit, access)
            }
            Err(Unserved { destination, .. }) => {
                self.paused_until = worker.refusal_pauses.take().or(self.paused_until);
                (destination, None, Access::Open)
            }
        };
        let (client, begun, time_us) = (client.ok().flatten(), now.at, now.wall_us);
        Some(Arrived {
            destination,
            client,
            begun,
            time_us,
            access,
            permit,
            verification: None,
            validation: None,
            upload: None,
            is_sampled: line.as_ref().is_some_and(|line| line.has_span()),
            line,
            head,
        })
    }

    /// Begins the line of a request in the access log, if the request gets one.
    #[inline]
    fn begin_line(
        &self,
        now: Moment,
        head: &RequestHead,
        client: impl FnOnce() -> Option<IpAddr>,
        received: &Result<Received<'_>, Unserved<'_>>,
    ) -> Option<Box<AccessEntry>> {
        let log = self.rules.access_log.as_ref()?;
        let endpoint = match received {
            Ok(received) => Some(received.found.endpoint),
            Err(unserved) => unserved.endpoint,
        };
        let request = AccessHead {
            head,
            client: client(),
            route: endpoint.map(|endpoint| &endpoint.cells),
            trace: self.taken().trace,
            scheme: self.client.scheme_of(head, &self.rules),
        };
        AccessEntry::new(&self.worker.access_lines, log, now, &request)
    }

    /// Takes the line of the request that is being read. Bytes without a valid head get a line of their own.
    fn take_line(&mut self) -> Option<Box<AccessEntry>> {
        let log = self.rules.access_log.as_ref()?;
        match &mut self.reading {
            Reading::Checking(arrived) => arrived.take_line(),
            Reading::Body(body) => body.arrived.take_line(),
            Reading::Head | Reading::Upload(_) => {
                let now = self.worker.clock.now();
                AccessEntry::unread(&self.worker.access_lines, log, now, self.client.peer)
            }
        }
    }

    /// Returns the reply to a request that gets no route: its target has another scheme, or its address leads
    /// clients to HTTPS.
    #[inline]
    fn reply_without_route(&mut self, head: &RequestHead) -> Option<Box<Reply>> {
        match head.check_scheme(|| self.client.scheme_of(head, &self.rules)) {
            Ok(()) => self.client.redirect(head, &self.rules).map(Box::new),
            Err(error) => {
                self.reuse = Reuse::Linger;
                Some(self.reply_to_fault(&error).into())
            }
        }
    }

    /// Answers a request without content, or begins to read the content. A request whose credentials are
    /// still checked waits, and its content is not read.
    #[inline]
    pub(super) fn begin(&mut self, mut arrived: Arrived) -> Result<bool, RequestError> {
        if matches!(arrived.access, Access::Checking(_)) {
            self.reading = Reading::Checking(Box::new(arrived));
            return Ok(false);
        }
        arrived.begin_verification(|head| self.client.scheme_of(head, &self.rules));
        if !arrived.head.framing().has_content() {
            arrived.begin_validation();
            arrived.end_verification();
            arrived.end_validation();
            self.answer(arrived, Body::default());
            return Ok(true);
        }
        let codings = arrived.check_content();
        arrived.begin_validation();
        if arrived.is_answered() && arrived.head.expects_continue() {
            // RFC 9110 section 10.1.1: the client sends its content only after 100 (Continue). The client
            // gets the final reply instead of 100.
            self.reuse = Reuse::Linger;
        }
        if self.reuse == Reuse::Linger {
            self.answer(arrived, Body::default());
            return Ok(true);
        }
        self.reading = Reading::Body(Box::new(BodyReader::new(arrived, &codings, &self.rules.limits)));
        self.answer_body()
    }

    /// Answers the request whose content is being read, if the content is complete.
    fn answer_body(&mut self) -> Result<bool, RequestError> {
        let Reading::Body(body) = &mut self.reading else { return Ok(false) };
        let content = match body.read(&mut self.input) {
            Ok(Progress::NeedMore | Progress::Full) => return Ok(false),
            Ok(Progress::Done(content)) => content,
            // The reply is already decided. If the body is too long, the remaining bytes are not read and do
            // not change the reply.
            Err(RequestError::BodyTooLarge { .. }) if body.arrived.is_answered() => {
                self.reuse = Reuse::Linger;
                Body::default()
            }
            Err(error) => return Err(error),
        };
        match std::mem::replace(&mut self.reading, Reading::Head) {
            Reading::Body(mut body) => {
                body.arrived.end_verification();
                body.arrived.end_validation();
                self.answer(body.arrived, content);
                Ok(true)
            }
            Reading::Head | Reading::Checking(_) | Reading::Upload(_) => Ok(false),
        }
    }

    /// Answers a complete request at once if no earlier request runs and the handler returns at once. In any
    /// other case the request joins the queue.
    #[inline]
    pub(super) fn answer(&mut self, mut arrived: Arrived, body: Body) {
        let has_policy = self.client.gets_policy(&arrived.head, &self.rules);
        let form = ReplyForm::of(&mut arrived, has_policy);
        self.slot.set(Phase::Handling);
        self.requests += 1;
        if !arrived.head.is_persistent() {
            let has_content = arrived.head.framing().has_content();
            self.reuse = self.reuse.ending(if has_content { Reuse::Close } else { Reuse::Leave });
        } else if self.limits().requests_max.is_some_and(|max| self.requests >= max) {
            self.reuse = self.reuse.ending(Reuse::Linger);
        }
        if let Some(form) = self.replies_without_handler(&arrived, form) {
            self.enter(arrived, body, form);
        }
    }

    /// Replies from bytes that are already encoded, if the request needs no handler and does not change the
    /// connection.
    ///
    /// Returns false if the request needs more than these bytes.
    #[inline]
    fn replies_plainly(&mut self, endpoint: &Endpoint, head: &RequestHead, now: Moment) -> bool {
        let Some(reply) = endpoint.plain_reply() else { return false };
        let is_usual = head.version() == Version::Http11
            && head.is_persistent()
            && head.method() != Method::Head
            && !head.framing().has_content();
        let goes_on = self.queue.is_empty()
            && self.limits().requests_max.is_none_or(|max| self.requests + 1 < max)
            && !self.client.is_trusted_proxy()
            && !self.worker.deadlines.is_draining();
        if !is_usual || !goes_on {
            return false;
        }
        self.slot.set(Phase::Handling);
        self.requests += 1;
        let (worker, takes_id) = (&self.worker, self.taken().id);
        let id = || worker.request_id(head, now.wall_us, takes_id);
        let has_policy = self.client.gets_policy(head, &self.rules);
        let lines = if has_policy { self.rules.https.policy_line() } else { &[] };
        self.replies.push_plain(reply, worker.clock.date(), lines, id, now.at, &endpoint.cells);
        true
    }

    /// Replies to a request that needs no handler. Returns the form of the reply if the request needs one.
    fn replies_without_handler(&mut self, arrived: &Arrived, form: ReplyForm) -> Option<ReplyForm> {
        let Destination::Endpoint { endpoint, .. } = &arrived.destination else { return Some(form) };
        let Some(plain) = endpoint.plain_reply().filter(|_| self.queue.is_empty()) else { return Some(form) };
        let id = self.worker.request_id(&arrived.head, arrived.time_us, self.taken().id);
        let handled = Handled { id, route: endpoint.cells.clone() };
        self.reply(GatedReply::plain(&plain.reply), Some(&handled), form);
        None
    }

    #[inline]
    fn enter(&mut self, arrived: Arrived, body: Body, form: ReplyForm) {
        let visit = match &arrived.destination {
            Destination::Refused(_) => self.visit_of_refused(arrived),
            _ => self.visit_of(arrived, body),
        };
        match visit {
            Ok(visit) => self.handle(visit, form),
            Err(reply) => self.reply_by_itself(*reply, form),
        }
    }

    #[inline]
    fn visit_of(&self, arrived: Arrived, body: Body) -> Result<Visit, Box<Reply>> {
        let origin = self.client.origin(arrived.client, &self.rules);
        let mut exchange = self.worker.exchange(arrived, body, origin, self.taken())?;
        exchange.choose()?;
        Ok(Visit::new(exchange))
    }

    /// Makes the visit of a request that its route refuses, which only records it. Nothing proves who sent
    /// the content, so it is not kept.
    #[cold]
    fn visit_of_refused(&self, mut arrived: Arrived) -> Result<Visit, Box<Reply>> {
        let reply = arrived.destination.take_refusal();
        let origin = self.client.origin(arrived.client, &self.rules);
        let exchange = self.worker.exchange(arrived, Body::default(), origin, self.taken())?;
        Ok(match reply {
            Some(reply) => Visit::refused(exchange, reply),
            None => Visit::new(exchange),
        })
    }

    fn taken(&self) -> Taken {
        let is_from_proxy = self.client.is_trusted_proxy();
        Taken {
            id: self.rules.request_ids.takes(is_from_proxy),
            trace: self.rules.traces.rule(is_from_proxy),
        }
    }

    #[inline]
    fn handle(&mut self, mut visit: Visit, form: ReplyForm) {
        if !self.queue.is_empty() || visit.held_back_at().is_some() {
            return self.queue.push(ReplySource::Handler(visit), form);
        }
        // The memory is checked again, because connections may hold more memory now than when the head of
        // this request arrived.
        if self.worker.capacity.is_full() && visit.is_untouched() {
            let refusal = self.worker.refuse_late(&visit);
            return self.reply_by_itself(refusal, form);
        }
        let (turn, ran) = visit.run();
        if turn != Turn::Over {
            return self.queue.push_begun(visit, turn, ran, form);
        }
        let handled = visit.handled();
        if let Some(answer) = visit.answer(&self.worker.recorder) {
            self.reply(answer, Some(&handled), form);
        }
        if let Some(head) = visit.unread_head() {
            self.head_reader.recycle(head);
        }
    }

    fn reply_by_itself(&mut self, reply: Reply, form: ReplyForm) {
        if self.queue.is_empty() {
            self.reply(reply.into(), None, form);
        } else {
            self.queue.push(ReplySource::Reply(reply), form);
        }
    }

    /// Appends the next reply. The last reply of a connection says `Connection: close` (RFC 9112 section
    /// 9.6).
    fn reply(&mut self, mut answer: GatedReply<'_>, handled: Option<&Handled>, form: ReplyForm) {
        if form.has_policy
            && let Some(value) = self.rules.https.policy_value()
        {
            answer.add_policy(value);
        }
        let framing = match (answer.reply.extent, form.version) {
            (Extent::Whole | Extent::Sized(_), _) => Framing::Length,
            (Extent::Streamed, Version::Http11) => Framing::Chunked,
            (Extent::Streamed, Version::Http10) => Framing::UntilClose,
        };
        if framing == Framing::UntilClose {
            // No reply can follow this reply, because the end of the connection ends its content.
            self.queue.cancel(&self.worker.recorder);
            self.reuse = self.reuse.ending(Reuse::Close);
        }
        let is_last_at_hand = self.queue.is_empty();
        if is_last_at_hand {
            self.leave_upload();
        }
        if is_last_at_hand && self.reuse == Reuse::Open && self.worker.deadlines.is_draining() {
            self.reuse = Reuse::Linger;
        }
        let connection = match form.version {
            _ if is_last_at_hand && self.reuse != Reuse::Open => Some(ConnectionOption::Close),
            Version::Http10 => Some(ConnectionOption::KeepAlive),
            Version::Http11 => None,
        };
        let id = handled.filter(|_| self.rules.sends_request_ids()).map(|handled| &handled.id);
        let route = handled.map(|handled| handled.route.clone());
        let tally = RouteTally { status: answer.reply.status, begun: form.begun, route };
        let (date, level) = (self.worker.clock.date(), answer.reported_level());
        let writing = Writing { date, is_head: form.is_head, framing, connection, level };
        // RFC 9110 section 15.2: HTTP/1.0 has no interim replies.
        if form.version == Version::Http11 {
            self.replies.lead(&answer.reply.interim);
        }
        let line = form.line.map(|line| described(line, &answer, handled, form.is_head));
        self.replies.push(&answer.reply, answer.gate, id, writing, tally);
        if let Some(line) = line {
            self.replies.describe_last(line);
        }
        if let Some(streamed) = answer.streamed.filter(|_| !form.is_head) {
            self.replies.follow(streamed);
        }
    }

    /// Sends an error reply to bytes that are not a valid request. The connection reads no request after
    /// this.
    pub(super) fn refuse(&mut self, error: &RequestError) {
        let reply = self.reply_to_fault(error);
        if let Reading::Body(body) = &self.reading
            && let Destination::Endpoint { endpoint, .. } = &body.arrived.destination
        {
            endpoint.note_fault(RequestFault::Content, &body.arrived.head, &reply);
        }
        self.end_with(reply);
    }

    /// Counts and logs a fault of a request. Returns the reply to it.
    fn reply_to_fault(&self, error: &RequestError) -> Reply {
        tracing::debug!(peer = self.client.peer.map(tracing::field::display), "request refused: {error}");
        self.worker.cells.count_malformed(error.status());
        Reply::text(error.status(), error.client_text())
    }

    pub(super) fn end_with(&mut self, mut reply: Reply) {
        self.reuse = Reuse::Linger;
        if let Reading::Body(body) = &self.reading
            && let Some(grant) = body.arrived.grant()
        {
            grant.add_to(&mut reply);
        }
        let line = self.take_line();
        let form = ReplyForm {
            line,
            is_head: self.is_head_request(),
            version: Version::Http11,
            begun: Instant::now(),
            has_policy: self.client.uses_tls(),
        };
        self.reply_by_itself(reply, form);
    }

    /// Returns whether the request that is being read is known to use HEAD. A refusal of such a request has
    /// no content either (RFC 9110 section 9.3.2).
    fn is_head_request(&self) -> bool {
        match &self.reading {
            Reading::Head => self.input.starts_with(b"HEAD "),
            Reading::Checking(arrived) => arrived.head.method() == Method::Head,
            Reading::Body(body) => body.arrived.head.method() == Method::Head,
            Reading::Upload(_) => false,
        }
    }
}

/// Adds the facts about a reply to the line of its request.
#[cold]
fn described(
    mut line: Box<AccessEntry>,
    answer: &GatedReply<'_>,
    handled: Option<&Handled>,
    is_head: bool,
) -> Box<AccessEntry> {
    if let Some(Handled { id, route }) = handled {
        line.note_handled(route, id);
    }
    let reply = &answer.reply;
    let is_content_sent = !is_head && reply.status.may_have_content() && reply.extent == Extent::Whole;
    let content_bytes = if is_content_sent { reply.content_bytes() } else { 0 };
    line.note_reply(reply.status, reply.outcome(), answer.ack, content_bytes);
    if reply.is_invalid {
        line.note_invalid();
    }
    line
}

//! The line and the span of one request, from its head until the reply has left.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

use tollgate_http::{RequestHead, StatusCode, UriScheme};
use tollgate_script::{Caller, RequestId, Trace, TraceParent, TraceRule};

use super::AccessLog;
use super::worker_lines::WorkerLines;
use crate::access_queue::{AccessClient, AccessOutcome, AckCode, LineFacts, SpanFacts, push_text, texts_of};
use crate::clock::Moment;
use crate::observe::OwnCells;
use crate::options::stream::Ack;
use crate::options::{AccessOnly, AccessRedaction, shown};

/// Maximum bytes of `User-Agent` and of `Referer` in a line. The end of a longer value is cut off.
const FIELD_BYTES_MAX: usize = 2 << 10;

/// The line and the span of one request. Dropping it hands them over.
pub(crate) struct AccessEntry {
    lines: Rc<WorkerLines>,
    log: Rc<AccessLog>,
    begun: Instant,
    facts: LineFacts,
    /// Method, target, `User-Agent` and `Referer`, encoded.
    texts: Vec<u8>,
    route: Option<Rc<OwnCells>>,
    caller: Option<Rc<Caller>>,
    id: Option<RequestId>,
    reply: ReplyState,
    /// The requests that get a line, if this one may get a line.
    only: Option<AccessOnly>,
    span: Option<SpanOrigin>,
}

/// The origin of a span that is exported.
struct SpanOrigin {
    parent: Option<TraceParent>,
    scheme: UriScheme,
}

/// The state of the reply to a request with a line.
enum ReplyState {
    /// There is no reply yet.
    Awaited,
    /// The reply waits, or is being sent.
    Made { outcome: AccessOutcome, content_bytes: u64 },
    /// The reply has left.
    Left,
}

/// A request with a complete head.
pub(crate) struct AccessHead<'a> {
    pub(crate) head: &'a RequestHead,
    /// Address of the client.
    pub(crate) client: Option<IpAddr>,
    /// Cells of the route, if the request has one.
    pub(crate) route: Option<&'a Rc<OwnCells>>,
    /// Rule for the trace of the request.
    pub(crate) trace: TraceRule,
    pub(crate) scheme: UriScheme,
}

impl AccessEntry {
    /// Begins the line and the span of a request. Returns `None` if the request gets neither.
    #[cold]
    pub(crate) fn new(
        lines: &Rc<WorkerLines>,
        log: &Rc<AccessLog>,
        now: Moment,
        request: &AccessHead<'_>,
    ) -> Option<Box<Self>> {
        let head = request.head;
        let parent = log.spans.and_then(|_| request.trace.parent(head));
        let is_sampled = match (log.spans, parent) {
            (None, _) => false,
            (Some(_), Some(parent)) => parent.is_sampled(),
            (Some(sample), None) => request.trace.makes() && sample.takes(lines),
        };
        let span = is_sampled.then_some(SpanOrigin { parent, scheme: request.scheme });
        let mut entry = Self::begun(lines, log, now, request.client, span)?;
        entry.facts.version = Some(head.version());
        entry.route = request.route.cloned();
        entry.texts = texts(entry.rules(), log, head);
        Some(entry)
    }

    /// Begins the line of a request whose head the server could not read.
    #[cold]
    pub(crate) fn unread(
        lines: &Rc<WorkerLines>,
        log: &Rc<AccessLog>,
        now: Moment,
        client: Option<IpAddr>,
    ) -> Option<Box<Self>> {
        Self::begun(lines, log, now, client, None)
    }

    fn begun(
        lines: &Rc<WorkerLines>,
        log: &Rc<AccessLog>,
        now: Moment,
        client: Option<IpAddr>,
        span: Option<SpanOrigin>,
    ) -> Option<Box<Self>> {
        let only = log.lines.filter(|(_, sample)| sample.takes(lines)).map(|(only, _)| only);
        if only.is_none() && span.is_none() {
            return None;
        }
        let facts = LineFacts {
            time_us: now.wall_us,
            took_us: 0,
            reply_bytes: 0,
            status: 0,
            version: None,
            ack: AckCode::None,
            outcome: AccessOutcome::Cancelled,
            client: client.map_or(AccessClient::Unknown, AccessClient::Address),
        };
        let mut texts = Vec::new();
        (0..4).for_each(|_| push_text(&mut texts, None));
        Some(Box::new(Self {
            lines: lines.clone(),
            log: log.clone(),
            begun: now.at,
            facts,
            texts,
            route: None,
            caller: None,
            id: None,
            reply: ReplyState::Awaited,
            only,
            span,
        }))
    }

    /// Notes the caller whose credentials are valid.
    pub(crate) fn note_caller(&mut self, caller: Option<&Rc<Caller>>) {
        self.caller = caller.cloned();
    }

    /// Notes the route that answered, and the id of the request. A handler may have passed the request to
    /// this route, so the rules of its stream apply, too.
    pub(crate) fn note_handled(&mut self, route: &Rc<OwnCells>, id: &RequestId) {
        self.id = Some(id.clone());
        if self.route.as_ref().is_some_and(|known| Rc::ptr_eq(known, route)) {
            return;
        }
        self.facts.client = self.rules().client(self.facts.client);
        self.route = Some(route.clone());
        if let Some(texts) = texts_again(self.rules(), &self.texts) {
            self.texts = texts;
        }
    }

    /// Notes a reply that is about to be sent. `word` is the value of `Tollgate-Outcome`, if the reply has
    /// one. `content_bytes` is the length of the content that is sent with the head.
    pub(crate) fn note_reply(
        &mut self,
        status: StatusCode,
        word: Option<&[u8]>,
        ack: Option<Ack>,
        content_bytes: u64,
    ) {
        self.facts.ack = match ack {
            None => AckCode::None,
            Some(Ack::Log(level)) => AckCode::Log(level),
            Some(Ack::Loaded { .. }) => AckCode::Loaded,
            Some(Ack::Queued { .. }) => AckCode::Queued,
        };
        let outcome = if ack.is_some() { AccessOutcome::Acknowledged } else { AccessOutcome::Replied };
        self.facts.status = status.as_u16();
        self.reply = ReplyState::Made { outcome: outcome_of(word).unwrap_or(outcome), content_bytes };
    }

    /// Notes that the reply is not valid by the schema of its route. If it is cut off, its line says so.
    pub(crate) fn note_invalid(&mut self) {
        if let ReplyState::Made { outcome, .. } = &mut self.reply {
            *outcome = AccessOutcome::Invalid;
        }
    }

    /// Notes the reply that replaces another reply, because the records did not reach their ack level.
    pub(crate) fn note_replacement(&mut self, status: StatusCode, word: Option<&[u8]>, content_bytes: u64) {
        self.facts.status = status.as_u16();
        let outcome = outcome_of(word).unwrap_or(AccessOutcome::Unknown);
        self.reply = ReplyState::Made { outcome, content_bytes };
    }

    /// Counts bytes of streamed content that were sent.
    pub(crate) fn add_bytes(&mut self, bytes: usize) {
        self.facts.reply_bytes += bytes as u64;
    }

    /// Notes that the reply has left at `now`.
    pub(crate) fn leave(&mut self, now: Instant) {
        if let ReplyState::Made { outcome, content_bytes } = self.reply {
            self.facts.outcome = outcome;
            self.facts.reply_bytes += content_bytes;
            self.facts.took_us = microseconds(now.saturating_duration_since(self.begun));
            self.reply = ReplyState::Left;
        }
    }

    /// Returns whether the span of the request is exported.
    pub(crate) fn has_span(&self) -> bool {
        self.span.is_some()
    }

    /// Returns the memory of the entry in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.texts.capacity()
    }

    /// Returns the rules that hide parts of this line.
    fn rules(&self) -> &AccessRedaction {
        self.route.as_ref().and_then(|route| route.hides()).unwrap_or(&self.log.any_stream)
    }

    /// Returns the trace of the span, if the span is exported. The id of a trace that begins here is the id
    /// of the request, so there is no span if a stream hides this id.
    fn span_facts(&self) -> Option<SpanFacts> {
        let SpanOrigin { parent, scheme } = *self.span.as_ref()?;
        if parent.is_none() && self.id.is_some() && self.rules().id {
            return None;
        }
        let time_us = self.facts.time_us;
        let id = self.id.as_ref().map_or_else(|| self.lines.new_id(time_us), RequestId::uuid);
        Some(SpanFacts { trace: Trace::of(parent, id, time_us, true), scheme })
    }

    fn has_line(&self) -> bool {
        match self.only {
            None => false,
            Some(AccessOnly::All) => true,
            Some(AccessOnly::Errors) => self.facts.status >= 500 || self.facts.outcome.is_error(),
        }
    }
}

/// Hands the line over. A request whose reply has not left is cancelled or aborted.
impl Drop for AccessEntry {
    fn drop(&mut self) {
        match self.reply {
            ReplyState::Left => {}
            ReplyState::Made { outcome: AccessOutcome::Invalid, .. } => {
                self.facts.outcome = AccessOutcome::Invalid;
            }
            ReplyState::Made { .. } => self.facts.outcome = AccessOutcome::Aborted,
            ReplyState::Awaited => self.facts.outcome = AccessOutcome::Cancelled,
        }
        if !matches!(self.reply, ReplyState::Left) {
            self.facts.took_us = microseconds(self.begun.elapsed());
        }
        let (has_line, span) = (self.has_line(), self.span_facts());
        if !has_line && span.is_none() {
            return;
        }
        let rules = self.rules();
        let user = self.caller.as_ref().map(|caller| shown(caller.name.as_bytes(), rules.user));
        let route = self.route.as_ref().map(|route| route.name.path.as_bytes());
        let mut buffer = [0; 36];
        let id = self.id.as_ref().map(|id| shown(id.text(&mut buffer), rules.id));
        let facts = LineFacts { client: rules.client(self.facts.client), ..self.facts.clone() };
        if has_line {
            self.lines.add_line(|out| facts.write(&self.texts, [user, route, id, None], out));
        }
        if let Some(span) = span {
            self.lines
                .add_span(|out| facts.write(&self.texts, [None, route, None, Some(&span.encode())], out));
        }
    }
}

/// Encodes the texts of a request. A `Referer` may lead to any route, so the rules of all streams apply.
fn texts(rules: &AccessRedaction, log: &AccessLog, head: &RequestHead) -> Vec<u8> {
    let target = head.raw_target().as_bytes();
    let field = |name| head.field(name).map(|value| &value[..value.len().min(FIELD_BYTES_MAX)]);
    let (user_agent, referer) = (field("user-agent"), field("referer"));
    let referer = referer.map(|referer| {
        let mut hidden = Vec::with_capacity(referer.len());
        log.any_stream.push_target(&mut hidden, shown(referer, log.any_stream.referer || rules.referer));
        hidden
    });
    let fields_bytes = user_agent.map_or(0, <[u8]>::len) + referer.as_ref().map_or(0, Vec::len);
    let mut out = Vec::with_capacity(32 + target.len() + fields_bytes);
    push_text(&mut out, Some(head.method_name().as_bytes()));
    push_hidden_target(&mut out, rules, target);
    push_text(&mut out, user_agent.map(|value| shown(value, rules.user_agent)));
    push_text(&mut out, referer.as_deref());
    out
}

/// Encodes texts once more, by further rules. Values that are hidden stay hidden.
fn texts_again(rules: &AccessRedaction, texts: &[u8]) -> Option<Vec<u8>> {
    let [method, target, user_agent, referer] = texts_of(texts)?;
    let mut out = Vec::with_capacity(texts.len());
    push_text(&mut out, method);
    match target {
        Some(target) => push_hidden_target(&mut out, rules, target),
        None => push_text(&mut out, None),
    }
    push_text(&mut out, user_agent.map(|value| shown(value, rules.user_agent)));
    push_text(&mut out, referer.map(|value| shown(value, rules.referer)));
    Some(out)
}

/// Appends a target as a text. Its length is known after its values are hidden.
fn push_hidden_target(out: &mut Vec<u8>, rules: &AccessRedaction, target: &[u8]) {
    let start = out.len();
    push_text(out, Some(b""));
    rules.push_target(out, target);
    let bytes = u32::try_from(out.len() - start - 4).unwrap_or_default();
    out[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
}

fn outcome_of(word: Option<&[u8]>) -> Option<AccessOutcome> {
    match word? {
        b"refused" => Some(AccessOutcome::Refused),
        b"unknown" => Some(AccessOutcome::Unknown),
        b"rejected" => Some(AccessOutcome::Rejected),
        _ => None,
    }
}

fn microseconds(took: std::time::Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

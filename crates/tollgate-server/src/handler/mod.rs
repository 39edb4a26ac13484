//! Step 4: what answers on a route, and what it leaves in the log.

mod collect;
mod flow;
mod items;
mod rehearsal;
mod script;
mod visit;

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Instant;

use tollgate_http::{Method, Methods, RequestHead, StatusCode};
use tollgate_log::{AppendError, Level};
use tollgate_script::{Host, LoadError, Record, RecordFields, Request, RequestId};

use crate::cors::Cors;
use crate::files::{Files, Work};
use crate::options::{BodyPace, HandlerSpec, RouteSpec};
use crate::recorder::{Gate, Recorder};
use crate::reply::{Extent, Reply};
use crate::stream::Ack;
use crate::transaction::{Ending, Facts, StreamPlan};
pub use collect::BODY_BYTES_MAX as COLLECT_BODY_BYTES_MAX;
pub(crate) use flow::{Flow, Flowed};
pub(crate) use rehearsal::Rehearsed;
use script::ScriptRecord;
pub(crate) use visit::{Turn, Visit};

/// What a route leads to, in one worker.
pub(crate) struct Endpoint {
    /// The pattern, for log lines.
    pub(crate) path: String,
    pub(crate) methods: Methods,
    pub(crate) body_bytes_max: u64,
    pub(crate) body_pace: Option<BodyPace>,
    pub(crate) cors: Option<Cors>,
    stream: Option<Rc<StreamPlan>>,
    handler: Handler,
}

enum Handler {
    Script(Box<Scripted>),
    Collect(Rc<StreamPlan>),
    Files(Box<Files>),
    Reply(Reply),
}

/// A script, and the files that it may send.
struct Scripted {
    handler: tollgate_script::Handler,
    files: Option<Files>,
}

/// A complete request on its way through a handler.
pub(crate) struct Exchange {
    pub(crate) endpoint: Rc<Endpoint>,
    pub(crate) request: Rc<Request>,
    /// When the head was complete.
    pub(crate) begun: Instant,
}

/// A reply, and what it has to wait for.
pub(crate) struct Answer<'a> {
    pub(crate) reply: Cow<'a, Reply>,
    pub(crate) gate: Option<Gate>,
    /// What writes the content of a streamed reply.
    pub(crate) flow: Option<Box<Flow>>,
}

impl Answer<'_> {
    pub(crate) fn into_owned(self) -> Answer<'static> {
        Answer { reply: Cow::Owned(self.reply.into_owned()), gate: self.gate, flow: self.flow }
    }
}

impl From<Reply> for Answer<'_> {
    fn from(reply: Reply) -> Self {
        Self { reply: Cow::Owned(reply), gate: None, flow: None }
    }
}

impl Endpoint {
    /// Makes the endpoint of a route; loads its script.
    ///
    /// # Errors
    /// The script was not taken.
    pub(crate) fn new(
        spec: &RouteSpec,
        streams: &[Rc<StreamPlan>],
        host: &Host,
        work: &Rc<Work>,
    ) -> Result<Self, LoadError> {
        let stream = spec.stream.and_then(|stream| streams.get(stream)).cloned();
        let handler = match (&spec.handler, &stream) {
            (HandlerSpec::Script { file, root }, _) => {
                let nothing = RecordFields::default();
                let fields = stream.as_ref().map_or(&nothing, |stream| &stream.fields);
                let files = spec.access.files.as_ref().map(|files| Files::new(files, work));
                Handler::Script(Box::new(Scripted { handler: host.load(file, root, fields)?, files }))
            }
            (HandlerSpec::Collect, Some(stream)) => Handler::Collect(stream.clone()),
            (HandlerSpec::Collect, None) => unreachable!("the configuration gives collect a stream"),
            (HandlerSpec::Files(spec), _) => Handler::Files(Box::new(Files::new(spec, work))),
            (HandlerSpec::Reply { status, content_type, body }, _) => {
                Handler::Reply(fixed_reply(*status, content_type, body))
            }
        };
        let methods = match (&handler, spec.known_methods()) {
            (_, Some(methods)) => methods,
            (Handler::Script(script), None) => script_methods(&script.handler),
            (Handler::Collect(_) | Handler::Files(_) | Handler::Reply(_), None) => Methods::EMPTY,
        };
        let body_bytes_max = match handler {
            Handler::Collect(_) => spec.body_bytes_max.min(COLLECT_BODY_BYTES_MAX),
            Handler::Script(_) | Handler::Files(_) | Handler::Reply(_) => spec.body_bytes_max,
        };
        Ok(Self {
            path: spec.path.clone(),
            methods,
            body_bytes_max,
            body_pace: spec.body_pace,
            cors: spec.cors.as_ref().map(|cors| Cors::new(cors, methods)),
            stream,
            handler,
        })
    }

    /// Why a content of that kind is not taken, if it is not.
    pub(crate) fn refusal(&self, head: &RequestHead) -> Option<Reply> {
        match &self.handler {
            Handler::Collect(_) => collect::refusal(head),
            Handler::Script(_) | Handler::Files(_) | Handler::Reply(_) => None,
        }
    }

    /// Why a request of this moment is not taken on, if it is not: its records would wait for a database that is away.
    pub(crate) fn refusal_now(&self, head: &RequestHead, recorder: &Recorder) -> Option<Reply> {
        self.stream.as_ref().filter(|stream| recorder.is_refusing(stream.ack))?;
        let text = "the database is away: nothing was recorded";
        let mut reply = Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text);
        if let Some(cors) = &self.cors {
            cors.grant(head).add_to(&mut reply);
        }
        Some(reply)
    }

    /// Appends the one record of a transaction that is complete, if its route has a stream.
    fn record<'a>(
        &self,
        reply: Cow<'a, Reply>,
        record: Record,
        took_us: Option<i64>,
        request: &Request,
        recorder: &Recorder,
    ) -> Answer<'a> {
        let (Some(stream), Some(took_us)) = (&self.stream, took_us) else {
            return Answer { reply, gate: None, flow: None };
        };
        let status = reply.status.as_u16();
        let ending = match reply.extent {
            Extent::Whole => {
                Ending::Complete { status, reply_bytes: usize::try_from(reply.content_bytes()).ok() }
            }
            Extent::Streamed => Ending::Streamed { status },
        };
        match append(stream, record, &Facts { request, took_us, ending }, recorder) {
            Ok(gate) => Answer { reply: with_level(reply, stream.ack), gate, flow: None },
            Err(error) => refused(&error, &request.id).into(),
        }
    }

    /// Appends the one record of a transaction that nobody waits for any more, if its route has a stream.
    fn record_cancelled(&self, exchange: &Exchange, recorder: &Recorder) {
        let Some(stream) = &self.stream else { return };
        let request = &*exchange.request;
        let facts = Facts { request, took_us: exchange.took_us(), ending: Ending::Cancelled };
        if let Err(error) = append(stream, Record::default(), &facts, recorder) {
            tracing::debug!(%error, id = %request.id, "a cancelled request was not recorded");
        }
    }
}

/// Appends a row, or a reject that says why there is none.
fn append(
    stream: &StreamPlan,
    record: Record,
    facts: &Facts<'_>,
    recorder: &Recorder,
) -> Result<Option<Gate>, AppendError> {
    let record = ScriptRecord { record, plan: stream };
    let id = &facts.request.id;
    let appended = match recorder.append(stream.ack, id, |log| record.append(log, facts)) {
        Err(AppendError::TooLarge { bytes, limit }) => {
            let reason = format!("the record has {bytes} bytes, limit {limit} bytes");
            recorder.append(stream.ack, id, |log| log.reject(stream.id, &reason, b""))
        }
        appended => appended,
    };
    appended.map(|(gate, ())| gate)
}

impl Exchange {
    fn took_us(&self) -> i64 {
        i64::try_from(self.begun.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

/// What `Allow` says (RFC 9110 section 10.2.1). OPTIONS is always among it: if no route takes it, the server answers.
pub(crate) fn allowed_methods(mut methods: Methods) -> String {
    methods.insert(Method::Options);
    methods.to_string()
}

/// The methods of a script: a function takes every one, but OPTIONS only if its route names that.
fn script_methods(handler: &tollgate_script::Handler) -> Methods {
    let but_options = || Method::ALL.into_iter().filter(|method| *method != Method::Options).collect();
    RouteSpec::with_head(handler.methods().unwrap_or_else(but_options))
}

fn fixed_reply(status: u16, content_type: &str, body: &bytes::Bytes) -> Reply {
    let mut reply = Reply::empty(StatusCode::new(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    if !body.is_empty() {
        reply = reply.with("Content-Type", content_type.to_owned());
    }
    reply.content = body.clone();
    reply.prepared()
}

/// A success that stands on less than the disk says so.
fn with_level(mut reply: Cow<'_, Reply>, ack: Ack) -> Cow<'_, Reply> {
    if let Ack::Log(level) = ack
        && level < Level::Synced
        && reply.status.as_u16() < 400
    {
        reply.to_mut().push("Tollgate-Ack", level.name());
    }
    reply
}

fn refused(error: &AppendError, id: &RequestId) -> Reply {
    let (status, text) = match error {
        AppendError::Busy { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, "the disk is behind: nothing was recorded")
        }
        AppendError::NoRoom => {
            // The log tells when this begins and ends.
            tracing::debug!(%error, %id, "request refused");
            let text = "the disk is nearly full: nothing was recorded";
            return Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text);
        }
        AppendError::Stopped(_) => (StatusCode::SERVICE_UNAVAILABLE, "the log stopped: nothing was recorded"),
        AppendError::TooLarge { .. } => {
            return Reply::text(
                StatusCode::CONTENT_TOO_LARGE,
                "the records are too large: nothing was recorded",
            );
        }
    };
    // That the log stopped was told once, when it did.
    match error {
        AppendError::Stopped(_) => tracing::debug!(%error, %id, "request refused"),
        _ => tracing::warn!(%error, %id, "request refused"),
    }
    Reply::refused(status, text)
}

//! The handler of a route in one worker, with its policies.

use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tollgate_backend::{Client, UploadPlace};
use tollgate_files::{Files, SharedFiles};
use tollgate_http::{Method, Methods, RequestHead, StatusCode};
use tollgate_meter::FewPerPeriod;
use tollgate_script::{Host, LoadError, Reach, RecordFields, Role, ScriptSource, TlsSession};

use super::collect::CollectPlan;
use super::collected::{self, BODY_BYTES_MAX};
use super::fixed::{self, FixedReply};
use super::proxy::{OwnWord, Proxy};
use crate::auth::Guard;
use crate::choice::Choice;
use crate::cors::Cors;
use crate::observe::{OwnCells, Refusal, RequestFault, RouteCells, WorkerCells};
use crate::options::{
    BodyPace, ClientCertificateRule, HandlerSpec, RequestIds, RouteSpec, ScriptFile, ServerOptions,
    VerifySpec,
};
use crate::overload::{Excess, RequestPermit, RouteCost, Sender, Throttle, ThrottleLines, refusal_text};
use crate::recorder::Recorder;
use crate::reply::{PlainReply, Reply};
use crate::row::StreamPlan;
use crate::validation::Validation;
use crate::verify::SignatureFault;

/// The handler of a route in one worker, with its policies.
pub(crate) struct Endpoint {
    /// The pattern of the route, for log lines.
    pub(crate) path: String,
    pub(crate) methods: Methods,
    pub(crate) body_bytes_max: u64,
    pub(crate) body_pace: Option<BodyPace>,
    pub(crate) cors: Option<Cors>,
    pub(super) client_certificate: Option<ClientCertificateRule>,
    /// The signature that requests must have.
    pub(crate) verify: Option<Arc<VerifySpec>>,
    /// The schemas of messages, if the route validates any.
    pub(crate) validation: Option<Rc<Validation>>,
    pub(crate) cells: Rc<OwnCells>,
    /// Limits for rate and concurrency, if the route has any.
    pub(crate) throttle: Option<Arc<Throttle>>,
    pub(super) throttle_lines: ThrottleLines,
    /// The credentials that the route asks for, if it asks for any.
    pub(crate) auth: Option<Guard>,
    /// Whether the stream also records requests that the route refuses with 401 or 403.
    records_refusals: bool,
    /// Limits the number of script failures that are logged.
    pub(super) failures: FewPerPeriod,
    /// Version of the configuration of this endpoint.
    pub(crate) version: u64,
    /// In development mode: the folder of the script, for the page that shows why a script failed.
    pub(super) dev_root: Option<PathBuf>,
    pub(super) stream: Option<Rc<StreamPlan>>,
    /// Streams that the scripts of the route may emit records to.
    pub(crate) streams: Rc<[Rc<StreamPlan>]>,
    /// Files that the scripts of the route may send.
    pub(super) sent_files: Option<Box<Files>>,
    /// The `Host`, if the route has scripts.
    pub(super) host: Option<Host>,
    pub(super) route_cost: Rc<RouteCost>,
    pub(super) before: Vec<tollgate_script::LoadedScript>,
    pub(super) after: Vec<tollgate_script::LoadedScript>,
    pub(super) handler: Handler,
    /// The rules that choose the endpoint of each request, if the route has any. This endpoint is then only
    /// for the time before the choice.
    pub(crate) choice: Option<Box<Choice<Rc<Endpoint>>>>,
}

/// The `Host` and the script queue that the scripts of a route use.
pub(crate) struct Scripts {
    pub(crate) host: Host,
    pub(crate) route_cost: Rc<RouteCost>,
}

pub(super) enum Handler {
    Script(tollgate_script::LoadedScript),
    Collect(Box<CollectPlan>),
    Files(Box<Files>),
    Proxy(Rc<Proxy>),
    Reply(Box<FixedReply>),
}

impl Endpoint {
    /// Creates the endpoint of a route, and loads its scripts.
    ///
    /// # Errors
    /// A script was not accepted.
    pub(crate) fn new(
        spec: &RouteSpec,
        streams: &Rc<[Rc<StreamPlan>]>,
        scripts: Scripts,
        shared_files: &SharedFiles,
        client: &Client,
        cells: Arc<RouteCells>,
        options: &ServerOptions,
    ) -> Result<Self, LoadError> {
        let stream = spec.stream.and_then(|stream| streams.get(stream)).cloned();
        let fields = stream.as_ref().map_or_else(RecordFields::default, |stream| stream.fields.clone());
        let awaits = stream.as_ref().and_then(|stream| stream.ack.sink());
        let databases = spec.access.databases.clone();
        let reach = Rc::new(Reach { uploads: spec.access.uploads.clone(), awaits, databases });
        let load = |script: &ScriptFile, role| {
            let ScriptFile { file, root } = script.clone();
            scripts.host.load_source(ScriptSource {
                file,
                root,
                fields: fields.clone(),
                role,
                reach: reach.clone(),
            })
        };
        let handler = match (&spec.handler, &stream) {
            (HandlerSpec::Script { file, root }, _) => {
                Handler::Script(load(&ScriptFile { file: file.clone(), root: root.clone() }, Role::Handler)?)
            }
            (HandlerSpec::Collect(spec), Some(stream)) => {
                Handler::Collect(Box::new(CollectPlan::new(spec, stream, options.script.doctype)))
            }
            (HandlerSpec::Collect(_), None) => unreachable!("the configuration gives collect a stream"),
            (HandlerSpec::Files(spec), _) => Handler::Files(Box::new(Files::new(spec, shared_files))),
            (HandlerSpec::Proxy(proxy), _) => match client.at(proxy.backend) {
                Some(upstream) => {
                    let says = OwnWord {
                        of_records: spec.stream.is_some(),
                        of_ids: options.request_ids != RequestIds::Silent,
                        of_policy: spec.cors.is_some(),
                    };
                    let methods = spec.known_methods().unwrap_or(Methods::EMPTY);
                    Handler::Proxy(Proxy::new(proxy, &spec.path, methods, upstream, says))
                }
                None => unreachable!("the configuration names a backend by its place"),
            },
            (HandlerSpec::When(_), _) => unreachable!("each handler that is chosen has its own endpoint"),
            (HandlerSpec::Reply { status, content_type, body }, _) => {
                let mut reply = fixed::reply(*status, content_type, body);
                reply.say_what_is_allowed(spec.known_methods().unwrap_or(Methods::EMPTY));
                Handler::Reply(Box::new(FixedReply::new(reply, spec, options)))
            }
        };
        let methods = match (&handler, spec.known_methods()) {
            (_, Some(methods)) => methods,
            (Handler::Script(script), None) => script_methods(script),
            (Handler::Collect(_) | Handler::Files(_) | Handler::Proxy(_) | Handler::Reply(_), None) => {
                Methods::EMPTY
            }
        };
        let body_bytes_max = match handler {
            Handler::Collect(_) => spec.body_bytes_max.min(BODY_BYTES_MAX),
            Handler::Script(_) | Handler::Files(_) | Handler::Proxy(_) | Handler::Reply(_) => {
                spec.body_bytes_max
            }
        };
        Ok(Self {
            path: spec.path.clone(),
            methods,
            body_bytes_max,
            body_pace: spec.body_pace,
            cors: spec.cors.as_ref().map(|cors| Cors::new(cors, methods)),
            client_certificate: spec.client_certificate.clone(),
            verify: spec.verify.clone(),
            validation: spec.validate.as_deref().map(|spec| Rc::new(Validation::new(spec))),
            cells: OwnCells::new(
                cells,
                options.access_redaction(spec.stream.and_then(|stream| options.streams.get(stream))),
            ),
            throttle: None,
            throttle_lines: ThrottleLines::new(),
            auth: None,
            records_refusals: spec.refused,
            failures: FewPerPeriod::failures(),
            version: options.version,
            dev_root: options.dev.as_ref().and_then(|_| script_root(spec)),
            stream,
            streams: streams.clone(),
            sent_files: spec.access.files.as_ref().map(|files| Box::new(Files::named(files, shared_files))),
            before: spec.before.iter().map(|file| load(file, Role::Before)).collect::<Result<_, _>>()?,
            after: spec.after.iter().map(|file| load(file, Role::After)).collect::<Result<_, _>>()?,
            host: spec.scripts().next().map(|_| scripts.host),
            route_cost: scripts.route_cost,
            handler,
            choice: None,
        })
    }

    /// Returns the encoded reply to every request. Returns `None` unless the reply is fixed and leaves no
    /// record, and no other part of the route changes the reply.
    #[inline]
    pub(crate) fn plain_reply(&self) -> Option<&PlainReply> {
        match &self.handler {
            Handler::Reply(reply) if self.choice.is_none() => reply.plain(),
            Handler::Reply(_) => None,
            Handler::Script(_) | Handler::Collect(_) | Handler::Files(_) | Handler::Proxy(_) => None,
        }
    }

    /// Returns whether the request only needs a copy of the encoded reply. A check of credentials costs more
    /// than that.
    #[inline]
    pub(crate) fn replies_plainly_to(&self, head: &RequestHead) -> bool {
        self.auth.is_none() && self.plain_reply().is_some() && !head.framing().has_content()
    }

    /// Returns a refusal if the handler does not accept this content type.
    pub(crate) fn refusal(&self, head: &RequestHead) -> Option<Reply> {
        let refusal = match &self.handler {
            Handler::Collect(plan) => collected::refusal(&plan.types, head),
            Handler::Script(_) | Handler::Files(_) | Handler::Proxy(_) | Handler::Reply(_) => None,
        };
        let refusal = refusal
            .or_else(|| self.validation.as_ref().and_then(|validation| validation.refuse_media_type(head)));
        refusal
            .inspect(|reply| self.note_fault(RequestFault::ContentType, head, reply))
            .or_else(|| self.reads_content_as_sent().then(|| self.refusal_of_coding(head)).flatten())
    }

    /// Returns whether the server has to read content that the handler gets as the client sent it.
    fn reads_content_as_sent(&self) -> bool {
        let is_chosen = self.choice.as_ref().is_some_and(|choice| choice.reads_content());
        let validation = self.validation.as_ref().filter(|_| !self.decodes_content());
        is_chosen || validation.is_some_and(|validation| validation.refuses_requests())
    }

    /// Returns a refusal if the content has a coding. A backend gets the content as the client sent it. It is
    /// not decoded, so neither a rule nor a schema can read it.
    fn refusal_of_coding(&self, head: &RequestHead) -> Option<Reply> {
        head.values_of("content-encoding").find(|value| !value.eq_ignore_ascii_case(b"identity"))?;
        let text = "this path accepts no content coding";
        let reply = Reply::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).with("Accept-Encoding", "identity");
        self.note_fault(RequestFault::ContentCoding, head, &reply);
        Some(reply)
    }

    /// Refuses a request if the route does not accept the certificate of its client.
    ///
    /// # Errors
    /// The reply to the request.
    #[inline]
    pub(crate) fn check_certificate(
        &self,
        head: &RequestHead,
        tls: Option<&TlsSession>,
    ) -> Result<(), Box<Reply>> {
        match &self.client_certificate {
            None => Ok(()),
            Some(rule) => self.check_certificate_by(rule, head, tls),
        }
    }

    fn check_certificate_by(
        &self,
        rule: &ClientCertificateRule,
        head: &RequestHead,
        tls: Option<&TlsSession>,
    ) -> Result<(), Box<Reply>> {
        let text = match tls.and_then(|tls| tls.client.as_ref()) {
            Some(certificate) if rule.accepts(certificate) => return Ok(()),
            Some(_) => "this client certificate is not allowed here",
            None => "this resource needs a client certificate",
        };
        let reply = self.granted(Reply::text(StatusCode::FORBIDDEN, text), head);
        self.note_fault(RequestFault::ClientCertificate, head, &reply);
        Err(reply.into())
    }

    /// Counts a request of the route that is refused with `reply` before its handler, and logs it for
    /// debugging.
    #[cold]
    pub(crate) fn note_fault(&self, fault: RequestFault, head: &RequestHead, reply: &Reply) {
        self.cells.count_fault(fault);
        let field = |name| head.field(name).map(|value| tracing::field::display(value.escape_ascii()));
        tracing::debug!(
            route = self.path,
            method = head.method_name(),
            reason = fault.name(),
            status = reply.status.as_u16(),
            content_type = field("content-type"),
            content_encoding = field("content-encoding"),
            origin = field("origin"),
            requested_method = field("access-control-request-method"),
            requested_headers = field("access-control-request-headers"),
            "request refused"
        );
    }

    /// Counts a request whose signature does not hold, and logs the reason for debugging. Returns the reply,
    /// which does not have the reason.
    #[cold]
    pub(crate) fn refuse_signature(&self, fault: &SignatureFault, head: &RequestHead) -> Reply {
        tracing::debug!(route = self.path, "signature refused: {fault}");
        // RFC 9110 section 15.5.2: 401 has a challenge. No registered scheme stands for signatures.
        let reply = Reply::text(StatusCode::UNAUTHORIZED, "the request has no valid signature")
            .with("WWW-Authenticate", "Signature");
        self.note_fault(RequestFault::Signature, head, &reply);
        self.granted(reply, head)
    }

    /// Counts a request whose content is no valid document. Returns the refusal with the fields of the route.
    #[cold]
    pub(crate) fn refuse_document(&self, refusal: Reply, head: &RequestHead) -> Reply {
        self.note_fault(RequestFault::Document, head, &refusal);
        self.granted(refusal, head)
    }

    /// Returns whether the stream of the route records a request that gets this refusal. The server never
    /// records a refusal for overload.
    pub(crate) fn records_refusal(&self, refusal: &Reply) -> bool {
        self.records_refusals
            && match refusal.status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => true,
                // The document of the request is malformed, or not valid.
                StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_CONTENT => self.validation.is_some(),
                _ => false,
            }
    }

    /// Returns field lines for every reply of the route, even if the method is not allowed.
    pub(crate) fn lines(&self) -> Option<Bytes> {
        match &self.handler {
            Handler::Files(files) => Some(files.lines()),
            Handler::Script(_) | Handler::Collect(_) | Handler::Proxy(_) | Handler::Reply(_) => None,
        }
    }

    /// Returns whether content is decoded before the handler gets it. A backend gets the content as the
    /// client sent it.
    pub(crate) fn decodes_content(&self) -> bool {
        !matches!(self.handler, Handler::Proxy(_))
    }

    /// Returns whether the handler accepts the method of a request. Only a backend gets extension methods.
    #[inline]
    pub(crate) fn takes_method_of(&self, head: &RequestHead) -> bool {
        head.method() != Method::Extension
            || matches!(&self.handler, Handler::Proxy(proxy) if proxy.takes_extension(head.method_name()))
    }

    /// Returns whether the handler forwards paths with encoded slashes. No other handler gets such a path.
    pub(crate) fn passes_encoded_slashes(&self) -> bool {
        matches!(&self.handler, Handler::Proxy(proxy) if proxy.passes_encoded_slashes())
    }

    /// Returns a permit to begin while the content still arrives. Only a proxy route returns a permit, and
    /// only if no other part of the route needs the complete content.
    pub(crate) fn upload_place(&self) -> Option<UploadPlace> {
        let needs_whole = self.stream.is_some()
            || self.verify.is_some()
            || self.validation.as_ref().is_some_and(|validation| validation.needs_whole_requests())
            || !self.before.is_empty()
            || !self.after.is_empty();
        match &self.handler {
            Handler::Proxy(proxy) if !needs_whole => proxy.upload_place(),
            _ => None,
        }
    }

    /// Returns the reason why a request cannot be admitted now. A sink may be unavailable, the log may
    /// refuse records, scripts may hold too much memory, or too many scripts may wait.
    #[inline]
    pub(crate) fn refusal_now(&self, now: Instant, recorder: &Recorder) -> Option<(Refusal, &'static str)> {
        if let Some(stream) = &self.stream {
            if let Some(kind) = recorder.away(stream.ack) {
                return Some((Refusal::Sink, kind.away()));
            }
            if let Err(error) = recorder.check(stream.ack, now) {
                return Some((Refusal::from(&error), refusal_text::of_log(&error)));
            }
        }
        if self.host.as_ref()?.is_full() {
            Some((Refusal::ScriptMemory, refusal_text::SCRIPT_MEMORY))
        } else if self.route_cost.refuses(now) {
            Some((Refusal::ScriptQueue, refusal_text::SCRIPT_QUEUE))
        } else {
            None
        }
    }

    /// Creates the reply to a request that is not admitted.
    pub(crate) fn unavailable(&self, text: &'static str, head: &RequestHead) -> Reply {
        self.granted(Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text), head)
    }

    /// Admits a request within the limits of the route, or refuses it.
    #[inline]
    pub(crate) fn admit(
        &self,
        head: &RequestHead,
        client: impl Fn() -> Option<IpAddr>,
        now: Instant,
        recorder: &Recorder,
    ) -> Result<Option<RequestPermit>, Box<Reply>> {
        let Some(throttle) = &self.throttle else { return Ok(None) };
        let admitted = throttle.admit(head, &client, now).map(Some);
        admitted.map_err(|excess| {
            self.exceeded((throttle, excess), Sender::Client(client()), head, now, recorder.cells())
        })
    }

    /// Counts and logs a request above a limit of the route, and creates its reply.
    #[cold]
    pub(super) fn exceeded(
        &self,
        (throttle, excess): (&Throttle, Excess),
        sender: Sender<'_>,
        head: &RequestHead,
        now: Instant,
        cells: &WorkerCells,
    ) -> Box<Reply> {
        cells.count_refusal(excess.refusal());
        self.cells.count_refusal(excess.refusal());
        self.throttle_lines.note(&self.path, throttle, excess, sender, now);
        Box::new(self.granted(excess.reply(), head))
    }

    /// Returns the run time of the scripts of the route, which decides about the script queue.
    pub(crate) fn route_cost(&self) -> &Rc<RouteCost> {
        &self.route_cost
    }

    /// Adds CORS fields, so that pages of other origins may read the reply if the policy allows it.
    pub(crate) fn granted(&self, mut reply: Reply, head: &RequestHead) -> Reply {
        if let Some(cors) = &self.cors {
            cors.grant(head).add_to(&mut reply);
        }
        reply
    }
}

fn script_root(spec: &RouteSpec) -> Option<PathBuf> {
    match &spec.handler {
        HandlerSpec::Script { root, .. } => Some(root.clone()),
        HandlerSpec::Proxy(_)
        | HandlerSpec::Collect(_)
        | HandlerSpec::Files(_)
        | HandlerSpec::Reply { .. }
        | HandlerSpec::When(_) => None,
    }
}

/// Returns the methods of a script. A plain function accepts all methods except OPTIONS, which the route has
/// to name.
fn script_methods(handler: &tollgate_script::LoadedScript) -> Methods {
    let but_options = || Method::ALL.into_iter().filter(|method| *method != Method::Options).collect();
    RouteSpec::with_head(handler.methods().unwrap_or_else(but_options))
}

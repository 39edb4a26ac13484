//! The server: sockets, connections, routes, handlers, and the connection to the log. A transaction passes
//! five steps here: accept, read, admit, handle, record.
//!
//! A request passes these modules in this order. [`listen`] binds the sockets, and [`accept`] takes
//! connections from them. [`conn`] reads requests. [`admit`] finds the endpoint of a request by
//! [`tollgate_http::route`], and admits or refuses the request. [`overload`] has the gates. [`handler`]
//! answers the request. [`row`] fills the row of its record. [`recorder`] hands the record to the log, and
//! holds the reply until the record has the ack level of its stream. [`reply`] has the type of replies.
//!
//! Each module imports only modules of the lines below its own. `tollgate-tidy` tests this rule:
//!
//! 1. [`server`] starts, reloads and stops the workers.
//! 2. [`worker_thread`] runs one worker.
//! 3. [`accept`] takes connections. [`stream_server`] serves byte streams that a caller provides.
//! 4. [`conn`] is a connection. [`testing`] sends requests to routes without a connection.
//! 5. [`admit`] finds the route of a request. [`vm_keeper`] and [`reload`] are tasks of a worker.
//! 6. [`worker`] is the state that the connections of a worker share.
//! 7. [`service`] is the result of a configuration: routes, scripts, rules. [`check`] loads scripts without
//!    serving them.
//! 8. [`handler`] and [`app`] answer requests.
//! 9. [`auth`] proves the caller of a request by [`overload`] and [`cors`]. [`dev`], [`spool`], [`row`] and
//!    [`verify`] do the work of handlers.
//! 10. [`reply`] may import [`recorder`], and [`recorder`] may import [`observe`] and [`listen`].
//!     [`access_log`] describes requests for the access log, and imports [`observe`].
//! 11. [`options`] is the configuration. All further modules use nothing of this crate except a clock or a
//!     helper.
//!
//! `tollgate-http` decides the meaning of the bytes of a request. `tollgate-files` decides which file a path
//! means. `tollgate-log` decides the meaning of the bytes of a record on disk.
//!
//! Invariants:
//! - On the path of a request, a worker shares no state with other workers. The state of a worker is in `Rc`
//!   and `Cell`. Batches reach the log through a queue.
//! - No byte of a reply is sent before its records have the ack level of their streams.
//! - Replies are sent in the order of their requests. After a framing error the connection closes.
//! - A worker writes no files except batches of the log. A worker reads scripts while it starts or reloads,
//!   and a spooled body when a handler asks for it. A worker reads a served file only from the page cache.
//!   Separate threads wait for the disk.

mod accept;
mod access_log;
mod access_queue;
mod admit;
mod app;
mod auth;
mod check;
mod choice;
mod clock;
mod conn;
mod cors;
mod deadline;
mod dev;
mod dns_hook;
mod error;
mod handler;
mod https;
mod identity;
mod item_summary;
mod listen;
mod observe;
mod options;
mod origin;
mod overload;
mod recorder;
mod reload;
mod reply;
mod row;
mod scratch;
mod server;
mod service;
mod session;
mod spool;
mod stream_server;
mod sys;
mod task_turn;
mod testing;
mod trust;
mod upload;
mod validation;
mod verify;
mod vm_keeper;
mod worker;
mod worker_thread;

pub use access_queue::{
    AccessBatch, AccessClient, AccessLine, AccessOutcome, AccessQueue, AccessReport, SpanFacts, TakenBatches,
};
pub use app::Sources;
pub use check::{check_scripts, methods_of, script_faults};
pub use dns_hook::{DnsHook, DnsHookSource};
pub use error::StartError;
pub use handler::{COLLECT_BODY_BYTES_MAX, ItemKey, ItemReader};
pub use listen::{AwaitedListeners, HandedListen, Listeners};
pub use observe::{JudgedCount, RouteName, RouteStatus};
pub use options::stream::{
    Absent, Ack, BytesMax, ColumnRules, ColumnSpec, DefaultValue, FieldPath, HashKey, KEY_COLUMN, KeySpec,
    Overlong, Redaction, Source, StreamSpec, TimeRules, TlsPart, UnknownFields, WhenAway, XML_FIELD,
};
pub use options::{
    AccessLogOptions, AccessOnly, AnyOr, AppSpec, AuthSpec, BodyPace, BoundAddress, CapacityLimits,
    ChosenHandler, ClientCertificateRule, CollectContent, CollectReply, CollectSpec, ConditionSpec,
    ConnectionLimits, CorsSpec, Dev, DnsHookSpec, EncodedSlashes, FailureLimit, HandlerSpec, HostSent, Hsts,
    HttpsOptions, JwtKeys, JwtSpec, ListenAddress, ListenSpec, LoadedFile, MediaRange, MediaTypes,
    MessagePart, MessageTemplate, Origins, PRESETS, ProxySpec, RateKey, RateSpec, RedirectKind, RequestIds,
    RouteAuth, RouteLimits, RouteSpec, RuleSpec, SchemaSpec, ScriptAccess, ScriptFile, SecretForm,
    ServerOptions, SignatureAlgorithm, SignatureEncoding, SignatureKind, SignaturePreset, SignatureScheme,
    SignatureSeparator, SourceFault, SpanOptions, SpoolOptions, Traces, ValidateMode, ValidateSpec,
    ValueTest, VerifyKeys, VerifySecret, VerifySpec, WhenSpec, XmlItems, XmlPaths,
};
pub use origin::split_pattern;
pub use row::SampleRow;
pub use server::{Server, ServerStatus, ServerWatch, TokenKeysStatus, WorkerStatus};
pub use stream_server::StreamServer;
pub use testing::{
    SampleRecord, SampleReject, SampleReply, SampleRequest, TestError, TestFailure, TestResult, run_tests,
    sample,
};
pub use tollgate_auth::{
    ClaimRule, JwtRules, KeySet, Passwords, Requirement, Tokens, is_realm, password_line, token_line,
};
pub use tollgate_backend::{
    Address, AddressSnapshot, AddressState, BackendOptions, BackendSnapshot, BreakerOptions, BreakerState,
    ClientIdentity, PoolOptions, RetryOptions, Scheme, Timeouts, TlsError, TlsFiles, TlsOptions,
};
pub use tollgate_files::{Etag, FilesSpec, FolderBounds, OwnFile, Symlinks, TryPath};
pub use tollgate_http::{Method, Methods, UnderscoreNames, is_framing_field};
pub use tollgate_script::{
    CallError, Database, Doctype, HostOptions, SourceFile, SqlAnswer, SqlReply, SqlRow, SqlValue, Trace,
    Uploads,
};
pub use tollgate_tls::{
    Certificate, CertificateError, CertificateFacts, CertificateFiles, ClientAuth, ClientAuthError,
    ClientAuthOptions, MinVersion, ServerTls, ServerTlsError, ServerTlsOptions, UnknownName,
};
pub use tollgate_validate::{Folder as SchemaFolder, SchemaError};
pub use trust::{ClientHeader, Network, TrustedProxies};

//! The server: sockets, connections, routes, handlers, and the seam to the log. Steps 1 to 5 of the path of a
//! transaction.
//!
//! A request goes through the files in this order: [`listen`] and [`accept`] take it, [`conn`] reads it, [`route`]
//! finds its endpoint, [`handler`] answers it, [`transaction`] makes its record, [`recorder`] hands the record to the
//! log and holds the reply back until the record is where its stream wants it, [`reply`] writes the reply.
//!
//! What a request means as bytes is decided in `tollgate-http`, what a record means on disk in `tollgate-log`.
//!
//! Invariants:
//! - a worker shares nothing on the path of a request: its state is `Rc` and `Cell`, the log is a queue away;
//! - no byte of a reply leaves before its records are where their streams want them;
//! - replies leave in the order of their requests; after a framing error the connection closes;
//! - no file is written by a worker; it reads scripts while it starts or reloads, a spooled body when its handler asks for it, and of
//!   files that are served what is in memory: threads of its own wait for the disk.

mod accept;
mod admission;
mod app;
mod check;
mod clock;
mod conn;
mod copies;
mod cors;
mod crowd;
mod dev;
mod error;
mod file_slice;
mod files;
mod handler;
mod html;
mod identity;
mod keep;
mod lane;
mod listen;
mod observe;
mod options;
mod plain_reply;
mod recorder;
mod reload;
mod reply;
mod rest;
mod route;
mod seldom;
mod server;
mod service;
mod spare;
mod spool;
mod stream;
mod stream_server;
mod summary;
mod sys;
mod testing;
mod throttle;
mod transaction;
mod trust;
mod turn;
mod upload;
mod worker;

pub use app::{AppSpec, Sources};
pub use check::{check_scripts, methods_of, script_faults};
pub use dev::{Dev, SourceFault};
pub use error::StartError;
pub use handler::{COLLECT_BODY_BYTES_MAX, HostSent, ItemKey, ItemReader, ProxySpec};
pub use listen::{BoundAddress, Deferral, ListenAddress, ListenSpec, Listeners};
pub use observe::{RouteName, RouteStatus, ServerStatus, ServerWatch, WorkerStatus};
pub use options::{
    AnyOr, BodyPace, Bounds, ConnectionLimits, CorsSpec, CrowdLimits, Etag, FilesSpec, HandlerSpec, OwnFile,
    RateKey, RateSpec, RequestIds, RouteLimits, RouteSpec, ScriptAccess, ScriptFile, ServerOptions,
    SpoolOptions, Symlinks, Traces, TryPath,
};
pub use route::{Match, Resource, RouteTable, Routed, canonical_host};
pub use server::Server;
pub use stream::{
    Absent, Ack, BytesMax, ColumnRules, ColumnSpec, DefaultValue, HashKey, KEY_COLUMN, KeySpec, Overlong,
    Redaction, Source, StreamSpec, UnknownFields,
};
pub use stream_server::StreamServer;
pub use testing::{TestError, TestFailure, TestResult, run_tests};
pub use tollgate_backend::{
    Address, AddressSnapshot, AddressState, BackendOptions, BackendSnapshot, BreakerOptions, BreakerState,
    ClientIdentity, PoolOptions, RetryOptions, Scheme, Timeouts, TlsError, TlsFiles, TlsOptions,
};
pub use tollgate_http::{Method, Methods, UnderscoreNames, is_framing_field};
pub use tollgate_script::{
    CallError, Database, HostOptions, SourceFile, SqlAnswer, SqlReply, SqlRow, SqlValue, Uploads,
};
pub use trust::{ClientHeader, Network, TrustedProxies};

//! The Luau `Host` of Tollgate. The `Host` runs the script of a route in a sandbox, within budgets, and
//! returns the reply and the records.
//!
//! Requests and replies are plain data in this crate. Sockets, routes, framing and the log belong to other
//! crates. The crate does no I/O on the thread of its caller, except that it reads scripts while it loads
//! them. Threads of the caller's runtime write the files that a script saves. They also read bodies that are
//! in a file.
//!
//! - Each worker thread has a [`Host`]. [`Host::load`] returns a [`LoadedScript`], and [`LoadedScript::call`]
//!   a [`Call`]. The caller resumes the call until the result is [`Step::Done`], and polls the call while it
//!   waits. A call that streams its reply continues after [`Step::Streams`], and writes into a [`Pipe`].
//! - A call passes the modules in this order. `loaded_script` finds the script in the current VM, and `call`
//!   provides a coroutine. `budget` limits the time of the call, and `memory` its growth. `api` has the
//!   functions that the script calls, and `waits` the operations that the call waits for. `reply` reads the
//!   returned values.
//! - `vm` holds the state that all calls of a `Host` share, `loading` loads scripts into it, and `renewal`
//!   replaces it.
//! - Time: interrupts of the VM compare a counter of the ticker thread with the budget of the call.
//!   Interrupts also occur inside pattern matching, `pcall` and metamethods. `sys::library_guards` bounds
//!   library functions without an interrupt.
//! - Memory: the allocator limits the growth during a call. The module of [`Call`] states the cost.
//!   [`Host::relieve`] replaces a VM that keeps too much memory, while the `Host` serves calls.
//!
//! Invariants:
//! - No script can cause a panic or end the process.
//! - After any error the VM serves the next call.
//! - No script sees the request of another call, or globals that another script wrote.

mod active;
mod api;
mod arguments;
mod body;
mod budget;
mod call;
mod caller;
mod clock;
mod collector;
mod conversion;
mod database;
mod disk;
mod emitted;
mod error;
mod fetch;
mod form_parts;
mod hook;
mod host;
mod id;
mod interned;
mod json;
mod keeper;
mod loaded_script;
mod loading;
mod marks;
mod memory;
mod nearest;
mod options;
mod pace;
mod pipe;
mod precondition;
mod reach;
mod record;
mod renewal;
mod reply;
mod request;
mod require;
mod route_choice;
mod script;
mod shared;
mod stretch;
mod sys;
mod testing;
mod text;
mod thread_time;
mod ticker;
mod times;
mod tls;
mod trace;
mod uploads;
mod vm;
mod waits;
mod xml;
mod xml_elements;

pub use body::{Body, BodyError, BodyFile, ReadAt};
pub use call::{Call, Step};
pub use caller::Caller;
pub use clock::{Clock, TestClock};
pub use collector::Collector;
pub use database::{Database, SqlAnswer, SqlReply, SqlResult, SqlRow, SqlValue};
pub use emitted::{EmitStream, Emitted};
pub use error::{CallError, HostError, LoadError};
pub use fetch::{FetchError, FetchRequest, Fetched, Fetcher, Fetching};
pub use hook::Hook;
pub use host::Host;
pub use id::{RequestId, RequestIdBuffer};
pub use keeper::Keeper;
pub use loaded_script::LoadedScript;
pub use options::HostOptions;
pub use pipe::Pipe;
pub use reach::{Reach, Role};
pub use record::{FieldValue, RecordFields, RecordValues};
pub use renewal::{Relief, RenewalError};
pub use reply::{ContentType, HeaderLine, Outcome, Replied, ReplyFile, Streamed};
pub use request::{Context, Request};
pub use require::SourceFile;
pub use route_choice::RouteChoice;
pub use script::ScriptSource;
pub use shared::SharedStore;
pub use testing::{FakeBackends, Test, TestReply, TestReplyFuture, TestRequest, TestService, TestSignature};
pub use thread_time::thread_time;
pub use tls::{ClientCertificate, TlsSession};
pub use tollgate_xml::Doctype;
pub use trace::{Trace, TraceParent, TraceRule};
pub use uploads::Uploads;

//! The Luau host of Tollgate: runs the script of a route in a sandbox, within budgets, and hands back the reply and
//! the record. Step 4 of the path of a transaction.
//!
//! Sockets, routes, framing and the log belong to others: this crate knows a request as data and a reply as data, and
//! does no I/O on the thread of its caller but reading scripts while they are loaded. What a script saves, or reads of a body in
//! a file, threads of the caller's runtime write and read.
//!
//! - One [`Host`] per worker thread; [`Host::load`] gives a [`LoadedScript`]; [`LoadedScript::call`] a [`Call`], which is
//!   resumed until it is [`Step::Done`]; one that waits is polled in between. A call that streams its reply goes on behind
//!   [`Step::Streams`], and writes into a [`Pipe`].
//! - Time: interrupts of the VM compare a counter of the ticker thread with the call's budget, also inside pattern
//!   matching, `pcall` and metamethods. Library functions without an interrupt are bounded in `sys/library_guards.rs`.
//! - Memory: growth during a call is limited in the allocator. See [`Call`]'s module for what that costs. A VM that keeps too much is
//!   replaced while it serves: [`Host::relieve`].
//!
//! Invariants: nothing that a script does panics or ends the process; after any error the VM serves the next call;
//! no script sees the request of another call, or globals that another script wrote.

mod active;
mod api;
mod arguments;
mod body;
mod budget;
mod call;
mod clock;
mod collector;
mod conversion;
mod database;
mod disk;
mod emitted;
mod error;
mod fetch;
mod host;
mod http_date;
mod id;
mod interned;
mod json;
mod keeper;
mod loaded_script;
mod loading;
mod marks;
mod matched_path;
mod memory;
mod nearest;
mod options;
mod pace;
mod parts;
mod pipe;
mod precondition;
mod reach;
mod record;
mod renewal;
mod reply;
mod request;
mod require;
mod script;
mod shared;
mod sys;
mod testing;
mod ticker;
mod trace;
mod uploads;
mod vm;
mod waits;
mod xml;

pub use body::{Body, BodyError, BodyFile, ReadAt};
pub use budget::thread_time;
pub use call::{Call, Step};
pub use clock::{Clock, TestClock};
pub use collector::Collector;
pub use database::{Database, SqlAnswer, SqlReply, SqlResult, SqlRow, SqlValue};
pub use emitted::{EmitStream, Emitted};
pub use error::{CallError, HostError, LoadError};
pub use fetch::{FetchError, FetchRequest, Fetched, Fetcher, Fetching};
pub use host::Host;
pub use id::{RequestId, RequestIdBuffer};
pub use keeper::Keeper;
pub use loaded_script::LoadedScript;
pub use matched_path::MatchedPath;
pub use options::HostOptions;
pub use pipe::Pipe;
pub use reach::{Reach, Role};
pub use record::{FieldValue, Record, RecordFields};
pub use renewal::{Relief, RenewalError};
pub use reply::{ContentType, HeaderLine, Outcome, Replied, SentFile, Streamed};
pub use request::{Context, Request};
pub use require::SourceFile;
pub use shared::SharedStore;
pub use testing::{FakeBackends, Test, TestReply, TestReplyFuture, TestRequest, TestService};
pub use trace::{Trace, TraceRule};
pub use uploads::Uploads;

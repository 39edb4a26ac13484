//! Questions to databases, for whoever has no connection of its own: a few threads, each with one that can only read.
//!
//! A question waits in a queue that is bounded, then for its answer no longer than `timeout`. Whoever gave up before its turn is
//! not answered. Rows and bytes are bounded: more is an error, never a part of an answer.
//!
//! Read-only is the database's own rule: SQLite opens the file so, PostgreSQL gets each question in a transaction that is.

mod postgres;
mod sqlite;

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::sink::PostgresUrl;

/// Questions that may wait.
const QUEUE_MAX: usize = 1024;
/// How often a connection that nobody asks is looked at: a file that was removed keeps its room on the disk while it is open.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// Which database, and within which bounds.
#[derive(Debug, Clone)]
pub struct QueryOptions {
    /// Its name, for threads and errors.
    pub name: String,
    /// Where it is.
    pub source: QuerySource,
    /// Connections at once, each with a thread.
    pub connections: usize,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Rows of an answer.
    pub rows_max: usize,
    /// Bytes of an answer.
    pub bytes_max: usize,
}

/// Where a database is.
#[derive(Debug, Clone)]
pub enum QuerySource {
    /// A file.
    Sqlite(PathBuf),
    /// A server.
    Postgres(Box<PostgresUrl>),
}

/// A value of a question or an answer.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // The names are the types.
pub enum QueryValue {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// One row of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryRow {
    /// By the columns of the answer.
    Values(Vec<QueryValue>),
    /// An object of JSON, as the database made it.
    Json(String),
}

/// What a database answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryAnswer {
    /// The names of the columns of [`QueryRow::Values`].
    pub columns: Vec<String>,
    /// The rows, in their order.
    pub rows: Vec<QueryRow>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The database says so: of the question, or of itself.
    #[error("{0}")]
    Refused(String),
    /// The answer is too long.
    #[error("the answer exceeds limit: {rows_max} rows, {bytes_max} bytes")]
    TooLong {
        /// Rows that are allowed.
        rows_max: usize,
        /// Bytes that are allowed.
        bytes_max: usize,
    },
    /// It took too long.
    #[error("no answer within {}ms", .0.as_millis())]
    Late(Duration),
    /// Too many wait already.
    #[error("{QUEUE_MAX} questions wait already")]
    Busy,
}

/// Who wants an answer.
pub trait Asker: Send {
    /// Whether nobody waits any more.
    fn is_gone(&self) -> bool;
    /// Takes the answer.
    fn tell(self: Box<Self>, answer: Result<QueryAnswer, QueryError>);
}

/// A database that can be asked. Threads begin with the first question, and end with it.
pub struct QueryPool {
    shared: Arc<Shared>,
}

struct Shared {
    options: QueryOptions,
    queue: Mutex<Queue>,
    is_work_there: Condvar,
}

#[derive(Default)]
struct Queue {
    questions: VecDeque<Question>,
    threads: usize,
    idle_threads: usize,
    is_closed: bool,
}

struct Question {
    sql: String,
    parameters: Vec<QueryValue>,
    asker: Box<dyn Asker>,
}

/// What a thread does next.
enum Next {
    Question(Question),
    /// Nobody has asked for a while.
    Look,
    End,
}

/// A connection of one thread.
trait Connection {
    fn ask(&mut self, sql: &str, parameters: &[QueryValue]) -> Result<QueryAnswer, QueryError>;

    /// Whether it can be asked again.
    fn is_usable(&self) -> bool;
}

impl QueryPool {
    /// Makes it. Nothing is opened yet.
    pub fn new(options: QueryOptions) -> Self {
        let (queue, is_work_there) = (Mutex::default(), Condvar::new());
        Self { shared: Arc::new(Shared { options, queue, is_work_there }) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.options.name
    }

    /// Which database it is, and within which bounds.
    pub fn options(&self) -> &QueryOptions {
        &self.shared.options
    }

    /// Asks one question; `asker` is told on a thread of the pool, or at once where too many wait.
    pub fn ask(&self, sql: String, parameters: Vec<QueryValue>, asker: Box<dyn Asker>) {
        let shared = &self.shared;
        let mut queue = shared.queue();
        if queue.questions.len() >= QUEUE_MAX {
            drop(queue);
            return asker.tell(Err(QueryError::Busy));
        }
        let is_thread_wanted = queue.questions.len() >= queue.idle_threads;
        if is_thread_wanted && queue.threads < shared.options.connections {
            let own = shared.clone();
            let name = format!("sql-{}", queue.threads);
            match thread::Builder::new().name(name).spawn(move || own.run()) {
                Ok(_) => queue.threads += 1,
                Err(error) if queue.threads == 0 => {
                    drop(queue);
                    return asker.tell(Err(QueryError::Refused(format!("no thread: {error}"))));
                }
                Err(_) => {}
            }
        }
        queue.questions.push_back(Question { sql, parameters, asker });
        drop(queue);
        shared.is_work_there.notify_one();
    }
}

impl Drop for QueryPool {
    fn drop(&mut self) {
        self.shared.queue().is_closed = true;
        self.shared.is_work_there.notify_all();
    }
}

impl fmt::Debug for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QueryPool").field(&self.shared.options.name).finish()
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(self: Arc<Self>) {
        let mut connection = None;
        loop {
            match self.next(connection.is_some()) {
                Next::Question(Question { sql, parameters, asker }) => {
                    if !asker.is_gone() {
                        asker.tell(self.answer(&mut connection, &sql, &parameters));
                    }
                }
                Next::Look => drop(connection.take_if(|known: &mut Box<dyn Connection>| !known.is_usable())),
                Next::End => return,
            }
        }
    }

    fn answer(
        &self,
        connection: &mut Option<Box<dyn Connection>>,
        sql: &str,
        parameters: &[QueryValue],
    ) -> Result<QueryAnswer, QueryError> {
        let open = match connection.take().filter(|known| known.is_usable()) {
            Some(known) => known,
            None => self.open()?,
        };
        connection.insert(open).ask(sql, parameters)
    }

    fn open(&self) -> Result<Box<dyn Connection>, QueryError> {
        Ok(match &self.options.source {
            QuerySource::Sqlite(path) => Box::new(sqlite::File::open(path, &self.options)?),
            QuerySource::Postgres(url) => Box::new(postgres::Server::open(url, &self.options)?),
        })
    }

    /// Waits for a question, or until the connection is to be looked at, if there is one.
    fn next(&self, has_connection: bool) -> Next {
        let mut queue = self.queue();
        loop {
            if queue.is_closed {
                return Next::End;
            }
            if let Some(question) = queue.questions.pop_front() {
                return Next::Question(question);
            }
            queue.idle_threads += 1;
            let period = if has_connection { LOOK_PERIOD } else { Duration::MAX };
            let waited =
                self.is_work_there.wait_timeout(queue, period).unwrap_or_else(PoisonError::into_inner);
            queue = waited.0;
            queue.idle_threads -= 1;
            if waited.1.timed_out() && queue.questions.is_empty() && !queue.is_closed {
                return Next::Look;
            }
        }
    }
}

/// What an answer may still take.
struct Room {
    rows: usize,
    bytes: usize,
    rows_max: usize,
    bytes_max: usize,
}

impl Room {
    fn new(options: &QueryOptions) -> Self {
        let QueryOptions { rows_max, bytes_max, .. } = *options;
        Self { rows: 0, bytes: 0, rows_max, bytes_max }
    }

    fn take(&mut self, bytes: usize) -> Result<(), QueryError> {
        (self.rows, self.bytes) = (self.rows + 1, self.bytes.saturating_add(bytes));
        let Self { rows_max, bytes_max, .. } = *self;
        if self.rows > rows_max || self.bytes > bytes_max {
            return Err(QueryError::TooLong { rows_max, bytes_max });
        }
        Ok(())
    }
}

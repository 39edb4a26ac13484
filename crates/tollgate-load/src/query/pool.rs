//! The threads that query a database, each with its own connection.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::question::{
    Asker, Connection, QUEUE_MAX, QueryAnswer, QueryError, QueryOptions, QuerySource, QueryValue,
};
use super::{postgres, sqlite};

/// Interval between two checks of an idle connection. A check closes the connection to a removed file,
/// because the file otherwise continues to occupy space on the disk.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// The threads that query one database. The threads start with the first queries, and end when the pool is
/// dropped.
pub struct QueryPool {
    state: Arc<PoolState>,
}

struct PoolState {
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

/// Next work of a thread.
enum Next {
    Question(Question),
    /// No query came for `LOOK_PERIOD`: check the connection.
    Look,
    End,
}

impl QueryPool {
    /// Makes a pool, without opening a connection.
    pub fn new(options: QueryOptions) -> Self {
        let (queue, is_work_there) = (Mutex::default(), Condvar::new());
        Self { state: Arc::new(PoolState { options, queue, is_work_there }) }
    }

    /// Returns the name of the database.
    pub fn name(&self) -> &str {
        &self.state.options.name
    }

    /// Returns the address of the database and the bounds of its queries.
    pub fn options(&self) -> &QueryOptions {
        &self.state.options
    }

    /// Runs one query. `asker` gets the answer on a thread of the pool, or an error at once if the queue is
    /// full.
    pub fn ask(&self, sql: String, parameters: Vec<QueryValue>, asker: Box<dyn Asker>) {
        let state = &self.state;
        let mut queue = state.queue();
        if queue.questions.len() >= QUEUE_MAX {
            drop(queue);
            return asker.deliver(Err(QueryError::Busy));
        }
        let is_thread_wanted = queue.questions.len() >= queue.idle_threads;
        if is_thread_wanted && queue.threads < state.options.connections {
            let own = state.clone();
            let name = format!("sql-{}", queue.threads);
            match thread::Builder::new().name(name).spawn(move || own.run()) {
                Ok(_) => queue.threads += 1,
                Err(error) if queue.threads == 0 => {
                    drop(queue);
                    return asker
                        .deliver(Err(QueryError::Refused(format!("cannot start a thread: {error}"))));
                }
                Err(_) => {}
            }
        }
        queue.questions.push_back(Question { sql, parameters, asker });
        drop(queue);
        state.is_work_there.notify_one();
    }
}

impl Drop for QueryPool {
    fn drop(&mut self) {
        self.state.queue().is_closed = true;
        self.state.is_work_there.notify_all();
    }
}

impl fmt::Debug for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QueryPool").field(&self.state.options.name).finish()
    }
}

impl PoolState {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(self: Arc<Self>) {
        let mut connection = None;
        loop {
            match self.next(connection.is_some()) {
                Next::Question(Question { sql, parameters, asker }) => {
                    if !asker.is_gone() {
                        asker.deliver(self.answer(&mut connection, &sql, &parameters));
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

    /// Waits for a query. If the thread has a connection, waits only until the connection has to be checked.
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

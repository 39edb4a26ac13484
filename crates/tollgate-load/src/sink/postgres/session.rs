//! One connection. Every call has a time limit, because the loader's thread waits for each statement.
//!
//! The protocol library is asynchronous, so the connection has its own runtime. The runtime runs only while a
//! call waits.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::SinkExt;
use tokio::runtime::{self, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, Row};

use super::error::{Failure, at};
use super::options::{PostgresOptions, PostgresUrl};
use super::tls;
use crate::error::SinkError;

/// How much longer than the server's timeout the client waits. The client waits longer, because the error of
/// the server has more information than a timeout of the client.
const ANSWER_GRACE: Duration = Duration::from_secs(10);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;
/// The oldest supported version of the server, as in `server_version_num`.
const VERSION_MIN: i32 = 150_000;

/// A connection to a server that durably stores its commits.
pub(super) struct Session {
    runtime: Runtime,
    client: Client,
    wait: Duration,
    health: Health,
}

/// State of the connection: whether another statement may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    /// The server has not answered yet. The next statement would wait for that answer.
    Unknown,
}

impl Session {
    /// Connects, sets the session up, and checks whether the server's settings keep rows safe.
    ///
    /// # Errors
    /// No server answers, the server refuses the login, or its settings could lose rows.
    pub(super) fn open(options: &PostgresOptions) -> Result<Self, SinkError> {
        let failed = |failure| at("connect", options)(failure);
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(Failure::Io(error)))?;
        let tls = tls::connector(&options.server).map_err(|reason| failed(Failure::Tls(reason)))?;
        let config = configured(options);
        let connecting = async { tokio::time::timeout(options.connect_timeout, config.connect(tls)).await };
        let (client, connection) = runtime
            .block_on(connecting)
            .map_err(|_| failed(Failure::NoAnswer(options.connect_timeout)))?
            .map_err(|error| failed(Failure::Server(error)))?;
        runtime.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL ended");
            }
        });
        let mut session =
            Self { runtime, client, wait: options.statement_timeout + ANSWER_GRACE, health: Health::Good };
        session.run(&settings(options)).map_err(failed)?;
        session.check(options)?;
        Ok(session)
    }

    /// Returns whether another statement may be sent.
    pub(super) fn is_usable(&self) -> bool {
        self.health == Health::Good && !self.client.is_closed()
    }

    /// Runs statements that return no rows.
    pub(super) fn run(&mut self, statements: &str) -> Result<(), Failure> {
        let Self { runtime, client, wait, health } = self;
        bounded(runtime, *wait, health, client.batch_execute(statements))
    }

    /// Runs one statement with parameters. The statement is prepared each time, because the loader runs few
    /// statements for each large chunk.
    pub(super) fn query(
        &mut self,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let Self { runtime, client, wait, health } = self;
        bounded(runtime, *wait, health, client.query(statement, parameters))
    }

    /// Runs one statement with parameters. Returns the number of rows that it changed.
    pub(super) fn execute(
        &mut self,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Failure> {
        let Self { runtime, client, wait, health } = self;
        bounded(runtime, *wait, health, client.execute(statement, parameters))
    }

    /// Runs a COPY with the pieces of its data, without copying them in memory.
    pub(super) fn copy<const N: usize>(&mut self, statement: &str, data: [Bytes; N]) -> Result<(), Failure> {
        let Self { runtime, client, wait, health } = self;
        bounded(runtime, *wait, health, async {
            let mut sink = pin!(client.copy_in(statement).await?);
            for piece in data {
                // If the server reports an error, sending fails. `finish` then returns that error.
                if sink.send(piece).await.is_err() {
                    break;
                }
            }
            sink.finish().await.map(drop)
        })
    }

    fn check(&mut self, options: &PostgresOptions) -> Result<(), SinkError> {
        let question = "SELECT current_setting('server_version_num')::int, current_setting('server_version'), \
             current_setting('server_encoding'), current_setting('synchronous_commit'), \
             current_setting('fsync')";
        let rows = self.query(question, &[]).map_err(at("read the settings", options))?;
        let Some(row) = rows.first() else { return Ok(()) };
        let unfit = |setting, found: String, needed| {
            Err(SinkError::ServerSetting { server: options.server.to_string(), setting, found, needed })
        };
        if row.get::<_, i32>(0) < VERSION_MIN {
            return unfit("version", row.get(1), "15 or later");
        }
        let (encoding, commits): (String, String) = (row.get(2), row.get(3));
        if encoding != "UTF8" {
            return unfit("encoding", encoding, "UTF8");
        }
        if commits == "off" {
            return unfit(
                "synchronous_commit",
                commits,
                "any other value, because a crash would lose commits",
            );
        }
        if row.get::<_, &str>(4) == "off" {
            tracing::warn!(server = %options.server, "fsync is off on this server: a power cut loses committed rows");
        }
        Ok(())
    }
}

/// Waits for an answer of the database. If no answer arrives in time, the state of the connection is unknown,
/// and the caller has to drop it.
fn bounded<T>(
    runtime: &Runtime,
    wait: Duration,
    health: &mut Health,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Failure> {
    match runtime.block_on(async { tokio::time::timeout(wait, call).await }) {
        Ok(result) => result.map_err(Failure::Server),
        Err(_) => {
            *health = Health::Unknown;
            Err(Failure::NoAnswer(wait))
        }
    }
}

/// Connects to a server for queries. The runtime that polls this future also runs the connection.
pub(crate) async fn connect(url: &PostgresUrl) -> Result<Client, String> {
    let tls = tls::connector(url)?;
    let mut config = url.config.clone();
    if config.get_application_name().is_none() {
        config.application_name("tollgate");
    }
    let (client, connection) = config.connect(tls).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to PostgreSQL ended");
        }
    });
    Ok(client)
}

fn configured(options: &PostgresOptions) -> Config {
    let mut config = options.server.config.clone();
    if config.get_application_name().is_none() {
        config.application_name("tollgate");
    }
    config
        .connect_timeout(options.connect_timeout)
        .tcp_user_timeout(KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_RETRIES)
        .keepalives(true)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVE_RETRIES);
    config
}

/// Returns the settings of the session. The settings give the server the same time limits, so that the server
/// releases the locks of a dead loader soon.
fn settings(options: &PostgresOptions) -> String {
    let (statement_ms, lock_ms) = (options.statement_timeout.as_millis(), options.lock_timeout.as_millis());
    let (idle_s, interval_s) = (KEEPALIVE_IDLE.as_secs(), KEEPALIVE_INTERVAL.as_secs());
    format!(
        "SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') = 'off'; \
         SET statement_timeout = {statement_ms}; \
         SET lock_timeout = {lock_ms}; \
         SET idle_in_transaction_session_timeout = {statement_ms}; \
         SET default_transaction_isolation = 'read committed'; \
         SET tcp_keepalives_idle = {idle_s}; \
         SET tcp_keepalives_interval = {interval_s}; \
         SET tcp_keepalives_count = {KEEPALIVE_RETRIES}"
    )
}

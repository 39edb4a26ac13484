//! Classifies errors of PostgreSQL. The row causes the error, the error is temporary, or an operator has to
//! act.
//!
//! | SQLSTATE | fault of | what follows |
//! | --- | --- | --- |
//! | 22 data exception, 23 integrity constraint, 44 check option | the row, while rows are copied | bisected, the row becomes a reject |
//! | 54000, 54001 a value that is too large for an index, nested too deeply | the row, while rows are copied | the same |
//! | 22P03, 22P04 wrong binary form | the moment | a column was retyped under the loader: read again |
//! | 08, 40, 53, 55, 57, 58, 25006, XX; no state at all | the moment | tried again with backoff |
//! | of these 55P03 lock timeout, 57014 statement timeout; no answer in time | another session, or a server that hangs | the same, and the sink counts as waiting |
//! | 42P01, 42P07, 42701, 42703, 42710 what is there or is not | the moment | tables are looked at again |
//! | all else: 42501 no grant, 28 login, 3D no database, 2200H sequence at its end, P0001 raised by a trigger | the operator | the sink stops |
//!
//! A row must not count as the cause of an error that a failing server reports for every row. Some states can
//! have either cause: 54001 of a trigger that calls itself, 23514 of a missing partition. In these cases
//! `rejects_max` stops the sink.
//!
//! Source: PostgreSQL 15, appendix A.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use tokio_postgres::error::DbError;

use super::options::PostgresOptions;
use crate::error::{Remedy, SinkError};

/// Why a call of a session failed.
#[derive(Debug)]
pub(super) enum Failure {
    Server(tokio_postgres::Error),
    Io(io::Error),
    /// TLS cannot be set up.
    Tls(String),
    /// The server did not answer within this time.
    NoAnswer(Duration),
}

impl Failure {
    fn state(&self) -> Option<&str> {
        match self {
            Self::Server(error) => error.code().map(tokio_postgres::error::SqlState::code),
            _ => None,
        }
    }

    /// Returns the reason to store with a refused row. Returns `None` if the row is not the cause.
    pub(super) fn row_reason(&self) -> Option<String> {
        let state = self.state()?;
        is_of_row(state).then(|| self.to_string())
    }

    /// Returns whether a row refers to a missing row by a foreign key.
    pub(super) fn lacks_parent(&self) -> bool {
        self.state() == Some("23503")
    }

    fn remedy(&self) -> Remedy {
        let Some(state) = self.state() else { return self.remedy_without_state() };
        match (&state[..2], state) {
            (_, "55P03" | "57014") => Remedy::Release,
            ("08" | "40" | "53" | "55" | "57" | "58" | "XX", _)
            | (_, "25006" | "22P03" | "22P04" | "42P01" | "42P07" | "42701" | "42703" | "42710") => {
                Remedy::Time
            }
            _ => Remedy::Operator,
        }
    }

    fn remedy_without_state(&self) -> Remedy {
        let error = match self {
            Self::Server(error) => error,
            Self::Io(_) => return Remedy::Time,
            Self::Tls(_) => return Remedy::Operator,
            Self::NoAnswer(_) => return Remedy::Release,
        };
        match error.source().map(<dyn StdError>::downcast_ref::<io::Error>) {
            // The connection ended.
            None => Remedy::Time,
            Some(Some(error)) if !is_of_tls(error) => Remedy::Time,
            // The server's certificate or the login was refused.
            Some(_) => Remedy::Operator,
        }
    }
}

/// Returns whether content that a client sent can be the cause of the state.
fn is_of_row(state: &str) -> bool {
    match state {
        "2200H" | "22P03" | "22P04" => false,
        "54000" | "54001" => true,
        _ => matches!(&state[..2], "22" | "23" | "44"),
    }
}

fn is_of_tls(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<rustls::Error>())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => match error.as_db_error() {
                Some(error) => write_db_error(error, f),
                None => f.write_str(&tollgate_log::join_chain(error)),
            },
            Self::Io(error) => error.fmt(f),
            Self::Tls(reason) => f.write_str(reason),
            Self::NoAnswer(wait) => write!(f, "no answer for {} s", wait.as_secs()),
        }
    }
}

fn write_db_error(error: &DbError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} (SQLSTATE {}", error.message(), error.code().code())?;
    if let Some(detail) = error.detail() {
        write!(f, ": {detail}")?;
    }
    f.write_str(")")
}

impl StdError for Failure {}

/// Makes the error of a failure, with the name of its database.
pub(super) fn at(
    action: &'static str,
    options: &PostgresOptions,
) -> impl FnOnce(Failure) -> SinkError + use<> {
    let server = options.server.to_string();
    move |failure| SinkError::Server { action, server, remedy: failure.remedy(), source: Box::new(failure) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_blamed_for_what_its_content_can_cause_alone() {
        let of_rows =
            ["22001", "22003", "22021", "22P02", "22P05", "23502", "23514", "44000", "54000", "54001"];
        of_rows.iter().for_each(|state| assert!(is_of_row(state), "{state}"));
        let of_others = [
            "0A000", "2200H", "22P03", "22P04", "25006", "40001", "40P01", "42501", "42601", "42P01",
            "53100", "53200", "54011", "54023", "55P03", "57014", "P0001", "XX000",
        ];
        of_others.iter().for_each(|state| assert!(!is_of_row(state), "{state}"));
    }
}

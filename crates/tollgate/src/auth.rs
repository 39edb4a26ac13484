//! `tollgate auth`: makes lines for password files and token files.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tollgate_server::{password_line, token_line};

use crate::cli::AuthCommand;
use crate::print::{note, to_stdout};

/// Reason why a name is refused.
const NAME_REFUSED: &str = "the name is empty, longer than 256 bytes, begins with #, or has a colon, a \
                            control character, or a blank at its ends";

/// Runs a command.
pub(crate) fn run(command: AuthCommand) -> anyhow::Result<ExitCode> {
    match command {
        AuthCommand::Password { name } => password(&name),
        AuthCommand::Token { name } => token(&name),
    }
}

/// Reads a password from stdin, and prints its line.
fn password(name: &str) -> anyhow::Result<ExitCode> {
    let password = read_password()?;
    if password.is_empty() || password.chars().any(char::is_control) {
        bail!("the password is empty or has a control character");
    }
    let line = password_line(name, &password).context("the system gives no random bytes")?;
    let Some(line) = line else { bail!("{NAME_REFUSED}") };
    to_stdout(|out| {
        writeln!(out, "{line}")?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints a new token and its line.
fn token(name: &str) -> anyhow::Result<ExitCode> {
    let token = token_line(name).context("the system gives no random bytes")?;
    let Some(token) = token else { bail!("{NAME_REFUSED}") };
    note(&format!("the token of {name}, which is shown only now: {}", token.token));
    to_stdout(|out| {
        writeln!(out, "{}", token.line)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Reads one line. A terminal does not show what is typed.
fn read_password() -> anyhow::Result<String> {
    let stdin = io::stdin();
    let hidden = if stdin.is_terminal() { Hidden::begin() } else { None };
    if hidden.is_some() {
        let mut stderr = io::stderr().lock();
        write!(stderr, "password: ").and_then(|()| stderr.flush()).context("cannot write to the terminal")?;
    }
    let mut line = String::new();
    stdin.lock().read_line(&mut line).context("cannot read the password from stdin")?;
    drop(hidden);
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// A terminal that does not show typed characters. Dropping this value restores the terminal.
struct Hidden(Termios);

impl Hidden {
    /// Returns `None` if the terminal cannot be changed. The password is then visible.
    fn begin() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Now, &hidden).ok()?;
        Some(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
        let _ = writeln!(io::stderr());
    }
}

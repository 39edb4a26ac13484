//! Errors by whose fault they are: of making a host, of loading a script, and of one call.
//!
//! The texts are for the log: full and internal. What a client hears is for the server to decide.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use mlua::Error;

/// Why no host could be made. Ours or the operating system's fault.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The ticker thread did not start.
    #[error("ticker thread does not start")]
    Ticker(#[source] io::Error),
    /// The VM refused to be set up.
    #[error("luau host cannot be set up: {0}")]
    Setup(String),
}

/// Why a script was not taken. The script's fault, or the file system's.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file, or the root, cannot be read.
    #[error("script {} cannot be read: {reason}", file.display())]
    Read {
        /// The file or folder.
        file: PathBuf,
        /// What the operating system said.
        reason: io::Error,
    },
    /// The file is larger than a script may be.
    #[error("script {} exceeds limit: {bytes} bytes, limit {limit} bytes", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Its size.
        bytes: u64,
        /// The size that is allowed.
        limit: u64,
    },
    /// The file lies outside the root.
    #[error("script {} is outside its root {}", file.display(), root.display())]
    Outside {
        /// The file.
        file: PathBuf,
        /// The root.
        root: PathBuf,
    },
    /// The text is not Luau.
    #[error("script {} does not compile: line {line}: {text}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The line, from 1; 0 where the compiler named none.
        line: u32,
        /// What the compiler said.
        text: String,
    },
    /// The chunk ran, and failed or ended at a budget.
    #[error("script {} fails while it is loaded: {error}", file.display())]
    Run {
        /// The file.
        file: PathBuf,
        /// The line, from 1; 0 where none is known.
        line: u32,
        /// What went wrong.
        error: CallError,
    },
    /// What scripts keep once they are loaded leaves calls too little.
    #[error(
        "script {} leaves too little memory: scripts keep {bytes} bytes once they are loaded, limit {limit_bytes} bytes, half of \
         vm_bytes_max",
        file.display()
    )]
    Total {
        /// The file after which it was too much.
        file: PathBuf,
        /// What is kept.
        bytes: usize,
        /// How much may be.
        limit_bytes: usize,
    },
    /// The chunk returned something that is no handler.
    #[error("script {} {text}", file.display())]
    Shape {
        /// The file.
        file: PathBuf,
        /// What was found, and what is allowed.
        text: String,
    },
}

/// Why a call gave no outcome. The script's fault; the transaction is one with status 500.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// The script raised an error.
    #[error("{message}{}", below(traceback))]
    Script {
        /// What it raised, with file and line where Luau knows them.
        message: String,
        /// The frames, innermost first; empty where there are none.
        traceback: String,
    },
    /// The call used up its processor time.
    #[error("script exceeds its cpu budget: limit {limit_ms} ms{}", below(traceback))]
    CpuBudget {
        /// The budget.
        limit_ms: u64,
        /// Where the script was.
        traceback: String,
    },
    /// The call waited beyond the time that it may take.
    #[error("script exceeds its wall budget: limit {limit_ms} ms{}", below(traceback))]
    WallBudget {
        /// The budget.
        limit_ms: u64,
        /// Where the script waited.
        traceback: String,
    },
    /// The call's memory grew beyond what it may.
    #[error("script exceeds its memory: growth limit {limit_bytes} bytes{}", below(traceback))]
    Memory {
        /// The growth that is allowed.
        limit_bytes: usize,
        /// Where the script was; empty where that is not known.
        traceback: String,
    },
    /// The reply was still streamed by a VM that was replaced, a wall budget later.
    #[error("script streams on in a vm that kept too much memory and was replaced")]
    Replaced,
    /// The client's fault, which the script did not catch: not 500, but this status.
    #[error("request refused with {status}: {reason}")]
    Refused {
        /// The status.
        status: u16,
        /// Why, for the client too.
        reason: String,
    },
    /// What the script returned is not a reply.
    #[error("script returned no valid reply: {0}")]
    Reply(String),
}

fn below(traceback: &str) -> String {
    if traceback.is_empty() { String::new() } else { format!("\n{}", traceback.trim_end()) }
}

impl CallError {
    pub(crate) fn script(message: impl Into<String>) -> Self {
        Self::Script { message: message.into(), traceback: String::new() }
    }

    /// The refusal, if this is the error that told of it.
    pub(crate) fn or_refusal(self, refusal: Option<Box<(u16, String)>>) -> Self {
        match (self, refusal) {
            (Self::Script { message, .. }, Some(refusal)) if message.ends_with(&refusal.1) => {
                Self::Refused { status: refusal.0, reason: refusal.1 }
            }
            (error, _) => error,
        }
    }

    /// Reads what mlua made of an error that a script raised.
    pub(crate) fn from_lua(error: &Error, limit_bytes: usize) -> Self {
        let mut traceback = String::new();
        let message = unwrap(error, &mut traceback);
        let traceback = shortened(traceback, TRACEBACK_BYTES_MAX);
        if is_memory(error) || message.ends_with("not enough memory") {
            return Self::Memory { limit_bytes, traceback };
        }
        Self::Script { message: shortened(message, MESSAGE_BYTES_MAX), traceback }
    }
}

/// Bounds a text that a script made as long as it liked.
fn shortened(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let bytes = text.len();
        text.truncate(text.floor_char_boundary(bytes_max));
        let _ = write!(text, "... ({bytes} bytes)");
    }
    text
}

/// Takes the layers of callback errors off; the innermost traceback is the fullest.
fn unwrap(error: &Error, traceback: &mut String) -> String {
    match error {
        Error::CallbackError { traceback: frames, cause } => {
            let message = unwrap(cause, traceback);
            if !traceback.is_empty() {
                return message;
            }
            traceback.push_str(trim_traceback(frames));
            match first_place(frames) {
                Some(place) => format!("{place}: {message}"),
                None => message,
            }
        }
        Error::RuntimeError(text) => split(text, traceback),
        Error::SyntaxError { message, .. } => message.clone(),
        other => split(&other.to_string(), traceback),
    }
}

/// Takes off the layers of callback errors but the innermost. A script can have an error pass through
/// callbacks of ours as often as it likes, and to drop a pile of layers takes native stack for each.
pub(crate) fn flat(error: Error) -> Error {
    match error {
        Error::CallbackError { ref cause, .. } if matches!(**cause, Error::CallbackError { .. }) => {
            flat((**cause).clone())
        }
        error => error,
    }
}

fn split(text: &str, traceback: &mut String) -> String {
    let (message, frames) = text.split_once(TRACEBACK).unwrap_or((text, ""));
    traceback.push_str(trim_traceback(frames));
    describe(message.trim_end())
}

/// Puts what Luau prints for error values other than strings into words.
fn describe(message: &str) -> String {
    match message {
        "" => "an error without a text was raised".to_owned(),
        "nil" => "nil was raised as an error".to_owned(),
        "true" | "false" => format!("a boolean was raised as an error: {message}"),
        text => match text.split_once(": 0x") {
            Some((kind @ ("table" | "function" | "thread" | "userdata" | "buffer"), _)) => {
                format!("a {kind} without __tostring was raised as an error")
            }
            _ => text.to_owned(),
        },
    }
}

/// Finds the innermost frame that is a line of a script.
fn first_place(frames: &str) -> Option<&str> {
    frames.lines().map(str::trim).filter(|line| !line.starts_with('[')).find_map(|line| {
        let place = line.split_whitespace().next()?.trim_end_matches(':');
        line_number(place).map(|_| place)
    })
}

fn line_number(place: &str) -> Option<u32> {
    place.rsplit_once(':')?.1.parse().ok()
}

/// Returns the line that a message of the form `FILE:LINE: TEXT` begins with, and the text.
pub(crate) fn placed(message: &str) -> (u32, &str) {
    let mut colons = message.match_indices(": ");
    colons
        .find_map(|(at, _)| Some((line_number(&message[..at])?, &message[at + 2..])))
        .unwrap_or((0, message))
}

fn trim_traceback(frames: &str) -> &str {
    frames.trim_start_matches(TRACEBACK.trim_start()).trim_matches('\n')
}

fn is_memory(error: &Error) -> bool {
    match error {
        Error::MemoryError(_) => true,
        Error::CallbackError { cause, .. } => is_memory(cause),
        _ => false,
    }
}

/// Shortens a text that a script chose, so that no error text grows with it.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut text: String =
        String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES_MAX)]).escape_debug().collect();
    if bytes.len() > SHOWN_BYTES_MAX {
        let _ = write!(text, "... ({} bytes)", bytes.len());
    }
    text
}

const TRACEBACK: &str = "\nstack traceback:\n";
const SHOWN_BYTES_MAX: usize = 80;
const MESSAGE_BYTES_MAX: usize = 4 << 10;
const TRACEBACK_BYTES_MAX: usize = 8 << 10;

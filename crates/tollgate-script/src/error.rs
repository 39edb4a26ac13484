//! Errors of creating a `Host`, of loading a script, and of one call. Each type shows which side is at fault.
//!
//! The texts are complete and show internals, because they are only for the log. The server decides which
//! text the client gets.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use mlua::Error;

/// Reason why no `Host` could be created. The cause is this program or the operating system.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The ticker thread did not start.
    #[error("cannot start the ticker thread")]
    Ticker(#[source] io::Error),
    /// The setup of the VM failed.
    #[error("luau host cannot be set up: {0}")]
    Setup(String),
}

/// Reason why a script could not be loaded. The script or the file system is at fault.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file or the root cannot be read.
    #[error("script {} cannot be read: {reason}", file.display())]
    Read {
        /// The file or folder.
        file: PathBuf,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// The file exceeds the maximum size of a script.
    #[error("script {} exceeds limit: {bytes} bytes, limit {limit} bytes", file.display())]
    TooLarge {
        /// Path of the script file.
        file: PathBuf,
        /// Size in bytes.
        bytes: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// The file is outside the root.
    #[error("script {} is outside its root {}", file.display(), root.display())]
    Outside {
        /// Path of the script file.
        file: PathBuf,
        /// The root that the file must be in.
        root: PathBuf,
    },
    /// The text does not compile.
    #[error("script {} does not compile: line {line}: {text}", file.display())]
    Syntax {
        /// Path of the script file.
        file: PathBuf,
        /// The line, counted from 1, or 0 if the compiler named none.
        line: u32,
        /// The message of the compiler.
        text: String,
    },
    /// The file failed when it ran, or exceeded a budget.
    #[error("script {} fails while it is loaded: {error}", file.display())]
    Run {
        /// Path of the script file.
        file: PathBuf,
        /// The line, counted from 1, or 0 if it is unknown.
        line: u32,
        /// Error of the run.
        error: CallError,
    },
    /// Loaded scripts keep too much memory, so too little remains for calls.
    #[error(
        "script {} exceeds the memory of loaded scripts: {bytes} bytes, limit {limit_bytes} bytes, \
         which is half of vm_bytes_max",
        file.display()
    )]
    Total {
        /// The file that exceeded the limit.
        file: PathBuf,
        /// Kept memory in bytes.
        bytes: usize,
        /// Limit in bytes.
        limit_bytes: usize,
    },
    /// The file returned a value that is not a handler.
    #[error("script {} {text}", file.display())]
    Shape {
        /// Path of the script file.
        file: PathBuf,
        /// The value found, and the allowed values.
        text: String,
    },
}

/// Reason why a call had no outcome. The script is at fault, and the reply has status 500, except for
/// `Refused`.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// The script raised an error.
    #[error("{message}{}", below(traceback))]
    Script {
        /// The error, with file and line if Luau reports them.
        message: String,
        /// The frames, innermost first. Empty if there are none.
        traceback: String,
    },
    /// The call used up its processor time.
    #[error("script exceeds its cpu budget: limit {limit_ms} ms{}", below(traceback))]
    CpuBudget {
        /// The budget in milliseconds.
        limit_ms: u64,
        /// Traceback of the script.
        traceback: String,
    },
    /// The call waited longer than its wall budget.
    #[error("script exceeds its wall budget: limit {limit_ms} ms{}", below(traceback))]
    WallBudget {
        /// The budget in milliseconds.
        limit_ms: u64,
        /// Traceback of the script at the point where it waited.
        traceback: String,
    },
    /// The memory of the call grew beyond its limit.
    #[error("script exceeds its memory: growth limit {limit_bytes} bytes{}", below(traceback))]
    Memory {
        /// Allowed growth in bytes.
        limit_bytes: usize,
        /// Traceback of the script. Empty if it is unknown.
        traceback: String,
    },
    /// The VM of a streamed reply was replaced, and the reply did not end within one wall budget after that.
    #[error("script still streams, but its vm was replaced, because it held too much memory")]
    Replaced,
    /// The client is at fault, and the script did not catch the error. The reply has `status` instead of 500.
    #[error("request refused with {status}: {reason}")]
    Refused {
        /// Status of the reply.
        status: u16,
        /// The reason. The client gets this text.
        reason: String,
    },
    /// The returned value is not a reply.
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

    /// Returns the refusal if the message of this error ends with the reason of the refusal. For any other
    /// message, returns this error.
    pub(crate) fn or_refusal(self, refusal: Option<Box<(u16, String)>>) -> Self {
        match (self, refusal) {
            (Self::Script { message, .. }, Some(refusal)) if message.ends_with(&refusal.1) => {
                Self::Refused { status: refusal.0, reason: refusal.1 }
            }
            (error, _) => error,
        }
    }

    /// Converts an error of mlua that a script raised.
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

/// Truncates a text whose length the script controls.
fn shortened(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let bytes = text.len();
        text.truncate(text.floor_char_boundary(bytes_max));
        let _ = write!(text, "... ({bytes} bytes)");
    }
    text
}

/// Removes the layers of callback errors. The innermost traceback is the most complete.
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

/// Removes all layers of callback errors except the innermost.
///
/// A script can pass an error through our callbacks any number of times. Each callback adds a layer. Dropping
/// an error with many layers would need native stack for each layer.
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

/// Describes error values other than strings, for which Luau prints only a type and an address.
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

/// Splits a message of the form `FILE:LINE: TEXT`, and returns the line and the text.
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

/// Truncates a text that a script chose, so that error texts stay short.
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

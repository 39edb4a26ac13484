//! The messages of an upgrade. Each is an object of JSON with the name of the message.
//!
//! `hello`, `started` and `refused` keep their form in all versions of the protocol, so that two programs of
//! different versions can refuse each other with a clear text. All other messages belong to the version that
//! `started` names.

use serde_json::{Value, json};
use tollgate_log::LogId;

/// The versions of the protocol that this program knows, lowest and highest.
pub(super) const VERSIONS: (u64, u64) = (1, 1);
/// Maximum characters of the faults in a refusal, so that the message fits into one packet.
const FAULTS_CHARS_MAX: usize = 8 << 10;

/// The first message of the old process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) versions: (u64, u64),
    /// The process id of the old process.
    pub(super) process: u32,
    /// The version of the old program.
    pub(super) program: String,
    /// The version of the log format that the old program writes.
    pub(super) log_format: u64,
    /// The log that the old process writes.
    pub(super) log: LogId,
    /// Device and inode of the folder of logs.
    pub(super) log_dir: (u64, u64),
    /// The configured addresses of the old process.
    pub(super) listens: Vec<String>,
    /// The address of the admin listener.
    pub(super) admin: Option<String>,
}

/// A message. The comment says which process sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// Old: who it is.
    Hello(Hello),
    /// New: it runs, and uses this version of the protocol.
    Started { version: u64, program: String },
    /// New: the upgrade cannot happen. The code is the exit code of the command.
    Refused { code: u8, text: String },
    /// New: all checks passed. It wants the sockets of these addresses.
    Checked { listens: Vec<String>, wants_admin: bool },
    /// Old: sockets of an address. A long list has several parts.
    Listen { name: String, part: u64 },
    /// Old: the socket of the admin listener.
    Admin,
    /// Old: the lock of the folder of logs.
    Lock,
    /// Old: all is handed over.
    Go,
    /// New: it accepts connections.
    Serving,
    /// Old: it has given its duties up, and drains.
    Yielded,
    /// Old, while it drains: its connections.
    Draining { connections: u64 },
    /// New: it ends as ordered, so the old process must not start another one.
    Ending,
}

impl Message {
    /// Returns the message as text.
    pub(super) fn text(&self) -> String {
        let named = |name: &str| json!({ "message": name });
        let value = match self {
            Self::Hello(hello) => json!({
                "message": "hello",
                "versions": [hello.versions.0, hello.versions.1],
                "process": hello.process,
                "program": hello.program,
                "log_format": hello.log_format,
                "log": hello.log.to_string(),
                "log_dir": [hello.log_dir.0, hello.log_dir.1],
                "listens": hello.listens,
                "admin": hello.admin,
            }),
            Self::Started { version, program } => {
                json!({ "message": "started", "version": version, "program": program })
            }
            Self::Refused { code, text } => {
                let text: String = text.chars().take(FAULTS_CHARS_MAX).collect();
                json!({ "message": "refused", "code": code, "text": text })
            }
            Self::Checked { listens, wants_admin } => {
                json!({ "message": "checked", "listens": listens, "wants_admin": wants_admin })
            }
            Self::Listen { name, part } => json!({ "message": "listen", "name": name, "part": part }),
            Self::Draining { connections } => json!({ "message": "draining", "connections": connections }),
            Self::Admin => named("admin"),
            Self::Lock => named("lock"),
            Self::Go => named("go"),
            Self::Serving => named("serving"),
            Self::Yielded => named("yielded"),
            Self::Ending => named("ending"),
        };
        value.to_string()
    }

    /// Reads a message. `None`: the text is no message.
    pub(super) fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let string = |name: &str| value.get(name)?.as_str().map(str::to_owned);
        let number = |name: &str| value.get(name)?.as_u64();
        Some(match value.get("message")?.as_str()? {
            "hello" => Self::Hello(Hello {
                versions: pair(&value["versions"])?,
                process: number("process")?.try_into().ok()?,
                program: string("program")?,
                log_format: number("log_format")?,
                log: string("log")?.parse().ok()?,
                log_dir: pair(&value["log_dir"])?,
                listens: strings(&value["listens"])?,
                admin: string("admin"),
            }),
            "started" => Self::Started { version: number("version")?, program: string("program")? },
            "refused" => Self::Refused { code: number("code")?.try_into().ok()?, text: string("text")? },
            "checked" => Self::Checked {
                listens: strings(&value["listens"])?,
                wants_admin: value.get("wants_admin")?.as_bool()?,
            },
            "listen" => Self::Listen { name: string("name")?, part: number("part")? },
            "draining" => Self::Draining { connections: number("connections")? },
            "admin" => Self::Admin,
            "lock" => Self::Lock,
            "go" => Self::Go,
            "serving" => Self::Serving,
            "yielded" => Self::Yielded,
            "ending" => Self::Ending,
            _ => return None,
        })
    }
}

fn pair(value: &Value) -> Option<(u64, u64)> {
    Some((value.get(0)?.as_u64()?, value.get(1)?.as_u64()?))
}

fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Returns the version for both programs: the highest version that both know.
pub(super) fn common_version(theirs: (u64, u64)) -> Option<u64> {
    let version = theirs.1.min(VERSIONS.1);
    (version >= theirs.0 && version >= VERSIONS.0).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_reads_back_as_it_was() {
        let names = ["127.0.0.1:80", "unix:/run/\"a\""].map(str::to_owned).to_vec();
        let hello = Hello {
            versions: (1, 3),
            process: 7,
            program: "0.1.0".to_owned(),
            log_format: 2,
            log: LogId::random(),
            log_dir: (1, u64::MAX),
            listens: names.clone(),
            admin: None,
        };
        let messages = [
            Message::Hello(hello.clone()),
            Message::Hello(Hello { admin: Some("unix:/a".to_owned()), ..hello }),
            Message::Started { version: 1, program: "x".to_owned() },
            Message::Refused { code: 2, text: "a\nb".to_owned() },
            Message::Checked { listens: names, wants_admin: true },
            Message::Listen { name: "systemd:web".to_owned(), part: 1 },
            Message::Draining { connections: 4 },
            Message::Admin,
            Message::Lock,
            Message::Go,
            Message::Serving,
            Message::Yielded,
            Message::Ending,
        ];
        for message in messages {
            assert_eq!(Message::read(&message.text()).as_ref(), Some(&message));
        }
    }

    #[test]
    fn a_foreign_text_is_no_message() {
        for text in ["", "1", "{}", "{\"message\":\"x\"}", "{\"message\":\"hello\"}", "[\"go\"]"] {
            assert_eq!(Message::read(text), None, "{text}");
        }
    }

    #[test]
    fn two_programs_use_the_highest_version_that_both_know() {
        assert_eq!(common_version((1, 1)), Some(1));
        assert_eq!(common_version((1, 9)), Some(1));
        assert_eq!(common_version((2, 9)), None);
        assert_eq!(common_version((0, 0)), None);
    }
}

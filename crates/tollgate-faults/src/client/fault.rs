//! The faults of clients: the catalogue, and the spelling and the steps of each fault.

use std::str::FromStr;
use std::time::Duration;

use crate::spelling::{Spelled, SpellingError};
use crate::step::Step;

/// The fault of a client, which applies to each of its connections. `tollgate-faults list` prints the
/// spelling and the default argument of each fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFault {
    /// Sends a request, reads the reply, and ends the connection.
    None,
    /// Sends a head byte by byte with this pause, and never ends it.
    SlowHead(Duration),
    /// Sends the head of a POST, and then an endless body byte by byte with this pause.
    SlowBody(Duration),
    /// Sends the head of a POST, and then endless chunks of one byte with this pause.
    SlowChunks(Duration),
    /// Sends 64 requests, and reads the replies byte by byte with this pause.
    SlowReader(Duration),
    /// Sends 64 requests, and reads nothing.
    NoReader,
    /// Connects, and sends nothing.
    Idle,
    /// Sends a request, reads the reply, and keeps the connection open.
    IdleAfterOne,
    /// Sends a request, ends its sending half, and reads the reply.
    HalfClose,
    /// Ends the connection in the middle of a head.
    CloseInHead,
    /// Ends the connection in the middle of a body.
    CloseInBody,
    /// Resets the connection in the middle of a body.
    ResetInBody,
    /// Sends a request, and resets the connection before the reply.
    ResetBeforeReply,
    /// Connects and resets the connection.
    ResetAtOnce,
    /// Sends this number of bytes that are not HTTP.
    Garbage(u64),
    /// Sends this number of requests at once, then reads the replies.
    Pipeline(u64),
    /// Sends a head of this number of bytes.
    LongHead(u64),
    /// Sends this number of fields.
    ManyFields(u64),
    /// Sends a head with both a length and chunked coding.
    LengthAndChunked,
    /// Sends a head with two different lengths.
    TwoLengths,
    /// Sends a chunk whose size is no number.
    BadChunkSize,
    /// Sends `Expect: 100-continue`, and never sends the body.
    ExpectNothing,
    /// Plays these steps, and then reads until the server ends the connection.
    Steps(Vec<Step>),
}

/// How a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    All,
    /// Reads one byte at a time, with this pause.
    Slowly(Duration),
    Nothing,
}

/// The action of a client after its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Stays until the server ends the connection.
    Stay,
    /// Ends the connection after a reply.
    LeaveWithReply,
}

const FOREVER: u64 = u64::MAX;
/// Number of requests that a slow reader sends. The replies fill the buffers of the kernel, unless they are
/// short.
const ASKED_OF_SLOW: u64 = 64;
const BODY_BYTES: u64 = 900_000;

impl ClientFault {
    /// The spelling of each fault with its default argument, and the effect of the fault.
    pub const LIST: &[(&str, &str)] = &[
        ("none", "sends one request, reads the reply, and closes the connection"),
        ("slow-head:1s", "sends a head byte by byte, with this pause, and never completes it"),
        ("slow-body:1s", "sends a body byte by byte, with this pause"),
        ("slow-chunks:1s", "sends a body with one byte in each chunk, with this pause"),
        ("slow-reader:1s", "sends 64 requests and reads one byte at a time, with this pause"),
        ("no-reader", "sends 64 requests and reads nothing"),
        ("idle", "connects and sends nothing"),
        ("idle-after-one", "sends one request, reads the reply, and keeps the connection open"),
        ("half-close", "sends one request, closes its sending half, and reads the reply"),
        ("close-in-head", "closes the connection in the middle of a head"),
        ("close-in-body", "closes the connection in the middle of a body"),
        ("reset-in-body", "resets the connection in the middle of a body"),
        ("reset-before-reply", "sends one request, and resets the connection before the reply"),
        ("reset-at-once", "connects, and resets the connection at once"),
        ("garbage:4KiB", "sends this number of bytes that are not HTTP"),
        ("pipeline:1000", "sends this number of requests at once, then reads the replies"),
        ("long-head:1MiB", "sends a head of this number of bytes"),
        ("many-fields:10000", "sends this number of header fields"),
        ("length-and-chunked", "sends a length and also chunks"),
        ("two-lengths", "sends two lengths that differ"),
        ("bad-chunk-size", "sends a chunk whose size is not a number"),
        ("expect-nothing", "asks for 100 (Continue) before it sends the body, and never sends it"),
    ];

    pub(super) fn reading(&self) -> Reading {
        match self {
            Self::SlowReader(pause) => Reading::Slowly(*pause),
            Self::NoReader => Reading::Nothing,
            _ => Reading::All,
        }
    }

    pub(super) fn after(&self) -> After {
        if *self == Self::None { After::LeaveWithReply } else { After::Stay }
    }

    /// Returns the steps on a connection. `number` is the number of the client, from 0.
    pub(super) fn steps(&self, path: &str, number: u64) -> Vec<Step> {
        use Step::{Close, HalfClose, Noise, Repeat, Reset};
        let begun = || send(&format!("GET {path} HTTP/1.1\r\nHost: faults\r\nX-Fault: "));
        let asked = || Step::Send(get(path));
        let posted = |fields: &str| send(&post(path, fields));
        let in_body = || posted(&format!("Content-Length: {BODY_BYTES}\r\n"));
        let drop_by_drop = |drop: &[u8], pause| Repeat(drop.to_vec(), FOREVER, pause);
        match self {
            Self::None | Self::IdleAfterOne => vec![asked()],
            Self::SlowHead(pause) => vec![begun(), drop_by_drop(b"x", *pause)],
            Self::SlowBody(pause) => vec![in_body(), drop_by_drop(b"x", *pause)],
            Self::SlowChunks(pause) => {
                vec![posted("Transfer-Encoding: chunked\r\n"), drop_by_drop(b"1\r\nx\r\n", *pause)]
            }
            Self::SlowReader(_) | Self::NoReader => vec![Repeat(get(path), ASKED_OF_SLOW, Duration::ZERO)],
            Self::Idle => Vec::new(),
            Self::HalfClose => vec![asked(), HalfClose],
            Self::CloseInHead => vec![begun(), Close],
            Self::CloseInBody => vec![in_body(), send("half of it"), Close],
            Self::ResetInBody => vec![in_body(), send("half of it"), Reset],
            Self::ResetBeforeReply => vec![asked(), Reset],
            Self::ResetAtOnce => vec![Reset],
            Self::Garbage(bytes) => vec![Noise { bytes: *bytes, seed: number }],
            Self::Pipeline(count) => vec![Repeat(get(path), *count, Duration::ZERO)],
            Self::LongHead(bytes) => {
                vec![begun(), Repeat(vec![b'x'], *bytes, Duration::ZERO), send("\r\n\r\n")]
            }
            Self::ManyFields(count) => {
                vec![begun(), Repeat(b"\r\nX-Many: 1".to_vec(), *count, Duration::ZERO), send("\r\n\r\n")]
            }
            Self::LengthAndChunked => {
                vec![posted("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), send("0\r\n\r\n")]
            }
            Self::TwoLengths => {
                vec![posted("Content-Length: 5\r\nContent-Length: 10\r\n"), send("0123456789")]
            }
            Self::BadChunkSize => vec![posted("Transfer-Encoding: chunked\r\n"), send("zz\r\n")],
            Self::ExpectNothing => vec![posted("Content-Length: 5\r\nExpect: 100-continue\r\n")],
            Self::Steps(steps) => steps.clone(),
        }
    }
}

impl FromStr for ClientFault {
    type Err = SpellingError;

    fn from_str(text: &str) -> Result<Self, SpellingError> {
        let spelled = Spelled::new(text);
        let second = Duration::from_secs(1);
        match spelled.name {
            "none" => spelled.bare(Self::None),
            "slow-head" => Ok(Self::SlowHead(spelled.duration(second)?)),
            "slow-body" => Ok(Self::SlowBody(spelled.duration(second)?)),
            "slow-chunks" => Ok(Self::SlowChunks(spelled.duration(second)?)),
            "slow-reader" => Ok(Self::SlowReader(spelled.duration(second)?)),
            "no-reader" => spelled.bare(Self::NoReader),
            "idle" => spelled.bare(Self::Idle),
            "idle-after-one" => spelled.bare(Self::IdleAfterOne),
            "half-close" => spelled.bare(Self::HalfClose),
            "close-in-head" => spelled.bare(Self::CloseInHead),
            "close-in-body" => spelled.bare(Self::CloseInBody),
            "reset-in-body" => spelled.bare(Self::ResetInBody),
            "reset-before-reply" => spelled.bare(Self::ResetBeforeReply),
            "reset-at-once" => spelled.bare(Self::ResetAtOnce),
            "garbage" => Ok(Self::Garbage(spelled.bytes(4096)?)),
            "pipeline" => Ok(Self::Pipeline(spelled.number(1000)?)),
            "long-head" => Ok(Self::LongHead(spelled.bytes(1 << 20)?)),
            "many-fields" => Ok(Self::ManyFields(spelled.number(10_000)?)),
            "length-and-chunked" => spelled.bare(Self::LengthAndChunked),
            "two-lengths" => spelled.bare(Self::TwoLengths),
            "bad-chunk-size" => spelled.bare(Self::BadChunkSize),
            "expect-nothing" => spelled.bare(Self::ExpectNothing),
            _ => Err(spelled.unknown()),
        }
    }
}

fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: faults\r\n\r\n").into_bytes()
}

fn post(path: &str, fields: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: faults\r\nContent-Type: text/plain\r\n{fields}\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_are_listed_can_be_spelled_and_by_their_names_alone_mean_their_defaults() {
        for (spelling, _) in ClientFault::LIST {
            let fault: ClientFault = spelling.parse().unwrap();
            let name = spelling.split(':').next().unwrap();
            assert_eq!(name.parse::<ClientFault>().unwrap(), fault, "{spelling}");
        }
    }
}

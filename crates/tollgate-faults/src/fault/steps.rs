//! The steps of each fault, and the moment at which the fault begins.

use std::time::Duration;

use super::Fault;
use crate::random::is_hit;
use crate::request::Request;
use crate::step::Step;

/// The moment in a connection at which a fault begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    /// Before the backend reads.
    AtOnce,
    /// After the backend has read the head of a request.
    AfterHead,
    /// After the backend has read a whole request.
    AfterRequest,
}

impl Fault {
    pub(crate) fn begins(&self) -> Begins {
        match self {
            Self::CloseAtOnce | Self::ResetAtOnce | Self::SpeakFirst | Self::Frozen => Begins::AtOnce,
            Self::ReplyEarly => Begins::AfterHead,
            _ => Begins::AfterRequest,
        }
    }

    /// Returns the steps for a request. `nth` is the number of the request on its connection, and `number`
    /// its number at the backend, both from 0.
    pub(crate) fn steps(&self, request: &Request, nth: u64, number: u64) -> Vec<Step> {
        use Step::{Close, Drip, Freeze, Hold, Noise, Repeat, Reset, Send, Wait};
        let right = || Send(right_bytes(request));
        match self {
            Self::None | Self::Refuse | Self::Unaccepted | Self::SlowAccept(_) => vec![right()],
            Self::Echo => vec![send(&echo(request))],
            Self::Content(bytes) => vec![
                send(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").as_bytes()),
                Repeat(vec![b'x'], if request.method() == "HEAD" { 0 } else { *bytes }, Duration::ZERO),
            ],
            Self::Trailers => vec![chunked(b"a\r\n0123456789\r\n0\r\nX-Checksum: 45\r\n\r\n")],
            Self::EarlyHints => {
                vec![send(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"), right()]
            }
            Self::UntilClose => vec![send(&head("200 OK", "", CONTENT)), Close],
            Self::Status(status) => vec![send(&with_status(*status, request))],
            Self::Slow(pause) => vec![Wait(*pause), right()],
            Self::Sometimes(per_mille, fault) if is_hit(0, number, *per_mille) => {
                fault.steps(request, nth, number)
            }
            Self::Sometimes(..) => vec![right()],

            Self::CloseAtOnce | Self::Close => vec![Close],
            Self::ResetAtOnce | Self::Reset => vec![Reset],
            Self::SpeakFirst => vec![right()],
            Self::Silent => vec![Hold],
            Self::Frozen => vec![Freeze],
            Self::SilentAfterHead => vec![promise(), Hold],
            Self::Drip(pause) => vec![Drip(right_bytes(request), *pause)],
            Self::DripContent(pause) => vec![promise(), Drip(CONTENT.to_vec(), *pause)],
            Self::Endless => vec![
                send(&head("200 OK", "Transfer-Encoding: chunked\r\n", b"")),
                Repeat([b"400\r\n".as_slice(), &[b'x'; 1024], b"\r\n"].concat(), FOREVER, Duration::ZERO),
            ],

            Self::CloseInHead => vec![send(b"HTTP/1.1 200 OK\r\nContent-Le"), Close],
            Self::ResetAfterHead => vec![promise(), Reset],
            Self::ResetInContent => vec![promise(), send(&CONTENT[..5]), Reset],
            Self::ReplyEarly => vec![right(), Close],

            Self::Garbage(bytes) => vec![Noise { bytes: *bytes, seed: number }, Close],
            Self::LongHead(bytes) => vec![
                send(b"HTTP/1.1 200 OK\r\nX-Long: "),
                Repeat(vec![b'x'], *bytes, Duration::ZERO),
                send(b"\r\nContent-Length: 10\r\n\r\n0123456789"),
            ],
            Self::ManyFields(count) => vec![
                send(b"HTTP/1.1 200 OK\r\n"),
                Repeat(b"X-Many: 1\r\n".to_vec(), *count, Duration::ZERO),
                send(b"Content-Length: 10\r\n\r\n0123456789"),
            ],
            Self::BareLf => vec![send(b"HTTP/1.1 200 OK\nContent-Length: 10\n\n0123456789")],
            Self::FoldedField => vec![length_after("X-Folded: a\r\n b\r\n")],
            Self::NulInField => vec![length_after("X-Nul: a\0b\r\n")],
            Self::SpaceBeforeColon => vec![send(b"HTTP/1.1 200 OK\r\nContent-Length : 10\r\n\r\n0123456789")],
            Self::BadVersion => vec![send(b"HTTP/1.10 200 OK\r\nContent-Length: 10\r\n\r\n0123456789")],
            Self::BadStatus => vec![send(b"HTTP/1.1 20 OK\r\nContent-Length: 10\r\n\r\n0123456789")],
            Self::Interim(count) => {
                vec![Repeat(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), *count, Duration::ZERO), right()]
            }
            Self::SwitchProtocols => vec![
                send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n"),
                send(SECOND),
            ],

            Self::ShortContent => vec![promise(), send(&CONTENT[..5]), Close],
            Self::LongContent => vec![Send([right_bytes(request), b"and more".to_vec()].concat())],
            Self::BadLength => vec![length("10x")],
            Self::HugeLength => vec![length("99999999999999999999999")],
            Self::TwoLengths => vec![length("10\r\nContent-Length: 5")],
            Self::SameLengthTwice => vec![length("10\r\nContent-Length: 10")],
            Self::LengthAndChunked => {
                let framing = "Content-Length: 10\r\nTransfer-Encoding: chunked\r\n";
                vec![send(&head("200 OK", framing, b"a\r\n0123456789\r\n0\r\n\r\n"))]
            }
            Self::UnknownCoding => {
                vec![send(&head(
                    "200 OK",
                    "Transfer-Encoding: unheard-of, chunked\r\n",
                    b"a\r\n0123456789\r\n0\r\n\r\n",
                ))]
            }
            Self::BadChunkSize => vec![chunked(b"a\r\n0123456789\r\nzz\r\n")],
            Self::HugeChunkSize => vec![chunked(b"a\r\n0123456789\r\nffffffffffffffffff\r\n")],
            Self::LongChunk => vec![chunked(b"5\r\n0123456789\r\n0\r\n\r\n")],
            Self::CutChunks => vec![chunked(b"a\r\n0123456789\r\n"), Close],
            Self::LongChunkExtension(bytes) => vec![
                chunked(b"a;x="),
                Repeat(vec![b'x'], *bytes, Duration::ZERO),
                send(b"\r\n0123456789\r\n0\r\n\r\n"),
            ],
            Self::LongTrailers(bytes) => vec![
                chunked(b"a\r\n0123456789\r\n0\r\nX-Long: "),
                Repeat(vec![b'x'], *bytes, Duration::ZERO),
                send(b"\r\n\r\n"),
            ],
            Self::ContentOf204 => vec![send(&[b"HTTP/1.1 204 No Content\r\n\r\n", SECOND].concat())],

            Self::SecondReply => vec![Send([right_bytes(request), SECOND.to_vec()].concat())],
            Self::LateSecondReply(pause) => vec![right(), Wait(*pause), send(SECOND)],
            Self::CloseIdle(pause) => vec![right(), Wait(*pause), Close],
            Self::ResetIdle(pause) => vec![right(), Wait(*pause), Reset],
            Self::CloseAfter(count) if nth >= *count => vec![Close],
            Self::CloseAfter(_) => vec![right()],
            Self::Steps(steps) => steps.clone(),
        }
    }
}

fn send(bytes: &[u8]) -> Step {
    Step::Send(bytes.to_vec())
}

/// Returns the reply of a backend without a fault.
fn right_bytes(request: &Request) -> Vec<u8> {
    with_status(200, request)
}

fn with_status(status: u16, request: &Request) -> Vec<u8> {
    let has_none = matches!(status, 204 | 304);
    let length = if has_none { "" } else { "Content-Length: 10\r\n" };
    let content: &[u8] = if has_none || request.method() == "HEAD" { b"" } else { CONTENT };
    let reason = if status == 200 { "OK" } else { "As Told" };
    head(&format!("{status} {reason}"), length, content)
}

fn head(status: &str, fields: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\n{fields}\r\n");
    [head.as_bytes(), content].concat()
}

fn echo(request: &Request) -> Vec<u8> {
    let content = [request.head.as_bytes(), b"\r\n\r\n", &request.body].concat();
    let sent: &[u8] = if request.method() == "HEAD" { b"" } else { &content };
    head("200 OK", &format!("Content-Length: {}\r\n", content.len()), sent)
}

/// Returns a head that announces ten bytes of content.
fn promise() -> Step {
    Step::Send(head("200 OK", "Content-Length: 10\r\n", b""))
}

fn length(value: &str) -> Step {
    Step::Send(head("200 OK", &format!("Content-Length: {value}\r\n"), CONTENT))
}

fn length_after(field: &str) -> Step {
    Step::Send(head("200 OK", &format!("{field}Content-Length: 10\r\n"), CONTENT))
}

fn chunked(chunks: &[u8]) -> Step {
    Step::Send(head("200 OK", "Transfer-Encoding: chunked\r\n", chunks))
}

const CONTENT: &[u8] = b"0123456789";
const SECOND: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled";
const FOREVER: u64 = u64::MAX;

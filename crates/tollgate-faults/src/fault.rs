//! The faults of backends: the catalogue, and the spelling of each fault.

mod steps;

use std::str::FromStr;
use std::time::Duration;

pub(crate) use steps::Begins;

use crate::spelling::{Spelled, SpellingError};
use crate::step::Step;

/// The fault of a backend, which applies to each request. `tollgate-faults list` prints the spelling and the
/// default argument of each fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answers correctly: 200 with ten bytes of content.
    None,
    /// Answers correctly, with the request as content: the unchanged head, an empty line, the body.
    Echo,
    /// Answers correctly, with this number of bytes of content.
    Content(u64),
    /// Answers correctly, in chunks and with a trailer section.
    Trailers,
    /// Answers correctly, after a reply with the status 103 (Early Hints).
    EarlyHints,
    /// Answers correctly, with content that ends at the end of the connection.
    UntilClose,
    /// Answers with this status.
    Status(u16),
    /// Answers correctly, after this time.
    Slow(Duration),
    /// Applies the fault to this share of requests, in thousandths, and answers the other requests correctly.
    /// The choice of requests is the same in each run.
    Sometimes(u16, Box<Fault>),

    /// Refuses new connections, and ends the open ones.
    Refuse,
    /// Accepts no connection, so that the connect of a client never ends.
    Unaccepted,
    /// Accepts one connection at a time, with this pause between two connections. Other connections wait in
    /// the kernel.
    SlowAccept(Duration),
    /// Ends each connection at once.
    CloseAtOnce,
    /// Resets each connection at once.
    ResetAtOnce,
    /// Sends a reply as soon as a client connects, before any request.
    SpeakFirst,

    /// Reads the request, and sends nothing.
    Silent,
    /// Reads nothing, and sends nothing.
    Frozen,
    /// Sends a head that announces content, and sends nothing after it.
    SilentAfterHead,
    /// Sends the whole reply byte by byte with this pause.
    Drip(Duration),
    /// Sends the head at once, and the content byte by byte with this pause.
    DripContent(Duration),
    /// Sends content that does not end.
    Endless,

    /// Ends the connection instead of replying.
    Close,
    /// Resets the connection instead of replying.
    Reset,
    /// Ends the connection in the middle of the head.
    CloseInHead,
    /// Resets the connection after the head.
    ResetAfterHead,
    /// Resets the connection in the middle of the content.
    ResetInContent,
    /// Replies before the body of the request is read, and ends the connection.
    ReplyEarly,

    /// Sends this number of bytes that are not HTTP.
    Garbage(u64),
    /// Sends a head of this number of bytes.
    LongHead(u64),
    /// Sends this number of fields.
    ManyFields(u64),
    /// Ends the lines of the head with LF instead of CRLF.
    BareLf,
    /// Folds a field over two lines.
    FoldedField,
    /// Sends a NUL in a field.
    NulInField,
    /// Sends a space between a field name and its colon.
    SpaceBeforeColon,
    /// Sends an HTTP version that does not exist.
    BadVersion,
    /// Sends a status of two digits.
    BadStatus,
    /// Sends this number of interim replies with the status 100 (Continue) before the reply.
    Interim(u64),
    /// Switches protocols without a request for it.
    SwitchProtocols,

    /// Sends less content than announced, and ends the connection.
    ShortContent,
    /// Sends more content than announced.
    LongContent,
    /// Sends a length that is no number.
    BadLength,
    /// Sends a length that is too large for any integer type.
    HugeLength,
    /// Sends two different lengths.
    TwoLengths,
    /// Sends the same length twice.
    SameLengthTwice,
    /// Sends a head with both a length and chunked coding.
    LengthAndChunked,
    /// Sends an unknown transfer coding.
    UnknownCoding,
    /// Sends a chunk size that is no number.
    BadChunkSize,
    /// Sends a chunk size that is too large for any integer type.
    HugeChunkSize,
    /// Sends a chunk that is longer than its size.
    LongChunk,
    /// Ends the connection between two chunks.
    CutChunks,
    /// Sends a chunk extension of this number of bytes.
    LongChunkExtension(u64),
    /// Sends a trailer section of this number of bytes.
    LongTrailers(u64),
    /// Sends content after a reply with the status 204, which never has content. The client reads the content
    /// as the next reply.
    ContentOf204,

    /// Sends a second reply directly after the first.
    SecondReply,
    /// Sends a second reply after the first reply.
    LateSecondReply(Duration),
    /// Replies correctly, keeps the connection open, and ends it after this time.
    CloseIdle(Duration),
    /// Replies correctly, keeps the connection open, and resets it after this time.
    ResetIdle(Duration),
    /// Replies correctly to this number of requests of a connection, and ends the connection instead of
    /// sending the next reply.
    CloseAfter(u64),

    /// Plays these steps.
    Steps(Vec<Step>),
}

impl Fault {
    /// The spelling of each fault with its default argument, and the effect of the fault.
    pub const LIST: &[(&str, &str)] = &[
        ("none", "answers correctly: 200 with ten bytes of content"),
        ("echo", "answers correctly, with the request as content"),
        ("content:1MiB", "answers correctly, with this number of bytes of content"),
        ("trailers", "answers correctly, in chunks and with a trailer section"),
        ("early-hints", "answers correctly, after a 103"),
        ("until-close", "answers correctly, with content that ends when the connection closes"),
        ("status:503", "answers with this status"),
        ("slow:1s", "answers correctly, after this time"),
        (
            "sometimes:30%:reset",
            "applies the fault to this share of the requests, chosen the same way in each run",
        ),
        ("refuse", "refuses new connections, and closes the open ones"),
        ("unaccepted", "accepts no connection: connecting never completes"),
        ("slow-accept:1s", "accepts one connection at a time, with this pause between them"),
        ("close-at-once", "closes each connection at once"),
        ("reset-at-once", "resets each connection at once"),
        ("speak-first", "sends a reply before any request, as soon as a client connects"),
        ("silent", "reads the request and sends nothing"),
        ("frozen", "reads nothing and sends nothing"),
        ("silent-after-head", "sends a head that announces content, and then nothing"),
        ("drip:1s", "sends the whole reply byte by byte, with this pause"),
        ("drip-content:1s", "sends the head at once, the content byte by byte, with this pause"),
        ("endless", "sends content without an end"),
        ("close", "closes the connection instead of replying"),
        ("reset", "resets the connection instead of replying"),
        ("close-in-head", "closes the connection in the middle of the head"),
        ("reset-after-head", "resets the connection after the head"),
        ("reset-in-content", "resets the connection in the middle of the content"),
        ("reply-early", "replies before it has read the request's body, and closes the connection"),
        ("garbage:4KiB", "sends this number of bytes that are not HTTP"),
        ("long-head:1MiB", "sends a head of this number of bytes"),
        ("many-fields:10000", "sends this number of header fields"),
        ("bare-lf", "ends the lines of the head with LF only"),
        ("folded-field", "folds a field over two lines"),
        ("nul-in-field", "has a NUL in a field"),
        ("space-before-colon", "has a space between a field name and its colon"),
        ("bad-version", "names an invalid version"),
        ("bad-status", "has a status of two digits"),
        ("interim:100000", "sends this number of 100 (Continue) before the reply"),
        ("switch-protocols", "switches protocols (101) without a request for it"),
        ("short-content", "sends less content than announced, and closes the connection"),
        ("long-content", "sends more content than announced"),
        ("bad-length", "has a length that is not a number"),
        ("huge-length", "has a length that is too large for a 64-bit integer"),
        ("two-lengths", "has two lengths that differ"),
        ("same-length-twice", "has the same length twice"),
        ("length-and-chunked", "has a length and is chunked"),
        ("unknown-coding", "has an unknown transfer coding"),
        ("bad-chunk-size", "has a chunk size that is not a number"),
        ("huge-chunk-size", "has a chunk size that is too large for a 64-bit integer"),
        ("long-chunk", "has a chunk that is longer than its size"),
        ("cut-chunks", "closes the connection between two chunks"),
        ("long-chunk-extension:1MiB", "has a chunk extension of this number of bytes"),
        ("long-trailers:1MiB", "has a trailer section of this number of bytes"),
        ("content-of-204", "sends content with a 204, which must have none: the content looks like a reply"),
        ("second-reply", "sends a second reply directly after the first"),
        ("late-second-reply:100ms", "sends a second reply this time after the first"),
        ("close-idle:100ms", "replies correctly, keeps the connection open, and closes it after this time"),
        ("reset-idle:100ms", "replies correctly, keeps the connection open, and resets it after this time"),
        (
            "close-after:1",
            "replies correctly to this number of requests of a connection, and closes it at the next one",
        ),
    ];
}

impl FromStr for Fault {
    type Err = SpellingError;

    fn from_str(text: &str) -> Result<Self, SpellingError> {
        let spelled = Spelled::new(text);
        let second = Duration::from_secs(1);
        let moment = Duration::from_millis(100);
        let mib = 1 << 20;
        match spelled.name {
            "none" => spelled.bare(Self::None),
            "echo" => spelled.bare(Self::Echo),
            "content" => Ok(Self::Content(spelled.bytes(mib)?)),
            "trailers" => spelled.bare(Self::Trailers),
            "early-hints" => spelled.bare(Self::EarlyHints),
            "until-close" => spelled.bare(Self::UntilClose),
            "status" => Ok(Self::Status(spelled.status()?)),
            "slow" => Ok(Self::Slow(spelled.duration(second)?)),
            "sometimes" => {
                spelled.share().map(|(per_mille, fault)| Self::Sometimes(per_mille, Box::new(fault)))
            }
            "refuse" => spelled.bare(Self::Refuse),
            "unaccepted" => spelled.bare(Self::Unaccepted),
            "slow-accept" => Ok(Self::SlowAccept(spelled.duration(second)?)),
            "close-at-once" => spelled.bare(Self::CloseAtOnce),
            "reset-at-once" => spelled.bare(Self::ResetAtOnce),
            "speak-first" => spelled.bare(Self::SpeakFirst),
            "silent" => spelled.bare(Self::Silent),
            "frozen" => spelled.bare(Self::Frozen),
            "silent-after-head" => spelled.bare(Self::SilentAfterHead),
            "drip" => Ok(Self::Drip(spelled.duration(second)?)),
            "drip-content" => Ok(Self::DripContent(spelled.duration(second)?)),
            "endless" => spelled.bare(Self::Endless),
            "close" => spelled.bare(Self::Close),
            "reset" => spelled.bare(Self::Reset),
            "close-in-head" => spelled.bare(Self::CloseInHead),
            "reset-after-head" => spelled.bare(Self::ResetAfterHead),
            "reset-in-content" => spelled.bare(Self::ResetInContent),
            "reply-early" => spelled.bare(Self::ReplyEarly),
            "garbage" => Ok(Self::Garbage(spelled.bytes(4096)?)),
            "long-head" => Ok(Self::LongHead(spelled.bytes(mib)?)),
            "many-fields" => Ok(Self::ManyFields(spelled.number(10_000)?)),
            "bare-lf" => spelled.bare(Self::BareLf),
            "folded-field" => spelled.bare(Self::FoldedField),
            "nul-in-field" => spelled.bare(Self::NulInField),
            "space-before-colon" => spelled.bare(Self::SpaceBeforeColon),
            "bad-version" => spelled.bare(Self::BadVersion),
            "bad-status" => spelled.bare(Self::BadStatus),
            "interim" => Ok(Self::Interim(spelled.number(100_000)?)),
            "switch-protocols" => spelled.bare(Self::SwitchProtocols),
            "short-content" => spelled.bare(Self::ShortContent),
            "long-content" => spelled.bare(Self::LongContent),
            "bad-length" => spelled.bare(Self::BadLength),
            "huge-length" => spelled.bare(Self::HugeLength),
            "two-lengths" => spelled.bare(Self::TwoLengths),
            "same-length-twice" => spelled.bare(Self::SameLengthTwice),
            "length-and-chunked" => spelled.bare(Self::LengthAndChunked),
            "unknown-coding" => spelled.bare(Self::UnknownCoding),
            "bad-chunk-size" => spelled.bare(Self::BadChunkSize),
            "huge-chunk-size" => spelled.bare(Self::HugeChunkSize),
            "long-chunk" => spelled.bare(Self::LongChunk),
            "cut-chunks" => spelled.bare(Self::CutChunks),
            "long-chunk-extension" => Ok(Self::LongChunkExtension(spelled.bytes(mib)?)),
            "long-trailers" => Ok(Self::LongTrailers(spelled.bytes(mib)?)),
            "content-of-204" => spelled.bare(Self::ContentOf204),
            "second-reply" => spelled.bare(Self::SecondReply),
            "late-second-reply" => Ok(Self::LateSecondReply(spelled.duration(moment)?)),
            "close-idle" => Ok(Self::CloseIdle(spelled.duration(moment)?)),
            "reset-idle" => Ok(Self::ResetIdle(spelled.duration(moment)?)),
            "close-after" => Ok(Self::CloseAfter(spelled.number(1)?)),
            _ => Err(spelled.unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_are_listed_can_be_spelled_and_by_their_names_alone_mean_their_defaults() {
        for (spelling, _) in Fault::LIST {
            let fault: Fault = spelling.parse().unwrap();
            if !spelling.starts_with("sometimes") {
                let name = spelling.split(':').next().unwrap();
                assert_eq!(name.parse::<Fault>().unwrap(), fault, "{spelling}");
            }
        }
    }

    #[test]
    fn a_misspelled_fault_is_reported() {
        let check = |text: &str, told: &str| assert_eq!(text.parse::<Fault>().unwrap_err().to_string(), told);
        check("quiet", "unknown fault: \"quiet\": `tollgate-faults list` prints all faults");
        check("silent:1s", "silent: found \"1s\", allowed nothing");
        check("slow:1", "slow: found \"1\", allowed a time like 200ms, 5s, 1m");
        check("status:99", "status: found \"99\", allowed a status from 200 to 599");
        check(
            "sometimes:300%:reset",
            "sometimes: found \"300%:reset\", allowed a share and a fault like 30%:reset",
        );
        check("sometimes:30%:quiet", "unknown fault: \"quiet\": `tollgate-faults list` prints all faults");
        check("long-head:1MB", "long-head: found \"1MB\", allowed a size like 500, 64KiB, 1MiB");
    }
}

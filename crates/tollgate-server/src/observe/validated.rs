//! The verdicts on messages that a route validates.

/// The side of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageSide {
    Request,
    Reply,
}

/// The verdict on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judged {
    Valid,
    /// The document does not follow the schema.
    Invalid,
    /// The content is no well-formed document.
    Malformed,
    /// The document exceeds a limit.
    Limit,
    /// The message has no document that the server can read.
    Unread,
}

impl MessageSide {
    pub(crate) const ALL: [Self; 2] = [Self::Request, Self::Reply];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Reply => "reply",
        }
    }
}

impl Judged {
    pub(crate) const ALL: [Self; 5] =
        [Self::Valid, Self::Invalid, Self::Malformed, Self::Limit, Self::Unread];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Invalid => "invalid",
            Self::Malformed => "malformed",
            Self::Limit => "limit",
            Self::Unread => "unread",
        }
    }
}

/// The number of messages of a route with one verdict, over all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JudgedCount {
    /// `request` or `reply`.
    pub side: &'static str,
    /// `valid`, `invalid`, `malformed`, `limit` or `unread`.
    pub result: &'static str,
    /// The number of messages.
    pub count: u64,
}

impl JudgedCount {
    /// Lists all verdicts of both sides, without messages.
    pub(crate) fn none() -> Vec<Self> {
        let of_side = |side: MessageSide| {
            Judged::ALL.map(|judged| Self { side: side.name(), result: judged.name(), count: 0 })
        };
        MessageSide::ALL.into_iter().flat_map(of_side).collect()
    }
}

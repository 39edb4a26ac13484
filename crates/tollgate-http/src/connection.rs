//! Connection, Expect and Upgrade fields of a head (RFC 9112 section 9).

use crate::error::excerpt;
use crate::grammar::{is_token, trim_blanks};
use crate::{BodyFraming, RequestError, Version};

/// Facts from the Connection, Expect and Upgrade fields that were read so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionFields {
    closes: bool,
    keeps_alive: bool,
    names_fields: bool,
    /// Whether Upgrade names a protocol other than h2c.
    upgrades: bool,
    expectation: Option<Expectation>,
}

#[derive(Debug, Clone)]
enum Expectation {
    Continue,
    Unknown(Box<RequestError>),
}

impl ConnectionFields {
    pub(crate) fn note_connection(&mut self, value: &[u8]) -> Result<(), RequestError> {
        for option in connection_options(value) {
            if !is_token(option) {
                return Err(RequestError::ConnectionInvalid { found: excerpt(option) });
            }
            // A proxy removes the fields that Connection names. An option with such a name would make a proxy
            // remove a field that frames or routes the message.
            if NEVER_OPTIONS.iter().any(|name| option.eq_ignore_ascii_case(name)) {
                return Err(RequestError::ConnectionNamesFraming { found: excerpt(option) });
            }
            let (closes, keeps_alive) =
                (option.eq_ignore_ascii_case(b"close"), option.eq_ignore_ascii_case(b"keep-alive"));
            self.closes |= closes;
            self.keeps_alive |= keeps_alive;
            self.names_fields |= !closes && !keeps_alive;
        }
        Ok(())
    }

    /// Returns whether Connection has options that may name fields (RFC 9110 section 7.6.1).
    pub(crate) fn names_fields(&self) -> bool {
        self.names_fields
    }

    /// Records Upgrade, and ignores `h2c`.
    ///
    /// The content of a request that offers HTTP/2 is still HTTP/1.1 (RFC 7540 section 3.2). Clients such as
    /// curl and Java's HttpClient send this offer with every request.
    pub(crate) fn note_upgrade(&mut self, value: &[u8]) {
        self.upgrades |= connection_options(value).any(|protocol| !protocol.eq_ignore_ascii_case(b"h2c"));
    }

    /// Records Expect, which is a list (RFC 9110 section 10.1.1). A list without members expects nothing.
    ///
    /// An unknown expectation is refused only at the end of the head, because HTTP/1.0 has no expectations.
    pub(crate) fn note_expect(&mut self, value: &[u8]) {
        let mut members = connection_options(value).peekable();
        if members.peek().is_none() {
            return;
        }
        if !members.all(|expectation| expectation.eq_ignore_ascii_case(b"100-continue")) {
            let error = RequestError::ExpectationUnknown { found: excerpt(value) };
            self.expectation = Some(Expectation::Unknown(error.into()));
        } else if self.expectation.is_none() {
            self.expectation = Some(Expectation::Continue);
        }
    }

    /// Returns whether the connection persists (RFC 9112 section 9.3).
    ///
    /// `close` has priority. A connection with HTTP/1.1 persists by default, and a connection with HTTP/1.0
    /// persists on request.
    pub(crate) fn is_persistent(&self, version: Version) -> bool {
        !self.closes && (version == Version::Http11 || self.keeps_alive)
    }

    /// Returns whether the client waits for `100 Continue` (RFC 9110 section 10.1.1).
    ///
    /// HTTP/1.0 has no expectations. A request without content has no content to wait for.
    #[inline]
    pub(crate) fn expects_continue(
        &self,
        version: Version,
        framing: BodyFraming,
    ) -> Result<bool, RequestError> {
        match &self.expectation {
            Some(Expectation::Unknown(error)) if version == Version::Http11 => Err(*error.clone()),
            Some(Expectation::Continue) if version == Version::Http11 => Ok(framing.has_content()),
            _ => Ok(false),
        }
    }

    /// Refuses an Upgrade in a request with a body. Upgrade in HTTP/1.0 is ignored (RFC 9110 section 7.8).
    pub(crate) fn check_upgrade(&self, version: Version, framing: BodyFraming) -> Result<(), RequestError> {
        if self.upgrades && version == Version::Http11 && framing.has_content() {
            return Err(RequestError::UpgradeWithBody);
        }
        Ok(())
    }
}

/// Lists the options of a Connection value, and skips empty elements (RFC 9110 section 5.6.1.2).
///
/// The function splits any comma-separated list without quoted strings.
pub fn connection_options(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim_blanks).filter(|option| !option.is_empty())
}

/// Returns whether a field is hop-by-hop and is never forwarded (RFC 9110 section 7.6.1).
///
/// Connection may name further fields. [`RequestHead::is_hop_by_hop`](crate::RequestHead::is_hop_by_hop)
/// covers them, too.
pub fn is_hop_by_hop_field(name: impl AsRef<[u8]>) -> bool {
    let name = name.as_ref();
    let as_long: &[&str] = match name.len() {
        2 => &["te"],
        // `close` is a reserved field name, because it is a connection option (RFC 9110 section 18.4).
        5 => &["close"],
        7 => &["trailer", "upgrade"],
        10 => &["connection", "keep-alive"],
        14 => &["http2-settings"],
        16 => &["proxy-connection"],
        17 => &["transfer-encoding"],
        18 => &["proxy-authenticate"],
        19 => &["proxy-authorization"],
        _ => &[],
    };
    as_long.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
}

const NEVER_OPTIONS: [&[u8]; 3] = [b"content-length", b"transfer-encoding", b"host"];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str], expect: Result<(bool, bool), u16>) {
        let mut fields = ConnectionFields::default();
        let noted = values.iter().try_for_each(|value| fields.note_connection(value.as_bytes()));
        let found =
            noted.map(|()| (fields.is_persistent(Version::Http10), fields.is_persistent(Version::Http11)));
        assert_eq!(found.map_err(|error| error.status().as_u16()), expect, "{values:?}");
    }

    #[test]
    fn persistence_follows_version_and_options() {
        check(&[], Ok((false, true)));
        check(&[""], Ok((false, true)));
        check(&["keep-alive"], Ok((true, true)));
        check(&["Keep-Alive, TE"], Ok((true, true)));
        check(&["CLOSE"], Ok((false, false)));
        check(&["keep-alive", "close"], Ok((false, false)));
        check(&[" , close ,,\tx"], Ok((false, false)));
        check(&["closed"], Ok((false, true)));
    }

    #[test]
    fn connection_cannot_name_what_frames_the_message() {
        for value in ["content-length", "close, Transfer-Encoding", "HOST", "keep alive", "\"close\"", "a;b"]
        {
            check(&[value], Err(400));
        }
    }

    #[test]
    fn hop_by_hop_fields_are_known_in_any_case() {
        assert!(is_hop_by_hop_field("Transfer-Encoding") && is_hop_by_hop_field(b"TE"));
        assert!(!is_hop_by_hop_field("content-length") && !is_hop_by_hop_field(""));
    }
}

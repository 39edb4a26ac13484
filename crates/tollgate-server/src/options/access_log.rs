//! The options of the access log, and the rules that hide parts of its lines.

use tollgate_http::query_pairs;

use super::stream::{Redaction, Source, StreamSpec, network};
use crate::access_queue::AccessClient;

/// The text in place of a hidden value.
const HIDDEN: &[u8] = b"***";

/// The options of the access log.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLogOptions {
    /// Share of the requests that get a line, from 0 to 1.
    pub sample: f64,
    /// The requests that get a line.
    pub only: AccessOnly,
    /// Names of query items whose values no line shows.
    pub omit_query: Vec<String>,
}

/// The options of the exported spans.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpanOptions {
    /// Share of the traces that begin here and are exported, from 0 to 1.
    pub sample: f64,
}

/// The requests that get a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessOnly {
    /// All requests.
    #[default]
    All,
    /// Requests with a 5xx reply, and requests with an outcome other than `acknowledged`.
    Errors,
}

impl AccessOnly {
    /// All values.
    pub const ALL: [Self; 2] = [Self::All, Self::Errors];

    /// Returns the name in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Errors => "errors",
        }
    }
}

/// The parts of a request that a line hides.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccessRedaction {
    address: Address,
    path: bool,
    query: bool,
    /// Names of query items, decoded.
    items: Vec<String>,
    pub(crate) user_agent: bool,
    pub(crate) referer: bool,
    pub(crate) user: bool,
    pub(crate) id: bool,
}

/// What a line shows of the address of a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Address {
    #[default]
    Whole,
    Network,
    Nothing,
}

impl AccessRedaction {
    /// Creates the rules of requests whose records go to these streams. A line hides what a column of a
    /// stream hides.
    pub(crate) fn new<'s>(omit_query: &[String], streams: impl IntoIterator<Item = &'s StreamSpec>) -> Self {
        let mut rules = Self { items: omit_query.to_vec(), ..Self::default() };
        for column in streams.into_iter().flat_map(|stream| &stream.columns) {
            if let Some(redaction) = &column.rules.redaction {
                rules.hide(&column.source, redaction);
            }
        }
        rules
    }

    fn hide(&mut self, source: &Source, redaction: &Redaction) {
        match source {
            Source::RequestRemoteAddr => {
                let shown = match redaction {
                    Redaction::Truncate => Address::Network,
                    Redaction::Drop | Redaction::Hash(_) => Address::Nothing,
                };
                self.address = self.address.max(shown);
            }
            // A parameter is a part of the path, in a form that need not be the same.
            Source::RequestPath | Source::RequestParam(_) => self.path = true,
            Source::RequestQuery => self.query = true,
            Source::RequestQueryItem(name) => self.items.push(name.clone()),
            Source::RequestHeader(name) if name.eq_ignore_ascii_case("user-agent") => self.user_agent = true,
            Source::RequestHeader(name) if name.eq_ignore_ascii_case("referer") => self.referer = true,
            Source::RequestHeader(name) if name.eq_ignore_ascii_case("x-request-id") => self.id = true,
            Source::RequestAuthName => self.user = true,
            Source::RequestId => self.id = true,
            _ => {}
        }
    }

    /// Returns the part of an address that a line shows.
    pub(crate) fn client(&self, client: AccessClient) -> AccessClient {
        match (self.address, client) {
            (Address::Whole, client) => client,
            (Address::Network, AccessClient::Address(address)) => AccessClient::Address(network(address)),
            (Address::Nothing, AccessClient::Address(_)) => AccessClient::Hidden,
            (_, client) => client,
        }
    }

    /// Appends a target or another URI reference. Hidden parts become `***`.
    pub(crate) fn push_target(&self, out: &mut Vec<u8>, target: &[u8]) {
        let path_bytes = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
        let (path, query) = target.split_at(path_bytes);
        out.extend_from_slice(if self.path { HIDDEN } else { path });
        let Some(query) = query.get(1..) else { return };
        out.push(b'?');
        if self.query {
            return out.extend_from_slice(HIDDEN);
        }
        if self.items.is_empty() {
            return out.extend_from_slice(query);
        }
        for (place, piece) in query.split(|&byte| byte == b'&').enumerate() {
            if place > 0 {
                out.push(b'&');
            }
            self.push_item(out, piece);
        }
    }

    /// Appends one item of a query. Its name is compared after decoding, as scripts read it.
    fn push_item(&self, out: &mut Vec<u8>, piece: &[u8]) {
        let name_bytes = piece.iter().position(|&byte| byte == b'=');
        let is_hidden = query_pairs(piece)
            .next()
            .is_some_and(|(name, _)| self.items.iter().any(|hidden| hidden.as_bytes() == &*name));
        match name_bytes.filter(|_| is_hidden) {
            Some(name_bytes) => {
                out.extend_from_slice(&piece[..=name_bytes]);
                out.extend_from_slice(HIDDEN);
            }
            None => out.extend_from_slice(piece),
        }
    }
}

/// Returns a text, or the text for hidden values.
pub(crate) fn shown(text: &[u8], is_hidden: bool) -> &[u8] {
    if is_hidden { HIDDEN } else { text }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn target(rules: &AccessRedaction, target: &str) -> String {
        let mut out = Vec::new();
        rules.push_target(&mut out, target.as_bytes());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn items_of_a_query_are_hidden_by_their_decoded_names() {
        let rules = AccessRedaction { items: vec!["token".into(), "a b".into()], ..Default::default() };
        let check = |given: &str, expected: &str| assert_eq!(target(&rules, given), expected, "{given}");
        check("/a", "/a");
        check("/token=1", "/token=1");
        check("/a?", "/a?");
        check("/a?token=1&c=2", "/a?token=***&c=2");
        check("/a?c=2&tok%65n=1&token=3&&token", "/a?c=2&tok%65n=***&token=***&&token");
        check("/a?a+b=1&a%20b=2&a=3", "/a?a+b=***&a%20b=***&a=3");
        check("/a?Token=1&x=token=1", "/a?Token=1&x=token=1");
        check("/a?token=1?token=2", "/a?token=***");
        check("http://h/a?token==", "http://h/a?token=***");
    }

    #[test]
    fn a_redacted_source_hides_the_part_of_a_line_that_has_it() {
        let mut rules = AccessRedaction::default();
        rules.hide(&Source::RequestParam("id".into()), &Redaction::Drop);
        assert_eq!(target(&rules, "/users/7?a=1"), "***?a=1");
        rules.hide(&Source::RequestQuery, &Redaction::Drop);
        assert_eq!(target(&rules, "/users/7?a=1"), "***?***");
        let client = AccessClient::Address([192, 0, 2, 77].into());
        rules.hide(&Source::RequestRemoteAddr, &Redaction::Truncate);
        assert_eq!(rules.client(client), AccessClient::Address(IpAddr::from([192, 0, 2, 0])));
        rules.hide(&Source::RequestRemoteAddr, &Redaction::Drop);
        rules.hide(&Source::RequestRemoteAddr, &Redaction::Truncate);
        assert_eq!(rules.client(client), AccessClient::Hidden);
        assert_eq!(rules.client(AccessClient::Unknown), AccessClient::Unknown);
        rules.hide(&Source::RequestHeader("User-Agent".into()), &Redaction::Drop);
        rules.hide(&Source::RequestHeader("x-other".into()), &Redaction::Drop);
        assert!(rules.user_agent && !rules.referer && !rules.user && !rules.id);
    }
}

//! `X-Forwarded-Prefix`: the part of the client's path that the backend does not get.

use std::borrow::Cow;

use tollgate_http::{RequestHead, resolve_dot_segments, write_target};

use super::target::Proxy;
use crate::handler::exchange::Exchange;

pub(super) const X_FORWARDED_PREFIX: &str = "X-Forwarded-Prefix";

/// The prefix that a trusted proxy removed from the path, followed by the prefix that the route removes.
#[derive(Debug, Default)]
pub(super) struct ForwardedPrefix {
    text: Vec<u8>,
    route_at: usize,
}

impl ForwardedPrefix {
    /// Returns the prefix as the client sends it. It has no slash at its end.
    pub(super) fn whole(&self) -> &[u8] {
        &self.text
    }

    /// Returns the prefix that the route removes.
    pub(super) fn of_route(&self) -> &[u8] {
        &self.text[self.route_at..]
    }
}

impl Proxy {
    /// Returns whether the route removes a part of the path.
    pub(super) fn strips(&self) -> bool {
        self.stripped > 0
    }

    /// Returns the prefix of a request. It is empty if the route removes nothing.
    pub(super) fn forwarded_prefix(&self, exchange: &Exchange) -> ForwardedPrefix {
        if !self.strips() {
            return ForwardedPrefix::default();
        }
        let head = &exchange.request.head;
        let mut text = Vec::new();
        if exchange.is_from_proxy() {
            text.extend_from_slice(sound_prefix(head));
        }
        let route_at = text.len();
        let path = path_without_dots(head);
        write_target(&mut text, split_path(&path, self.stripped).0);
        ForwardedPrefix { text, route_at }
    }
}

/// Returns the path of a request without its dot segments.
pub(super) fn path_without_dots(head: &RequestHead) -> Cow<'_, str> {
    // The default is never used, because a path that leads above the root matches no route.
    resolve_dot_segments(head.path()).unwrap_or(Cow::Borrowed("/"))
}

/// Splits a path after its first segments. The second part begins with a slash.
pub(super) fn split_path(path: &str, segments: usize) -> (&str, &str) {
    let mut slashes = path.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(at, _)| at);
    match slashes.nth(segments) {
        Some(at) => path.split_at(at),
        None => (path, "/"),
    }
}

/// Returns the prefix that a trusted proxy sent. A value that is not a path is ignored.
fn sound_prefix(head: &RequestHead) -> &[u8] {
    let value = head.field(X_FORWARDED_PREFIX).unwrap_or_default();
    let is_path_byte = |&byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@%".contains(&byte);
    let is_sound = value.starts_with(b"/") && value.iter().all(is_path_byte);
    if is_sound { value.strip_suffix(b"/").unwrap_or(value) } else { b"" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_after_its_first_segments() {
        let check = |path, segments, expect| assert_eq!(split_path(path, segments), expect, "{path}");
        check("/a/b/c", 0, ("", "/a/b/c"));
        check("/a/b/c", 1, ("/a", "/b/c"));
        check("/a/", 1, ("/a", "/"));
        check("/a%2Fb//c", 1, ("/a%2Fb", "//c"));
        check("/a", 1, ("/a", "/"));
    }
}

//! A request as a backend gets it: its target, its fields without those of the connection, and who asked (rules 4, 19, 20).

use std::io;
use std::net::IpAddr;
use std::rc::Rc;

use tollgate_backend::{Outgoing, OutgoingContent, SpooledContent};
use tollgate_http::{
    BodyFraming, Method, RequestHead, Version, connection_options, is_hop_by_hop_field, write_path,
    write_target,
};
use tollgate_script::{Body, BodyFile};

use super::{HostSent, Proxy};
use crate::handler::Exchange;

/// Fields that are written anew, or concern this connection alone: Expect was answered.
const OWN_FIELDS: [&str; 9] = [
    "host",
    "content-length",
    "expect",
    "x-request-id",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-real-ip",
];

impl Proxy {
    /// Writes a request anew.
    pub(super) fn outgoing(&self, exchange: &Exchange) -> Outgoing {
        let request = &exchange.request;
        let head = &request.head;
        let host = match self.spec.host {
            HostSent::Pass => head.host().unwrap_or(self.upstream.host()),
            HostSent::Backend => self.upstream.host(),
        };
        let mut out =
            Outgoing::new(head.method(), host, |target| self.write_target(target, head, request.path()));
        self.push_fields(&mut out, head, exchange.is_from_proxy);
        self.push_origin(&mut out, exchange);
        let via: &[u8] = match head.version() {
            Version::Http11 => b"1.1 tollgate",
            Version::Http10 => b"1.0 tollgate",
        };
        out.push_sound("Via", via);
        out.push_sound("X-Request-Id", request.id.text(&mut [0; 36]));
        for (name, value) in &self.spec.set_headers {
            out.push(name, value.as_bytes());
        }
        out.finish(content(head, &request.body))
    }

    /// The path as it was sent, but for what the route leaves out and adds; one with dot segments as it was matched.
    fn write_target(&self, out: &mut Vec<u8>, head: &RequestHead, path: &str) {
        out.extend_from_slice(self.spec.prefix.as_bytes());
        if has_dot_segment(head.path()) {
            write_path(out, below(path, self.stripped));
        } else {
            write_target(out, below(head.path(), self.stripped));
        }
        if let Some(query) = head.query() {
            out.push(b'?');
            write_target(out, query);
        }
    }

    /// Fields that end here are those of the connection, those that it names, ours, and what the route takes out.
    fn push_fields(&self, out: &mut Outgoing, head: &RequestHead, is_from_proxy: bool) {
        let named = named_by_connection(head);
        for (name, value) in head.fields() {
            let is = |known: &&str| name.eq_ignore_ascii_case(known);
            // What nobody vouches for, no backend should believe.
            let is_forged = !is_from_proxy && name.len() > 12 && begins_with(name, "x-forwarded-");
            if is_hop_by_hop_field(name)
                || OWN_FIELDS.iter().any(is)
                || is_forged
                || named.iter().any(|option| option.eq_ignore_ascii_case(name.as_bytes()))
                || self.spec.remove_headers.iter().any(|removed| is(&removed.as_str()))
                || self.spec.set_headers.iter().any(|(set, _)| is(&set.as_str()))
            {
                continue;
            }
            out.push_sound(name, value);
        }
    }

    /// Who asked, and for what: `Forwarded` (RFC 7239) and the older fields. What a trusted proxy said is kept and added to;
    /// what anybody else said is replaced.
    fn push_origin(&self, out: &mut Outgoing, exchange: &Exchange) {
        let head = &exchange.request.head;
        let told = |name: &str| if exchange.is_from_proxy { joined(head, name) } else { Vec::new() };
        let mut line = Vec::new();
        let mut list = |name: &str, before: Vec<u8>, own: &[u8]| {
            if self.is_set(name) {
                return;
            }
            line.clear();
            line.extend_from_slice(&before);
            if !line.is_empty() {
                line.extend_from_slice(b", ");
            }
            line.extend_from_slice(own);
            out.push_sound(name, &line);
        };
        let peer = exchange.peer.map(|peer| peer.to_canonical());
        list("Forwarded", told("forwarded"), &forwarded(peer, head.host()));
        if let Some(peer) = peer {
            list("X-Forwarded-For", told("x-forwarded-for"), peer.to_string().as_bytes());
        } else if exchange.is_from_proxy && head.field("x-forwarded-for").is_some() {
            out.push_sound("X-Forwarded-For", &told("x-forwarded-for"));
        }
        let kept = |name: &str, own: &[u8]| match head.field(name) {
            Some(value) if exchange.is_from_proxy => value.to_vec(),
            _ => own.to_vec(),
        };
        if !self.is_set("X-Forwarded-Proto") {
            out.push_sound("X-Forwarded-Proto", &kept("x-forwarded-proto", b"http"));
        }
        if let Some(host) = head.host().filter(|_| !self.is_set("X-Forwarded-Host")) {
            out.push_sound("X-Forwarded-Host", &kept("x-forwarded-host", host.as_bytes()));
        }
    }

    /// Whether the route decides about a field, by setting or removing it.
    fn is_set(&self, name: &str) -> bool {
        self.spec.set_headers.iter().any(|(set, _)| set.eq_ignore_ascii_case(name))
            || self.spec.remove_headers.iter().any(|removed| removed.eq_ignore_ascii_case(name))
    }
}

fn begins_with(name: &str, front: &str) -> bool {
    name.get(..front.len()).is_some_and(|found| found.eq_ignore_ascii_case(front))
}

/// Options but those that name no field.
fn named_by_connection(head: &RequestHead) -> Vec<&[u8]> {
    let lines = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
    let options = lines.flat_map(|(_, value)| connection_options(value));
    options
        .filter(|option| {
            !option.eq_ignore_ascii_case(b"close") && !option.eq_ignore_ascii_case(b"keep-alive")
        })
        .collect()
}

/// The values of a list that may be on several lines (RFC 9110 section 5.3).
fn joined(head: &RequestHead, name: &str) -> Vec<u8> {
    let lines = head.fields().filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    lines.collect::<Vec<_>>().join(&b", "[..])
}

/// One element of RFC 7239 section 4: the host is quoted, as it may have a port.
fn forwarded(peer: Option<IpAddr>, host: Option<&str>) -> Vec<u8> {
    let mut element = match peer {
        None => "for=unknown".to_owned(),
        Some(IpAddr::V4(address)) => format!("for={address}"),
        Some(IpAddr::V6(address)) => format!("for=\"[{address}]\""),
    };
    if let Some(host) = host {
        element.push_str(";host=\"");
        element.push_str(host);
        element.push('"');
    }
    element.push_str(";proto=http");
    element.into_bytes()
}

/// A path without its first segments.
fn below(path: &str, segments: usize) -> &str {
    let mut slashes = path.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(at, _)| at);
    match slashes.nth(segments) {
        Some(at) => &path[at..],
        None => "/",
    }
}

/// Whether a raw path has a segment that is resolved before routes are looked up (RFC 3986 section 5.2.4).
fn has_dot_segment(path: &str) -> bool {
    let is_dot = |segment: &str| {
        let dots =
            segment.len() <= 6 && matches!(&*segment.replace("%2e", ".").replace("%2E", "."), "." | "..");
        dots && !segment.is_empty()
    };
    (path.contains("/.") || path.contains("/%2")) && path.split('/').any(is_dot)
}

/// A content, also an empty one that was announced or that the method means (RFC 9110 section 8.6).
fn content(head: &RequestHead, body: &Body) -> Option<OutgoingContent> {
    let means_content = matches!(head.method(), Method::Post | Method::Put | Method::Patch);
    if head.framing() == BodyFraming::None && !means_content {
        return None;
    }
    Some(match body {
        Body::Memory(bytes) => OutgoingContent::Memory(bytes.clone()),
        Body::File(file) => OutgoingContent::Spooled(Rc::new(Spooled(file.clone()))),
    })
}

#[derive(Debug)]
struct Spooled(Rc<dyn BodyFile>);

impl SpooledContent for Spooled {
    fn bytes_len(&self) -> u64 {
        self.0.bytes_len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_loses_its_first_segments_and_keeps_its_slash() {
        let check = |path, segments, expect: &str| assert_eq!(below(path, segments), expect, "{path}");
        check("/a/b/c", 0, "/a/b/c");
        check("/a/b/c", 1, "/b/c");
        check("/a/", 1, "/");
        check("/a%2Fb//c", 1, "//c");
        check("/a", 1, "/");
    }

    #[test]
    fn dot_segments_are_seen_however_they_are_written() {
        let check = |path, expect| assert_eq!(has_dot_segment(path), expect, "{path}");
        for path in ["/a/../b", "/a/.", "/%2e%2E/b", "/a/.%2e/b", "/./a"] {
            check(path, true);
        }
        for path in ["/", "/a/b", "/.well-known/a", "/a/...", "/a/%2e%2e%2e", "/%20", "//a"] {
            check(path, false);
        }
    }

    #[test]
    fn forwarded_names_the_peer_by_rfc_7239() {
        let check = |peer: Option<&str>, host, expect: &str| {
            let peer = peer.map(|peer| peer.parse().unwrap());
            assert_eq!(String::from_utf8(forwarded(peer, host)).unwrap(), expect);
        };
        check(Some("10.0.0.1"), Some("a:80"), "for=10.0.0.1;host=\"a:80\";proto=http");
        check(Some("2001:db8::1"), None, "for=\"[2001:db8::1]\";proto=http");
        check(None, None, "for=unknown;proto=http");
    }
}

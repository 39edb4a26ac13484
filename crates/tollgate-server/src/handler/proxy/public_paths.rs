//! Rewrites the references and cookies in a reply, so that they lead back through the route.
//!
//! A backend behind `strip_prefix` does not know the part of the path that the route removes. Its `Location`
//! `/login` means `/app/login` for the client. A reference to another origin than the backend's own is never
//! changed.

use std::borrow::Cow;

use super::forwarded_prefix::ForwardedPrefix;
use super::own_origins::{OwnOrigins, Reference};
use super::target::Proxy;
use crate::handler::exchange::Exchange;
use crate::reply::Reply;

/// The difference between the paths of the client and the paths of the backend, for one request.
struct PublicPaths<'a> {
    /// The part of the client's path that the backend does not get.
    removed: &'a ForwardedPrefix,
    /// The part of the backend's path that the client does not send.
    added: &'a [u8],
    origins: OwnOrigins<'a>,
}

impl Proxy {
    /// Rewrites the fields of the backend in a reply. Fields that scripts and the route set stay as they are.
    pub(crate) fn rewrite(&self, exchange: &Exchange, reply: &mut Reply) {
        if !self.rewrites {
            return;
        }
        let head = &exchange.request.head;
        let removed = &self.forwarded_prefix(exchange);
        let origins = OwnOrigins { client: head.host(), backend: &self.upstream.options().addresses };
        let paths = PublicPaths { removed, added: self.spec.prefix.as_bytes(), origins };
        reply.rewrite_lines(|name, value| {
            let is_set = |(set, _): &(String, String)| name.eq_ignore_ascii_case(set.as_bytes());
            if self.spec.set_reply_headers.iter().any(is_set) { None } else { paths.rewritten(name, value) }
        });
    }
}

impl PublicPaths<'_> {
    /// Returns the new value of a field of the backend's reply, or `None` if the value stays.
    fn rewritten(&self, name: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        match name.len() {
            7 if name.eq_ignore_ascii_case(b"refresh") => self.refresh(value),
            8 if name.eq_ignore_ascii_case(b"location") => self.reference(value),
            10 if name.eq_ignore_ascii_case(b"set-cookie") => self.cookie(value),
            16 if name.eq_ignore_ascii_case(b"content-location") => self.reference(value),
            _ => None,
        }
    }

    /// Rewrites a URI reference (RFC 3986 section 4.1).
    fn reference(&self, reference: &[u8]) -> Option<Vec<u8>> {
        match self.origins.of(reference)? {
            Reference::Path => self.path(reference).map(Cow::into_owned),
            Reference::Client { path_at } => {
                let (origin, path) = reference.split_at(path_at);
                Some([origin, &self.path(&rooted(path))?].concat())
            }
            Reference::Backend { path_at } => self.path(&rooted(&reference[path_at..])).map(Cow::into_owned),
        }
    }

    /// Returns a path of the backend as the client has to send it, with its query and fragment. Returns
    /// `None` if no request through the route reaches the path.
    ///
    /// A path below `X-Forwarded-Prefix` comes from a backend that knows its prefix, and stays.
    fn path<'p>(&self, path: &'p [u8]) -> Option<Cow<'p, [u8]>> {
        let whole = self.removed.whole();
        if !whole.is_empty() && below(path, whole).is_some() {
            return Some(Cow::Borrowed(path));
        }
        let rest = rooted(below(path, self.added)?);
        let public = [self.removed.of_route(), &rest[..]].concat();
        // A path with two slashes at its start would name a host. Browsers read a backslash as a slash, and
        // skip tabs.
        let may_name_host = matches!(public[..], [_, b'/' | b'\\', ..]) || public.contains(&b'\t');
        (!may_name_host).then_some(Cow::Owned(public))
    }

    /// Rewrites the reference in `5; url=/next` (WHATWG HTML section 4.2.5.3).
    fn refresh(&self, value: &[u8]) -> Option<Vec<u8>> {
        let after_time = value.iter().position(|byte| matches!(byte, b';' | b','))? + 1;
        let blanks = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let mut start = after_time + blanks(&value[after_time..]);
        if value.get(start..start + 3).is_some_and(|word| word.eq_ignore_ascii_case(b"url")) {
            let equals = start + 3 + blanks(&value[start + 3..]);
            if value.get(equals) == Some(&b'=') {
                start = equals + 1 + blanks(&value[equals + 1..]);
            }
        }
        let quote = value.get(start).copied().filter(|byte| matches!(byte, b'"' | b'\''));
        start += usize::from(quote.is_some());
        let rest = &value[start..];
        let end = quote.and_then(|quote| rest.iter().position(|&byte| byte == quote)).unwrap_or(rest.len());
        Some([&value[..start], &self.reference(&rest[..end])?, &rest[end..]].concat())
    }

    /// Rewrites the attributes `Path` and `Domain` of a cookie (RFC 6265 section 5.2).
    fn cookie(&self, value: &[u8]) -> Option<Vec<u8>> {
        // A browser refuses a cookie with this prefix if its path is not `/`.
        if value.get(..7).is_some_and(|front| front.eq_ignore_ascii_case(b"__Host-")) {
            return None;
        }
        let mut pieces = value.split(|&byte| byte == b';');
        let mut cookie = pieces.next()?.to_vec();
        let mut is_changed = false;
        for attribute in pieces {
            let equals = attribute.iter().position(|&byte| byte == b'=').unwrap_or(attribute.len());
            let (name, text) = attribute.split_at(equals);
            let text = text.get(1..).unwrap_or_default().trim_ascii();
            if name.trim_ascii().eq_ignore_ascii_case(b"domain") && self.origins.is_foreign_domain(text) {
                is_changed = true;
                continue;
            }
            cookie.push(b';');
            let is_path = name.trim_ascii().eq_ignore_ascii_case(b"path") && text.starts_with(b"/");
            match is_path.then(|| self.path(text)).flatten() {
                Some(path) => {
                    is_changed |= *path != *text;
                    cookie.extend_from_slice(name);
                    cookie.push(b'=');
                    cookie.extend_from_slice(&path);
                }
                None => cookie.extend_from_slice(attribute),
            }
        }
        is_changed.then_some(cookie)
    }
}

/// Returns the path with a slash at its start. The path may consist of a query or a fragment only.
fn rooted(path: &[u8]) -> Cow<'_, [u8]> {
    if path.starts_with(b"/") { Cow::Borrowed(path) } else { Cow::Owned([b"/", path].concat()) }
}

/// Returns the rest of a path below `prefix`, which has no slash at its end.
fn below<'p>(path: &'p [u8], prefix: &[u8]) -> Option<&'p [u8]> {
    path.strip_prefix(prefix).filter(|rest| matches!(rest, [] | [b'/' | b'?' | b'#', ..]))
}

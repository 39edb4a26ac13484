//! Negotiates content codings and media types by the Accept fields (RFC 9110 sections 12.5.1 and 12.5.3).

use crate::RequestHead;
use crate::conditional::values;
use crate::connection_options;

/// Returns the index in `offered` of the coding that the client prefers. `offered` lists the best coding
/// first.
///
/// `None` means no coding. A client that accepts none of our codings also gets no coding. `*` covers
/// `identity` unless the client names `identity`.
pub fn accepted_coding(head: &RequestHead, offered: &[&str]) -> Option<usize> {
    let quality = |coding: &str| quality(head, coding);
    let identity = quality("identity").or_else(|| quality("*"));
    let wanted = offered.iter().enumerate().filter_map(|(place, coding)| {
        let quality = quality(coding).or_else(|| quality("*")).filter(|quality| *quality > 0)?;
        Some((quality, place))
    });
    // Among equal weights the first offered coding wins.
    let (best, place) = wanted.max_by_key(|(quality, place)| (*quality, usize::MAX - place))?;
    (identity.unwrap_or_default() <= best).then_some(place)
}

/// Returns whether the client accepts content without a coding (RFC 9110 section 12.5.3).
pub fn accepts_identity(head: &RequestHead) -> bool {
    quality(head, "identity").or_else(|| quality(head, "*")) != Some(0)
}

/// Returns the index in `offered` of the media type that the client prefers. `offered` lists the best type
/// first.
///
/// A client that accepts none of the offered types gets the first offered type, because content of another
/// type is better than none.
pub fn accepted_media(head: &RequestHead, offered: &[&str]) -> usize {
    acceptable_media(head, offered).unwrap_or(0)
}

/// Returns the index in `offered` of the media type that the client prefers. `offered` lists the best type
/// first.
///
/// Among equal weights the type that the client names more exactly wins. `None` means that the client accepts
/// no offered type. A client without Accept accepts all types.
pub fn acceptable_media(head: &RequestHead, offered: &[&str]) -> Option<usize> {
    if values(head, "accept").next().is_none() {
        return (!offered.is_empty()).then_some(0);
    }
    let liked = offered.iter().map(|media| media_quality(head, media)).enumerate();
    let wanted = liked.filter_map(|(place, liked)| Some((liked.filter(|liked| liked.0 > 0)?, place)));
    wanted.max_by_key(|(liked, place)| (*liked, usize::MAX - place)).map(|(_, place)| place)
}

/// Returns the weight of a media type in thousandths, and the exactness of the media range that decides.
///
/// The most exact range decides: the type itself, then its family, then `*/*`. Other parameters, for example
/// a charset, exclude nothing.
fn media_quality(head: &RequestHead, media: &str) -> Option<(u16, u8)> {
    let family = media.split('/').next().unwrap_or_default();
    let of = |wanted: &str, exactness| {
        values(head, "accept").flat_map(connection_options).find_map(|item| {
            let mut parts = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let is_named = parts.next()?.eq_ignore_ascii_case(wanted.as_bytes());
            let given = parts.find(|part| matches!(part, [b'q' | b'Q', b'=', ..])).unwrap_or_default();
            is_named.then(|| (weight(given), exactness))
        })
    };
    of(media, 2).or_else(|| of(&format!("{family}/*"), 1)).or_else(|| of("*/*", 0))
}

/// Returns the weight of a coding in thousandths, or `None` if it is not listed.
fn quality(head: &RequestHead, coding: &str) -> Option<u16> {
    values(head, "accept-encoding").flat_map(connection_options).find_map(|item| {
        let (name, parameters) = match item.iter().position(|&byte| byte == b';') {
            Some(end) => (item[..end].trim_ascii(), &item[end + 1..]),
            None => (item, &b""[..]),
        };
        is_coding(name, coding).then(|| weight(parameters.trim_ascii()))
    })
}

fn is_coding(name: &[u8], coding: &str) -> bool {
    // RFC 9110 section 8.4.1.3: `x-gzip` is equivalent to `gzip`.
    let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name };
    name.eq_ignore_ascii_case(coding.as_bytes())
}

/// Parses a weight (RFC 9110 section 12.4.2).
///
/// A malformed weight counts as a refusal of the coding. The client then gets content without a coding, which
/// any client can read.
fn weight(parameters: &[u8]) -> u16 {
    if parameters.is_empty() {
        return 1000;
    }
    let value = parameters.strip_prefix(b"q=").or_else(|| parameters.strip_prefix(b"Q="));
    match value {
        Some([b'1', rest @ ..]) if is_fraction(rest) && rest.iter().all(|byte| b".0".contains(byte)) => 1000,
        Some([b'0', rest @ ..]) if is_fraction(rest) => {
            let digits = rest.iter().skip(1).chain(b"000").take(3);
            digits.fold(0, |thousandths, digit| thousandths * 10 + u16::from(digit - b'0'))
        }
        _ => 0,
    }
}

fn is_fraction(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b'.', digits @ ..] => digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeadReader, Limits};

    #[test]
    fn the_coding_that_the_client_likes_most_and_else_the_first() {
        let check = |accept: Option<&str>, offered: &[&str], expected: Option<&str>| {
            let field = accept.map(|accept| format!("Accept-Encoding: {accept}\r\n")).unwrap_or_default();
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n");
            let head = HeadReader::default().read(&mut text.as_bytes().into(), &Limits::default());
            let found = accepted_coding(&head.unwrap().unwrap(), offered).map(|place| offered[place]);
            assert_eq!(found, expected, "{accept:?} of {offered:?}");
        };
        let all = &["br", "zstd", "gzip"];
        check(None, all, None);
        check(Some(""), all, None);
        check(Some("gzip, deflate, br, zstd"), all, Some("br"));
        check(Some("gzip, deflate"), all, Some("gzip"));
        check(Some("x-GZIP"), all, Some("gzip"));
        check(Some("deflate"), all, None);
        check(Some("gzip;q=1.0, br;q=0.999"), all, Some("gzip"));
        check(Some("br;q=0, gzip;q=0.1"), all, Some("gzip"));
        check(Some("gzip;q=0.5, identity"), all, None);
        check(Some("gzip;q=0.5, identity;q=0.5"), all, Some("gzip"));
        check(Some("*"), all, Some("br"));
        check(Some("*;q=0.3, zstd;q=0.4"), all, Some("zstd"));
        check(Some("*;q=0.5, br;q=0"), all, Some("zstd"));
        check(Some("*;q=0"), all, None);
        check(Some("identity;q=0"), all, None);
        check(Some("br ; q=0.5 , gzip"), all, Some("gzip"));
        check(Some("gzip;level=9"), all, None);
        check(Some("gzip;q=2, br;q=.5, zstd;q=0.1234"), all, None);
        check(Some("br"), &["gzip"], None);
        check(Some("br"), &[], None);
        check(Some("*;q=0.5, gzip;q=0.3"), &["gzip"], None);
        check(Some("*;q=0.5, gzip;q=0.3, identity;q=0.1"), &["gzip"], Some("gzip"));
        check(Some("*;q=0, gzip;q=0.3"), all, Some("gzip"));
    }

    #[test]
    fn the_media_type_that_the_client_likes_most_and_else_the_first() {
        let check = |accept: Option<&str>, expected: &str| {
            let field = accept.map(|accept| format!("Accept: {accept}\r\n")).unwrap_or_default();
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n");
            let head = HeadReader::default().read(&mut text.as_bytes().into(), &Limits::default());
            let offered = ["text/html", "application/json"];
            assert_eq!(offered[accepted_media(&head.unwrap().unwrap(), &offered)], expected, "{accept:?}");
        };
        check(None, "text/html");
        check(Some("*/*"), "text/html");
        check(Some("application/json"), "application/json");
        check(Some("APPLICATION/JSON"), "application/json");
        check(Some("application/json, text/html"), "text/html");
        check(Some("application/json, text/html;q=0.9"), "application/json");
        check(Some("application/json, */*;q=0.5"), "application/json");
        check(Some("application/*, text/*;q=0.3"), "application/json");
        check(Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), "text/html");
        check(Some("text/html;q=0, */*"), "application/json");
        check(Some("image/png"), "text/html");
        check(Some("application/json;q=0"), "text/html");
        check(Some("application/json; charset=utf-8"), "application/json");
        check(Some("text/html, application/json;charset=utf-8;q=0.5"), "text/html");
        check(Some("text/html;q=0.5, application/json ; charset=utf-8 ; Q=0.6"), "application/json");
        check(Some("application/json, text/plain, */*"), "application/json");
        check(Some("*/*, application/*"), "application/json");
        check(Some("text/*, application/json;q=0.9"), "text/html");
    }
}

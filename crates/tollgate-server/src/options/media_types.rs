//! The media types that a route accepts for collected items.

use std::fmt;

/// The media types that a route accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaTypes(Vec<MediaRange>);

/// One entry of [`MediaTypes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaRange {
    /// All types of JSON, the types of beacons and of tools that do not know their type, and no type.
    Default,
    /// The types of XML.
    Xml,
    /// A request without a type.
    None,
    /// Any type, and no type.
    Any,
    /// Any subtype of a type, in lower case: `text/*`.
    AnyOf(String),
    /// A type and subtype in lower case.
    Exact(String),
}

/// Subtypes of JSON without `x-`, after `application/`, `text/` or `+`.
const JSON_SUBTYPES: [&str; 11] = [
    "json",
    "json-seq",
    "json-stream",
    "jsonl",
    "json-l",
    "json-lines",
    "jsonlines",
    "ndjson",
    "nd-json",
    "ldjson",
    "csp-report",
];
/// Subtypes of services of AWS, which end in a version.
const AMAZON_SUBTYPE: &str = "amz-json-";

impl Default for MediaTypes {
    fn default() -> Self {
        Self(vec![MediaRange::Default])
    }
}

impl MediaTypes {
    /// Creates a list of types.
    pub fn new(ranges: Vec<MediaRange>) -> Self {
        Self(ranges)
    }

    /// Returns the types that a route of XML items accepts without a list.
    pub fn xml() -> Self {
        Self(vec![MediaRange::Xml, MediaRange::None])
    }

    /// Returns the entries.
    pub fn ranges(&self) -> &[MediaRange] {
        &self.0
    }

    /// Returns whether a value of `Content-Type` is accepted. Parameters are ignored. An empty value counts
    /// as no type.
    pub(crate) fn accept(&self, content_type: &[u8]) -> bool {
        let essence = essence_of(content_type);
        // Most requests have this type, and need no text in lower case.
        if essence.eq_ignore_ascii_case(b"application/json") && self.0.contains(&MediaRange::Default) {
            return true;
        }
        let essence = String::from_utf8_lossy(essence).to_ascii_lowercase();
        self.0.iter().any(|range| range.contains(&essence))
    }
}

impl MediaRange {
    /// Reads an entry: `default`, `xml`, `none`, `*/*`, `type/*`, or `type/subtype`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "default" => return Some(Self::Default),
            "xml" => return Some(Self::Xml),
            "none" => return Some(Self::None),
            "*/*" => return Some(Self::Any),
            _ => {}
        }
        let (kind, subtype) = text.split_once('/')?;
        match subtype {
            _ if !is_token(kind) || kind.contains('*') => None,
            "*" => Some(Self::AnyOf(kind.to_ascii_lowercase())),
            _ if is_token(subtype) && !subtype.contains('*') => Some(Self::Exact(text.to_ascii_lowercase())),
            _ => None,
        }
    }

    fn contains(&self, essence: &str) -> bool {
        match self {
            Self::Default => is_default(essence),
            Self::Xml => is_xml(essence.as_bytes()),
            Self::None => essence.is_empty(),
            Self::Any => true,
            Self::AnyOf(kind) => essence.split_once('/').is_some_and(|(found, _)| found == kind),
            Self::Exact(known) => essence == known,
        }
    }
}

impl fmt::Display for MediaRange {
    /// Writes the text that [`MediaRange::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Xml => f.write_str("xml"),
            Self::None => f.write_str("none"),
            Self::Any => f.write_str("*/*"),
            Self::AnyOf(kind) => write!(f, "{kind}/*"),
            Self::Exact(essence) => f.write_str(essence),
        }
    }
}

/// Returns whether a type is accepted without a list of types.
///
/// Beacons of browsers send `text/plain` or no type. Tools without a configured type send the type of a form.
/// The content itself decides whether it is JSON.
fn is_default(essence: &str) -> bool {
    if matches!(essence, "application/json" | "" | "text/plain" | "application/x-www-form-urlencoded") {
        return true;
    }
    let Some((kind, subtype)) = essence.split_once('/') else { return false };
    match subtype.rsplit_once('+') {
        // RFC 6839 section 3.1: the syntax of the suffix is the syntax of the whole, with any type.
        Some((_, suffix)) => is_json(suffix),
        None => matches!(kind, "application" | "text") && is_json(subtype),
    }
}

fn is_json(subtype: &str) -> bool {
    let subtype = subtype.strip_prefix("x-").unwrap_or(subtype);
    JSON_SUBTYPES.contains(&subtype) || subtype.starts_with(AMAZON_SUBTYPE)
}

/// Returns the type and the subtype of a value of `Content-Type`, without parameters.
pub(crate) fn essence_of(content_type: &[u8]) -> &[u8] {
    content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii()
}

/// Returns whether a type in lower case is XML (RFC 7303 sections 4.2 and 9.1, 9.2).
pub(crate) fn is_xml(essence: &[u8]) -> bool {
    matches!(essence, b"application/xml" | b"text/xml") || essence.ends_with(b"+xml")
}

/// Returns whether a text is a token (RFC 9110 section 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_json_is_accepted_without_a_list() {
        let types = MediaTypes::default();
        for accepted in [
            "",
            " ; charset=utf-8",
            "application/json",
            "Application/JSON; charset=utf-8",
            "text/json",
            "application/x-json",
            "application/csp-report",
            "application/reports+json",
            "application/cloudevents-batch+json; charset=utf-8",
            "model/gltf+json",
            "application/json-seq",
            "application/geo+json-seq",
            "application/x-ndjson",
            "application/ndjson",
            "application/jsonl",
            "application/x-jsonlines",
            "text/x-ndjson",
            "application/vnd.elasticsearch+x-ndjson;compatible-with=8",
            "application/x-amz-json-1.1",
            "text/plain;charset=UTF-8",
            "application/x-www-form-urlencoded",
        ] {
            assert!(types.accept(accepted.as_bytes()), "{accepted}");
        }
        for refused in [
            "application/xml",
            "text/html",
            "image/json",
            "json",
            "application/jsonp",
            "application/json+xml",
            "application/octet-stream",
            "multipart/form-data; boundary=x",
        ] {
            assert!(!types.accept(refused.as_bytes()), "{refused}");
        }
    }

    #[test]
    fn a_list_adds_types_or_narrows_them() {
        let check = |entries: &[&str], content_type: &str, expect: bool| {
            let ranges = entries.iter().map(|entry| MediaRange::parse(entry).unwrap());
            let types = MediaTypes::new(ranges.collect());
            assert_eq!(types.accept(content_type.as_bytes()), expect, "{entries:?}: {content_type}");
        };
        check(&["default", "application/octet-stream"], "application/octet-stream", true);
        check(&["default", "application/octet-stream"], "text/json", true);
        check(&["application/json"], "application/json; x=y", true);
        check(&["application/json"], "", false);
        check(&["application/json"], "text/plain", false);
        check(&["application/json", "none"], "", true);
        check(&["text/*"], "text/html", true);
        check(&["text/*"], "textual/html", false);
        check(&["*/*"], "", true);
        check(&["*/*"], "x/y", true);
    }

    #[test]
    fn an_entry_reads_back_and_others_are_refused() {
        for entry in ["default", "none", "*/*", "text/*", "application/vnd.a+json"] {
            assert_eq!(MediaRange::parse(entry).unwrap().to_string(), entry);
        }
        for refused in ["", "json", "a/", "/b", "*/b", "a/b; q=1", "a/b*", "a b/c"] {
            assert_eq!(MediaRange::parse(refused), None, "{refused}");
        }
    }
}

//! Passes over the content of an element of which the receiver needs no events.
//!
//! Only tags and texts in their usual forms are read here. What is read here, [`Core`] would accept as well.
//! Any other form stays unread, and [`Core`] reads it, so that it alone finds faults.

use super::core::Core;
use crate::characters::{
    allowed_character, end_of_plain_text, end_of_plain_value, end_of_space, scan_plain_name,
};
use crate::limits::Limits;
use crate::reference::predefined;

impl Core {
    /// Reads content from `at` on, up to the end of the skipped element or up to another form. Returns the
    /// first place that was not read.
    pub(super) fn skip(&mut self, text: &str, mut at: usize) -> usize {
        let bytes = text.as_bytes();
        loop {
            let next = match (bytes.get(at), bytes.get(at + 1)) {
                (Some(b'<'), Some(b'/')) => self.skip_end_tag(bytes, at),
                (Some(b'<'), _) => self.skip_start_tag(text, at),
                (Some(b'&'), _) => {
                    let found =
                        predefined(&bytes[at..]).filter(|found| found.length <= self.limits.name_bytes_max);
                    found.map(|found| at + found.length)
                }
                _ => end_of_plain_run(text, at),
            };
            match next {
                Some(next) => at = next,
                None => return at,
            }
        }
    }

    /// Reads the start tag at `at`, if its element has the prefix of the element around it, and its
    /// attributes have none.
    fn skip_start_tag(&mut self, text: &str, at: usize) -> Option<usize> {
        let bytes = text.as_bytes();
        let name = scan_plain_name(bytes, at + 1)?;
        let namespace = self.open.namespace_of_same_prefix(text, name)?;
        let attributes = match *bytes.get(name.end)? {
            b'>' => name.end,
            _ => skip_attributes(bytes, name.end, &self.limits)?,
        };
        let (is_empty, end) = match (bytes[attributes], bytes.get(attributes + 1)) {
            (b'>', _) => (false, attributes + 1),
            (b'/', Some(b'>')) => (true, attributes + 2),
            _ => return None,
        };
        let is_within_limits = name.end - name.start <= self.limits.name_bytes_max
            && end - at <= self.limits.tag_bytes_max
            && self.open.depth() < self.limits.depth_max;
        if !is_within_limits {
            return None;
        }
        if !is_empty {
            self.open.push(text, name, namespace, self.scope.len());
        }
        Some(end)
    }

    /// Reads the end tag at `at`, if its element is within the skipped one and has no declarations.
    fn skip_end_tag(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let (element, open) = self.open.last()?;
        let name_end = at + 2 + open.len();
        let is_plain =
            bytes.get(at + 2..name_end) == Some(open.as_bytes()) && bytes.get(name_end) == Some(&b'>');
        let is_within = self.open.depth() > self.skipped_depth && element.outer_scope == self.scope.len();
        if !is_plain || !is_within {
            return None;
        }
        self.open.pop();
        Some(name_end + 1)
    }
}

/// Returns the first place after the attributes that begin at `at`, which is in the text.
fn skip_attributes(bytes: &[u8], mut at: usize, limits: &Limits) -> Option<usize> {
    let mut names: [&[u8]; ATTRIBUTES_MAX] = [&[]; ATTRIBUTES_MAX];
    let mut count = 0;
    loop {
        let start = end_of_space(bytes, at);
        // A name that begins with `x` may declare a namespace.
        match *bytes.get(start)? {
            b'>' | b'/' => return Some(start),
            b'x' => return None,
            _ if start == at || count == ATTRIBUTES_MAX.min(limits.attributes_max) => return None,
            _ => {}
        }
        let name = scan_plain_name(bytes, start)?;
        let [b'=', quote @ (b'"' | b'\''), ..] = bytes[name.end..] else { return None };
        let value_end = end_of_plain_value(bytes, name.end + 2, quote);
        let written = &bytes[start..name.end];
        let is_plain = name.colon == start && written.len() <= limits.name_bytes_max;
        if !is_plain
            || *bytes.get(value_end)? != quote
            || names[..count].iter().any(|known| is_same(known, written))
        {
            return None;
        }
        names[count] = written;
        count += 1;
        at = value_end + 1;
    }
}

/// Compares names, of which most have other lengths.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one == other
}

/// Returns the end of the text at `at`. `None` if the text ends with the piece or has a fault.
#[inline]
fn end_of_plain_run(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = start;
    loop {
        at = end_of_plain_text(bytes, at);
        at += match *bytes.get(at)? {
            b'<' | b'&' => return Some(at),
            b'>' if bytes[start..at].ends_with(b"]") => return None,
            b'>' | b'\r' => 1,
            _ => allowed_character(text, at)?,
        };
    }
}

/// Greatest number of attributes that are read here.
const ATTRIBUTES_MAX: usize = 8;

//! Finds out which paths lead to something in an XML document, which may be cut off.

use tollgate_xml::{Attributes, Events, Found, Limits, Name, PathMatcher, PathSet, Reader, Stop, XmlError};

use super::prefix::Prefix;

/// Returns for each path whether it finds something in the prefix.
///
/// # Errors
/// The prefix is malformed.
pub(super) fn find(paths: &PathSet, prefix: &Prefix<'_>) -> Result<Vec<bool>, XmlError> {
    let mut finding = Finding { paths, matcher: PathMatcher::new(paths), found: vec![false; paths.len()] };
    let mut reader = Reader::new(Limits::default());
    reader.feed(prefix.bytes, &mut finding)?;
    if prefix.is_whole {
        reader.finish(&mut finding)?;
    }
    Ok(finding.found)
}

struct Finding<'a> {
    paths: &'a PathSet,
    matcher: PathMatcher,
    found: Vec<bool>,
}

impl Events for Finding<'_> {
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop> {
        let Self { paths, matcher, found } = self;
        matcher.start(paths, name, attributes, |path, _: Found<'_>| found[path] = true);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        self.matcher.text(self.paths, text);
        Ok(())
    }

    fn end(&mut self, _: Name<'_>) -> Result<(), Stop> {
        let Self { paths, matcher, found } = self;
        matcher.end(paths, |path, _: Found<'_>| found[path] = true);
        Ok(())
    }
}

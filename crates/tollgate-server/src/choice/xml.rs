//! Finds out which paths lead to something in an XML document, which may be cut off, and the values that
//! records keep.

use std::rc::Rc;
use std::sync::Arc;

use tollgate_xml::{
    Attributes, Doctype, Events, Limits, Name, PathMatcher, PathSet, PathValues, Reader, Stop, XmlError,
};

use super::prefix::Prefix;
use crate::options::XmlPaths;

/// The values that records keep of the document.
pub(crate) struct XmlValues {
    pub(super) paths: Rc<[String]>,
    pub(super) set: Arc<PathSet>,
}

impl XmlValues {
    /// Compiles the paths with the namespaces of their prefixes.
    ///
    /// # Errors
    /// The first faulty path, and the reason.
    pub(crate) fn new(paths: Vec<String>, namespaces: &[(String, String)]) -> Result<Self, String> {
        let XmlPaths(set) = XmlPaths::compile(&paths, namespaces)
            .map_err(|(at, reason)| format!("xml:{}: {reason}", paths[at]))?;
        Ok(Self { paths: paths.into(), set })
    }
}

/// What was found in a document.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// For each path of a condition, whether it finds something.
    pub(super) conditions: Vec<bool>,
    /// The first value of each path of [`XmlValues`].
    pub(super) values: Vec<Option<String>>,
}

/// Finds what the paths of conditions and of values lead to in the prefix. A value that does not end within
/// the prefix is absent.
///
/// # Errors
/// The prefix is malformed.
pub(super) fn find(
    paths: &PathSet,
    values: &PathSet,
    doctype: Doctype,
    prefix: &Prefix<'_>,
) -> Result<Found, XmlError> {
    let mut finding = Finding {
        paths,
        matcher: PathMatcher::new(paths),
        found: vec![false; paths.len()],
        values: (!values.is_empty()).then(|| PathValues::new(values, usize::MAX)),
    };
    let mut reader = Reader::new(Limits { doctype, ..Limits::default() });
    reader.feed(prefix.bytes, &mut finding)?;
    if prefix.is_whole {
        reader.finish(&mut finding)?;
    }
    let values = finding.values.and_then(|values| values.finish().ok()).unwrap_or_default();
    Ok(Found { conditions: finding.found, values })
}

struct Finding<'a> {
    paths: &'a PathSet,
    matcher: PathMatcher,
    found: Vec<bool>,
    values: Option<PathValues<'a>>,
}

impl Events for Finding<'_> {
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop> {
        let Self { paths, matcher, found, values } = self;
        matcher.start(paths, name, attributes, |path, _| found[path] = true);
        values.as_mut().map_or(Ok(()), |values| values.start(name, attributes))
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        self.matcher.text(self.paths, text);
        self.values.as_mut().map_or(Ok(()), |values| values.text(text))
    }

    fn end(&mut self, name: Name<'_>) -> Result<(), Stop> {
        let Self { paths, matcher, found, values } = self;
        matcher.end(paths, |path, _| found[path] = true);
        values.as_mut().map_or(Ok(()), |values| values.end(name))
    }

    fn skips_content(&self) -> bool {
        self.matcher.is_over(self.paths) && self.values.as_ref().is_none_or(PathValues::skips_content)
    }
}

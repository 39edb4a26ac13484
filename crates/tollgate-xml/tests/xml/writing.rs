//! The writer.

use proptest::prelude::*;
use tollgate_xml::{Limits, Name, WriteError, Writer, WriterLimits};

use crate::document::read;

fn name<'a>(uri: &'a str, prefix: &'a str, local: &'a str) -> Name<'a> {
    Name { uri, local, prefix }
}

fn plain(local: &str) -> Name<'_> {
    name("", "", local)
}

fn written(write: impl FnOnce(&mut Writer) -> Result<(), WriteError>) -> Result<String, WriteError> {
    let mut writer = Writer::new(WriterLimits::default());
    write(&mut writer)?;
    Ok(String::from_utf8(writer.finish()?).unwrap())
}

#[test]
fn namespaces_are_declared_where_they_are_missing() {
    let text = written(|writer| {
        writer.start(name("urn:1", "p", "a"))?;
        writer.attribute(plain("b"), "x\"<\n")?;
        writer.attribute(name("urn:2", "", "c"), "1")?;
        writer.attribute(name("urn:3", "p", "d"), "2")?;
        writer.start(plain("e"))?;
        writer.attribute(name("urn:1", "p", "i"), "4")?;
        writer.attribute(name("urn:5", "p", "j"), "5")?;
        writer.end()?;
        writer.start(name("urn:4", "", "f"))?;
        writer.attribute(name("urn:4", "", "g"), "3")?;
        writer.start(plain("h"))?;
        writer.text("<&>")?;
        writer.end()?;
        writer.end()?;
        writer.end()
    });
    assert_eq!(
        text.as_deref(),
        Ok("<p:a xmlns:p=\"urn:1\" b=\"x&quot;&lt;&#10;\" xmlns:ns=\"urn:2\" ns:c=\"1\" \
             xmlns:p1=\"urn:3\" p1:d=\"2\"><e p:i=\"4\" xmlns:p2=\"urn:5\" p2:j=\"5\"/>\
             <f xmlns=\"urn:4\" xmlns:ns1=\"urn:4\" ns1:g=\"3\"><h xmlns=\"\">&lt;&amp;&gt;</h></f></p:a>")
    );
}

#[test]
fn a_document_that_is_not_well_formed_cannot_be_written() {
    let check = |write: fn(&mut Writer) -> Result<(), WriteError>, expected: &str| {
        assert_eq!(written(write).map_err(|error| error.to_string()), Err(expected.to_owned()));
    };
    check(|writer| writer.start(plain("a b")), "\"a b\" is not an XML name");
    check(|writer| writer.start(plain("")), "\"\" is not an XML name");
    check(|writer| writer.start(name("u", "1", "a")), "\"1\" is not an XML name");
    check(|writer| writer.start(plain("a")), "a document is a complete element");
    check(|writer| writer.text("x"), "a text is within an element");
    check(Writer::end, "an end follows a start");
    check(|writer| writer.attribute(plain("a"), ""), "an attribute follows a start tag or an attribute");
    check(
        |writer| writer.start(plain("a")).and_then(|()| writer.text("b\u{1}")),
        "text has a character at byte 2 that XML does not allow",
    );
    check(
        |writer| {
            writer.start(plain("a"))?;
            writer.attribute(name("u", "p", "b"), "")?;
            writer.attribute(name("u", "q", "b"), "")
        },
        "attribute \"p:b\" is repeated",
    );
    check(
        |writer| {
            writer.start(plain("a"))?;
            writer.end()?;
            writer.start(plain("b"))
        },
        "a document has one root element",
    );
    check(|writer| (0..200).try_for_each(|_| writer.start(plain("a"))), "XML exceeds limit: 128 levels");
    check(
        |writer| {
            writer.start(plain("a"))?;
            (0..300).try_for_each(|number| writer.attribute(plain(&format!("a{number}")), ""))
        },
        "XML exceeds limit: 256 attributes",
    );
    check(
        |writer| writer.start(plain("a")).and_then(|()| writer.text(&"x".repeat(1 << 20))),
        "XML exceeds limit: 1048576 bytes",
    );
}

/// A step of a random document.
#[derive(Clone, Debug)]
enum Step {
    Start(&'static str, &'static str),
    Attribute(&'static str, &'static str, String),
    Text(String),
    End,
}

fn step() -> impl Strategy<Value = Step> {
    let uri = || prop::sample::select(vec!["", "urn:1", "urn:2", "http://www.w3.org/XML/1998/namespace"]);
    let prefix = || prop::sample::select(vec!["", "p", "q", "ns", "xml"]);
    let text = "[a-z<>&\"'\r\n\t\u{e9}\\]]{0,6}";
    prop_oneof![
        (uri(), prefix()).prop_map(|(uri, prefix)| Step::Start(uri, prefix)),
        (uri(), prefix(), text).prop_map(|(uri, prefix, value)| Step::Attribute(uri, prefix, value)),
        text.prop_map(Step::Text),
        Just(Step::End),
    ]
}

proptest! {
    #[test]
    fn what_was_written_is_read_with_the_same_names_and_texts(steps in prop::collection::vec(step(), 0..30)) {
        let mut writer = Writer::new(WriterLimits::default());
        writer.start(name("urn:1", "p", "root")).unwrap();
        let (mut depth, mut expected) = (1, String::new());
        for step in &steps {
            match step {
                Step::Start(uri, prefix) => {
                    writer.start(name(uri, prefix, "e")).unwrap();
                    depth += 1;
                    expected.push_str(&format!("<{uri}"));
                }
                Step::Attribute(uri, prefix, value) => {
                    if writer.attribute(name(uri, prefix, "a"), value).is_ok() {
                        expected.push_str(&format!("@{uri}{value:?}"));
                    }
                }
                Step::Text(text) => {
                    writer.text(text).unwrap();
                    expected.push_str(&format!("{text:?}"));
                }
                Step::End if depth > 1 => {
                    writer.end().unwrap();
                    depth -= 1;
                    expected.push('/');
                }
                Step::End => {}
            }
        }
        (0..depth).for_each(|_| writer.end().unwrap());
        let text = writer.finish().unwrap();
        let (mut reader, mut seen) = (tollgate_xml::Reader::new(Limits::default()), Seen::default());
        reader.feed(&text, &mut seen).unwrap();
        reader.finish(&mut seen).unwrap();
        let shown = String::from_utf8_lossy(&text).into_owned();
        let expected = joined(&format!("<urn:1{expected}{}", "/".repeat(depth)));
        prop_assert_eq!(joined(&seen.0), expected, "{}", shown);
        prop_assert!(read([text.as_slice()], Limits::default()).1.is_ok());
    }
}

/// Joins texts that follow each other.
fn joined(text: &str) -> String {
    text.replace("\"\"", "")
}

#[derive(Default)]
struct Seen(String);

impl tollgate_xml::Events for Seen {
    fn start(
        &mut self,
        name: Name<'_>,
        attributes: &tollgate_xml::Attributes<'_>,
    ) -> Result<(), tollgate_xml::Stop> {
        self.0.push_str(&format!("<{}", name.uri));
        attributes.iter().for_each(|found| self.0.push_str(&format!("@{}{:?}", found.name.uri, found.value)));
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), tollgate_xml::Stop> {
        self.0.push_str(&format!("{text:?}"));
        Ok(())
    }

    fn end(&mut self, _: Name<'_>) -> Result<(), tollgate_xml::Stop> {
        self.0.push('/');
        Ok(())
    }
}

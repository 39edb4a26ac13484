//! Events of well-formed documents.

use tollgate_xml::{Attributes, Doctype, Events, Limits, Name, Reader, Stop, XmlErrorKind};

use crate::document::{check, read_every_way};

#[test]
fn elements_and_attributes_are_reported() {
    check("<a/>", "<a /a");
    check("<a></a >", "<a /a");
    check("<a b=\"1\" c = '2'/>", "<a b=\"1\" c=\"2\" /a");
    check("<a\n b='>'\t/>", "<a b=\">\" /a");
    check("<a><b>x</b>y<b/></a>", "<a <b \"x\" /b \"y\" <b /b /a");
    check("<\u{e9}t\u{e9} \u{4e2d}='\u{1f600}'/>", "<\u{e9}t\u{e9} \u{4e2d}=\"\u{1f600}\" /\u{e9}t\u{e9}");
}

#[test]
fn values_are_normalised() {
    check("<a b='x&amp;&#x41;&#66;\t\n\r\r\nz'/>", "<a b=\"x&AB    z\" /a");
    check("<a b='&#10;&#9;&#xD;' c=''/>", "<a b=\"\\n\\t\\r\" c=\"\" /a");
    check("<a b='\"&lt;&gt;&quot;&apos;'/>", "<a b=\"\\\"<>\\\"'\" /a");
    check("<a b=\"\u{f000}&#x1F600;\u{fffd}\"/>", "<a b=\"\\u{f000}\u{1f600}\u{fffd}\" /a");
    check("<a b='&#x000000000000000041;'/>", "<a b=\"A\" /a");
}

#[test]
fn texts_are_joined_over_references_sections_and_comments() {
    check("<a>x &lt;&#233;<![CDATA[<&]]>\r\ny\rz</a>", "<a \"x <\u{e9}<&\\ny\\nz\" /a");
    check("<a>x<!-- no -->y<?p?>z<?q r?></a>", "<a \"xyz\" /a");
    check("<a><![CDATA[]]]]><![CDATA[>]]></a>", "<a \"]]>\" /a");
    check("<a><![CDATA[]]]x]] >]]]]></a>", "<a \"]]]x]] >]]\" /a");
    check("<a>]] > ]&gt; ]]&gt; >]</a>", "<a \"]] > ]> ]]> >]\" /a");
    check("<a>]<![CDATA[]]]>><b/>]]</a>", "<a \"]]>\" <b /b \"]]\" /a");
    check("<a>\r\r\n\n\r<b/>\r</a>", "<a \"\\n\\n\\n\\n\" <b /b \"\\n\" /a");
    check("<a>\u{feff}\u{ef00}</a>", "<a \"\\u{feff}\\u{ef00}\" /a");
}

#[test]
fn comments_instructions_and_white_space_may_surround_the_root() {
    check(
        "<?xml version=\"1.0\" encoding='utf-8' standalone=\"yes\"?><!-- x --><?p q?>\n<a/>\n<!-- - y -->\r",
        "<a /a",
    );
    check("\n<!--->--><a/>", "<a /a");
    check("<?xml version = '1.0' ?>\n<a/>", "<a /a");
    check("<?xml-stylesheet href='x'?><a/><?p ?a??>", "<a /a");
    check("\u{feff}<a/>", "<a /a");
    check("\u{feff}<?xml version='1.0'?><a/>", "<a /a");
}

#[test]
fn a_doctype_without_an_internal_subset_is_skipped_if_the_limits_say_so() {
    let limits = Limits { doctype: Doctype::Skip, ..Limits::default() };
    let check = |doctype: &str| {
        let (events, result) = read_every_way(format!("<!-- x -->{doctype} <a/>").as_bytes(), limits);
        assert_eq!((events.as_str(), result), ("<a /a", Ok(())), "{doctype}");
    };
    check("<!DOCTYPE a>");
    check("<!DOCTYPE p:a >");
    check("<!DOCTYPE a SYSTEM 'http://x/[y]>'>");
    check("<!DOCTYPE a PUBLIC \"-//W3C//DTD XHTML 1.0//EN\"\n'x' >");
}

#[test]
fn a_receiver_stops_the_reading_at_its_place() {
    struct Two(usize);
    impl Events for Two {
        fn start(&mut self, _: Name<'_>, _: &Attributes<'_>) -> Result<(), Stop> {
            self.0 += 1;
            if self.0 > 1 { Err(Stop) } else { Ok(()) }
        }

        fn text(&mut self, _: &str) -> Result<(), Stop> {
            Ok(())
        }

        fn end(&mut self, _: Name<'_>) -> Result<(), Stop> {
            Ok(())
        }
    }
    let (mut reader, mut two) = (Reader::new(Limits::default()), Two(0));
    reader.feed(b"<a>\n", &mut two).unwrap();
    assert_eq!((reader.depth(), reader.path().as_str()), (1, "/a"));
    let error = reader.feed(b" <b/>", &mut two).unwrap_err();
    let place = error.position();
    assert_eq!((error.kind(), error.path()), (XmlErrorKind::Stopped, "/a"));
    assert_eq!((place.byte, place.line, place.column), (6, 2, 2));
    assert_eq!(reader.feed(b"<c/>", &mut two), Err(error), "the fault stays");
}

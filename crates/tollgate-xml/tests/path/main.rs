//! Tests of paths: the subset, its faults, and random documents beside a plain evaluator of trees.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod properties;
mod tree;

use tollgate_xml::{
    Limits, PathError, PathMatcher, PathSet, PathValues, PrefixBinding, Reader, ValuesError, XmlErrorKind,
};

const NAMESPACES: [PrefixBinding<'_>; 2] =
    [PrefixBinding { prefix: "p", uri: "urn:p" }, PrefixBinding { prefix: "q", uri: "urn:q" }];

fn values(document: &str, paths: &[&str]) -> Vec<Option<String>> {
    let set = PathSet::new(paths.iter().copied(), &NAMESPACES).unwrap();
    let (mut reader, mut values) = (Reader::new(Limits::default()), PathValues::new(&set, 1000));
    for piece in document.as_bytes().chunks(3) {
        reader.feed(piece, &mut values).unwrap();
    }
    reader.finish(&mut values).unwrap();
    values.finish().unwrap()
}

#[test]
fn values_are_the_first_that_a_path_finds() {
    let document = "<order id='7' xmlns:x='urn:p' x:kind='k'><line n='1'>a<b>c</b>d</line>\
                    <line n='2'>e</line><x:total>9</x:total><deep><note>n</note></deep></order>";
    let check = |path: &str, expected: Option<&str>| {
        assert_eq!(values(document, &[path]), [expected.map(str::to_owned)], "{path}");
    };
    check("/order/@id", Some("7"));
    check("/order/@p:kind", Some("k"));
    check("/order/@kind", None);
    check("/order/line", Some("acd"));
    check("/order/line/b", Some("c"));
    check("/order/line[@n='2']", Some("e"));
    check("/order/line[@n!='1']/@n", Some("2"));
    check("/order/line[1]/@n", Some("1"));
    check("/order/line[@n='2'][1]/@n", Some("2"));
    check("/order/line[1][@n='2']/@n", None);
    check("/order/p:total", Some("9"));
    check("/order/p:*", Some("9"));
    check("/order/q:*", None);
    check("/order/total", None);
    check("//note", Some("n"));
    check("/order//note", Some("n"));
    check(" / order / * [ @n ] / b ", Some("c"));
    check("/order/line = 'e'", Some("true"));
    check("/order/line = 'acd'", Some("true"));
    check("/order/line = 'acdx'", None);
    check("/order/line != 'e'", Some("true"));
    check("/order/@id = '7'", Some("true"));
    check("/order/@id != \"7\"", None);
    check("/other", None);
    assert_eq!(
        values(document, &["/order", "/order/line", "/order/line/b"]),
        ["acde9n", "acd", "c"].map(|text| Some(text.to_owned()))
    );
}

#[test]
fn a_path_outside_of_the_subset_is_a_fault_that_says_why() {
    let check = |path: &str, expected: &str| {
        let error = PathSet::new(["/a", path], &NAMESPACES).unwrap_err();
        assert_eq!(error.path, 1);
        assert_eq!(error.to_string(), expected, "{path}");
    };
    let relative = "a path that does not begin with / and the name of an element at byte 1 of the path";
    check("", relative);
    check("a", relative);
    check("/", "the path ends: allowed are names, *, and @name at byte 2 of the path");
    check("/a/", "the path ends: allowed are names, *, and @name at byte 4 of the path");
    check("/@a", "a path that does not begin with / and the name of an element at byte 4 of the path");
    check("//a//b", "a second //: a path has at most one at byte 4 of the path");
    check("//@a", "// before an attribute: write //*/@name at byte 4 of the path");
    check("/a/@*", "@*: an attribute has a name at byte 5 of the path");
    check(
        "/a/..",
        "a step to the element itself or to its parent: a path goes down only at byte 4 of the path",
    );
    check("/a/parent::b", "an axis: allowed are children, //, and @name at byte 4 of the path");
    check("/a/text()", "a function: allowed are names, *, and @name at byte 4 of the path");
    check("/a[2]", "a position other than 1: allowed is [1] at byte 4 of the path");
    let predicate =
        "an unknown predicate: allowed are [1], [@name], [@name = 'x'] and [@name != 'x'] at byte";
    check("/a[b]", &format!("{predicate} 4 of the path"));
    check("/a[last()]", &format!("{predicate} 4 of the path"));
    check("/a[@b and @c]", &format!("{predicate} 7 of the path"));
    check("/a = 5", "a comparison with other than a text in quotes at byte 6 of the path");
    check("/a|/b", "| between paths: give each path for itself at byte 3 of the path");
    check("/a/x:b", "the prefix x has no namespace: add it to the namespaces at byte 4 of the path");
    check("/a/@b/c", "unexpected '/': allowed are names, *, @name, [ ], = and != at byte 6 of the path");
    check(&format!("/{}", "a".repeat(5000)), "a path of 5001 bytes, limit 4096 bytes at byte 1 of the path");
    check(&"/a".repeat(40), "a path with more than 32 steps at byte 66 of the path");
    check(
        &format!("/a='{}'", "x".repeat(2000)),
        "a text of 2000 bytes, limit 1024 bytes at byte 4 of the path",
    );
    let many = PathSet::new((0..300).map(|_| "/a"), &[]);
    let reason = "more than 256 paths".to_owned();
    assert_eq!(many.unwrap_err(), PathError { path: 256, byte: 1, reason });
}

#[test]
fn values_have_a_bound() {
    let set = PathSet::new(["/a"], &[]).unwrap();
    let (mut reader, mut values) = (Reader::new(Limits::default()), PathValues::new(&set, 10));
    assert!(reader.feed(b"<a>0123456789", &mut values).is_ok());
    assert_eq!(reader.feed(b"x", &mut values).unwrap_err().kind(), XmlErrorKind::Stopped);
    assert!(values.is_too_long());
    assert_eq!(values.finish(), Err(ValuesError { bytes_max: 10 }));
}

#[test]
fn a_path_is_decided_when_nothing_can_match_any_more() {
    struct Decided<'a> {
        set: &'a PathSet,
        matcher: PathMatcher,
    }
    impl tollgate_xml::Events for Decided<'_> {
        fn start(
            &mut self,
            name: tollgate_xml::Name<'_>,
            attributes: &tollgate_xml::Attributes<'_>,
        ) -> Result<(), tollgate_xml::Stop> {
            self.matcher.start(self.set, name, attributes, |_, _| {});
            Ok(())
        }
        fn text(&mut self, text: &str) -> Result<(), tollgate_xml::Stop> {
            self.matcher.text(self.set, text);
            Ok(())
        }
        fn end(&mut self, _: tollgate_xml::Name<'_>) -> Result<(), tollgate_xml::Stop> {
            self.matcher.end(self.set, |_, _| {});
            Ok(())
        }
    }
    let set = PathSet::new(["/a/b/c", "/x", "/a/d[1]/e", "//f", "/a/b = 'g'"], &[]).unwrap();
    let mut decided = Decided { set: &set, matcher: PathMatcher::new(&set) };
    let mut reader = Reader::new(Limits::default());
    let mut check = |piece: &str, expected: [bool; 5]| {
        reader.feed(piece.as_bytes(), &mut decided).unwrap();
        let open = [0, 1, 2, 3, 4].map(|rule| decided.matcher.may_match(&set, rule));
        assert_eq!(open, expected, "after {piece}");
    };
    check("", [true; 5]);
    check("<a>", [true, false, true, true, true]);
    check("<d>", [true, false, true, true, true]);
    check("</d>", [true, false, false, true, true]);
    check("<b>", [true, false, false, true, true]);
    check("</b></a>", [false; 5]);
}

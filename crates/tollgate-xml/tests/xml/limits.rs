//! The limits of a reader.

use tollgate_xml::{Limits, XmlErrorKind};

use crate::document::{check_fault, check_fault_within, read};

#[test]
fn each_limit_is_reached_and_not_exceeded() {
    let is_read = |document: &str, limits: Limits| {
        let (_, result) = read([document.as_bytes()], limits);
        assert!(
            result.as_ref().map_or_else(|error| error.kind() == XmlErrorKind::Limit, |()| true),
            "{result:?}"
        );
        result.is_ok()
    };
    let nested = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
    assert!(is_read(&nested(128), Limits::default()) && !is_read(&nested(129), Limits::default()));
    let attributes = |count: usize| {
        let attributes: String = (0..count).map(|number| format!(" a{number}=''")).collect();
        format!("<a{attributes}/>")
    };
    assert!(is_read(&attributes(256), Limits::default()) && !is_read(&attributes(257), Limits::default()));
    let named = |length: usize| format!("<{0}></{0}>", "a".repeat(length));
    assert!(is_read(&named(1024), Limits::default()) && !is_read(&named(1025), Limits::default()));
    let declared = |count: usize| {
        let half = |from: usize, to: usize| -> String {
            (from..to).map(|number| format!(" xmlns:a{number}='urn:{number}'")).collect()
        };
        format!("<a{}><b{}/><c/></a>", half(0, 200), half(200, count))
    };
    assert!(is_read(&declared(256), Limits::default()) && !is_read(&declared(257), Limits::default()));
    let tag = |length: usize| format!("<a b='{}'/>", "x".repeat(length - 9));
    assert!(is_read(&tag(64 << 10), Limits::default()) && !is_read(&tag((64 << 10) + 1), Limits::default()));
}

#[test]
fn a_limit_is_the_same_wherever_a_document_is_cut() {
    let limits = Limits {
        depth_max: 2,
        attributes_max: 2,
        name_bytes_max: 8,
        namespaces_max: 1,
        tag_bytes_max: 24,
        ..Limits::default()
    };
    let check = |document: &str, expected: &str| check_fault_within(document, limits, expected);
    check("<a><b><c/></b></a>", "elements are nested deeper than 2 at byte 7");
    check("<a b='' c='' d=''/>", "more than 2 attributes of an element at byte 14");
    check("<abcdefghi/>", "a name longer than 8 bytes at byte 2");
    check("<abcdefgh:i: />", "a name longer than 8 bytes at byte 2");
    check("<a abcdefghi=''/>", "a name longer than 8 bytes at byte 4");
    check("<a xmlns:b='b'><c xmlns:d='d'/></a>", "more than 1 namespace declarations in scope at byte 19");
    check("<a xmlns='urn:abcde'/>", "a namespace longer than 8 bytes at byte 4");
    check("<a>&abcdefghi;</a>", "a reference longer than 8 bytes at byte 4");
    check("<a>&#000000000000000041;</a>", "a reference longer than 8 bytes at byte 4");
    check("<a b='0123456789012345678901'/>", "a tag longer than 24 bytes at byte 1");
    check("<a b='\u{e9}123456789012345678901", "a tag longer than 24 bytes at byte 1");
    check("<a b='1' b='2' c='3' d='4'/>", "more than 2 attributes of an element");
    check("<a b='0123456789012345678901' c/>", "a tag longer than 24 bytes at byte 1");
    check("<a b='x' b='45678901234567'/>", "a tag longer than 24 bytes at byte 1");
    check("<a></a                            >", "a tag longer than 24 bytes at byte 4");
}

#[test]
fn a_long_text_needs_no_memory_of_the_reader() {
    let document =
        format!("<a>{}<!--{}--><?p {}?></a>", "x".repeat(1 << 20), "y".repeat(1 << 20), "z".repeat(1 << 20));
    let (_, result) = read(document.as_bytes().chunks(1000), Limits::default());
    assert_eq!(result, Ok(()));
    check_fault("<a b='1' c='2' b='3'>", "a repeated attribute");
}

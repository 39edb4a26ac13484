//! Encodings of documents.

use tollgate_xml::Limits;

use crate::document::{check_fault, read_every_way};

fn utf16(text: &str, big: bool) -> Vec<u8> {
    let units = text.encode_utf16();
    units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
}

fn check(document: &[u8], expected: &str) {
    let (events, result) = read_every_way(document, Limits::default());
    assert_eq!((events.as_str(), result), (expected, Ok(())), "{}", document.escape_ascii());
}

#[test]
fn utf_16_is_read_by_its_byte_order_mark() {
    for big in [false, true] {
        let document = "\u{feff}<?xml version='1.0' encoding='UTF-16'?><a b='\u{e9}'>\u{1f600}x</a>";
        check(&utf16(document, big), "<a b=\"\u{e9}\" \"\u{1f600}x\" /a");
        check(&utf16("\u{feff}<a/>", big), "<a /a");
        let fault = "an XML declaration with encoding \"utf-8\", allowed is \"utf-16\" at byte 63";
        check_fault(utf16("\u{feff}<?xml version='1.0' encoding='utf-8'?><a/>", big), fault);
        check_fault(utf16("<a/>", big), "a text in UTF-16 without a byte order mark, allowed is UTF-8");
        let mut cut = utf16("\u{feff}<a>\u{1f600}", big);
        cut.truncate(cut.len() - 2);
        check_fault(&cut, "text is not UTF-16 at byte 9");
        cut.extend(utf16("</a>", big));
        check_fault(&cut, "text is not UTF-16 at byte 9");
        check_fault(
            utf16("\u{feff}<a>\n\u{1f600}\u{1}", big),
            "U+0001, a character that XML does not allow, at byte 15 (line 2, column 2)",
        );
    }
    for mark in [[0xff, 0xfe, 0, 0], [0, 0, 0xfe, 0xff]] {
        check_fault(mark, "a text in UTF-32, allowed is UTF-8");
    }
    check_fault([0, 0, 0xfe], "U+0000, a character that XML does not allow");
    let mut low = utf16("\u{feff}<a>", true);
    low.extend([0xdc, 0]);
    check_fault(&low, "text is not UTF-16 at byte 9");
}

#[test]
fn iso_8859_1_is_read_by_its_name() {
    check(
        b"<?xml version='1.0' encoding='ISO-8859-1'?><a b='\xe9'>\xff\x85</a>",
        "<a b=\"\u{e9}\" \"\u{ff}\\u{85}\" /a",
    );
    check_fault(
        b"<?xml version='1.0' encoding='iso-8859-1'?><a>\xe9\xe9<b></a>",
        "an end tag of another element: found \"a\", allowed is </b> at byte 52 (line 1, column 52)",
    );
    check_fault(
        b"<?xml version='1.0' encoding='latin1'?><a/>",
        "an XML declaration with encoding \"latin1\", allowed is \"utf-8\"",
    );
    check_fault(
        b"\xef\xbb\xbf<?xml version='1.0' encoding='iso-8859-1'?><a/>",
        "an XML declaration with encoding \"iso-8859-1\"",
    );
}

#[test]
fn utf_8_is_checked() {
    check_fault(b"<a>\xff</a>", "text is not UTF-8 at byte 4");
    check_fault(b"<a>\xe9\xe9</a>", "text is not UTF-8 at byte 4");
    check_fault(b"<a>\xf0\x9f\x98", "text is not UTF-8 at byte 4");
    check_fault(b"<a>\xed\xa0\x80</a>", "text is not UTF-8 at byte 4");
    check_fault(b"<a>\xc0\x80</a>", "text is not UTF-8 at byte 4");
    check_fault(b"<a b='\xff'/>", "text is not UTF-8 at byte 7");
    check_fault(b"<a b=c'\xff'/>", "an attribute without quotes: found 'c'");
    check_fault(b"\xff", "text is not UTF-8 at byte 1");
    check_fault(b"\xef\xbb", "text is not UTF-8 at byte 1");
}

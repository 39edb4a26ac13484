//! Random documents, whole and cut at random.

use proptest::prelude::*;
use tollgate_xml::Limits;

use crate::document::{check_skipping, read};
use crate::reference::check;

/// Parts of documents, so that random sequences of them reach most states of the reader.
const PARTS: [&str; 46] = [
    "<a",
    "<b>",
    "</b>",
    "</a>",
    ">",
    "/>",
    " ",
    "=",
    "'",
    "\"",
    " x='1'",
    " y=\"",
    "&amp;",
    "&#65;",
    "&",
    ";",
    "&x;",
    "<!--",
    "-->",
    "--",
    "-",
    "<![CDATA[",
    "]]>",
    "]]",
    "]",
    "<?p",
    "?>",
    "?",
    "<?xml version='1.0'",
    "<!DOCTYPE a",
    "text",
    "\r",
    "\n",
    "\r\n",
    "\u{e9}",
    "\u{ffff}",
    "\u{1f600}",
    "<p:c xmlns:p='urn:p' p:d='e'>",
    "</p:c>",
    " xmlns='u'",
    "<",
    "!",
    "/",
    "[",
    ":",
    "\u{1}",
];

const LATIN1: &str = "<?xml version='1.0' encoding='iso-8859-1'?><a>";

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn the_outcome_does_not_depend_on_where_pieces_end(
        parts in prop::collection::vec(prop::sample::select(&PARTS[..]), 0..24),
        prefix in prop::sample::select(vec!["", "<a>", "<a>", LATIN1]),
        garbage in prop::option::weighted(0.1, any::<u8>()),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        tag_bytes_max in prop::sample::select(vec![16, 64, 1024]),
    ) {
        let mut document = format!("{prefix}{}", parts.concat()).into_bytes();
        document.extend(garbage);
        let limits = Limits { tag_bytes_max, name_bytes_max: 10, ..Limits::default() };
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(document.len() + 1)).collect();
        ends.sort_unstable();
        let mut pieces = Vec::new();
        let mut start = 0;
        for end in ends.into_iter().chain([document.len()]) {
            pieces.push(&document[start..end]);
            start = end;
        }
        let whole = read([document.as_slice()], limits);
        prop_assert_eq!(&whole, &read(pieces, limits));
        prop_assert_eq!(&whole, &read(document.chunks(1), limits));
        for piece_bytes in [1, cuts.len() + 1, usize::MAX] {
            (1..=3).for_each(|element| check_skipping(&document, limits, element, piece_bytes));
        }
    }

    #[test]
    fn what_is_read_is_what_quick_xml_reads(
        parts in prop::collection::vec(prop::sample::select(&PARTS[..]), 0..12),
        piece_bytes in any::<u8>(),
    ) {
        check(&[&[piece_bytes], b"<a>".as_slice(), parts.concat().as_bytes(), b"</a>"].concat());
    }
}

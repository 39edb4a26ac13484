//! Tests of documents through the public API.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write;

use proptest::prelude::*;
use tollgate_validate::{CompiledSchema, Document, DocumentFault, FaultKind, Schema, compile, limits, work};

const ORDER: &str = "
    default namespace = \"urn:orders\"
    namespace o = \"urn:orders\"
    start = element order { attribute id { xsd:integer }, attribute of { xsd:QName }?, item+ }
    item = element item { attribute sku { text }, (xsd:decimal | xsd:QName) }
";

fn compiled(text: &str) -> CompiledSchema {
    let text = text.to_owned();
    compile("order.rnc", &move |_: &str| Ok(text.clone())).unwrap()
}

fn schema(text: &str) -> Schema {
    compiled(text).for_thread(limits())
}

fn judged(schema: &Schema, pieces: &[&[u8]]) -> Result<(), Box<DocumentFault>> {
    let mut document = Document::new(schema);
    pieces.iter().try_for_each(|piece| document.feed(piece)).and_then(|()| document.finish())
}

fn fault(document: &str) -> DocumentFault {
    *judged(&schema(ORDER), &[document.as_bytes()]).unwrap_err()
}

#[test]
fn a_valid_document_has_no_fault() {
    let document = "<?xml version='1.0'?>\n<o:order xmlns:o='urn:orders' id='1' of='o:x'>\
                    <o:item sku='a'>1.5</o:item><item xmlns='urn:orders' xmlns:p='u' sku='b'>p:q</item>\
                    </o:order>\n";
    judged(&schema(ORDER), &[document.as_bytes()]).unwrap();
}

#[test]
fn a_fault_has_its_kind_message_path_line_column_and_byte() {
    let check = |document: &str, kind: FaultKind, message: &str, path: &str, place: (u64, u64, u64)| {
        let found = fault(document);
        assert_eq!((found.kind, found.path.as_str()), (kind, path), "{found}");
        assert_eq!((found.line, found.column, found.byte), place, "{found}");
        assert!(found.message.contains(message), "{found}");
    };
    let order = "<order xmlns='urn:orders' id='1'>";
    check(
        &format!("{order}\n<item sku='ä'>1</item>\n <itme/></order>"),
        FaultKind::Invalid,
        "element \"itme\" is not allowed in \"/order\"; expected \"item\" or the end of \"order\"",
        "/order",
        (3, 2, 60),
    );
    check(
        &format!("{order}<item>1</item></order>"),
        FaultKind::Invalid,
        "lacks an attribute",
        "/order/item",
        (1, 34, 34),
    );
    check(
        &format!("{order}<item sku='a'>q:p</item></order>"),
        FaultKind::Invalid,
        "text",
        "/order/item",
        (1, 51, 51),
    );
    check(&format!("{order}</ordre>"), FaultKind::Malformed, "end tag", "/order", (1, 34, 34));
    check("", FaultKind::Malformed, "", "/", (1, 1, 1));
    check("<!DOCTYPE order><order/>", FaultKind::Malformed, "", "/", (1, 1, 1));
}

#[test]
fn a_prefix_is_out_of_scope_after_the_element_that_declares_it() {
    let item = "<o:item sku='a' xmlns:p='u'>p:q</o:item>";
    let order = |items: &str| format!("<o:order xmlns:o='urn:orders' id='1'>{items}</o:order>");
    judged(&schema(ORDER), &[order(item).as_bytes()]).unwrap();
    let later = order(&format!("{item}<o:item sku='b'>p:q</o:item>"));
    assert_eq!(fault(&later).kind, FaultKind::Invalid);
}

#[test]
fn a_document_with_a_fault_keeps_it() {
    let mut document = Document::new(&schema(ORDER));
    let first = document.feed(b"<wrong>").unwrap_err();
    assert_eq!(document.feed(b"</wrong>").unwrap_err(), first);
    assert_eq!(document.finish().unwrap_err(), first);
}

#[test]
fn a_document_with_too_many_attributes_for_the_stack_is_judged() {
    let names: Vec<_> = (0..40).map(|index| format!("a{index}")).collect();
    let attributes = |names: &[String]| {
        names.iter().fold(String::new(), |mut all, name| {
            write!(all, " {name}='1'").unwrap();
            all
        })
    };
    let schema = schema("element r { attribute * { text }* }");
    judged(&schema, &[format!("<r{}/>", attributes(&names)).as_bytes()]).unwrap();
}

/// A schema that has to remember which of the last `count` elements was a `b`, so that each document leads to
/// new states.
fn remembering(count: usize) -> Schema {
    let any = "(a | b)";
    let tail = vec![any; count].join(", ");
    schema(&format!(
        "start = element r {{ {any}*, b, {tail} }}\na = element a {{ empty }}\nb = element b {{ empty }}"
    ))
}

#[test]
fn the_work_of_a_hostile_document_is_bounded_by_its_bytes() {
    let schema = remembering(60);
    let mut document = Document::new(&schema);
    let mut random = 1_u64;
    let mut bytes = 3;
    document.feed(b"<r>").unwrap();
    let fault = loop {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let piece: &[u8] = if random >> 63 == 1 { b"<a/>" } else { b"<b/>" };
        bytes += piece.len() as u64;
        if let Err(fault) = document.feed(piece) {
            break fault;
        }
        assert!(bytes < 1 << 20);
    };
    assert_eq!(fault.kind, FaultKind::Limit, "{fault}");
    let limit: u64 = fault.message.split(' ').rev().nth(1).unwrap().parse().unwrap();
    assert!(limit <= work::base(schema.compiled()) + bytes * work::PER_BYTE, "{fault}");
}

proptest! {
    #[test]
    fn the_verdict_does_not_depend_on_where_pieces_end(
        cuts in proptest::collection::vec(0_usize..300, 0..12),
        which in 0_usize..4,
    ) {
        let order = "<order xmlns='urn:orders' id='1'>";
        let documents = [
            format!("{order}<item sku='ä&amp;'>1.5</item><item sku='b'> 2 </item></order>"),
            format!("{order}<item sku='a'>1.5</item><itme sku='b'>2</itme></order>"),
            format!("{order}<item sku='a'>1.5</item><item sku='b'>x y</item></order>"),
            format!("{order}<item sku='a'>1.5</item><item sku='b'>2</order>"),
        ];
        let document = documents[which].as_bytes();
        let schema = schema(ORDER);
        let whole = judged(&schema, &[document]);
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(document.len())).collect();
        cuts.extend([0, document.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|pair| &document[pair[0]..pair[1]]).collect();
        prop_assert_eq!(judged(&schema, &pieces), whole);
    }
}

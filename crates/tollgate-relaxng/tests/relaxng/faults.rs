//! The texts of faults of documents.

use tollgate_relaxng::{Fault, Invalid, Schema, Source};

use super::feed::{Refused, validate};

const ORDER: &str = "
    start = element order { attribute id { xsd:integer }, attribute note { text }?, item+, total? }
    item = element item { sku, element price { xsd:decimal }, element quantity { xsd:integer }? }
    sku = attribute sku { \"A\" | \"B\" }
    total = element total { attribute currency { text }, text }
";

pub(crate) fn schema(text: &str) -> Schema {
    let load = |path: &str| Err(format!("{path} is not there"));
    Schema::compile(Source { path: "schema.rnc", text }, &load).unwrap_or_else(|error| panic!("{error}"))
}

fn fault(document: &str) -> Invalid {
    match validate(&schema(ORDER), document) {
        Err(Refused::Invalid(invalid)) => invalid,
        other => panic!("{document}: {other:?}"),
    }
}

#[test]
fn a_fault_says_what_was_found_where_and_what_is_allowed() {
    let item = "<item sku='A'><price>1</price></item>";
    let check = |document: String, kind: Fault, expected: &str| {
        let fault = fault(&document);
        assert_eq!((fault.to_string().as_str(), fault.fault), (expected, kind), "{document}");
    };
    check(
        "<orders/>".into(),
        Fault::Element,
        "element \"orders\" is not allowed as the root; expected \"order\"",
    );
    check(
        format!("<order id='1'>{item}<item sku='A'><price>1</price><price>2</price></item></order>"),
        Fault::Element,
        "element \"price\" is not allowed in \"/order/item[2]\"; \
         expected \"quantity\" or the end of \"item\"",
    );
    check(
        "<order id='1'><item xmlns='urn:x' sku='A'/></order>".into(),
        Fault::Element,
        "element \"item\" of namespace \"urn:x\" is not allowed in \"/order\"; \
         expected \"item\" without a namespace",
    );
    check(
        "<order id='1' x='2'/>".into(),
        Fault::Attribute,
        "attribute \"x\" is not allowed in \"/order\"; expected attribute \"note\"",
    );
    check(
        "<order id='x'/>".into(),
        Fault::Attribute,
        "the value of attribute \"id\" in \"/order\" is not allowed; expected a value of \"integer\"",
    );
    check(
        "<order id='1'><item sku='C'/></order>".into(),
        Fault::Attribute,
        "the value of attribute \"sku\" in \"/order/item\" is not allowed; \
         expected the value \"A\" or the value \"B\"",
    );
    check(
        "<order note='x'/>".into(),
        Fault::MissingAttribute,
        "element \"/order\" lacks an attribute; expected attribute \"id\"",
    );
    check(
        "<order id='1'>secret</order>".into(),
        Fault::Text,
        "text is not allowed in \"/order\"; expected \"item\"",
    );
    check(
        "<order id='1'><item sku='A'><price>1,5</price></item></order>".into(),
        Fault::Text,
        "the text of \"/order/item/price\" is not allowed; expected a value of \"decimal\"",
    );
    check(
        "<order id='1'></order>".into(),
        Fault::Incomplete,
        "element \"/order\" is not complete; expected \"item\"",
    );
}

#[test]
fn a_fault_has_the_byte_of_its_event_and_comes_again_for_each_later_event() {
    let text = "<order id='1'><total/></order>";
    let first = fault(text);
    assert_eq!((first.byte, first.path.as_str()), (14, "/order"));
    let schema = schema(ORDER);
    let mut validator = tollgate_relaxng::Validator::new(&schema);
    let again = validator.end(&(), 7).unwrap_err();
    assert_eq!(validator.text("x", 9).unwrap_err(), again);
}

#[test]
fn the_texts_of_faults_have_a_bounded_length() {
    let names: Vec<String> = (0..1000).map(|index| format!("element n{index} {{ empty }}")).collect();
    let schema = schema(&format!("element r {{ {} }}", names.join(" | ")));
    let long = "x".repeat(10_000);
    let Err(Refused::Invalid(fault)) = validate(&schema, &format!("<r><{long}/></r>")) else { panic!() };
    assert_eq!(fault.expected.len(), Invalid::EXPECTED_MAX);
    assert_eq!(fault.expected.last().unwrap(), "others");
    assert!(fault.to_string().len() < 500, "{fault}");
}

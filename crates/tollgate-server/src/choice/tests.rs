//! Tests of rules that choose a handler.

use bytes::BytesMut;
use tollgate_http::{HeadReader, Limits};

use super::*;

fn head(fields: &str) -> RequestHead {
    let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    HeadReader::default().read(&mut BytesMut::from(text.as_str()), &Limits::default()).unwrap().unwrap()
}

fn reply(status: u16) -> ChosenHandler {
    ChosenHandler::Reply { status, content_type: String::new(), body: "".into() }
}

fn header(condition: &str) -> ConditionSpec {
    let (name, test) = ValueTest::split(condition).unwrap();
    ConditionSpec::Header { name: name.to_owned(), test }
}

fn json(condition: &str) -> ConditionSpec {
    let (path, test) = ValueTest::split(condition).unwrap();
    ConditionSpec::Json { path: FieldPath::parse(path).unwrap(), test }
}

fn xml(path: usize, text: &str) -> ConditionSpec {
    ConditionSpec::Xml { path, text: text.to_owned() }
}

/// Creates rules that choose the statuses 201, 202 and so on, and otherwise 200.
fn choice<const N: usize>(rules: [Vec<ConditionSpec>; N]) -> Choice<u16> {
    let rule = |(at, conditions)| RuleSpec { conditions, handler: reply(201 + at as u16) };
    let rules: Vec<RuleSpec> = rules.into_iter().enumerate().map(rule).collect();
    let texts = rules.iter().flat_map(|rule| &rule.conditions).filter_map(|condition| match condition {
        ConditionSpec::Xml { text, .. } => Some(text.clone()),
        _ => None,
    });
    let namespaces = [("o".to_owned(), "urn:o".to_owned())];
    let xml_paths = XmlPaths::compile(&texts.collect::<Vec<_>>(), &namespaces).unwrap();
    let spec =
        WhenSpec { look_ahead_bytes: 1024, xml_paths, namespaces: Vec::new(), rules, otherwise: reply(200) };
    let status = |handler: &ChosenHandler| match handler {
        ChosenHandler::Reply { status, .. } => Ok::<_, ()>(*status),
        ChosenHandler::Proxy(_) => Err(()),
    };
    Choice::new(&spec, XmlValues::new(Vec::new(), &[]).unwrap(), Doctype::Refuse, status).unwrap()
}

fn chosen(choice: &Choice<u16>, fields: &str, content: &str) -> u16 {
    let prefix = Prefix { bytes: content.as_bytes(), is_whole: true };
    choice.choose(&head(fields), &prefix).map_or(400, |(status, _)| *status)
}

#[test]
fn the_first_rule_whose_conditions_all_hold_decides() {
    let choice = choice([
        vec![header("SOAPAction = '\"urn:a\"'"), json("/a/b = 'x'")],
        vec![json("/a/b = 'x'")],
        vec![header("X-Kind != 'test'")],
        vec![json("n")],
    ]);
    let action = "SOAPAction: \"urn:a\"\r\n";
    assert_eq!(chosen(&choice, action, r#"{"a": {"c": [1], "b": "x"}}"#), 201);
    assert_eq!(chosen(&choice, "", r#"{"a": {"b": "\u0078"}}"#), 202);
    assert_eq!(chosen(&choice, "X-Kind: real\r\n", r#"{"a": {"b": "y"}, "n": 1}"#), 203);
    assert_eq!(chosen(&choice, "X-Kind: test\r\n", r#"{"n": {"m": 1}}"#), 204);
    assert_eq!(chosen(&choice, action, r#"{"a": "b", "n": null}"#), 200);
    assert_eq!(chosen(&choice, "X-Kind: te\r\nX-Kind: st\r\n", ""), 203, "lines make a list");
}

#[test]
fn the_content_type_decides_whether_content_is_json() {
    let choice = choice([vec![json("a = '1'")]]);
    for kind in ["application/json; charset=utf-8", "application/problem+json", "text/JSON"] {
        assert_eq!(chosen(&choice, &format!("Content-Type: {kind}\r\n"), r#" {"a": 1}"#), 201, "{kind}");
    }
    assert_eq!(chosen(&choice, "", r#" {"a": 1}"#), 201);
    assert_eq!(chosen(&choice, "Content-Type: text/plain\r\n", r#"{"a": 1}"#), 200);
    assert_eq!(chosen(&choice, "", "<a>1</a>"), 200);
}

#[test]
fn malformed_content_and_a_field_that_occurs_twice_decide_nothing() {
    let choice = choice([vec![json("/a/b = 'x'")]]);
    for content in [r#"{"a" 1}"#, r#"{"a": {"b": "x"}"#, r#"{"a": {"b": "x", "b": "x"}}"#, r#"{"a":1} x"#] {
        assert_eq!(chosen(&choice, "", content), 400, "{content}");
    }
    // A field that no rule reads may occur twice.
    assert_eq!(chosen(&choice, "", r#"{"z": 1, "z": 2, "a": {"b": "x"}}"#), 201);
}

#[test]
fn a_cut_document_has_the_values_before_the_cut() {
    let paths = ["a", "/b/c", "n", "t"].map(|path| FieldPath::parse(path).unwrap());
    let document = r#"{"a": "x1", "k:1": {"n": 7}, "b": {"c": 12}, "n": 34.5e2, "t": true}"#;
    let ends = [("a", r#""x1""#), ("b", "12}"), ("n", "34.5e2,"), ("t", "true}")];
    for cut in 0..document.len() {
        let prefix = Prefix { bytes: &document.as_bytes()[..cut], is_whole: false };
        let values = JsonValues::find(&paths, &prefix).unwrap();
        let has = |end: &str| document.find(end).unwrap() + end.len() <= cut;
        assert_eq!(values.get(0), has(ends[0].1).then_some("x1"), "{cut}");
        assert_eq!(values.get(1), has(ends[1].1).then_some("12"), "{cut}");
        assert_eq!(values.get(2), has(ends[2].1).then_some("3450"), "{cut}");
        assert_eq!(values.get(3), has(ends[3].1).then_some("true"), "{cut}");
    }
    let prefix = Prefix { bytes: br#"{"a" 1,"#, is_whole: false };
    assert!(JsonValues::find(&paths, &prefix).is_err(), "what is malformed before the cut is refused");
}

#[test]
fn paths_of_xml_decide_by_what_is_in_the_document() {
    let choice = choice([
        vec![xml(0, "/o:order[@region = 'eu']"), xml(1, "/o:order/o:id = '7'")],
        vec![xml(2, "//o:id")],
        vec![json("/order")],
    ]);
    let order = |region: &str, id: &str| {
        format!("<p:order xmlns:p='urn:o' region='{region}'><p:id>{id}</p:id></p:order>")
    };
    assert_eq!(chosen(&choice, "", &order("eu", "7")), 201);
    assert_eq!(chosen(&choice, "", &order("us", "7")), 202);
    assert_eq!(chosen(&choice, "", &order("eu", "8")), 202);
    assert_eq!(chosen(&choice, "", &order("eu", "7").replace("urn:o", "urn:x")), 200);
    assert_eq!(chosen(&choice, "", "{\"order\": 1}"), 203);
    for kind in ["text/xml", "application/soap+xml; charset=utf-8", "application/XML"] {
        assert_eq!(chosen(&choice, &format!("Content-Type: {kind}\r\n"), &order("eu", "7")), 201, "{kind}");
    }
    assert_eq!(chosen(&choice, "Content-Type: text/plain\r\n", &order("eu", "7")), 200);
    let marked = format!("\u{feff}{}", order("eu", "7"));
    assert_eq!(chosen(&choice, "", &marked), 201, "a byte order mark is no text");
    for content in ["<a>", "<a></b>", "<a/><b/>", "<!DOCTYPE a><a/>", "<p:a/>"] {
        assert_eq!(chosen(&choice, "", content), 400, "{content}");
    }
}

#[test]
fn a_cut_document_of_xml_has_what_ends_before_the_cut() {
    let paths = ["/a/b", "/a/b = 'xy'", "/a/c/@d = '1'"].map(str::to_owned);
    let paths = XmlPaths::compile(&paths, &[]).unwrap();
    let document = "<a><b>xy</b><c d='1'/></a>";
    for cut in 0..document.len() {
        let prefix = Prefix { bytes: &document.as_bytes()[..cut], is_whole: false };
        let Found { conditions: found, values } =
            xml::find(&paths.0, &paths.0, Doctype::Refuse, &prefix).unwrap();
        let has = |end: &str| document.find(end).unwrap() + end.len() <= cut;
        assert_eq!(found, [has("<b>"), has("</b>"), has("<c d='1'/>")], "{cut}");
        let value = |end: &str, text: &str| has(end).then(|| text.to_owned());
        let expect = [value("</b>", "xy"), value("</b>", "true"), value("<c d='1'/>", "true")];
        assert_eq!(values, expect, "{cut}");
    }
}

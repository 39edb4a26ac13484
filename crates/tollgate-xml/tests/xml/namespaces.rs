//! Namespaces in XML 1.0.

use tollgate_xml::{Limits, Prefixes};

use crate::document::{check, check_fault, read_every_way};

#[test]
fn names_are_resolved() {
    check(
        "<s:a xmlns:s=\"urn:s\"><s:b/></s:a>",
        "<{urn:s}s:a xmlns:s=\"urn:s\" <{urn:s}s:b /{urn:s}s:b /{urn:s}s:a",
    );
    check(
        "<a xmlns='urn:a' b='1' p:c='2' xmlns:p='urn:p'/>",
        "<{urn:a}a xmlns:=\"urn:a\" xmlns:p=\"urn:p\" b=\"1\" {urn:p}p:c=\"2\" /{urn:a}a",
    );
    check(
        "<a xmlns='urn:1'><b xmlns=''><c xmlns='urn:2'/></b><d/></a>",
        "<{urn:1}a xmlns:=\"urn:1\" <b xmlns:=\"\" <{urn:2}c xmlns:=\"urn:2\" /{urn:2}c /b \
         <{urn:1}d /{urn:1}d /{urn:1}a",
    );
    check("<a xml:lang='en'/>", "<a {http://www.w3.org/XML/1998/namespace}xml:lang=\"en\" /a");
    check("<a xmlns:p='urn:&amp;'><p:b/></a>", "<a xmlns:p=\"urn:&\" <{urn:&}p:b /{urn:&}p:b /a");
    check(
        "<a xmlns:p='urn:1' xmlns='urn:1' p:x='1' x='2'/>",
        "<{urn:1}a xmlns:p=\"urn:1\" xmlns:=\"urn:1\" {urn:1}p:x=\"1\" x=\"2\" /{urn:1}a",
    );
}

#[test]
fn names_and_declarations_follow_the_rules() {
    check_fault("<p:a/>", "the prefix p is not declared at byte 2");
    check_fault("<a p:b=''/>", "the prefix p is not declared at byte 4");
    check_fault("<a><b xmlns:p='urn:p'/><p:c/></a>", "the prefix p is not declared at byte 25");
    check_fault("<a:b:c xmlns:a='x'/>", "a tag without a valid XML name: found ':'");
    check_fault("<:a/>", "a tag without a valid XML name: found ':'");
    check_fault("<a:/>", "a tag without a valid XML name: found '/'");
    check_fault("<a:1 xmlns:a='x'/>", "a tag without a valid XML name: found '1'");
    check_fault("<a xmlns:p=''/>", "the declaration of xmlns:p has no namespace");
    check_fault("<a xmlns:xmlns='x'/>", "the declaration of xmlns:xmlns is not allowed");
    check_fault("<a xmlns:xml='x'/>", "the declaration of xmlns:xml has another namespace");
    check_fault(
        "<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>",
        "the declaration of xmlns:p has the namespace of",
    );
    check_fault(
        "<a xmlns='http://www.w3.org/2000/xmlns/'/>",
        "the declaration of xmlns has the namespace of",
    );
    check_fault("<xmlns:a/>", "an element with the prefix xmlns");
    check_fault("<a xmlns:p='urn:1' xmlns:q='urn:1' p:x='' q:x=''/>", "a repeated attribute: found \"q:x\"");
    check_fault("<a xmlns:p='urn:1' xmlns:p='urn:1'/>", "a repeated attribute: found \"xmlns:p\"");
    check_fault("<a xmlns='urn:1' xmlns=''/>", "a repeated attribute: found \"xmlns\"");
    check(
        "<a xmlns:xml='http://www.w3.org/XML/1998/namespace'/>",
        "<a xmlns:xml=\"http://www.w3.org/XML/1998/namespace\" /a",
    );
}

#[test]
fn a_prefix_without_a_declaration_is_kept_if_the_limits_say_so() {
    let limits = Limits { prefixes: Prefixes::Any, ..Limits::default() };
    let read = |document: &str| read_every_way(document.as_bytes(), limits);
    assert_eq!(read("<p:a p:b='1' b='2'/>"), ("<p:a p:b=\"1\" b=\"2\" /p:a".to_owned(), Ok(())));
    let (_, result) = read("<p:a p:b='1' b='2' p:b='3'/>");
    assert!(result.unwrap_err().to_string().starts_with("a repeated attribute: found \"p:b\""));
}

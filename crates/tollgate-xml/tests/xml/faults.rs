//! Documents that are not well-formed.

use tollgate_xml::{Doctype, Limits};

use crate::document::{check_fault, check_fault_within};

#[test]
fn a_document_is_one_element() {
    check_fault("", "text has no root element at byte 1 (line 1, column 1) in /");
    check_fault("<!-- x -->", "text has no root element at byte 11");
    check_fault("x", "text outside the root element at byte 1");
    check_fault("<a/>x", "text outside the root element at byte 5");
    check_fault("<a/>&amp;", "text outside the root element at byte 5");
    check_fault("<a/><![CDATA[x]]>", "text outside the root element at byte 5");
    check_fault("<a/><b/>", "a second root element at byte 5");
    check_fault("<a>", "text ends inside an element at byte 4 (line 1, column 4) in /a");
    check_fault("<a><b", "text ends inside markup at byte 6");
    check_fault("<a>&am", "text ends inside markup at byte 7");
    check_fault("<a><!-- -", "text ends inside a comment at byte 10");
    check_fault("<a><![CDATA[ ]]", "text ends inside a CDATA section at byte 16");
    check_fault("<a><?p ?", "text ends inside a processing instruction at byte 9");
    check_fault(
        "<a>\n <b></c></a>",
        "an end tag of another element: found \"c\", allowed is </b> at byte 9 (line 2, column 5) in /a/b",
    );
    check_fault("</a>", "an end tag without a start tag: found \"a\" at byte 1");
    check_fault("<a></a x>", "an end tag with more than a name: found 'x'");
}

#[test]
fn tags_follow_the_grammar() {
    check_fault("< a/>", "a tag without a valid XML name: found ' '");
    check_fault(
        "<1/>",
        "a tag without a valid XML name: found '1', allowed is a name with at most one colon at byte 2",
    );
    check_fault(
        "<a!/>",
        "a tag without a valid XML name: found '!', allowed is white space, / and > at byte 3",
    );
    check_fault("<a\u{d7}/>", "a tag without a valid XML name: found '\u{d7}'");
    check_fault("<a/ >", "a tag with a / in it: found ' ', allowed is > at byte 4");
    check_fault("<a b/>", "an attribute without a value: found '/', allowed is = at byte 5");
    check_fault("<a b=c/>", "an attribute without quotes: found 'c'");
    check_fault("<a b=\"1\"c=\"2\"/>", "attributes without white space between them: found 'c'");
    check_fault("<a b=\"1\" b=\"2\"/>", "a repeated attribute: found \"b\" at byte 10");
    check_fault("<a b=\"<\"/>", "an attribute with a < in it: found '<', allowed is &lt; at byte 7");
    check_fault("<a -b='1'/>", "an attribute without a valid XML name: found '-'");
    check_fault("<a b='\u{1}'/>", "U+0001, a character that XML does not allow, at byte 7");
    check_fault("<a b='\u{ffff}'/>", "U+FFFF, a character that XML does not allow,");
    check_fault("<a b=c d='", "an attribute without quotes: found 'c'");
}

#[test]
fn an_attribute_is_not_repeated_among_many() {
    let many: String = (0..50).map(|number| format!(" a{number}=''")).collect();
    check_fault(format!("<x{many} a7='' b='' a3=''/>"), "a repeated attribute: found \"a7\"");
    check_fault(
        format!("<x xmlns:p='urn:1' xmlns:q='urn:1'{many} p:a='' q:a=''/>"),
        "a repeated attribute: found \"q:a\"",
    );
}

#[test]
fn references_are_known() {
    for unknown in
        ["&nbsp;", "&#0;", "&#x110000;", "&#xD800;", "&#x1;", "&#;", "&#x;", "&#X41;", "&#4a;", "&AMP;"]
    {
        check_fault(format!("<a>{unknown}</a>"), &format!("the reference {unknown} is unknown, allowed is"));
        check_fault(
            format!("<a b='{unknown}'/>"),
            &format!("the reference {unknown} is unknown, allowed is"),
        );
    }
    check_fault("<a>& b</a>", "a reference without a name: found ' '");
    check_fault("<a>&#+65;</a>", "a reference without a semicolon: found '+'");
    check_fault("<a>&amp </a>", "a reference without a semicolon: found ' '");
    check_fault("<a b='&'/>", "a reference without a name: found '\\''");
}

#[test]
fn texts_follow_the_grammar() {
    check_fault("<a>]]></a>", "]]> in a text: found '>', allowed is &gt; at byte 6");
    check_fault("<a>x]]]></a>", "]]> in a text");
    check_fault("<a>\u{1}</a>", "U+0001, a character that XML does not allow, at byte 4");
    check_fault("<a>\u{fffe}</a>", "U+FFFE, a character that XML does not allow, at byte 4");
    check_fault("<a><![CDATA[x\0]]></a>", "U+0000, a character that XML does not allow, at byte 14");
    check_fault("<a><!-- a -- b --></a>", "a comment with -- in it: found ' ', allowed is --> at byte 13");
    check_fault("<a><!-- a ---></a>", "a comment with -- in it: found '-'");
    check_fault("<a><!-- \u{b} --></a>", "U+000B, a character that XML does not allow,");
    check_fault("<a><![CDATAx", "markup that XML does not know: found 'x'");
    check_fault("<a><!ELEMENT a></a>", "markup that XML does not know: found 'E'");
}

#[test]
fn processing_instructions_have_a_name() {
    check_fault("<a/><? x?>", "a processing instruction without a valid name: found ' '");
    check_fault("<a><?p:q?></a>", "a processing instruction without a valid name: found ':'");
    check_fault("<a><?p?q?></a>", "a processing instruction without a valid name: found 'q'");
    check_fault("<a><?p \u{1}?></a>", "U+0001, a character that XML does not allow,");
    check_fault("<a><?XmL ?></a>", "an XML declaration after the start of the document at byte 4");
    check_fault(" <?xml version='1.0'?><a/>", "an XML declaration after the start of the document at byte 2");
    check_fault("<a/><?xml version='1.0'?>", "an XML declaration after the start of the document at byte 5");
}

#[test]
fn an_xml_declaration_has_version_encoding_and_standalone_in_this_order() {
    let check = |declaration: &str, expected: &str| check_fault(format!("<?xml{declaration}<a/>"), expected);
    check("?>", "an invalid XML declaration: found '?'");
    check(
        " ?>",
        "an invalid XML declaration: found '?', allowed is version, then encoding, then standalone at byte 7",
    );
    check(" encoding='utf-8'?>", "an XML declaration without version: found 'e'");
    check(" version='1.0' standalone='yes' encoding='utf-8'?>", "an invalid XML declaration: found 'e'");
    check(" version='1.0'encoding='utf-8'?>", "an invalid XML declaration: found 'e'");
    check(" version='1.1'?>", "an XML declaration with version \"1.1\", allowed is \"1.0\" at byte 16");
    check(" version='1.0' standalone='maybe'?>", "an XML declaration with standalone \"maybe\"");
    check(" version='1.0' encoding=''?>", "an XML declaration with encoding \"\"");
    check(" version='1.0' encoding='-'?>", "an XML declaration with encoding \"-\"");
    check(" version='1.0\"?>", "an invalid XML declaration: found '\"'");
    check(" version=1.0?>", "an invalid XML declaration: found '1'");
    check(" version='1.0' x='1'?>", "an invalid XML declaration: found 'x'");
    check(" version='1.0'? >", "an invalid XML declaration: found ' '");
    check(" version='1.0'>", "an invalid XML declaration: found '>'");
}

#[test]
fn a_doctype_is_refused() {
    let refused = "a DOCTYPE, which is not supported, at byte 1";
    check_fault("<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>", refused);
    check_fault("<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>", refused);
    let limits = Limits { doctype: Doctype::Skip, ..Limits::default() };
    let check = |document: &str, expected: &str| check_fault_within(document, limits, expected);
    check("<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>", "a DOCTYPE with an internal subset");
    check("<!DOCTYPE a SYSTEM 'x' []><a/>", "a DOCTYPE with an internal subset");
    check("<!DOCTYPE a><!DOCTYPE a><a/>", "a second DOCTYPE at byte 13");
    check("<a><!DOCTYPE a></a>", "a DOCTYPE after the start of the root element at byte 4");
    check("<!DOCTYPE><a/>", "an invalid DOCTYPE: found '>'");
    check("<!DOCTYPE a x><a/>", "an invalid DOCTYPE: found 'x'");
    check("<!DOCTYPE a SYSTEM'x'><a/>", "an invalid DOCTYPE: found '\\''");
    check("<!DOCTYPE a PUBLIC 'x'><a/>", "an invalid DOCTYPE: found '>'");
    check("<!DOCTYPE a PUBLIC '{' 'x'><a/>", "an invalid DOCTYPE: found '{'");
    check("<!DOCTYPE a SYSTEM '\u{1}'><a/>", "U+0001, a character that XML does not allow,");
}

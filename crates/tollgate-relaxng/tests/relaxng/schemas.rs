//! Schemas of the compact syntax, includes, and faults of schemas with their places.

use tollgate_relaxng::{Schema, Source};

use super::feed::validate;

fn compile(files: &[(&str, &str)]) -> Result<Schema, String> {
    let load = |path: &str| {
        let found = files.iter().find(|(own, _)| *own == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "is not there".to_owned())
    };
    let (path, text) = files[0];
    Schema::compile(Source { path, text }, &load).map_err(|error| error.to_string())
}

fn check(files: &[(&str, &str)], valid: &[&str], invalid: &[&str]) {
    let schema = compile(files).unwrap_or_else(|error| panic!("{error}\n{}", files[0].1));
    for document in valid {
        let judged = validate(&schema, document);
        assert!(judged.is_ok(), "{} for {document}\n{}", judged.unwrap_err(), files[0].1);
    }
    for document in invalid {
        assert!(validate(&schema, document).is_err(), "{document}\n{}", files[0].1);
    }
}

#[test]
fn each_construct_of_the_compact_syntax_has_its_meaning() {
    let check = |text: &str, valid: &[&str], invalid: &[&str]| check(&[("s.rnc", text)], valid, invalid);
    check("element a { empty }", &["<a/>", "<a> </a>"], &["<b/>", "<a>x</a>", "<a b=''/>"]);
    check("start = a a = element a { b* } b = element b { empty }", &["<a><b/><b/></a>"], &["<a><c/></a>"]);
    check(
        "element a { (element b { empty } | element c { empty })+, element d { empty }? }",
        &["<a><b/><c/><d/></a>"],
        &["<a><d/></a>"],
    );
    check(
        "element a { element b { text } & element c { text } }",
        &["<a><b/><c/></a>", "<a><c/><b/></a>"],
        &["<a><b/></a>"],
    );
    check("element a { mixed { element b { empty }? } }", &["<a>x<b/>y</a>", "<a/>"], &["<a><b/>x<b/></a>"]);
    check("element a { attribute b { \"x\" | 'y' }?, text }", &["<a b=' x '/>", "<a>t</a>"], &["<a b='z'/>"]);
    check("element a { string \" x\" }", &["<a> x</a>"], &["<a>x</a>"]);
    check(
        "element a { xsd:int { minInclusive = \"1\" maxInclusive = \"3\" } - (\"2\") }",
        &["<a> 1</a>", "<a>3</a>"],
        &["<a>2</a>", "<a>4</a>", "<a/>"],
    );
    check("element a { list { xsd:int, token+ } }", &["<a> 1 x  y </a>"], &["<a>1</a>", "<a>x y</a>"]);
    check("element * - (a | b) { attribute * { text }* }", &["<c x='1' y=''/>"], &["<a/>", "<b/>"]);
    check(
        "namespace n = \"urn:n\" element n:* - n:b { empty }",
        &["<a xmlns='urn:n'/>"],
        &["<a/>", "<b xmlns='urn:n'/>"],
    );
    check(
        "default namespace = \"urn:d\" element a { attribute b { text } }",
        &["<a xmlns='urn:d' b=''/>"],
        &["<a b=''/>"],
    );
    check(
        "default namespace d = \"urn:d\" element a { attribute d:b { text } }",
        &["<d:a xmlns:d='urn:d' d:b=''/>"],
        &["<a xmlns='urn:d' b=''/>"],
    );
    check("element (a | b) { empty }", &["<a/>", "<b/>"], &["<c/>"]);
    check("element element { attribute text { text } }", &["<element text=''/>"], &["<element/>"]);
    check("start = \\start \\start = element \\a { empty }", &["<a/>"], &[]);
    check("element \\x{61} { \"\\x{78}\\xxx{79}\" }", &["<a>xy</a>"], &["<a>x</a>"]);
    check("element a { \"x\" ~ 'y' ~ \"\"\"z\"\"\" }", &["<a>xyz</a>"], &["<a>x</a>"]);
    check("# comment\n## doc\nelement a { ## text\n empty } # end", &["<a/>"], &[]);
    check("[ x = \"1\" e [ \"]\" ] ] element a { [y = \"2\"] empty >> f [ g [] ] }", &["<a/>"], &[]);
    check(
        "namespace x = \"urn:x\" x:doc [ \"t\" ] start = element a { empty } div { b = empty }",
        &["<a/>"],
        &[],
    );
    check(
        "grammar { start = element a { grammar { start = parent b } } b = element b { empty } }",
        &["<a><b/></a>"],
        &["<a/>"],
    );
    check("start |= element a { empty } start |= element b { empty }", &["<a/>", "<b/>"], &["<c/>"]);
    check(
        "start = element a { b } b &= element b { empty }? b &= element c { empty }?",
        &["<a><c/><b/></a>", "<a/>"],
        &["<a><c/><c/></a>"],
    );
    check(
        "namespace q = \"urn:q\" element a { xsd:QName \"q:x\" }",
        &["<a xmlns:p='urn:q'>p:x</a>"],
        &["<a>x</a>", "<a xmlns:q='urn:r'>q:x</a>"],
    );
    check(
        "datatypes t = \"http://www.w3.org/2001/XMLSchema-datatypes\" element a { t:date }",
        &["<a>2001-01-01</a>"],
        &["<a>x</a>"],
    );
    check(
        "element a { (element b { empty } | xsd:int) }",
        &["<a> <b/> </a>", "<a>1</a>"],
        &["<a>1<b/></a>", "<a/>", "<a> </a>"],
    );
    check("element a { xsd:int | empty }", &["<a> </a>", "<a/>", "<a>1</a>"], &["<a>x</a>"]);
    check("element a { attribute b { empty } }", &["<a b=' '/>"], &["<a b='x'/>", "<a/>"]);
    check(
        "element a { element b { xsd:string }, element c { \"\" } }",
        &["<a><b/><c> </c></a>"],
        &["<a><b/><c>x</c></a>"],
    );
    check("element a { text }", &["<a>x<![CDATA[y]]>&lt;</a>", "<a/>"], &["<a><a/></a>"]);
    check("notAllowed", &[], &["<a/>"]);
}

#[test]
fn a_file_takes_part_by_include_and_by_external_reference() {
    let external = "<element name='e' xmlns='http://relaxng.org/ns/structure/1.0'><empty/></element>";
    check(
        &[
            (
                "dir/s.rnc",
                "include \"inc.rnc\" { b = element b { text } } c = element c { external \"../e.rng\" }",
            ),
            ("dir/inc.rnc", "start = element a { b, c } b = element x { empty } c |= notAllowed"),
            ("e.rng", external),
        ],
        &["<a><b>x</b><c><e/></c></a>"],
        &["<a><x/><c><e/></c></a>", "<a><b/><c/></a>"],
    );
    check(
        &[("s", "default namespace = \"u\" element a { external \"e\" }"), ("e", "element b { empty }")],
        &["<a xmlns='u'><b/></a>"],
        &["<a xmlns='u'><b xmlns=''/></a>"],
    );
    check(
        &[
            ("s", "namespace n = \"n\" element a { external \"e\" inherit = n }"),
            ("e", "element b { empty }"),
        ],
        &["<a><b xmlns='n'/></a>"],
        &["<a><b/></a>"],
    );
}

#[test]
fn a_fault_of_a_schema_has_its_file_line_and_column() {
    let check = |files: &[(&str, &str)], expected: &str| {
        assert_eq!(compile(files).unwrap_err(), expected, "{}", files[0].1);
    };
    let one = |text: &str, expected: &str| check(&[("s.rnc", text)], expected);
    one("element a {\n  foo }", "s.rnc:2:3: definition \"foo\" does not exist");
    one(
        "element \\x{123456789aéé} { empty }",
        "s.rnc:1:9: escape \"\\x{123456789aé\" is not a character; write \\x{HEX}",
    );
    one("element a { empty", "s.rnc:1:18: found the end of the file; expected \"}\"");
    one(
        "element a { text | text, text }",
        "s.rnc:1:24: \",\" follows \"|\"; use parentheses to group patterns",
    );
    one(
        "element a { x:int }",
        "s.rnc:1:13: prefix \"x\" of datatypes is not declared; write: datatypes x = \"...\"",
    );
    one("element x:a { empty }", "s.rnc:1:9: prefix \"x\" is not declared; write: namespace x = \"...\"");
    one(
        "element a { xsd:integr }",
        "s.rnc:1:13: datatype \"integr\" is not known in library \"http://www.w3.org/2001/XMLSchema-datatypes\"",
    );
    one("element a { xsd:int \"x\" }", "s.rnc:1:13: \"x\" is not a value of \"int\"");
    one("element a { \"x }", "s.rnc:1:13: the literal has no end");
    one("start = a\na = b\nb = a", "s.rnc:3:5: the definition refers to itself outside of an element");
    one(
        "start = element a { empty }\nstart = element b { empty }",
        "s.rnc:2:1: \"start\" is defined twice; combine the definitions with \"|=\" or \"&=\"",
    );
    one("x = text", "s.rnc:1:1: the grammar has no start");
    one(
        "element a { attribute b { text }, attribute b { text } }",
        "s.rnc:1:35: the attribute has the name of another attribute of the same element",
    );
    one(
        "element a {\n attribute * { text } }",
        "s.rnc:2:2: an attribute with any number of names is not repeated; write \"+\" or \"*\"",
    );
    one(
        "element a { xsd:int, text }",
        "s.rnc:1:1: a value stands beside elements, text or a value; put an element or a list around it",
    );
    one("element a { text & text }", "s.rnc:1:1: text occurs in two parts of an interleave");
    one(
        "element a { element b { empty } & element b { text } }",
        "s.rnc:1:35: the element has the name of an element in another part of an interleave",
    );
    one("text", "s.rnc:1:1: \"text\" is not allowed in the start, which contains elements only");
    one("element a { list { text } }", "s.rnc:1:1: \"text\" is not allowed in a list");
    one(
        "element a { attribute xmlns { text } }",
        "s.rnc:1:13: attribute \"xmlns\" declares a namespace and cannot be part of a schema",
    );
    one(
        "element a { (attribute b { text }, empty, attribute c { text })+ }",
        "s.rnc:1:14: an attribute is not allowed in a repeated group",
    );
    check(&[("s", "element a { external \"t\" }")], "s:1:13: file \"t\": is not there");
    check(
        &[("s", "element a { external \"../t\" }")],
        "s:1:22: file \"../t\" leads out of the root; name a file below the root",
    );
    check(
        &[("s", "element a { external \"t\" }"), ("t", "element b {\n external \"s\" }")],
        "t:2:2: file \"s\" includes itself",
    );
    check(
        &[("s", "include \"t\" { x = text }"), ("t", "start = element a { text }")],
        "s:1:15: definition \"x\" overrides nothing in the included file",
    );
    check(
        &[("s", "include \"t\""), ("t", "start = element a {\n  } ")],
        "t:2:3: found \"}\"; expected a pattern",
    );
    check(
        &[(
            "s.rng",
            "<element xmlns='http://relaxng.org/ns/structure/1.0'\n name='a'>\n  <txt/>\n</element>",
        )],
        "s.rng:3:3: element \"txt\" is not a pattern",
    );
    check(
        &[("s.rng", "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>")],
        "s.rng:1:1: a DOCTYPE is not supported; delete it",
    );
}

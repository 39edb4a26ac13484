//! The datatypes, one row for each rule.

use super::{Datatype, Namespaces, XSD};

fn datatype(name: &str, parameters: &[(&str, &str)]) -> Result<Datatype, String> {
    let parameters: Vec<(String, String)> =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Datatype::new(XSD, name, &parameters)
}

fn prefixes() -> Vec<(String, String)> {
    vec![("x".to_owned(), "urn:x".to_owned()), ("z".to_owned(), "urn:x".to_owned())]
}

#[test]
fn a_type_allows_the_texts_of_its_lexical_space_and_no_others() {
    let check = |name: &str, allowed: &[&str], refused: &[&str]| {
        let datatype = datatype(name, &[]).unwrap();
        for text in allowed {
            assert!(datatype.allows(text, &prefixes()), "{name} {text:?}");
        }
        for text in refused {
            assert!(!datatype.allows(text, &prefixes()), "{name} {text:?}");
        }
    };
    check("string", &["", " a\n"], &[]);
    check("boolean", &["true", " 0 ", "1"], &["TRUE", "00", "", "01"]);
    check(
        "decimal",
        &["1.0", "1.", ".1", "+1", " -1 ", &"9".repeat(60)],
        &["", ".", "--1", "1e1", "1 .2", "+ 1"],
    );
    check("integer", &["10", "+01", "-10", &"9".repeat(60)], &["1.0", "", "+", "1-"]);
    check("nonPositiveInteger", &["-1", "0", "-0"], &["1"]);
    check("nonNegativeInteger", &["0", "+1", "-0"], &["-1"]);
    check("negativeInteger", &["-1"], &["0", "+1"]);
    check("positiveInteger", &["1"], &["0", "-1"]);
    check(
        "long",
        &["9223372036854775807", "-9223372036854775808"],
        &["9223372036854775808", &"9".repeat(60)],
    );
    check("int", &["2147483647", "-2147483648"], &["2147483648", "-2147483649"]);
    check("short", &["32767", "-32768"], &["32768"]);
    check("byte", &["127", "-128"], &["128", "-129"]);
    check("unsignedLong", &["18446744073709551615"], &["18446744073709551616", "-1"]);
    check("unsignedInt", &["4294967295"], &["4294967296"]);
    check("unsignedShort", &["65535"], &["65536"]);
    check("unsignedByte", &["255", "+0"], &["256"]);
    check(
        "float",
        &["1.0", "1.", ".1", "-1E4", "12.78e-2", "INF", "-INF", "NaN"],
        &["+INF", "inf", "- 1", "1e"],
    );
    check("double", &["1e400", " 0 "], &["1e1.5", "infinity", "nan", ""]);
    check(
        "dateTime",
        &[
            "2001-12-01T19:45:00",
            "2001-12-01T24:00:00Z",
            "-0001-01-01T00:00:00.5+14:00",
            "12001-01-01T00:00:00",
        ],
        &[
            "2001-12-1T19:45:00",
            "2001-02-29T00:00:00",
            "0000-01-01T00:00:00",
            "2001-12-01T24:00:01",
            "2001-12-01 19:45:00",
            "2001-12-01T19:45:00+14:01",
            "2001-12-01T19:45:60",
            "2001-12-01T19:45",
            "02001-01-01T00:00:00",
            "2001-12-01T19:45:00.",
        ],
    );
    check(
        "date",
        &["2000-02-29", "2001-12-01Z", "2001-12-01-05:00"],
        &["1900-02-29", "2001-13-01", "2001-12-32"],
    );
    check("time", &["12:45:00", "12:45:00.25Z"], &["12:45", "25:00:00", "12:60:00"]);
    check("gYear", &["2001", "-0044", "2001Z"], &["201", "02001"]);
    check("gYearMonth", &["2001-12"], &["2001-00", "2001"]);
    check("gMonth", &["--12", "--01--", " --12 "], &["--13", "---01", "- -13"]);
    check("gMonthDay", &["--02-29"], &["--02-30", "-02-01"]);
    check("gDay", &["---31Z"], &["---32", "--31"]);
    check(
        "duration",
        &["P1Y", "P1Y0M2DT17H5M12S", "-P60D", "PT1.2S"],
        &["P", "-P", "P1YT", "P24H", "1Y", "PT1.S", "PT.5S", "P1M1Y"],
    );
    check("hexBinary", &["", "0aF1", "\n00\n"], &["0", "0G", "00 00"]);
    check(
        "base64Binary",
        &["", "AAAA", "BA==", "BBA=", "de ad be ef"],
        &["B", "BB==", "BBB=", "B===", "===="],
    );
    check("anyURI", &["foobar", "http://a.b/c%6d", "x:y", "a/b:c"], &["f%oobar", "foo$bar:stuff", "a#b#c"]);
    check("language", &["en", "en-UK", "i-cherokee", "x-12"], &["en.UK", "123", "toolonglanguage", ""]);
    check("Name", &[":", " foo ", "_1"], &[".", "1", ""]);
    check("NCName", &["foo", "f-1"], &["foo:bar", "0foo"]);
    check("NMTOKEN", &["1234", "-", " f:o "], &["", "a b"]);
    check("NMTOKENS", &["a b", " 1 "], &["", " ", "a $"]);
    check("IDREFS", &["a b"], &["1"]);
    check("ID", &["a"], &["1"]);
    check("QName", &["foo", "x:foo", "xml:a"], &["x::foo", "y:foo", "x:", ":x"]);
}

#[test]
fn values_are_compared_in_the_value_space_of_their_type() {
    let check = |name: &str, one: &str, other: &str, expected: bool| {
        let datatype = datatype(name, &[]).unwrap();
        let value = datatype.value(one, &prefixes()).unwrap();
        assert_eq!(datatype.equals(&value, other, &prefixes()), expected, "{name} {one:?} {other:?}");
    };
    check("string", "a", " a", false);
    check("token", "a  b", "\ta b ", true);
    check("normalizedString", "a b", "a\tb", true);
    check("boolean", "true", "1", true);
    check("boolean", "true", "0", false);
    check("decimal", "1.50", "+01.5", true);
    check("decimal", "-0", "0.0", true);
    check("decimal", "1.5", "1.05", false);
    check("integer", "010", "+10", true);
    check("double", "1E0", "10e-1", true);
    check("double", "NaN", "NaN", true);
    check("float", "16777217", "16777216", true);
    check("double", "16777217", "16777216", false);
    check("dateTime", "2001-12-01T19:45:00Z", "2001-12-01T20:45:00.00+01:00", true);
    check("dateTime", "2001-12-01T19:45:00Z", "2001-12-01T19:45:00", false);
    check("dateTime", "2001-12-01T24:00:00", "2001-12-02T00:00:00", true);
    check("date", "1970-01-01", "1970-01-01Z", false);
    check("duration", "P1Y", "P001Y0M", true);
    check("duration", "P0Y", "-P0D", true);
    check("hexBinary", "0a", "0A", true);
    check("base64Binary", "deadbeef", "de ad\nbe ef", true);
    check("QName", "x:foo", "z:foo", true);
    check("QName", "x:foo", "foo", false);
    check("NMTOKENS", "a  b", "a b", true);
}

#[test]
fn a_parameter_restricts_a_type_and_an_unknown_one_is_a_fault() {
    let check = |name: &str, parameters: &[(&str, &str)], allowed: &[&str], refused: &[&str]| {
        let datatype = datatype(name, parameters).unwrap();
        for text in allowed {
            assert!(datatype.allows(text, &()), "{name} {parameters:?} {text:?}");
        }
        for text in refused {
            assert!(!datatype.allows(text, &()), "{name} {parameters:?} {text:?}");
        }
    };
    check("string", &[("length", "2")], &["ab", "\u{10800}b", " a"], &["a", "abc"]);
    check("token", &[("minLength", "1"), ("maxLength", "2")], &[" a ", "ab"], &["", " ", "abc"]);
    check("hexBinary", &[("length", "2")], &["0000"], &["00"]);
    check("NMTOKENS", &[("length", "2")], &["abc d"], &["a"]);
    check(
        "decimal",
        &[("totalDigits", "3"), ("fractionDigits", "1")],
        &["12.3", "012.30"],
        &["123.4", "1.23"],
    );
    check("decimal", &[("minInclusive", "-1"), ("maxExclusive", "2.5")], &["-1", "2.49"], &["-1.01", "2.5"]);
    check("integer", &[("minExclusive", "1"), ("maxInclusive", "3")], &["2", "3"], &["1", "4"]);
    check("date", &[("minInclusive", "2020-01-01")], &["2020-01-01"], &["2019-12-31", "2020-01-01Z"]);
    check("duration", &[("minInclusive", "P1M")], &["P32D", "P1M"], &["P28D", "P31D"]);
    check("token", &[("pattern", "[A-Z]{2}\\d+")], &["AB1", " AB12 "], &["A1", "xAB1", "AB"]);
    check("token", &[("pattern", "a|bc")], &["a", "bc"], &["ac", "abc"]);
    check("token", &[("pattern", "^$.")], &["^$a"], &["a"]);
    check("token", &[("pattern", "[a-z-[aeiou]]+")], &["xyz"], &["abc"]);
    check("token", &[("pattern", "[^a-c]")], &["d"], &["a"]);
    check("token", &[("pattern", "\\i\\c*")], &["a:b-1"], &["1a"]);
    check("token", &[("pattern", "\\p{Lu}\\P{Lu}")], &["Ab"], &["AB"]);
    check("token", &[("pattern", "\\p{IsGreek}+")], &["\u{3b1}"], &["a"]);
    check("token", &[("pattern", "[\\d\\-x]+")], &["1-x"], &["y"]);
    check("token", &[("pattern", "a+"), ("pattern", "a{2,3}")], &["aa"], &["a", "aaaa"]);
    for (name, parameter, value) in [
        ("string", "minInclusive", "a"),
        ("decimal", "length", "1"),
        ("integer", "minInclusive", "x"),
        ("string", "length", "-1"),
        ("string", "enumeration", "a"),
        ("string", "whiteSpace", "collapse"),
        ("decimal", "totalDigits", "0"),
        ("token", "pattern", "a**"),
        ("token", "pattern", "("),
        ("token", "pattern", "[z-a]"),
        ("token", "pattern", "(?:a)"),
        ("token", "pattern", "\\p{IsNowhere}"),
        ("token", "pattern", "(((a{1,999}){1,999}){1,999})"),
    ] {
        assert!(datatype(name, &[(parameter, value)]).is_err(), "{name} {parameter} {value}");
    }
}

#[test]
fn a_type_that_is_not_known_is_a_fault() {
    assert!(datatype("decimals", &[]).is_err());
    assert!(Datatype::new("urn:x", "string", &[]).is_err());
    assert!(Datatype::new("", "integer", &[]).is_err());
    assert!(Datatype::new("", "token", &[("length".to_owned(), "1".to_owned())]).is_err());
}

#[test]
fn a_prefix_that_is_not_declared_has_no_namespace() {
    assert_eq!(().namespace("x"), None);
    assert_eq!(prefixes().namespace("x"), Some("urn:x"));
}

//! Tests of `tollgate.json`, and of `json` in replies.

use crate::app::App;

#[test]
fn values_are_encoded_by_the_rules() {
    let app = App::new();
    let check = |value: &str, expect: &str| {
        assert_eq!(app.text(&format!("return {{ json = {value} }}")), expect, "{value}");
        assert_eq!(app.text(&format!("return tollgate.json.encode({value})")), expect, "{value}");
    };
    check("1.0", "1");
    check("-0", "0");
    check("1.5", "1.5");
    check("2^53", "9007199254740992");
    check("1e300", "1e+300");
    check("0.1", "0.1");
    check("false", "false");
    check("tollgate.json.null", "null");
    check("integer.fromstring('-9223372036854775808')", "-9223372036854775808");
    check("integer.fromstring('9223372036854775807')", "9223372036854775807");
    check("{}", "{}");
    check("tollgate.json.array({})", "[]");
    check("tollgate.json.array()", "[]");
    check("tollgate.json.array({ 1 })", "[1]");
    check("{ 1, 'two', { 3 } }", r#"[1,"two",[3]]"#);
    check("{ [2] = 'b', [1] = 'a' }", r#"["a","b"]"#);
    check("{ c = 1, a = { z = 1, y = 2 }, b = 3 }", r#"{"a":{"y":2,"z":1},"b":3,"c":1}"#);
    check("'\"\\\\/\\n\\1 \u{e4}'", "\"\\\"\\\\/\\n\\u0001 \u{e4}\"");
}

#[test]
fn a_text_is_escaped_alike_whatever_its_length() {
    let app = App::new();
    let bytes = [
        ("\\\"", "\\\""),
        ("\\\\", "\\\\"),
        ("\\31", "\\u001f"),
        ("\\127", "\x7f"),
        ("~ !", "~ !"),
        ("\u{e4}", "\u{e4}"),
    ];
    for before in [0, 1, 30, 31, 32, 33, 70].map(|count| "a".repeat(count)) {
        for (byte, expect) in bytes {
            let text = app.text(&format!("return {{ json = {{ ['{before}{byte}z'] = '{before}{byte}' }} }}"));
            assert_eq!(text, format!("{{\"{before}{expect}z\":\"{before}{expect}\"}}"), "{byte:?}");
        }
    }
}

#[test]
fn a_value_without_a_form_in_json_is_an_error_that_names_the_path() {
    let app = App::new();
    let check = |value: &str, part: &str| {
        let error = app.error(&format!("return {{ json = {value} }}"));
        assert!(error.contains(part), "{value}: {error}");
    };
    check("{ 1, x = 2 }", "a table with both list keys and the key \"x\"");
    check("{ x = 2, [1] = 1 }", "both list keys and the key \"x\"");
    check("{ [3] = 1 }", "key 3");
    check("{ [0.5] = 1 }", "key 0.5");
    check("{ [true] = 1 }", "boolean");
    check("{ a = math.huge }", "reply.json.a: inf");
    check("vector.create(1, 2, 3)", "vector");
    check("(function() local t = {} t.t = t return t end)()", "nested deeper than 128");
    check("(function() local t = {} for i = 1, 40 do t = { t, t } end return t end)()", "limit");
}

#[test]
fn text_is_decoded_by_the_rules() {
    let app = App::new();
    let check = |text: &str, expression: &str| {
        let body = format!("local v = tollgate.json.decode([==[{text}]==]) return tostring({expression})");
        assert_eq!(app.text(&body), "true", "{text}: {expression}");
    };
    check("1", "v == 1");
    check(" -1.5e2 ", "v == -150");
    check("-0", "v == 0");
    check("null", "v == tollgate.json.null");
    check("\u{feff}5", "v == 5");
    check("\u{feff} [1]", "v[1] == 1");
    check("[]", "#v == 0 and tollgate.json.encode(v) == '[]'");
    check("{}", "tollgate.json.encode(v) == '{}'");
    check("[1,[2,{\"a\":true}]]", "v[2][2].a == true");
    check("{\"a\":1,\"a\":2}", "v.a == 2");
    check(r#""\u00e4\ud83d\ude00\n\/""#, "v == '\u{e4}\u{1f600}\\n/'");
    check("[9007199254740992]", "type(v[1]) == 'number'");
    check(
        "[9007199254740993]",
        "type(v[1]) == 'integer' and tollgate.json.encode(v) == '[9007199254740993]'",
    );
    check("{\"a\":-9223372036854775808}", "tollgate.json.encode(v) == '{\"a\":-9223372036854775808}'");
}

#[test]
fn one_bad_value_spoils_no_other() {
    let app = App::new();
    let check = |text: &str, expression: &str| {
        let body = format!("local v = tollgate.json.decode({text}) return tostring({expression})");
        assert_eq!(app.text(&body), "true", "{text}: {expression}");
    };
    check(
        r#"'["a\\ud83d","\\ude00b","\\ud83d\\ud83d\\ude00"]'"#,
        "v[1] == 'a\u{FFFD}' and v[2] == '\u{FFFD}b'",
    );
    check(
        r#"'["\\ud83d\\ud83d\\ude00","\\ud83d\\u00e9"]'"#,
        "v[1] == '\u{FFFD}\u{1F600}' and v[2] == '\u{FFFD}\u{E9}'",
    );
    check(r#"'{"a\255":"Zo\235","b":"\u{E9}"}'"#, "v['a\u{FFFD}'] == 'Zo\u{FFFD}' and v.b == '\u{E9}'");
    check("'[18446744073709551615, -9223372036854775809]'", "v[1] == 2^64 and v[2] == -2^63");
    check("'\\u{FEFF}{\"a\":1}'", "v.a == 1");
    check(
        "tollgate.json.encode({ a = 'Zo\\235', ['\\255'] = 1 })",
        "v.a == 'Zo\\u{FFFD}' and v['\\u{FFFD}'] == 1",
    );
}

#[test]
fn text_that_is_no_json_gives_nil_and_the_byte() {
    let app = App::new();
    let check = |text: &str, expect: &str| {
        let body = format!("local v, why = tollgate.json.decode({text}) return `{{v}}: {{why}}`");
        assert_eq!(app.text(&body), format!("nil: {expect}"), "{text}");
    };
    check("''", "text ends where a value is expected at byte 1");
    check("'[1,]'", "expected a value at byte 4");
    check("'\\239\\187\\191[1,]'", "expected a value at byte 7");
    check("'\\239\\187\\191'", "text ends where a value is expected at byte 4");
    check("'[1 2]'", "expected ',' or ']' at byte 4");
    check("'{1:2}'", "expected a key in double quotes at byte 2");
    check("'01'", "text continues after the value at byte 2");
    check("'1.'", "expected a digit at byte 3");
    check("'NaN'", "expected a value at byte 1");
    check("'nul'", "expected a value at byte 1");
    check("'\"a'", "string does not end at byte 3");
    check("'\"\\n\"'", "control character in a string at byte 2");
    check("'1e999'", "number exceeds a 64-bit float at byte 6");
    check("('['):rep(200)", "values are nested deeper than 128 at byte 129");
}

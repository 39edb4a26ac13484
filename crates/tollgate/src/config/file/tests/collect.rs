//! `collect` as a table, nested fields, and values of envelopes.

use super::*;

const ROUTE: &str = "[[route]]\npath = \"/c\"\nstream = \"scores\"\n";

fn check_table(table: &str, expected: &[&str]) {
    check(&format!("{SCORES}{ROUTE}collect = {table}\n"), expected);
}

#[test]
fn faults_of_the_table_are_told() {
    check_table("{}", &[]);
    check_table(
        "\"x\"",
        &["t.toml:6:11: collect in [[route]] is the string \"x\", allowed is true or a table { ... }"],
    );
    check_table(
        "{ item = \"a\" }",
        &["t.toml:6:13: unknown key \"item\" in collect, did you mean \"items\"?"],
    );
    check_table(
        "{ types = [\"json\", \"a/b; q=1\"], items = \"\", base64 = \"/a~2\" }",
        &[
            "t.toml:6:22: types in collect has \"json\", allowed is a list of media types, \"type/*\", \"*/*\", \"default\", \"xml\", \"none\"",
            "t.toml:6:30: types in collect has \"a/b; q=1\", allowed is a list of media types, \"type/*\", \"*/*\", \"default\", \"xml\", \"none\"",
            "t.toml:6:51: items in collect is \"\": the name of a field is empty",
            "t.toml:6:64: base64 in collect is \"/a~2\": ~ stands only before 0 or 1 in a JSON Pointer (RFC 6901)",
        ],
    );
    check_table("{ types = [] }", &["t.toml:6:21: types in collect is empty: no request would be accepted"]);
    check_table(
        "{ reply = \"gif\", body = \"x\", status = 404 }",
        &[
            "t.toml:6:35: body in collect has no effect with this reply: remove it",
            "t.toml:6:49: status in collect is 404, allowed is an integer from 200 to 299",
        ],
    );
    check_table("{ reply = \"echo\" }", &["t.toml:6:11: missing key \"echo\" in collect"]);
    check_table(
        "{ status = 204 }",
        &["t.toml:6:22: status in collect is 204, allowed with content are others: set reply = \"empty\""],
    );
}

#[test]
fn the_table_is_printed_with_every_key_that_has_an_effect() {
    let check = |table: &str, expected: &str| {
        let config = load(&format!("{SCORES}{ROUTE}collect = {table}\n")).unwrap().to_string();
        let line = config.lines().find_map(|line| line.strip_prefix("collect = ")).unwrap();
        assert_eq!(line, expected);
        let again = load(&format!("{SCORES}{ROUTE}collect = {line}\n")).unwrap().to_string();
        assert_eq!(again.lines().find_map(|line| line.strip_prefix("collect = ")), Some(expected));
    };
    check("true", r#"{ types = ["default"], reply = "summary", status = 200 }"#);
    check(
        r#"{ reply = "empty", items = "/a/b" }"#,
        r#"{ types = ["default"], items = "/a/b", reply = "empty", status = 204 }"#,
    );
    check(
        r#"{ body = "{}" }"#,
        r#"{ types = ["default"], reply = "body", status = 200, body = "{}", content_type = "application/json" }"#,
    );
    check(
        r#"{ types = ["*/*"], echo = ["id", "/a.b"] }"#,
        r#"{ types = ["*/*"], reply = "echo", status = 200, echo = ["id", "/a.b"] }"#,
    );
}

fn stream(column: &str) -> String {
    format!("[stream.scores]\ncolumns = [{{ name = \"n\", type = \"int\", from = \"{column}\" }}]\n")
}

#[test]
fn values_of_an_envelope_need_a_route_with_items() {
    let with = |collect: &str| format!("{}{ROUTE}collect = {collect}\n", stream("envelope./a/b"));
    check(&with("{ items = \"batch\" }"), &[]);
    let fault = "t.toml:1:9: [stream.scores] keeps envelope./a/b, but no route of the stream has collect = { items = \"...\" }";
    check(&with("true"), &[fault]);
}

#[test]
fn a_column_shows_no_nested_field_that_another_one_redacts() {
    let columns = |shown: &str| {
        format!(
            "[stream.s]\ncolumns = [{{ name = \"a\", type = \"json\", from = \"{shown}\" }}, {{ name = \"b\", \
             type = \"text\", from = \"record./a/b\", redact = \"drop\" }}]\n"
        )
    };
    let fault = |shown: &str| {
        format!(
            "t.toml:2:12: column \"a\" keeps {shown}, which reveals the value that column \"b\" redacts: redact \
             it too, or remove it"
        )
    };
    check(&columns("record.a"), &[&fault("record.a")]);
    check(&columns("record./a/b"), &[&fault("record./a/b")]);
    check(&columns("record./a/c"), &[]);
}

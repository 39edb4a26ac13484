//! `validate` of a route.

use super::*;

const ROUTE: &str = "[[route]]\npath = \"/v\"\nreply = {}\n";

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("order.rnc", "include \"parts.rnc\"");
    write("parts.rnc", "start = element order { empty }");
    write(
        "order.rng",
        "<element name='order' xmlns='http://relaxng.org/ns/structure/1.0'><empty/></element>",
    );
    write("broken.rnc", "start = element order {\n  attribute }\n");
    write("above.rnc", "include \"../secret.rnc\"");
    write("includes.rnc", "include \"broken.rnc\"");
    dir
}

/// Returns the faults of a configuration, without the path of the folder.
fn faults(text: &str) -> Vec<String> {
    let dir = folder();
    let config = resolve(&dir.path().join("t.toml"), text, &env);
    let shown = |fault: &Fault| fault.to_string().replace(&format!("{}/", dir.path().display()), "");
    config.err().map_or_else(Vec::new, |error| error.faults.iter().map(shown).collect())
}

#[test]
fn schemas_of_both_syntaxes_are_read_from_the_folder() {
    for table in [
        "{ request = \"order.rnc\" }",
        "{ reply = \"order.rng\", mode = \"stream\" }",
        "{ request = \"./order.rnc\", reply = \"order.rnc\", mode = \"report\" }",
    ] {
        assert_eq!(faults(&format!("{ROUTE}validate = {table}\n")), Vec::<String>::new(), "{table}");
    }
}

#[test]
fn faults_of_validate_and_of_its_schemas_are_told_with_their_place() {
    let check = |table: &str, expected: &str| {
        let found = faults(&format!("{ROUTE}validate = {table}\n"));
        assert!(found.len() == 1 && found[0].starts_with(expected), "{table}: {found:#?}");
    };
    check("{}", "t.toml:4:12: validate has neither request nor reply");
    check(
        "{ request = \"absent.rnc\" }",
        "t.toml:4:24: request in validate is \"absent.rnc\", which cannot be read",
    );
    check("{ reply = \"../t.rnc\" }", "t.toml:4:22: reply in validate is \"../t.rnc\", which ");
    check(
        "{ request = \"order.rnc\", mode = \"all\" }",
        "t.toml:4:44: mode in validate of [[route]] is \"all\"",
    );
    check("{ request = \"broken.rnc\" }", "broken.rnc:2:13: ");
    check("{ request = \"includes.rnc\" }", "broken.rnc:2:13: ");
    check("{ request = \"above.rnc\" }", "above.rnc:1:");
}

#[test]
fn handlers_without_replies_of_their_own_have_no_schema_of_replies() {
    let route = |handler: &str, validate: &str| {
        let stream = "[stream.s]\ncolumns = [{ name = \"a\", type = \"int\" }]\n";
        faults(&format!("{stream}[[route]]\npath = \"/v/*\"\n{handler}\nvalidate = {validate}\n"))
    };
    let collect = "collect = true\nstream = \"s\"";
    assert_eq!(route(collect, "{ request = \"order.rnc\" }"), Vec::<String>::new());
    assert!(
        route(collect, "{ reply = \"order.rnc\" }")[0]
            .contains("reply in validate is not allowed with collect")
    );
    let found = route("files = \"pub\"", "{ request = \"order.rnc\" }");
    assert!(found.iter().any(|fault| fault.contains("validate is not allowed with files")), "{found:?}");
}

//! `when`, `otherwise` and `look_ahead` of a route.

use super::*;

const BACKENDS: &str =
    "[backend.a]\nurls = [\"http://127.0.0.1:1\"]\n[backend.b]\nurls = [\"http://127.0.0.1:2\"]\n";
const ROUTE: &str = "[[route]]\npath = \"/w\"\n";

fn check_when(keys: &str, expected: &[&str]) {
    check(&format!("{BACKENDS}{ROUTE}{keys}\n"), expected);
}

#[test]
fn faults_of_rules_are_told() {
    check_when("when = [{ json = \"a\", proxy = \"a\" }]\notherwise = { status = 422 }", &[]);
    check_when(
        "when = []\notherwise = { status = 422 }",
        &["t.toml:7:8: when in [[route]] has no rules: add one, or use another handler"],
    );
    check_when(
        "when = [{ json = \"a\", proxy = \"a\" }]",
        &["t.toml:5:1: missing key \"otherwise\" in [[route]]: when needs the handler of all other requests"],
    );
    check_when(
        "reply = {}\nlook_ahead = \"1KiB\"\notherwise = {}",
        &[
            "t.toml:8:14: look_ahead in [[route]] has no effect without when: remove it",
            "t.toml:9:13: otherwise in [[route]] has no effect without when: remove it",
        ],
    );
    check_when(
        "look_ahead = \"2MiB\"\nwhen = [{ proxy = \"a\" }, { header = \"a b\", json = \"/a = b\", status \
         = 200, proxy = \"a\" }, \
         { json = \"/~\", body = \"x\" }]\notherwise = { json = \"a\", status = 600 }",
        &[
            "t.toml:7:14: look_ahead in [[route]] is \"2MiB\", allowed is a size from 1KiB to 1MiB like \
             \"64MiB\", units B, KiB, MiB, GiB",
            "t.toml:8:9: a rule of when has no condition: add header, json or xml",
            "t.toml:8:26: when of [[route]] needs one handler, found proxy and status, allowed is one of \
             proxy, status",
            "t.toml:8:37: header in when is \"a b\", allowed is the name of a header",
            "t.toml:8:51: json in when is \"/a = b\": the text after = is not in quotes: write 'text'",
            "t.toml:8:90: when of [[route]] needs one handler, found none, allowed is one of proxy, status",
            "t.toml:8:99: json in when is \"/~\": ~ stands only before 0 or 1 in a JSON Pointer (RFC 6901)",
            "t.toml:9:15: unknown key \"json\" in otherwise of [[route]], allowed: proxy, status, \
             content_type, body",
            "t.toml:9:36: status in otherwise of [[route]] is 600, allowed is an integer from 200 to 599",
        ],
    );
}

#[test]
fn faults_of_paths_of_xml_are_told() {
    let keys = |path: &str| {
        let rules = format!("when = [{{ xml = \"{path}\", status = 200 }}]");
        format!("namespaces = {{ p = \"urn:p\" }}\n{rules}\notherwise = {{ status = 422 }}")
    };
    check_when(&keys("/p:a[@b = 'x']//c/@d"), &[]);
    let check = |path: &str, problem: &str| {
        check_when(&keys(path), &[&format!("t.toml:8:17: xml in when is {path:?}: {problem}")]);
    };
    check("a/b", "at byte 1: a path that does not begin with / and the name of an element");
    check("/q:a", "at byte 2: the prefix q has no namespace: add it to the namespaces");
}

#[test]
fn columns_of_the_look_ahead_need_a_route_with_when_and_its_namespaces() {
    let stream = |path: &str| {
        format!("[stream.s]\ncolumns = [{{ name = \"id\", type = \"text\", from = \"xml:{path}\" }}]\n")
    };
    let route = "[[route]]\npath = \"/\"\nmethods = [\"POST\"]\nstream = \"s\"\n";
    let when = "namespaces = { p = \"urn:p\" }\nwhen = [{ header = \"A\", status = 204 }]\n\
                otherwise = { status = 422 }\n";
    let check = |path: &str, handler: &str, faults: &[&str]| {
        let text = [&stream(path), route, handler].concat();
        let found = load(&text).map(|_| ()).map_err(|error| error.to_string());
        match (found, faults) {
            (Ok(()), []) => {}
            (Err(found), [fault]) => assert!(found.contains(fault), "{found}"),
            (found, _) => panic!("{path}: {found:?}"),
        }
    };
    check("/p:a/@id", when, &[]);
    check(
        "/a/@id",
        "reply = { status = 200 }\n",
        &["[stream.s] keeps xml:/a/@id, but no route of the stream has when"],
    );
    check("/q:a", when, &["[stream.s] keeps xml:/q:a: at byte 2: the prefix q has no namespace"]);
    check("/a/b[2]", when, &["[stream.s] keeps xml:/a/b[2]: at byte 6: a position other than 1"]);
    check("@id", when, &["[stream.s] keeps xml:@id, but no route of the stream has collect"]);
}

#[test]
fn backends_of_one_route_take_the_same_requests() {
    check_when(
        "when = [{ json = \"a\", proxy = { backend = \"a\", encoded_slashes = \"pass\" } }]\notherwise = \
         { proxy = \"b\" }",
        &["t.toml:7:8: when in [[route]] has proxies that differ in extension_methods or \
           encoded_slashes: both are checked before a rule decides, so they have to be the same"],
    );
}

#[test]
fn rules_are_printed_as_they_are_written() {
    let text = "when = [{ header = \"A != 'x'\", json = [\"/b/c\", \"d = 'it'\"], status = 204 \
     }]\notherwise = { proxy = \"b\" }\n";
    let printed = |text: &str| load(&format!("{BACKENDS}{ROUTE}{text}")).unwrap().to_string();
    let once = printed(text);
    let line = |name: &str| once.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    assert!(
        line("when = ")
            .starts_with("[{ header = [\"A != 'x'\"], json = [\"/b/c\", \"d = 'it'\"], status = 204, "),
        "{once}"
    );
    assert_eq!(line("look_ahead = "), "\"64KiB\"");
    let again =
        ["when", "otherwise", "look_ahead"].map(|key| format!("{key} = {}\n", line(&format!("{key} = "))));
    let route =
        |text: &str| text.split_once("[[route]]").unwrap().1.split_once("[load]").unwrap().0.to_owned();
    assert_eq!(route(&printed(&again.concat())), route(&once));
}

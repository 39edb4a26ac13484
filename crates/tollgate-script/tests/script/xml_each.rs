//! Tests of `req:xml_each`: elements of a body in memory. The tests of the server have bodies in files.

use tollgate_script::{CallError, HostOptions, Outcome};

use crate::app::{App, finish, handler_of, request, text};

/// Begins a body that encodes each element, with `|` after it.
fn listing(arguments: &str) -> String {
    format!(
        "local seen = ''
        for element in req:xml_each({arguments}) do seen ..= tollgate.xml.encode(element) .. '|' end
        return seen"
    )
}

fn post(app: &App, script: &str, body: &[u8]) -> Result<Outcome, CallError> {
    let head = "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n";
    finish(app.handler(&handler_of(script)).call(request(head, body)))
}

fn check(arguments: &str, body: &str, expect: &str) {
    let outcome = post(&App::new(), &listing(arguments), body.as_bytes());
    let outcome = outcome.unwrap_or_else(|error| panic!("{arguments}: {error}"));
    assert_eq!(text(&outcome), expect, "{arguments}");
}

/// Returns the status and the reason of the reply to a fault of the client.
fn refusal(app: &App, arguments: &str, body: &[u8]) -> (u16, String) {
    match post(app, &listing(arguments), body) {
        Err(CallError::Refused { status, reason }) => (status, reason),
        other => panic!("{arguments}: {other:?}"),
    }
}

#[test]
fn each_element_at_the_path_comes_as_a_table_in_the_order_of_the_body() {
    let body = "<orders x='1'>\n <order id='1'><l>a &lt; b</l></order>\n <other><order id='2'/></other>\n \
                <order id='3' xmlns:p='urn:p'>t<p:a p:b='&amp;'/><![CDATA[<]]>u</order>\n</orders>";
    check(
        "'/orders/order'",
        body,
        "<order id=\"1\"><l>a &lt; b</l></order>|\
         <order id=\"3\" xmlns:p=\"urn:p\">t<p:a p:b=\"&amp;\"/>&lt;u</order>|",
    );
    check("'//order[@id = \"2\"]'", body, "<order id=\"2\"/>|");
    check("'/orders/*[1]'", body, "<order id=\"1\"><l>a &lt; b</l></order>|");
    check("'/none'", body, "");
    check("'/a'", "<a> <b/> <c> </c> </a>", "<a><b/><c> </c></a>|");
    check("'//a'", "<a><a><a/></a></a>", "<a><a><a/></a></a>|");
}

#[test]
fn an_element_of_xml_each_is_what_decode_makes_of_its_text() {
    let script = "local function same(a, b)
            if type(a) ~= 'table' then return a == b end
            for key, value in a do if not same(value, b[key]) then return false end end
            for key in b do if a[key] == nil then return false end end
            return true
        end
        for element in req:xml_each('//*') do
            return tostring(same(element, tollgate.xml.decode(req:body())))
        end";
    for body in [
        "<a/>",
        "<a b='1' xmlns='urn:a' xmlns:q='urn:q' q:c='2'>x<q:d/>y</a>",
        "<a> <b> </b>\r\n<!-- c --><c>1<?p q?>2</c> </a>",
        "<a>&#x1F600;<![CDATA[ ]]></a>",
    ] {
        let outcome = post(&App::new(), script, body.as_bytes()).unwrap();
        assert_eq!(text(&outcome), "true", "{body}");
    }
}

#[test]
fn namespaces_are_those_of_the_options() {
    let body = "<o:orders xmlns:o='urn:o'><x:order xmlns:x='urn:o' id='1'/><order id='2'/></o:orders>";
    check(
        "'/p:orders/p:order', { namespaces = { p = 'urn:o' } }",
        body,
        "<x:order id=\"1\" xmlns:x=\"urn:o\"/>|",
    );
    let app = App::new();
    let fault = |arguments: &str| post(&app, &listing(arguments), b"<a/>").unwrap_err().to_string();
    assert!(fault("'/p:a'").contains("the prefix p has no namespace"));
    assert!(fault("'/a/@b'").contains("the path of req:xml_each: the path does not lead to elements"));
    assert!(fault("'/a', { name_spaces = {} }").contains("did you mean \"namespaces\"?"));
    assert!(fault("'/a', { bytes_max = 0 }").contains("bytes_max of req:xml_each is 0"));
    assert!(fault("'/a', { namespaces = { p = 1 } }").contains("a part of namespaces"));
    assert!(fault("7").contains("the path of req:xml_each is a number"));
}

#[test]
fn elements_do_not_depend_on_where_the_blocks_of_a_body_end() {
    let elements = "<order id='1'><n>\u{e9} &amp; x</n></order><order id=\"2\">]]<![CDATA[>]]></order>";
    let expect = "<order id=\"1\"><n>\u{e9} &amp; x</n></order>|<order id=\"2\">]]&gt;</order>|";
    let app = App::new();
    let handler = app.handler(&handler_of(&listing("'/orders/order'")));
    for place in 0..elements.len() {
        let head = "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n";
        // The first block ends within the elements, `place` bytes after their start.
        let padding = " ".repeat((32 << 10) - "<orders>".len() - place);
        let body = format!("<orders>{padding}{elements}</orders>");
        let outcome = finish(handler.call(request(head, body.as_bytes()))).unwrap();
        assert_eq!(text(&outcome), expect, "{place}");
    }
}

#[test]
fn a_malformed_body_ends_the_call_with_400_after_the_elements_before_the_fault() {
    let app = App::new();
    for (body, reason) in [
        ("<a><b/><c></a>", "in /a/c"),
        ("<a><b/>", "text ends inside an element"),
        ("", "no root element"),
        ("<!DOCTYPE a><a/>", "DOCTYPE"),
        ("{}", "text outside the root element"),
    ] {
        let (status, found) = refusal(&app, "'/a/b'", body.as_bytes());
        assert_eq!(status, 400, "{body}");
        assert!(found.starts_with("the body is not XML: ") && found.contains(reason), "{found}");
    }
    let script = "local seen = 0
        local ok, problem = pcall(function() for _ in req:xml_each('/a/b') do seen += 1 end end)
        return `{seen} {ok} {problem}`";
    let caught = text(&post(&app, script, b"<a><b/><b/><c></a>").unwrap());
    assert!(caught.starts_with("2 false ") && caught.contains("the body is not XML"), "{caught}");
}

#[test]
fn an_element_longer_than_bytes_max_ends_the_call_with_413() {
    let app = App::new();
    // `<b c="1">xy</b>` has 15 bytes. References and white space in tags do not count as written.
    let body = b"<a><long>not in an element at the path</long><b  c = '1' >x&#121;</b ></a>";
    let outcome = post(&app, &listing("'/a/b', { bytes_max = 15 }"), body).unwrap();
    assert_eq!(text(&outcome), "<b c=\"1\">xy</b>|");
    let (status, reason) = refusal(&app, "'/a/b', { bytes_max = 14 }", body);
    assert_eq!(status, 413);
    assert!(reason.contains("an element at byte") && reason.contains("limit 14 bytes"), "{reason}");
    let long = format!("<a><b>{}</b></a>", "x".repeat(64 << 10));
    assert_eq!(refusal(&app, "'/a/b'", long.as_bytes()).0, 413, "the default is 64 KiB");
    let deep = "<a>".repeat(129);
    assert_eq!(refusal(&app, "'/none'", deep.as_bytes()).0, 413, "the depth is a limit, too");
}

#[test]
fn a_body_is_read_once_and_only_in_its_own_call() {
    let app = App::new();
    let twice = "req:xml_each('/a') req:xml_each('/a')";
    assert!(post(&app, twice, b"<a/>").unwrap_err().to_string().contains("a body is read once"));
    let handler = app.handler(
        "local kept
        return function(req)
            kept = kept or req:xml_each('/a/b')
            kept()
            return 204
        end",
    );
    let call = || {
        let head = "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n";
        finish(handler.call(request(head, b"<a><b/><b/></a>")))
    };
    assert!(call().is_ok());
    assert!(call().unwrap_err().to_string().contains("these elements belong to another call"));
}

#[test]
fn the_memory_of_the_call_bounds_an_element_and_not_the_body() {
    let app = App::with(HostOptions { memory_bytes_max: 1 << 20, ..HostOptions::default() });
    let element = format!("<b>{}</b>", "x".repeat(30_000));
    let body = format!("<a>{}</a>", element.repeat(200));
    let count = "local seen = 0 for _ in req:xml_each('/a/b') do seen += 1 end return tostring(seen)";
    assert_eq!(text(&post(&app, count, body.as_bytes()).unwrap()), "200");
    let many = format!("<a><b>{}</b></a>", "<c/>".repeat(20_000));
    let error = post(&app, &listing("'/a/b', { bytes_max = 1000000 }"), many.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("script exceeds its memory"), "{error}");
}

//! Tests of `tollgate.xml`, of `xml` in replies, and of `req:xml()`.

use tollgate_script::{ContentType, Doctype, HostOptions};

use crate::app::{App, fields, finish, get, handler_of, request, text};

#[test]
fn elements_are_written_and_nothing_becomes_markup() {
    let app = App::new();
    let check = |value: &str, expect: &str| {
        assert_eq!(app.text(&format!("return tollgate.xml.encode({value})")), expect, "{value}");
        let outcome = app.run(&format!("return {{ xml = {value} }}")).unwrap();
        let declared = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{expect}");
        assert_eq!((text(&outcome), outcome.content_type), (declared, Some(ContentType::Xml)), "{value}");
    };
    check("{ tag = 'a' }", "<a/>");
    check("{ tag = 'a', attr = {} }", "<a/>");
    check("{ tag = 'a', 'Zo\\235' }", "<a>Zo\u{fffd}</a>");
    check("{ tag = 'a', attr = { z = 1, b = true, id = 'x' }, 'y' }", "<a b=\"true\" id=\"x\" z=\"1\">y</a>");
    check("{ tag = 'a', 'b & <c>', { tag = 'd' }, 1.5, -0, true }", "<a>b &amp; &lt;c&gt;<d/>1.50true</a>");
    check("{ tag = 'a', ']]>', '\\r\\n\\t\"\\'' }", "<a>]]&gt;&#13;\n\t\"'</a>");
    check(
        "{ tag = 'a', attr = { b = '\\r\\n\\t\"\\'<&>' } }",
        "<a b=\"&#13;&#10;&#9;&quot;&#39;&lt;&amp;&gt;\"/>",
    );
    check("{ tag = 'a', { { tag = 'b' }, 'x', {} }, buffer.fromstring('y') }", "<a><b/>xy</a>");
    check(
        "{ tag = 's:a', attr = { ['xmlns:s'] = 'urn:s' }, integer.fromstring('9007199254740993') }",
        "<s:a xmlns:s=\"urn:s\">9007199254740993</s:a>",
    );
    check("{ tag = '\u{e9}t\u{e9}', '\u{1f600}' }", "<\u{e9}t\u{e9}>\u{1f600}</\u{e9}t\u{e9}>");
    assert_eq!(
        app.text("return tollgate.xml.escape('<a href=\"x\" b=\\'c\\'>&\\n')"),
        "&lt;a href=&quot;x&quot; b=&#39;c&#39;&gt;&amp;&#10;"
    );
}

#[test]
fn a_value_without_a_form_in_xml_is_an_error_that_names_the_path() {
    let app = App::with(HostOptions { reply_bytes_max: 1000, ..HostOptions::default() });
    let check = |value: &str, part: &str| {
        let error = app.error(&format!("return {{ xml = {value} }}"));
        assert!(error.contains(part), "{value}: {error}");
        let error = app.error(&format!("return tollgate.xml.encode({value})"));
        assert!(error.contains(&part.replace("reply.xml", "value")), "{value}: {error}");
    };
    check("'<a/>'", "reply.xml: a string is not an element: allowed is a table with a tag");
    check("{ 'a' }", "reply.xml: has no tag");
    check("{ tag = 'a b' }", "reply.xml.tag: \"a b\" is not an XML name");
    check("{ tag = 'a', attr = { ['x y'] = 1 } }", "reply.xml.attr: \"x y\" is not an XML name");
    check("{ tag = 'a', attr = { x = {} } }", "reply.xml.attr.x: a table cannot be encoded as XML");
    check("{ tag = 'a', attr = 'x' }", "reply.xml.attr: a string: allowed is a table");
    check("{ tag = 'a', atr = {} }", "reply.xml: an element has an unknown field \"atr\"");
    check("{ tag = 'a', 'x', { tag = 'b', '\\0' } }", "reply.xml[2][1]: text has U+0000 at byte 1");
    check("{ tag = 'a', 0 / 0 }", "cannot be encoded as XML");
    check("{ tag = 'a', tollgate.json.null }", "cannot be encoded as XML");
    check("{ tag = 'a', [3] = 'x' }", "hole");
    check("{ tag = 'a', { attr = { x = 1 } } }", "attributes without a tag");
    check("(function() local t = { tag = 'a' } t[1] = t return t end)()", "nested deeper than 128");
    check("{ tag = 'a', ('x'):rep(2000) }", "XML exceeds limit: 1000 bytes");
    check(
        "{ tag = 'a', attr = { a = ('x'):rep(600), b = ('x'):rep(600) } }",
        "XML exceeds limit: 1000 bytes",
    );
    check("{ tag = 'a', ('&'):rep(900) }", "XML exceeds limit: 1000 bytes");
}

#[test]
fn text_is_decoded_by_the_rules() {
    let app = App::new();
    let check = |text: &str, expect: &str| {
        let json = format!(
            "{PLAIN} local v, why = tollgate.xml.decode([==[{text}]==]) return tollgate.json.encode(v and plain(v) or why)"
        );
        assert_eq!(app.text(&json), expect, "{text}");
    };
    check("<a/>", r#"["a",{},[]]"#);
    check(
        "<?xml version=\"1.0\" encoding='utf-8' standalone=\"yes\"?><!-- x --><?p q?>\n<a></a >\n<!-- y -->",
        r#"["a",{},[]]"#,
    );
    check("<a b=\"1\" c = '2&amp;&#x41;&#66;\t\n'/>", r#"["a",{"b":"1","c":"2&AB  "},[]]"#);
    check("<a>x &lt;&#233;<![CDATA[<&]]>\r\ny\rz</a>", "[\"a\",{},[\"x <\u{e9}<&\\ny\\nz\"]]");
    check("<a>\n  <b>1</b>\n  <b> </b>\n</a>", r#"["a",{},[["b",{},["1"]],["b",{},[" "]]]]"#);
    check("<p>a <b>c</b> <i>d</i></p>", r#"["p",{},["a ",["b",{},["c"]]," ",["i",{},["d"]]]]"#);
    check("<a>x<!-- no -->y</a>", r#"["a",{},["xy"]]"#);
    check("<s:a xmlns:s=\"urn:s\"><s:b/></s:a>", r#"["s:a",{"xmlns:s":"urn:s"},[["s:b",{},[]]]]"#);
    check("\u{feff}<a/>", r#"["a",{},[]]"#);
    check("<a b='>'/>", r#"["a",{"b":">"},[]]"#);
}

/// Code that writes an element as JSON: a list of tag, attributes and children.
const PLAIN: &str = "
local function plain(element)
  if type(element) ~= 'table' then return element end
  local children = tollgate.json.array()
  for _, child in ipairs(element) do table.insert(children, plain(child)) end
  return { element.tag, element.attr, children }
end";

#[test]
fn text_that_is_no_xml_gives_nil_and_the_byte() {
    let app = App::new();
    let check = |text: &str, part: &str| {
        let body = format!("local v, why = tollgate.xml.decode({text}) return `{{v}}: {{why}}`");
        let answer = app.text(&body);
        assert!(
            answer.starts_with("nil: ") && answer.contains(part) && answer.contains(" at byte "),
            "{text}: {answer}"
        );
    };
    check("''", "text has no root element at byte 1");
    check("'x'", "text outside the root element at byte 1");
    check("'<a/>x'", "text outside the root element at byte 5");
    check("'<a/>&amp;'", "text outside the root element at byte 5");
    check("'<a/><![CDATA[x]]>'", "text outside the root element");
    check("'<a/><b/>'", "a second root element at byte 5");
    check("'<a>'", "text ends inside an element at byte 4");
    check("'<a><b></a></b>'", "at byte");
    check("'</a>'", "at byte");
    check("'<a'", "at byte");
    check("'< a/>'", "a tag without a valid XML name: found ' '");
    check("'<1/>'", "a tag without a valid XML name: found '1'");
    check("'<a b/>'", "an attribute without a value");
    check("'<a b=c/>'", "an attribute without quotes");
    check("'<a b=\"1\"c=\"2\"/>'", "attributes without white space between them");
    check("'<a b=\"1\" b=\"2\"/>'", "a repeated attribute");
    check("'<a b=\"<\"/>'", "an attribute with a < in it");
    check("'<a b=\"&x;\"/>'", "the reference &x; is unknown, allowed is &amp;");
    check("'<a b=\"&\"/>'", "a reference without a name: found '\"'");
    check("'<a>&nbsp;</a>'", "the reference &nbsp; is unknown, allowed is &amp;");
    check("'<a>&#0;</a>'", "the reference &#0; is unknown");
    check("'<a>&#x110000;</a>'", "unknown");
    check("'<a>&#+65;</a>'", "a reference without a semicolon: found '+'");
    check("'<a>& b</a>'", "at byte");
    check("'<a>]]></a>'", "]]> in a text");
    check("'<a>\\1</a>'", "U+0001, a character that XML does not allow, at byte 4");
    check("'<a>\\255</a>'", "text is not UTF-8 at byte 4");
    check("'<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>'", "a DOCTYPE, which is not supported, at byte 1");
    check("'<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>'", "a DOCTYPE");
    check("' <?xml version=\"1.0\"?><a/>'", "an XML declaration after the start");
    check("'<?xml version=\"1.1\"?><a/>'", "with version \"1.1\", allowed is \"1.0\"");
    check(
        "'<?xml version=\"1.0\" encoding=\"latin1\"?><a/>'",
        "with encoding \"latin1\", allowed is \"utf-8\"",
    );
    check("'<a><!-- a -- b --></a>'", "at byte");
    check("('<a>'):rep(200)", "elements are nested deeper than 128 at byte 385");
    check(
        "'<a ' .. (function() local t = {} for i = 1, 300 do t[i] = `a{i}=\"\"` end return table.concat(t, ' ') end)() .. '/>'",
        "more than 256 attributes",
    );
}

#[test]
fn elements_are_found_in_others() {
    let app = App::new();
    let check = |expression: &str, expect: &str| {
        let body = format!(
            "local v = tollgate.xml.decode('<o><s:l n=\"1\">a<b>c</b></s:l>x<l n=\"2\"/><m/></o>') return tostring({expression})"
        );
        assert_eq!(app.text(&body), expect, "{expression}");
    };
    check("tollgate.xml.child(v, 'l').attr.n", "1");
    check("tollgate.xml.child(v, 's:l').attr.n", "1");
    check("tollgate.xml.child(v, 'none')", "nil");
    check("tollgate.xml.child(v).tag", "s:l");
    check("#tollgate.xml.children(v, 'l')", "2");
    check("#tollgate.xml.children(v)", "3");
    check("tollgate.xml.text(v)", "acx");
    check("tollgate.xml.text(tollgate.xml.child(v, 'm'))", "");
    check("tollgate.xml.encode(v)", "<o><s:l n=\"1\">a<b>c</b></s:l>x<l n=\"2\"/><m/></o>");
    check(
        "(select(2, pcall(tollgate.xml.child, nil, 'x')))",
        "tollgate.xml.child: the element is a nil: allowed is an element, a table with a tag",
    );
    let error = app.error("local t = { tag = 'a' } t[1] = t return tollgate.xml.text(t)");
    assert!(error.contains("contain themselves"), "{error}");
}

#[test]
fn a_body_is_read_as_xml() {
    let app = App::new();
    let source = handler_of(
        "local order, problem = req:xml()
         if not order then return { status = 400, json = { error = problem } } end
         return { json = { order.tag, tollgate.xml.text(order) } }",
    );
    let check = |body: &str, status: u16, expect: &str| {
        let head = format!("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n", body.len());
        let outcome = finish(app.handler(&source).call(request(&head, body.as_bytes()))).unwrap();
        assert_eq!((outcome.status, text(&outcome).as_str()), (status, expect), "{body}");
    };
    check("<order><id>7</id></order>", 200, r#"["order","7"]"#);
    check("{}", 400, r#"{"error":"text outside the root element at byte 1 (line 1, column 1) in /"}"#);
    check("", 400, r#"{"error":"text has no root element at byte 1 (line 1, column 1) in /"}"#);
}

#[test]
fn a_long_document_stays_within_the_memory_of_the_call() {
    let app = App::with(HostOptions { memory_bytes_max: 1 << 20, ..HostOptions::default() });
    let error = app.error("return tollgate.xml.decode('<a>' .. ('<b/>'):rep(100000) .. '</a>') and 200");
    assert!(error.starts_with("script exceeds its memory: growth limit 1048576 bytes\n"), "{error}");
    assert_eq!(
        app.text("return tostring(#tollgate.xml.decode('<a>' .. ('<b/>'):rep(1000) .. '</a>'))"),
        "1000"
    );
}

#[test]
fn a_reply_has_one_content() {
    let app = App::new();
    let error = app.error("return { xml = { tag = 'a' }, json = {} }");
    assert!(error.contains("reply has both json and xml"), "{error}");
    let error = app.error("return { status = 204, xml = { tag = 'a' } }");
    assert!(error.contains("reply.status is 204, which allows no content"), "{error}");
}

#[test]
fn a_template_writes_values_and_nothing_becomes_markup() {
    let app = App::new();
    let check = |source: &str, values: &str, expect: &str| {
        let body = format!("return tollgate.xml.template([==[{source}]==])({values})");
        assert_eq!(app.text(&body), expect, "{source}");
    };
    check(
        "<a b='{x}' c=\"-{y}-\">{x}</a>",
        "{ x = '<&\\'\"', y = 7 }",
        "<a b='&lt;&amp;&#39;&quot;' c=\"-7-\">&lt;&amp;'\"</a>",
    );
    check(
        "<?xml version='1.0'?>\n<l>{each items}<i n='{n}'>{name}{$.unit}</i>{end}</l>\n",
        "{ unit = 'kg', items = { { n = 1, name = 'a' }, { n = 2.5, name = true } } }",
        "<?xml version='1.0'?>\n<l><i n='1'>akg</i><i n='2.5'>truekg</i></l>\n",
    );
    check(
        "<l>{each a.b}<r>{each .}<c>{.}</c>{end}</r>{end}</l>",
        "{ a = { b = { { 1, 2 }, {}, { 3 } } } }",
        "<l><r><c>1</c><c>2</c></r><r></r><r><c>3</c></r></l>",
    );
    check("<a b='{x?}'>{y.z?}{each l?}<i/>{end}</a>", "{}", "<a b=''></a>");
    check(
        "<a b='{{x}'>{{}<!-- {x} --><![CDATA[{y}]]></a>",
        "{}",
        "<a b='{x}'>{}<!-- {x} --><![CDATA[{y}]]></a>",
    );
    check(
        "<\u{e9}><!--\u{e9}-->{ x }</\u{e9}>",
        "{ x = '\u{1f600}' }",
        "<\u{e9}><!--\u{e9}-->\u{1f600}</\u{e9}>",
    );
    check("<!--->{x}--><a>{y}</a>", "{ y = 1 }", "<!--->{x}--><a>1</a>");
}

#[test]
fn a_template_that_may_write_no_xml_is_an_error_when_it_is_compiled() {
    let app = App::new();
    let check = |source: &str, part: &str| {
        let error = app.error(&format!("return tollgate.xml.template([==[{source}]==])"));
        assert!(error.contains(&format!("tollgate.xml.template: {part}")), "{source}: {error}");
    };
    check("", "text has no root element at byte 1");
    check("<a>{x}</b>", "an end tag of another element: found \"b\", allowed is </a> at byte 7");
    check("{x}<a/>", "a place outside of the root element at byte 1");
    check("<a>{x</a>", "a { without } at byte 4");
    check("<a {x}/>", "a brace in a tag: allowed are texts and attribute values at byte 4");
    check("<{x}/>", "a brace in a tag");
    check("<a b={x}/>", "a brace in a tag");
    check("<a>{x y}</a>", "{x y}: allowed are names with . between them at byte 4");
    check("<a>{}</a>", "{}: allowed are names");
    check("<a>{each x}</a>", "an end tag in {each} whose start tag is outside of it at byte 15");
    check("<a>{each x}<b>{end}</b></a>", "{end} within an element of {each} at byte 15");
    check("<a>{each x}</a><a>{end}</a>", "an end tag in {each} whose start tag is outside of it");
    check("<a>{end}</a>", "{end} without {each} at byte 4");
    check("<a b='{each x}{end}'/>", "{each} in an attribute value");
    check("<a>{each x}", "{each} without {end} at byte 4");
    check("<a>\u{1}</a>", "U+0001, a character that XML does not allow, at byte 4");
    let deep = "{each x}".repeat(9);
    check(&format!("<a>{deep}</a>"), "more than 8 {each} within each other");
}

#[test]
fn a_value_that_does_not_fit_a_template_is_an_error_that_names_it() {
    let app = App::with(HostOptions { reply_bytes_max: 1000, ..HostOptions::default() });
    let check = |values: &str, part: &str| {
        let error = app.error(&format!(
            "return tollgate.xml.template('<a b=\"{{x?}}\">{{each l?}}<i>{{n.m}}</i>{{end}}</a>')({values})"
        ));
        assert!(error.contains(part), "{values}: {error}");
    };
    check("'x'", "values: a string: allowed is a table of values");
    check("{ x = {} }", "values{x?}: a table cannot be encoded as XML");
    check("{ x = '\\0' }", "values{x?}: text has U+0000 at byte 1, a character that XML does not allow");
    check("{ l = 5 }", "values{l?}: a number: allowed is a list");
    check("{ l = { { n = { m = 1 } }, {} } }", "values{l?}[2]{n.m}: nil: `?` after the path allows it");
    check("{ l = { 'x' } }", "values{l?}[1]{n.m}: nil");
    check("{ x = ('&'):rep(900) }", "XML exceeds limit: 1000 bytes");
}

#[test]
fn values_are_read_at_their_paths() {
    let app = App::new();
    let check = |paths: &str, text: &str, expect: &str| {
        let body = format!(
            "local read = tollgate.xml.values({paths})
             local values, why = read([==[{text}]==])
             return values and tollgate.json.encode(values) or why"
        );
        assert_eq!(app.text(&body), expect, "{paths}");
    };
    let order = "<order id='7' xmlns:p='urn:p'><line n='2'>a&amp;b</line><p:total> 9.50 </p:total></order>";
    check("{ id = '/order/@id' }", order, r#"{"id":"7"}"#);
    check("{ line = '/order/line' }", order, r#"{"line":"a&b"}"#);
    check("{ total = 'number(/order/q:total)' }, { q = 'urn:p' }", order, r#"{"total":9.5}"#);
    check("{ n = 'number(/order/line)' }", order, "{}");
    check("{ has = \"/order/line[@n = '2']\" }", order, r#"{"has":"a&b"}"#);
    check("{ x = '/order/none' }", order, "{}");
    check(
        "{ x = '/a' }",
        "<a><b></a>",
        "an end tag of another element: found \"a\", allowed is </b> at byte 7 (line 1, column 7) in /a/b",
    );
    let error = app.error("return tollgate.xml.values({ x = 'order' })");
    assert!(error.contains("tollgate.xml.values: x: a path that does not begin with /"), "{error}");
    let error = app.error("return tollgate.xml.values({ x = '/p:a' })");
    assert!(error.contains("x: the prefix p has no namespace"), "{error}");
}

#[test]
fn a_doctype_without_internal_subset_is_skipped_if_the_host_says_so() {
    let app = App::with(HostOptions { doctype: Doctype::Skip, ..HostOptions::default() });
    let head = "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n";
    let check = |expression: &str| {
        let script = format!(
            "local read = tollgate.xml.values({{ v = '/a/b' }})
            local function each() for element in req:xml_each('/a/b') do return element end end
            return tollgate.xml.text({expression})"
        );
        let handler = app.handler(&handler_of(&script));
        let call = |body: &str| finish(handler.call(request(head, body.as_bytes())));
        let skipped = call("<!DOCTYPE a SYSTEM 'a.dtd'><a><b>x</b></a>").unwrap();
        assert_eq!(text(&skipped), "x", "{expression}");
        let subset = call("<!DOCTYPE a [<!ENTITY c 'd'>]><a><b>&c;</b></a>").unwrap_err().to_string();
        assert!(subset.contains("internal subset"), "{expression}: {subset}");
    };
    check("assert(req:xml())");
    check("assert(tollgate.xml.decode(req:body()))");
    check("each()");
    check("{ tag = 'c', assert(read(req:body())).v }");
}

const ORDER: &str = "start = element order { attribute id { xsd:integer }, item+ }\ninclude \"item.rnc\"";
const ITEM: &str = "item = element item { xsd:decimal }";

#[test]
fn a_text_is_checked_by_a_schema_that_was_compiled_at_load() {
    let app = App::new();
    app.file("order.rnc", ORDER);
    app.file("item.rnc", ITEM);
    let check = |text: &str, expect: &str| {
        let source = format!(
            "local order = tollgate.xml.schema('order.rnc')
             return function()
                 local ok, fault = tollgate.xml.check({text}, order)
                 if ok then return tostring(ok) end
                 return `{{fault.message}}|{{fault.path}}|{{fault.line}}|{{fault.column}}|{{fault.byte}}`
             end"
        );
        let handler = app.handler(&source);
        assert_eq!(self::text(&finish(handler.call(get("/"))).unwrap()), expect, "{text}");
    };
    check("'<order id=\"1\"><item>1.5</item></order>'", "true");
    check("buffer.fromstring('<order id=\"1\"><item>1.5</item></order>')", "true");
    check(
        "'<order id=\"1\">\\n<itme/></order>'",
        "element \"itme\" is not allowed in \"/order\"; expected \"item\"|/order|2|1|16",
    );
    check("'<order>'", "element \"/order\" lacks an attribute; expected attribute \"id\"|/order|1|1|1");
}

#[test]
fn a_schema_is_a_file_of_the_app_and_is_compiled_at_load() {
    let app = App::new();
    app.file("order.rnc", ORDER);
    let check = |body: &str, expect: &str| {
        let error = app.error(body);
        assert!(error.contains(expect), "{body}: {error}");
    };
    check("return tollgate.xml.schema('order.rnc')", "schemas are compiled only while a script is loaded");
    check("return tollgate.xml.check('', 'order.rnc')", "schema of tollgate.xml.check is a string");
    check("return tollgate.xml.check('')", "schema of tollgate.xml.check is a nil");
    check("return req:xml({ scheme = 1 })", "req:xml has no option scheme: allowed is schema");
    let load = |file: &str, expect: &str| {
        let source = format!("tollgate.xml.schema('{file}') return function() end");
        let error = app.load(&source, &fields(&[])).err().map(|error| in_full(&error)).unwrap();
        assert!(error.contains(expect), "{file}: {error}");
    };
    load("order.rnc", "order.rnc:2:1: file \"item.rnc\": ");
    load("absent.rnc", "absent.rnc:1:1: ");
    load("../order.rnc", "is no path below the folder");
}

fn in_full(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {}", in_full(cause)))
}

#[test]
fn the_content_of_a_request_is_validated_before_it_becomes_a_table() {
    let app = App::new();
    app.file("order.rnc", ORDER);
    app.file("item.rnc", ITEM);
    let handler = app.handler(
        "local schema = tollgate.xml.schema('order.rnc')
         return function(req)
             local order, problem, fault = req:xml({ schema = schema })
             if order then return order.attr.id end
             return `{problem}|{fault and fault.line}`
         end",
    );
    let check = |content: &str, expect: &str| {
        let request = request("POST / HTTP/1.1\r\nHost: test\r\n\r\n", content.as_bytes());
        assert_eq!(text(&finish(handler.call(request)).unwrap()), expect, "{content}");
    };
    check("<order id='7'><item>1</item></order>", "7");
    check(
        "<order id='7'><item>x</item></order>",
        "the text of \"/order/item\" is not allowed; expected a value of \"decimal\" \
         at byte 22 (line 1, column 22) in /order/item|1",
    );
}

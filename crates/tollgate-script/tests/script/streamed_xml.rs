//! Tests of `out:element`, `out:open` and `out:close`: XML in a streamed reply.

use std::future::poll_fn;
use std::task::Poll;

use tokio::runtime::Builder;
use tollgate_script::{CallError, Step};

use crate::app::{App, get, handler_of};

/// Runs the body of a function `write`. Returns the content, the number of waits, and how the stream ended.
fn streamed(body: &str) -> (String, usize, Result<(), CallError>) {
    let script = handler_of(&format!("return {{ write = function(out)\n{body}\nend }}"));
    let mut call = App::new().handler(&script).call(get("/"));
    let (mut content, mut waits) = (Vec::new(), 0);
    let ended = Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
        loop {
            match call.resume() {
                Step::Sliced | Step::Streams(_) => {}
                Step::Waiting => {
                    waits += 1;
                    let pipe = call.pipe().unwrap().clone();
                    while poll_fn(|context| Poll::Ready(call.poll_wait(context))).await.is_pending() {
                        content.extend(pipe.take());
                    }
                }
                Step::Ended(ended) => return ended,
                step => panic!("{step:?}"),
            }
        }
    });
    content.extend(call.pipe().unwrap().take());
    (String::from_utf8(content).unwrap(), waits, ended)
}

fn check(body: &str, expect: &str) {
    let (content, _, ended) = streamed(body);
    assert_eq!((content.as_str(), ended.is_ok()), (expect, true), "{body}: {ended:?}");
}

/// Returns the text of the error that ends the stream.
fn fault(body: &str) -> String {
    streamed(body).2.expect_err(body).to_string()
}

#[test]
fn elements_are_written_one_by_one_within_open_elements() {
    const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    check(
        "out:open('o:orders', { ['xmlns:o'] = 'urn:o', b = '<&\"' })
        out:open('list')
        out:element({ tag = 'order', attr = { n = 1 }, 'a < b' })
        assert(out:element({ tag = 'order' }) == true)
        out:close()
        out:write('<!-- end -->')
        assert(out:close() == true)",
        &format!(
            "{DECLARATION}<o:orders b=\"&lt;&amp;&quot;\" xmlns:o=\"urn:o\"><list>\
             <order n=\"1\">a &lt; b</order>\
             <order/></list><!-- end --></o:orders>"
        ),
    );
    check("out:write('<a>') out:open('b') out:close() out:write('</a>')", "<a><b></b></a>");
    check("out:element({ tag = 'a' })", "<a/>");
    check("pcall(out.open, out, 'a b') out:open('c') out:close()", &format!("{DECLARATION}<c></c>"));
}

#[test]
fn an_element_waits_for_a_slow_client_and_comes_whole() {
    let body = "out:open('orders')
        for n = 1, 3000 do
            assert(pcall(out.element, out, { tag = 'order', attr = { n = n }, string.rep('x', 100) }))
        end
        assert(out:element({ tag = 'long', string.rep('y', 300000) }))
        out:close()";
    let (content, waits, ended) = streamed(body);
    ended.unwrap();
    assert!(waits >= 5, "{waits} waits");
    let order = |n: usize| format!("<order n=\"{n}\">{}</order>", "x".repeat(100));
    let orders: String = (1..=3000).map(order).collect();
    let end = format!("<orders>{orders}<long>{}</long></orders>", "y".repeat(300_000));
    assert!(content.ends_with(&end) && content.len() == end.len() + 39, "{} bytes", content.len());
}

#[test]
fn a_value_that_is_no_element_ends_the_stream_and_writes_nothing() {
    for (body, reason) in [
        ("out:element('<a/>')", "element: a string is not an element"),
        ("out:element({ 'a' })", "element: has no tag"),
        ("out:element({ tag = 'a', '\\0' })", "element[1]: text has U+0000"),
        ("out:open()", "element: has no tag"),
        ("out:open('a b')", "element.tag: \"a b\" is not an XML name"),
        ("out:open('a', { ['x y'] = 1 })", "element.attr: \"x y\" is not an XML name"),
        ("out:open('a', 'b')", "element.attr: a string: allowed is a table"),
        ("out:close()", "out:close: no element is open"),
        ("out.element({ tag = 'a' }, {})", "this out belongs to another reply"),
        ("for _ = 1, 129 do out:open('a') end", "elements are nested deeper than 128"),
    ] {
        let found = fault(body);
        assert!(found.contains(reason), "{body}: {found}");
    }
    assert_eq!(streamed("out:element({ tag = 'a', { tag = 'b c' } })").0, "");
}

#[test]
fn a_stream_that_ends_within_an_open_element_is_cut_off() {
    let found = fault("out:open('orders') out:open('order')");
    assert!(found.contains("the element \"order\" was closed: call out:close"), "{found}");
    let (_, _, ended) = streamed("out:open('a') out:close()");
    assert!(ended.is_ok());
}

#[test]
fn an_element_to_a_client_that_is_gone_is_false_and_no_fault() {
    let body = "out:open('a')
        local all = true
        for _ = 1, 10 do all = out:element({ tag = 'b', string.rep('x', 100000) }) and all end
        if not all then return end
        error('the client is there')";
    let script = handler_of(&format!("return {{ write = function(out)\n{body}\nend }}"));
    let mut call = App::new().handler(&script).call(get("/"));
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        loop {
            match call.resume() {
                Step::Sliced | Step::Streams(_) => {}
                Step::Waiting => {
                    call.pipe().unwrap().close();
                    poll_fn(|context| call.poll_wait(context)).await;
                }
                Step::Ended(ended) => break ended.unwrap(),
                step => panic!("{step:?}"),
            }
        }
    });
}

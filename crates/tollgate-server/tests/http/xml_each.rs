//! Tests of `req:xml_each` with bodies in the spool.

use crate::peer::Reply;
use crate::site::{Running, Site};

/// Counts the elements, and adds up their numbers and the bytes of their texts.
const SUM: &str = "local count, sum, bytes = 0, 0, 0
    for order in req:xml_each('/o:orders/o:order', { namespaces = { o = 'urn:o' } }) do
        count += 1
        sum += tonumber(order.attr.n)
        bytes += #tollgate.xml.text(order)
        if order.attr.last then break end
    end
    return `{count} {sum} {bytes}`";

fn site() -> Running {
    Site::new().handler("/", SUM).tune_route(|route| route.body_bytes_max = 64 << 20).start()
}

/// Returns a document with `count` orders, each with a text of `bytes` bytes, without its end tag.
fn orders(count: usize, bytes: usize) -> String {
    let order = |n: usize| format!("<order n='{n}'><text>{}</text></order>\n", "x".repeat(bytes));
    format!("<orders xmlns='urn:o'>{}", (1..=count).map(order).collect::<String>())
}

fn post(server: &Running, body: &str, piece_bytes: usize) -> Reply {
    let mut peer = server.connect();
    peer.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
    body.as_bytes().chunks(piece_bytes).for_each(|piece| peer.send_all(piece));
    peer.reply(false)
}

#[test]
fn a_spooled_body_gives_each_element_however_it_was_sent() {
    let server = site();
    for (count, bytes) in [(20_000, 100), (100, 30_000), (40, 60_000)] {
        let body = orders(count, bytes) + "</orders>";
        assert!(body.len() > 2 << 20, "the body is longer than what stays in memory");
        for piece_bytes in [997, 65_536, body.len()] {
            let expect = format!("{count} {} {}", count * (count + 1) / 2, count * bytes);
            assert_eq!(post(&server, &body, piece_bytes).content, expect, "{bytes} {piece_bytes}");
        }
    }
}

#[test]
fn a_spooled_body_that_is_malformed_gets_400_and_a_long_element_gets_413() {
    let server = site();
    let reply = post(&server, &(orders(30, 60_000) + "</order>"), 1 << 20);
    assert_eq!(reply.status, 400);
    assert!(reply.content.contains("the body is not XML"), "{}", reply.content);
    let long = format!("{}<order n='1'>{}</order></orders>", orders(30, 60_000), "y".repeat(65_536));
    assert_eq!(post(&server, &long, 1 << 20).status, 413);
}

#[test]
fn a_script_may_leave_a_spooled_body_unread() {
    let server = site();
    let body = orders(1, 5) + "<order n='2' last='yes'/>" + &orders(30, 60_000) + "never well-formed";
    assert_eq!(post(&server, &body, 1 << 20).content, "2 3 5");
}

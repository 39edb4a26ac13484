//! The measured work: whole handlers, and functions that a handler repeats.

/// Number of times that a handler repeats a function.
pub(crate) const REPEATED: u32 = 100;

/// Bodies of handlers.
pub(crate) const HANDLERS: [&str; 8] = [
    "return 204",
    "return 'hello, world'",
    "return { html = '<p>hello</p>' }",
    "return { json = { score = 7 } }",
    "return { xml = { tag = 'score', 7 } }",
    "return { json = { score = 7 }, record = { score = 7 } }",
    "local x = tonumber(req.query.x) or 0 return { json = { score = x * 2 + 1 }, record = { score = x * 2 + 1 } }",
    "return { status = 303, headers = { location = '/done' } }",
];

/// Statements to repeat. The part before `;;` runs only once.
pub(crate) const FUNCTIONS: [&str; 67] = [
    "local v = req.method",
    "local v = req.path",
    "local v = req.path_info",
    "local v = req.params.id",
    "local v = req.query.x",
    "local v = req.headers['user-agent']",
    "local v = req.cookies.session",
    "local v = req:all('query', 'x')",
    "local v = req.id",
    "local v = req.time",
    "local v = req.remote_addr",
    "local v = req.trace",
    "local v = req.ctx",
    "local v = req:accepts('text/html', 'application/json')",
    "local v = req:body()",
    "local v = req:json()",
    "local v = req:precondition{ etag = 'v7' }",
    "tollgate.json.decode('{\"kind\":\"click\",\"amount\":3,\"tags\":[\"a\",\"b\"]}')",
    "local t = { kind = 'click', amount = 3, tags = { 'a', 'b' } };; tollgate.json.encode(t)",
    "local t = tollgate.json.array{ 1, 2, 3 };; tollgate.json.encode(t)",
    "local s = '<order n=\"7\"><item>a</item><item>b</item></order>';; tollgate.xml.decode(s)",
    "local t = { tag = 'order', attr = { n = 7 }, { tag = 'item', 'a' }, { tag = 'item', 'b' } };; tollgate.xml.encode(t)",
    "tollgate.xml.escape('a < b & c')",
    "local t = { tag = 'order', { tag = 'item', 'a' } };; tollgate.xml.child(t, 'item')",
    "local t = { tag = 'order', { tag = 'item', 'a' } };; tollgate.xml.children(t, 'item')",
    "local t = { tag = 'order', { tag = 'item', 'a' } };; tollgate.xml.text(t)",
    "tollgate.shared.set('key', 1);; tollgate.shared.get('key')",
    "tollgate.shared.set('key', 1)",
    "tollgate.shared.incr('count', 1)",
    "tollgate.shared.add('key', 1)",
    "tollgate.shared.set('word', 1);; tollgate.shared.compare_and_set('word', 1, 1)",
    "local s = string.rep('x', 64);; tollgate.crypto.sha256(s)",
    "local s = string.rep('x', 64);; tollgate.crypto.sha512(s)",
    "local s = string.rep('x', 64);; tollgate.crypto.hmac_sha256('secret', s)",
    "local s = string.rep('x', 64);; tollgate.crypto.sha384(s)",
    "tollgate.crypto.random(16)",
    "local s = string.rep('x', 64);; tollgate.crypto.equal(s, s)",
    "local s = string.rep('x', 64);; tollgate.base64.encode(s)",
    "local s = tollgate.base64.encode(string.rep('x', 64));; tollgate.base64.decode(s)",
    "local s = string.rep('x', 64);; tollgate.hex.encode(s)",
    "local s = tollgate.hex.encode(string.rep('x', 64));; tollgate.hex.decode(s)",
    "tollgate.url.encode('a b&c=d')",
    "tollgate.url.decode('a%20b%26c%3Dd')",
    "tollgate.url.parse_query('a=1&b=2')",
    "tollgate.url.all_query('a=1&b=2&a=3', 'a')",
    "tollgate.url.build_query{ q = 'a b', page = 2 }",
    "tollgate.uuid.v4()",
    "tollgate.uuid.v7()",
    "tollgate.time.now_us()",
    "tollgate.time.monotonic_us()",
    "tollgate.time.rfc3339(1700000000123456)",
    "tollgate.time.http_date(1700000000123456)",
    "tollgate.time.parse('2026-01-31T13:00:00Z')",
    "tollgate.cookie.make('session', 'abc', { path = '/', http_only = true, same_site = 'lax' })",
    "tollgate.redirect('/done', 303)",
    "tollgate.app.url('/orders/7')",
    "tollgate.app.below('/orders/7')",
    "tollgate.log.debug('nothing')",
    "local v = pcall(string.len, 'a')",
    "local s = string.rep('x', 64);; s:find('y', 1, true)",
    "local s = string.rep('x', 64);; s:find('%d')",
    "local s = string.rep('x', 64);; s:match('^x+')",
    "local s = 'a b c';; s:gsub(' ', '+')",
    "local s = 'a,b,c';; s:split(',')",
    "string.format('%s %d', 'a', 7)",
    "string.pack('<I4', 7)",
    "string.unpack('<I4', 'abcd')",
];

/// Returns the body of a handler that repeats a statement `times` times.
pub(crate) fn repeated(statement: &str, times: u32) -> String {
    let (before, statement) = statement.split_once(";;").unwrap_or(("", statement));
    format!("{before}\nfor i = 1, {times} do {statement} end\nreturn 204")
}

//! Tests of the libraries below `tollgate`: digests, encodings, URLs, ids, time, the environment.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tollgate_script::{CallError, HostOptions};

use crate::app::App;
use crate::vectors::{DIGESTS, HMACS};

const ALGORITHMS: [&str; 4] = ["sha224", "sha256", "sha384", "sha512"];

#[test]
fn digests_are_those_that_were_published() {
    let app = App::new();
    for (message, expect) in DIGESTS {
        for (algorithm, expect) in ALGORITHMS.iter().zip(expect) {
            let hex = format!("return tollgate.hex.encode(tollgate.crypto.{algorithm}({message}))");
            assert_eq!(app.text(&hex), expect, "{algorithm} of {message}");
        }
    }
    let same =
        "return tostring(tollgate.crypto.sha256('x') == tollgate.crypto.sha256(buffer.fromstring('x')))";
    assert_eq!(app.text(same), "true");
}

#[test]
fn hmacs_are_those_that_were_published() {
    let app = App::new();
    for (key, data, expect) in HMACS {
        for (algorithm, expect) in ALGORITHMS.iter().zip(expect) {
            let hex = format!("return tollgate.hex.encode(tollgate.crypto.hmac_{algorithm}({key}, {data}))");
            assert_eq!(&app.text(&hex)[..expect.len()], expect, "{algorithm} of {data}");
        }
    }
}

/// RFC 1321 appendix A.5, FIPS 180-4 (by its examples), RFC 2202 test cases 2 of both digests.
#[test]
fn old_digests_are_those_that_were_published() {
    let app = App::new();
    let check = |call: &str, expect: &str| {
        assert_eq!(
            app.text(&format!("return tollgate.hex.encode(tollgate.crypto.{call})")),
            expect,
            "{call}"
        );
    };
    check("md5('')", "d41d8cd98f00b204e9800998ecf8427e");
    check("md5('message digest')", "f96b697d7cb7938d525a2f31aaf161d0");
    check("sha1('abc')", "a9993e364706816aba3e25717850c26c9cd0d89d");
    check("sha1('')", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    check("hmac_md5('Jefe', 'what do ya want for nothing?')", "750c783e6ab0b503eaa86e310a5db738");
    check("hmac_sha1('Jefe', 'what do ya want for nothing?')", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
}

/// RFC 8032 section 7.1 test 2, RFC 7515 appendix A.3, and a key and a signature of OpenSSL.
#[test]
fn signatures_hold_by_their_key_and_by_no_other() {
    let app = App::new();
    app.file("keys.luau", KEYS);
    let check = |call: &str, expect: &str| {
        let script = format!("local k = require('./keys') return tostring(tollgate.crypto.verify({call}))");
        assert_eq!(app.text(&script), expect, "{call}");
    };
    check("'ed25519', k.ed, '\\x72', k.ed_signature", "true");
    check("'ed25519', k.ed, '\\x73', k.ed_signature", "false");
    check("'ed25519', k.ed, buffer.fromstring('\\x72'), buffer.fromstring(k.ed_signature)", "true");
    check("'ecdsa-p256-fixed', k.jwk, k.input, k.es256", "true");
    check("'ecdsa-p256', k.jwk, k.input, k.es256", "false");
    check("'ecdsa-p256-fixed', k.jwk, k.input .. 'x', k.es256", "false");
    check("'ecdsa-p384', k.pem, 'hello', k.es384", "true");
    check("'ecdsa-p384', k.pem, 'hello', ''", "false");
    let check = |call: &str, expect: &str| {
        let error = app.error(&format!("local k = require('./keys') return tollgate.crypto.verify({call})"));
        assert!(error.contains(expect), "{call}: {error}");
    };
    check("'ecdsa-p256', k.pem, 'hello', k.es384", "the key is P-384, and the algorithm needs P-256");
    check(
        "'hs256', k.pem, '', ''",
        "algorithm of tollgate.crypto.verify: it is \"hs256\": allowed are ed25519",
    );
    check("'ed25519', 'x', '', ''", "key of tollgate.crypto.verify: it has no public key in PEM");
    check("'ed25519', {}, '', ''", "the JWK has kty \"\"");
    check("'ed25519', 1, '', ''", "key of tollgate.crypto.verify is a number: allowed are a string in PEM");
    check("'ed25519', k.ed, nil, ''", "data of tollgate.crypto.verify is a nil");
    check("'ed25519', k.ed, ''", "signature of tollgate.crypto.verify is a nil");
    check("'ed25519', k.ed, ('x'):rep(1048577), ''", "it has 1048577 bytes, limit 1048576 bytes");
}

const KEYS: &str = r#"
local hex, url = tollgate.hex.decode, tollgate.base64.decode_url
return {
    ed = hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"),
    ed_signature = hex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            .. "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    ),
    jwk = {
        kty = "EC",
        crv = "P-256",
        x = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        y = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    },
    input = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQog"
        .. "Imh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
    es256 = url("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"),
    pem = [[
-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEGCQYOK2kEOra1ROYuvAUTSDpVv9nyPL+
1GcOn/oq8gFjDbZhXzZ/+6/IUPiYScRsQVJd1+6fxTKBE3QH7PNBc3h1iyPAgTWZ
/5tUT8GIELIrk3wakIRpCUByxq6I6Y9O
-----END PUBLIC KEY-----
]],
    es384 = tollgate.base64.decode(
        "MGYCMQCDqrd8x3e9hWHpYKhWRrWdUGKmFkGSEXGq7kmdRUYwFsJhHqpuRfdESt6He2fko6AC"
            .. "MQChziLfOhkHmergL3HByIdIPw9xtgqvqgsh6InWkYG9iZI0JZmQOkL0svuEzfwmzjg="
    ),
}
"#;

#[test]
fn secrets_are_compared_and_made() {
    let app = App::new();
    let check = |expression: &str, expect: &str| {
        assert_eq!(app.text(&format!("return tostring({expression})")), expect, "{expression}");
    };
    check("tollgate.crypto.equal('secret', 'secret')", "true");
    check("tollgate.crypto.equal('secret', 'secreT')", "false");
    check("tollgate.crypto.equal('secret', 'secret ')", "false");
    check("tollgate.crypto.equal('', '')", "true");
    check("#tollgate.crypto.random(32)", "32");
    check("#tollgate.crypto.random(65536)", "65536");
    check("tollgate.crypto.random(16) == tollgate.crypto.random(16)", "false");
    check("#tollgate.crypto.random(0)", "0");
}

#[test]
fn bytes_are_text_and_bytes_again() {
    let app = App::new();
    let check = |expression: &str, expect: &str| {
        assert_eq!(app.text(&format!("return tostring({expression})")), expect, "{expression}");
    };
    // RFC 4648 section 10: test vectors.
    for (plain, base64, hex) in
        [("", "", ""), ("f", "Zg==", "66"), ("fo", "Zm8=", "666f"), ("foobar", "Zm9vYmFy", "666f6f626172")]
    {
        check(&format!("tollgate.base64.encode('{plain}')"), base64);
        check(&format!("tollgate.base64.decode('{base64}')"), plain);
        check(&format!("tollgate.base64.decode('{}')", base64.trim_end_matches('=')), plain);
        check(&format!("tollgate.base64.encode_url('{plain}')"), base64.trim_end_matches('='));
        check(&format!("tollgate.base64.decode_url('{base64}')"), plain);
        check(&format!("tollgate.hex.encode('{plain}')"), hex);
        check(&format!("tollgate.hex.decode('{hex}')"), plain);
    }
    check("tollgate.base64.encode('\\xfb\\xff')", "+/8=");
    check("tollgate.base64.encode_url('\\xfb\\xff')", "-_8");
    check("tollgate.base64.decode_url('-_8') == '\\xfb\\xff'", "true");
    check("tollgate.hex.decode('C3bc') == '\u{fc}'", "true");
    check("tollgate.hex.encode(buffer.fromstring('\\0\\xff'))", "00ff");
}

#[test]
fn text_that_is_not_encoded_gives_nil_and_the_reason() {
    let app = App::new();
    let check = |call: &str, expect: &str| {
        let found = app.text(&format!("local value, why = tollgate.{call} return `{{value}}: {{why}}`"));
        assert!(found.starts_with("nil: ") && found.contains(expect), "{call}: {found}");
    };
    check("base64.decode('-_8=')", "text is not base64: invalid symbol");
    check("base64.decode('Zh==')", "text is not base64");
    check("base64.decode('Z')", "text is not base64");
    check("base64.decode_url('+/8')", "text is not base64");
    check("hex.decode('123')", "3 digits, which is odd");
    check("hex.decode('0g')", "not hex at byte 2");
    check("hex.decode('+1')", "not hex at byte 1");
    check("url.decode('a%')", "malformed escape at byte 2");
    check("url.decode('%4')", "malformed escape at byte 1");
    check("url.decode('%zz')", "malformed escape at byte 1");
    check("time.parse('yesterday')", "\"yesterday\" is neither a time of RFC 3339 nor an HTTP date");
    check("time.parse('2026-01-31')", "neither");
    check("time.parse(('1'):rep(1000))", "neither");
}

#[test]
fn urls_are_encoded_piece_by_piece() {
    let app = App::new();
    let check = |expression: &str, expect: &str| {
        assert_eq!(app.text(&format!("return tostring({expression})")), expect, "{expression}");
    };
    check(
        "tollgate.url.encode('aZ09-._~ +/?&=%\u{e4}\\0\\r\\n')",
        "aZ09-._~%20%2B%2F%3F%26%3D%25%C3%A4%00%0D%0A",
    );
    check("tollgate.url.decode('a%20b+%c3%A4')", "a b+\u{e4}");
    check("tollgate.url.parse_query('a=1&b=x+y&a=2').a", "1");
    check("tollgate.url.parse_query('a=1&b=x+y&a=2').b", "x y");
    check("table.concat(tollgate.url.all_query('a=1&b=x+y&a=2', 'a'), ',')", "1,2");
    check("#tollgate.url.all_query('a=1', 'b')", "0");
    check(
        "tollgate.url.build_query({ b = 'x y&', a = { 1, true, 'z' }, ['\u{e4}'] = 0.5 })",
        "a=1&a=true&a=z&b=x%20y%26&%C3%A4=0.5",
    );
    check("tollgate.url.build_query({})", "");
    let round =
        "local q = tollgate.url.build_query({ ['a&b'] = 'c=d+e' }) return tollgate.url.parse_query(q)['a&b']";
    assert_eq!(app.text(round), "c=d+e");
}

#[test]
fn ids_are_new_and_of_their_version() {
    let app = App::new();
    let check = |version: &str| {
        let id = app.text(&format!("return tollgate.uuid.{version}()"));
        let other = app.text(&format!("return tollgate.uuid.{version}()"));
        let uuid = uuid::Uuid::parse_str(&id).unwrap();
        assert_eq!(
            (uuid.hyphenated().to_string(), format!("v{}", uuid.get_version_num())),
            (id.clone(), version.to_owned())
        );
        assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
        assert_ne!(id, other);
        uuid
    };
    check("v4");
    let (seconds, _) = check("v7").get_timestamp().unwrap().to_unix();
    assert!(now_s().abs_diff(seconds) < 60, "{seconds}");
}

#[expect(clippy::disallowed_methods, reason = "to compare with")]
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn time_is_a_number_and_a_text() {
    let app = App::new();
    let check = |expression: &str, expect: &str| {
        assert_eq!(app.text(&format!("return tostring({expression})")), expect, "{expression}");
    };
    check("tollgate.time.rfc3339(784111777000000)", "1994-11-06T08:49:37Z");
    check("tollgate.time.rfc3339(784111777123456)", "1994-11-06T08:49:37.123456Z");
    check("tollgate.time.rfc3339(-1)", "1969-12-31T23:59:59.999999Z");
    check("tollgate.time.http_date(784111777123456)", "Sun, 06 Nov 1994 08:49:37 GMT");
    check("string.format('%d', tollgate.time.parse('1994-11-06T09:49:37.5+01:00'))", "784111777500000");
    check("string.format('%d', tollgate.time.parse('Sun, 06 Nov 1994 08:49:37 GMT'))", "784111777000000");
    check("string.format('%d', tollgate.time.parse('Sunday, 06-Nov-94 08:49:37 GMT'))", "784111777000000");
    check("tollgate.time.parse(tollgate.time.rfc3339(req.time)) == req.time", "true");
    for text in ["0001-01-01T00:00:00Z", "9999-12-30T22:00:00Z", "9999-12-31T23:59:59Z"] {
        check(&format!("tollgate.time.rfc3339(tollgate.time.parse('{text}'))"), text);
    }
    let last = "tollgate.time.parse('9999-12-31T23:59:59.999999Z')";
    check(&format!("tollgate.time.http_date({last})"), "Fri, 31 Dec 9999 23:59:59 GMT");
    check("tollgate.time.http_date(-1)", "Wed, 31 Dec 1969 23:59:59 GMT");
    check(
        "tollgate.time.http_date(tollgate.time.parse('Mon, 01 Jan 0001 00:00:00 GMT'))",
        "Mon, 01 Jan 0001 00:00:00 GMT",
    );
    check("tollgate.time.parse('0000-12-31T23:59:59Z')", "nil");
    let now: f64 = app.text("return tostring(tollgate.time.now_us() // 1000000)").parse().unwrap();
    assert!((now - now_s() as f64).abs() < 60.0, "{now}");
    check(
        "(function() local t = tollgate.time.monotonic_us() return tollgate.time.monotonic_us() >= t end)()",
        "true",
    );
}

#[test]
fn the_environment_shows_what_is_listed() {
    let listed = ["PATH", "TOLLGATE_TEST_NOT_SET"].map(str::to_owned).to_vec();
    let app = App::with(HostOptions { env: listed, ..HostOptions::default() });
    assert_eq!(app.text("return tollgate.env('PATH')"), std::env::var("PATH").unwrap());
    assert_eq!(app.text("return tostring(tollgate.env('TOLLGATE_TEST_NOT_SET'))"), "nil");
    let error = app.error("return tollgate.env('PAHT')");
    assert!(error.contains("no \"PAHT\", did you mean \"PATH\"?"), "{error}");
    assert!(
        app.error("return tollgate.env('HOME')").contains("allowed are the names that env in [script] lists")
    );
    assert!(app.error("return tollgate.env()").contains("is a nil"));
    assert!(App::new().error("return tollgate.env('PATH')").contains("no \"PATH\""));
}

#[test]
fn arguments_of_another_type_are_errors_that_say_what_is_allowed() {
    let app = App::new();
    let check = |call: &str, expect: &str| {
        let error = app.error(&format!("return tollgate.{call}"));
        assert!(error.contains(expect) && error.contains("main.luau:2"), "{call}: {error}");
    };
    check("crypto.sha256()", "data of tollgate.crypto.sha256 is a nil: allowed are a string, a buffer");
    check("crypto.sha256(1)", "data of tollgate.crypto.sha256 is a ");
    check("crypto.hmac_sha256({}, 'x')", "key of tollgate.crypto.hmac_sha256 is a table");
    check("crypto.hmac_sha256('x')", "data of tollgate.crypto.hmac_sha256 is a nil");
    check("crypto.random(65537)", "is 65537: allowed is a whole number from 0 to 65536");
    check("crypto.random(-1)", "is -1");
    check("crypto.random(0.5)", "is 0.5");
    check("crypto.equal('a')", "argument of tollgate.crypto.equal is a nil");
    check("hex.encode(12)", "tollgate.hex.encode is a ");
    check("url.build_query('a')", "tollgate.url.build_query is a string: allowed is a table");
    check("url.build_query({ 'a' })", "key of tollgate.url.build_query is a ");
    check("url.build_query({ a = print })", "value of \"a\" of tollgate.url.build_query is a function");
    check("time.rfc3339('now')", "time of tollgate.time.rfc3339 is a string");
    check("time.rfc3339(1e18)", "time of tollgate.time.rfc3339 is 1000000000000000000");
    check("time.http_date(-62135596800000008)", "is -62135596800000008");
    check("time.rfc3339(253402300800000000)", "is 253402300800000000");
    check("time.parse(1)", "text of tollgate.time.parse is a ");
}

#[test]
fn names_that_are_not_there_are_errors_with_the_nearest_one() {
    let app = App::new();
    let check = |expression: &str, expect: &str| {
        let error = app.error(&format!("return {expression}"));
        assert!(error.contains(expect), "{expression}: {error}");
    };
    check("tollgate.crypt", "tollgate has no field \"crypt\", did you mean \"crypto\"?");
    check("tollgate.crypto.sha265('x')", "tollgate.crypto has no field \"sha265\", did you mean \"sha2");
    check("tollgate.base64.encod('x')", "did you mean \"encode\"?");
    check("tollgate.hex.encod('x')", "did you mean \"encode\"?");
    check("tollgate.json.encod('x')", "tollgate.json has no field \"encod\", did you mean \"encode\"?");
    check("tollgate.log.inf('x')", "tollgate.log has no field \"inf\", did you mean \"info\"?");
    check("tollgate.url.parsequery('x')", "did you mean \"parse_query\"?");
    check("tollgate.uuid.v5()", "did you mean \"v");
    check("tollgate.time.now()", "tollgate.time has no field \"now\"");
    check("tollgate.crypto[1]", "no field of type number");
    for table in ["crypto", "base64", "hex", "url", "uuid", "time", "shared", "cookie", "json", "log"] {
        check(&format!("rawset(tollgate.{table}, 'x', 1)"), "readonly");
        check(&format!("setmetatable(tollgate.{table}, nil)"), "");
    }
}

#[test]
fn work_at_one_stroke_is_bounded_by_the_call() {
    let app = App::with(HostOptions { memory_bytes_max: 8 << 20, ..HostOptions::default() });
    let long = "local long = ('x'):rep(7000000)";
    for call in ["hex.encode", "base64.encode", "base64.encode_url", "url.encode"] {
        let result = app.run(&format!("{long} return tollgate.{call}(long)"));
        assert!(matches!(result, Err(CallError::Memory { .. })), "{call}: {result:?}");
        assert_eq!(app.text("return 'alive'"), "alive");
    }
    let many = "local t = {} for i = 1, 60000 do t[`{i}`] = i end return tollgate.url.build_query(t)";
    assert!(app.run(many).is_err());
    let fields = "local q = {} for i = 1, 100000 do q[i] = `{i}=` end return tollgate.url.parse_query(table.concat(q, '&'))";
    assert!(app.run(fields).is_err());

    let app = App::with(HostOptions { memory_bytes_max: 128 << 20, ..HostOptions::default() });
    let begin = Instant::now();
    let result = app.run(
        "local long = ('x'):rep(64000000) for i = 1, 100 do tollgate.crypto.sha512(long) end return 200",
    );
    assert!(matches!(result, Err(CallError::CpuBudget { .. })), "{result:?}");
    assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
}

#[test]
fn thousands_of_arguments_are_taken_or_refused() {
    let app = App::new();
    for call in
        ["crypto.sha256", "hex.encode", "url.build_query", "cookie.make", "redirect", "shared.set", "env"]
    {
        for value in ["{}", "'x'", "nil"] {
            let _ = app.run(&format!("return tollgate.{call}(table.unpack(table.create(7000, {value})))"));
        }
    }
    for call in ["form", "precondition", "all"] {
        let _ = app.run(&format!("return req.{call}(table.unpack(table.create(7000, req)))"));
    }
    assert_eq!(app.text("return 'alive'"), "alive");
}

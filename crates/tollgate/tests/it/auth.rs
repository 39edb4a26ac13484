//! Credentials from the command line to a row: password and token files, reloads, tokens that openssl signs,
//! and the secrets that no output shows.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::admin::{get, sample};
use crate::program::{App, BINARY, Running, eventually, printed};

const CONFIG: &str = r#"
[server]
listen = ["127.0.0.1:0"]
[stream.s]
columns = [{ name = "who", type = "text", from = "request.auth.name" }]
[auth.staff]
basic = "users"
bearer = "tokens"
[[route]]
path = "/in"
reply = { body = "in\n" }
stream = "s"
auth = "staff"
"#;

/// Runs a shell script in the folder of the app. `$TOLLGATE` is the program. Returns its output.
fn shell(app: &App, script: &str) -> String {
    let mut command = Command::new("sh");
    let output =
        command.args(["-ec", script]).env("TOLLGATE", BINARY).current_dir(app.path()).output().unwrap();
    assert!(output.status.success(), "{script}: {}", printed(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Makes the password file of `anna` and a token of `ci`. Returns the token.
fn credentials(app: &App, password: &str) -> String {
    shell(app, &format!("echo '{password}' | $TOLLGATE auth password anna >users"));
    shell(app, "$TOLLGATE auth token ci >tokens 2>shown; sed 's/.*: //' shown").trim().to_owned()
}

/// Asks with curl and these arguments. Returns the status.
fn status(app: &App, server: &Running, arguments: &str) -> String {
    shell(app, &format!("curl -sS -o reply -w '%{{http_code}}' {arguments} http://{}/in", server.address()))
}

/// Returns whether a file below a folder contains a text.
fn is_in_a_file(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match fs::read(&path) {
            Ok(bytes) => bytes.windows(text.len()).any(|window| window == text.as_bytes()),
            Err(_) => path.is_dir() && is_in_a_file(&path, text),
        }
    })
}

#[test]
fn passwords_and_tokens_open_a_route_and_are_in_no_output() {
    let app = App::bare(&[("tollgate.toml", CONFIG)]);
    let token = credentials(&app, "open sesame");
    let mut command = Command::new("sh");
    command.args(["-c", "RUST_LOG=debug exec \"$@\"", "sh", BINARY]);
    let server = app.begin_as(command).serving().unwrap();
    let bearer = format!("-H 'Authorization: Bearer {token}'");
    for (arguments, expected) in [
        ("-u 'anna:open sesame'", "200"),
        ("-u 'anna:wrong secret'", "401"),
        (&bearer, "200"),
        ("-H 'Authorization: Bearer wrong-secret'", "401"),
        ("", "401"),
    ] {
        assert_eq!(status(&app, &server, arguments), expected, "{arguments}");
    }
    let rows = || app.has_table("s").then(|| app.query::<String>("SELECT who FROM s ORDER BY who"));
    eventually("the rows", || rows().filter(|rows| rows == &["anna", "ci"]));
    let metrics = get(&app, "/metrics").content;
    let refused = "tollgate_http_refused_total{route=\"/in\",reason=\"credentials\"}";
    assert_eq!(sample(&metrics, refused), 3);
    eventually("the line", || server.has_logged("the name or the password is wrong").then_some(()));
    let printed_config = app.succeed(&["check", "--print"]);
    let encoded = ["b3BlbiBzZXNhbWU", "d3Jvbmcgc2VjcmV0"];
    let secrets = ["open sesame", "wrong secret", "wrong-secret", token.as_str()].into_iter().chain(encoded);
    let (logged, folder) = (server.logged(), app.path().join("data"));
    for secret in secrets {
        assert!(!logged.contains(secret), "{logged}");
        assert!(!metrics.contains(secret) && !printed_config.contains(secret), "{secret}");
        assert!(!is_in_a_file(&folder, secret), "{secret}");
    }
}

#[test]
fn a_reload_takes_new_passwords_and_a_broken_file_leaves_the_old_ones() {
    let app = App::bare(&[("tollgate.toml", CONFIG)]);
    credentials(&app, "first");
    let server = app.start();
    assert_eq!(status(&app, &server, "-u anna:first"), "200");
    app.write("users", "# staff\nanna:in-plain-text\n");
    let refused = app.run(&["reload"]);
    let text = printed(&refused);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("users: line 2: the password is a plain text"), "{text}");
    assert!(!text.contains("in-plain-text"), "{text}");
    assert_eq!(status(&app, &server, "-u anna:first"), "200");
    credentials(&app, "second");
    app.succeed(&["reload"]);
    assert_eq!(status(&app, &server, "-u anna:second"), "200");
    // The old password was remembered, and is forgotten with its hash.
    assert_eq!(status(&app, &server, "-u anna:first"), "401");
}

#[test]
fn a_token_that_openssl_signs_is_verified() {
    let config = CONFIG.replace(
        "basic = \"users\"\nbearer = \"tokens\"",
        "jwt = { issuer = \"me\", audience = \"us\", key_file = \"public.pem\" }",
    );
    let app = App::bare(&[("tollgate.toml", &config)]);
    shell(
        &app,
        "openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out key.pem 2>/dev/null
         openssl pkey -in key.pem -pubout -out public.pem",
    );
    let server = app.start();
    let token = |header: &str, sign: &str| {
        let claims = r#"{"iss":"me","aud":"us","sub":"anna","exp":4102444800}"#;
        shell(
            &app,
            &format!(
                "encoded() {{ openssl base64 -A | tr '+/' '-_' | tr -d '='; }}
                 signed=$(printf '%s' '{header}' | encoded).$(printf '%s' '{claims}' | encoded)
                 printf '%s.' \"$signed\"
                 printf '%s' \"$signed\" | openssl dgst -sha256 -binary {sign} | encoded"
            ),
        )
    };
    let pss = "-sign key.pem -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest";
    // The confusion of algorithms: the public key, which is no secret, signs by HMAC.
    let confused = "-mac HMAC -macopt hexkey:$(od -An -v -tx1 public.pem | tr -d ' \\n')";
    for (header, sign, expected) in [
        (r#"{"alg":"RS256"}"#, "-sign key.pem", "200"),
        (r#"{"alg":"PS256","typ":"JWT"}"#, pss, "200"),
        (r#"{"alg":"RS256"}"#, pss, "401"),
        (r#"{"alg":"HS256"}"#, confused, "401"),
    ] {
        let token = token(header, sign);
        let arguments = format!("-H 'Authorization: Bearer {token}'");
        assert_eq!(status(&app, &server, &arguments), expected, "{header} {sign}");
    }
}

#[test]
fn a_test_names_its_caller_or_sends_credentials() {
    let config = "[auth.staff]\nbasic = \"users\"\njwt = { issuer = \"me\", audience = \"us\", \
                  secret = \"file:secret\" }\n[[route]]\npath = \"/in\"\nscript = \"in.luau\"\n\
                  auth = { use = \"staff\", names = [\"anna\"] }\n[[route]]\npath = \"/open\"\nreply = {}\n";
    let tests = r#"return {
  ["a caller is named"] = function(t)
    local reply = t:request{ path = "/in", auth = { name = "anna", claims = { team = { "a", "b" } } } }
    t.equal(reply.body, "jwt anna b")
    t.equal(t:request{ path = "/in", auth = { name = "anna", scheme = "basic" } }.body, "basic anna nil")
    t.equal(t:request{ path = "/in", auth = { name = "bert" } }.status, 403)
  end,
  ["credentials are checked"] = function(t)
    local right = "Basic " .. tollgate.base64.encode("anna:open sesame")
    local wrong = "Basic " .. tollgate.base64.encode("anna:wrong")
    t.equal(t:request{ path = "/in", headers = { authorization = right } }.body, "basic anna nil")
    t.equal(t:request{ path = "/in", headers = { authorization = wrong } }.status, 401)
    t.equal(t:request{ path = "/in" }.status, 401)
  end,
  ["faults are errors"] = function(t)
    local function fault(auth, path)
      local _, text = pcall(function() t:request{ path = path or "/in", auth = auth } end)
      return tostring(text)
    end
    assert(string.find(fault({ name = "anna" }, "/open"), 'route "/open" has no auth', 1, true))
    assert(string.find(fault({ name = "anna", scheme = "digest" }), "allowed are basic, bearer, jwt", 1, true))
    assert(string.find(fault({ nam = "anna" }), "auth is invalid", 1, true))
    assert(string.find(fault({ name = "anna", claim = {} }), 'auth has no field "claim"', 1, true))
    assert(string.find(fault({ name = "anna", claims = { 1, 2 } }), "claims of auth are no object", 1, true))
  end,
}"#;
    let script = "return function(req) local claims = req.auth.claims \
                  return `{req.auth.scheme} {req.auth.name} {claims and claims.team[2]}` end";
    let app = App::bare(&[
        ("tollgate.toml", config),
        ("secret", "0123456789abcdef0123456789abcdef\n"),
        ("in.luau", script),
        ("tests/in.luau", tests),
    ]);
    shell(&app, "echo 'open sesame' | $TOLLGATE auth password anna >users");
    let output = app.run(&["test"]);
    assert!(output.status.success(), "{}", printed(&output));
    let shown = app.succeed(&["check", "--print"]);
    assert!(shown.contains("secret = \"file:") && !shown.contains("0123456789abcdef"), "{shown}");
}

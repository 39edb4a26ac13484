//! `[auth.NAME]` and `auth` of routes: files, faults, and what is printed.

use std::sync::Arc;

use super::*;

/// A vector of the crypt_blowfish test suite: the hash of "U*U".
const HASH: &str = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
/// The example key of RFC 8037 appendix A.2.
const JWKS: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// Writes the files `users`, `tokens` and `keys.json` into a folder.
pub(super) fn auth_files(folder: &Path) {
    fs::write(folder.join("users"), format!("anna:{HASH}\n")).unwrap();
    fs::write(folder.join("tokens"), format!("ci:{}\n", "0f".repeat(32))).unwrap();
    fs::write(folder.join("keys.json"), JWKS).unwrap();
}

fn resolved(text: &str) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    auth_files(folder.path());
    fs::write(folder.path().join("bad"), "anna:secret-in-plain-text\n").unwrap();
    fs::write(folder.path().join("secret"), "short\n").unwrap();
    resolve(&folder.path().join("t.toml"), text, &env).map_err(|error| error.to_string())
}

fn route(auth: &str) -> String {
    format!("[[route]]\npath = \"/a\"\nreply = {{}}\nauth = {auth}\n")
}

const NO_ISSUER: &str = "[auth.j]\njwt = { audience = [], key_file = \"keys.json\" }\n";
const STAFF: &str = "[auth.staff]\nbasic = \"users\"\nbearer = \"tokens\"\n";

#[test]
fn routes_share_a_section_or_have_credentials_of_their_own() {
    let text = format!(
        "{STAFF}{}{}",
        route("\"staff\""),
        route("{ use = \"staff\", names = [\"anna\"] }").replace("/a", "/b")
    );
    let config = resolved(&(text + &route("{ bearer = \"tokens\" }").replace("/a", "/c"))).unwrap();
    let auths: Vec<_> = config.server.routes.iter().map(|route| route.auth.clone().unwrap()).collect();
    assert!(Arc::ptr_eq(&auths[0].spec, &auths[1].spec));
    assert_eq!((auths[0].requirement.names.len(), auths[1].requirement.names.len()), (0, 1));
    assert_eq!((auths[2].spec.section.as_deref(), auths[2].spec.id.as_str()), (None, "route \"/c\""));
    assert_eq!(auths[0].spec.realm, "tollgate");
    assert_eq!(auths[0].spec.failures.map(|limit| limit.count), Some(10));
}

#[test]
fn faults_of_credentials_name_the_key_and_show_no_secret() {
    let jwt = |keys: &str| format!("[auth.j]\njwt = {{ issuer = \"i\", audience = \"a\"{keys} }}\n");
    for (text, expected) in [
        (route("\"staff\""), "unknown auth \"staff\": the file has no [auth.NAME]"),
        (STAFF.to_owned() + &route("\"staf\""), "unknown auth \"staf\", did you mean \"staff\"?"),
        (route("{ names = [\"a\"] }"), "auth has no credentials: set basic, bearer or jwt"),
        (STAFF.to_owned() + &route("{ use = \"staff\", realm = \"x\" }"), "realm in auth is not allowed"),
        (STAFF.to_owned() + &route("{ use = \"staff\", names = [] }"), "names in auth is empty"),
        (STAFF.to_owned() + &route("{ use = \"staff\", claims = { a = 1 } }"), "claims in auth needs jwt"),
        (route("{ basic = \"bad\" }"), "bad: line 1: the password is a plain text"),
        (route("{ bearer = \"bad\" }"), "bad: line 1: the value is not a SHA-256"),
        (route("{ basic = \"none\" }"), "No such file"),
        (route("{ basic = \"users\", realm = \"a\\\"b\" }"), "realm is"),
        (route("{ basic = \"users\", failure_limit = \"5\" }"), "failure_limit is \"5\", allowed is \"off\""),
        (route("{ basic = \"users\", name_header = \"X_User\" }"), "without _"),
        (route("{ basic = \"users\", name_header = \"Host\" }"), "has another meaning"),
        (route("{ basic = \"users\", name_header = \"Authorization\" }"), "has another meaning"),
        (jwt(""), "jwt has 0 of key_file, secret and backend"),
        (jwt(", key_file = \"keys.json\", secret = \"${LONG_SECRET}\""), "jwt has 2 of key_file"),
        (jwt(", key_file = \"users\""), "users: it has no public key"),
        (jwt(", key_file = \"keys.json\", path = \"/k\""), "path in jwt needs backend"),
        (jwt(", secret = \"secret-in-plain-text-of-32-bytes\""), "is a plain text, allowed is ${NAME}"),
        (jwt(", secret = \"file:secret\""), "the secret has 5 bytes, allowed are at least 32"),
        (jwt(", backend = \"idp\""), "unknown backend \"idp\""),
        (NO_ISSUER.to_owned(), "missing key \"issuer\""),
        (NO_ISSUER.to_owned(), "audience in jwt is empty"),
        (
            "[[route]]\npath = \"/\"\nreply = {}\n".to_owned()
                + "rate_limit = { rate = \"1/s\", by = \"request.auth.name\" }\n",
            "rate_limit by request.auth.name needs auth on the route",
        ),
        (
            "[stream.s]\ncolumns = [{ name = \"a\", type = \"text\", ".to_owned()
                + "from = \"request.header.Authorization\" }]\n",
            "has passwords and tokens of clients: add redact",
        ),
    ] {
        let faults = resolved(&text).unwrap_err();
        assert!(faults.contains(expected), "{text}{expected}:\n{faults}");
        assert!(!faults.contains("in-plain-text"), "{faults}");
    }
}

#[test]
fn files_of_passwords_and_tokens_are_never_served() {
    let files = "[[route]]\npath = \"/f/*\"\nfiles = \".\"\n";
    let faults = resolved(&format!("{STAFF}{files}")).unwrap_err();
    for expected in ["basic in auth.staff", "bearer in auth.staff"] {
        assert!(faults.contains(expected), "{faults}");
    }
}

#[test]
fn an_app_uses_its_own_sections_before_those_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let app = folder.path().join("app");
    fs::create_dir(&app).unwrap();
    auth_files(folder.path());
    auth_files(&app);
    let own = "[auth.own]\nbearer = \"tokens\"\n".to_owned();
    let second = route("\"staff\"").replace("/a", "/b");
    fs::write(app.join("app.toml"), own + &route("\"own\"") + &second).unwrap();
    let text = format!("{STAFF}[[app]]\npath = \"/x\"\ndir = \"app\"\n");
    let config = resolve(&folder.path().join("t.toml"), &text, &env).unwrap();
    let files: Vec<_> = config.server.routes.iter().map(|route| route.auth.clone().unwrap().spec).collect();
    assert_eq!(files[0].bearer.as_ref().unwrap().file, app.join("tokens"));
    assert_eq!(files[1].bearer.as_ref().unwrap().file, folder.path().join("tokens"));
    assert!(config.to_string().contains("# [auth.own]"), "{config}");
    // An app cannot read the files of the server.
    fs::write(app.join("app.toml"), route("{ bearer = \"../tokens\" }")).unwrap();
    let faults = resolve(&folder.path().join("t.toml"), &text, &env).unwrap_err().to_string();
    assert!(faults.contains("is outside of the app"), "{faults}");
}

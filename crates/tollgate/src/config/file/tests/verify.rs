//! `verify` of routes: the signature that requests must have.

use tollgate_server::{SignatureAlgorithm, VerifyKeys, VerifySecret, VerifySpec};

use super::*;

const ED25519: &str = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
/// A key of OpenSSL on P-384, as base64 of its DER.
const P384: &str = "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEGCQYOK2kEOra1ROYuvAUTSDpVv9nyPL+1GcOn/oq8gFjDbZhXzZ/+6/IUPiYScRs\
                    QVJd1+6fxTKBE3QH7PNBc3h1iyPAgTWZ/5tUT8GIELIrk3wakIRpCUByxq6I6Y9O";

fn route(verify: &str) -> String {
    format!("[[route]]\npath = \"/\"\nreply = {{}}\nverify = {verify}\n")
}

fn spec(verify: &str) -> VerifySpec {
    let config = load(&route(verify)).unwrap_or_else(|error| panic!("{error}"));
    let spec = config.server.routes[0].verify.as_deref().unwrap().clone();
    let printed = config.to_string();
    let again = load(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert_eq!(again.server.routes[0].verify.as_deref(), Some(&spec), "{printed}");
    assert_eq!(again.to_string(), printed);
    spec
}

fn fault(verify: &str, expected: &str) {
    check(&route(verify), &[&format!("t.toml:{expected}")]);
}

#[test]
fn a_preset_and_a_secret_are_enough() {
    for preset in ["github", "stripe", "slack", "shopify", "twilio"] {
        let spec = spec(&format!("{{ preset = \"{preset}\", secret = \"${{SECRET}}\" }}"));
        assert_eq!(spec.preset, Some(preset));
        assert_eq!(spec.keys, VerifyKeys::Secrets(vec![VerifySecret(b"0123456789abcdef".to_vec())]));
        assert_eq!(spec.scheme.tolerance.as_secs(), 300);
    }
    let standard = spec("{ preset = \"standard-webhooks\", secret = [\"${SECRET}\"] }");
    let decoded = [0xd3, 0x5d, 0xb7, 0xe3, 0x9e, 0xbb, 0xf3, 0xd6, 0x9b, 0x71, 0xd7, 0x9f];
    assert_eq!(standard.keys, VerifyKeys::Secrets(vec![VerifySecret(decoded.to_vec())]));
    let discord = spec(&format!("{{ preset = \"discord\", public_key = \"{ED25519}\" }}"));
    assert_eq!(discord.scheme.algorithm, SignatureAlgorithm::Ed25519);
}

#[test]
fn the_path_of_a_secret_may_have_a_variable() {
    let dir = app();
    fs::write(dir.path().join("0123456789"), "secret of a file\n").unwrap();
    let text = route("{ preset = \"github\", secret = \"file:${SHORT}\" }");
    let config = resolve(&dir.path().join("t.toml"), &text, &env).unwrap();
    let keys = &config.server.routes[0].verify.as_deref().unwrap().keys;
    assert_eq!(*keys, VerifyKeys::Secrets(vec![VerifySecret(b"secret of a file".to_vec())]));
    assert!(!config.to_string().contains("secret of a file"), "{config}");
}

#[test]
fn a_table_without_a_preset_is_a_scheme_of_its_own() {
    let own = spec("{ header = \"X-Signature\", secret = [\"${SECRET}\", \"${SHORT}\"] }");
    assert_eq!((own.scheme.header.as_str(), own.scheme.message.text()), ("x-signature", "{body}"));
    let VerifyKeys::Secrets(secrets) = &own.keys else { panic!("{own:?}") };
    assert_eq!(secrets.len(), 2);
    let key = format!("{{ header = \"x\", algorithm = \"ecdsa-p384\", public_key = \"{P384}\" }}");
    assert!(matches!(spec(&key).keys, VerifyKeys::Public(keys) if keys.len() == 1));
}

#[test]
fn a_value_changes_one_part_of_a_preset() {
    let svix = spec(
        "{ preset = \"standard-webhooks\", secret = \"${SECRET}\", header = \"Svix-Signature\", \
         message = \"{header.svix-id}.{timestamp}.{body}\", timestamp_header = \"Svix-Timestamp\" }",
    );
    assert_eq!((svix.scheme.prefix.as_str(), svix.scheme.header.as_str()), ("v1,", "svix-signature"));
    assert_eq!(svix.scheme.timestamp_header.as_deref(), Some("svix-timestamp"));
    let url = spec("{ preset = \"twilio\", secret = \"${SECRET}\", public_url = \"https://a.example/b/\" }");
    assert_eq!(url.public_url.as_deref(), Some("https://a.example/b"));
    let item = spec(
        "{ preset = \"slack\", secret = \"${SECRET}\", timestamp_item = \"t=\", separator = \"comma\" }",
    );
    assert_eq!((item.scheme.timestamp_header, item.scheme.timestamp_item.as_deref()), (None, Some("t=")));
}

#[test]
fn faults_of_signatures_are_told() {
    fault(
        "\"github\"",
        "4:10: verify in [[route]] is the string \"github\", allowed is a table { preset = \"NAME\", secret = \"${NAME}\" }",
    );
    fault(
        "{ preset = \"githup\", secret = \"${SECRET}\", header = \"x\" }",
        "4:21: preset in verify is \"githup\", did you mean \"github\"?",
    );
    fault(
        "{ preset = \"github\" }",
        "4:10: missing key \"secret\" in verify: algorithm hmac-sha256 needs it",
    );
    fault(
        "{ preset = \"discord\" }",
        "4:10: missing key \"public_key\" in verify: algorithm ed25519 needs it",
    );
    fault(
        "{ secret = \"${SECRET}\" }",
        "4:10: missing key \"header\" in verify: a scheme without a preset needs it",
    );
    fault(
        "{ header = \"a b\", secret = \"${SECRET}\" }",
        "4:21: header in verify is \"a b\", allowed is the name of a header",
    );
    fault(
        "{ preset = \"github\", secret = \"${SECRET}\", message = \"{time}{body}\" }",
        "4:63: message in verify is \"{time}{body}\", but it has the unknown name {time}",
    );
    fault(
        "{ preset = \"github\", secret = \"${SECRET}\", timestamp_header = \"x-time\" }",
        "4:10: message in verify has no {timestamp}, which timestamp_header needs: it must be signed",
    );
    fault(
        "{ preset = \"github\", secret = \"${SECRET}\", message = \"{timestamp}{body}\" }",
        "4:63: message in verify has {timestamp}, which needs timestamp_header or timestamp_item",
    );
    fault(
        &format!("{{ preset = \"github\", secret = \"${{SECRET}}\", public_key = \"{ED25519}\" }}"),
        "4:66: public_key in verify is not allowed with algorithm hmac-sha256: give secret",
    );
    fault(
        &format!("{{ header = \"x\", algorithm = \"rsa-sha256\", public_key = \"{ED25519}\" }}"),
        "4:65: public_key in verify is Ed25519, but algorithm rsa-sha256 needs RSA",
    );
    fault(
        "{ preset = \"discord\", public_key = \"x\" }",
        "4:45: public_key in verify: it is neither hexadecimal digits nor base64",
    );
    fault(
        "{ preset = \"twilio\", secret = \"${SECRET}\", public_url = \"https://a/?b\" }",
        "4:66: public_url in verify is \"https://a/?b\", allowed is a URL without a query, like \"https://hooks.example.org\"",
    );
    let many = ["\"${SECRET}\""; 9].join(", ");
    fault(
        &format!("{{ preset = \"github\", secret = [{many}] }}"),
        "4:40: secret in verify has 9 values, limit 8",
    );
}

#[test]
fn a_secret_comes_from_a_variable_or_a_file_and_is_in_no_output() {
    let dir = app();
    fs::write(dir.path().join("key"), "open sesame\n").unwrap();
    fs::write(dir.path().join("empty"), "\n").unwrap();
    fs::create_dir_all(dir.path().join("pub")).unwrap();
    fs::write(dir.path().join("pub/key"), "open sesame\n").unwrap();
    let read = |text: &str| resolve(&dir.path().join("t.toml"), text, &env);
    let config = read(&route("{ preset = \"github\", secret = [\"file:key\", \"${SECRET}\"] }")).unwrap();
    let printed = config.to_string();
    assert!(printed.contains("secret = [\"file:key\", \"${SECRET}\"]"), "{printed}");
    for secret in ["sesame", "0123456789abcdef"] {
        assert!(!printed.contains(secret) && !format!("{config:?}").contains(secret), "{secret}");
    }
    for (secret, expected) in [
        ("sesame", "secret in verify is a plain text, allowed is ${NAME} or file:PATH"),
        ("x${SECRET}", "secret in verify is a plain text, allowed is ${NAME} or file:PATH"),
        ("${MISSING}", "environment variable MISSING is not set"),
        ("file:missing", "missing: No such file"),
        ("file:empty", "empty: it is empty"),
    ] {
        let faults = read(&route(&format!("{{ preset = \"github\", secret = \"{secret}\" }}")));
        let faults = faults.unwrap_err().to_string();
        assert!(faults.contains(expected), "{secret}: {faults}");
        assert!(!faults.contains("sesame") && !faults.contains("0123456789abcdef"), "{faults}");
    }
    let form = "{ header = \"x\", secret_form = \"base64\", secret = \"${SHORT}\" }";
    let faults = read(&route(form)).unwrap_err().to_string();
    assert!(faults.contains("secret in verify is empty, or is not written as base64"), "{faults}");
    assert!(!faults.contains("0123456789"), "{faults}");
    let served = "[[route]]\npath = \"/f/*\"\nfiles = \"pub\"\n".to_owned();
    let secret = "{ preset = \"github\", secret = \"file:pub/key\" }";
    let faults = read(&(served + &route(secret))).unwrap_err().to_string();
    assert!(faults.contains("secret in verify of route \"/\""), "{faults}");
}

#[test]
fn another_secret_is_a_change_and_neither_is_shown() {
    let dir = app();
    let text = route("{ preset = \"github\", secret = \"file:key\" }");
    let read = |secret: &str| {
        fs::write(dir.path().join("key"), secret).unwrap();
        resolve(&dir.path().join("t.toml"), &text, &env).unwrap()
    };
    let (one, other) = (read("one"), read("other"));
    let shown = |changes: Vec<_>| changes.iter().map(ToString::to_string).collect::<Vec<String>>();
    assert_eq!(shown(one.changes_to(&other)), ["route \"/\".verify.secret: changed"]);
    assert_eq!(shown(other.changes_to(&other)), [""; 0]);
}

/// A mount grants variables. The file of a secret must be in the folder of the app.
#[test]
fn an_app_has_secrets_in_its_folder_and_from_variables_that_its_mount_grants() {
    let dir = app();
    let of_app = |secret: &str, grants: &str| {
        fs::create_dir_all(dir.path().join("app")).unwrap();
        let app = route(&format!("{{ preset = \"github\", secret = \"{secret}\" }}"));
        fs::write(dir.path().join("app/app.toml"), app).unwrap();
        let text = format!("[[app]]\npath = \"/a\"\ndir = \"app\"\n{grants}");
        resolve(&dir.path().join("t.toml"), &text, &env)
    };
    let granted = "script = { env = [\"SECRET\"] }\n";
    assert!(of_app("${SECRET}", granted).is_ok());
    let faults = of_app("${SECRET}", "").unwrap_err().to_string();
    assert!(faults.contains("environment variable SECRET is not set"), "{faults}");
    fs::write(dir.path().join("key"), "open sesame").unwrap();
    fs::write(dir.path().join("app/key"), "open sesame").unwrap();
    assert!(of_app("file:key", "").is_ok());
    let faults = of_app("file:../key", "").unwrap_err().to_string();
    assert!(faults.contains("is outside of the app"), "{faults}");
}

//! The example site over HTTPS in a real browser, with the certificate of `tollgate cert local`.

use std::process::Command;

use serde_json::json;

use crate::chromium::{checked_example, said_over_https};
use crate::program::printed;

/// The check that the page in the browser runs.
const CHECK: &str = r#"
  const frame = await open("/")
  const image = frame.contentDocument.querySelector("img").naturalWidth
  const [page] = performance.getEntriesByType("navigation")
  return { scheme: location.protocol, secure: isSecureContext, protocol: page.nextHopProtocol, image }
"#;

/// The hash by which Chromium accepts the key of a certificate: SHA-256 of its SubjectPublicKeyInfo.
const HASH: &str = "openssl x509 -in data/tls/local.pem -pubkey -noout | openssl pkey -pubin -outform der | \
                    openssl dgst -sha256 -binary | base64";

#[test]
fn a_browser_shows_the_example_over_https() {
    let app = checked_example("site", str::to_owned, CHECK);
    app.succeed(&["cert", "local"]);
    let column = "from = \"record.said\" }";
    let version =
        format!("{column}, {{ name = \"version\", type = \"text\", from = \"request.tls.version\" }}");
    let tls = "{ address = \"127.0.0.1:0\", tls = true }";
    let config = app.config().replace("\"127.0.0.1:0\"", tls).replace(column, &version);
    let certificate =
        "[[certificate]]\nfile = \"data/tls/local.pem\"\nkey_file = \"data/tls/local-key.pem\"\n";
    app.write("tollgate.toml", &format!("{config}{certificate}"));
    let server = app.start();
    let hash = Command::new("sh").args(["-c", HASH]).current_dir(app.path()).output().unwrap();
    assert!(hash.status.success(), "{}", printed(&hash));
    let (browser, said) = said_over_https(&app, &server, String::from_utf8(hash.stdout).unwrap().trim());
    assert_eq!(said, json!({ "scheme": "https:", "secure": true, "protocol": "http/1.1", "image": 64 }));
    drop(browser);
    assert!(server.stop().0.success());
    assert_eq!(app.query::<String>("SELECT version FROM said"), ["1.3"]);
}

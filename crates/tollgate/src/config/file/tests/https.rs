//! Redirects to HTTPS and the policy of browsers.

use super::*;

const PLAIN: &str = "[server]\nlisten = [{ address = \"127.0.0.1:80\", redirect_to_https = true }]\n";

#[test]
fn rules_of_https_need_requests_that_come_by_https() {
    let needed = "which needs an address of listen with tls = true, or trusted_proxies that end TLS";
    check(
        &format!("{PLAIN}[tls]\nhsts = {{}}\n"),
        &[
            &format!("t.toml:3:1: listen in [server] has redirect_to_https = true, {needed}"),
            &format!("t.toml:4:8: [tls] has hsts, {needed}"),
        ],
    );
    for proxy in ["10.0.0.1", "unix"] {
        check(&format!("{PLAIN}trusted_proxies = [\"{proxy}\"]\n[tls]\nhsts = {{}}\n"), &[]);
    }
}

#[test]
fn an_address_with_tls_has_no_redirect() {
    let both = PLAIN.replace("redirect_to_https = true", "redirect_to_https = true, tls = true");
    let found = load(&both).unwrap_err().faults;
    let expected = "redirect_to_https in listen is not allowed with tls = true: remove one of both";
    assert!(found.iter().any(|fault| fault.to_string().ends_with(expected)), "{found:?}");
}

#[test]
fn a_policy_has_whole_seconds_and_preload_has_its_conditions() {
    let with = |policy: &str, expected: &[&str]| {
        check(&format!("[server]\ntrusted_proxies = [\"unix\"]\n[tls]\nhsts = {policy}\n"), expected);
    };
    with("{ max_age = \"8760h\", include_subdomains = true, preload = true }", &[]);
    with("{ max_age = \"0s\" }", &[]);
    with(
        "{ max_age = \"1500ms\" }",
        &["t.toml:4:20: max_age in hsts is \"1500ms\", allowed are whole seconds"],
    );
    let needs = "preload in hsts needs include_subdomains = true and a max_age of \"8760h\" or more: the list \
                 of browsers takes no other policy";
    with("{ preload = true }", &[&format!("t.toml:4:20: {needs}")]);
    with(
        "{ max_age = \"1h\", include_subdomains = true, preload = true }",
        &[&format!("t.toml:4:63: {needs}")],
    );
    with("\"on\"", &["t.toml:4:8: hsts in [tls] is \"on\", allowed is a table { max_age = \"8760h\", ... }"]);
}

#[test]
fn certificates_of_clients_need_an_address_with_tls_and_revoked_ones_an_authority() {
    check(
        "[tls]\nclient_ca = \"ca.pem\"\n",
        &["t.toml:2:13: client_ca in [tls] has no effect, because no address of listen has tls"],
    );
    check(
        "[tls]\nclient_crls = [\"revoked.pem\"]\n",
        &["t.toml:2:15: client_crls in [tls] needs client_ca, the authorities of the revoked certificates"],
    );
}

#[test]
fn files_of_clients_that_cannot_be_used_are_named() {
    let dir = super::backends::with_certificates();
    let file = dir.path().join("t.toml");
    let text = "[server]\nlisten = [{ address = \"127.0.0.1:0\", tls = true }]\n\
                [[certificate]]\nfile = \"me.pem\"\nkey_file = \"me.key\"\n[tls]\n";
    for (keys, expected) in [
        ("client_ca = \"me.key\"\n", "client_ca in [tls]: FOLDER/me.key: it has no certificate in PEM"),
        (
            "client_ca = \"ca.pem\"\nclient_crls = [\"me.pem\"]\n",
            "client_crls in [tls]: FOLDER/me.pem: it has no revocation list (X509 CRL) in PEM",
        ),
    ] {
        let error = resolve(&file, &format!("{text}{keys}"), &env).unwrap_err();
        let expected = expected.replace("FOLDER", &dir.path().display().to_string());
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

#[test]
fn a_rule_about_certificates_of_clients_names_certificates() {
    let with = |rule: &str, expected: &[&str]| {
        let route = format!("[[route]]\npath = \"/\"\nreply = {{}}\nclient_certificate = {rule}\n");
        let needs = "t.toml:1:1: client_certificate of route \"/\" needs client_ca in [tls], so that clients are asked \
                     for one";
        let all: Vec<_> = [needs].into_iter().chain(expected.iter().copied()).collect();
        check(&route, &all);
    };
    with("true", &[]);
    with("{ san = [\"dns:a\"] }", &[]);
    let neither = "client_certificate has neither san nor fingerprint: write true for any certificate";
    with("{ san = [] }", &[&format!("t.toml:4:22: {neither}")]);
    with(
        "{ san = [\"a.example\"] }",
        &["t.toml:4:31: san has \"a.example\", allowed is a name after its kind: dns:, ip:, email:, uri:"],
    );
    with(
        "{ fingerprint = [\"00:11\"] }",
        &["t.toml:4:39: fingerprint has \"00:11\", allowed are the 64 hexadecimal digits of \"openssl x509 \
           -fingerprint -sha256\""],
    );
}

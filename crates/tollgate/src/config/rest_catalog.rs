//! The keys of a REST catalog in the table `iceberg` of `[sink.NAME]`.

use std::path::{Path, PathBuf};

use tollgate_load::{ClientCredentials, RestAuth, RestOptions, SigV4};
use tollgate_ship::check_web_address;

use super::denied::denial;
use super::key::{inline, keys, shown};
use super::path::{PathTo, path};
use super::quoted::{quoted, quoted_path};
use super::section::{Section, Written};

keys! {
    /// The keys of a REST catalog.
    pub(super) REST_KEYS of RestOptions;
    /// The warehouse or catalog that the server is asked for.
    catalog_warehouse [WAREHOUSE] = other("none", "a text");
    /// A file with the token that requests carry.
    token_file [TOKEN_FILE] = other("none", "a path");
    /// The id of the client that gets tokens by OAuth 2. It needs `client_secret_file`.
    client_id [CLIENT_ID] = other("none", "a text");
    /// A file with the secret of the client.
    client_secret_file [CLIENT_SECRET_FILE] = other("none", "a path");
    /// The scope of the tokens of the client.
    scope [SCOPE] = other("none", "a text");
    /// The address that gives tokens to the client.
    oauth2_url [OAUTH2_URL] = other("the catalog, with `/v1/oauth/tokens`", "a URL; `http://` to loopback only");
    /// Requests are signed for AWS, with the keys of the warehouse or of the machine.
    sigv4 [SIGV4] = other("none", "`{ region = \"...\", service = \"...\" }`");
    /// A PEM file with the authorities that the certificate of the catalog may come from.
    catalog_ca_file [CA_FILE] = other("the authorities of the system", "a path");
}

keys! {
    /// The keys of the table `sigv4`.
    pub(super) SIGV4_KEYS of SigV4;
    /// The region of the service.
    region [REGION] = other("needed", "a name");
    /// The name of the service in the signature.
    service [SERVICE] = text("glue", "a name");
}

/// Returns whether the text of a catalog is the address of a REST catalog.
pub(super) fn is_rest(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

/// Reads the keys of a REST catalog at an address. Paths are relative to `folder`.
pub(super) fn read(table: &mut Section<'_>, address: &Written<String>, folder: &Path) -> RestOptions {
    check(table, "catalog", address);
    check_end(table, address);
    let token_file = file(table, TOKEN_FILE.name, folder);
    let secret_file = file(table, CLIENT_SECRET_FILE.name, folder);
    let client = client(table, secret_file);
    let aws = sigv4(table);
    if [token_file.is_some(), client.is_some(), aws.is_some()]
        .into_iter()
        .filter(|is_given| *is_given)
        .count()
        > 1
    {
        let text = format!("{} has two of token_file, client_id and sigv4, allowed is one", table.name());
        table.fault(text);
    }
    let auth = match (token_file, client, aws) {
        (Some(file), _, _) => RestAuth::TokenFile(file),
        (None, Some(client), _) => RestAuth::ClientCredentials(client),
        (None, None, Some(aws)) => RestAuth::SigV4(aws),
        (None, None, None) => RestAuth::None,
    };
    RestOptions {
        warehouse: table.text(WAREHOUSE.name).map(|text| text.value),
        auth,
        ca: file(table, CA_FILE.name, folder),
        ..RestOptions::new(&address.value)
    }
}

/// Refuses the keys of a REST catalog for another catalog.
pub(super) fn refuse(table: &mut Section<'_>) {
    for key in REST_KEYS {
        let name = key.facts.name;
        if table.has(name) {
            let text = format!("{name} in {} needs a REST catalog, found a database", table.name());
            table.fault_of(name, text);
            table.skip(name);
        }
    }
}

fn check(table: &Section<'_>, key: &str, address: &Written<String>) {
    if let Err(reason) = check_web_address(&address.value) {
        table.fault_at(&address.span, format!("{key} in {}: {reason}", table.name()));
    }
}

/// Refuses an address with the part that the program adds.
fn check_end(table: &Section<'_>, address: &Written<String>) {
    if address.value.trim_end_matches('/').ends_with("/v1") {
        let text = format!(
            "catalog in {} is {:?}, to which the program adds /v1/config: remove /v1",
            table.name(),
            address.value
        );
        table.fault_at(&address.span, text);
    }
}

/// Takes the path of a file that exists.
fn file(table: &mut Section<'_>, key: &'static str, folder: &Path) -> Option<PathBuf> {
    let written = path(table, key, PathTo::File)?;
    let path = folder.join(&written.value);
    if !path.is_file() {
        let absent = || {
            let (table, path) = (table.name(), path.display());
            format!("{key} in {table} is {path}, which is not a file: create it, or correct the path")
        };
        table.fault_at(&written.span, denial(&path).unwrap_or_else(absent));
    }
    Some(path)
}

fn client(table: &mut Section<'_>, secret_file: Option<PathBuf>) -> Option<ClientCredentials> {
    let id = table.text(CLIENT_ID.name).map(|text| text.value);
    let scope = table.text(SCOPE.name).map(|text| text.value);
    let url = table.text(OAUTH2_URL.name);
    url.iter().for_each(|url| check(table, OAUTH2_URL.name, url));
    match (id, secret_file) {
        (Some(client_id), Some(secret_file)) => {
            Some(ClientCredentials { client_id, secret_file, scope, url: url.map(|url| url.value) })
        }
        (None, None) if scope.is_none() && url.is_none() => None,
        _ => {
            let text = format!(
                "{} needs client_id and client_secret_file, or none of client_id, client_secret_file, scope \
                 and oauth2_url",
                table.name()
            );
            table.fault(text);
            None
        }
    }
}

fn sigv4(table: &mut Section<'_>) -> Option<SigV4> {
    let name = format!("{} of {}", SIGV4.name, table.name());
    let mut aws = table.take_table(SIGV4.name, name)?;
    let region = aws.needed_text(REGION.name).map(|text| text.value);
    let service = aws.text(SERVICE.name).map(|text| text.value);
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    for (key, value) in [(REGION.name, &region), (SERVICE.name, &service)] {
        if let Some(value) = value.as_deref().filter(|value| !is_name(value)) {
            let text =
                format!("{key} in {} is {value:?}, allowed is a name of letters, digits and -", aws.name());
            aws.fault_of(key, text);
        }
    }
    aws.finish();
    let service = service.unwrap_or_else(|| SERVICE.default_text().to_owned());
    Some(SigV4 { region: region.unwrap_or_default(), service })
}

/// Returns the file with a secret, with its key.
pub(super) fn secret_file(options: &RestOptions) -> Option<(&'static str, &Path)> {
    match &options.auth {
        RestAuth::TokenFile(file) => Some((TOKEN_FILE.name, file)),
        RestAuth::ClientCredentials(client) => Some((CLIENT_SECRET_FILE.name, &client.secret_file)),
        RestAuth::None | RestAuth::SigV4(_) => None,
    }
}

/// Returns the keys with their values, as TOML.
pub(super) fn printed(options: &RestOptions) -> Vec<(&'static str, String)> {
    let (token_file, client, aws) = match &options.auth {
        RestAuth::None => (None, None, None),
        RestAuth::TokenFile(file) => (Some(file), None, None),
        RestAuth::ClientCredentials(client) => (None, Some(client), None),
        RestAuth::SigV4(aws) => (None, None, Some(aws)),
    };
    let text = |text: Option<&String>| text.map(|text| quoted(text));
    let sigv4 = |aws: &SigV4| {
        let own = [(REGION.name, Some(quoted(&aws.region))), (SERVICE.name, Some(quoted(&aws.service)))];
        inline(SIGV4_KEYS, aws, &own)
    };
    let own = [
        (WAREHOUSE.name, text(options.warehouse.as_ref())),
        (TOKEN_FILE.name, token_file.map(|file| quoted_path(file))),
        (CLIENT_ID.name, text(client.map(|client| &client.client_id))),
        (CLIENT_SECRET_FILE.name, client.map(|client| quoted_path(&client.secret_file))),
        (SCOPE.name, text(client.and_then(|client| client.scope.as_ref()))),
        (OAUTH2_URL.name, text(client.and_then(|client| client.url.as_ref()))),
        (SIGV4.name, aws.map(sigv4)),
        (CA_FILE.name, options.ca.as_deref().map(quoted_path)),
    ];
    shown(REST_KEYS, options, &own)
}

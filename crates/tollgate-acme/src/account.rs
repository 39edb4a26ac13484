//! The account with the ACME server. Its key is on disk before it is registered.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use instant_acme::Account;
use ring::digest::{SHA256, digest};
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde::{Deserialize, Serialize};

use crate::error::AcmeError;
use crate::folder::StateFolder;
use crate::http::AcmeHttp;
use crate::jws::AccountKey;
use crate::options::AcmeOptions;
use crate::register::register;

/// Maximum characters of a directory's URL in the name of its account file.
const NAME_CHARS_MAX: usize = 100;

/// The account file.
#[derive(Serialize, Deserialize)]
struct StoredAccount {
    directory: String,
    /// The private key, PKCS #8 in base64.
    key: String,
    /// The URL of the account. `None`: the key is not registered yet.
    url: Option<String>,
}

/// Returns the account of the folder. Registers it first, if that is still to be done.
pub(crate) async fn account(
    http: &AcmeHttp,
    folder: &StateFolder,
    options: &AcmeOptions,
) -> Result<Account, AcmeError> {
    let file = file_of(&options.directory);
    let stored = folder.read_document::<StoredAccount>(&file)?;
    let mut stored = match stored.filter(|stored| stored.directory == options.directory) {
        Some(stored) => stored,
        None => created(folder, options, &file)?,
    };
    let unusable = || AcmeError::Options(format!("{file} has no account key that can be used"));
    let bytes = BASE64_STANDARD.decode(&stored.key).map_err(|_| unusable())?;
    let url = match &stored.url {
        Some(url) => url.clone(),
        None => {
            let key = AccountKey::read(&bytes).ok_or_else(unusable)?;
            let url = register(http, options, &key).await?;
            stored.url = Some(url.clone());
            folder.write_document(&file, &stored)?;
            tracing::info!(account = url, directory = options.directory, "the ACME account is registered");
            url
        }
    };
    let key = PrivatePkcs8KeyDer::from(bytes);
    let builder = Account::builder_with_http(Box::new(http.clone()));
    Ok(builder.from_parts(url, key, options.directory.clone()).await?)
}

/// Forgets the URL of an account that the server does not know any more. The next call of [`account`]
/// registers the same key again.
pub(crate) fn forget(folder: &StateFolder, options: &AcmeOptions) -> Result<(), AcmeError> {
    let file = file_of(&options.directory);
    let Some(mut stored) = folder.read_document::<StoredAccount>(&file)? else { return Ok(()) };
    stored.url = None;
    folder.write_document(&file, &stored)
}

fn created(folder: &StateFolder, options: &AcmeOptions, file: &str) -> Result<StoredAccount, AcmeError> {
    let bytes = AccountKey::generate();
    let bytes = bytes.map_err(|_| AcmeError::Options("no random bytes for an account key".to_owned()))?;
    let directory = options.directory.clone();
    let stored = StoredAccount { directory, key: BASE64_STANDARD.encode(bytes), url: None };
    folder.write_document(file, &stored)?;
    Ok(stored)
}

fn file_of(directory: &str) -> String {
    let place = directory.strip_prefix("https://").unwrap_or(directory);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let plain = place.chars().map(|c| if is_plain(c) { c } else { '-' });
    let plain: String = plain.take(NAME_CHARS_MAX).collect();
    // Two directories may have the same plain text, and each has its own account.
    let digest = digest(&SHA256, directory.as_bytes());
    let digest: String = digest.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("account-{plain}-{digest}.json")
}

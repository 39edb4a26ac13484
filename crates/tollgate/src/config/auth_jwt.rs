//! `jwt` of `[auth.NAME]`: which JSON Web Tokens are accepted, and where their keys come from.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate_server::{JwtKeys, JwtRules, JwtSpec, KeySet};

use super::auth_file::{AuthPlace, file};
use super::fault::did_you_mean;
use super::key::{Facts, inline, keys};
use super::quoted::{quoted, quoted_list, quoted_path};
use super::secret::{FILE, find_secret};
use super::section::Section;
use super::units::{MINUTE_MS, SECOND_MS};

/// The bounds of `jwt` that are numbers.
#[derive(Default)]
pub(super) struct JwtBounds {
    leeway: Duration,
}

keys! {
    pub(super) KEYS of JwtBounds;
    /// The allowed issuers: values of the claim `iss`.
    issuer [ISSUER] = other("needed", "a text, or a list of texts");
    /// The audiences of this server: the claim `aud` must have one of them.
    audience [AUDIENCE] = other("needed", "a text, or a list of texts");
    /// Public keys: PEM, or a JWK Set.
    key_file [KEY_FILE] = other("needed, or `secret` or `backend`", "a file");
    /// The shared secret of HS256, at least 32 bytes. It is never printed, and its file is never served.
    secret [SECRET] = other("needed, or `key_file` or `backend`", "`${NAME}` or `file:PATH`");
    /// The backend that publishes the keys as a JWK Set.
    backend [BACKEND] = other("needed, or `key_file` or `secret`", "the name of a `[backend.NAME]`");
    /// The path of the JWK Set.
    path [PATH] = text("/.well-known/jwks.json", "a path that begins with `/`, with `backend`");
    /// How far the clocks of issuer and server may differ.
    leeway = duration(60 * SECOND_MS, 0..=10 * MINUTE_MS) => leeway;
    /// The claim with the name of the caller.
    name_claim [NAME_CLAIM] = text("sub", "the name of a claim");
}

/// Takes the table.
pub(super) fn jwt(section: &mut Section<'_>, key: &Facts, place: AuthPlace<'_>) -> Option<JwtSpec> {
    let name = format!("jwt of {}", section.name());
    let mut table = section.take_table(key.name, name)?;
    let mut bounds = JwtBounds::default();
    table.read(KEYS, &mut bounds);
    let issuers = text_or_texts(&mut table, &ISSUER);
    let audiences = text_or_texts(&mut table, &AUDIENCE);
    let name_claim = table.text(NAME_CLAIM.name).map(|written| written.value);
    let keys = keys_of(&mut table, place);
    table.finish();
    let rules = JwtRules {
        issuers: issuers?,
        audiences: audiences?,
        leeway_s: u32::try_from(bounds.leeway.as_secs()).unwrap_or(u32::MAX),
        name_claim: name_claim.unwrap_or_else(|| NAME_CLAIM.default_text().to_owned()),
    };
    Some(JwtSpec { rules, keys: keys? })
}

/// Takes a text or a list of texts that is not empty.
fn text_or_texts(section: &mut Section<'_>, key: &Facts) -> Option<Vec<String>> {
    let name = key.name;
    if !section.has(name) {
        section.fault(format!("missing key \"{name}\" in {}", section.name()));
    }
    let texts = match section.as_written(name) {
        Some(_) => section.text(name).into_iter().collect(),
        None => section.texts(name)?,
    };
    if texts.is_empty() && section.as_written(name).is_none() {
        section.fault_of(name, format!("{name} in jwt is empty, allowed is at least one text"));
    }
    Some(texts.into_iter().map(|text| text.value).collect())
}

/// Takes the source of the keys. Exactly one of three keys is allowed.
fn keys_of(section: &mut Section<'_>, place: AuthPlace<'_>) -> Option<JwtKeys> {
    let given: Vec<_> =
        [&KEY_FILE, &SECRET, &BACKEND].into_iter().filter(|key| section.has(key.name)).collect();
    if given.len() != 1 {
        section.fault(format!(
            "jwt has {} of key_file, secret and backend, allowed is one of them",
            given.len()
        ));
    }
    if section.has(PATH.name) && !section.has(BACKEND.name) {
        section.fault_of(PATH.name, "path in jwt needs backend");
    }
    let loaded =
        file(section, &KEY_FILE, place, |text| KeySet::from_file(text).map_err(|fault| fault.to_string()));
    let secret = secret(section, place);
    let backend = backend(section, place);
    loaded.map(JwtKeys::File).or(secret).or(backend)
}

/// Takes the secret. It is printed as the file has it, which is not the secret itself.
fn secret(section: &mut Section<'_>, place: AuthPlace<'_>) -> Option<JwtKeys> {
    let as_written = section.as_written(SECRET.name)?;
    let text = section.text(SECRET.name)?;
    let found = find_secret(section, "secret in jwt", as_written, &text, place.folder).ok()?;
    let written = match &found.file {
        Some(file) => format!("{FILE}{}", file.display()),
        None => as_written.to_owned(),
    };
    match KeySet::from_secret(found.value.as_bytes()) {
        Ok(keys) => Some(JwtKeys::Secret { written, file: found.file, keys: Arc::new(keys) }),
        Err(fault) => {
            section.fault_at(&text.span, format!("secret in jwt: {fault}"));
            None
        }
    }
}

fn backend(section: &mut Section<'_>, place: AuthPlace<'_>) -> Option<JwtKeys> {
    let path = section.text(PATH.name);
    if let Some(path) = path.as_ref().filter(|path| !is_target(&path.value)) {
        let text = format!("path in jwt is {:?}, allowed is a path that begins with \"/\"", path.value);
        section.fault_at(&path.span, text);
    }
    let name = section.text(BACKEND.name)?;
    if !place.backends.iter().any(|backend| backend.name == name.value) {
        let hint = did_you_mean(&name.value, place.backends.iter().map(|backend| backend.name.as_str()));
        section.fault_at(&name.span, format!("unknown backend {:?}{hint}", name.value));
    }
    let path = path.map_or_else(|| PATH.default_text().to_owned(), |path| path.value);
    Some(JwtKeys::Backend { name: name.value, path })
}

/// Returns whether a text can be the target of a request (RFC 9112 section 3.2.1).
fn is_target(text: &str) -> bool {
    text.starts_with('/')
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"#\"<>\\^`{}".contains(&byte))
}

/// Shows the table, with every key.
pub(super) fn show(jwt: &JwtSpec) -> String {
    let JwtSpec { rules, keys } = jwt;
    let bounds = JwtBounds { leeway: Duration::from_secs(rules.leeway_s.into()) };
    let (mut key_file, mut secret, mut backend, mut path) = (None, None, None, None);
    match keys {
        JwtKeys::File(file) => key_file = Some(quoted_path(&file.file)),
        // The text is printed as the file has it, so that it reads back. It has no secret.
        JwtKeys::Secret { written, .. } => secret = Some(toml::Value::String(written.clone()).to_string()),
        JwtKeys::Backend { name, path: set } => (backend, path) = (Some(quoted(name)), Some(quoted(set))),
    }
    let own = [
        (ISSUER.name, Some(quoted_list(&rules.issuers))),
        (AUDIENCE.name, Some(quoted_list(&rules.audiences))),
        (KEY_FILE.name, key_file),
        (SECRET.name, secret),
        (BACKEND.name, backend),
        (PATH.name, path),
        (NAME_CLAIM.name, Some(quoted(&rules.name_claim))),
    ];
    inline(KEYS, &bounds, &own)
}

/// Returns the file of the secret, if a file holds it.
pub(super) fn secret_file(jwt: &JwtSpec) -> Option<&PathBuf> {
    match &jwt.keys {
        JwtKeys::Secret { file, .. } => file.as_ref(),
        JwtKeys::File(_) | JwtKeys::Backend { .. } => None,
    }
}

/// Returns the file of public keys.
pub(super) fn key_file(jwt: &JwtSpec) -> Option<&PathBuf> {
    match &jwt.keys {
        JwtKeys::File(file) => Some(&file.file),
        JwtKeys::Secret { .. } | JwtKeys::Backend { .. } => None,
    }
}

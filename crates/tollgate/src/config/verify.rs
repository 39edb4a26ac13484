//! `verify` of a route: the signature that requests must have. The printed table reads back to the same
//! value.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tollgate_server::{
    MessagePart, MessageTemplate, PRESETS, SecretForm, SignatureAlgorithm, SignatureEncoding, SignatureKind,
    SignaturePreset, SignatureScheme, SignatureSeparator, VerifyKeys, VerifySecret, VerifySpec,
};
use tollgate_signature::{PublicKey, decode_hex};

use super::fault::did_you_mean;
use super::key::{Facts, inline, keys};
use super::quoted::quoted;
use super::secret::{FILE, find_secret};
use super::section::{Section, TextOrTable, Written};
use super::units::{HOUR_MS, MINUTE_MS};
use super::value::{named, names};

const ALLOWED: &str = "a table { preset = \"NAME\", secret = \"${NAME}\" }";
const SECRETS_ALLOWED: &str = "`${NAME}` or `file:PATH`, or a list of them";
const PUBLIC_KEYS_ALLOWED: &str =
    "`file:PATH` of PEM, base64 of DER, the hexadecimal digits of Ed25519, or a list of them";
const PRESETS_ALLOWED: &str = "`github` `stripe` `slack` `shopify` `standard-webhooks` `twilio` `discord`";
/// Maximum number of keys. Each request is compared with each of them.
const KEYS_MAX: usize = 8;
/// The prefix of secrets of Standard Webhooks.
const WHSEC: &str = "whsec_";

named!(SignatureSeparator, SignatureEncoding, SignatureAlgorithm, SecretForm);

keys! {
    pub(super) KEYS of SignatureScheme;
    /// The service whose scheme the route uses. Other keys change single values of the scheme.
    preset [PRESET] = other("none", PRESETS_ALLOWED);
    /// The secret that the partner has too. Several secrets allow a change without a gap. Their files are
    /// never served.
    secret [SECRET] = other("needed, or `public_key`", SECRETS_ALLOWED).hidden();
    /// The public key of the partner.
    public_key [PUBLIC_KEY] = other("needed, or `secret`", PUBLIC_KEYS_ALLOWED);
    /// Maximum difference between the timestamp of a request and the clock, to both sides.
    tolerance = duration(5 * MINUTE_MS, 1000..=24 * HOUR_MS) => tolerance;
    /// The address under which the partner reaches the server, for `{url}`.
    public_url [PUBLIC_URL] = other("scheme and host of the request", "a URL without a query");
    /// The header field of the signature.
    header [HEADER] = other("as in the preset", "the name of a header");
    /// What separates the items of the field.
    separator = one_of("none", names::<SignatureSeparator>).inherits(SEPARATOR_DEFAULT) => separator;
    /// The beginning of an item that is a signature.
    prefix [PREFIX] = other("as in the preset, or `\"\"`", "a text");
    /// How the bytes of a signature are written.
    encoding = one_of("hex", names::<SignatureEncoding>).inherits(ENCODING_DEFAULT) => encoding;
    /// The algorithm.
    algorithm = one_of("hmac-sha256", names::<SignatureAlgorithm>).inherits(ALGORITHM_DEFAULT) => algorithm;
    /// The signed message: a text with values of the request in braces.
    message [MESSAGE] = other("as in the preset, or `\"{body}\"`", "a [template](#the-signed-message)");
    /// The header field of the timestamp, in seconds since 1970.
    timestamp_header [TIMESTAMP_HEADER] = other("as in the preset", "the name of a header");
    /// The beginning of the item of `header` that is the timestamp.
    timestamp_item [TIMESTAMP_ITEM] = other("as in the preset", "a text");
    /// How the secret is written.
    secret_form = one_of("text", names::<SecretForm>).inherits(SECRET_FORM_DEFAULT) => secret_form;
}

const SEPARATOR_DEFAULT: &str = "as in the preset, or `\"none\"`";
const ENCODING_DEFAULT: &str = "as in the preset, or `\"hex\"`";
const ALGORITHM_DEFAULT: &str = "as in the preset, or `\"hmac-sha256\"`";
const SECRET_FORM_DEFAULT: &str = "as in the preset, or `\"text\"`";

/// Takes the signature of a route, if `verify` is set. Paths are relative to `folder`.
pub(super) fn verify(section: &mut Section<'_>, key: &Facts, folder: &Path) -> Option<Arc<VerifySpec>> {
    match section.text_or_table(key.name, ALLOWED)? {
        TextOrTable::Text(text) => {
            let found = &text.value;
            let fault = format!("verify in [[route]] is the string {found:?}, allowed is {ALLOWED}");
            section.fault_at(&text.span, fault);
            None
        }
        TextOrTable::Table(table) => spec(table, folder).map(Arc::new),
    }
}

fn spec(mut section: Section<'_>, folder: &Path) -> Option<VerifySpec> {
    let preset = section.text(PRESET.name).and_then(|name| preset(&section, &name));
    let mut scheme = match SignatureScheme::try_from(&preset.unwrap_or(SignaturePreset::PLAIN)) {
        Ok(scheme) => scheme,
        Err(problem) => {
            section.fault(problem);
            return None;
        }
    };
    section.overlay(KEYS, &mut scheme);
    take_texts(&mut section, &mut scheme);
    check_timestamp(&section, &scheme);
    let public_url = section.text(PUBLIC_URL.name).and_then(|url| public_url(&section, &url));
    let keys = take_keys(&mut section, &scheme, folder);
    section.finish();
    let (keys, written, secret_files) = keys?;
    let preset = preset.map(|preset| preset.name);
    Some(VerifySpec { preset, scheme, keys, written, secret_files, public_url })
}

fn preset(section: &Section<'_>, name: &Written<String>) -> Option<SignaturePreset> {
    let found = PRESETS.into_iter().find(|preset| preset.name == name.value);
    if found.is_none() {
        let hint = did_you_mean(&name.value, PRESETS.iter().map(|preset| preset.name));
        section.fault_at(&name.span, format!("preset in verify is {:?}{hint}", name.value));
    }
    found
}

/// Takes the values that are texts.
fn take_texts(section: &mut Section<'_>, scheme: &mut SignatureScheme) {
    if let Some(header) = header(section, HEADER.name) {
        scheme.header = header;
    } else if scheme.header.is_empty() && !section.has(HEADER.name) {
        section.fault("missing key \"header\" in verify: a scheme without a preset needs it");
    }
    if let Some(prefix) = section.text(PREFIX.name) {
        scheme.prefix = prefix.value;
    }
    let (own_header, own_item) = (section.has(TIMESTAMP_HEADER.name), section.has(TIMESTAMP_ITEM.name));
    if own_header || own_item {
        scheme.timestamp_header = header(section, TIMESTAMP_HEADER.name);
        scheme.timestamp_item = section.text(TIMESTAMP_ITEM.name).map(|item| item.value);
    }
    if let Some(message) = section.text(MESSAGE.name) {
        match MessageTemplate::parse(&message.value) {
            Ok(template) => scheme.message = template,
            Err(problem) => {
                let text = format!("message in verify is {:?}, but {problem}", message.value);
                section.fault_at(&message.span, text);
            }
        }
    }
}

fn header(section: &mut Section<'_>, key: &'static str) -> Option<String> {
    let header = section.text(key)?;
    if !tollgate_http::is_field_name(header.value.as_bytes()) {
        let text = format!("{key} in verify is {:?}, allowed is the name of a header", header.value);
        section.fault_at(&header.span, text);
    }
    Some(header.value.to_ascii_lowercase())
}

/// Checks that a timestamp is signed. Without that, anybody could send an old request with a new timestamp.
fn check_timestamp(section: &Section<'_>, scheme: &SignatureScheme) {
    let is_signed = scheme.message.has(&MessagePart::Timestamp);
    let key = match (&scheme.timestamp_header, &scheme.timestamp_item) {
        (Some(_), Some(_)) => {
            let text = "verify has timestamp_header and timestamp_item, allowed is one of them";
            return section.fault_of(TIMESTAMP_ITEM.name, text);
        }
        (Some(_), None) => TIMESTAMP_HEADER.name,
        (None, Some(_)) => TIMESTAMP_ITEM.name,
        (None, None) if is_signed => {
            let text = "message in verify has {timestamp}, which needs timestamp_header or timestamp_item";
            return section.fault_of(MESSAGE.name, text);
        }
        (None, None) => return,
    };
    if !is_signed {
        let text = format!("message in verify has no {{timestamp}}, which {key} needs: it must be signed");
        section.fault_of(MESSAGE.name, text);
    }
}

fn public_url(section: &Section<'_>, url: &Written<String>) -> Option<String> {
    let rest = url.value.strip_prefix("https://").or_else(|| url.value.strip_prefix("http://"));
    let is_sound = rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && rest.bytes().all(|byte| byte.is_ascii_graphic())
            && !rest.contains(['?', '#', '@'])
    });
    if !is_sound {
        let allowed = "a URL without a query, like \"https://hooks.example.org\"";
        section.fault_at(&url.span, format!("public_url in verify is {:?}, allowed is {allowed}", url.value));
    }
    is_sound.then(|| url.value.trim_end_matches('/').to_owned())
}

/// The keys, their texts as written, and the files of secrets.
type TakenKeys = (VerifyKeys, Vec<String>, Vec<PathBuf>);

fn take_keys(section: &mut Section<'_>, scheme: &SignatureScheme, folder: &Path) -> Option<TakenKeys> {
    let name = scheme.algorithm.name();
    let (needed, other) = match scheme.algorithm.kind() {
        SignatureKind::Hmac(_) => (&SECRET, &PUBLIC_KEY),
        SignatureKind::Public(_) => (&PUBLIC_KEY, &SECRET),
    };
    if section.has(other.name) {
        let text =
            format!("{} in verify is not allowed with algorithm {name}: give {}", other.name, needed.name);
        section.fault_of(other.name, text);
    }
    section.text_or_texts(other.name, "a string");
    if !section.has(needed.name) {
        section.fault(format!("missing key \"{}\" in verify: algorithm {name} needs it", needed.name));
    }
    let texts = section.text_or_texts(needed.name, "a string, or a list of strings");
    if texts.len() > KEYS_MAX {
        let text = format!("{} in verify has {} values, limit {KEYS_MAX}", needed.name, texts.len());
        section.fault_of(needed.name, text);
    }
    let written = texts.iter().map(|(as_written, _)| (*as_written).to_owned()).collect();
    match scheme.algorithm.kind() {
        SignatureKind::Hmac(_) => {
            let mut files = Vec::new();
            let secrets = texts.iter().filter_map(|(as_written, text)| {
                secret(section, as_written, text, scheme.secret_form, folder, &mut files)
            });
            let secrets: Vec<_> = secrets.collect();
            (!secrets.is_empty()).then_some((VerifyKeys::Secrets(secrets), written, files))
        }
        SignatureKind::Public(algorithm) => {
            let keys = texts.iter().flat_map(|(_, text)| public_keys(section, text, folder));
            let keys: Vec<_> = keys.collect();
            if let Some(key) = keys.iter().find(|key| key.kind() != algorithm.key_kind()) {
                let (found, needed) = (key.kind(), algorithm.key_kind());
                let text = format!("public_key in verify is {found}, but algorithm {name} needs {needed}");
                section.fault_of(PUBLIC_KEY.name, text);
            }
            (!keys.is_empty()).then_some((VerifyKeys::Public(keys), written, Vec::new()))
        }
    }
}

fn secret(
    section: &Section<'_>,
    as_written: &str,
    text: &Written<String>,
    form: SecretForm,
    folder: &Path,
    files: &mut Vec<PathBuf>,
) -> Option<VerifySecret> {
    let found = find_secret(section, "secret in verify", as_written, text, folder);
    let file = found.as_ref().map_or_else(Clone::clone, |found| found.file.clone());
    files.extend(file);
    let bytes = decode_secret(&found.ok()?.value, form);
    if bytes.is_none() {
        // The fault does not have the value, because it is the secret.
        let text_ = format!("secret in verify is empty, or is not written as {}", form.name());
        section.fault_at(&text.span, text_);
    }
    bytes.map(VerifySecret)
}

fn decode_secret(text: &str, form: SecretForm) -> Option<Vec<u8>> {
    let bytes = match form {
        SecretForm::Text => text.as_bytes().to_vec(),
        SecretForm::Base64 => BASE64_STANDARD.decode(text.strip_prefix(WHSEC).unwrap_or(text)).ok()?,
        SecretForm::Hex => decode_hex(text.as_bytes())?,
    };
    (!bytes.is_empty()).then_some(bytes)
}

fn public_keys(section: &Section<'_>, text: &Written<String>, folder: &Path) -> Vec<PublicKey> {
    let found = match text.value.strip_prefix(FILE) {
        Some(path) => {
            let path = folder.join(path);
            let pem = std::fs::read(&path).map_err(|error| error.to_string());
            let keys = pem.and_then(|pem| PublicKey::all_from_pem(&pem).map_err(|error| error.to_string()));
            keys.map_err(|reason| format!("{}: {reason}", path.display()))
        }
        None => public_key(&text.value).map(|key| vec![key]),
    };
    found.unwrap_or_else(|reason| {
        section.fault_at(&text.span, format!("public_key in verify: {reason}"));
        Vec::new()
    })
}

/// Reads a key from hexadecimal digits, as Discord shows it, or from base64 of DER, as SendGrid shows it.
fn public_key(text: &str) -> Result<PublicKey, String> {
    let found = match decode_hex(text.as_bytes()) {
        Some(bytes) => PublicKey::from_ed25519(&bytes),
        None => {
            let der = BASE64_STANDARD.decode(text);
            PublicKey::from_der(&der.map_err(|_| "it is neither hexadecimal digits nor base64".to_owned())?)
        }
    };
    found.map_err(|error| error.to_string())
}

/// Shows the signature as the file writes it, with every key.
pub(super) fn show(spec: &VerifySpec) -> String {
    let VerifySpec { preset, scheme, keys, written, public_url, .. } = spec;
    let texts: Vec<_> = written.iter().map(|text| toml::Value::String(text.clone()).to_string()).collect();
    let texts = match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let (secret, public_key) = match keys {
        VerifyKeys::Secrets(_) => (Some(texts), None),
        VerifyKeys::Public(_) => (None, Some(texts)),
    };
    let own = [
        (PRESET.name, preset.map(quoted)),
        (SECRET.name, secret),
        (PUBLIC_KEY.name, public_key),
        (PUBLIC_URL.name, public_url.as_deref().map(quoted)),
        (HEADER.name, Some(quoted(&scheme.header))),
        (PREFIX.name, Some(quoted(&scheme.prefix))),
        (MESSAGE.name, Some(quoted(scheme.message.text()))),
        (TIMESTAMP_HEADER.name, scheme.timestamp_header.as_deref().map(quoted)),
        (TIMESTAMP_ITEM.name, scheme.timestamp_item.as_deref().map(quoted)),
    ];
    inline(KEYS, scheme, &own)
}

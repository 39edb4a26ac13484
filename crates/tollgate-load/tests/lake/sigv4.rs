//! Checks the signature of a request, without the code that made it (AWS Signature Version 4).
//!
//! Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::gateway::{ACCESS_KEY, SECRET_KEY};
use crate::rest_http::Request;

pub(crate) const REGION: &str = "eu-central-1";
pub(crate) const SERVICE: &str = "glue";
const BLOCK_BYTES: usize = 64;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// HMAC (RFC 2104) with SHA-256.
fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    assert!(key.len() <= BLOCK_BYTES);
    let pad = |byte: u8| -> Vec<u8> {
        (0..BLOCK_BYTES).map(|place| key.get(place).copied().unwrap_or(0) ^ byte).collect()
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

/// Encodes a part of a path once more, as each service but S3 wants it.
fn encoded(segment: &str) -> String {
    segment.replace('%', "%25")
}

/// Returns the value after a name in the field `authorization`.
fn part<'r>(authorization: &'r str, name: &str) -> Option<&'r str> {
    let rest = authorization.split_once(name)?.1.strip_prefix('=')?;
    rest.split([',', ' ']).next()
}

pub(crate) fn check(request: &Request) -> Result<(), String> {
    let authorization = request.field("authorization").ok_or("no authorization")?;
    let algorithm = authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or("another algorithm")?;
    let time = request.field("x-amz-date").ok_or("no date")?;
    let day = time.get(..8).ok_or("a short date")?;
    let scope = format!("{day}/{REGION}/{SERVICE}/aws4_request");
    if part(algorithm, "Credential") != Some(&format!("{ACCESS_KEY}/{scope}")) {
        return Err(format!("another scope: {authorization}"));
    }
    let digest = hex(&Sha256::digest(&request.content));
    if request.field("x-amz-content-sha256") != Some(&digest) {
        return Err("another digest of the content".to_owned());
    }
    let names = part(algorithm, "SignedHeaders").ok_or("no signed headers")?;
    if !["host", "x-amz-content-sha256", "x-amz-date"].iter().all(|name| names.split(';').any(|n| n == *name))
    {
        return Err(format!("unsigned fields: {names}"));
    }
    let mut fields = String::new();
    for name in names.split(';') {
        let _ = writeln!(fields, "{name}:{}", request.field(name).ok_or("a signed field is missing")?);
    }
    let path: Vec<_> = request.path().split('/').map(encoded).collect();
    let mut query: Vec<_> =
        request.target.split_once('?').map_or("", |(_, query)| query).split('&').collect();
    query.sort_unstable();
    let canonical = [&request.method, &path.join("/"), &query.join("&"), &fields, names, &digest].join("\n");
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(&canonical)));
    let key = [day, REGION, SERVICE, "aws4_request"]
        .iter()
        .fold(format!("AWS4{SECRET_KEY}").into_bytes(), |key, part| hmac(&key, part));
    match part(algorithm, "Signature") {
        Some(found) if found == hex(&hmac(&key, &text)) => Ok(()),
        _ => Err(format!("another signature for {canonical:?}")),
    }
}

#[test]
fn a_signature_of_the_tests_is_one_of_rfc_4231() {
    let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(hex(&hmac(b"Jefe", "what do ya want for nothing?")), expected);
}

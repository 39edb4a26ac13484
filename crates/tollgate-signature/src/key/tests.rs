//! Tests of keys: the examples of the RFCs, texts of OpenSSL, and texts that are no key.

use base64::prelude::BASE64_STANDARD;

use super::*;
use crate::{Form, Sha2};

/// RFC 7515 appendix A.2 and A.3, RFC 8037 appendix A.4.
#[test]
fn the_signatures_of_the_rfcs_hold_by_the_keys_of_the_rfcs() {
    let rsa = Jwk { kty: "RSA", n: Some(RFC7515_N), e: Some("AQAB"), ..Jwk::default() };
    let input = format!("eyJhbGciOiJSUzI1NiJ9.{RFC7515_CLAIMS}");
    check(&rsa, Algorithm::RsaPkcs1(Sha2::Sha256), &input, RFC7515_RSA);
    let ec = Jwk { kty: "EC", crv: Some("P-256"), x: Some(RFC7515_X), y: Some(RFC7515_Y), ..Jwk::default() };
    let input = format!("eyJhbGciOiJFUzI1NiJ9.{RFC7515_CLAIMS}");
    check(&ec, Algorithm::Ecdsa(Curve::P256, Form::Fixed), &input, RFC7515_EC);
    let okp = Jwk { kty: "OKP", crv: Some("Ed25519"), x: Some(RFC8037_X), ..Jwk::default() };
    check(&okp, Algorithm::Ed25519, RFC8037_INPUT, RFC8037_SIGNATURE);
}

#[track_caller]
fn check(jwk: &Jwk<'_>, algorithm: Algorithm, message: &str, signature: &str) {
    let key = PublicKey::from_jwk(jwk).unwrap();
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    assert_eq!(key.verify(algorithm, message.as_bytes(), &signature), Ok(()));
    assert_eq!(key.verify(algorithm, b"other", &signature), Err(VerifyError::Mismatch));
    for other in ALGORITHMS.into_iter().filter(|other| other.key_kind() != key.kind()) {
        let refused = VerifyError::KeyKind { key: key.kind(), needed: other.key_kind() };
        assert_eq!(key.verify(other, message.as_bytes(), &signature), Err(refused));
    }
}

#[test]
fn a_certificate_and_its_public_key_in_pem_are_the_same_key() {
    let keys =
        PublicKey::all_from_pem(format!("{CERTIFICATE}text between\n{PUBLIC_KEY}").as_bytes()).unwrap();
    let [of_certificate, key] = keys.as_slice() else { panic!("{keys:?}") };
    assert!(of_certificate == key && key.kind() == KeyKind::Ec(Curve::P384));
    let signature = BASE64_STANDARD.decode(SIGNATURE).unwrap();
    let der = Algorithm::Ecdsa(Curve::P384, Form::Der);
    assert_eq!(key.verify(der, b"hello", &signature), Ok(()));
    assert_eq!(key.verify(der, b"hullo", &signature), Err(VerifyError::Mismatch));
    let fixed = Algorithm::Ecdsa(Curve::P384, Form::Fixed);
    assert_eq!(key.verify(fixed, b"hello", &signature), Err(VerifyError::Mismatch));
}

#[test]
fn a_text_that_is_no_usable_key_is_refused_with_the_reason() {
    let check = |text: &str, expected: &str| {
        let error = PublicKey::all_from_pem(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("", "it has no public key in PEM");
    check("sesame", "it has no public key in PEM");
    check("-----BEGIN PUBLIC KEY-----\nsesame!\n-----END PUBLIC KEY-----\n", "it is not valid PEM");
    check(
        "-----BEGIN PUBLIC KEY-----\nc2VzYW1l\n-----END PUBLIC KEY-----\n",
        "the public key is not valid DER",
    );
    check(
        "-----BEGIN CERTIFICATE-----\nc2VzYW1l\n-----END CERTIFICATE-----\n",
        "the certificate is not valid DER",
    );
    check(PRIVATE_KEY, "it has a private key");
    check(RSA_1024, "the RSA key has 1024 bits");
    check(P521, "the key has algorithm 1.3.132.0.35");
    check(COMPRESSED, "the P-384 key is not an uncompressed point");
}

#[test]
fn a_jwk_that_is_no_usable_key_is_refused_with_the_reason() {
    let check = |jwk: Jwk<'_>, expected: &str| {
        let error = PublicKey::from_jwk(&jwk).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let rsa = Jwk { kty: "RSA", n: Some(RFC7515_N), e: Some("AQAB"), ..Jwk::default() };
    check(Jwk { n: None, ..rsa }, "the JWK has no n");
    check(Jwk { e: None, ..rsa }, "the JWK has no e");
    check(Jwk { n: Some("AQAB"), ..rsa }, "the RSA key has 17 bits");
    check(Jwk { n: Some(""), ..rsa }, "the RSA key has 0 bits");
    check(Jwk { n: Some("AQ=="), ..rsa }, "n of the JWK is not base64url");
    for e in ["", "AA", "AQ", "AAAB", "Ag", "AgAAAAE", "AQAAAAAB"] {
        check(Jwk { e: Some(e), ..rsa }, "the RSA key is not valid");
    }
    let ec = Jwk { kty: "EC", crv: Some("P-256"), x: Some(RFC7515_X), y: Some(RFC7515_Y), ..Jwk::default() };
    check(Jwk { y: None, ..ec }, "the JWK has no y");
    check(Jwk { x: Some("AQAB"), ..ec }, "the P-256 key is not an uncompressed point");
    check(Jwk { crv: Some("P-384"), ..ec }, "the P-384 key is not an uncompressed point");
    check(Jwk { crv: Some("secp256k1"), ..ec }, "kty \"EC\" and crv \"secp256k1\"");
    check(Jwk { kty: "oct", ..ec }, "kty \"oct\"");
    let okp = Jwk { kty: "OKP", crv: Some("Ed25519"), x: Some("AQAB"), ..Jwk::default() };
    check(okp, "the Ed25519 key is not an uncompressed point");
    check(Jwk { crv: Some("X25519"), ..okp }, "crv \"X25519\"");
}

#[test]
fn an_rsa_key_with_leading_zeros_is_the_same_key() {
    let n = BASE64_URL_SAFE_NO_PAD.decode(RFC7515_N).unwrap();
    let padded = [vec![0], n.clone()].concat();
    assert!(PublicKey::from_rsa(&n, &[1, 0, 1]) == PublicKey::from_rsa(&padded, &[0, 0, 1, 0, 1]));
}

const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::RsaPkcs1(Sha2::Sha256),
    Algorithm::RsaPss(Sha2::Sha256),
    Algorithm::Ecdsa(Curve::P256, Form::Fixed),
    Algorithm::Ecdsa(Curve::P384, Form::Der),
    Algorithm::Ed25519,
];

const RFC7515_N: &str = "\
    ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-\
    Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-\
    pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-\
    UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-\
    DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
const RFC7515_RSA: &str = "\
    cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-\
    0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--\
    f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHW\
    EsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypG\
    lUPQGe77Rw";
const RFC7515_X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
const RFC7515_Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
const RFC7515_EC: &str =
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
const RFC7515_CLAIMS: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
const RFC8037_X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
const RFC8037_INPUT: &str = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
const RFC8037_SIGNATURE: &str =
    "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
/// A self-signed certificate of OpenSSL, P-384.
const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBuDCCAT6gAwIBAgIUK+uwcLT0Xm525z0POcCmckieU7swCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHcGFydG5lcjAgFw0yNjExMjgwNTE4MTdaGA8yMTI2MTEwNDA1
MTgxN1owEjEQMA4GA1UEAwwHcGFydG5lcjB2MBAGByqGSM49AgEGBSuBBAAiA2IA
BBgkGDitpBDq2tUTmLrwFE0g6Vb/Z8jy/tRnDp/6KvIBYw22YV82f/uvyFD4mEnE
bEFSXdfun8UygRN0B+zzQXN4dYsjwIE1mf+bVE/BiBCyK5N8GpCEaQlAcsauiOmP
TqNTMFEwHQYDVR0OBBYEFADCSq8rfAbkl4GWh6O5d2QrHRNpMB8GA1UdIwQYMBaA
FADCSq8rfAbkl4GWh6O5d2QrHRNpMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0E
AwIDaAAwZQIwJLoeozlWsk1Nb0MbJlfI2zSTHUMlzD5MK0C45CDLd3uQkw/vqVn/
Zgk3B1ouCBktAjEA90pFPifAXbzgBCMX2EgAzzBMGwAcs3HdtH6h6mugLQN3XcZr
vTcgDdxK6QlAlLFG
-----END CERTIFICATE-----
";
/// Its public key, as `openssl x509 -pubkey` writes it.
const PUBLIC_KEY: &str = "\
-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEGCQYOK2kEOra1ROYuvAUTSDpVv9nyPL+
1GcOn/oq8gFjDbZhXzZ/+6/IUPiYScRsQVJd1+6fxTKBE3QH7PNBc3h1iyPAgTWZ
/5tUT8GIELIrk3wakIRpCUByxq6I6Y9O
-----END PUBLIC KEY-----
";
/// The signature of `hello` by `openssl dgst -sha384 -sign`.
const SIGNATURE: &str = "\
    MGYCMQCDqrd8x3e9hWHpYKhWRrWdUGKmFkGSEXGq7kmdRUYwFsJhHqpuRfdESt6He2fko6ACMQChziLfOhkHmergL3HByIdI\
    Pw9xtgqvqgsh6InWkYG9iZI0JZmQOkL0svuEzfwmzjg=";
/// The same key with `-conv_form compressed`.
const COMPRESSED: &str = "\
-----BEGIN PUBLIC KEY-----
MEYwEAYHKoZIzj0CAQYFK4EEACIDMgACGCQYOK2kEOra1ROYuvAUTSDpVv9nyPL+
1GcOn/oq8gFjDbZhXzZ/+6/IUPiYScRs
-----END PUBLIC KEY-----
";
/// A private key.
const PRIVATE_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINQPbGKp0ODX7jV3n2O+IEAZYa8RQJjeSgjPlWjr3Vhs
-----END PRIVATE KEY-----
";
/// An RSA key that is too short.
const RSA_1024: &str = "\
-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCnAgh+IyvQm/0kr/JVpP8JFI2L
JEfE6TKV46jbu2FunJNkut5YiZ+QtYlIlLdsSqOigd0Sfi45nMYI+AhluZXBFWfW
7BQVEqDtJWgFhfuoF4fcMyMGnv2CfYn4WI0Hd7DZDAWDsohLRPiiKdj86OwWrQME
0JRjQWe5WcTpDEqJVwIDAQAB
-----END PUBLIC KEY-----
";
/// A key on P-521.
const P521: &str = "\
-----BEGIN PUBLIC KEY-----
MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAU59Bk0SuxJ4fLPp0V3nkkiEyO3eH
ToV1uiz1z2FvEz3paWZ0pBKKwkOumC7YXAZu7aMYG4s+gkFvStz2X/h9cL8BG7Zt
ghARFFVTMmUo5RFTsL/7zbeALEqL3mVgWHAvMMxWC795DsOUodJHzMPClGa+if7O
JsdUyLLmgF1ySU86X+4=
-----END PUBLIC KEY-----
";

//! Tokens that are valid, and each way in which a token is not.

use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaKeyPair,
};
use serde_json::json;

use super::*;

const NOW_S: i64 = 1_800_000_000;
const SECRET: &[u8] = b"a secret of at least 32 bytes, for HS256";

/// The keys of an issuer.
struct Issuer {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
    random: SystemRandom,
}

impl Issuer {
    fn new() -> Self {
        let pem = include_str!("tests/rsa_key.pem");
        let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let der = base64::engine::general_purpose::STANDARD.decode(body).unwrap();
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let ec = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self {
            rsa: RsaKeyPair::from_pkcs8(&der).unwrap(),
            ec: EcdsaKeyPair::from_pkcs8(algorithm, ec.as_ref(), &random).unwrap(),
            ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap(),
            random,
        }
    }

    fn sign(&self, how: &str, message: &[u8]) -> Vec<u8> {
        let mut rsa = vec![0; self.rsa.public().modulus_len()];
        match how {
            "RS256" => {
                self.rsa.sign(&RSA_PKCS1_SHA256, &self.random, message, &mut rsa).map(|()| rsa).unwrap()
            }
            "PS256" => self.rsa.sign(&RSA_PSS_SHA256, &self.random, message, &mut rsa).map(|()| rsa).unwrap(),
            "ES256" => self.ec.sign(&self.random, message).unwrap().as_ref().to_vec(),
            "EdDSA" => self.ed.sign(message).as_ref().to_vec(),
            "none" => Vec::new(),
            _ => panic!("{how}"),
        }
    }

    /// Returns a token with any header, which is signed by `how`.
    fn token(&self, how: &str, header: &Value, claims: &Value) -> String {
        let signed = signed(header, claims);
        let signature = self.sign(how, signed.as_bytes());
        format!("{signed}.{}", encoded(&signature))
    }

    /// Returns the public members of the three keys.
    fn jwks(&self) -> Value {
        let public: PublicKeyComponents<Vec<u8>> = self.rsa.public().into();
        let (n, e) = (encoded(&public.n), encoded(&public.e));
        let point = self.ec.public_key().as_ref();
        let (x, y) = (encoded(&point[1..33]), encoded(&point[33..]));
        json!({"keys": [
            {"kty": "RSA", "kid": "rsa", "n": n, "e": e, "use": "sig"},
            {"kty": "EC", "kid": "ec", "crv": "P-256", "x": x, "y": y, "alg": "ES256"},
            {"kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": encoded(self.ed.public_key().as_ref())},
        ]})
    }

    fn keys(&self) -> KeySet {
        KeySet::from_file(&self.jwks().to_string()).unwrap()
    }
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn signed(header: &Value, claims: &Value) -> String {
    [header, claims].map(|part| encoded(part.to_string().as_bytes())).join(".")
}

/// Returns a token that HMAC signs with any bytes as the secret.
fn hmac_token(secret: &[u8], header: &Value, claims: &Value) -> String {
    let signed = signed(header, claims);
    let mut hmac = tollgate_signature::Hmac::new(tollgate_signature::Hash::Sha256, secret);
    hmac.update(signed.as_bytes());
    format!("{signed}.{}", encoded(&hmac.finish()))
}

fn rules() -> JwtRules {
    JwtRules {
        issuers: vec!["https://id.example".into(), "https://old.example".into()],
        audiences: vec!["orders".into()],
        leeway_s: 60,
        name_claim: "sub".into(),
    }
}

fn claims() -> Value {
    json!({"iss": "https://id.example", "aud": "orders", "sub": "anna", "exp": NOW_S + 300, "role": "admin"})
}

/// Returns the claims with one of them changed. Null removes it.
fn but(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match (value, claims.as_object_mut().unwrap()) {
        (Value::Null, all) => drop(all.remove(name)),
        (value, all) => drop(all.insert(name.to_owned(), value)),
    }
    claims
}

fn verified(token: &str, keys: &KeySet) -> Result<String, JwtFault> {
    verify_jwt(token, keys, &rules(), NOW_S).map(|identity| identity.name)
}

#[test]
fn a_token_of_each_algorithm_names_its_caller() {
    let (issuer, keys) = (Issuer::new(), Issuer::new);
    let own = issuer.keys();
    for (algorithm, kid) in [("RS256", "rsa"), ("PS256", "rsa"), ("ES256", "ec"), ("EdDSA", "ed")] {
        for header in [
            json!({"alg": algorithm, "kid": kid, "typ": "JWT"}),
            json!({"alg": algorithm, "typ": "application/at+jwt", "x5t": "ignored"}),
        ] {
            let token = issuer.token(algorithm, &header, &claims());
            assert_eq!(verified(&token, &own), Ok("anna".to_owned()), "{header}");
        }
    }
    let token = issuer.token("ES256", &json!({"alg": "ES256", "kid": "ec"}), &claims());
    let identity = verify_jwt(&token, &own, &rules(), NOW_S).unwrap();
    assert_eq!(identity.claims.unwrap()["role"], "admin");
    assert_eq!(verified(&token, &keys().keys()), Err(JwtFault::Signature));
    let secret = KeySet::from_secret(SECRET).unwrap();
    assert_eq!(
        verified(&hmac_token(SECRET, &json!({"alg": "HS256", "kid": "any"}), &claims()), &secret),
        Ok("anna".into())
    );
}

#[test]
fn a_header_cannot_choose_a_weaker_algorithm_or_a_key() {
    use JwtFault::{Algorithm, Header, Malformed, Signature, UnknownKey};
    let issuer = Issuer::new();
    let keys = issuer.keys();
    let jwk = issuer.jwks()["keys"][0].clone();
    for (how, header, expected) in [
        ("none", json!({"alg": "none"}), Algorithm),
        ("none", json!({"alg": "None", "kid": "rsa"}), Algorithm),
        ("none", json!({"alg": "RS256", "kid": "rsa"}), Signature),
        ("none", json!({"alg": "HS256", "kid": "rsa"}), Algorithm),
        ("RS256", json!({"alg": "RS512", "kid": "rsa"}), Algorithm),
        ("RS256", json!({"alg": "PS256", "kid": "rsa"}), Signature),
        ("RS256", json!({"alg": "ES256", "kid": "rsa"}), Algorithm),
        ("ES256", json!({"alg": "RS256", "kid": "ec"}), Algorithm),
        ("ES256", json!({"alg": "EdDSA", "kid": "ec"}), Algorithm),
        ("RS256", json!({"alg": "RS256", "kid": "ec"}), Algorithm),
        ("RS256", json!({"alg": "RS256", "kid": "../rsa"}), UnknownKey),
        ("RS256", json!({"alg": "RS256", "kid": "rsa' OR '1'='1"}), UnknownKey),
        ("RS256", json!({"alg": "RS256", "kid": ""}), UnknownKey),
        ("RS256", json!({"alg": "RS256", "kid": 1}), Header),
        ("RS256", json!({"alg": "RS256", "kid": ["rsa"]}), Header),
        ("RS256", json!({"alg": ["RS256"], "kid": "rsa"}), Malformed),
        ("RS256", json!({"kid": "rsa"}), Malformed),
        ("RS256", json!({"alg": "RS256", "kid": "rsa", "jku": "https://evil.example/k"}), Header),
        ("RS256", json!({"alg": "RS256", "kid": "rsa", "x5u": "https://evil.example/k"}), Header),
        ("RS256", json!({"alg": "RS256", "jwk": jwk}), Header),
        ("RS256", json!({"alg": "RS256", "kid": "rsa", "crit": ["exp"], "exp": 1}), Header),
        ("RS256", json!({"alg": "RS256", "kid": "rsa", "crit": []}), Header),
        ("RS256", json!({"alg": "RS256", "kid": "rsa", "b64": false}), Header),
        ("RS256", json!({"alg": "RS256", "kid": "rsa", "cty": "JWT"}), Header),
        ("RS256", json!({"alg": "RS256", "kid": "rsa", "zip": "DEF"}), Header),
        ("RS256", json!({"alg": "RS256", "kid": "rsa", "typ": "logout+jwt"}), Header),
        ("RS256", json!({"alg": "RS256", "kid": "rsa", "typ": 5}), Header),
    ] {
        let token = issuer.token(how, &header, &claims());
        assert_eq!(verified(&token, &keys), Err(expected), "{header}");
    }
}

/// The old confusion of algorithms: the public RSA key, which everybody knows, as the secret of HS256.
#[test]
fn a_public_key_is_never_a_secret() {
    let issuer = Issuer::new();
    let jwk = issuer.jwks()["keys"][0].to_string();
    let public = issuer.rsa.public().as_ref();
    let body = base64::engine::general_purpose::STANDARD.encode(public);
    for secret in [jwk.as_bytes(), public, body.as_bytes()] {
        for header in [json!({"alg": "HS256", "kid": "rsa"}), json!({"alg": "HS256"})] {
            let token = hmac_token(secret, &header, &claims());
            assert_eq!(verified(&token, &issuer.keys()), Err(JwtFault::Algorithm), "{header}");
        }
    }
    // And the secret is never a public key.
    let secret = KeySet::from_secret(SECRET).unwrap();
    let token = issuer.token("RS256", &json!({"alg": "RS256"}), &claims());
    assert_eq!(verified(&token, &secret), Err(JwtFault::Algorithm));
}

#[test]
fn claims_are_checked_with_a_leeway_of_a_minute() {
    use JwtFault::{Audience, Expired, Issuer as WrongIssuer, Name, NoExpiry, NotYet};
    let issuer = Issuer::new();
    let keys = issuer.keys();
    for (claims, expected) in [
        (but("exp", json!(NOW_S - 59)), Ok(())),
        (but("exp", json!(NOW_S - 60)), Err(Expired)),
        (but("exp", json!(0)), Err(Expired)),
        (but("exp", json!(-1)), Err(Expired)),
        (but("exp", json!(NOW_S as f64 + 0.5)), Ok(())),
        (but("exp", json!((NOW_S + 300).to_string())), Err(NoExpiry)),
        (but("exp", Value::Null), Err(NoExpiry)),
        (but("nbf", json!(NOW_S + 60)), Ok(())),
        (but("nbf", json!(NOW_S + 61)), Err(NotYet)),
        (but("nbf", json!("0")), Err(NotYet)),
        (but("iss", json!("https://old.example")), Ok(())),
        (but("iss", json!("https://id.example/")), Err(WrongIssuer)),
        (but("iss", json!(["https://id.example"])), Err(WrongIssuer)),
        (but("iss", Value::Null), Err(WrongIssuer)),
        (but("aud", json!(["users", "orders"])), Ok(())),
        (but("aud", json!(["users"])), Err(Audience)),
        (but("aud", json!(["orders", 5])), Err(Audience)),
        (but("aud", json!([])), Err(Audience)),
        (but("aud", json!("order")), Err(Audience)),
        (but("aud", json!({"orders": 1})), Err(Audience)),
        (but("aud", Value::Null), Err(Audience)),
        (but("sub", Value::Null), Err(Name)),
        (but("sub", json!(5)), Err(Name)),
        (but("sub", json!("anna\r\nX: y")), Err(Name)),
    ] {
        let token = issuer.token("EdDSA", &json!({"alg": "EdDSA", "kid": "ed"}), &claims);
        assert_eq!(verified(&token, &keys).map(drop), expected, "{claims}");
    }
}

#[test]
fn a_text_of_another_form_is_malformed() {
    let issuer = Issuer::new();
    let keys = issuer.keys();
    let good = issuer.token("EdDSA", &json!({"alg": "EdDSA", "kid": "ed"}), &claims());
    assert_eq!(verified(&good, &keys), Ok("anna".to_owned()));
    let [header, payload, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!() };
    let padded = encoded(json!({"alg": "EdDSA"}).to_string().as_bytes()) + "==";
    for token in [
        "",
        ".",
        "..",
        "a.b",
        &format!("{header}.{payload}"),
        &format!("{header}.{payload}."),
        &format!("{header}..{signature}"),
        &format!(".{payload}.{signature}"),
        // The five parts of an encrypted token.
        &format!("{header}.{payload}.{signature}.{signature}.{signature}"),
        &format!("{padded}.{payload}.{signature}"),
        &format!("{header}.{payload}.{signature}="),
        &format!("{header}.{payload}.{signature}~"),
        &format!("{}.{payload}.{signature}", encoded(b"[]")),
        &format!("{}.{payload}.{signature}", encoded(b"{\"alg\":\"EdDSA\"} x")),
        &format!("{}.{payload}.{signature}", encoded(b"\xff")),
    ] {
        let found = verified(token, &keys).unwrap_err();
        assert!(matches!(found, JwtFault::Malformed | JwtFault::Signature), "{token}: {found}");
    }
    let other = encoded(but("sub", json!("root")).to_string().as_bytes());
    assert_eq!(verified(&format!("{header}.{other}.{signature}"), &keys), Err(JwtFault::Signature));
}

#[test]
fn a_set_of_an_issuer_leaves_out_what_a_file_refuses() {
    let issuer = Issuer::new();
    let good = issuer.jwks()["keys"].as_array().cloned().unwrap();
    let with = |name: &str, value: Value| {
        let mut jwk = good[0].clone();
        jwk[name] = value;
        jwk
    };
    for (jwk, expected) in [
        (json!({"kty": "oct", "k": encoded(SECRET)}), "secret"),
        (with("d", json!("AQAB")), "private"),
        (with("use", json!("enc")), "use"),
        (with("key_ops", json!(["encrypt"])), "key_ops"),
        (with("alg", json!("HS256")), "alg"),
        (with("alg", json!("RS512")), "alg"),
        (with("alg", json!("ES256")), "another kty"),
        (with("kty", json!("XYZ")), "kty"),
        (json!({"kty": "EC", "crv": "P-384", "x": encoded(&[1; 48]), "y": encoded(&[1; 48])}), "P-256"),
        (json!({}), "kty"),
        (json!(5), "kty"),
    ] {
        let set = json!({"keys": [jwk, good[2]]}).to_string();
        let fault = KeySet::from_file(&set).unwrap_err().to_string();
        assert!(fault.contains("key 1") && fault.contains(expected), "{jwk}: {fault}");
        let token = issuer.token("EdDSA", &json!({"alg": "EdDSA", "kid": "ed"}), &claims());
        assert_eq!(verified(&token, &KeySet::from_issuer(&set).unwrap()), Ok("anna".to_owned()), "{jwk}");
        let alone = json!({"keys": [jwk]}).to_string();
        assert!(KeySet::from_issuer(&alone).unwrap_err().to_string().contains("no usable key"), "{jwk}");
    }
    for text in ["", "[]", "{}", "{\"keys\": 5}", "{\"keys\": []}", "<html>"] {
        assert!(KeySet::from_issuer(text).is_err(), "{text}");
    }
    assert!(KeySet::from_secret(&SECRET[..31]).is_err());
}

/// Returns an Ed25519 key in PEM (RFC 8410 section 4).
fn pem(key: &[u8]) -> String {
    const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
    let body = base64::engine::general_purpose::STANDARD.encode([&SPKI[..], key].concat());
    format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n")
}

#[test]
fn each_key_of_a_pem_file_is_tried_whatever_the_token_names() {
    let issuers: Vec<_> = (0..5).map(|_| Issuer::new()).collect();
    let pems: Vec<_> = issuers.iter().map(|issuer| pem(issuer.ed.public_key().as_ref())).collect();
    let keys = KeySet::from_file(&pems[..4].concat()).unwrap();
    for (issuer, expected) in issuers.iter().zip([Ok(()), Ok(()), Ok(()), Ok(()), Err(JwtFault::Signature)]) {
        let token = issuer.token("EdDSA", &json!({"alg": "EdDSA", "kid": "any"}), &claims());
        assert_eq!(verified(&token, &keys).map(drop), expected);
    }
    // A fifth key would never be tried.
    let fault = KeySet::from_file(&pems.concat()).unwrap_err().to_string();
    assert!(fault.contains("5 keys without kid, limit 4"), "{fault}");
}

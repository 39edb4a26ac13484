//! A token whose key is unknown waits for new keys.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::BytesMut;
use ring::signature::Ed25519KeyPair;
use tollgate_auth::JwtRules;
use tollgate_http::{HeadReader, Limits};

use super::super::checking::Checking;
use super::super::remote_keys::FetchedKeys;
use super::*;
use crate::options::{FailureLimit, LoadedFile};

/// The example key of RFC 8037 appendix A.1.
const SEED: &str = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A";
const PUBLIC: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

fn authenticator() -> Arc<Authenticator> {
    let rules = JwtRules {
        issuers: vec!["i".into()],
        audiences: vec!["a".into()],
        leeway_s: 60,
        name_claim: "sub".into(),
    };
    let keys = JwtKeys::Backend { name: "idp".into(), path: "/keys".into() };
    let spec = AuthSpec {
        id: "auth.jwt".into(),
        section: None,
        basic: None,
        bearer: None,
        jwt: Some(JwtSpec { rules, keys }),
        realm: String::new(),
        failures: None,
        name_header: None,
    };
    Authenticator::new(&Arc::new(spec), None, &Arc::default())
}

fn fetched(kid: &str) -> Result<FetchedKeys, String> {
    let set = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{kid}","x":"{PUBLIC}"}}]}}"#);
    Ok(FetchedKeys { keys: KeySet::from_issuer(&set).unwrap(), max_age: None })
}

fn head(kid: &str) -> RequestHead {
    let header = format!(r#"{{"alg":"EdDSA","kid":"{kid}"}}"#);
    let claims = r#"{"iss":"i","aud":"a","sub":"anna","exp":4102444800}"#;
    let signed = [header.as_str(), claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
    let pair = Ed25519KeyPair::from_seed_unchecked(&URL_SAFE_NO_PAD.decode(SEED).unwrap()).unwrap();
    let signature = URL_SAFE_NO_PAD.encode(pair.sign(signed.as_bytes()));
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {signed}.{signature}\r\n\r\n");
    HeadReader::default().read(&mut BytesMut::from(text.as_str()), &Limits::default()).unwrap().unwrap()
}

fn check(authenticator: &Authenticator, kid: &str) -> Result<Check, Denied> {
    authenticator.check(&head(kid), || None, Moment { at: Instant::now(), wall_us: 1_800_000_000_000_000 })
}

#[tokio::test]
async fn a_token_of_a_new_key_waits_for_the_next_set() {
    let authenticator = authenticator();
    let keys = authenticator.remote_keys.clone().unwrap();
    assert!(matches!(check(&authenticator, "old"), Err(Denied::NoKeys)));
    let minutes_ago = Instant::now().checked_sub(Duration::from_secs(120)).unwrap();
    keys.end(fetched("old"), minutes_ago);
    assert!(matches!(check(&authenticator, "old"), Ok(Check::Known(_))));
    let Ok(Check::Waits(wait)) = check(&authenticator, "new") else { panic!("the token waits") };
    let mut checking = Checking::new(authenticator.clone(), wait, None);
    let fetch = keys.begin(Instant::now()).unwrap();
    fetch.end(fetched("new"));
    assert_eq!(checking.identity().await.unwrap().name, "anna");
    // The fetch was a moment ago, so the next unknown key is refused at once, and the old key is gone.
    assert!(matches!(check(&authenticator, "old"), Err(Denied::Jwt(JwtFault::UnknownKey))));
}

#[tokio::test]
async fn a_token_of_a_new_key_is_refused_if_the_fetch_fails() {
    let authenticator = authenticator();
    let keys = authenticator.remote_keys.clone().unwrap();
    keys.end(fetched("old"), Instant::now().checked_sub(Duration::from_secs(120)).unwrap());
    let Ok(Check::Waits(wait)) = check(&authenticator, "new") else { panic!("the token waits") };
    let mut checking = Checking::new(authenticator.clone(), wait, None);
    keys.begin(Instant::now()).unwrap().end(Err("away".to_owned()));
    assert_eq!(checking.identity().await, Err(Denied::Jwt(JwtFault::UnknownKey)));
    assert!(matches!(check(&authenticator, "old"), Ok(Check::Known(_))));
}

/// Returns the result of a password check that has not ended.
fn begin_password(authenticator: &Authenticator, password: &str) -> Result<Check, Denied> {
    let credentials = STANDARD.encode(format!("anna:{password}"));
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\n\r\n");
    let head = HeadReader::default().read(&mut BytesMut::from(text.as_str()), &Limits::default());
    let client = || Some(IpAddr::from([192, 0, 2, 1]));
    authenticator.check(&head.unwrap().unwrap(), client, Moment { at: Instant::now(), wall_us: 0 })
}

#[tokio::test]
async fn passwords_whose_checks_run_count_against_the_limit_until_they_are_right() {
    let line = tollgate_auth::password_line("anna", "right").unwrap().unwrap();
    let passwords = Arc::new(tollgate_auth::Passwords::parse(&line).unwrap());
    let spec = AuthSpec {
        basic: Some(LoadedFile { file: "users".into(), content: passwords }),
        jwt: None,
        failures: Some(FailureLimit { count: 3, period: Duration::from_secs(3600) }),
        ..(*authenticator().spec).clone()
    };
    let authenticator = Authenticator::new(&Arc::new(spec), None, &Arc::default());
    let client = Some(IpAddr::from([192, 0, 2, 1]));
    let mut begun = Vec::new();
    for password in ["a", "right", "b", "c", "d"] {
        begun.push(begin_password(&authenticator, password));
    }
    assert!(matches!(begun[3..], [Err(Denied::TooMany { .. }), Err(Denied::TooMany { .. })]));
    let right = begun.swap_remove(1);
    let Ok(Check::Waits(wait)) = right else { panic!("the password is checked") };
    let mut checking = Checking::new(authenticator.clone(), wait, client);
    assert_eq!(checking.identity().await.unwrap().name, "anna");
    assert!(matches!(begin_password(&authenticator, "e"), Ok(Check::Waits(_))), "its count is back");
    assert!(matches!(begin_password(&authenticator, "f"), Err(Denied::TooMany { .. })));
    let unchecked = authenticator.finish_password("anna", "e", client, None);
    assert!(matches!(unchecked, Err(Denied::Busy)));
    assert!(matches!(begin_password(&authenticator, "g"), Ok(Check::Waits(_))), "no answer is no wrong try");
    assert!(matches!(begin_password(&authenticator, "h"), Err(Denied::TooMany { .. })));
}

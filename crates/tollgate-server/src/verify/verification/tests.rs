//! Tests of signatures: the examples of the services, and what a change of any part makes of them.

use bytes::BytesMut;
use tollgate_http::{HeadReader, Limits, UriScheme};

use super::*;
use crate::options::{PRESETS, SignatureEncoding, SignatureScheme, VerifySecret};

/// A signed request and the time at which it holds.
struct Signed {
    preset: &'static str,
    keys: VerifyKeys,
    method: &'static str,
    target: &'static str,
    fields: Vec<(&'static str, String)>,
    content: &'static str,
    time: i64,
}

const SCHEME: UriScheme = UriScheme::Https;

impl Signed {
    fn new(preset: &'static str, secret: &str, content: &'static str, time: i64) -> Self {
        let keys = VerifyKeys::Secrets(vec![VerifySecret(secret.into())]);
        Self { preset, keys, method: "POST", target: "/", fields: Vec::new(), content, time }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    fn spec(&self) -> Arc<VerifySpec> {
        let preset = PRESETS.iter().find(|preset| preset.name == self.preset).unwrap();
        Arc::new(VerifySpec {
            preset: Some(preset.name),
            scheme: SignatureScheme::try_from(preset).unwrap(),
            keys: self.keys.clone(),
            written: Vec::new(),
            secret_files: Vec::new(),
            public_url: None,
        })
    }

    fn head(&self) -> RequestHead {
        let mut text = format!("{} {} HTTP/1.1\r\nHost: mycompany.com\r\n", self.method, self.target);
        for (name, value) in &self.fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut text =
            BytesMut::from(format!("{text}Content-Length: {}\r\n\r\n", self.content.len()).as_str());
        HeadReader::default().read(&mut text, &Limits::default()).unwrap().unwrap()
    }

    fn verified(&self) -> Result<(), SignatureFault> {
        self.verified_as(&self.spec(), self.content.as_bytes())
    }

    fn verified_as(&self, spec: &Arc<VerifySpec>, content: &[u8]) -> Result<(), SignatureFault> {
        let mut verification = spec.begin(&self.head(), SCHEME, self.time)?;
        for part in content.chunks(3) {
            verification.update(part).unwrap();
        }
        verification.finish()
    }

    /// Checks that the signature holds, and that it does not hold for another key, content or time.
    #[track_caller]
    fn check(&self) {
        assert_eq!(self.verified(), Ok(()));
        let spec = self.spec();
        for content in [&b""[..], b"x", &[self.content.as_bytes(), b" "].concat()] {
            assert!(self.verified_as(&spec, content).is_err(), "{:?}", String::from_utf8_lossy(content));
        }
        if let VerifyKeys::Secrets(secrets) = &self.keys {
            let other = VerifySecret([secrets[0].0.as_slice(), b"x"].concat());
            let spec_of =
                |secrets| Arc::new(VerifySpec { keys: VerifyKeys::Secrets(secrets), ..(*spec).clone() });
            let content = self.content.as_bytes();
            assert_eq!(
                self.verified_as(&spec_of(vec![other.clone()]), content),
                Err(SignatureFault::Mismatch)
            );
            // Either secret holds while a partner changes from one to the other.
            for both in [[other.clone(), secrets[0].clone()], [secrets[0].clone(), other.clone()]] {
                assert_eq!(self.verified_as(&spec_of(both.to_vec()), content), Ok(()));
            }
        }
        if spec.scheme.timestamp_header.is_some() || spec.scheme.timestamp_item.is_some() {
            self.check_time();
        }
    }

    fn check_time(&self) {
        let at =
            |time| Self { time, keys: self.keys.clone(), fields: self.fields.clone(), ..*self }.verified();
        assert_eq!((at(self.time + 300), at(self.time - 300)), (Ok(()), Ok(())));
        assert_eq!(at(self.time + 301), Err(SignatureFault::Old { seconds: 301, limit: 300 }));
        assert_eq!(at(self.time - 301), Err(SignatureFault::Ahead { seconds: 301, limit: 300 }));
    }
}

/// Source: docs.github.com, "Validating webhook deliveries".
fn github() -> Signed {
    Signed::new("github", "It's a Secret to Everybody", "Hello, World!", 0).with(
        "X-Hub-Signature-256",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    )
}

/// The signature is one of OpenSSL: `openssl dgst -sha256 -hmac whsec_test`.
fn stripe() -> Signed {
    Signed::new("stripe", "whsec_test", r#"{"id":"evt_1"}"#, 1_492_774_577).with(
        "Stripe-Signature",
        "t=1492774577,v1=7656fc2882a7ca0a651666b36bf2f2f22ee204f54f608f227498a2419f2890b2,v0=00",
    )
}

/// Source: docs.slack.dev, "Verifying requests from Slack".
fn slack() -> Signed {
    let content = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&\
                   channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&\
                   command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands\
                   %2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&\
                   trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    Signed::new("slack", "8f742231b10e8888abcd99yyyzzz85a5", content, 1_531_420_618)
        .with("X-Slack-Request-Timestamp", "1531420618")
        .with("X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503")
}

/// The signature is one of OpenSSL: `openssl dgst -sha256 -hmac hush -binary | base64`.
fn shopify() -> Signed {
    Signed::new("shopify", "hush", r#"{"id":1}"#, 0)
        .with("X-Shopify-Hmac-Sha256", "VnKUjZsLuN5iZWjn5EntcBVCF9kMN43LglzCE1/GSeY=")
}

/// Source: the libraries of standardwebhooks.com. The secret there is
/// `whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw`.
fn standard_webhooks() -> Signed {
    let mut signed = Signed::new("standard-webhooks", "", r#"{"test": 2432232314}"#, 1_614_265_330);
    let secret = SignatureEncoding::Base64.decode(b"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    signed.keys = VerifyKeys::Secrets(vec![VerifySecret(secret)]);
    signed
        .with("Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
        .with("Webhook-Timestamp", "1614265330")
        .with("Webhook-Signature", "v1,AAAA v2,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
}

/// Source: twilio.com/docs, "Webhooks security", and the tests of the libraries.
fn twilio() -> Signed {
    let content = "Digits=1234&CallSid=CA1234567890ABCDE&To=%2B18005551212&Caller=%2B14158675309&\
                   From=%2B14158675309";
    let signed = Signed::new("twilio", "12345", content, 0);
    Signed { target: "/myapp.php?foo=1&bar=2", ..signed }
        .with("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
        .with("X-Twilio-Signature", "RSOYDt4T1cUTdK1PDd93/VVr8B8=")
}

/// Source: the tests of the libraries of Twilio.
fn twilio_json() -> Signed {
    let target =
        "/myapp.php?foo=1&bar=2&bodySHA256=0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620";
    let signed = Signed::new("twilio", "12345", r#"{"property": "value", "boolean": true}"#, 0);
    Signed { target, ..signed }
        .with("Content-Type", "application/json")
        .with("X-Twilio-Signature", "a9nBmqA0ju/hNViExpshrM61xv4=")
}

/// The signature is one of OpenSSL: `openssl pkeyutl -sign -rawin` of the timestamp and the content.
fn discord() -> Signed {
    let key = decode("9efb30b51c94c954da51744969fe07ccec02a1ca84b1ce60540cf0dbc5b6b217");
    let mut signed = Signed::new("discord", "", r#"{"type":1}"#, 1_614_265_330);
    signed.keys = VerifyKeys::Public(vec![PublicKey::from_ed25519(&key).unwrap()]);
    signed.with("X-Signature-Timestamp", "1614265330").with(
        "X-Signature-Ed25519",
        "0761947ade2aff31f6fe52b51543df11f4abc093f018a3643b819db73dd5be72a39755bb766d2b79b0add146e9df6a44\
         c302d9ebc221d13f6517cd28261dcc01",
    )
}

fn decode(hex: &str) -> Vec<u8> {
    SignatureEncoding::Hex.decode(hex.as_bytes()).unwrap()
}

fn all() -> [Signed; 8] {
    [github(), stripe(), slack(), shopify(), standard_webhooks(), twilio(), twilio_json(), discord()]
}

#[test]
fn the_examples_of_the_services_hold_and_nothing_else_does() {
    all().iter().for_each(Signed::check);
    for preset in PRESETS {
        assert!(all().iter().any(|signed| signed.preset == preset.name), "{}", preset.name);
    }
}

#[test]
fn a_request_without_one_signature_in_its_form_is_refused_from_its_head() {
    for mut signed in all() {
        let name = signed.spec().scheme.header.clone();
        let at = signed.fields.iter().position(|(known, _)| known.eq_ignore_ascii_case(&name)).unwrap();
        let good = signed.fields.remove(at);
        assert_eq!(signed.verified(), Err(SignatureFault::Absent(name.clone())));
        for value in ["", "x", "sha256=", "v1=", "sha256=zz", "t=1492774577,v1=", "v1,", "v1,%", "v0=g"] {
            signed.fields.push((good.0, value.to_owned()));
            // Without a prefix, some of these are signatures of another content.
            let found = signed.verified().unwrap_err();
            let expected = [SignatureFault::Malformed(name.clone()), SignatureFault::Mismatch];
            assert!(expected.contains(&found), "{name}: {value}: {found}");
            signed.fields.pop();
        }
        signed.fields.extend([good.clone(), good]);
        assert_eq!(signed.verified(), Err(SignatureFault::Repeated(name)));
    }
}

#[test]
fn only_a_few_signatures_are_tried() {
    let mut signed = standard_webhooks();
    let value = signed.fields.pop().unwrap().1;
    let many = |count| vec!["v1,AAAA"; count].join(" ") + " " + &value;
    signed.fields.push(("Webhook-Signature", many(5)));
    assert_eq!(signed.verified(), Ok(()));
    signed.fields.pop();
    signed.fields.push(("Webhook-Signature", many(8)));
    let header = "webhook-signature".to_owned();
    assert_eq!(signed.verified(), Err(SignatureFault::TooMany { header, found: 10, limit: 8 }));
}

#[test]
fn a_timestamp_that_is_no_number_of_seconds_is_refused() {
    for timestamp in ["", "1e9", "-1", "+1531420618", "1531420618.0", "9999999999999", "0x5b"] {
        let mut signed = slack();
        signed.fields[0].1 = timestamp.to_owned();
        assert_eq!(signed.verified(), Err(SignatureFault::Timestamp), "{timestamp}");
    }
    let mut signed = stripe();
    signed.fields[0].1 = signed.fields[0].1.replace("t=1492774577,", "");
    assert_eq!(signed.verified(), Err(SignatureFault::Timestamp));
}

/// A content that is no form is not a part of the message, so the URL must have its digest.
#[test]
fn a_content_that_the_signature_does_not_cover_is_refused() {
    let mut signed = twilio_json();
    let target = "/myapp.php?foo=1&bar=2&bodySHA256=00";
    assert_eq!(Signed { target, ..twilio_json() }.verified(), Err(SignatureFault::Uncovered));
    signed.content = r#"{"property": "other"}"#;
    assert_eq!(signed.verified(), Err(SignatureFault::Uncovered));
    let mut signed = twilio();
    signed.fields[0].1 = "application/json".to_owned();
    assert_eq!(signed.verified(), Err(SignatureFault::Uncovered));
}

#[test]
fn the_public_url_and_the_port_that_the_partner_wrote_hold() {
    let signed = |target| Signed { target, content: "", fields: Vec::new(), ..twilio() };
    // `openssl dgst -sha1 -hmac 12345 -binary | base64` of https://hooks.example:8443/sms?a=1
    let signed = signed("/sms?a=1").with("X-Twilio-Signature", "hRWwejcl50xOYstrWuRs6a1SYFA=");
    let spec =
        |url: &str| Arc::new(VerifySpec { public_url: Some(url.to_owned()), ..(*signed.spec()).clone() });
    assert_eq!(signed.verified_as(&spec("https://hooks.example:8443"), b""), Ok(()));
    for other in ["https://hooks.example", "http://hooks.example:8443", "https://hooks.example:8443/base"] {
        assert_eq!(signed.verified_as(&spec(other), b""), Err(SignatureFault::Mismatch), "{other}");
    }
}

/// What a test signs holds. The keys of Discord are public, so no test can sign for them.
#[test]
fn a_request_that_is_signed_for_a_test_holds() {
    for mut signed in all() {
        let spec = signed.spec();
        let own = |(name, _): &(&str, String)| {
            ![Some(&spec.scheme.header), spec.scheme.timestamp_header.as_ref()]
                .into_iter()
                .flatten()
                .any(|known| known.eq_ignore_ascii_case(name))
        };
        signed.fields.retain(own);
        let now = std::time::Duration::from_secs(signed.time as u64);
        let fields = spec.sign(&signed.head(), SCHEME, signed.content.as_bytes(), now, None);
        if signed.preset == "discord" {
            assert!(fields.unwrap_err().contains("public keys"));
            continue;
        }
        for (name, value) in fields.unwrap() {
            signed.fields.push((name.leak(), value));
        }
        assert_eq!(signed.verified(), Ok(()), "{}", signed.preset);
        let content = signed.content.as_bytes();
        let wrong = spec.sign(&signed.head(), SCHEME, content, now, Some(b"x")).unwrap();
        signed.fields.retain(own);
        signed.fields.extend(wrong.into_iter().map(|(name, value)| (&*name.leak(), value)));
        assert_eq!(signed.verified(), Err(SignatureFault::Mismatch), "{}", signed.preset);
    }
}

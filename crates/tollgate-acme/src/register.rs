//! The registration of an account (RFC 8555 section 7.3). A key that is already registered gets the URL of
//! its account.

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, LOCATION, USER_AGENT};
use hyper::{Method, Request, Response};
use instant_acme::{BodyWrapper, Problem};
use serde_json::{Value, json};

use crate::error::{AcmeError, is_bad_nonce_type, reason};
use crate::http::AcmeHttp;
use crate::jws::AccountKey;
use crate::options::AcmeOptions;

/// Maximum number of nonces that are tried. Each is refused if the server has restarted meanwhile.
const NONCES_MAX: usize = 20;
const PROGRAM: &str = concat!("tollgate/", env!("CARGO_PKG_VERSION"));
const NONCE: &str = "replay-nonce";

/// The parts of a directory that a registration needs (RFC 8555 section 7.1.1).
struct Directory {
    new_nonce: String,
    new_account: String,
    needs_external_account: bool,
}

/// Registers a key, and returns the URL of its account.
pub(crate) async fn register(
    http: &AcmeHttp,
    options: &AcmeOptions,
    key: &AccountKey,
) -> Result<String, AcmeError> {
    let directory = Directory::fetch(http, &options.directory).await?;
    if directory.needs_external_account && options.external_account.is_none() {
        let text = "the ACME server needs eab_key_id and eab_hmac_key in [acme]";
        return Err(AcmeError::Options(text.to_owned()));
    }
    let url = &directory.new_account;
    let mut payload = json!({ "termsOfServiceAgreed": true });
    if let Some(email) = &options.email {
        payload["contact"] = json!([format!("mailto:{email}")]);
    }
    if let Some(account) = &options.external_account {
        payload["externalAccountBinding"] = key.bind(account, url);
    }
    let mut nonce = None;
    for _ in 0..NONCES_MAX {
        let fresh = match nonce.take() {
            Some(nonce) => nonce,
            None => directory.nonce(http).await?,
        };
        let signed = key.sign(&fresh, url, &payload);
        let signed = signed.map_err(|_| AcmeError::Options("the account key cannot sign".to_owned()))?;
        let answer = http.send(post(url, &signed)?).await?;
        if answer.status().is_success() {
            let account = field(&answer, LOCATION.as_str());
            return account.ok_or_else(|| invalid("a registration without the URL of the account"));
        }
        let problem: Problem = serde_json::from_slice(answer.body())
            .map_err(|_| invalid(&format!("status {} without a reason", answer.status())))?;
        if !problem.r#type.as_deref().is_some_and(is_bad_nonce_type) {
            return Err(AcmeError::Refused(reason(&problem)));
        }
        nonce = field(&answer, NONCE);
    }
    Err(invalid(&format!("{NONCES_MAX} nonces that it refuses")))
}

impl Directory {
    async fn fetch(http: &AcmeHttp, url: &str) -> Result<Self, AcmeError> {
        let answer = http.send(request(Method::GET, url, BodyWrapper::default())?).await?;
        let found: Value =
            serde_json::from_slice(answer.body()).map_err(|_| invalid("a directory that is no JSON"))?;
        let url = |name| {
            let url = found[name].as_str().map(str::to_owned);
            url.ok_or_else(|| invalid(&format!("a directory without {name}")))
        };
        Ok(Self {
            new_nonce: url("newNonce")?,
            new_account: url("newAccount")?,
            needs_external_account: found["meta"]["externalAccountRequired"] == true,
        })
    }

    async fn nonce(&self, http: &AcmeHttp) -> Result<String, AcmeError> {
        let answer = http.send(request(Method::HEAD, &self.new_nonce, BodyWrapper::default())?).await?;
        field(&answer, NONCE).ok_or_else(|| invalid("no nonce"))
    }
}

fn post(url: &str, document: &Value) -> Result<Request<BodyWrapper<Bytes>>, AcmeError> {
    let mut request = request(Method::POST, url, BodyWrapper::from(document.to_string().into_bytes()))?;
    request
        .headers_mut()
        .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/jose+json"));
    Ok(request)
}

fn request(
    method: Method,
    url: &str,
    body: BodyWrapper<Bytes>,
) -> Result<Request<BodyWrapper<Bytes>>, AcmeError> {
    let request = Request::builder().method(method).uri(url).header(USER_AGENT, PROGRAM).body(body);
    request.map_err(|error| AcmeError::Options(format!("the URL {url:?} cannot be used: {error}")))
}

fn field(answer: &Response<Bytes>, name: &str) -> Option<String> {
    answer.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn invalid(what: &str) -> AcmeError {
    AcmeError::Unreachable(format!("the ACME server answers with {what}"))
}

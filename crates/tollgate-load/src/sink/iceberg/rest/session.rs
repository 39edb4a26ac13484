//! Calls to a REST catalog, after its configuration was read.

use std::fmt::Write;

use serde_json::Value as Json;
use tollgate_ship::{AwsKeys, Secret, WebAnswer, WebClient, WebOptions, WebRequest};

use super::auth::Credentials;
use super::encoding::encoded;
use super::error::{CallError, RestError, said};
use crate::sink::iceberg::rest_options::RestOptions;

/// Statuses of a token that is missing, wrong or too old. The server did not carry out the call.
const REFUSED_TOKEN: [u16; 2] = [401, 419];

/// Maximum bytes of an answer without the metadata of a table.
pub(super) const ANSWER_BYTES_MAX: usize = 16 << 20;

/// A call to a catalog.
pub(super) struct Call<'c> {
    /// The action, for errors.
    pub(super) action: &'static str,
    pub(super) method: &'static str,
    /// The path below the prefix of the catalog.
    pub(super) path: &'c str,
    pub(super) content: Option<&'c Json>,
    /// Maximum bytes of the answer.
    pub(super) bytes_max: usize,
}

/// A catalog whose configuration was read.
pub(super) struct RestSession {
    client: WebClient,
    credentials: Credentials,
    /// The address of the catalog.
    address: String,
    /// The address of all paths: `{address}/v1/{prefix}`.
    base: String,
}

impl RestSession {
    /// Asks the catalog for its configuration. An address that the configuration names is not used, because
    /// the token would go there.
    pub(super) fn open(options: &RestOptions, keys: &AwsKeys) -> Result<Self, RestError> {
        let web = WebOptions { ca: options.ca.clone(), proxy: None, timeout: options.timeout };
        let client = WebClient::open(&web).map_err(RestError::Open)?;
        let credentials = Credentials::open(options, keys, &client)?;
        let base = format!("{}/v1", options.address);
        let mut session = Self { client, credentials, address: options.address.clone(), base };
        let query = options.warehouse.as_deref().map(|name| format!("?warehouse={}", encoded(name)));
        let path = format!("config{}", query.unwrap_or_default());
        let action = "read the configuration of the catalog";
        let call = Call { action, method: "GET", path: &path, content: None, bytes_max: ANSWER_BYTES_MAX };
        let found = session.call(&call)?;
        let prefix = ["overrides", "defaults"].into_iter().find_map(|part| found[part]["prefix"].as_str());
        let prefix = prefix.unwrap_or_default().trim_matches('/');
        if !prefix.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\\".contains(&byte)) {
            return Err(session.form(action, "has a prefix that is no path").into());
        }
        if !prefix.is_empty() {
            let _ = write!(session.base, "/{prefix}");
        }
        Ok(session)
    }

    /// Sends a call, and returns the JSON of the answer. After a refused token, the call is sent once more
    /// with a new token.
    pub(super) fn call(&mut self, call: &Call<'_>) -> Result<Json, RestError> {
        let mut answer = self.send(call)?;
        if REFUSED_TOKEN.contains(&answer.status) && self.credentials.drop_token() {
            answer = self.send(call)?;
        }
        match answer.status {
            204 => Ok(Json::Null),
            200..300 if answer.content.is_empty() => Err(self.form(call.action, "is empty").into()),
            200..300 => serde_json::from_slice(&answer.content)
                .map_err(|_| self.form(call.action, "has no JSON").into()),
            status => {
                let secret = self.credentials.sent();
                let secret = secret.as_ref().map_or("", Secret::reveal);
                let (text, is_of_catalog) = said(&answer.content, &[secret]);
                let (action, address) = (call.action, self.address.clone());
                Err(CallError::Status { action, address, status, text, is_of_catalog }.into())
            }
        }
    }

    fn send(&mut self, call: &Call<'_>) -> Result<WebAnswer, RestError> {
        self.credentials.prepare(&self.client)?;
        let token = self.credentials.token().map(|token| format!("Bearer {}", token.reveal()));
        let mut fields = vec![("accept", "application/json")];
        fields.extend(call.content.map(|_| ("content-type", "application/json")));
        fields.extend(token.as_deref().map(|token| ("authorization", token)));
        let request = WebRequest {
            method: call.method,
            address: &format!("{}/{}", self.base, call.path),
            fields: &fields,
            content: call.content.map(|content| content.to_string().into_bytes()).unwrap_or_default(),
        };
        let answer = self.client.call(request, self.credentials.signer(), call.bytes_max);
        Ok(answer.map_err(|source| CallError::NoAnswer {
            action: call.action,
            address: self.address.clone(),
            source,
        })?)
    }

    fn form(&self, action: &'static str, reason: &'static str) -> CallError {
        CallError::Form { action, address: self.address.clone(), reason }
    }
}

//! Calls of an HTTP service that is no store, such as a catalog, over the same connections as a store.
//!
//! A call is sent once. After an error, it is unknown whether the service received the call.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use hyper::Request;
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody};

use super::call_runtime::CallRuntime;
use super::cloud::aws_credentials;
use super::connect::Dialer;
use super::connector::Connector;
use super::options::{AwsKeys, Secret};
use super::{OpenError, shown};
use crate::pace::Pacer;

/// A call has this many times the timeout without progress: to connect, to find keys, to answer.
const CALL_TIMEOUTS: u32 = 4;

/// Options of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebOptions {
    /// A PEM file with the trusted authorities. `None`: the authorities of the system.
    pub ca: Option<PathBuf>,
    /// `http://HOST:PORT` of a proxy, which is asked to `CONNECT`. Plain HTTP does not use it.
    pub proxy: Option<String>,
    /// Longest time without progress.
    pub timeout: Duration,
}

/// A request.
#[derive(Debug)]
pub struct WebRequest<'r> {
    /// The method.
    pub method: &'static str,
    /// The address, with its query.
    pub address: &'r str,
    /// The field lines.
    pub fields: &'r [(&'static str, &'r str)],
    /// The content.
    pub content: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub struct WebAnswer {
    /// The status.
    pub status: u16,
    /// The content.
    pub content: Vec<u8>,
}

/// Why a call has no answer. It is unknown whether the service received the call.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The service does not answer.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// The answer does not end in time.
    #[error("the call timed out")]
    Late,
    /// The answer is too large.
    #[error("the answer exceeds its limit of {limit} bytes")]
    TooLarge {
        /// Maximum number of bytes.
        limit: usize,
    },
    /// The request cannot be made of its parts. The text of this error contains no secret.
    #[error("the address or a field of the request is invalid")]
    Invalid,
    /// The keys that sign the request are not found.
    #[error("no keys of AWS: {0}")]
    Keys(String),
}

/// A client of HTTP services. No call may be made on a thread of an event loop.
pub struct WebClient {
    connector: Connector,
    timeout: Duration,
    calls: CallRuntime,
}

/// Signs requests by AWS Signature Version 4. The signature contains the digest of the content.
pub struct AwsSigner {
    credentials: AwsCredentialProvider,
    region: String,
    service: String,
    /// The session token of the last request.
    token: Mutex<Option<Secret>>,
}

impl WebClient {
    /// Opens a client. Sends nothing.
    ///
    /// # Errors
    /// The operator has to change the options, or a file that they name.
    pub fn open(options: &WebOptions) -> Result<Self, OpenError> {
        let dialer = Dialer::new(options.ca.as_deref(), options.proxy.as_deref(), options.timeout)?;
        let connector = Connector::new(dialer, Arc::new(Pacer::new(None)), options.timeout);
        let calls = CallRuntime::new().map_err(OpenError::Runtime)?;
        Ok(Self { connector, timeout: options.timeout, calls })
    }

    /// Makes a signer, whose keys come from the options, the environment or the machine. Sends nothing.
    ///
    /// # Errors
    /// A part of the keys is missing.
    pub fn signer(&self, keys: &AwsKeys, region: &str, service: &str) -> Result<AwsSigner, OpenError> {
        let credentials = aws_credentials(keys, self.connector.clone())?;
        Ok(AwsSigner {
            credentials,
            region: region.to_owned(),
            service: service.to_owned(),
            token: Mutex::default(),
        })
    }

    /// Sends a request, and reads an answer of at most `bytes_max` bytes. Each status is an answer.
    ///
    /// # Errors
    /// It is unknown whether the service received the request.
    pub fn call(
        &self,
        request: WebRequest<'_>,
        signer: Option<&AwsSigner>,
        bytes_max: usize,
    ) -> Result<WebAnswer, WebError> {
        let mut built = Request::builder().method(request.method).uri(request.address);
        for (name, value) in request.fields {
            built = built.header(*name, *value);
        }
        let built = built.body(HttpRequestBody::from(request.content)).map_err(|_| WebError::Invalid)?;
        let answer = self.calls.run(self.timeout * CALL_TIMEOUTS, self.answer(built, signer, bytes_max));
        answer.unwrap_or(Err(WebError::Late))
    }

    async fn answer(
        &self,
        mut request: HttpRequest,
        signer: Option<&AwsSigner>,
        bytes_max: usize,
    ) -> Result<WebAnswer, WebError> {
        if let Some(signer) = signer {
            signer.sign(&mut request).await?;
        }
        let no_answer = |error: object_store::client::HttpError| {
            // The text of the error names no cause.
            let cause =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            WebError::NoAnswer(shown(&cause))
        };
        let response = HttpClient::new(self.connector.clone()).execute(request).await.map_err(no_answer)?;
        let status = response.status().as_u16();
        let (mut content, mut pieces) = (Vec::new(), response.into_body().bytes_stream());
        while let Some(piece) = pieces.try_next().await.map_err(no_answer)? {
            if content.len() + piece.len() > bytes_max {
                return Err(WebError::TooLarge { limit: bytes_max });
            }
            content.extend_from_slice(&piece);
        }
        Ok(WebAnswer { status, content })
    }
}

impl AwsSigner {
    /// Returns the session token that the last signed request carried.
    pub fn session_token(&self) -> Option<Secret> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn sign(&self, request: &mut HttpRequest) -> Result<(), WebError> {
        let unsigned = |error: object_store::Error| WebError::Keys(shown(&error.to_string()));
        let keys = self.credentials.get_credential().await.map_err(unsigned)?;
        let token = keys.token.as_deref().map(Secret::new);
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
        AwsAuthorizer::new(&keys, &self.service, &self.region).try_authorize(request, None).map_err(unsigned)
    }
}

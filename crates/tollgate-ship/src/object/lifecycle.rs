//! The lifecycle rules of a bucket, by which a store deletes objects by their age alone.
//!
//! The crate `object_store` cannot read these rules. So this file sends the one request itself, with the
//! signature of the crate: `GET /BUCKET?lifecycle`. Google Cloud Storage and Azure have other calls, which
//! need other rights, and are not asked.
//!
//! Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetBucketLifecycleConfiguration.html>

use std::fmt;

use futures_util::TryStreamExt;
use hyper::{Method, Request, StatusCode};
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpRequestBody};

use super::lifecycle_rules::{ExpiryRule, rules_of};

/// Maximum bytes of the rules. A bucket has at most 1,000 rules.
const RULES_BYTES_MAX: usize = 1 << 20;
/// Error code of S3 for a bucket without rules.
const NO_RULES: &str = "NoSuchLifecycleConfiguration";

/// The rules by which a store deletes objects without asking whether they are loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lifecycle {
    /// The rules that apply to segments of this place. May be empty.
    Rules(Vec<ExpiryRule>),
    /// The rules are not known. The text says why, and where to look.
    Unknown(String),
}

/// A bucket of S3 whose rules can be read.
pub(super) struct Bucket {
    pub(super) client: HttpClient,
    pub(super) credentials: AwsCredentialProvider,
    pub(super) region: String,
    /// Address of the bucket, without a `/` at its end.
    pub(super) address: String,
}

impl Bucket {
    /// Reads the rules that apply to keys with a prefix.
    pub(super) async fn lifecycle(&self, prefix: &str) -> Lifecycle {
        match self.ask().await {
            Ok((StatusCode::OK, text)) => rules_of(&text, prefix).map_or_else(
                |reason| Lifecycle::Unknown(format!("the rules cannot be read: {reason}")),
                Lifecycle::Rules,
            ),
            Ok((StatusCode::NOT_FOUND, text)) if text.contains(NO_RULES) => Lifecycle::Rules(Vec::new()),
            Ok((status, _)) => Lifecycle::Unknown(refusal(status)),
            Err(error) => Lifecycle::Unknown(format!("the rules cannot be asked for: {error}")),
        }
    }

    async fn ask(&self) -> Result<(StatusCode, String), Box<dyn std::error::Error + Send + Sync>> {
        let credential = self.credentials.get_credential().await?;
        let address = format!("{}/?lifecycle", self.address);
        let mut request =
            Request::builder().method(Method::GET).uri(address).body(HttpRequestBody::empty())?;
        AwsAuthorizer::new(&credential, "s3", &self.region).try_authorize(&mut request, None)?;
        let response = self.client.execute(request).await?;
        let (status, mut text) = (response.status(), Vec::new());
        let mut pieces = response.into_body().bytes_stream();
        while let Some(piece) = pieces.try_next().await? {
            text.extend_from_slice(&piece);
            if text.len() > RULES_BYTES_MAX {
                return Err(format!("the answer exceeds its limit of {RULES_BYTES_MAX} bytes").into());
            }
        }
        Ok((status, String::from_utf8_lossy(&text).into_owned()))
    }
}

fn refusal(status: StatusCode) -> String {
    match status {
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
            "the credentials do not allow s3:GetLifecycleConfiguration: look at the bucket with other \
             credentials"
                .to_owned()
        }
        StatusCode::NOT_FOUND => "the server knows no such bucket or no rules (404)".to_owned(),
        StatusCode::NOT_IMPLEMENTED | StatusCode::METHOD_NOT_ALLOWED | StatusCode::BAD_REQUEST => {
            format!("the server has no call for lifecycle rules ({})", status.as_u16())
        }
        status => format!("the server answers {}", status.as_u16()),
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("address", &self.address).finish_non_exhaustive()
    }
}

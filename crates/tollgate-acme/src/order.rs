//! One order, from its key to the certificate on disk (RFC 8555 section 7.4). After a kill, the next call
//! continues the order where it was.
//!
//! | what is on disk | what the next call does |
//! | --- | --- |
//! | nothing | makes a key and writes it |
//! | a key | begins an order and writes its URL |
//! | a key and a URL | asks for the state of the order, and does its next step |
//! | the certificate | removes the order |

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeHandle, ChallengeStatus, Error, Identifier, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use serde::{Deserialize, Serialize};
use tollgate_tls::Certificate;

use crate::challenges::Answer;
use crate::dns::Dns;
use crate::error::{AcmeError, is_bad_nonce, is_no_order, is_no_replacement, reason};
use crate::facts::{has_name, renewal_id};
use crate::folder::{ORDER, StateFolder, file_of};
use crate::options::AcmeOptions;
use crate::selfmade::{order_key, read, signing_request};

/// Maximum number of times that a request is repeated because of its nonce. `instant-acme` itself tries three
/// nonces each time.
const NONCE_ROUNDS_MAX: usize = 10;
/// Time that the ACME server has for its check of a name, or for the issue of a certificate.
const POLL: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(60));

/// An order for one name.
pub(crate) struct Ordering<'a> {
    pub(crate) account: &'a Account,
    pub(crate) folder: &'a StateFolder,
    pub(crate) options: &'a AcmeOptions,
    /// The hook for challenges by DNS.
    pub(crate) dns: &'a Dns,
    pub(crate) name: &'a str,
    /// The certificate that the new one replaces.
    pub(crate) replaced: Option<&'a Certificate>,
    /// The URL of the last order whose success is noted. Its file is out of date.
    pub(crate) noted: Option<String>,
}

/// The file of an order that runs.
#[derive(Serialize, Deserialize)]
struct StoredOrder {
    directory: String,
    profile: Option<String>,
    /// The private key of the new certificate, in PEM.
    key: String,
    /// The URL of the order. `None`: it has not begun.
    url: Option<String>,
}

impl Ordering<'_> {
    /// Gets a certificate, and writes it to its file. Returns the URL of the order. The order file stays
    /// until [`forget_order`], so that a kill before the note of the success leads to no second order.
    pub(crate) async fn run(&self) -> Result<String, AcmeError> {
        let file = order_file(self.name);
        let mut stored = self.stored(&file)?;
        if let Some(order) = self.begun(&stored).await? {
            match self.finish(order, &file, &mut stored).await {
                // The ACME server may have checked the name while this server was not running.
                Err(AcmeError::Refused(reason)) => {
                    tracing::info!(name = self.name, reason, "the order of an earlier run failed");
                }
                done => return done,
            }
        }
        let order = self.begin(&file, &mut stored).await?;
        self.finish(order, &file, &mut stored).await
    }

    /// Does the steps of an order, and writes the certificate.
    async fn finish(
        &self,
        mut order: Order,
        file: &str,
        stored: &mut StoredOrder,
    ) -> Result<String, AcmeError> {
        let mut answers = Vec::new();
        let chain = self.drive(&mut order, &stored.key, &mut answers).await;
        for answer in &answers {
            Answer::remove(answer, self.folder, self.dns).await;
        }
        let done = chain.and_then(|chain| self.install(&stored.key, &chain));
        // The server has given its certificate, so this order is over. The next one begins with the same key.
        // After any other error the next call asks for the state of this order.
        if matches!(done, Err(AcmeError::Certificate(_))) {
            stored.url = None;
            self.folder.write_document(file, stored)?;
        }
        done.map(|()| order.url().to_owned())
    }

    /// Returns the order file. Makes and writes a key first, if there is none for these options.
    fn stored(&self, file: &str) -> Result<StoredOrder, AcmeError> {
        let AcmeOptions { directory, profile, .. } = self.options;
        let stored = self.folder.read_document::<StoredOrder>(file)?;
        let is_usable = |stored: &StoredOrder| {
            let is_noted = stored.url.is_some() && stored.url == self.noted;
            (&stored.directory, &stored.profile) == (directory, profile) && !is_noted
        };
        if let Some(stored) = stored.filter(is_usable) {
            return Ok(stored);
        }
        let key = order_key()?;
        let stored = StoredOrder { directory: directory.clone(), profile: profile.clone(), key, url: None };
        self.folder.write_document(file, &stored)?;
        Ok(stored)
    }

    /// Returns the order that an earlier call began. `None`: there is none, or it is over.
    async fn begun(&self, stored: &StoredOrder) -> Result<Option<Order>, AcmeError> {
        let Some(url) = &stored.url else { return Ok(None) };
        match retried(async || self.account.order(url.clone()).await).await {
            Ok(mut order) => {
                if order.state().status == OrderStatus::Invalid {
                    return Ok(None);
                }
                tracing::info!(name = self.name, order = url, "continuing the order of an earlier run");
                Ok(Some(order))
            }
            // The server forgot the order, or it belongs to another account.
            Err(error) if is_no_order(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn begin(&self, file: &str, stored: &mut StoredOrder) -> Result<Order, AcmeError> {
        let name = match self.name.parse() {
            Ok(address) => Identifier::Ip(address),
            Err(_) => Identifier::Dns(self.name.to_owned()),
        };
        let names = [name];
        let order = |is_replacing: bool| {
            let mut order = NewOrder::new(&names);
            if let Some(profile) = &self.options.profile {
                order = order.profile(profile);
            }
            match self.replaced.and_then(|replaced| renewal_id(replaced.chain().first()?)) {
                Some(id) if is_replacing => order.replaces(id),
                _ => order,
            }
        };
        let begun = match retried(async || self.account.new_order(&order(true)).await).await {
            Err(error) if self.replaced.is_some() && is_no_replacement(&error) => {
                retried(async || self.account.new_order(&order(false)).await).await
            }
            begun => begun,
        };
        let begun = begun?;
        stored.url = Some(begun.url().to_owned());
        self.folder.write_document(file, stored)?;
        Ok(begun)
    }

    /// Does the steps of the order until its certificate is there. Returns the chain in PEM.
    async fn drive(
        &self,
        order: &mut Order,
        key: &str,
        answers: &mut Vec<Answer>,
    ) -> Result<String, AcmeError> {
        if order.state().status == OrderStatus::Pending {
            self.authorize(order, answers).await?;
            let polled = polled(order, async |order| order.poll_ready(&POLL).await).await;
            if !matches!(polled, Ok(OrderStatus::Ready)) {
                return Err(self.refusal(order).await.or(polled.err().map(AcmeError::from)).unwrap_or_else(
                    || AcmeError::Refused("the order is invalid, without a reason".to_owned()),
                ));
            }
        }
        if order.state().status == OrderStatus::Ready {
            let request = signing_request(self.name, key)?;
            polled(order, async |order| order.finalize_csr(&request).await).await?;
        }
        let chain = polled(order, async |order| order.poll_certificate(&POLL).await).await;
        chain.map_err(|error| match error {
            Error::Str(_) => AcmeError::Refused("the order is invalid".to_owned()),
            error => error.into(),
        })
    }

    /// Answers the challenges of an order. The server sends each authorization on request, so a refused nonce
    /// ends a round.
    async fn authorize(&self, order: &mut Order, answers: &mut Vec<Answer>) -> Result<(), AcmeError> {
        for _ in 0..NONCE_ROUNDS_MAX {
            if self.authorize_all(order, answers).await? {
                return Ok(());
            }
        }
        Err(AcmeError::Unreachable("the ACME server refuses all nonces".to_owned()))
    }

    /// Answers the challenges of an order. Returns false if the server refused a nonce.
    async fn authorize_all(&self, order: &mut Order, answers: &mut Vec<Answer>) -> Result<bool, AcmeError> {
        let kind = self.options.challenge;
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = match authorization {
                Err(error) if is_bad_nonce(&error) => return Ok(false),
                authorization => authorization?,
            };
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let Some(mut challenge) = authorization.challenge(kind.kind()) else {
                let text = format!("the ACME server offers no {} for {}", kind.name(), self.name);
                return Err(AcmeError::Options(text));
            };
            let answer = Answer::new(kind, self.name, &challenge)?;
            // A round before this one may have served it.
            if !answers.contains(&answer) {
                answers.push(answer);
                self.serve(answers).await?;
            }
            // An earlier run may have announced the answer already.
            if challenge.status == ChallengeStatus::Pending {
                set_ready(&mut challenge).await?;
            }
        }
        Ok(true)
    }

    /// Serves the newest answer.
    async fn serve(&self, answers: &[Answer]) -> Result<(), AcmeError> {
        match answers.last() {
            Some(answer) => answer.serve(self.folder, self.dns, self.options.dns_wait).await,
            None => Ok(()),
        }
    }

    /// Returns the reason why the check of the name failed, as the ACME server gives it.
    async fn refusal(&self, order: &mut Order) -> Option<AcmeError> {
        polled(order, async |order| order.refresh().await.map(drop)).await.ok()?;
        for _ in 0..NONCE_ROUNDS_MAX {
            let mut authorizations = order.authorizations();
            while let Some(authorization) = authorizations.next().await {
                let Ok(authorization) = authorization else { continue };
                let mut problems = authorization.challenges.iter().filter_map(|found| found.error.as_ref());
                if let Some(problem) = problems.next() {
                    return Some(AcmeError::Refused(reason(problem)));
                }
            }
        }
        None
    }

    /// Checks the new certificate, and writes it with its key.
    fn install(&self, key: &str, chain: &str) -> Result<(), AcmeError> {
        let [file, checked] = [".pem", ".new"].map(|end| file_of(self.name, end));
        self.folder.write(&checked, format!("{}\n{chain}", key.trim_end()).as_bytes())?;
        let path = self.folder.certificate(self.name).with_extension("new");
        let certificate = read(&path)?;
        if !has_name(certificate.facts(), self.name) {
            return Err(AcmeError::Certificate(format!("it does not have the name {}", self.name)));
        }
        self.folder.rename(&checked, &file)
    }
}

/// Reads the certificate of a name. `None`: there is none.
pub(crate) fn installed(folder: &StateFolder, name: &str) -> Option<Result<Certificate, AcmeError>> {
    let path = folder.certificate(name);
    path.exists().then(|| read(&path))
}

/// Forgets the order of a name whose certificate is installed.
pub(crate) fn forget_order(folder: &StateFolder, name: &str) -> Result<(), AcmeError> {
    folder.remove(&order_file(name))
}

fn order_file(name: &str) -> String {
    file_of(name, ORDER)
}

/// Announces to the server that the answer to a challenge is there.
async fn set_ready(challenge: &mut ChallengeHandle<'_>) -> Result<(), Error> {
    for _ in 1..NONCE_ROUNDS_MAX {
        match challenge.set_ready().await {
            Err(error) if is_bad_nonce(&error) => {}
            done => return done,
        }
    }
    challenge.set_ready().await
}

/// Repeats a call while the server refuses its nonce.
async fn retried<T>(call: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 1..NONCE_ROUNDS_MAX {
        match call().await {
            Err(error) if is_bad_nonce(&error) => {}
            done => return done,
        }
    }
    call().await
}

/// Repeats a call on an order while the server refuses its nonce.
async fn polled<T>(
    order: &mut Order,
    call: impl AsyncFn(&mut Order) -> Result<T, Error>,
) -> Result<T, Error> {
    for _ in 1..NONCE_ROUNDS_MAX {
        match call(order).await {
            Err(error) if is_bad_nonce(&error) => {}
            done => return done,
        }
    }
    call(order).await
}

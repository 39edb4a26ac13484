//! Authentication of requests, by a token or by a signature.

use tollgate_ship::{AwsKeys, AwsSigner, Secret, WebClient};

use super::error::RestError;
use super::token::{Token, read_secret};
use crate::sink::iceberg::rest_options::{RestAuth, RestOptions};

/// The path that gives tokens below the address of a catalog.
const TOKENS: &str = "v1/oauth/tokens";

/// The credentials of requests.
pub(super) struct Credentials {
    auth: RestAuth,
    /// The address that gives tokens.
    tokens: String,
    state: State,
}

enum State {
    Nothing,
    /// Another program writes the token.
    File(Option<Secret>),
    Token(Option<Token>),
    Signature(Box<AwsSigner>),
}

impl Credentials {
    pub(super) fn open(options: &RestOptions, keys: &AwsKeys, client: &WebClient) -> Result<Self, RestError> {
        let state = match &options.auth {
            RestAuth::None => State::Nothing,
            RestAuth::TokenFile(_) => State::File(None),
            RestAuth::ClientCredentials(_) => State::Token(None),
            RestAuth::SigV4(aws) => {
                let signer = client.signer(keys, &aws.region, &aws.service).map_err(RestError::Open)?;
                State::Signature(Box::new(signer))
            }
        };
        let tokens = match &options.auth {
            RestAuth::ClientCredentials(client) => client.url.clone(),
            RestAuth::None | RestAuth::TokenFile(_) | RestAuth::SigV4(_) => None,
        };
        let tokens = tokens.unwrap_or_else(|| format!("{}/{TOKENS}", options.address));
        Ok(Self { auth: options.auth.clone(), tokens, state })
    }

    /// Makes the credentials of the next request. A token that is soon too old is renewed. The file of a
    /// token is read each time, so a new token is used at once.
    pub(super) fn prepare(&mut self, client: &WebClient) -> Result<(), RestError> {
        match (&mut self.state, &self.auth) {
            (State::File(secret), RestAuth::TokenFile(file)) => *secret = Some(read_secret(file)?),
            (State::Token(token), RestAuth::ClientCredentials(options))
                if token.as_ref().is_none_or(Token::is_due) =>
            {
                *token = Some(Token::get(client, options, &self.tokens)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Drops a token that the server refused. Returns whether the next request may carry another one.
    pub(super) fn drop_token(&mut self) -> bool {
        match &mut self.state {
            State::Nothing | State::Signature(_) => false,
            State::File(secret) => secret.take().is_some(),
            State::Token(token) => token.take().is_some(),
        }
    }

    pub(super) fn token(&self) -> Option<&Secret> {
        match &self.state {
            State::Nothing | State::Signature(_) => None,
            State::File(secret) => secret.as_ref(),
            State::Token(token) => token.as_ref().map(|token| &token.text),
        }
    }

    /// Returns the secret that the last request carried.
    pub(super) fn sent(&self) -> Option<Secret> {
        self.token().cloned().or_else(|| self.signer()?.session_token())
    }

    pub(super) fn signer(&self) -> Option<&AwsSigner> {
        match &self.state {
            State::Signature(signer) => Some(signer),
            State::Nothing | State::File(_) | State::Token(_) => None,
        }
    }
}

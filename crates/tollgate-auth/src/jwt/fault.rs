//! The faults of a token.

/// Reason why a token is not valid. No text contains a part of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JwtFault {
    /// The text is not a signed token in the compact form.
    #[error("the token is not a signed JSON Web Token")]
    Malformed,
    /// The header has a member that is not supported: `crit`, `jku`, `x5u`, `jwk`, `zip`, or a nested token.
    #[error("the header of the token has a member that is not allowed")]
    Header,
    /// No key of the set verifies this algorithm. `none` is one of these algorithms.
    #[error("the algorithm of the token does not belong to the key")]
    Algorithm,
    /// The set has no key with this `kid`.
    #[error("the key of the token is unknown")]
    UnknownKey,
    /// The signature does not match.
    #[error("the signature of the token does not match")]
    Signature,
    /// `exp` is missing or malformed.
    #[error("the token has no valid claim exp")]
    NoExpiry,
    /// The time of `exp` is over.
    #[error("the token has expired")]
    Expired,
    /// The time of `nbf` has not come.
    #[error("the token is not valid yet")]
    NotYet,
    /// `iss` is missing or is not an allowed issuer.
    #[error("the issuer of the token is not allowed")]
    Issuer,
    /// `aud` is missing or has no allowed audience.
    #[error("the audience of the token is another one")]
    Audience,
    /// The claim with the name of the caller is missing or malformed.
    #[error("the token has no valid name of its caller")]
    Name,
}

impl JwtFault {
    /// Returns whether the token may be a guess. A token with a valid signature, which is too old
    /// or for another audience, is no guess. An unknown key may be a new key.
    pub fn is_guess(self) -> bool {
        matches!(self, Self::Malformed | Self::Header | Self::Algorithm | Self::Signature)
    }
}

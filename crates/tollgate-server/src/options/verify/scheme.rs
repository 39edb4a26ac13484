//! How a request is signed: the field of the signature, its form, and the algorithm.

use std::time::Duration;

use tollgate_signature::{Algorithm, Curve, Form, Hash, Sha2};

use super::message::MessageTemplate;

/// How a request is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureScheme {
    /// The header field of the signature, in lower case.
    pub header: String,
    /// What separates the items of the field. A partner sends several signatures while it rotates its keys.
    pub separator: SignatureSeparator,
    /// The beginning of an item that is a signature.
    pub prefix: String,
    /// How the bytes of a signature are written.
    pub encoding: SignatureEncoding,
    /// The algorithm.
    pub algorithm: SignatureAlgorithm,
    /// The signed message.
    pub message: MessageTemplate,
    /// The header field of the timestamp in seconds since 1970, in lower case.
    pub timestamp_header: Option<String>,
    /// The beginning of the item of the signature field that is the timestamp.
    pub timestamp_item: Option<String>,
    /// Maximum difference between the timestamp and the clock, to both sides.
    pub tolerance: Duration,
    /// How a secret is written.
    pub secret_form: SecretForm,
}

/// A row of the table of presets: the values of a scheme, as a configuration writes them.
#[derive(Debug, Clone, Copy)]
pub struct SignaturePreset {
    /// The name.
    pub name: &'static str,
    /// See [`SignatureScheme::header`].
    pub header: &'static str,
    /// See [`SignatureScheme::separator`].
    pub separator: SignatureSeparator,
    /// See [`SignatureScheme::prefix`].
    pub prefix: &'static str,
    /// See [`SignatureScheme::encoding`].
    pub encoding: SignatureEncoding,
    /// See [`SignatureScheme::algorithm`].
    pub algorithm: SignatureAlgorithm,
    /// See [`SignatureScheme::message`].
    pub message: &'static str,
    /// See [`SignatureScheme::timestamp_header`].
    pub timestamp_header: Option<&'static str>,
    /// See [`SignatureScheme::timestamp_item`].
    pub timestamp_item: Option<&'static str>,
    /// See [`SignatureScheme::secret_form`].
    pub secret_form: SecretForm,
}

impl SignatureScheme {
    /// Default for [`tolerance`](Self::tolerance).
    pub const TOLERANCE: Duration = Duration::from_secs(300);
}

impl TryFrom<&SignaturePreset> for SignatureScheme {
    type Error = String;

    /// Makes a scheme of the values of a preset, with the default tolerance.
    ///
    /// # Errors
    /// The message is not a template.
    fn try_from(preset: &SignaturePreset) -> Result<Self, String> {
        Ok(Self {
            header: preset.header.to_owned(),
            separator: preset.separator,
            prefix: preset.prefix.to_owned(),
            encoding: preset.encoding,
            algorithm: preset.algorithm,
            message: MessageTemplate::parse(preset.message)?,
            timestamp_header: preset.timestamp_header.map(str::to_owned),
            timestamp_item: preset.timestamp_item.map(str::to_owned),
            tolerance: Self::TOLERANCE,
            secret_form: preset.secret_form,
        })
    }
}

/// Makes an enum whose values have names in the configuration.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum $name {
            $($(#[$about])* $value,)+
        }

        impl $name {
            /// All values.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$value),+];

            /// Returns the name in the configuration.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }
    };
}

named! {
    /// What separates the items of the signature field.
    SignatureSeparator {
        /// The field is one item.
        #[default]
        None = "none",
        /// A comma.
        Comma = "comma",
        /// A space.
        Space = "space",
    }
}

named! {
    /// How the bytes of a signature are written.
    SignatureEncoding {
        /// Hexadecimal digits.
        #[default]
        Hex = "hex",
        /// Base64 (RFC 4648 section 4).
        Base64 = "base64",
    }
}

named! {
    /// How a secret is written.
    SecretForm {
        /// The bytes of the text are the secret.
        #[default]
        Text = "text",
        /// The secret is base64. `whsec_` before it is removed.
        Base64 = "base64",
        /// The secret is hexadecimal digits.
        Hex = "hex",
    }
}

named! {
    /// The algorithm of a signature.
    SignatureAlgorithm {
        /// HMAC with SHA-256.
        #[default]
        HmacSha256 = "hmac-sha256",
        /// HMAC with SHA-1.
        HmacSha1 = "hmac-sha1",
        /// HMAC with SHA-384.
        HmacSha384 = "hmac-sha384",
        /// HMAC with SHA-512.
        HmacSha512 = "hmac-sha512",
        /// Ed25519.
        Ed25519 = "ed25519",
        /// ECDSA on P-256 with SHA-256, in DER.
        EcdsaP256 = "ecdsa-p256",
        /// ECDSA on P-384 with SHA-384, in DER.
        EcdsaP384 = "ecdsa-p384",
        /// RSA PKCS #1 v1.5 with SHA-256.
        RsaSha256 = "rsa-sha256",
        /// RSA PSS with SHA-256.
        RsaPssSha256 = "rsa-pss-sha256",
    }
}

/// What verifies a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureKind {
    /// A secret that both sides have.
    Hmac(Hash),
    /// A public key.
    Public(Algorithm),
}

impl SignatureAlgorithm {
    /// Returns what verifies the signature.
    pub fn kind(self) -> SignatureKind {
        match self {
            Self::HmacSha1 => SignatureKind::Hmac(Hash::Sha1),
            Self::HmacSha256 => SignatureKind::Hmac(Hash::Sha256),
            Self::HmacSha384 => SignatureKind::Hmac(Hash::Sha384),
            Self::HmacSha512 => SignatureKind::Hmac(Hash::Sha512),
            Self::Ed25519 => SignatureKind::Public(Algorithm::Ed25519),
            Self::EcdsaP256 => SignatureKind::Public(Algorithm::Ecdsa(Curve::P256, Form::Der)),
            Self::EcdsaP384 => SignatureKind::Public(Algorithm::Ecdsa(Curve::P384, Form::Der)),
            Self::RsaSha256 => SignatureKind::Public(Algorithm::RsaPkcs1(Sha2::Sha256)),
            Self::RsaPssSha256 => SignatureKind::Public(Algorithm::RsaPss(Sha2::Sha256)),
        }
    }
}

//! The table of presets: how well-known services sign their webhooks.
//!
//! A service is only a row here. No other code knows a service.

use super::scheme::{SecretForm, SignatureAlgorithm, SignatureEncoding, SignaturePreset, SignatureSeparator};

impl SignaturePreset {
    /// A scheme whose field is one hexadecimal HMAC with SHA-256 of the content. It has no name and no header
    /// field.
    pub const PLAIN: Self = Self {
        name: "",
        header: "",
        separator: SignatureSeparator::None,
        prefix: "",
        encoding: SignatureEncoding::Hex,
        algorithm: SignatureAlgorithm::HmacSha256,
        message: "{body}",
        timestamp_header: None,
        timestamp_item: None,
        secret_form: SecretForm::Text,
    };
}

/// All presets.
pub const PRESETS: [SignaturePreset; 7] = [
    // Source: docs.github.com, "Validating webhook deliveries".
    SignaturePreset {
        name: "github",
        header: "x-hub-signature-256",
        prefix: "sha256=",
        ..SignaturePreset::PLAIN
    },
    // Source: docs.stripe.com, "Verify webhook signatures manually".
    SignaturePreset {
        name: "stripe",
        header: "stripe-signature",
        separator: SignatureSeparator::Comma,
        prefix: "v1=",
        message: "{timestamp}.{body}",
        timestamp_item: Some("t="),
        ..SignaturePreset::PLAIN
    },
    // Source: docs.slack.dev, "Verifying requests from Slack".
    SignaturePreset {
        name: "slack",
        header: "x-slack-signature",
        prefix: "v0=",
        message: "v0:{timestamp}:{body}",
        timestamp_header: Some("x-slack-request-timestamp"),
        ..SignaturePreset::PLAIN
    },
    // Source: shopify.dev, "Deliver webhooks through HTTPS".
    SignaturePreset {
        name: "shopify",
        header: "x-shopify-hmac-sha256",
        encoding: SignatureEncoding::Base64,
        ..SignaturePreset::PLAIN
    },
    // Source: the specification of standardwebhooks.com.
    SignaturePreset {
        name: "standard-webhooks",
        header: "webhook-signature",
        separator: SignatureSeparator::Space,
        prefix: "v1,",
        encoding: SignatureEncoding::Base64,
        message: "{header.webhook-id}.{timestamp}.{body}",
        timestamp_header: Some("webhook-timestamp"),
        secret_form: SecretForm::Base64,
        ..SignaturePreset::PLAIN
    },
    // Source: twilio.com/docs, "Webhooks security".
    SignaturePreset {
        name: "twilio",
        header: "x-twilio-signature",
        encoding: SignatureEncoding::Base64,
        algorithm: SignatureAlgorithm::HmacSha1,
        message: "{url}{form}",
        ..SignaturePreset::PLAIN
    },
    // Source: docs.discord.com, "Interactions: security and authorization".
    SignaturePreset {
        name: "discord",
        header: "x-signature-ed25519",
        algorithm: SignatureAlgorithm::Ed25519,
        message: "{timestamp}{body}",
        timestamp_header: Some("x-signature-timestamp"),
        ..SignaturePreset::PLAIN
    },
];

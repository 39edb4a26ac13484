//! The TLS session of a request, and the certificate of its client.

/// The TLS session of the connection that a request came by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSession {
    /// The version: `1.2` or `1.3`.
    pub version: Box<str>,
    /// The cipher suite by its name at IANA, such as `TLS_AES_128_GCM_SHA256`.
    pub cipher: Box<str>,
    /// The host name that the client sent in its handshake (SNI).
    pub server_name: Option<Box<str>>,
    /// The verified certificate of the client, if the client sent one.
    pub client: Option<ClientCertificate>,
}

/// The verified certificate of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The subject, as RFC 4514 writes it.
    pub subject: String,
    /// The authority that issued the certificate, in the same form.
    pub issuer: String,
    /// The serial number in lower-case hexadecimal digits.
    pub serial: String,
    /// The alternative names of the subject, each after its kind: `dns:a.example`.
    pub names: Vec<String>,
    /// The SHA-256 digest of the certificate in lower-case hexadecimal digits.
    pub fingerprint: String,
    /// The end of the validity, in microseconds since 1970.
    pub not_after_us: i64,
}

//! Reasons why a request of a route is refused for what it asks or contains, before its handler.

/// Reason why the server refused a request of a route after its head, without its handler. The client is at
/// fault, or the configuration of the route is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestFault {
    /// The handler does not accept the content type: 415.
    ContentType,
    /// The server cannot decode the content coding: 415.
    ContentCoding,
    /// The content is malformed or too long: 400, 413.
    Content,
    /// The content is no valid document of the schema of the route: 400, 422.
    Document,
    /// The path does not accept the method: 405, 501.
    Method,
    /// The client has no certificate that the route accepts: 403.
    ClientCertificate,
    /// The preflight of a browser was not allowed: 403, or a reply without a permission.
    Preflight,
    /// The signature of the request does not hold: 401.
    Signature,
    /// The credentials are missing or wrong: 401.
    Credentials,
    /// The caller is known, and the route does not allow it: 403.
    Forbidden,
}

impl RequestFault {
    pub(crate) const ALL: [Self; 10] = [
        Self::ContentType,
        Self::ContentCoding,
        Self::Content,
        Self::Document,
        Self::Method,
        Self::ClientCertificate,
        Self::Preflight,
        Self::Signature,
        Self::Credentials,
        Self::Forbidden,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ContentType => "content_type",
            Self::ContentCoding => "content_coding",
            Self::Content => "content",
            Self::Document => "document",
            Self::Method => "method",
            Self::ClientCertificate => "client_certificate",
            Self::Preflight => "preflight",
            Self::Signature => "signature",
            Self::Credentials => "credentials",
            Self::Forbidden => "forbidden",
        }
    }
}

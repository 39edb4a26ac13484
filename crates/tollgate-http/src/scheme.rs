//! The schemes of HTTP (RFC 9110 section 4.2).

/// The scheme of a URI, of a request, or of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UriScheme {
    /// Without TLS.
    #[default]
    Http,
    /// With TLS.
    Https,
}

impl UriScheme {
    /// Returns the scheme with this name, in any letter case.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        [Self::Http, Self::Https]
            .into_iter()
            .find(|scheme| name.eq_ignore_ascii_case(scheme.name().as_bytes()))
    }

    /// Returns the name of the scheme.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Returns the port of a URI that names none (RFC 9110 section 4.2).
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

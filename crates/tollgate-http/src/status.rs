//! Status codes of final replies and their reason phrases (RFC 9110 section 15).

use std::fmt;

/// A status code of a final reply: 200 to 599, or up to 999 from a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatusCode(u16);

macro_rules! status_codes {
    ($($code:literal $name:ident $reason:literal;)*) => {
        #[allow(missing_docs)] // The name is the reason phrase.
        impl StatusCode {
            $(pub const $name: Self = Self($code);)*
        }

        impl StatusCode {
            /// Returns the status line with its CRLF, or `None` if no RFC defines the code.
            pub(crate) const fn line(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n")),)*
                    _ => None,
                }
            }
        }

        /// Returns the reason phrase of `code`. It is empty if no RFC defines one.
        pub const fn reason(code: u16) -> &'static str {
            match code {
                100 => "Continue",
                101 => "Switching Protocols",
                $($code => $reason,)*
                _ => "",
            }
        }
    };
}

impl StatusCode {
    /// Accepts 200 to 599 (RFC 9110 section 15).
    ///
    /// Interim codes belong to the engine. Other numbers are not status codes of HTTP.
    pub const fn new(code: u16) -> Option<Self> {
        match code {
            200..=599 => Some(Self(code)),
            _ => None,
        }
    }

    /// Accepts 200 to 999, for a reply of a backend.
    ///
    /// A number above 599 means a failure of the server (RFC 9110 section 15). A proxy forwards it unchanged.
    pub const fn of_backend(code: u16) -> Option<Self> {
        match code {
            200..=999 => Some(Self(code)),
            _ => None,
        }
    }

    /// Returns the number.
    pub const fn as_u16(self) -> u16 {
        self.0
    }

    /// Returns the reason phrase. It is empty if no RFC defines one.
    pub const fn reason(self) -> &'static str {
        reason(self.0)
    }

    /// Returns whether a reply with this status ends with its head, whatever its fields say (RFC 9112 section
    /// 6.3).
    pub const fn is_bodyless(self) -> bool {
        matches!(self.0, 204 | 304)
    }

    /// Returns whether a reply with this status may have content.
    ///
    /// 204 and 304 have none. 205 has none either, and is framed as empty (RFC 9110 section 15.3.6).
    pub const fn may_have_content(self) -> bool {
        !matches!(self.0, 204 | 205 | 304)
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

status_codes! {
    200 OK "OK";
    201 CREATED "Created";
    202 ACCEPTED "Accepted";
    203 NON_AUTHORITATIVE_INFORMATION "Non-Authoritative Information";
    204 NO_CONTENT "No Content";
    205 RESET_CONTENT "Reset Content";
    206 PARTIAL_CONTENT "Partial Content";
    207 MULTI_STATUS "Multi-Status";
    300 MULTIPLE_CHOICES "Multiple Choices";
    301 MOVED_PERMANENTLY "Moved Permanently";
    302 FOUND "Found";
    303 SEE_OTHER "See Other";
    304 NOT_MODIFIED "Not Modified";
    307 TEMPORARY_REDIRECT "Temporary Redirect";
    308 PERMANENT_REDIRECT "Permanent Redirect";
    400 BAD_REQUEST "Bad Request";
    401 UNAUTHORIZED "Unauthorized";
    402 PAYMENT_REQUIRED "Payment Required";
    403 FORBIDDEN "Forbidden";
    404 NOT_FOUND "Not Found";
    405 METHOD_NOT_ALLOWED "Method Not Allowed";
    406 NOT_ACCEPTABLE "Not Acceptable";
    407 PROXY_AUTHENTICATION_REQUIRED "Proxy Authentication Required";
    408 REQUEST_TIMEOUT "Request Timeout";
    409 CONFLICT "Conflict";
    410 GONE "Gone";
    411 LENGTH_REQUIRED "Length Required";
    412 PRECONDITION_FAILED "Precondition Failed";
    413 CONTENT_TOO_LARGE "Content Too Large";
    414 URI_TOO_LONG "URI Too Long";
    415 UNSUPPORTED_MEDIA_TYPE "Unsupported Media Type";
    416 RANGE_NOT_SATISFIABLE "Range Not Satisfiable";
    417 EXPECTATION_FAILED "Expectation Failed";
    421 MISDIRECTED_REQUEST "Misdirected Request";
    422 UNPROCESSABLE_CONTENT "Unprocessable Content";
    423 LOCKED "Locked";
    425 TOO_EARLY "Too Early";
    426 UPGRADE_REQUIRED "Upgrade Required";
    428 PRECONDITION_REQUIRED "Precondition Required";
    429 TOO_MANY_REQUESTS "Too Many Requests";
    431 REQUEST_HEADER_FIELDS_TOO_LARGE "Request Header Fields Too Large";
    451 UNAVAILABLE_FOR_LEGAL_REASONS "Unavailable For Legal Reasons";
    500 INTERNAL_SERVER_ERROR "Internal Server Error";
    501 NOT_IMPLEMENTED "Not Implemented";
    502 BAD_GATEWAY "Bad Gateway";
    503 SERVICE_UNAVAILABLE "Service Unavailable";
    504 GATEWAY_TIMEOUT "Gateway Timeout";
    505 HTTP_VERSION_NOT_SUPPORTED "HTTP Version Not Supported";
    507 INSUFFICIENT_STORAGE "Insufficient Storage";
    508 LOOP_DETECTED "Loop Detected";
    511 NETWORK_AUTHENTICATION_REQUIRED "Network Authentication Required";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_statuses_have_no_content() {
        let without: Vec<u16> = (200..600)
            .filter(|&code| StatusCode::new(code).is_some_and(|code| !code.may_have_content()))
            .collect();
        assert_eq!(without, [204, 205, 304]);
    }

    #[test]
    fn only_final_codes_are_taken() {
        let check =
            |code, expect: Option<&str>| assert_eq!(StatusCode::new(code).map(StatusCode::reason), expect);
        check(0, None);
        check(100, None);
        check(199, None);
        check(200, Some("OK"));
        check(299, Some(""));
        check(404, Some("Not Found"));
        check(599, Some(""));
        check(600, None);
        assert_eq!([199, 1000].map(StatusCode::of_backend), [None; 2]);
        assert_eq!(
            [200, 999].map(|code| StatusCode::of_backend(code).map(StatusCode::as_u16)),
            [Some(200), Some(999)]
        );
    }
}

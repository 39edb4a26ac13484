//! The methods that the server knows, and sets of them.

use std::fmt;

/// A request method (RFC 9110 section 9). CONNECT and TRACE are absent because the server refuses
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // The name is the method.
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Patch,
    Options,
    /// Any other method, such as PROPFIND. [`RequestHead::method_name`](crate::RequestHead::method_name) is
    /// its name.
    Extension,
}

impl Method {
    /// All methods with a name of their own, in the order in which `Allow` lists them.
    pub const ALL: [Self; 7] =
        [Self::Get, Self::Head, Self::Post, Self::Put, Self::Delete, Self::Patch, Self::Options];

    /// Parses a method. The case of the letters matters (RFC 9110 section 9.1).
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            b"GET" => Some(Self::Get),
            b"HEAD" => Some(Self::Head),
            b"POST" => Some(Self::Post),
            b"PUT" => Some(Self::Put),
            b"DELETE" => Some(Self::Delete),
            b"PATCH" => Some(Self::Patch),
            b"OPTIONS" => Some(Self::Options),
            _ => None,
        }
    }

    /// Returns whether a token can be the name of an extension method.
    ///
    /// CONNECT would make the connection a tunnel, and the reply to TRACE would show fields to scripts of a
    /// page (RFC 9110 sections 9.3.6 and 9.3.8). The server supports neither.
    pub fn is_extension(name: &[u8]) -> bool {
        let is_known = Self::from_bytes(name).is_some() || [&b"CONNECT"[..], b"TRACE"].contains(&name);
        !is_known && name.len() <= EXTENSION_BYTES_MAX
    }

    /// Parses a method and the space after it, and returns the offset after both.
    #[inline]
    pub(crate) fn at_front(line: &[u8]) -> Option<(Self, usize)> {
        let method = match line {
            [b'G', b'E', b'T', b' ', ..] => Self::Get,
            [b'P', b'O', b'S', b'T', b' ', ..] => Self::Post,
            _ => {
                let end = line.iter().take(METHOD_BYTES_MAX + 1).position(|&byte| byte == b' ')?;
                Self::from_bytes(&line[..end])?
            }
        };
        Some((method, method.as_str().len() + 1))
    }

    /// Returns the name of the method as it is written in a request line. An extension has no fixed name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Patch => "PATCH",
            Self::Options => "OPTIONS",
            Self::Extension => "",
        }
    }

    /// Returns whether the method is safe, which means that it requests no change of state (RFC 9110 section
    /// 9.2.1).
    pub const fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options)
    }

    /// Returns whether the method is idempotent: two equal requests have the effect of one (RFC 9110 section
    /// 9.2.2). An extension may have any effect.
    pub const fn is_idempotent(self) -> bool {
        !matches!(self, Self::Post | Self::Patch | Self::Extension)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Length of `OPTIONS`, the longest method.
const METHOD_BYTES_MAX: usize = 7;
/// Maximum length of the name of an extension. `UPDATEREDIRECTREF`, the longest registered name, has 17
/// bytes.
const EXTENSION_BYTES_MAX: usize = 32;

/// A set of methods. The text of the set is the value of `Allow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Methods(u8);

impl Methods {
    /// The set without members.
    pub const EMPTY: Self = Self(0);

    /// Adds `method`.
    pub const fn insert(&mut self, method: Method) {
        self.0 |= 1 << method as u8;
    }

    /// Returns whether `method` is a member.
    pub const fn contains(self, method: Method) -> bool {
        self.0 & 1 << method as u8 != 0
    }

    /// Returns whether there are no members.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the members of either set.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the members of both sets.
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Lists the members in the order of [`Method::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Method> {
        Method::ALL.into_iter().filter(move |&method| self.contains(method))
    }
}

impl FromIterator<Method> for Methods {
    fn from_iter<I: IntoIterator<Item = Method>>(methods: I) -> Self {
        let mut set = Self::EMPTY;
        methods.into_iter().for_each(|method| set.insert(method));
        set
    }
}

impl fmt::Display for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, method) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(method.as_str())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_reads_back_and_case_matters() {
        for method in Method::ALL {
            assert_eq!(Method::from_bytes(method.as_str().as_bytes()), Some(method));
        }
        for unknown in ["", "get", "GETS", "TRACE", "CONNECT", "PRI"] {
            assert_eq!(Method::from_bytes(unknown.as_bytes()), None, "{unknown}");
        }
    }

    #[test]
    fn any_other_token_is_an_extension_but_connect_and_trace() {
        let longest = "M".repeat(EXTENSION_BYTES_MAX);
        for extension in ["PROPFIND", "get", "M-SEARCH", &longest] {
            assert!(Method::is_extension(extension.as_bytes()), "{extension}");
        }
        for other in ["GET", "OPTIONS", "CONNECT", "TRACE", &format!("{longest}M")] {
            assert!(!Method::is_extension(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_set_prints_as_the_value_of_allow() {
        let check = |methods: &[Method], expect: &str| {
            let set: Methods = methods.iter().copied().collect();
            assert_eq!(set.to_string(), expect);
            assert!(methods.iter().all(|&method| set.contains(method)));
            assert_eq!(set.is_empty(), methods.is_empty());
        };
        check(&[], "");
        check(&[Method::Options], "OPTIONS");
        check(&[Method::Post, Method::Get, Method::Head, Method::Get], "GET, HEAD, POST");
        check(&Method::ALL, "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS");
    }
}

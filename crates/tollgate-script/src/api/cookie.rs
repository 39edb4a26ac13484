//! `tollgate.cookie.make`: the value of a `Set-Cookie` field (RFC 6265 section 4.1).
//!
//! A value that a browser would drop or misread is refused (RFC 6265bis sections 4.1.3 and 5.7).

use std::fmt::Write as _;

use mlua::{Lua, LuaString, Table, Value};
use tollgate_http::{http_date_of_us, is_field_name};

use crate::arguments::{close, flag, options, text, unfit, whole_number};
use crate::error::shown;
use crate::memory::unlimited;
use crate::times::timestamp;

/// Creates the table `tollgate.cookie`.
pub(super) fn install(lua: &Lua) -> mlua::Result<Table> {
    let cookie = lua.create_table()?;
    cookie.raw_set("make", lua.create_function(make)?)?;
    close(lua, "tollgate.cookie", &cookie)?;
    Ok(cookie)
}

fn make(lua: &Lua, (name, value, given): (Value, Value, Value)) -> mlua::Result<LuaString> {
    let name = checked("cookie name", &name, "a token (RFC 9110 section 5.6.2)", is_field_name)?;
    let allowed = "visible ASCII without quote, comma, semicolon and backslash: use tollgate.url.encode";
    let value = checked("cookie value", &value, allowed, is_cookie_value)?;
    if name.len() + value.len() > PAIR_BYTES_MAX {
        let bytes = name.len() + value.len();
        return Err(refused(format!("cookie exceeds limit: {bytes} bytes, limit {PAIR_BYTES_MAX} bytes")));
    }
    let attributes = Attributes::read(&given)?;
    attributes.check(&name)?;
    let mut line = format!("{name}={value}");
    attributes.write(&mut line);
    unlimited(lua, || lua.create_string(line))
}

/// Attributes of a cookie.
struct Attributes {
    path: Option<String>,
    domain: Option<String>,
    max_age_s: Option<i64>,
    expires_us: Option<i64>,
    is_secure: bool,
    is_http_only: bool,
    same_site: Option<SameSite>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SameSite {
    Strict,
    Lax,
    None,
}

impl Attributes {
    fn read(given: &Value) -> mlua::Result<Self> {
        let names = ["path", "domain", "max_age", "expires", "secure", "http_only", "same_site"];
        let [path, domain, max_age, expires, secure, http_only, same_site] =
            options("options of a cookie", given, names)?;
        let max_age_s = match max_age {
            Value::Nil => None,
            value => Some(whole_number("cookie max_age", &value, 0..=NUMBER_MAX)?),
        };
        let expires_us = match expires {
            Value::Nil => None,
            value => Some(timestamp("cookie expires", &value)?),
        };
        Ok(Self {
            path: optional(
                "cookie path",
                &path,
                "a slash, followed by ASCII without control characters and semicolons",
                is_path,
            )?,
            domain: optional("cookie domain", &domain, "letters, digits, hyphens and dots", is_domain)?,
            max_age_s,
            expires_us,
            is_secure: flag("cookie secure", &secure)?,
            is_http_only: flag("cookie http_only", &http_only)?,
            same_site: SameSite::read(&same_site)?,
        })
    }

    /// Refuses cookies that browsers drop without a notice.
    fn check(&self, name: &str) -> mlua::Result<()> {
        let is_prefixed =
            |prefix: &str| name.get(..prefix.len()).is_some_and(|front| front.eq_ignore_ascii_case(prefix));
        if is_prefixed("__Host-")
            && (!self.is_secure || self.path.as_deref() != Some("/") || self.domain.is_some())
        {
            return Err(refused(
                "cookie with a name in __Host- needs secure = true, path = \"/\" and no domain",
            ));
        }
        if is_prefixed("__Secure-") && !self.is_secure {
            return Err(refused("cookie with a name in __Secure- needs secure = true"));
        }
        if self.same_site == Some(SameSite::None) && !self.is_secure {
            return Err(refused("cookie with same_site = \"none\" needs secure = true"));
        }
        Ok(())
    }

    fn write(&self, line: &mut String) {
        if let Some(path) = &self.path {
            let _ = write!(line, "; Path={path}");
        }
        if let Some(domain) = &self.domain {
            let _ = write!(line, "; Domain={domain}");
        }
        if let Some(max_age) = self.max_age_s {
            let _ = write!(line, "; Max-Age={max_age}");
        }
        if let Some(expires) = self.expires_us {
            let _ = write!(line, "; Expires={}", String::from_utf8_lossy(&http_date_of_us(expires)));
        }
        if self.is_secure {
            line.push_str("; Secure");
        }
        if self.is_http_only {
            line.push_str("; HttpOnly");
        }
        if let Some(same_site) = self.same_site {
            let _ = write!(line, "; SameSite={}", same_site.name());
        }
    }
}

impl SameSite {
    const ALL: [Self; 3] = [Self::Strict, Self::Lax, Self::None];

    fn name(self) -> &'static str {
        match self {
            Self::Strict => "Strict",
            Self::Lax => "Lax",
            Self::None => "None",
        }
    }

    fn read(given: &Value) -> mlua::Result<Option<Self>> {
        if given.is_nil() {
            return Ok(None);
        }
        let found = text("cookie same_site", given)?;
        let known = Self::ALL.into_iter().find(|known| found.eq_ignore_ascii_case(known.name().as_bytes()));
        known.map(Some).ok_or_else(|| {
            refused(format!("cookie same_site is \"{}\": allowed are strict, lax, none", shown(&found)))
        })
    }
}

fn optional(
    what: &str,
    value: &Value,
    allowed: &str,
    is_allowed: fn(&[u8]) -> bool,
) -> mlua::Result<Option<String>> {
    if value.is_nil() { Ok(None) } else { checked(what, value, allowed, is_allowed).map(Some) }
}

fn checked(what: &str, value: &Value, allowed: &str, is_allowed: fn(&[u8]) -> bool) -> mlua::Result<String> {
    let Value::String(found) = value else { return Err(unfit(what, value, "a string")) };
    let found = found.as_bytes();
    match std::str::from_utf8(&found) {
        Ok(text) if is_allowed(&found) && text.len() <= PAIR_BYTES_MAX => Ok(text.to_owned()),
        _ => Err(refused(format!("{what} is \"{}\": allowed is {allowed}", shown(&found)))),
    }
}

/// Returns whether a value is a `cookie-value` of RFC 6265 section 4.1.1: cookie-octets, optionally in
/// quotes.
fn is_cookie_value(value: &[u8]) -> bool {
    let inner = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value);
    inner.iter().all(|byte| byte.is_ascii_graphic() && !b"\",;\\".contains(byte))
}

fn is_path(path: &[u8]) -> bool {
    path.first() == Some(&b'/')
        && path.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b';')
        && !path.ends_with(b" ")
}

fn is_domain(domain: &[u8]) -> bool {
    domain.len() <= DOMAIN_BYTES_MAX
        && domain.split(|&byte| byte == b'.').skip(usize::from(domain.starts_with(b"."))).all(|label| {
            !label.is_empty() && label.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        })
}

#[cold]
fn refused(text: impl Into<String>) -> mlua::Error {
    mlua::Error::runtime(text.into())
}

/// Maximum bytes of a name and its value that browsers accept (RFC 6265bis section 5.6).
const PAIR_BYTES_MAX: usize = 4096;
const DOMAIN_BYTES_MAX: usize = 253;
/// First number from which on doubles cannot represent all integers.
const NUMBER_MAX: i64 = 1 << 53;

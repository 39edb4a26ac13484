//! Addresses of brokers.

/// Needed form of an address, for error texts.
const NEEDED: &str = "host:port, with a port from 1 to 65535";

/// Address of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    /// Name or IP address, in lower case. An IPv6 address is in brackets.
    host: String,
    port: u16,
}

/// A text that is no address of a broker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("address is {found:?}, needed is {NEEDED}")]
pub struct AddressError {
    found: String,
}

impl BrokerAddress {
    /// Reads a list of addresses, `host:port,host:port`.
    ///
    /// # Errors
    /// One of them has no host or no port, or another part. The text is without a user and a password.
    pub fn list(brokers: &str) -> Result<Vec<Self>, AddressError> {
        // A password may have commas. So all text before the last `@` is hidden.
        if brokers.contains('@') {
            return Err(AddressError { found: without_user(brokers) });
        }
        let read = |text: &str| Self::read(text).ok_or_else(|| AddressError { found: text.to_owned() });
        brokers.split(',').map(str::trim).map(read).collect()
    }

    /// Returns whether two lists have an address in common, so that they name the same cluster.
    pub fn have_common(a: &str, b: &str) -> bool {
        let [a, b] = [a, b].map(|brokers| Self::list(brokers).unwrap_or_default());
        a.iter().any(|address| b.contains(address))
    }

    fn read(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| is_number && *port > 0)?;
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?,
            None if host.contains(':') => return None,
            None => host,
        };
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
        let is_host = !name.is_empty() && name.bytes().all(is_part);
        is_host.then(|| Self { host: host.to_ascii_lowercase(), port })
    }
}

/// Hides the text before the last `@`, which may be a user and a password.
pub(crate) fn without_user(brokers: &str) -> String {
    match brokers.rsplit_once('@') {
        Some((_, rest)) => format!("***@{rest}"),
        None => brokers.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_one_cluster_have_an_address_in_common() {
        for (a, b, is_common) in [("h:1", "h:1", true), ("h:1,g:1", "G:1, i:1", true), ("h:1", "h:2", false)]
        {
            assert_eq!(BrokerAddress::have_common(a, b), is_common, "{a} {b}");
        }
    }

    #[test]
    fn a_user_and_a_password_are_in_no_error() {
        for brokers in ["u:hunter2@h:1", "a:1,u:hunt,er2@h:1", "u:hunter2@b:1,u:hunter2@h:1"] {
            let error = BrokerAddress::list(brokers).unwrap_err();
            let expected = "address is \"***@h:1\", needed is host:port, with a port from 1 to 65535";
            assert_eq!(error.to_string(), expected, "{brokers}");
        }
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        let count = |brokers: &str| BrokerAddress::list(brokers).map(|list| list.len());
        assert_eq!(count("a:1"), Ok(1));
        assert_eq!(count("127.0.0.1:9092, B_2.example-x:65535,[::1]:1"), Ok(3));
        assert_eq!(BrokerAddress::list("A:1"), BrokerAddress::list("a:1"));
        let faulty = ["", "a", "a:", "a:0", "a:65536", "a:+1", ":1", "::1:1", "[::1", "a:1/topic", "a b:1"];
        for found in faulty {
            let error = BrokerAddress::list(&format!("b:1,{found}")).unwrap_err();
            let expected = format!("address is {found:?}, needed is host:port, with a port from 1 to 65535");
            assert_eq!(error.to_string(), expected);
        }
    }
}

//! The arguments of `tollgate serve`.

use std::net::SocketAddr;

use clap::Args;

use super::place::ConfigPath;
use crate::config::{near_hint, nearest_address};

/// The options of `serve`. They apply to each configuration that the server loads.
#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    #[command(flatten)]
    pub(crate) config: ConfigPath,
    /// Listen on this address instead of `listen` in the configuration. Can be repeated
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Also listen with TLS, with a certificate for localhost from the development authority
    #[arg(
        long,
        value_name = "IP:PORT",
        value_parser = address,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:8443"
    )]
    pub(crate) https: Option<SocketAddr>,
    /// Record requests, but load no rows. A later start without this option loads them
    #[arg(long)]
    pub(crate) no_load: bool,
    /// Reload when files change, and show errors with source code in replies. Only on loopback addresses
    #[arg(long)]
    pub(crate) dev: bool,
    /// Allow --dev on other addresses. Every client that reaches them can then see source code
    #[arg(long, requires = "dev")]
    pub(crate) dev_anywhere: bool,
}

/// Reads an IP address with a port. A port alone, or the name of this machine, gets the address to write.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| match nearest_address(text) {
        Some(near) => format!("allowed is {}", near_hint(near).replace('"', "")),
        None => "allowed is an IP address and a port, like 127.0.0.1:8080 or [::1]:8080".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_gets_the_address_to_write() {
        let near =
            "allowed is an IP address and a port: write 127.0.0.1:8080, or 0.0.0.0:8080 for all interfaces";
        for text in ["8080", ":8080", "localhost:8080"] {
            assert_eq!(address(text), Err(near.to_owned()), "{text}");
        }
        assert_eq!(address("[::1]:0"), Ok("[::1]:0".parse().unwrap()));
        let other = "allowed is an IP address and a port, like 127.0.0.1:8080 or [::1]:8080";
        for text in ["", "example.org:80", "99999", "127.0.0.1"] {
            assert_eq!(address(text), Err(other.to_owned()), "{text}");
        }
    }
}

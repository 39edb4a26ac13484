//! The arguments of `tollgate auth`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Read a password from stdin, and print its line for a password file
    Password {
        /// The name of the user
        name: String,
    },
    /// Make a token. Its line for a token file goes to stdout, and the token to stderr
    Token {
        /// The name of the caller
        name: String,
    },
}

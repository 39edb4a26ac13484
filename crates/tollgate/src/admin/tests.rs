//! The listener by itself, without a server.

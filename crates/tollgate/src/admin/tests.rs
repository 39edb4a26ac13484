//! Tests of the listener alone, without a server.

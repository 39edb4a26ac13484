//! Files: what is found, how much of it is sent, and what is never found.

mod compressed;
mod conditions;
mod digests;
mod fairness;
mod found;
mod kept;
mod listing;
mod root;
mod sending;

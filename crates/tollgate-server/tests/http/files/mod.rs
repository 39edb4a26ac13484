//! Files: which are found, how much of them is sent, and which are never found.

mod compressed;
mod conditions;
mod digests;
mod fairness;
mod found;
mod kept;
mod listing;
mod root;
mod sending;

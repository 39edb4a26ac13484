//! Tests of the file handler: the files that are found, the parts of them that are sent, and the files that
//! are never found.

mod compressed;
mod conditions;
mod digests;
mod fairness;
mod found;
mod kept;
mod listing;
mod root;
mod sending;

//! Tests of the reader: events, faults, encodings and limits, each with the document cut at every place.

mod document;
mod encodings;
mod events;
mod faults;
mod limits;
mod namespaces;
mod properties;

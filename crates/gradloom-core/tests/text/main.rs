//! The text form: what prints parses back to the same graph, and what is wrong is named with its place.

mod errors;
mod fuzz;
mod round_trip;
mod twice;

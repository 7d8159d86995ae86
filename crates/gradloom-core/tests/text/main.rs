//! The text form: printed graphs parse to the same graph, and errors name their location.

mod errors;
mod fuzz;
mod round_trip;
mod twice;

//! The text form. The tests check that printed graphs parse to the same graph, and that errors name their
//! location.

mod errors;
mod fuzz;
mod round_trip;
mod twice;

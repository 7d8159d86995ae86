//! gradloom as a WebAssembly module.
//!
//! In: calls from a script, with numbers, and with bytes in the module's memory (`abi`). Out: ids, JSON,
//! bytes. The module has two instances. One on the page's thread traces models. One in a worker repeats the
//! same `commands`, compiles, and runs programs (`sessions`) on the page's GPU (`browser`) or, in a build
//! with the CPU, there. The scripts are in `web/`.
//!
//! Invariant: a call that fails leaves an error as JSON, and changes nothing else but an open trace; no
//! call blocks.

pub mod abi;
mod arguments;
mod browser;
mod commands;
mod gpu;
mod ids;
mod model;
mod optimizer;
mod report;
mod sessions;
#[cfg(test)]
mod tests;

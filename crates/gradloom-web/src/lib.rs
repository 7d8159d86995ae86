//! gradloom as a WebAssembly module.
//!
//! In: calls from a script, with numbers, and with bytes in the module's memory (`abi`). Out: ids, JSON,
//! bytes. The module is there twice: on the page's thread, where models are traced, and in a worker, which
//! replays the same `commands`, compiles, and runs programs (`sessions`) on the page's GPU (`browser`) or, if
//! built so, on the CPU. `web/` has the scripts.
//!
//! Always holds: a call that fails leaves an error as JSON, and changes nothing else but an open trace;
//! nothing here waits.

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

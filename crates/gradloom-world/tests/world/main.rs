//! Worlds of threads and of processes on one host: collectives, meetings and failures.

mod child;
mod collectives;
mod cut;
mod environment;
mod failures;
mod meeting;
mod proxy;
mod support;
mod torch;

//! Runs gradloom's plans.

pub mod cpu;

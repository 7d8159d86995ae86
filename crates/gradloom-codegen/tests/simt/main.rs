//! Tests of GPU kernels on a simulated grid, against the f64 reference.

mod attention;
mod custom;
mod guards;
mod nvrtc;
mod ops;
mod programs;

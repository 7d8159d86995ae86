//! Kernels of the common GPU language against the float64 reference, on a simulated grid.

mod attention;
mod custom;
mod guards;
mod nvrtc;
mod ops;
mod programs;

//! Reverse mode: the values of gradients, the conventions at kinks, and the ops that the backward pass adds
//! to a graph.

mod checkpoint;
mod conventions;
mod graph;
mod leaves;
mod rules;

use gradloom_testing::random;

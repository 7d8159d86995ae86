//! Reverse mode: the rules by value, the conventions at kinks, and what the backward pass adds to a graph.

mod checkpoint;
mod conventions;
mod graph;
mod leaves;
mod rules;

use gradloom_testing::random;

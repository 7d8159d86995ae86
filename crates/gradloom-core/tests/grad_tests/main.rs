//! Reverse mode: the rules by value, the conventions at kinks, and what the backward pass adds to a graph.

mod conventions;
mod graph;
mod rules;
mod support;
mod table;

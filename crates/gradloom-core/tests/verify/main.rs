//! The verifier: each test violates one invariant of a graph.

mod commit;
mod leaves;
mod structure;

use gradloom_core::ir::{Graph, OpId, parse};
use gradloom_core::verify::{VerifyError, verify};

/// A valid graph with at least one element of each kind.
const SOUND: &str = "graph {
  @0 = \"src/model.rs\":12:20
  %0: f32[2, 3] = input \"x\"
  %1: f32[2, 3] = param \"w\" @0
  %2: i32[] = state \"n\" {init=0}
  %3: f32[] = scalar \"lr\"
  ^1(%4: f32[3]) {
    %5: f32[3] = neg %4 @0
    -> %5
  }
  %6: f32[2, 3] = repeat ^1 %0 {trip=2, carried=0} @0
  %7: f32[2, 3] = add %6, %1 @0
  %8: i32[] = constant 1
  %9: i32[] = add %2, %8
  %10: f32[1, 3] = slice %7 {start=[0, 0], limit=[1, 3], step=[1, 1]}
  output \"y\" %7
  output \"n\" %9
  update %1[%2, %8] <- %10
  update %2 <- %9
  guard \"y\" %7
}";

/// Returns the error of the valid graph after a change.
fn broken(change: impl FnOnce(&mut Graph)) -> VerifyError {
    let mut graph = parse(SOUND).unwrap();
    verify(&graph).unwrap();
    change(&mut graph);
    verify(&graph).expect_err("the change breaks the graph")
}

/// Returns the verifier's error for a text that parses.
fn broken_text(lines: &str) -> VerifyError {
    let graph = parse(&format!("graph {{\n{lines}\n}}")).unwrap();
    verify(&graph).expect_err("this graph is broken")
}

/// Returns the first op with this name, in any block.
fn op_named(graph: &Graph, name: &str) -> OpId {
    graph.ops.iter().find(|(_, op)| op.kind.name() == name).unwrap().0
}

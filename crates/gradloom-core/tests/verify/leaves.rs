//! Invariants of leaves.

use crate::broken_text;
use gradloom_core::ir::{DType, OpKind, Type, parse};
use gradloom_core::verify::verify;

#[test]
fn inputs_are_named_once() {
    let error = broken_text("%0: f32[] = input \"x\"\n%1: i32[2] = input \"x\"");
    assert_eq!(error.message, "two inputs are named \"x\"");
    assert_eq!(error.op.as_deref(), Some("%1: i32[2] = input \"x\""));
}

#[test]
fn parameters_and_states_share_the_names_of_the_store() {
    let leaves = ["param \"w\"", "state \"w\" {init=0.0}"];
    for first in leaves {
        for second in leaves {
            let error = broken_text(&format!("%0: f32[] = {first}\n%1: f32[] = {second}"));
            assert_eq!(error.message, "two parameters or states are named \"w\"");
        }
    }
}

#[test]
fn a_scalar_may_be_read_in_several_places_as_one_dtype() {
    let error = broken_text("%0: f32[] = scalar \"t\"\n%1: f32[] = scalar \"t\"\n%2: i32[] = scalar \"t\"");
    assert_eq!(error.message, "the scalar \"t\" is f32 in one place and i32 in another");
    assert_eq!(error.op.as_deref(), Some("%2: i32[] = scalar \"t\""));
}

#[test]
fn a_scalar_is_a_number() {
    let message = "the scalar \"flag\" is bool: the per-step block holds numbers \
                   (declare it as u32 and compare it with 0, or make it an input)";
    let error = parse("graph {\n%0: bool[] = scalar \"flag\"\n}").unwrap_err();
    assert_eq!(error.to_string(), format!("line 2, column 14: {message}"));
    // The verifier also rejects the scalar in a graph that was changed without the parser.
    let mut graph = parse("graph {\n%0: u32[] = scalar \"flag\"\n}").unwrap();
    let op = graph.blocks[graph.entry].ops[0];
    graph.ops[op].kind = OpKind::Scalar { name: "flag".into(), dtype: DType::Bool };
    let value = graph.ops[op].results[0];
    graph.values[value].ty = Type::scalar(DType::Bool);
    let error = verify(&graph).unwrap_err();
    assert_eq!(
        (error.message.as_str(), error.op.as_deref()),
        (message, Some("%0: bool[] = scalar \"flag\""))
    );
}

#[test]
fn inputs_scalars_and_the_store_do_not_share_names() {
    let text = "graph { %0: f32[] = input \"x\" %1: i32[] = param \"x\" %2: u32[] = scalar \"x\" }";
    verify(&parse(text).unwrap()).unwrap();
}

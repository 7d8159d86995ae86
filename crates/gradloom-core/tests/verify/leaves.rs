//! Names of leaves.

use crate::broken_text;
use gradloom_core::ir::parse;
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
fn inputs_scalars_and_the_store_do_not_share_names() {
    let text = "graph { %0: f32[] = input \"x\" %1: i32[] = param \"x\" %2: u32[] = scalar \"x\" }";
    verify(&parse(text).unwrap()).unwrap();
}

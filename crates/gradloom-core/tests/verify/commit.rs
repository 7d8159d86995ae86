//! Invariants of outputs, updates and guards.

use crate::{broken, broken_text, op_named};
use gradloom_core::ir::{Graph, ValueId};

fn value(graph: &Graph, name: &str) -> ValueId {
    graph.ops[op_named(graph, name)].results[0]
}

const STATE: &str = "%0: f32[2, 3] = state \"s\" {init=0.0}\n%1: i32[] = constant 0\n\
                     %2: f32[] = constant 0.0\n\
                     %3: f32[2, 3] = constant 0.0\n%4: f32[2] = constant 0.0\n%5: i32[2, 3] = constant 0\n\
                     %6: f32[1, 4] = constant 0.0\n%7: i32[1] = constant 0\n%8: i32[1, 1] = constant 0\n";

#[track_caller]
fn assert_refused(updates: &str, message: &str) {
    assert_eq!(broken_text(&format!("{STATE}{updates}")).message, message);
}

#[test]
fn outputs_are_named_once_and_read_the_entry_block() {
    let error = broken(|g| g.outputs[1].name = "y".into());
    assert_eq!(error.message, "two outputs are named \"y\"");
    let error = broken(|g| g.outputs[0].value = ValueId(1000));
    assert_eq!(error.message, "output \"y\" reads %?1000, which no op defines");
    let error = broken(|g| g.outputs[0].value = value(g, "neg"));
    assert_eq!(error.message, "output \"y\" reads %5 of block ^1, not of the entry block");
    assert_eq!(error.op.as_deref(), Some("%5: f32[3] = neg %4"));
}

#[test]
fn guards_are_floats_of_the_entry_block() {
    let error = broken(|g| g.guards[0].value = ValueId(1000));
    assert_eq!(error.message, "guard \"y\" reads %?1000, which no op defines");
    let error = broken(|g| g.guards[0].value = value(g, "neg"));
    assert_eq!(error.message, "guard \"y\" reads %5 of block ^1, not of the entry block");
    let error = broken(|g| g.guards[0].value = value(g, "constant"));
    assert_eq!(error.message, "guard \"y\" is i32[], not f32");
    assert_eq!(error.op.as_deref(), Some("%8: i32[] = constant 1"));
}

#[test]
fn targets_are_parameters_or_states() {
    let message = "an update's target is no parameter or state";
    for name in ["input", "add", "scalar", "constant"] {
        assert_eq!(broken(|g| g.updates[0].target = value(g, name)).message, message);
    }
    let error = broken(|g| g.updates[0].target = value(g, "neg"));
    assert_eq!(error.message, "an update's target reads %5 of block ^1, not of the entry block");
    let error = broken(|g| g.updates[0].target = ValueId(1000));
    assert_eq!(error.message, "an update's target reads %?1000, which no op defines");
}

#[test]
fn a_whole_update_has_the_type_of_its_target() {
    let refused = |value, ty| {
        let message = format!("the update of \"s\" is {ty}, but the target is f32[2, 3]");
        assert_refused(&format!("update %0 <- {value}"), &message);
    };
    refused("%4", "f32[2]");
    refused("%5", "i32[2, 3]");
}

#[test]
fn a_region_has_a_start_for_each_axis_and_fits() {
    let starts = "the update of \"s\" has 1 starts for the axes of f32[2, 3]";
    assert_refused("update %0[%1] <- %3", starts);
    assert_refused("update %0[%1, %2] <- %3", "a start of the update of \"s\" is f32[], not an i32 scalar");
    assert_refused("update %0[%7, %1] <- %3", "a start of the update of \"s\" is i32[1], not an i32 scalar");
    let refused = |value, ty| {
        let message = format!("the update of \"s\" writes a region of {ty} into f32[2, 3]");
        assert_refused(&format!("update %0[%1, %1] <- {value}"), &message);
    };
    refused("%4", "f32[2]");
    refused("%8", "i32[1, 1]");
    refused("%6", "f32[1, 4]");
}

#[test]
fn what_an_update_reads_is_of_the_entry_block() {
    let error = broken(|g| g.updates[0].value = value(g, "neg"));
    assert_eq!(error.message, "the update of \"w\" reads %5 of block ^1, not of the entry block");
    let error = broken(|g| g.updates[0].value = ValueId(1000));
    assert_eq!(error.message, "the update of \"w\" reads %?1000, which no op defines");
    let error = broken(|g| g.updates[0].region = Some(vec![value(g, "neg"), ValueId(1000)]));
    assert_eq!(error.message, "the update of \"w\" reads %5 of block ^1, not of the entry block");
}

#[test]
fn one_whole_update_or_any_number_of_regions() {
    assert_refused("update %0 <- %3\nupdate %0 <- %0", "\"s\" is updated as a whole twice");
    let mixed = "\"s\" is updated as a whole and also by regions";
    assert_refused("update %0 <- %3\nupdate %0[%1, %1] <- %3", mixed);
    assert_refused("update %0[%1, %1] <- %3\nupdate %0[%1, %1] <- %3\nupdate %0 <- %3", mixed);
}

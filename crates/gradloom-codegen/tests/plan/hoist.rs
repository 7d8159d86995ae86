//! Tests of hoisted launches: those with the same results in every step run once, when the program is loaded.

use crate::{buffer, fused, graph, planned, refused, steps};
use gradloom_core::ir::ValueId;
use gradloom_core::plan::ALIGNMENT;
use gradloom_core::plan::{Plan, Region, Role, verify, verify_commit};

/// Sinusoidal table, added to each text of a batch.
const TABLE: &str = "%0: f32[4, 8, 16] = input \"x\"\n%1: f32[8, 16] = iota {axis=0}\n%2: f32[8, 16] = iota {axis=1}\n\
    %3: f32[8, 16] = exp %2\n%4: f32[8, 16] = div %1, %3\n%5: f32[8, 16] = sin %4\n%6: f32[1, 8, 16] = reshape %5\n\
    %7: f32[4, 8, 16] = broadcast %6\n%8: f32[4, 8, 16] = add %0, %7\noutput \"y\" %8";

fn once(plan: &Plan) -> Vec<&str> {
    plan.hoisted.iter().map(|launch| super::name(launch)).collect()
}

#[test]
fn a_table_is_one_launch_when_loaded_and_none_in_the_step() {
    let plan = fused(TABLE);
    assert_eq!((plan.hoisted.len(), plan.launches.len()), (1, 1));
    let table = buffer(&plan, 5);
    assert_eq!((table.role, table.region, table.bytes), (Role::Hoisted, Region::Constants, 8 * 16 * 4));
    // The constants are both axes, of 8 and 16 numbers, and the table. The sum overwrites the input.
    assert_eq!(plan.totals.constants, 2 * ALIGNMENT + 512);
    assert_eq!(plan.totals.step, 4 * 8 * 16 * 4);
    let report = plan.report(&graph(TABLE));
    assert!(report.starts_with("1 launches a step, 1 when loaded; "), "{report}");
    assert!(report.contains("when the program is loaded:\n      0 once "), "{report}");
}

/// Chains of kernels are hoisted even without fusion, regardless of their ops.
#[test]
fn chains_of_kernels_are_hoisted_whole() {
    let plan = planned(TABLE);
    assert_eq!(once(&plan), ["exp", "div", "sin"]);
    assert_eq!(steps(&plan), ["compute add"]);
    let plan = planned(
        "%0: f32[3] = input \"x\"\n%1: f32[3, 3] = iota {axis=0}\n%2: f32[3] = sum %1 {axes=[0]}\n\
         %3: f32[3, 3] = dot %1, %1 {lhs_contract=[1], rhs_contract=[0]}\n%4: f32[3] = sum %3 {axes=[1]}\n\
         %5: f32[3] = mul %2, %4\n%6: f32[3] = mul %0, %5\noutput \"y\" %6",
    );
    assert_eq!(steps(&plan), ["compute mul"]);
}

/// A relative position is not hoisted, because it is cheaper to compute than to load.
#[test]
fn light_arithmetic_on_positions_stays_where_it_is_used() {
    let mask = "%0: f32[8, 8] = input \"x\"\n%1: i32[8, 8] = iota {axis=0}\n%2: i32[8, 8] = iota {axis=1}\n\
        %3: i32[8, 8] = sub %1, %2\n%4: i32[8, 8] = constant 2\n%5: bool[8, 8] = lt %3, %4\n%6: f32[8, 8] = constant 0.0\n\
        %7: f32[8, 8] = select %5, %0, %6\noutput \"y\" %7";
    let plan = fused(mask);
    assert_eq!((plan.hoisted.len(), plan.launches.len()), (0, 1));
    // The operand of a broadcast must be in memory, so it is written once.
    let plan = fused(
        &mask
            .replace("%0: f32[8, 8]", "%0: f32[5, 8, 8]")
            .replace("%6: f32[8, 8]", "%6: f32[5, 8, 8]")
            .replace(
                "%7: f32[8, 8] = select %5, %0, %6",
                "%8: bool[1, 8, 8] = reshape %5\n%9: bool[5, 8, 8] = broadcast %8\n\
                 %7: f32[5, 8, 8] = select %9, %0, %6",
            ),
    );
    assert_eq!((plan.hoisted.len(), plan.launches.len()), (1, 1));
    assert_eq!(buffer(&plan, 5).role, Role::Hoisted);
}

#[test]
fn what_can_fail_or_change_is_not_hoisted() {
    for (name, lines) in [
        (
            "an index that may be out of range",
            "%1: i32[2] = iota {axis=0}\n%2: f32[2] = iota {axis=0}\n%3: f32[2] = gather %2, %1 {batch=0}",
        ),
        ("a division by what may be zero", "%1: i32[2] = iota {axis=0}\n%3: i32[2] = div %1, %1"),
    ] {
        let plan = planned(&format!("{lines}\noutput \"y\" %3"));
        assert_eq!((plan.hoisted.len(), plan.launches.len()), (0, 1), "{name}");
    }
}

/// A next value that is the same in every step overwrites the current value.
#[test]
fn an_update_with_a_constant_is_in_place() {
    let lines = "%0: f32[4] = state \"s\" {init=0.0}\n%1: f32[4] = iota {axis=0}\n%2: f32[4] = exp %1\n%3: f32[4] = sin %2\n\
        update %0 <- %3 {alias}";
    let plan = planned(lines);
    assert_eq!((once(&plan), steps(&plan)), (vec!["exp"], vec!["commit sin".to_string()]));
    assert_eq!(buffer(&plan, 3).role, Role::Next);
    let error = refused(&format!("{lines}\noutput \"y\" %3"));
    assert!(error.message().contains("must be in place"), "{error}");
}

/// An output that is the same in every step is written once, when the program is loaded.
#[test]
fn an_output_can_be_hoisted() {
    let plan = planned("%0: f32[4] = iota {axis=0}\n%1: f32[4] = exp %0\noutput \"y\" %1");
    assert_eq!((once(&plan), plan.launches.len(), plan.totals.step), (vec!["exp"], 0, 0));
    assert_eq!(plan.outputs[0].1.buffer, ValueId(1));
}

#[test]
fn the_verifier_finds_broken_ones() {
    let broken = |change: fn(&mut Plan), message: &str| {
        let graph = graph(TABLE);
        let mut plan = planned(TABLE);
        verify(&plan).unwrap();
        change(&mut plan);
        let error = verify_commit(&graph, &plan).expect_err(message);
        assert!(error.message().contains(message), "{error}\nexpected: {message}");
    };
    broken(|plan| plan.hoisted.swap(0, 1), "hoisted launch 0 (map) reads %3, but finds None");
    broken(|plan| drop(plan.hoisted.pop()), "launch 0 (map) reads %5, but finds None");
    broken(
        |plan| {
            let table = plan.buffer_of[&ValueId(5)];
            plan.buffers[table].role = Role::Constant;
        },
        "hoisted launch 2 (map) writes the constant %5",
    );
    broken(|plan| plan.hoisted[0].writes[0].buffer = ValueId(0), "hoisted launch 0 (map) uses the Input %0");
    broken(|plan| plan.launches[0].writes[0].buffer = ValueId(5), "launch 0 (map)");
    broken(
        |plan| {
            let (exp, positions) = (plan.buffer_of[&ValueId(3)], plan.buffer_of[&ValueId(1)]);
            plan.buffers[exp].offset = plan.buffers[positions].offset;
            plan.totals.constants += plan.buffers[exp].bytes;
        },
        "hoisted launch 1 (map) reads %1, but finds None",
    );
}

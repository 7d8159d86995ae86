//! Tests of the locations of temporaries: reuse, in-place chains, views, and limits.

use crate::{buffer, graph, plan_within, planned, steps};
use gradloom_core::error::ErrorKind;
use gradloom_core::plan::{ALIGNMENT, Region, Role, report};
use std::fmt::Write;

#[test]
fn a_chain_of_equal_maps_is_one_temporary_and_the_output() {
    let mut text = String::from("%0: f32[64] = input \"x\"\n");
    for i in 1..=100 {
        writeln!(text, "%{i}: f32[64] = sin %{}", i - 1).unwrap();
    }
    let plan = planned(&format!("{text}output \"y\" %100"));
    assert_eq!(plan.launches.len(), 100);
    assert_eq!(plan.totals.step, 256, "the input's own bytes do");
    // A value that is read again later keeps its bytes, but only live values take bytes.
    let plan = planned(&format!("{text}%101: f32[64] = add %100, %0\noutput \"y\" %101"));
    assert_eq!(plan.totals.step, 2 * 256);
}

#[test]
fn a_square_overwrites_its_operand() {
    let plan =
        planned("%0: f32[16] = input \"x\"\n%1: f32[16] = exp %0\n%2: f32[16] = mul %1, %1\noutput \"y\" %2");
    assert_eq!(plan.totals.step, ALIGNMENT);
}

#[test]
fn an_operand_that_is_also_read_in_another_order_is_not_overwritten() {
    let sum = |operand| {
        planned(&format!(
            "%0: f32[4, 4] = input \"x\"\n%1: f32[4, 4] = permute %0 {{perm=[1, 0]}}\n%2: f32[4, 4] = add %0, {operand}\noutput \"y\" %2"
        ))
        .totals
        .step
    };
    assert_eq!((sum("%0"), sum("%1")), (ALIGNMENT, 2 * ALIGNMENT));
}

/// Scatter-add reads indices and updates while it writes, so it may overwrite only the rows.
#[test]
fn an_operand_in_two_roles_is_overwritten_only_if_both_allow_it() {
    let plan =
        planned("%0: i32[4] = input \"x\"\n%1: i32[4] = scatter_add %0, %0, %0 {batch=0}\noutput \"y\" %1");
    assert_eq!(plan.totals.step, 2 * ALIGNMENT);
    let plan = planned(
        "%0: f32[2, 2] = input \"x\"\n%1: i32[] = constant 0\n\
         %2: f32[2, 2] = dynamic_update_slice %0, %0, %1, %1\noutput \"y\" %2",
    );
    assert_eq!(plan.totals.step, 2 * ALIGNMENT);
    let plan = planned(
        "%0: f32[4] = input \"x\"\n%1: i32[4] = input \"i\"\n%2: f32[4] = scatter_add %0, %1, %0 {batch=0}\noutput \"y\" %2",
    );
    assert_eq!(plan.totals.step, 3 * ALIGNMENT);
}

#[test]
fn a_view_keeps_its_source_alive() {
    let plan = planned(
        "%0: f32[4, 4] = input \"x\"\n%1: f32[4, 4] = exp %0\n%2: f32[4] = slice %1 {start=[0, 1], limit=[4, 2], step=[1, 1]}\n\
         %3: f32[4, 4] = sin %0\n%4: f32[4] = sum %3 {axes=[0]}\n%5: f32[4] = add %2, %4\noutput \"y\" %5"
            .replace("%2: f32[4] = slice", "%6: f32[4, 1] = slice")
            .replace("\n%3:", "\n%2: f32[4] = reshape %6\n%3:")
            .as_str(),
    );
    let source = buffer(&plan, 1);
    let last_reader =
        plan.launches.iter().rposition(|l| l.reads.iter().any(|r| r.buffer == source.value)).unwrap();
    assert_eq!((super::name(&plan.launches[last_reader]), source.last), ("add", last_reader));
    assert!(steps(&plan).iter().all(|step| step != "compute copy"), "views cost nothing");
}

#[test]
fn elements_of_other_sizes_do_not_share_bytes_in_place() {
    let bytes = |text| planned(text).totals.step;
    assert_eq!(bytes("%0: f32[16] = input \"x\"\n%1: i32[16] = cast %0\noutput \"y\" %1"), ALIGNMENT);
    assert_eq!(bytes("%0: f32[16] = input \"x\"\n%1: bool[16] = cast %0\noutput \"y\" %1"), 2 * ALIGNMENT);
    assert_eq!(bytes("%0: f32[16] = input \"x\"\n%1: bool[16] = lt %0, %0\noutput \"y\" %1"), 2 * ALIGNMENT);
}

#[test]
fn results_that_nobody_reads_take_bytes_only_while_they_are_written() {
    let plan = planned(
        "%0: f32[1, 1, 4, 4] = input \"x\"\n%1: f32[1, 1, 4, 4], %2: f32[1, 1, 4] = attention %0, %0, %0 {scale=0.5}\n\
         %3: f32[1, 1, 4, 4] = exp %1\noutput \"y\" %3",
    );
    let sums = buffer(&plan, 2);
    assert_eq!((sums.first, sums.last), (0, 0));
}

#[test]
fn launches_that_nothing_needs_are_left_out() {
    let plan = planned("%0: f32[4] = input \"x\"\n%1: f32[4] = exp %0\n%2: f32[4] = sin %0\noutput \"y\" %2");
    assert_eq!(steps(&plan), ["compute sin"]);
    assert!(plan.buffer(gradloom_core::ir::ValueId(1)).is_none());
}

#[test]
fn outputs_may_be_leaves_and_share_bytes_with_other_outputs() {
    let plan = planned(
        "%0: f32[2, 3] = input \"x\"\n%1: f32[] = constant 1.0\n%2: f32[3, 2] = permute %0 {perm=[1, 0]}\n%3: f32[2] = param \"w\"\n\
         output \"x\" %0\noutput \"again\" %0\noutput \"view\" %2\noutput \"constant\" %1\noutput \"w\" %3",
    );
    assert!(plan.launches.is_empty());
    let regions: Vec<_> = plan.outputs.iter().map(|(_, a)| plan.buffer(a.buffer).unwrap().region).collect();
    assert_eq!(regions, [Region::Step, Region::Step, Region::Step, Region::Constants, Region::Store]);
}

#[test]
fn constants_own_as_few_elements_as_say_them() {
    let plan = planned(
        "%0: f32[100, 3] = constant 1.0\n%1: i32[100, 3] = iota {axis=0}\n%2: f32[2] = constant [1.0, 2.0]\n\
         output \"a\" %0\noutput \"b\" %1\noutput \"c\" %2",
    );
    let bytes: Vec<_> = plan.buffers.iter().map(|b| (b.role, b.bytes)).collect();
    assert_eq!(bytes, [(Role::Constant, 4), (Role::Constant, 400), (Role::Constant, 8)]);
    assert_eq!(plan.totals.constants, ALIGNMENT + 512 + ALIGNMENT);
}

const WIDE: &str = "%0: f32[100] = input \"x\"\n%1: f32[100, 1] = reshape %0\n%2: f32[100, 50] = broadcast %1\n\
                    %3: f32[100, 50] = exp %2\n%4: f32[100, 50] = sin %3\n%5: f32[100, 50] = mul %3, %4\n\
                    %6: f32[100] = sum %5 {axes=[1]}\noutput \"y\" %6";

#[test]
fn a_plan_beyond_the_limit_is_refused_with_its_largest_values() {
    let graph = graph(WIDE);
    let plan = plan_within(&graph, None).unwrap();
    let fits = plan_within(&graph, Some(plan.totals.step)).unwrap();
    assert_eq!(fits, plan);
    let error = plan_within(&graph, Some(plan.totals.step - 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    let text = error.to_string();
    assert!(text.contains(&format!("needs {} bytes", plan.totals.step)), "{text}");
    assert!(text.contains("exp f32[100, 50] takes 20.0 kB"), "{text}");
    // The product overwrites the sine, and each range of bytes is reported once.
    assert_eq!(text.matches("takes 20.0 kB").count(), 2, "{text}");
}

#[test]
fn what_no_memory_could_hold_is_an_error_and_no_overflow() {
    let mut text = String::new();
    for i in 0..300 {
        writeln!(text, "%{i}: f32[35184372088831] = input \"x{i}\"").unwrap();
    }
    let error = plan_within(&graph(&text), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.message().contains("more bytes than any memory"), "{error}");
}

#[test]
fn totals_count_the_store_and_the_workspace() {
    let plan = planned(
        "%0: f32[8192, 32] = input \"x\"\n%1: f32[32, 8192] = param \"w\"\n%2: f32[5] = param \"b\"\n\
         %3: f32[32, 32] = dot %1, %0 {lhs_contract=[1], rhs_contract=[0]}\noutput \"y\" %3\noutput \"b\" %2",
    );
    let workspace = plan.launches.iter().map(|l| l.workspace).max().unwrap();
    assert!(workspace > 0, "this product is split");
    assert_eq!(plan.totals.workspace, workspace.next_multiple_of(ALIGNMENT));
    assert_eq!(plan.totals.store, 32 * 8192 * 4 + ALIGNMENT);
    assert_eq!(plan.totals.peak(), plan.totals.store + plan.totals.step + plan.totals.workspace);
}

#[test]
fn bytes_for_people() {
    let text = [0, 999, 1000, 999_949, 999_950, 1_500_000, 999_949_999, 999_950_000, 80_000_000_000];
    assert_eq!(
        text.map(report::human_bytes),
        ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "1.5 MB", "999.9 MB", "1.0 GB", "80.0 GB"]
    );
}

#[test]
fn a_step_that_computes_nothing_takes_nothing_but_its_input() {
    let plan = planned("%0: f32[4] = input \"x\"\noutput \"y\" %0");
    assert_eq!((plan.launches.len(), plan.totals.peak(), plan.totals.step), (0, ALIGNMENT, ALIGNMENT));
    assert_eq!((plan.totals.workspace, plan.totals.constants, plan.totals.store), (0, 0, 0));
}

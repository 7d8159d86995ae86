//! Tests of the operands that a launch may overwrite with its results.

use crate::{fused, planned};
use gradloom_core::kernel::Launch;
use gradloom_core::plan::ALIGNMENT;
use gradloom_core::plan::Plan;

/// Returns the pairs (write, read) that may alias in the launch with this name.
#[track_caller]
fn pairs(plan: &Plan, name: &str) -> Vec<(usize, usize)> {
    let launch: Option<&Launch> = plan.launches.iter().find(|launch| super::name(launch) == name);
    launch.unwrap_or_else(|| panic!("no {name}")).may_alias.clone()
}

#[test]
fn an_op_overwrites_operands_whose_elements_have_the_size_of_its_own() {
    let plan = planned(
        "%0: f32[4] = input \"x\"\n%1: f32[4] = input \"y\"\n%2: bool[4] = lt %0, %1\n\
         %3: f32[4] = select %2, %0, %1\n%4: i32[4] = cast %3\n%5: f32[] = sum %3 {axes=[0]}\n\
         output \"a\" %4\noutput \"b\" %5",
    );
    assert_eq!(pairs(&plan, "lt"), []);
    assert_eq!(pairs(&plan, "select"), [(0, 1), (0, 2)]);
    assert_eq!(pairs(&plan, "cast"), [(0, 0)]);
    assert_eq!(pairs(&plan, "sum"), []);
}

#[test]
fn a_loop_overwrites_what_it_reads_at_the_level_of_its_result() {
    // A value that all positions share is not overwritten, because it is still read after the first result is
    // written.
    let plan = fused(
        "%0: f32[4] = input \"x\"\n%1: f32[] = input \"s\"\n%2: f32[1] = reshape %1\n%3: f32[4] = broadcast %2\n\
         %4: f32[4] = mul %3, %0\noutput \"y\" %4",
    );
    let [launch] = &plan.launches[..] else { panic!("{} launches", plan.launches.len()) };
    let numbers = |read: &usize| launch.reads[*read].layout.shape.elements();
    let overwritten: Vec<_> = launch.may_alias.iter().map(|(_, read)| numbers(read)).collect();
    assert_eq!(overwritten, [4]);
}

#[test]
fn a_loop_over_one_position_overwrites_its_only_element() {
    let plan = fused("%0: f32[] = input \"x\"\n%1: f32[] = exp %0\noutput \"y\" %1");
    assert_eq!(plan.launches[0].may_alias, [(0, 0)]);
    assert_eq!(plan.totals.step, ALIGNMENT, "the result stands where the operand stood");
}

#[test]
fn rows_overwrite_rows_and_columns_nothing() {
    let plan = fused(
        "%0: f32[4, 6] = input \"x\"\n%1: f32[4] = input \"r\"\n%2: f32[4] = sum %0 {axes=[1]}\n%3: f32[4] = add %2, %1\n\
         output \"y\" %3",
    );
    let [launch] = &plan.launches[..] else { panic!("{} launches", plan.launches.len()) };
    let [(0, read)] = launch.may_alias[..] else { panic!("{:?}", launch.may_alias) };
    assert_eq!(launch.reads[read].layout.shape.elements(), 4);
    let plan = fused("%0: f32[4, 6] = input \"x\"\n%1: f32[6] = sum %0 {axes=[0]}\noutput \"y\" %1");
    assert_eq!(plan.launches[0].may_alias, []);
}

#[test]
fn an_epilogue_overwrites_what_has_an_element_for_each_of_the_product() {
    let plan = fused(
        "%0: f32[4, 6] = input \"x\"\n%1: f32[6, 5] = input \"w\"\n%2: f32[4, 5] = input \"residual\"\n\
         %3: f32[1, 5] = input \"bias\"\n%4: f32[4, 5] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}\n\
         %5: f32[4, 5] = broadcast %3\n%6: f32[4, 5] = add %4, %5\n%7: f32[4, 5] = add %6, %2\noutput \"y\" %7",
    );
    let [launch] = &plan.launches[..] else { panic!("{} launches", plan.launches.len()) };
    let overwritten: Vec<_> = launch.may_alias.iter().map(|&(_, read)| launch.reads[read].buffer.0).collect();
    assert!(
        overwritten.contains(&2) && !overwritten.contains(&0) && !overwritten.contains(&1),
        "{overwritten:?}"
    );
}

#[test]
fn an_epilogue_does_not_overwrite_what_a_row_has() {
    // The number of a row is not overwritten, because several blocks of columns read it.
    let plan = fused(
        "%0: f32[4, 6] = input \"x\"\n%1: f32[6, 4] = input \"w\"\n%2: f32[4, 1] = input \"scale\"\n\
         %3: f32[4, 4] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}\n%4: f32[4, 1] = exp %2\n\
         %5: f32[4, 4] = broadcast %4\n%6: f32[4, 4] = mul %3, %5\noutput \"y\" %6",
    );
    let dot = plan.launches.iter().find(|launch| launch.kernel.name() == "dot").unwrap();
    let whole = |&(w, r): &(usize, usize)| {
        dot.reads[r].layout.shape.elements() == 16 && dot.writes[w].layout.shape.elements() == 16
    };
    assert!(dot.may_alias.iter().all(whole), "{:?}", dot.may_alias);
}

//! Tests that the verifier detects each kind of invalid plan.

use crate::{graph, plan_of};
use gradloom_core::ir::{DType, Graph, ValueId};
use gradloom_core::kernel::{Kernel, Launch, Layout, Phase};
use gradloom_core::plan::{Plan, Region, verify, verify_commit};

/// Two temporaries that are live at the same time, an update in place, one by a copy, a window, an output and
/// a guard.
const STEP: &str = "%0: f32[4, 4] = input \"x\"\n%1: f32[4, 4] = param \"w\"\n%2: f32[4, 4] = state \"s\" {init=0.0}\n\
    %3: f32[4] = state \"ring\" {init=0.0}\n%4: i32[] = constant 1\n\
    %5: f32[4, 4] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}\n%6: f32[4, 4] = exp %5\n%7: f32[4, 4] = mul %5, %6\n\
    %8: f32[] = sum %7 {axes=[0, 1]}\n%9: f32[4, 4] = sub %1, %7\n%10: f32[1] = reshape %8\n\
    output \"loss\" %8\nguard \"loss\" %8\nupdate %1 <- %9\nupdate %2 <- %0\nupdate %3[%4] <- %10";

fn step() -> (Graph, Plan) {
    let graph = graph(STEP);
    let plan = plan_of(&graph);
    (graph, plan)
}

/// Applies a change to the plan of [`STEP`], and checks the verifier's error.
#[track_caller]
fn broken(change: impl FnOnce(&mut Plan), message: &str) {
    let (graph, mut plan) = step();
    let launches = plan.launches.len();
    change(&mut plan);
    if plan.launches.len() != launches {
        plan.scratch.resize(plan.launches.len(), 0);
    }
    let error = verify_commit(&graph, &plan).expect_err(message);
    assert!(error.message().contains(message), "{error}\nexpected: {message}");
    assert_eq!(error.kind(), gradloom_core::error::ErrorKind::Verify);
}

fn at(plan: &Plan, kernel: &str) -> usize {
    plan.launches.iter().position(|l| super::name(l) == kernel).unwrap_or_else(|| panic!("no {kernel}"))
}

fn launch<'p>(plan: &'p mut Plan, kernel: &str) -> &'p mut Launch {
    let position = at(plan, kernel);
    &mut plan.launches[position]
}

fn set_offset(plan: &mut Plan, value: u32, offset: u64) {
    let index = plan.buffer_of[&ValueId(value)];
    plan.buffers[index].offset = offset;
}

fn offset(plan: &Plan, value: u32) -> u64 {
    plan.buffer(ValueId(value)).unwrap().offset
}

#[test]
fn the_plan_to_be_broken_is_sound() {
    let (graph, plan) = step();
    let kernels: Vec<_> = plan.launches.iter().map(|l| super::name(l)).collect();
    assert_eq!(
        kernels,
        ["dot", "exp", "mul", "sum", "sub", "copy", "write_region"],
        "{}",
        plan.report(&graph)
    );
    verify(&plan).unwrap();
}

#[test]
fn values_that_live_at_once_in_the_same_bytes() {
    // %6 overwrites %5, which %7 still reads.
    broken(|p| set_offset(p, 6, offset(p, 5)), "launch 2 (map) reads %5, but finds Some(Value(%6))");
    // The product overwrites an operand with a different layout.
    broken(|p| set_offset(p, 5, offset(p, 0)), "launch 0 (dot) writes %5 over its operand %0");
    // The loss overwrites the input, which the commit still reads.
    broken(|p| set_offset(p, 8, offset(p, 0)), "reads %0, but finds");
}

#[test]
fn an_operand_is_overwritten_only_where_the_kernel_says_so() {
    broken(
        |p| {
            launch(p, "mul").may_alias.clear();
            launch(p, "sub").may_alias.clear();
        },
        "over its operand",
    );
    broken(|p| launch(p, "sub").may_alias = vec![(0, 7)], "may alias operands that it does not have");
}

#[test]
fn scratch_has_a_place_within_the_workspace() {
    broken(|p| _ = p.scratch.pop(), "launches of 7 have a place for their scratch");
    broken(|p| p.scratch[2] = 1 << 40, "bytes of workspace, there are");
    broken(|p| p.scratch[2] = 4, "has its scratch at byte 4, which is not aligned");
}

#[test]
fn an_old_value_is_not_read_after_the_new_one_was_written() {
    broken(
        |p| {
            let copy = at(p, "copy");
            p.launches[copy].reads[0] = p.launches[at(p, "dot")].reads[1].clone();
        },
        "reads %1, but finds Some(Value(%9))",
    );
    broken(
        |p| {
            let again = p.launches[at(p, "write_region")].clone();
            let mut copy = p.launches[at(p, "copy")].clone();
            copy.reads[0] = again.writes[0].clone();
            copy.reads[0].layout = Layout::new(0, [4, 4].into(), vec![0, 1]);
            p.launches.push(copy);
            extend_lives(p);
        },
        "reads %3 after its next value was written",
    );
}

#[test]
fn what_nobody_computed_cannot_be_read() {
    broken(|p| remove(p, at(p, "exp")), "reads %6, but finds None");
    broken(
        |p| {
            let (a, b) = (at(p, "exp"), at(p, "mul"));
            p.launches.swap(a, b);
        },
        "outside of its life",
    );
}

#[test]
fn phases() {
    broken(
        |p| launch(p, "sub").phase = Phase::Compute,
        "launch 4 (map) writes what persists before the commit",
    );
    broken(|p| launch(p, "exp").phase = Phase::Commit, "launch 2 (map) computes after the commit has begun");
    broken(
        |p| p.launches.iter_mut().skip(3).for_each(|l| l.phase = Phase::Commit),
        "guard \"loss\" reads %8, but finds",
    );
}

#[test]
fn a_kernel_that_can_trap_in_the_commit() {
    let graph = graph(
        "%0: f32[4] = state \"s\" {init=0.0}\n%1: i32[4] = input \"i\"\n%2: f32[4] = gather %0, %1 {batch=0}\nupdate %0 <- %2",
    );
    let mut plan = plan_of(&graph);
    plan.launches.iter_mut().for_each(|l| l.phase = Phase::Commit);
    verify(&plan).unwrap();
    let error = verify_commit(&graph, &plan).unwrap_err();
    assert_eq!(error.message(), "launch 0 (gather) can trap in the commit");
}

#[test]
fn updates_that_are_missing_or_not_asked_for() {
    broken(|p| remove(p, at(p, "write_region")), "%3 (`ring`) holds Some(Value(%3)) at the end of the step");
    broken(
        |p| {
            let write = launch(p, "write_region").writes[0].clone();
            let mut copy = launch(p, "copy").clone();
            copy.writes[0] = write;
            copy.reads[0].layout.shape = [4].into();
            copy.reads[0].layout.strides = vec![1];
            remove(p, at(p, "copy"));
            p.launches.push(copy);
            extend_lives(p);
        },
        "%2 (`s`) holds Some(Value(%2)) at the end of the step",
    );
    let (mut graph, plan) = step();
    graph.updates.remove(0);
    let error = verify_commit(&graph, &plan).unwrap_err();
    assert_eq!(error.message(), "%1 (`w`) holds Some(Value(%9)) at the end of the step");
}

#[test]
fn leaves_are_not_written() {
    broken(
        |p| {
            let input = p.launches[at(p, "dot")].reads[0].clone();
            launch(p, "exp").writes[0] = input;
        },
        "launch 1 (map) writes the Input %0",
    );
    broken(
        |p| {
            let target = p.launches[at(p, "copy")].writes[0].clone();
            launch(p, "sub").writes[0] = target;
        },
        "launch 4 (map) writes the State %2",
    );
}

#[test]
fn accesses_stay_inside_their_buffers() {
    broken(|p| launch(p, "exp").reads[0].layout.offset = 1, "reaches f32 element 17 of f32[4, 4] %5");
    broken(|p| launch(p, "dot").reads[0].dtype = DType::I32, "reaches i32 element 16");
    broken(|p| launch(p, "exp").reads[0].buffer = ValueId(77), "uses %77, which has no buffer");
    broken(|p| p.outputs[0].1.layout.offset = 1, "output \"loss\" reaches f32 element 2");
    broken(
        |p| launch(p, "dot").writes[0].layout = Layout::new(0, [4, 2].into(), vec![4, 1]),
        "writes %5 with gaps",
    );
    broken(|p| launch(p, "dot").workspace = 64, "launch 0 (dot) needs 64 bytes of workspace, there are 0");
}

#[test]
fn buffers_stay_inside_their_regions() {
    broken(|p| p.totals.step = 4, "of a region of");
    broken(|p| p.totals.constants = 0, "takes 4 bytes at 0 of a region of 0");
    broken(|p| p.totals.store += 64, "parameters and states have");
    broken(|p| set_offset(p, 5, 4), "which is not aligned");
    broken(|p| set_offset(p, 5, u64::MAX - 255), "of a region of");
    let of = |p: &Plan, value: u32| p.buffer_of[&ValueId(value)];
    broken(
        |p| {
            let i = of(p, 5);
            p.buffers[i].region = Region::Store
        },
        "stands in Store",
    );
    broken(
        |p| {
            let i = of(p, 5);
            p.buffers[i].bytes = 4
        },
        "has 4 bytes for f32[4, 4]",
    );
    broken(
        |p| {
            let i = of(p, 5);
            (p.buffers[i].first, p.buffers[i].last) = (2, 1)
        },
        "lives from 2 to 1",
    );
    broken(
        |p| {
            let i = of(p, 8);
            p.buffers[i].last -= 1
        },
        "output \"loss\" reads %8 after its life",
    );
    broken(
        |p| {
            p.buffer_of.insert(ValueId(5), of(p, 6));
        },
        "does not lead to its buffer",
    );
    broken(
        |p| {
            p.buffer_of.insert(ValueId(99), 99);
        },
        "leads to no buffer",
    );
}

#[test]
fn parameters_do_not_share_bytes() {
    broken(|p| set_offset(p, 2, offset(p, 1)), "share bytes from the start");
}

#[test]
fn kernels_have_names() {
    assert_eq!([Kernel::Copy, Kernel::WriteRegion].map(|k| k.name()), ["copy", "write_region"]);
}

fn remove(plan: &mut Plan, launch: usize) {
    plan.launches.remove(launch);
    extend_lives(plan);
}

/// Extends all lifetimes to the whole step, after launches were added or removed.
fn extend_lives(plan: &mut Plan) {
    let end = plan.launches.len();
    plan.buffers.iter_mut().for_each(|b| (b.first, b.last) = (0, end));
}

/// An operand without elements does not conflict with any access, nor hide a conflict.
#[test]
fn an_operand_that_is_overwritten_beside_an_empty_one() {
    let graph = graph(
        "%0: f32[0] = input \"none\"\n%1: f32[16] = input \"a\"\n%2: f32[16] = input \"b\"\n\
         %3: f32[32] = concat %0, %1, %2 {axis=0}\noutput \"y\" %3",
    );
    let placed = |a: u64, none: u64| {
        let mut plan = plan_of(&graph);
        for (value, offset) in [(0, none), (1, a), (2, 256), (3, 0)] {
            set_offset(&mut plan, value, offset);
        }
        plan.totals.step = 576;
        verify(&plan)
    };
    placed(512, 0).unwrap();
    let error = placed(0, 0).unwrap_err();
    assert!(error.message().contains("writes %3 over its operand %1"), "{error}");
}

//! Tests that the verifier detects each kind of invalid fused kernel. Kernels rely on the verifier for valid
//! indices.

use crate::fused;
use gradloom_core::ir::{DType, ReduceOp};
use gradloom_core::kernel::{
    Body, Kernel, Launch, Level, Node, NodeId, NodeKind, Part, ScatterSchedule, Schedule, Store,
};
use gradloom_core::plan::{Plan, verify};

/// Two updates in one group, a sum over rows, and a product with an epilogue.
const STEP: &str = "%0: f32[4, 6] = param \"w\"\n%1: f32[5] = param \"b\"\n%2: f32[4, 6] = input \"dw\"\n\
    %3: f32[5] = input \"db\"\n%4: f32[4, 6] = sub %0, %2\n%5: f32[5] = sub %1, %3\n\
    %6: f32[4, 4] = dot %2, %2 {lhs_contract=[1], rhs_contract=[1]}\n%7: f32[4, 4] = exp %6\n\
    %8: f32[4, 6] = exp %0\n%9: f32[4] = sum %8 {axes=[1]}\n\
    output \"y\" %7\noutput \"rows\" %9\nupdate %0 <- %4\nupdate %1 <- %5";

fn position(plan: &Plan, wanted: impl Fn(&Kernel) -> bool) -> usize {
    plan.launches.iter().position(|launch| wanted(&launch.kernel)).expect("the step has one of each kind")
}

fn group(plan: &mut Plan) -> &mut Launch {
    let at = position(plan, |kernel| matches!(kernel, Kernel::Group(_)));
    &mut plan.launches[at]
}

fn parts(plan: &mut Plan) -> &mut Vec<Part> {
    match &mut group(plan).kernel {
        Kernel::Group(parts) => parts,
        _ => unreachable!("it is a group"),
    }
}

fn product(plan: &mut Plan) -> &mut Launch {
    let at = position(plan, |kernel| matches!(kernel, Kernel::Dot { .. }));
    &mut plan.launches[at]
}

/// Returns the launch of the sum over rows.
fn row_loop(plan: &mut Plan) -> &mut Launch {
    let at = position(plan, |kernel| matches!(kernel, Kernel::Loop(_)));
    &mut plan.launches[at]
}

fn body(launch: &mut Launch) -> &mut Body {
    match &mut launch.kernel {
        Kernel::Loop(body) | Kernel::Dot { epilogue: body, .. } => body,
        _ => unreachable!("it has a body"),
    }
}

/// Applies a change to the plan of [`STEP`], and checks the verifier's error.
#[track_caller]
fn broken(change: impl FnOnce(&mut Plan), message: &str) {
    let mut plan = fused(STEP);
    change(&mut plan);
    let error = verify(&plan).expect_err(message);
    assert!(error.message().contains(message), "{error}\nexpected: {message}");
}

#[test]
fn the_kernels_to_be_broken_are_sound() {
    let mut plan = fused(STEP);
    assert_eq!(parts(&mut plan).len(), 2);
    assert!(product(&mut plan).reads.len() >= 2 && body(row_loop(&mut plan)).stores.len() == 1);
    verify(&plan).unwrap();
}

#[test]
fn loads_of_operands_that_are_not_there_or_have_another_size_or_type() {
    let message = "at a level that it does not have";
    let load = |plan: &mut Plan, change: &dyn Fn(&mut Node)| {
        let nodes = &mut body(row_loop(plan)).nodes;
        change(nodes.iter_mut().find(|node| matches!(node.kind, NodeKind::Load(_))).unwrap());
    };
    broken(|p| load(p, &|node| node.kind = NodeKind::Load(7)), &format!("loads operand 7 {message}"));
    broken(|p| row_loop(p).reads[0].dtype = DType::I32, &format!("loads operand 0 {message}"));
    broken(|p| row_loop(p).reads[0].layout.shape = [4, 5].into(), &format!("loads operand 0 {message}"));
    broken(|p| body(row_loop(p)).rows = 3, &format!("loads operand 0 {message}"));
}

#[test]
fn stores_of_results_that_are_not_there_or_have_another_size_or_type() {
    let message = "at a level that it does not have";
    let store = |write| {
        move |p: &mut Plan| {
            let Store::Value { write: to, .. } = &mut body(row_loop(p)).stores[0] else {
                panic!("a store of rows")
            };
            *to = write;
        }
    };
    broken(store(3), &format!("stores result 3 {message}"));
    broken(|p| row_loop(p).writes[0].dtype = DType::U32, &format!("stores result 0 {message}"));
    broken(|p| row_loop(p).writes[0].layout.shape = [5].into(), &format!("stores result 0 {message}"));
    broken(
        |p| {
            let twice = body(row_loop(p)).stores[0].clone();
            body(row_loop(p)).stores.push(twice);
        },
        &format!("stores result 0 {message}"),
    );
    broken(
        |p| {
            let also = row_loop(p).writes[0].clone();
            row_loop(p).writes.push(also);
        },
        "leaves a result unwritten",
    );
    // A sum over rows has one number per column, not per row.
    broken(
        |p| {
            let body = body(row_loop(p));
            body.stores[0] = Store::ColumnReduce { op: ReduceOp::Sum, node: NodeId(0), write: 0, parts: 1 };
        },
        &format!("stores result 0 {message}"),
    );
}

#[test]
fn expressions_that_are_not_sound() {
    broken(
        |p| {
            let Store::Value { level, .. } = &mut body(row_loop(p)).stores[0] else {
                panic!("a store of rows")
            };
            *level = Level::Uniform;
        },
        "is stored at the wrong level",
    );
}

#[test]
fn a_product_has_two_operands_and_an_epilogue_without_row_reductions() {
    broken(|p| product(p).reads.truncate(1), "is no product with an epilogue");
    broken(
        |p| {
            let kind = NodeKind::Reduce(ReduceOp::Sum, NodeId(0));
            body(product(p)).nodes.push(Node { kind, dtype: DType::F32, level: Level::Row });
        },
        "is no product with an epilogue",
    );
    broken(|p| body(product(p)).columns = 3, "at a level that it does not have");
}

#[test]
fn a_kernel_has_the_scratch_that_its_schedule_takes() {
    let sorted = ScatterSchedule { batches: 1, width: 8, chunks: 1, lanes: 1, ahead: 1 };
    broken(
        |p| row_loop(p).schedule = Schedule::Scatter(sorted),
        "has 0 bytes of scratch, its schedule takes",
    );
    broken(
        |p| parts(p)[1].schedule = Schedule::Scatter(sorted),
        "has 0 bytes of scratch, its schedule takes",
    );
}

#[test]
fn parts_of_a_group_share_nothing_and_leave_nothing() {
    let share = "has parts that share operands, results or scratch";
    broken(|p| parts(p)[1].reads = 0..2, share);
    broken(|p| parts(p)[1].writes = 0..1, share);
    broken(|p| parts(p)[1].workspace = 0..64, share);
    broken(
        |p| {
            p.totals.workspace = 128;
            group(p).workspace = 128;
            (parts(p)[0].workspace, parts(p)[1].workspace) = (0..64, 0..64);
        },
        share,
    );
    broken(|p| parts(p)[1].reads = 2..9, "has parts with operands that it does not have");
    broken(|p| parts(p)[1].writes = 1..9, "has parts with operands that it does not have");
    broken(
        |p| {
            let also = group(p).reads[0].clone();
            group(p).reads.push(also);
        },
        "has operands that no part uses",
    );
    broken(
        |p| {
            let also = group(p).writes[0].clone();
            group(p).writes.push(also);
        },
        "has operands that no part uses",
    );
    // The verifier checks every part.
    broken(
        |p| {
            let Kernel::Loop(body) = &mut parts(p)[1].kernel else { panic!("an update is a loop") };
            body.stores.clear();
        },
        "leaves a result unwritten",
    );
}

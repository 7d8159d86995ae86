//! Tests values that are computed once, when a program is loaded, and used in every step.

use crate::{bits, devices, graph, values};
use gradloom_core::passes;
use gradloom_core::reference::evaluate;
use gradloom_runtime::Program;
use gradloom_testing::Leaves;

/// A sinusoidal table added to a batch, a mask of relative positions applied to scores, and an update with a
/// sum of the table's rows.
const STEP: &str = "%0: f32[3, 80, 64] = input \"x\"\n%1: f32[64] = param \"w\"\n\
    %2: f32[80, 64] = iota {axis=0}\n%3: f32[80, 64] = iota {axis=1}\n%4: f32[80, 64] = constant -0.1\n\
    %5: f32[80, 64] = mul %3, %4\n%6: f32[80, 64] = exp %5\n%7: f32[80, 64] = mul %2, %6\n\
    %8: f32[80, 64] = sin %7\n\
    %9: f32[1, 80, 64] = reshape %8\n%10: f32[3, 80, 64] = broadcast %9\n%11: f32[3, 80, 64] = add %0, %10\n\
    %12: f32[3, 80, 80] = dot %11, %11 {lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[2]}\n\
    %13: i32[80, 80] = iota {axis=0}\n%14: i32[80, 80] = iota {axis=1}\n%15: i32[80, 80] = sub %13, %14\n\
    %16: i32[80, 80] = constant 5\n%17: bool[80, 80] = lt %15, %16\n%18: bool[1, 80, 80] = reshape %17\n\
    %19: bool[3, 80, 80] = broadcast %18\n%20: f32[3, 80, 80] = constant -3.0\n\
    %21: f32[3, 80, 80] = select %19, %12, %20\n\
    %22: f32[64] = sum %8 {axes=[0]}\n%23: f32[64] = mul %1, %22\n\
    output \"scores\" %21\noutput \"table\" %8\nupdate %1 <- %23";

#[test]
fn tables_and_masks_are_right_in_every_step() {
    let graph = passes::run(graph(STEP)).0;
    let mut leaves = Leaves::random(1);
    let mut programs = devices()
        .map(|device| Program::standalone(graph.clone(), &device, &|kind| leaves.value(kind)).unwrap());
    let plan = programs[0].plan();
    let names =
        |list: &[gradloom_core::kernel::Launch]| list.iter().map(|l| l.kernel.name()).collect::<Vec<_>>();
    // Expect the table, its sums over positions, and the mask, which no kernel can compute inline because it
    // is broadcast.
    assert!((2..=3).contains(&plan.hoisted.len()), "{}", plan.report(&graph));
    // Expect the addition, the products with the mask applied in their epilogue or in a later kernel, and the
    // update.
    assert!((3..=4).contains(&plan.launches.len()), "{:?}\n{}", names(&plan.launches), plan.report(&graph));
    let totals = plan.totals;
    assert_eq!(programs[0].allocated(), totals.step + totals.constants + totals.workspace);
    for step in 0..3 {
        let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
        let [one, two] = programs.each_mut().map(|p| p.evaluate(&|kind| leaves.value(kind)).unwrap());
        assert_eq!(bits(&one), bits(&two), "step {step}");
        for ((name, got), (_, want)) in values(&one).zip(values(&want)) {
            for (got, want) in got.to_f64().into_iter().zip(want.to_f64()) {
                assert!(
                    (got - want).abs() <= 2e-5 * want.abs().max(10.0),
                    "step {step}, {name}: {got}, not {want}"
                );
            }
        }
        leaves.advance(&one);
    }
}

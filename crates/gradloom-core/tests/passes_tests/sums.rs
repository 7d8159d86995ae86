//! Sums of cotangents of split tensors and gathered tables.

use crate::{becomes, count, stays};
use gradloom_core::grad;
use gradloom_core::ir::{Builder, DType, Graph, OpKind, Output, ReduceOp, Type, ValueId};
use gradloom_core::passes::{run, simplify::simplify, sums::sums};

const PARTS: &str = "%0: f32[2, 1] = input \"q\"
    %1: f32[2, 2] = input \"k\"
    %2: f32[2, 3] = input \"v\"
    %3: f32[2, 6] = pad %0 {low=[0, 0], high=[0, 5], interior=[0, 0], value=0.0}
    %4: f32[2, 6] = pad %1 {low=[0, 1], high=[0, 3], interior=[0, 0], value=0.0}
    %5: f32[2, 6] = pad %2 {low=[0, 3], high=[0, 0], interior=[0, 0], value=0.0}
    %6: f32[2, 6] = input \"other\"";

#[test]
fn pads_that_fill_an_axis_are_joined_in_their_order() {
    for sum in [
        "%7: f32[2, 6] = add %5, %3\n%8: f32[2, 6] = add %7, %4",
        "%7: f32[2, 6] = add %4, %5\n%8: f32[2, 6] = add %3, %7",
    ] {
        becomes(
            sums,
            &format!("{PARTS}\n{sum}\noutput \"y\" %8"),
            "%0: f32[2, 1] = input \"q\"
             %1: f32[2, 2] = input \"k\"
             %2: f32[2, 3] = input \"v\"
             %3: f32[2, 6] = input \"other\"
             %4: f32[2, 6] = concat %0, %1, %2 {axis=1}
             output \"y\" %4",
        );
    }
}

#[test]
fn one_other_summand_may_be_among_them() {
    becomes(
        sums,
        &format!(
            "{PARTS}
             %7: f32[2, 6] = add %3, %6
             %8: f32[2, 6] = add %7, %4
             %9: f32[2, 6] = add %8, %5
             output \"y\" %9"
        ),
        "%0: f32[2, 1] = input \"q\"
         %1: f32[2, 2] = input \"k\"
         %2: f32[2, 3] = input \"v\"
         %3: f32[2, 6] = input \"other\"
         %4: f32[2, 6] = concat %0, %1, %2 {axis=1}
         %5: f32[2, 6] = add %3, %4
         output \"y\" %5",
    );
}

#[test]
fn pads_that_overlap_or_leave_a_gap_or_are_not_zero_stay() {
    let overlap = "%7: f32[2, 6] = pad %1 {low=[0, 0], high=[0, 4], interior=[0, 0], value=0.0}
        %8: f32[2, 6] = add %3, %7\n%9: f32[2, 6] = add %8, %5";
    stays(sums, &format!("{PARTS}\n{overlap}\noutput \"y\" %9"));
    stays(sums, &format!("{PARTS}\n%7: f32[2, 6] = add %3, %5\noutput \"y\" %7"));
    let ones = "%7: f32[2, 6] = pad %0 {low=[0, 0], high=[0, 5], interior=[0, 0], value=1.0}
        %8: f32[2, 6] = add %7, %4\n%9: f32[2, 6] = add %8, %5";
    stays(sums, &format!("{PARTS}\n{ones}\noutput \"y\" %9"));
}

#[test]
fn several_others_are_added_first_and_parts_may_come_twice() {
    becomes(
        sums,
        &format!(
            "{PARTS}
             %7: f32[2, 6] = add %3, %6
             %8: f32[2, 6] = exp %6
             %9: f32[2, 6] = add %7, %8
             %10: f32[2, 6] = add %9, %4
             %11: f32[2, 6] = add %5, %5
             %12: f32[2, 6] = add %10, %11
             %13: f32[2, 6] = add %12, %3
             %14: f32[2, 6] = add %4, %13
             output \"y\" %14"
        ),
        "%0: f32[2, 1] = input \"q\"
         %1: f32[2, 2] = input \"k\"
         %2: f32[2, 3] = input \"v\"
         %3: f32[2, 6] = input \"other\"
         %4: f32[2, 6] = exp %3
         %5: f32[2, 6] = concat %0, %1, %2 {axis=1}
         %6: f32[2, 6] = concat %0, %1, %2 {axis=1}
         %7: f32[2, 6] = add %3, %4
         %8: f32[2, 6] = add %7, %5
         %9: f32[2, 6] = add %8, %6
         output \"y\" %9",
    );
}

const PRODUCTS: &str = "%0: f32[2, 20] = input \"h0\"
    %1: f32[2, 30] = input \"g1\"
    %2: f32[3, 20] = input \"h1\"
    %3: f32[3, 30] = input \"g2\"
    %4: f32[20, 30] = input \"other\"
    %5: f32[20, 30] = dot %2, %3 {lhs_contract=[0], rhs_contract=[0]}
    %6: f32[20, 30] = dot %0, %1 {lhs_contract=[0], rhs_contract=[0]}";

/// Checks the gradient of a weight that each step of a loop uses; the term of the last step comes first.
#[test]
fn products_are_joined_in_the_order_of_the_steps() {
    for sum in ["add %5, %6\n%8: f32[20, 30] = add %4, %7", "add %4, %5\n%8: f32[20, 30] = add %7, %6"] {
        becomes(
            sums,
            &format!("{PRODUCTS}\n%7: f32[20, 30] = {sum}\noutput \"y\" %8"),
            "%0: f32[2, 20] = input \"h0\"
             %1: f32[2, 30] = input \"g1\"
             %2: f32[3, 20] = input \"h1\"
             %3: f32[3, 30] = input \"g2\"
             %4: f32[20, 30] = input \"other\"
             %5: f32[5, 20] = concat %0, %2 {axis=0}
             %6: f32[5, 30] = concat %1, %3 {axis=0}
             %7: f32[20, 30] = dot %5, %6 {lhs_contract=[0], rhs_contract=[0]}
             %8: f32[20, 30] = add %4, %7
             output \"y\" %8",
        );
    }
}

#[test]
fn products_that_are_needed_or_unlike_or_small_stay() {
    let add = "%7: f32[20, 30] = add %5, %6\noutput \"y\" %7";
    stays(sums, &format!("{PRODUCTS}\n{add}\noutput \"z\" %5"));
    // The operands have 25 elements in total, and each result has only 6, so joining would move more
    // elements.
    let narrow = PRODUCTS.replace("30]", "2]").replace("20", "3");
    stays(sums, &format!("{narrow}\n{}", add.replace("[20, 30]", "[3, 2]")));
    // Products with a common factor are not joined, as adding the other factors is better.
    let twice = PRODUCTS.replace("dot %0, %1", "dot %2, %3");
    stays(sums, &format!("{twice}\n{add}"));
    let across =
        PRODUCTS.replace("f32[3, 20]", "f32[20, 3]").replace("{lhs_contract=[0]", "{lhs_contract=[1]");
    let across = across.replacen(
        "%6: f32[20, 30] = dot %0, %1 {lhs_contract=[1]",
        "%6: f32[20, 30] = dot %0, %1 {lhs_contract=[0]",
        1,
    );
    stays(sums, &format!("{across}\n{add}"));
}

#[test]
fn updates_are_added_to_what_they_would_meet() {
    let lines = "%0: f32[5, 2] = input \"x\"
        %1: i32[3] = input \"index\"
        %2: f32[3, 2] = input \"u\"
        %3: f32[5, 2] = constant 0.0
        %4: f32[5, 2] = scatter_add %3, %1, %2 {batch=0}";
    for sum in ["add %4, %0", "add %0, %4"] {
        becomes(
            simplify,
            &format!("{lines}\n%5: f32[5, 2] = {sum}\noutput \"y\" %5"),
            "%0: f32[5, 2] = input \"x\"
             %1: i32[3] = input \"index\"
             %2: f32[3, 2] = input \"u\"
             %3: f32[5, 2] = scatter_add %0, %1, %2 {batch=0}
             output \"y\" %3",
        );
    }
    // The scatter does not add to zeros here, so merging the additions would reassociate them.
    let ones = lines.replace("constant 0.0", "constant 1.0");
    stays(simplify, &format!("{ones}\n%5: f32[5, 2] = add %4, %0\noutput \"y\" %5"));
    // The scatter is also an output, so adding twice would be more work.
    stays(simplify, &format!("{lines}\n%5: f32[5, 2] = add %4, %0\noutput \"y\" %5\noutput \"z\" %4"));
}

/// Checks the gradient of a projection that is split into queries, keys and values.
#[test]
fn the_gradient_of_a_split_is_one_concatenation() {
    let mut graph = Graph::new();
    let mut b = Builder::new(&mut graph, None);
    let ty = Type::new(DType::F32, [2, 12]);
    let qkv = b.op(OpKind::Param { name: "qkv".into(), ty }, &[]);
    let part = |b: &mut Builder<'_>, i: usize| -> ValueId {
        let (start, limit) = (vec![0, 4 * i], vec![2, 4 * i + 4]);
        b.op(OpKind::Slice { start, limit, step: vec![1, 1] }, &[qkv])
    };
    let [q, k, v] = [0, 1, 2].map(|i| part(&mut b, i));
    let qk = b.mul(q, k);
    let product = b.mul(qk, v);
    let loss = b.reduce(ReduceOp::Sum, product, &[0, 1]);
    let gradient = grad::append(&mut graph, loss, None, &[qkv]).unwrap()[0].unwrap();
    graph.outputs.push(Output { name: "dqkv".into(), value: gradient });
    assert_eq!((count(&graph, "pad"), count(&graph, "concat")), (3, 0));
    let (graph, _) = run(graph);
    assert_eq!((count(&graph, "pad"), count(&graph, "concat"), count(&graph, "add")), (0, 1, 0), "{graph}");
}

#[test]
fn a_sum_as_long_as_the_program_needs_no_stack() {
    let mut lines = String::from("graph {\n%0: f32[2] = input \"x\"\n%1: f32[2] = exp %0\n");
    let count = 20_000;
    for i in 2..count {
        lines += &format!("%{i}: f32[2] = add %{}, %0\n", i - 1);
    }
    lines += &format!("output \"y\" %{}\n}}", count - 1);
    let graph = gradloom_core::ir::parse(&lines).unwrap();
    let run = move || sums(&simplify(&graph)).entry_ops().count();
    let small = std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap();
    assert_eq!(small.join().unwrap(), count);
}

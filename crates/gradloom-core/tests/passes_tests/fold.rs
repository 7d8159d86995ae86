//! Constant folding.

use crate::{becomes, count, graph, stays};
use gradloom_core::ir::{Graph, Literal, Number, OpKind};
use gradloom_core::passes::fold::{MAX_ELEMENTS, fold};

#[test]
fn numbers_are_computed_at_any_size() {
    becomes(
        fold,
        "%0: f32[512, 512] = constant 0.5
         %1: f32[512, 512] = constant 4.0
         %2: f32[512, 512] = mul %0, %1
         %3: bool[512, 512] = lt %2, %1
         %4: f32[512, 512] = select %3, %2, %1
         %5: f32[512, 1, 512] = reshape %4
         %6: f32[512, 3, 512] = broadcast %5
         %7: f32[512, 512] = reduce_max %6 {axes=[1]}
         %8: f32[600, 512] = pad %7 {low=[8, 0], high=[80, 0], interior=[0, 0], value=2.0}
         %9: f32[600, 1024] = concat %8, %8 {axis=1}
         output \"y\" %9",
        "%0: f32[600, 1024] = constant 2.0
         output \"y\" %0",
    );
}

#[test]
fn small_tables_are_computed_and_not_rounded() {
    becomes(
        fold,
        "%0: f32[2, 2] = constant [1.0, 2.0, 3.0, 4.0]
         %1: f32[2, 2] = permute %0 {perm=[1, 0]}
         %2: f32[4] = reshape %1
         %3: f32[2] = slice %2 {start=[1], limit=[3], step=[1]}
         %4: f32[2] = sqrt %3
         %5: f32[] = sum %4 {axes=[0]}
         output \"a\" %3
         output \"b\" %4
         output \"c\" %5",
        &format!(
            "%0: f32[2] = constant [3.0, 2.0]
             %1: f32[2] = constant [{:?}, {:?}]
             %2: f32[] = constant {:?}
             output \"a\" %0
             output \"b\" %1
             output \"c\" %2",
            3f64.sqrt(),
            2f64.sqrt(),
            3f64.sqrt() + 2f64.sqrt(),
        ),
    );
}

#[test]
fn what_overflows_float32_is_left_to_the_device() {
    // The product would be 0 in f64, but is NaN in f32.
    let text = "%0: f32[] = constant 200.0
         %1: f32[] = exp %0
         %2: f32[] = constant 0.0
         %3: f32[] = mul %1, %2
         output \"y\" %3";
    becomes(fold, text, text);
}

#[test]
fn nothing_large_comes_into_being() {
    // Broadcasting copies a small table, and is folded only if the result has at most `MAX_ELEMENTS`
    // elements.
    let n = MAX_ELEMENTS / 8;
    let row: Vec<String> = (0..n).map(|i| format!("{i}.0")).collect();
    let rows = |m: usize| {
        graph(&format!(
            "%0: f32[1, {n}] = constant [{}]\n%1: f32[{m}, {n}] = broadcast %0\noutput \"y\" %1",
            row.join(", ")
        ))
    };
    assert_eq!(count(&fold(&rows(8)), "broadcast"), 0);
    assert_eq!(count(&fold(&rows(9)), "broadcast"), 1);
}

#[test]
fn what_traps_or_is_random_or_depends_on_a_leaf_stays() {
    stays(
        fold,
        "%0: f32[3] = constant [1.0, 2.0, 3.0]
         %1: i32[] = constant 3
         %2: f32[] = gather %0, %1 {batch=0}
         %3: i32[2] = constant 1
         %4: i32[2] = constant [1, 0]
         %5: i32[2] = div %3, %4
         %6: u32[] = constant 1
         %7: u32[4] = random_bits %6, %6, %6 {site=0}
         %8: f32[3] = input \"x\"
         %9: f32[3] = mul %0, %8
         output \"a\" %2
         output \"b\" %5
         output \"c\" %7
         output \"d\" %9",
    );
}

#[test]
fn products_are_left_to_the_device() {
    stays(
        fold,
        "%0: f32[2] = constant [1.0, 2.0]
         %1: f32[] = dot %0, %0 {lhs_contract=[0], rhs_contract=[0]}
         output \"a\" %1",
    );
}

/// Checks that lookups in constants are folded: an op that may trap is otherwise computed in every step, not
/// once when a program is loaded.
#[test]
fn lookups_of_constants_are_folded() {
    let folded = fold(&graph(
        "%0: f32[3] = constant [1.0, 2.0, 4.0]
         %1: i32[] = constant 2
         %2: f32[] = gather %0, %1 {batch=0}
         %3: f32[1] = dynamic_slice %0, %1
         %4: f32[1] = reshape %2
         %5: f32[3] = dynamic_update_slice %0, %4, %1
         output \"a\" %2
         output \"b\" %3
         output \"c\" %5",
    ));
    for op in ["gather", "dynamic_slice", "dynamic_update_slice"] {
        assert_eq!(count(&folded, op), 0, "{op}");
    }
}

#[test]
fn integers_wrap_and_nan_stays_nan() {
    let folded = fold(&graph(
        "%0: i32[] = constant 2147483647
         %1: i32[] = constant 1
         %2: i32[] = add %0, %1
         %3: f32[] = constant -1.0
         %4: f32[] = log %3
         output \"a\" %2
         output \"b\" %4",
    ));
    let number = |name: &str| constant_of(&folded, name);
    assert_eq!(number("a"), Number::Int(-2147483648));
    assert!(number("b").as_f64().is_nan());
}

fn constant_of(graph: &Graph, output: &str) -> Number {
    match &graph.defining_op(graph.output(output).unwrap()).unwrap().kind {
        OpKind::Constant { data: Literal::Splat(number), .. } => *number,
        kind => panic!("{kind:?} is no number"),
    }
}

#[test]
fn reductions_of_nothing_have_their_neutral_element() {
    becomes(
        fold,
        "%0: f32[0, 2] = constant 0.0
         %1: f32[2] = reduce_max %0 {axes=[0]}
         %2: f32[2] = prod %0 {axes=[0]}
         output \"a\" %1
         output \"b\" %2",
        "%0: f32[2] = constant -inf
         %1: f32[2] = constant 1.0
         output \"a\" %0
         output \"b\" %1",
    );
}

#[test]
fn tables_of_one_number_are_numbers() {
    becomes(
        fold,
        "%0: f32[3] = constant [2.0, 2.0, 2.0]
         %1: f32[2] = constant [0.0, -0.0]
         %2: i32[0] = constant []
         output \"a\" %0
         output \"b\" %1
         output \"c\" %2",
        "%0: f32[3] = constant 2.0
         %1: f32[2] = constant [0.0, -0.0]
         %2: i32[0] = constant 0
         output \"a\" %0
         output \"b\" %1
         output \"c\" %2",
    );
}

#[test]
fn the_extreme_of_nothing_is_not_the_number_that_is_not_there() {
    for axes in ["[0]", "[0, 1]"] {
        let text = format!(
            "%0: f32[0, 3] = constant 2.0
             %1: {} = reduce_max %0 {{axes={axes}}}
             output \"y\" %1",
            if axes == "[0]" { "f32[3]" } else { "f32[]" }
        );
        let before = graph(&text);
        crate::assert_alike(&before, &fold(&before), &crate::Leaf::new(0), 0.0);
    }
}

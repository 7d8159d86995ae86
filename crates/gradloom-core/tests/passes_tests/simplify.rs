//! Algebraic simplification: ops that are removed, and similar ones that must remain.

use crate::{becomes, count, graph, stays};
use gradloom_core::passes::simplify::simplify;

/// Checks that an elementwise expression of `x` (`%0`) and a constant (`%1`) becomes `x` itself.
#[track_caller]
fn is_x(constant: &str, op: &str) {
    let before = format!(
        "%0: f32[4] = input \"x\"\n%1: f32[4] = constant {constant}\n%2: f32[4] = {op}\noutput \"y\" %2"
    );
    becomes(simplify, &before, "%0: f32[4] = input \"x\"\noutput \"y\" %0");
}

/// Checks that an elementwise expression of `x` (`%0`) and a constant (`%1`) is unchanged.
#[track_caller]
fn stays_with(constant: &str, op: &str) {
    stays(
        simplify,
        &format!(
            "%0: f32[4] = input \"x\"\n%1: f32[4] = constant {constant}\n%2: f32[4] = {op}\noutput \"y\" %2"
        ),
    );
}

/// Checks the simplified form of a graph.
#[track_caller]
fn chain(before: &str, after: &str) {
    becomes(simplify, before, after);
}

#[test]
fn neutral_operands_go() {
    is_x("1.0", "mul %0, %1");
    is_x("1.0", "mul %1, %0");
    is_x("1.0", "div %0, %1");
    is_x("1.0", "pow %0, %1");
    is_x("-0.0", "add %0, %1");
    is_x("-0.0", "add %1, %0");
    is_x("0.0", "sub %0, %1");
    is_x("0.0", "max %0, %0");
    is_x("0.0", "min %0, %0");
    is_x("0.0", "detach %0");
}

#[test]
fn signs_stay_where_integers_wrap() {
    // -(i32::MIN) is i32::MIN, so the quotient of the negated numbers has another sign.
    stays(
        simplify,
        "%0: i32[4] = input \"x\"
         %1: i32[4] = input \"y\"
         %2: i32[4] = neg %0
         %3: i32[4] = neg %1
         %4: i32[4] = div %2, %3
         output \"z\" %4",
    );
}

#[test]
fn what_is_not_exact_stays() {
    stays_with("0.0", "mul %0, %1"); // NaN and infinity times 0 is NaN
    stays_with("0.0", "add %0, %1"); // -0 + 0 is 0
    stays_with("-0.0", "sub %0, %1"); // -0 - -0 is 0
    stays_with("0.0", "sub %1, %0"); // 0 - 0 is 0, but -0 is not
    stays_with("1.0", "div %1, %0");
    stays_with("1.0", "pow %1, %0");
    stays_with("3.0", "div %0, %1"); // 1/3 is rounded
    stays_with("0.5", "pow %0, %1"); // sqrt(-0) is -0, and -inf is not a square
}

#[test]
fn integers_have_one_zero() {
    chain(
        "%0: i32[4] = input \"x\"
         %1: i32[4] = constant 0
         %2: i32[4] = constant 1
         %3: i32[4] = add %0, %1
         %4: i32[4] = mul %2, %3
         %5: i32[4] = shl %4, %1
         output \"y\" %5",
        "%0: i32[4] = input \"x\"
         output \"y\" %0",
    );
}

#[test]
fn conditions_that_are_known_choose() {
    chain(
        "%0: f32[4] = input \"x\"
         %1: f32[4] = input \"z\"
         %2: bool[4] = constant true
         %3: f32[4] = select %2, %0, %1
         %4: bool[4] = constant false
         %5: f32[4] = select %4, %0, %1
         %6: bool[4] = input \"c\"
         %7: f32[4] = select %6, %5, %5
         output \"a\" %3
         output \"b\" %5
         output \"c\" %7",
        "%0: f32[4] = input \"x\"
         %1: f32[4] = input \"z\"
         %2: bool[4] = input \"c\"
         output \"a\" %0
         output \"b\" %1
         output \"c\" %1",
    );
}

#[test]
fn a_negated_condition_swaps_the_branches() {
    chain(
        "%0: bool[4] = input \"c\"
         %1: f32[4] = input \"x\"
         %2: f32[4] = input \"z\"
         %3: bool[4] = not %0
         %4: f32[4] = select %3, %1, %2
         output \"y\" %4",
        "%0: bool[4] = input \"c\"
         %1: f32[4] = input \"x\"
         %2: f32[4] = input \"z\"
         %3: f32[4] = select %0, %2, %1
         output \"y\" %3",
    );
}

#[test]
fn logic_with_a_known_side_is_known() {
    chain(
        "%0: bool[2] = input \"c\"
         %1: bool[2] = constant true
         %2: bool[2] = constant false
         %3: bool[2] = and %0, %1
         %4: bool[2] = or %2, %0
         %5: bool[2] = and %0, %2
         %6: bool[2] = or %1, %0
         %7: bool[2] = xor %0, %2
         %8: bool[2] = not %7
         %9: bool[2] = not %8
         output \"a\" %3
         output \"b\" %4
         output \"c\" %5
         output \"d\" %6
         output \"e\" %9",
        "%0: bool[2] = input \"c\"
         %1: bool[2] = constant true
         %2: bool[2] = constant false
         output \"a\" %0
         output \"b\" %0
         output \"c\" %2
         output \"d\" %1
         output \"e\" %0",
    );
}

#[test]
fn signs_cancel() {
    chain(
        "%0: f32[4] = input \"x\"
         %1: f32[4] = input \"z\"
         %2: f32[4] = neg %0
         %3: f32[4] = neg %1
         %4: f32[4] = neg %2
         %5: f32[4] = add %0, %3
         %6: f32[4] = add %2, %1
         %7: f32[4] = sub %0, %3
         %8: f32[4] = mul %2, %3
         %9: f32[4] = div %2, %3
         %10: f32[4] = abs %2
         output \"a\" %4
         output \"b\" %5
         output \"c\" %6
         output \"d\" %7
         output \"e\" %8
         output \"f\" %9
         output \"g\" %10",
        "%0: f32[4] = input \"x\"
         %1: f32[4] = input \"z\"
         %2: f32[4] = sub %0, %1
         %3: f32[4] = sub %1, %0
         %4: f32[4] = add %0, %1
         %5: f32[4] = mul %0, %1
         %6: f32[4] = div %0, %1
         %7: f32[4] = abs %0
         output \"a\" %0
         output \"b\" %2
         output \"c\" %3
         output \"d\" %4
         output \"e\" %5
         output \"f\" %6
         output \"g\" %7",
    );
}

#[test]
fn divisions_by_powers_of_two_and_small_powers_become_products() {
    chain(
        "%0: f32[4] = input \"x\"
         %1: f32[4] = constant 8.0
         %2: f32[4] = constant 2.0
         %3: f32[4] = constant 0.0
         %4: f32[4] = constant -1.0
         %5: f32[4] = div %0, %1
         %6: f32[4] = pow %0, %2
         %7: f32[4] = pow %0, %3
         %8: f32[4] = mul %4, %0
         output \"a\" %5
         output \"b\" %6
         output \"c\" %7
         output \"d\" %8",
        "%0: f32[4] = input \"x\"
         %1: f32[4] = constant 0.125
         %2: f32[4] = mul %0, %1
         %3: f32[4] = mul %0, %0
         %4: f32[4] = constant 1.0
         %5: f32[4] = neg %0
         output \"a\" %2
         output \"b\" %3
         output \"c\" %4
         output \"d\" %5",
    );
    for divisor in [0.25, 0.5, -2.0, 4.0, 1024.0] {
        chain(
            &format!(
                "%0: f32[4] = input \"x\"\n%1: f32[4] = constant {divisor:?}\n%2: f32[4] = div %0, %1\n\
                 output \"y\" %2"
            ),
            &format!(
                "%0: f32[4] = input \"x\"\n%1: f32[4] = constant {:?}\n%2: f32[4] = mul %0, %1\n\
                 output \"y\" %2",
                1.0 / divisor
            ),
        );
    }
    stays_with("3.0", "div %0, %1");
    // The reciprocals of these divisors are not normal numbers in f32, so the divisions remain.
    stays_with("1.7014118346046923e38", "div %0, %1");
    stays_with("5.877471754111438e-39", "div %0, %1");
}

#[test]
fn views_of_views_are_one_view() {
    chain(
        "%0: f32[2, 3, 4] = input \"x\"
         %1: f32[6, 4] = reshape %0
         %2: f32[24] = reshape %1
         %3: f32[3, 2, 4] = permute %0 {perm=[1, 0, 2]}
         %4: f32[4, 3, 2] = permute %3 {perm=[2, 0, 1]}
         %5: f32[2, 3, 4] = permute %4 {perm=[2, 1, 0]}
         %6: f32[2, 3, 4] = reshape %5
         %7: f32[2, 3, 4] = broadcast %6
         %8: f32[2, 3, 4] = cast %7
         output \"a\" %2
         output \"b\" %4
         output \"c\" %8",
        "%0: f32[2, 3, 4] = input \"x\"
         %1: f32[24] = reshape %0
         %2: f32[4, 3, 2] = permute %0 {perm=[2, 1, 0]}
         output \"a\" %1
         output \"b\" %2
         output \"c\" %0",
    );
}

#[test]
fn moving_axes_of_one_element_is_a_reshape() {
    chain(
        "%0: f32[1, 3, 1, 4] = input \"x\"
         %1: f32[3, 1, 4, 1] = permute %0 {perm=[1, 2, 3, 0]}
         %2: f32[3, 4] = reshape %1
         %3: f32[4, 3, 1, 1] = permute %0 {perm=[3, 1, 0, 2]}
         output \"a\" %2
         output \"b\" %3",
        "%0: f32[1, 3, 1, 4] = input \"x\"
         %1: f32[3, 4] = reshape %0
         %2: f32[4, 3, 1, 1] = permute %0 {perm=[3, 1, 0, 2]}
         output \"a\" %1
         output \"b\" %2",
    );
}

#[test]
fn repeated_broadcasts_are_one() {
    chain(
        "%0: f32[1, 1, 4] = input \"x\"
         %1: f32[1, 3, 4] = broadcast %0
         %2: f32[2, 3, 4] = broadcast %1
         output \"y\" %2",
        "%0: f32[1, 1, 4] = input \"x\"
         %1: f32[2, 3, 4] = broadcast %0
         output \"y\" %1",
    );
}

#[test]
fn slices_compose() {
    // The second and fourth of elements 1, 3, 5 and 7 of x.
    chain(
        "%0: f32[10] = input \"x\"
         %1: f32[4] = slice %0 {start=[1], limit=[9], step=[2]}
         %2: f32[2] = slice %1 {start=[1], limit=[4], step=[2]}
         %3: f32[0] = slice %1 {start=[4], limit=[4], step=[1]}
         %4: f32[4] = slice %1 {start=[0], limit=[4], step=[1]}
         output \"a\" %2
         output \"b\" %3
         output \"c\" %4",
        "%0: f32[10] = input \"x\"
         %1: f32[4] = slice %0 {start=[1], limit=[9], step=[2]}
         %2: f32[2] = slice %0 {start=[3], limit=[8], step=[4]}
         %3: f32[0] = slice %0 {start=[1], limit=[1], step=[2]}
         output \"a\" %2
         output \"b\" %3
         output \"c\" %1",
    );
}

#[test]
fn a_slice_of_joined_tensors_is_a_slice_of_one() {
    chain(
        "%0: f32[2, 3] = input \"x\"
         %1: f32[2, 4] = input \"z\"
         %2: f32[2, 7] = concat %0, %1 {axis=1}
         %3: f32[2, 3] = slice %2 {start=[0, 0], limit=[2, 3], step=[1, 1]}
         %4: f32[1, 2] = slice %2 {start=[1, 4], limit=[2, 7], step=[1, 2]}
         %5: f32[2, 2] = slice %2 {start=[0, 2], limit=[2, 4], step=[1, 1]}
         output \"a\" %3
         output \"b\" %4
         output \"c\" %5",
        "%0: f32[2, 3] = input \"x\"
         %1: f32[2, 4] = input \"z\"
         %2: f32[2, 7] = concat %0, %1 {axis=1}
         %3: f32[1, 2] = slice %1 {start=[1, 1], limit=[2, 4], step=[1, 2]}
         %4: f32[2, 2] = slice %2 {start=[0, 2], limit=[2, 4], step=[1, 1]}
         output \"a\" %0
         output \"b\" %3
         output \"c\" %4",
    );
}

#[test]
fn joining_drops_what_is_empty_and_flattens() {
    chain(
        "%0: f32[2] = input \"x\"
         %1: f32[0] = input \"none\"
         %2: f32[3] = input \"z\"
         %3: f32[5] = concat %0, %1, %2 {axis=0}
         %4: f32[7] = concat %3, %0 {axis=0}
         %5: f32[2] = concat %1, %0 {axis=0}
         %6: f32[0] = concat %1, %1 {axis=0}
         output \"a\" %4
         output \"b\" %5
         output \"c\" %6",
        "%0: f32[2] = input \"x\"
         %1: f32[0] = input \"none\"
         %2: f32[3] = input \"z\"
         %3: f32[7] = concat %0, %2, %0 {axis=0}
         output \"a\" %3
         output \"b\" %0
         output \"c\" %1",
    );
}

#[test]
fn what_was_split_and_joined_again_is_the_whole() {
    let parts = "%0: f32[2, 6] = input \"x\"
         %1: f32[2, 4] = slice %0 {start=[0, 0], limit=[2, 4], step=[1, 1]}
         %2: f32[2, 2] = slice %0 {start=[0, 4], limit=[2, 6], step=[1, 1]}";
    chain(
        &format!("{parts}\n%3: f32[2, 6] = concat %1, %2 {{axis=1}}\noutput \"y\" %3"),
        "%0: f32[2, 6] = input \"x\"\noutput \"y\" %0",
    );
    stays(simplify, &format!("{parts}\n%3: f32[2, 6] = concat %2, %1 {{axis=1}}\noutput \"y\" %3"));
}

#[test]
fn reductions_of_one_element_only_drop_axes() {
    chain(
        "%0: f32[1, 4, 1] = input \"x\"
         %1: f32[4] = sum %0 {axes=[0, 2]}
         %2: f32[4] = reduce_max %1 {axes=[]}
         %3: f32[1, 1] = sum %0 {axes=[1]}
         output \"a\" %2
         output \"b\" %3",
        "%0: f32[1, 4, 1] = input \"x\"
         %1: f32[4] = reshape %0
         %2: f32[1, 1] = sum %0 {axes=[1]}
         output \"a\" %1
         output \"b\" %2",
    );
}

#[test]
fn padding_by_nothing_goes() {
    chain(
        "%0: f32[3, 1] = input \"x\"
         %1: f32[3, 1] = pad %0 {low=[0, 0], high=[0, 0], interior=[0, 2], value=1.0}
         %2: f32[5, 1] = pad %1 {low=[0, 0], high=[0, 0], interior=[1, 0], value=1.0}
         output \"y\" %2",
        "%0: f32[3, 1] = input \"x\"
         %1: f32[5, 1] = pad %0 {low=[0, 0], high=[0, 0], interior=[1, 0], value=1.0}
         output \"y\" %1",
    );
}

#[test]
fn ops_inside_blocks_are_simplified_too() {
    let before = graph(
        "%0: f32[2] = input \"x\"
         ^1(%1: f32[2]) {
           %2: f32[2] = neg %1
           %3: f32[2] = neg %2
           %4: f32[2] = exp %3
           -> %4
         }
         %5: f32[2] = checkpoint ^1 %0
         output \"y\" %5",
    );
    let after = gradloom_core::passes::dce::dce(&simplify(&before));
    assert_eq!((count(&after, "checkpoint"), after.ops.len()), (1, 3));
}

#[test]
fn rewritten_ops_keep_the_origin_of_what_they_replace() {
    becomes(
        simplify,
        "@0 = \"model.rs\":3:5
         @1 = \"model.rs\":4:5
         %0: f32[2] = input \"x\"
         %1: f32[2] = neg %0 @0
         %2: f32[2] = add %0, %1 @1
         output \"y\" %2",
        "@0 = \"model.rs\":4:5
         %0: f32[2] = input \"x\"
         %1: f32[2] = sub %0, %0 @0
         output \"y\" %1",
    );
}

#[test]
fn the_transpose_of_a_product_is_the_product_the_other_way_round() {
    let product = "%0: f32[2, 3, 4] = input \"a\"
        %1: f32[2, 4, 5] = input \"b\"
        %2: f32[2, 3, 5] = dot %0, %1 {lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[1]}
        %3: f32[2, 5, 3] = permute %2 {perm=[0, 2, 1]}";
    becomes(
        simplify,
        &format!("{product}\noutput \"y\" %3"),
        "%0: f32[2, 3, 4] = input \"a\"
         %1: f32[2, 4, 5] = input \"b\"
         %2: f32[2, 5, 3] = dot %1, %0 {lhs_batch=[0], rhs_batch=[0], lhs_contract=[1], rhs_contract=[2]}
         output \"y\" %2",
    );
    stays(simplify, &format!("{product}\noutput \"x\" %2\noutput \"y\" %3"));
    stays(
        simplify,
        "%0: f32[2, 3, 4] = input \"a\"
         %1: f32[2, 4, 5] = input \"b\"
         %2: f32[2, 3, 5] = dot %0, %1 {lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[1]}
         %3: f32[5, 3, 2] = permute %2 {perm=[2, 1, 0]}
         output \"y\" %3",
    );
}

#[test]
fn a_barrier_reads_one_value_and_waits_for_the_other() {
    let product = "%0: f32[3, 4] = input \"a\"
        %1: f32[4, 5] = input \"b\"
        %2: f32[3, 5] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}
        %3: f32[5, 3] = permute %2 {perm=[1, 0]}";
    // The product itself is read, so its transpose is a view of it.
    stays(simplify, &format!("{product}\n%4: f32[3, 5] = barrier %2, %0\noutput \"x\" %4\noutput \"y\" %3"));
    // Only the completion of the product is required: the transpose is computed instead, and the barrier no
    // longer waits for the product.
    let waited =
        graph(&format!("{product}\n%4: f32[3, 4] = barrier %0, %2\noutput \"x\" %4\noutput \"y\" %3"));
    let after = simplify(&waited);
    assert_eq!((count(&after, "permute"), count(&after, "dot")), (0, 2), "{after}");
}

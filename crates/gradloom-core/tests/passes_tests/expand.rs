//! Inlining of blocks, which keeps existing handles valid, and splitting of 64-bit numbers into words.

use crate::meaning::{Leaf, assert_alike};
use crate::{becomes, graph};
use gradloom_core::grad::expand_blocks;
use gradloom_core::ir::{DType, Graph, OpKind};
use gradloom_core::passes;
use gradloom_core::verify::verify;

fn expanded(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    expand_blocks(&mut graph);
    graph
}

#[test]
fn a_loop_becomes_its_turns() {
    becomes(
        expanded,
        "%0: f32[] = input \"s\"
         %1: f32[2, 3] = input \"x\"
         ^1(%2: f32[], %3: f32[3]) {
           %4: f32[] = sum %3 {axes=[0]}
           %5: f32[] = add %2, %4
           -> %5, %3
         }
         %6: f32[], %7: f32[2, 3] = repeat ^1 %0, %1 {trip=2, carried=1}
         output \"s\" %6
         output \"stack\" %7",
        "%0: f32[] = input \"s\"
         %1: f32[2, 3] = input \"x\"
         %2: f32[1, 3] = slice %1 {start=[0, 0], limit=[1, 3], step=[1, 1]}
         %3: f32[3] = reshape %2
         %4: f32[] = sum %3 {axes=[0]}
         %5: f32[] = add %0, %4
         %6: f32[1, 3] = slice %1 {start=[1, 0], limit=[2, 3], step=[1, 1]}
         %7: f32[3] = reshape %6
         %8: f32[] = sum %7 {axes=[0]}
         %9: f32[] = add %5, %8
         %10: f32[1, 3] = reshape %3
         %11: f32[1, 3] = reshape %7
         %12: f32[2, 3] = concat %10, %11 {axis=0}
         output \"s\" %9
         output \"stack\" %12",
    );
}

#[test]
fn a_loop_without_a_turn_gives_what_it_got_and_empty_stacks() {
    becomes(
        expanded,
        "%0: f32[] = input \"s\"
         %1: f32[0, 3] = input \"x\"
         ^1(%2: f32[], %3: f32[3]) {
           %4: f32[] = exp %2
           -> %4, %3
         }
         %5: f32[], %6: f32[0, 3] = repeat ^1 %0, %1 {trip=0, carried=1}
         output \"s\" %5
         output \"stack\" %6",
        "%0: f32[] = input \"s\"
         %1: f32[0, 3] = input \"x\"
         %2: f32[0, 3] = constant 0.0
         %3: f32[] = reshape %0
         output \"s\" %3
         output \"stack\" %2",
    );
}

/// Nested blocks: a result that the block itself also reads, a parameter that is returned unchanged, and one
/// value that is returned twice.
const SHARED: &str = "%0: f32[2] = input \"x\"
     ^1(%1: f32[2]) {
       %2: f32[2] = exp %1
       -> %2
     }
     ^2(%3: f32[2]) {
       %4: f32[2] = checkpoint ^1 %3
       %5: f32[2] = neg %4
       -> %4, %3, %5, %5
     }
     %6: f32[2], %7: f32[2], %8: f32[2], %9: f32[2] = checkpoint ^2 %0
     %10: f32[2] = add %6, %9
     output \"a\" %6
     output \"b\" %7
     output \"c\" %8
     output \"d\" %9
     output \"e\" %10";

#[test]
fn every_value_from_before_keeps_its_id_and_meaning() {
    let before = graph(SHARED);
    let after = expanded(&before);
    verify(&after).unwrap_or_else(|error| panic!("{error}\n{after}"));
    assert!(after.entry_ops().all(|(_, op)| op.kind.block().is_none()), "{after}");
    assert_eq!(before.outputs, after.outputs, "the same ids");
    for (id, value) in before.values.iter() {
        assert_eq!(value.ty, *after.ty(id));
    }
    assert_alike(&before, &after, &Leaf::new(1), 0.0);
    // The unchanged parameter and the doubled result add one reshape each; nothing else is added.
    let names: Vec<_> = after.entry_ops().map(|(_, op)| op.kind.name()).collect();
    assert_eq!(names, ["input", "exp", "neg", "reshape", "reshape", "add"]);
}

#[test]
fn all_definitions_agree_after_expansion() {
    use gradloom_core::ir::Definition;
    let after = expanded(&graph(SHARED));
    for (_, op) in after.ops.iter() {
        for (i, &result) in op.results.iter().enumerate() {
            let Definition::Result(by, index) = after.values[result].definition else { panic!("{result}") };
            assert_eq!((&after.ops[by], index), (op, i));
        }
    }
}

#[test]
fn expansion_twice_changes_nothing() {
    let once = expanded(&graph(SHARED));
    assert_eq!(expanded(&once).to_string(), once.to_string());
}

#[test]
fn casts_of_i64_are_those_of_its_words() {
    let words = |graph: &Graph| passes::run(graph.clone()).0;
    becomes(
        words,
        "%0: i64[3] = input \"x\"
         %1: i32[3] = cast %0
         %2: u32[3] = input \"y\"
         %3: i64[3] = cast %2
         output \"narrow\" %1
         output \"wide\" %3",
        "%0: i64[3] = input \"x\"
         %1: i32[3, 2] = words %0
         %2: i32[3, 1] = slice %1 {start=[0, 0], limit=[3, 1], step=[1, 1]}
         %3: i32[3, 1] = slice %1 {start=[0, 1], limit=[3, 2], step=[1, 1]}
         %4: i32[3] = reshape %2
         %5: i32[3] = reshape %3
         %6: i32[3] = constant 31
         %7: i32[3] = shr %4, %6
         %8: i32[3] = xor %5, %7
         %9: i32[3] = gather %2, %8 {batch=1}
         %10: u32[3] = input \"y\"
         %11: i32[3] = cast %10
         %12: i32[3, 1] = reshape %11
         %13: i32[3, 1] = constant 0
         %14: i32[3, 2] = concat %12, %13 {axis=1}
         %15: i64[3] = words %14
         output \"narrow\" %9
         output \"wide\" %15",
    );
}

#[test]
fn what_is_left_of_i64_are_leaves_and_views() {
    let before = graph(
        "%0: i64[4, 3] = input \"x\"
         %1: i64[4, 3] = state \"s\" {init=-5}
         %2: i64[4, 3] = constant 4294967297
         %3: bool[4, 3] = constant true
         %4: i64[4, 3] = select %3, %2, %0
         %5: i64[3, 4] = permute %4 {perm=[1, 0]}
         %6: i64[6, 4] = pad %5 {low=[1, 0], high=[2, 0], interior=[0, 0], value=-2}
         %7: i32[] = constant 1
         %8: i64[1, 3] = slice %0 {start=[3, 0], limit=[4, 3], step=[1, 1]}
         output \"y\" %6
         update %1[%7, %7] <- %8",
    );
    let (after, _) = passes::run(before);
    verify(&after).unwrap();
    for (_, op) in after.ops.iter() {
        let has_i64 = op.operands.iter().chain(&op.results).any(|&v| after.ty(v).dtype == DType::I64);
        let stays = op.kind.is_external_leaf() || op.kind == OpKind::Words;
        assert!(!has_i64 || stays, "{}\n{after}", op.kind.name());
    }
    assert!(after.updates.iter().all(|update| update.region.is_none()));
}

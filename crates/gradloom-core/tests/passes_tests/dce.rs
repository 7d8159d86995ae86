//! Dead code elimination.

use crate::{becomes, graph, inputs};
use gradloom_core::passes::dce::dce;

#[test]
fn what_outputs_updates_and_guards_need_stays() {
    becomes(
        dce,
        "%0: f32[4] = input \"x\"
         %1: f32[4] = param \"w\"
         %2: f32[8] = state \"cache\" {init=0.0}
         %3: f32[4] = param \"idle\"
         %4: i32[] = input \"at\"
         %5: f32[4] = mul %0, %1
         %6: f32[4] = exp %5
         %7: f32[4] = sin %5
         %8: f32[] = sum %5 {axes=[0]}
         %9: f32[4] = log %3
         %10: i32[] = add %4, %4
         output \"y\" %5
         update %1 <- %6
         update %2[%10] <- %5
         guard \"loss\" %8",
        "%0: f32[4] = input \"x\"
         %1: f32[4] = param \"w\"
         %2: f32[8] = state \"cache\" {init=0.0}
         %3: i32[] = input \"at\"
         %4: f32[4] = mul %0, %1
         %5: f32[4] = exp %4
         %6: f32[] = sum %4 {axes=[0]}
         %7: i32[] = add %3, %3
         output \"y\" %4
         update %1 <- %5
         update %2[%7] <- %4
         guard \"loss\" %6",
    );
}

#[test]
fn inputs_are_the_signature_and_stay() {
    let graph = dce(&graph("%0: f32[4] = input \"x\"\n%1: i32[2] = input \"y\"\n%2: f32[4] = exp %0"));
    assert_eq!((inputs(&graph), graph.ops.len()), (vec!["x".to_string(), "y".to_string()], 2));
}

#[test]
fn dead_ops_inside_blocks_go_and_ids_are_compact() {
    let graph = dce(&graph(
        "%0: f32[2] = input \"x\"
         ^1(%1: f32[2]) {
           %2: f32[2] = exp %1
           %3: f32[2] = sin %1
           -> %2
         }
         %4: f32[2] = checkpoint ^1 %0
         output \"y\" %4",
    ));
    assert_eq!((graph.ops.len(), graph.values.len(), graph.blocks.len()), (3, 4, 2));
}

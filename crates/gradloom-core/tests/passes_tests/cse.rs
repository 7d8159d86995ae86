//! Common subexpression elimination.

use crate::{becomes, count, graph, stays};
use gradloom_core::ir::{Builder, DType, Graph, OpKind, Output};
use gradloom_core::passes::cse::cse;

#[test]
fn equal_ops_are_one_and_operands_of_commutative_ops_have_no_order() {
    becomes(
        cse,
        "%0: f32[2] = input \"x\"
         %1: f32[2] = input \"z\"
         %2: f32[2] = add %0, %1
         %3: f32[2] = add %1, %0
         %4: f32[2] = sub %2, %1
         %5: f32[2] = sub %3, %1
         %6: f32[2] = sub %1, %3
         %7: bool[2] = lt %0, %1
         %8: bool[2] = gt %1, %0
         %9: bool[2] = ge %0, %1
         output \"a\" %4
         output \"b\" %5
         output \"c\" %6
         output \"d\" %7
         output \"e\" %8
         output \"f\" %9",
        "%0: f32[2] = input \"x\"
         %1: f32[2] = input \"z\"
         %2: f32[2] = add %0, %1
         %3: f32[2] = sub %2, %1
         %4: f32[2] = sub %1, %2
         %5: bool[2] = lt %0, %1
         %6: bool[2] = ge %0, %1
         output \"a\" %3
         output \"b\" %3
         output \"c\" %4
         output \"d\" %5
         output \"e\" %5
         output \"f\" %6",
    );
}

#[test]
fn constants_are_equal_by_their_bits() {
    becomes(
        cse,
        "%0: f32[2] = constant 0.0
         %1: f32[2] = constant -0.0
         %2: f32[2] = constant 0.0
         %3: f32[1] = constant 0.0
         output \"a\" %0
         output \"b\" %1
         output \"c\" %2
         output \"d\" %3",
        "%0: f32[2] = constant 0.0
         %1: f32[2] = constant -0.0
         %2: f32[1] = constant 0.0
         output \"a\" %0
         output \"b\" %1
         output \"c\" %0
         output \"d\" %2",
    );
}

#[test]
fn random_bits_of_different_sites_stay_apart() {
    let bits = |first: u32, second: u32| {
        graph(&format!(
            "%0: u32[] = scalar \"lo\"
             %1: u32[] = scalar \"hi\"
             %2: u32[] = scalar \"step\"
             %3: u32[4] = random_bits %0, %1, %2 {{site={first}}}
             %4: u32[4] = random_bits %0, %1, %2 {{site={second}}}
             output \"a\" %3
             output \"b\" %4"
        ))
    };
    assert_eq!(count(&cse(&bits(1, 2)), "random_bits"), 2);
    assert_eq!(count(&cse(&bits(1, 1)), "random_bits"), 1);
}

#[test]
fn scalars_of_one_name_are_one() {
    let mut graph = Graph::new();
    let mut b = Builder::new(&mut graph, None);
    let kind = OpKind::Scalar { name: "lr".into(), dtype: DType::F32 };
    let (first, second) = (b.op(kind.clone(), &[]), b.op(kind, &[]));
    let sum = b.add(first, second);
    graph.outputs.push(Output { name: "y".into(), value: sum });
    assert_eq!(count(&cse(&graph), "scalar"), 1);
}

#[test]
fn values_of_different_blocks_stay_apart() {
    stays(
        cse,
        "%0: f32[2] = input \"x\"
         %1: f32[2] = exp %0
         ^1(%2: f32[2]) {
           %3: f32[2] = constant 1.0
           %4: f32[2] = add %2, %3
           -> %4
         }
         ^2(%5: f32[2]) {
           %6: f32[2] = constant 1.0
           %7: f32[2] = add %5, %6
           -> %7
         }
         %8: f32[2] = checkpoint ^1 %1
         %9: f32[2] = checkpoint ^2 %1
         output \"a\" %8
         output \"b\" %9",
    );
}

//! Values of leaves, given and initial.

use crate::{assert_same, run};
use gradloom_core::error::ErrorKind;
use gradloom_core::ir::{DType, Type, parse};
use gradloom_core::reference::{HostData, HostTensor, evaluate, evaluate_values};

#[test]
fn a_state_that_is_not_given_starts_as_its_initial_value() {
    let lines = "%0: f32[2] = state \"s\" {init=-1.5}\noutput \"y\" %0";
    assert_same(run(lines, &[]).unwrap().output("y").unwrap().to_f64(), &[-1.5, -1.5]);
    assert_same(run(lines, &[("s", &[1.0, 2.0])]).unwrap().output("y").unwrap().to_f64(), &[1.0, 2.0]);
}

#[test]
fn other_leaves_must_be_given() {
    for leaf in ["%0: f32[2] = input \"x\"", "%0: f32[2] = param \"x\"", "%0: f32[] = scalar \"x\""] {
        let error = run(leaf, &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Feed);
        let kind = leaf.split(' ').nth(3).unwrap();
        assert_eq!(error.message(), format!("the {kind} \"x\" has no value"));
    }
}

#[test]
fn values_must_have_the_type_of_the_leaf() {
    let graph = parse("graph { %0: u32[2] = input \"x\" }").unwrap();
    let give = |ty: Type, data: HostData| {
        let tensor = HostTensor { ty, data };
        evaluate(&graph, &|_| Some(tensor.clone())).map_err(|error| error.message().to_string())
    };
    let ty = || Type::new(DType::U32, [2]);
    assert!(give(ty(), HostData::Int(vec![0, 4_294_967_295])).is_ok());
    assert_eq!(
        give(Type::new(DType::I32, [2]), HostData::Int(vec![0, 1])).unwrap_err(),
        "the input \"x\" is u32[2], but its value is i32[2]"
    );
    assert_eq!(
        give(ty(), HostData::Int(vec![0])).unwrap_err(),
        "the input \"x\": a tensor of type u32[2] has 1 elements"
    );
    assert_eq!(
        give(ty(), HostData::Int(vec![0, -1])).unwrap_err(),
        "the input \"x\": a tensor of type u32[2] has the element -1"
    );
    assert_eq!(
        give(ty(), HostData::Float(vec![0.0, 1.0])).unwrap_err(),
        "the input \"x\": a tensor of type u32[2] has the element 0.0"
    );
}

#[test]
fn a_broken_graph_is_refused() {
    let error = run("%0: f32[] = input \"x\"\n%1: f32[] = input \"x\"", &[("x", &[1.0])]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Verify);
    assert_eq!(error.message(), "two inputs are named \"x\"");
}

#[test]
fn every_value_of_the_entry_block_can_be_had() {
    let graph = parse(
        "graph { %0: f32[2] = constant [1.0, 2.0] ^1(%1: f32[2]) { %2: f32[2] = neg %1 -> %2 } %3: f32[2] = \
         checkpoint ^1 %0 }",
    )
    .unwrap();
    let values = evaluate_values(&graph, &|_| None).unwrap();
    let entry: Vec<_> = graph.entry_ops().map(|(_, op)| op.results[0]).collect();
    assert_same(values[entry[0]].to_f64(), &[1.0, 2.0]);
    assert_same(values.get(entry[1]).unwrap().to_f64(), &[-1.0, -2.0]);
    let (inner, _) = graph.values.iter().nth(1).unwrap();
    assert!(values.get(inner).is_none());
}

//! Tests of the layout of the store.

use crate::{graph, plan_within};
use gradloom_codegen::pipeline::Target;
use gradloom_core::error::ErrorKind;
use gradloom_core::fuse::{Fusion, fuse};
use gradloom_core::plan::{self, ALIGNMENT, StoreLayout};

const MODEL: &str = "%0: f32[3] = param \"w\"\n%1: f32[0] = param \"none\"\n%2: u32[] = state \"n\" {init=7}";

#[test]
fn entries_are_aligned_and_stay_while_the_store_grows() {
    let mut store = StoreLayout::default();
    store.extend(&graph(MODEL)).unwrap();
    let before = store.entries().to_vec();
    assert_eq!(
        before.iter().map(|e| (e.name.as_str(), e.offset)).collect::<Vec<_>>(),
        [("w", 0), ("none", ALIGNMENT), ("n", ALIGNMENT)]
    );
    assert_eq!(store.bytes(), 2 * ALIGNMENT);
    store.extend(&graph("%0: f32[100] = param \"more\"\n%1: f32[3] = param \"w\"")).unwrap();
    assert_eq!(store.entries()[..3], before);
    assert_eq!(store.get("more").unwrap().offset, 2 * ALIGNMENT);
    assert!(store.entries().iter().all(|e| e.offset % ALIGNMENT == 0));
}

#[test]
fn what_is_known_does_not_hide_what_is_new() {
    let mut store = StoreLayout::default();
    store.extend(&graph(MODEL)).unwrap();
    store
        .extend(&graph("%0: f32[3] = param \"w\"\n%1: f32[2] = input \"x\"\n%2: f32[5] = param \"new\""))
        .unwrap();
    let names: Vec<_> = store.entries().iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["w", "none", "n", "new"]);
}

#[test]
fn a_graph_that_disagrees_adds_nothing() {
    let mut store = StoreLayout::default();
    store.extend(&graph(MODEL)).unwrap();
    let before = store.clone();
    let disagree = [
        (
            "%0: f32[9] = param \"new\"\n%1: f32[4] = param \"w\"",
            "the store holds `w` as f32[3] (a parameter), the program wants f32[4] (a parameter)",
        ),
        (
            "%0: f32[9] = param \"new\"\n%1: u32[] = state \"n\" {init=8}",
            "the store holds `n` as u32[] (a state that starts as 7), the program wants u32[] (a state that starts as 8)",
        ),
        (
            "%0: f32[9] = param \"new\"\n%1: f32[3] = state \"w\" {init=0.0}",
            "the store holds `w` as f32[3] (a parameter), the program wants f32[3] (a state that starts as 0)",
        ),
    ];
    for (text, message) in disagree {
        assert_eq!(store.extend(&graph(text)).unwrap_err(), message);
        assert_eq!(store, before);
    }
    let huge: String = (0..300).map(|i| format!("%{i}: f32[35184372088831] = param \"w{i}\"\n")).collect();
    assert!(store.extend(&graph(&huge)).unwrap_err().contains("more bytes than any memory"));
    assert_eq!(store, before);
}

#[test]
fn a_plan_wants_its_parameters_in_the_store() {
    let graph = graph(MODEL);
    assert!(plan_within(&graph, None).is_ok());
    let lowered = Target::cpu(1).lower(&graph, fuse(&graph, Fusion::On).unwrap());
    let error = plan::plan(&graph, lowered, &StoreLayout::default(), None).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Store, "the store has no `w` of type f32[3]"));
}

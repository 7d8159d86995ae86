//! Programs on a GPU, or a software one, against the float64 reference.

mod random;

use gradloom_core::ir::{Graph, parse};
use gradloom_core::reference::{Evaluation, HostTensor};
use gradloom_runtime::Device;

/// The device under test: an adapter whose name contains `GRADLOOM_ADAPTER`, or any.
fn device() -> Device {
    let name = std::env::var("GRADLOOM_ADAPTER").unwrap_or_default();
    Device::wgpu_named(&name).unwrap_or_else(|error| panic!("{error}"))
}

/// A graph from the lines of its text form.
#[track_caller]
#[allow(dead_code)]
fn graph(lines: &str) -> Graph {
    parse(&format!("graph {{\n{lines}\n}}")).unwrap_or_else(|error| panic!("{error:?}\n{lines}"))
}

/// How many random graphs a test takes; `GRADLOOM_RANDOM_GRAPHS` asks for more.
fn random_graphs() -> u64 {
    std::env::var("GRADLOOM_RANDOM_GRAPHS").ok().and_then(|n| n.parse().ok()).unwrap_or(150)
}

/// All that a step gave, with names, for comparing and for messages.
fn values(evaluation: &Evaluation) -> impl Iterator<Item = (String, &HostTensor)> {
    let named = |what: &'static str, list: &'_ [(String, HostTensor)]| -> Vec<(String, usize)> {
        list.iter().enumerate().map(|(i, (name, _))| (format!("{what} {name}"), i)).collect()
    };
    let all = [("output", &evaluation.outputs), ("guard", &evaluation.guards), ("next", &evaluation.next)];
    all.into_iter()
        .flat_map(move |(what, list)| named(what, list).into_iter().map(move |(name, i)| (name, &list[i].1)))
}

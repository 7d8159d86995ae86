//! Lists the results of a step.

use gradloom_core::reference::{Evaluation, HostTensor};

/// Returns all results of a step with names, for comparisons and messages.
pub fn values(evaluation: &Evaluation) -> impl Iterator<Item = (String, &HostTensor)> {
    let named = |what: &'static str, list: &'_ [(String, HostTensor)]| -> Vec<(String, usize)> {
        list.iter().enumerate().map(|(i, (name, _))| (format!("{what} {name}"), i)).collect()
    };
    let all = [("output", &evaluation.outputs), ("guard", &evaluation.guards), ("next", &evaluation.next)];
    all.into_iter()
        .flat_map(move |(what, list)| named(what, list).into_iter().map(move |(name, i)| (name, &list[i].1)))
}

//! The order of launches: compute launches, then the commit.
//!
//! Everything that outputs, guards and traps depend on is computed before the commit, so that no state has
//! been written when a failure occurs. Launches that only updates need run in the commit, where they can
//! write in place.

use crate::collections::{IdMap, sort_by_key};
use crate::ir::{Graph, ValueId};
use crate::kernel::{Launch, Lowered, Phase};

/// Returns the needed launches with their phases. Compute launches precede commit launches; otherwise the
/// order is unchanged.
pub(super) fn order(graph: &Graph, lowered: &mut Lowered) -> Vec<Launch> {
    let launches = std::mem::take(&mut lowered.launches);
    let producer: IdMap<ValueId, usize> =
        launches.iter().enumerate().flat_map(|(i, l)| l.writes.iter().map(move |w| (w.buffer, i))).collect();
    let buffer = |value: &ValueId| lowered.access[value].buffer;
    let mut phases: Vec<Option<Phase>> = vec![None; launches.len()];
    let mut mark = |phase: Phase, roots: &mut dyn Iterator<Item = usize>| {
        let mut stack: Vec<usize> = roots.collect();
        while let Some(i) = stack.pop() {
            if phases[i].is_some() {
                continue;
            }
            phases[i] = Some(phase);
            stack.extend(launches[i].reads.iter().filter_map(|r| producer.get(&r.buffer)));
        }
    };

    let updated = graph.updates.iter().map(|u| u.value);
    let needed = |values: &mut dyn Iterator<Item = ValueId>| -> Vec<usize> {
        values.filter_map(|v| producer.get(&buffer(&v)).copied()).collect()
    };
    let read = needed(&mut graph.outputs.iter().map(|o| o.value).chain(graph.guards.iter().map(|g| g.value)));
    // The starts of regions are checked, and therefore computed, before the commit.
    let starts = needed(&mut graph.updates.iter().flat_map(|u| u.region.iter().flatten().copied()));
    let updates = needed(&mut updated.into_iter());
    let trapping = reachable(&launches, &producer, &updates)
        .into_iter()
        .filter(|&i| launches[i].kernel.can_trap(graph, launches[i].op))
        .collect::<Vec<_>>();
    mark(Phase::Compute, &mut read.into_iter().chain(starts).chain(trapping));
    mark(Phase::Commit, &mut updates.into_iter());

    let mut ordered: Vec<Launch> = launches
        .into_iter()
        .zip(phases)
        .filter_map(|(launch, phase)| phase.map(|phase| Launch { phase, ..launch }))
        .collect();
    sort_by_key(&mut ordered, |launch| launch.phase);
    ordered
}

/// Returns the given launches and all launches on which they depend.
fn reachable(launches: &[Launch], producer: &IdMap<ValueId, usize>, roots: &[usize]) -> Vec<usize> {
    let mut seen = vec![false; launches.len()];
    let mut stack = roots.to_vec();
    while let Some(i) = stack.pop() {
        if !std::mem::replace(&mut seen[i], true) {
            stack.extend(launches[i].reads.iter().filter_map(|r| producer.get(&r.buffer)));
        }
    }
    (0..launches.len()).filter(|&i| seen[i]).collect()
}

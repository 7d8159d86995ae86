//! The rules for merging ops into kernels, from the most to the least certain benefit.
//!
//! 1. Chains and trees of maps become one map.
//! 2. A matrix product takes the map that is its only user as an epilogue, so its result never reaches
//!    memory.
//! 3. Maps and reductions along rows become one row kernel: softmax, normalizations, losses and their
//!    gradients. Sums over rows join the kernel that computes their operand.
//! 4. Independent kernels that read the same values become one, so that the values are read once.
//!
//! With [`Fusion::SumsApart`], sums over rows are merged with products last.
//!
//! Distant clusters, such as one in the forward and one in the backward pass, are merged only if the latter
//! is the only user of the former. Otherwise, everything between them would be delayed.

use super::Fusion;
use super::clusters::{Clusters, Shape};
use super::facts::Class;
use super::link::Link;
use crate::collections::SortedSet;
use crate::ir::ValueId;

/// Maximum number of ops that compute a uniform value which its user recomputes. Longer computations run
/// once, in a separate kernel.
const FEW: usize = 8;

/// Maximum number of preceding readers of the same value with which merging each reader is attempted.
const SIBLINGS: usize = 64;

pub(super) fn merge(clusters: &mut Clusters<'_, '_>, fusion: Fusion) {
    with_producers(clusters, &|clusters, a, b| {
        let map = |c: usize| clusters.get(c).shape == Shape::Loop && is_map(clusters, c);
        map(a) && map(b)
    });
    products(clusters);
    with_producers(clusters, &|clusters, a, b| match (clusters.get(a).shape, clusters.get(b).shape) {
        (Shape::Loop, Shape::Loop) => true,
        (Shape::Dot(_), Shape::Loop) => fusion == Fusion::On && only_sums_over_rows(clusters, b),
        _ => false,
    });
    siblings(clusters);
    if fusion == Fusion::SumsApart {
        with_producers(clusters, &|clusters, a, b| {
            matches!(clusters.get(a).shape, Shape::Dot(_)) && only_sums_over_rows(clusters, b)
        });
    }
}

/// Merges clusters with the producers of their operands if `wanted` returns `true`.
fn with_producers(clusters: &mut Clusters<'_, '_>, wanted: &dyn Fn(&Clusters<'_, '_>, usize, usize) -> bool) {
    for node in 0..clusters.facts.nodes.len() {
        for position in 0..clusters.facts.op(node).operands.len() {
            let operand = clusters.facts.op(node).operands[position];
            let source = clusters.facts.source(operand).value;
            let Some(producer) = clusters.facts.node_of(source) else { continue };
            let (a, b) = (clusters.of(producer), clusters.of(node));
            if a != b && near(clusters, a, b) && wanted(clusters, a, b) {
                clusters.try_merge(a, b);
            }
        }
    }
}

/// Returns `true` if two clusters can be merged without delaying other work.
fn near(clusters: &Clusters<'_, '_>, a: usize, b: usize) -> bool {
    let (x, y) = (clusters.get(a), clusters.get(b));
    // Each task would recompute a uniform value used at many positions, so merge only short computations.
    if x.domain.elements == 1 && y.domain.elements > 1 {
        return x.nodes.len() <= FEW && clusters.only_used_by(a, b);
    }
    x.depth == y.depth || clusters.only_used_by(a, b)
}

fn is_map(clusters: &Clusters<'_, '_>, cluster: usize) -> bool {
    let nodes = &clusters.get(cluster).nodes;
    nodes
        .iter()
        .all(|&n| matches!(clusters.facts.nodes[n].class, Class::Map | Class::Move | Class::Put { .. }))
}

fn only_sums_over_rows(clusters: &Clusters<'_, '_>, cluster: usize) -> bool {
    let nodes = &clusters.get(cluster).nodes;
    nodes.iter().all(|&n| matches!(clusters.facts.nodes[n].class, Class::ReduceRows { .. }))
}

fn products(clusters: &mut Clusters<'_, '_>) {
    for node in 0..clusters.facts.nodes.len() {
        let cluster = clusters.of(node);
        if clusters.get(cluster).shape != Shape::Dot(node) {
            continue;
        }
        let mut users: Vec<usize> = clusters.facts.uses(node).map(|used| clusters.of(used.user)).collect();
        users.dedup();
        let [user] = users[..] else { continue };
        if is_map(clusters, user) && clusters.only_used_by(cluster, user) {
            clusters.try_merge(cluster, user);
        }
    }
}

fn siblings(clusters: &mut Clusters<'_, '_>) {
    let values: Vec<ValueId> = clusters.facts.graph.values.iter().map(|(value, _)| value).collect();
    for value in values {
        let elements = clusters.facts.elements(value);
        let mut users: Vec<usize> = Vec::new();
        let mut known = SortedSet::new();
        for used in clusters.facts.uses_of_value(value) {
            let user = clusters.of(used.user);
            let whole =
                used.fusible && used.link == Link::Same && clusters.get(user).domain.elements == elements;
            if whole && clusters.get(user).shape == Shape::Loop && known.insert(user) {
                users.push(user);
            }
        }
        for i in 1..users.len() {
            // Preceding users that were merged into other clusters have no nodes and are skipped.
            for j in (i.saturating_sub(SIBLINGS)..i).rev() {
                let (a, b) = (users[j], users[i]);
                let (x, y) = (clusters.get(a), clusters.get(b));
                let alike = !x.nodes.is_empty() && !y.nodes.is_empty() && x.depth == y.depth;
                if alike && x.domain.elements == y.domain.elements && clusters.try_merge(a, b) {
                    // The merged cluster keeps the id of the later cluster.
                    let name = if clusters.get(a).nodes.is_empty() { b } else { a };
                    users[i] = name;
                }
            }
        }
    }
    scalars(clusters);
}

/// Merges scalar computations of the same depth into one kernel.
fn scalars(clusters: &mut Clusters<'_, '_>) {
    let found: Vec<usize> = clusters
        .in_order()
        .filter(|&c| {
            let cluster = clusters.get(c);
            cluster.shape == Shape::Loop && cluster.domain.elements == 1
        })
        .collect();
    let mut last: Option<usize> = None;
    for cluster in found {
        if let Some(before) = last {
            let (x, y) = (clusters.get(before), clusters.get(cluster));
            if (x.depth, x.commit, x.once) == (y.depth, y.commit, y.once) {
                clusters.try_merge(before, cluster);
            }
        }
        last = Some(cluster);
    }
}

//! Selects the ops that form one kernel. The nodes are partitioned into clusters, which are merged pairwise.
//!
//! Invariants: the clusters are in a valid execution order, so there are no cycles between them. All nodes of
//! a cluster have the same phase (needed by the step itself, or only by updates), and either all or none of
//! them have the same results in every step.

use super::domain::Domain;
use super::facts::{Class, Facts};
use super::link::Link;
use crate::ir::{CostClass, OpKind};

/// Maximum number of ops in a cluster, where expensive functions count as several ops. This bounds the size
/// of bodies in later stages, so that kernels compile in reasonable time on any device and their machine code
/// fits into a second-level cache. Longer chains compute so much per element that storing an intermediate
/// value at intervals costs almost nothing.
pub const MOST_OPS: usize = 256;

/// Returns the number of ops that an op counts as in [`MOST_OPS`]. Drivers take seconds to compile a kernel
/// with a hundred functions, thirty functions with many branches, or ten with loops.
pub(super) fn size(kind: &OpKind) -> usize {
    let class = match kind {
        OpKind::Unary(op) => op.cost_class(),
        OpKind::Binary(op) => op.cost_class(),
        _ => CostClass::Simple,
    };
    match class {
        CostClass::Simple | CostClass::Divide => 1,
        CostClass::Function => 4,
        CostClass::Branches => 16,
        CostClass::Loop => 64,
    }
}

/// The form of a cluster's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A fused loop.
    Loop,
    /// A matrix product with an epilogue. Contains the product's node.
    Dot(usize),
    /// A single op that is not fused.
    Opaque,
}

#[derive(Debug)]
pub(super) struct Cluster {
    /// Nodes of the cluster in order.
    pub(super) nodes: Vec<usize>,
    /// Number of ops that count towards [`MOST_OPS`].
    size: usize,
    pub(super) shape: Shape,
    pub(super) domain: Domain,
    pub(super) commit: bool,
    /// True if the results are the same in every step.
    pub(super) once: bool,
    /// Maximum depth of the nodes.
    pub(super) depth: usize,
    /// True if the cluster requires whole rows.
    pub(super) reduces_columns: bool,
}

pub(super) struct Clusters<'f, 'g> {
    pub(super) facts: &'f Facts<'g>,
    /// All clusters. A cluster that was merged into another has no nodes.
    all: Vec<Cluster>,
    of_node: Vec<usize>,
    /// Clusters in a valid execution order. Merged clusters leave gaps.
    order: Vec<Option<usize>>,
    position: Vec<usize>,
    /// Index of the last search that reached each cluster as a dependent of the first of two clusters.
    after: Vec<usize>,
    /// Index of the last search that reached each cluster as a dependency of the second of two clusters.
    before: Vec<usize>,
    searches: usize,
}

/// Clusters that move when two clusters are merged.
enum Moved {
    /// Dependents of the first cluster, which move after the second.
    After(Vec<usize>),
    /// Dependencies of the second cluster, which move before the first.
    Before(Vec<usize>),
}

impl<'f, 'g> Clusters<'f, 'g> {
    /// Creates a cluster for each node.
    pub(super) fn new(facts: &'f Facts<'g>) -> Self {
        let all: Vec<Cluster> = facts
            .nodes
            .iter()
            .enumerate()
            .map(|(number, node)| Cluster {
                nodes: vec![number],
                size: size(&facts.op(number).kind),
                shape: match node.class {
                    Class::Dot { .. } => Shape::Dot(number),
                    Class::Opaque => Shape::Opaque,
                    _ => Shape::Loop,
                },
                domain: Domain { elements: node.elements, split: node.class.split() },
                commit: node.commit,
                once: node.once.is_some(),
                depth: node.depth,
                reduces_columns: node.class.reduces_columns(),
            })
            .collect();
        let count = all.len();
        Self {
            facts,
            all,
            of_node: (0..count).collect(),
            order: (0..count).map(Some).collect(),
            position: (0..count).collect(),
            after: vec![0; count],
            before: vec![0; count],
            searches: 0,
        }
    }

    /// Returns the cluster of a node.
    pub(super) fn of(&self, node: usize) -> usize {
        self.of_node[node]
    }

    pub(super) fn get(&self, cluster: usize) -> &Cluster {
        &self.all[cluster]
    }

    /// Iterates over the clusters in a valid execution order.
    pub(super) fn in_order(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.order.iter().copied().flatten()
    }

    /// Returns `true` if only `user` reads the results of `cluster`.
    pub(super) fn only_used_by(&self, cluster: usize, user: usize) -> bool {
        self.all[cluster].nodes.iter().all(|&node| {
            let needed =
                self.facts.op(node).results.iter().any(|r| self.facts.needed[crate::ir::Id::index(*r)]);
            !needed && self.facts.uses(node).all(|u| [cluster, user].contains(&self.of(u.user)))
        })
    }

    /// Merges two clusters if one kernel can compute both and no cluster between them depends on one and is a
    /// dependency of the other. Returns `true` if they were merged.
    pub(super) fn try_merge(&mut self, a: usize, b: usize) -> bool {
        if a == b {
            return false;
        }
        let (first, second) = if self.position[a] < self.position[b] { (a, b) } else { (b, a) };
        let Some((domain, shape)) = self.fits(first, second) else { return false };
        let Some(moved) = self.between(first, second) else { return false };
        self.merge(first, second, domain, shape);
        self.reorder(first, second, &moved);
        true
    }

    /// Returns the domain and shape of the merged cluster, or `None` if one kernel cannot compute both.
    fn fits(&self, first: usize, second: usize) -> Option<(Domain, Shape)> {
        let (a, b) = (&self.all[first], &self.all[second]);
        let shape = match (a.shape, b.shape) {
            (Shape::Loop, Shape::Loop) => Shape::Loop,
            (Shape::Dot(node), Shape::Loop) if !b.reduces_columns => Shape::Dot(node),
            (Shape::Loop, Shape::Dot(node)) if !a.reduces_columns => Shape::Dot(node),
            _ => return None,
        };
        if (a.commit, a.once) != (b.commit, b.once) || a.size + b.size > MOST_OPS {
            return None;
        }
        let mut splits = Vec::new();
        for &node in &a.nodes {
            for used in self.facts.uses(node).filter(|used| self.of(used.user) == second) {
                // The result of a reduction over rows is complete only when its kernel ends, so its users
                // need another kernel.
                let complete = !matches!(self.facts.nodes[node].class, Class::ReduceRows { .. });
                match used.link {
                    _ if !used.fusible || !complete => return None,
                    Link::Same | Link::Splat => {}
                    Link::Rows { rows, columns } => splits.push((rows, columns)),
                    Link::Other => return None,
                }
            }
        }
        let domain = a.domain.unify(b.domain, splits)?;
        // The product's result must have one element per position of the merged domain.
        let dot_is_whole = match shape {
            Shape::Dot(node) => self.facts.nodes[node].elements == domain.elements,
            _ => true,
        };
        dot_is_whole.then_some((domain, shape))
    }

    /// Returns the clusters between `first` and `second` that must move so that the two can be merged: the
    /// dependents of `first` or the dependencies of `second`, whichever are fewer. Returns `None` if a
    /// cluster between them is both.
    ///
    /// The two searches alternate, and either would find such a cluster, so the shorter search is sufficient.
    /// Merging distant ops therefore does not require visiting all clusters between them.
    fn between(&mut self, first: usize, second: usize) -> Option<Moved> {
        self.searches += 1;
        let (start, end) = (self.position[first], self.position[second]);
        let (mut after, mut before) = (vec![first], vec![second]);
        for next in 0.. {
            let Some(&cluster) = after.get(next) else { return Some(Moved::After(after.split_off(1))) };
            for &node in &self.all[cluster].nodes {
                for used in self.facts.uses(node) {
                    let user = self.of_node[used.user];
                    if user == second && cluster != first {
                        return None;
                    }
                    if user != first && self.position[user] < end && self.after[user] != self.searches {
                        self.after[user] = self.searches;
                        after.push(user);
                    }
                }
            }
            let Some(&cluster) = before.get(next) else { return Some(Moved::Before(before.split_off(1))) };
            for &node in &self.all[cluster].nodes {
                for &operand in &self.facts.op(node).operands {
                    let source = self.facts.source(operand).value;
                    let Some(producer) = self.facts.node_of(source).map(|node| self.of_node[node]) else {
                        continue;
                    };
                    if producer == first && cluster != second {
                        return None;
                    }
                    if producer != second
                        && self.position[producer] > start
                        && self.before[producer] != self.searches
                    {
                        self.before[producer] = self.searches;
                        before.push(producer);
                    }
                }
            }
        }
        unreachable!("there are as many clusters as nodes")
    }

    /// Moves all nodes of `first` into `second`.
    fn merge(&mut self, first: usize, second: usize, domain: Domain, shape: Shape) {
        let nodes = std::mem::take(&mut self.all[first].nodes);
        for &node in &nodes {
            self.of_node[node] = second;
        }
        let (depth, reduces) = (self.all[first].depth, self.all[first].reduces_columns);
        let size = self.all[first].size;
        let into = &mut self.all[second];
        into.size += size;
        into.nodes = merged(&nodes, &into.nodes);
        into.depth = into.depth.max(depth);
        into.reduces_columns |= reduces;
        (into.domain, into.shape) = (domain, shape);
    }

    /// Moves the merged cluster to the position of `second`, followed by the dependents of `first`, or to the
    /// position of `first`, preceded by the dependencies of `second`.
    fn reorder(&mut self, first: usize, second: usize, moved: &Moved) {
        let (start, end) = (self.position[first], self.position[second]);
        self.order[start] = None;
        match moved {
            Moved::After(clusters) if clusters.is_empty() => return,
            Moved::Before(clusters) if clusters.is_empty() => {
                (self.order[start], self.order[end]) = (Some(second), None);
                self.position[second] = start;
                return;
            }
            _ => {}
        }
        let there = self.order[start..=end].iter().copied().flatten();
        let placed: Vec<usize> = match moved {
            Moved::After(_) => {
                let (picked, kept): (Vec<_>, Vec<_>) = there.partition(|&c| self.after[c] == self.searches);
                kept.into_iter().chain(picked).collect()
            }
            Moved::Before(_) => {
                let others = there.filter(|&cluster| cluster != second);
                let (picked, kept): (Vec<_>, Vec<_>) = others.partition(|&c| self.before[c] == self.searches);
                picked.into_iter().chain([second]).chain(kept).collect()
            }
        };
        for at in start..=end {
            self.order[at] = placed.get(at - start).copied();
            if let Some(cluster) = self.order[at] {
                self.position[cluster] = at;
            }
        }
    }
}

/// Merges two sorted lists.
fn merged(a: &[usize], b: &[usize]) -> Vec<usize> {
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let mut rest = b;
    for &number in a {
        let before = rest.partition_point(|&other| other < number);
        merged.extend_from_slice(&rest[..before]);
        merged.push(number);
        rest = &rest[before..];
    }
    merged.extend_from_slice(rest);
    merged
}

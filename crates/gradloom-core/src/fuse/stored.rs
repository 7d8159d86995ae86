//! Determines which values are stored, and which are recomputed by every kernel that uses them.
//!
//! Invariant: a value that is not stored can be computed from stored values by elementwise ops, in the kernel
//! that needs it.
//!
//! A value that another cluster uses is either stored or recomputed there. The choice is a minimum cut
//! between the values that cannot be recomputed (leaves, and results of products and reductions) and the
//! values that the other cluster needs. The cost of cutting at a value is the number of bytes written and
//! read to store it, which is higher if it must be kept until the backward pass. (Horace He applies the same
//! idea to forward and backward passes: "Min-cut optimal recomputation", AOTAutograd, 2022.)

use super::clusters::{self, Clusters, Shape};
use super::cut::Network;
use super::domain::Domain;
use super::facts::{Class, Facts, Once, Use};
use super::link::Link;
use crate::collections::{IdSet, sort_by_key};
use crate::ir::{Id, ValueId};

/// Number of reads of a value whose cost equals that of keeping it in memory between the passes.
const KEPT: u64 = 5;

/// Maximum number of ops recomputed for one value, excluding those already recomputed for other values.
const AGAIN: usize = 64;
/// Maximum number of ops recomputed per value that a kernel needs from other kernels, in addition to
/// [`AGAIN`]. This is about the number of simple functions that take as long as writing and reading the
/// value. The backward pass of a long chain needs so many of the chain's values that it can recompute them
/// from a stored one.
const AGAIN_FOR_EACH: usize = 8;

/// Returns, for each value, whether a kernel writes it. Leaves are not written.
pub(super) fn decide(clusters: &Clusters<'_, '_>) -> Vec<bool> {
    let facts = clusters.facts;
    let mut stored = vec![false; facts.graph.values.len()];
    for node in 0..facts.nodes.len() {
        for &result in &facts.op(node).results {
            stored[result.index()] = must_be_stored(clusters, node, result);
        }
    }
    let mut vertices = IdSet::new();
    for cluster in clusters.in_order() {
        if clusters.get(cluster).shape != Shape::Opaque {
            cut(clusters, cluster, &mut stored, &mut vertices);
        }
    }
    stored
}

fn must_be_stored(clusters: &Clusters<'_, '_>, node: usize, value: ValueId) -> bool {
    let facts = clusters.facts;
    let class = facts.nodes[node].class;
    let home = clusters.of(node);
    if facts.needed[value.index()] || matches!(class, Class::Opaque | Class::ReduceRows { .. }) {
        return true;
    }
    facts.uses_of_value(value).iter().any(|used| {
        let user = clusters.of(used.user);
        if user == home {
            return !used.fusible;
        }
        let there = clusters.get(user);
        // Heavy values are computed when the program is loaded, and never recomputed.
        if facts.nodes[node].once == Some(Once::Heavy) && !there.once {
            return true;
        }
        // A `Put` can trap, which the commit must not do.
        let traps = matches!(class, Class::Put { .. }) && there.commit && !clusters.get(home).commit;
        let again = !traps
            && matches!(class, Class::Map | Class::Move | Class::Put { .. })
            && facts.graph.ty(value).elements() > 1;
        !used.fusible || !again || !lines_up(facts, value, used.link, there.domain)
    })
}

/// Returns `true` if a kernel over this domain can compute the value where it is used.
pub(super) fn lines_up(facts: &Facts<'_>, value: ValueId, link: Link, domain: Domain) -> bool {
    let elements = facts.graph.ty(value).elements();
    // The column that an index refers to depends on the division into rows, so a `Put` requires its own
    // division.
    if let Some(node) = facts.node_of(value)
        && let class @ Class::Put { .. } = facts.nodes[node].class
        && domain.split != class.split()
    {
        return false;
    }
    match link {
        Link::Same if elements == 1 => true,
        Link::Same => elements == domain.elements || domain.split.is_some_and(|(rows, _)| rows == elements),
        Link::Rows { rows, columns } => domain.split == Some((rows, columns)),
        Link::Splat => true,
        Link::Other => false,
    }
}

/// Stores the values of other clusters that `cluster` uses, or values from which they can be computed.
/// `vertices` is reusable working memory.
fn cut(clusters: &Clusters<'_, '_>, cluster: usize, stored: &mut [bool], vertices: &mut IdSet<ValueId>) {
    let facts = clusters.facts;
    let mut wanted = Vec::new();
    let mut read = Vec::new();
    for &node in &clusters.get(cluster).nodes {
        for &operand in &facts.op(node).operands {
            let source = facts.source(operand);
            let Some(producer) = facts.node_of(source.value) else {
                read.push(source.value);
                continue;
            };
            if clusters.of(producer) == cluster {
                continue;
            }
            let list = if stored[source.value.index()] { &mut read } else { &mut wanted };
            list.push(source.value);
        }
    }
    if wanted.is_empty() {
        return;
    }
    // Sort values so that they follow the values from which they are computed.
    sort_by_key(&mut wanted, |&value| facts.node_of(value));
    wanted.dedup();
    vertices.truncate(0);
    let mut search = Search {
        facts,
        domain: clusters.get(cluster).domain,
        commit: clusters.get(cluster).commit,
        depth: clusters.get(cluster).depth,
        stored,
        read,
        vertices,
        size: 0,
    };
    let most = AGAIN + AGAIN_FOR_EACH * wanted.len();
    wanted.retain(|&value| search.take(value, most));
    if !wanted.is_empty() {
        search.cut(&wanted);
    }
}

struct Search<'a, 'g> {
    facts: &'a Facts<'g>,
    domain: Domain,
    commit: bool,
    depth: usize,
    stored: &'a mut [bool],
    /// Values that the cluster reads in any case.
    read: Vec<ValueId>,
    /// Recomputed values, and the values from which they are computed.
    vertices: &'a mut IdSet<ValueId>,
    /// Number of ops that compute `vertices`.
    size: usize,
}

impl Search<'_, '_> {
    /// Adds a value and all values from which it is computed. If recomputing the value exceeds the limits,
    /// stores it instead and returns `false`.
    fn take(&mut self, value: ValueId, most: usize) -> bool {
        let before = self.vertices.len();
        if !self.vertices.insert(value) {
            return true;
        }
        let mut pending = vec![value];
        let mut size = 0;
        while let Some(next) = pending.pop() {
            size += self.size(next);
            for operand in self.operands(next).into_iter().flatten() {
                if self.vertices.insert(operand) {
                    pending.push(operand);
                }
            }
            if size > AGAIN || self.size + size > most {
                self.vertices.truncate(before);
                self.stored[value.index()] = true;
                self.read.push(value);
                return false;
            }
        }
        self.size += size;
        true
    }

    /// Returns the number of ops that recomputing or reading a value counts as. Short functions count as one
    /// op, because their time is negligible on GPUs and vector units compared to memory accesses.
    fn size(&self, value: ValueId) -> usize {
        self.facts.node_of(value).map_or(1, |node| clusters::size(&self.facts.op(node).kind).div_ceil(4))
    }

    /// Stores the values that are cheapest to read among those from which the wanted values can be computed.
    fn cut(&mut self, wanted: &[ValueId]) {
        let mut network = Network::default();
        // The network numbers vertices in insertion order, so the vertex of a value is its position in the
        // set.
        let vertex = |value: &ValueId| self.vertices.position(value).expect("it is computed again or read");
        for value in self.vertices.iter() {
            network.vertex(self.cost(*value));
        }
        for (to, value) in self.vertices.iter().enumerate() {
            match self.operands(*value) {
                Some(operands) => {
                    operands.iter().for_each(|operand| network.edge(vertex(operand), to));
                }
                None => network.feed(to),
            }
        }
        wanted.iter().for_each(|value| network.drain(vertex(value)));
        let values = self.vertices.iter().as_slice();
        for vertex in network.minimum_cut() {
            self.stored[values[vertex].index()] |= self.facts.node_of(values[vertex]).is_some();
        }
    }

    /// Returns the values from which this one can be computed, or `None` if it must be read.
    fn operands(&self, value: ValueId) -> Option<Vec<ValueId>> {
        let node = self.facts.node_of(value)?;
        let class = self.facts.nodes[node].class;
        if self.stored[value.index()]
            || (self.commit && matches!(class, Class::Put { .. }) && !self.facts.nodes[node].commit)
            || !matches!(self.facts.nodes[node].class, Class::Map | Class::Move | Class::Put { .. })
        {
            return None;
        }
        let mut operands = Vec::new();
        for &operand in &self.facts.op(node).operands {
            if self.facts.splat(operand).is_some() {
                continue;
            }
            let source = self.facts.source(operand);
            // The commit overwrites parameters and states, so it should read no more of them than necessary.
            let leaf = self.facts.node_of(source.value).is_none();
            if leaf && self.commit && !self.facts.nodes[node].commit {
                return None;
            }
            let elements = self.facts.elements(source.value);
            let link = Link::of(&source.layout, elements);
            let computed = self.facts.node_of(source.value).is_some() && !self.stored[source.value.index()];
            if computed && !lines_up(self.facts, source.value, link, self.domain) {
                return None;
            }
            operands.push(source.value);
        }
        Some(operands)
    }

    /// Returns the cost of a cut at this value: the number of bytes transferred, which is higher for values
    /// that stay in memory between the passes.
    fn cost(&self, value: ValueId) -> u64 {
        let bytes = self.facts.graph.ty(value).bytes();
        let Some(node) = self.facts.node_of(value) else { return self.facts.leaf_bytes(value) };
        if self.facts.nodes[node].once.is_some() && !self.stored[value.index()] {
            // The value is read in every step but written only once. The additional byte avoids storing it at
            // equal cost.
            return bytes + 1;
        }
        let far = self.facts.nodes[node].depth < self.depth;
        if self.stored[value.index()] {
            let deep = |used: &Use| self.facts.nodes[used.user].depth + 1 >= self.depth;
            let there_anyway = !far || self.facts.uses_of_value(value).iter().any(deep);
            return match (self.read.contains(&value), there_anyway) {
                (true, _) => 0,
                (false, true) => bytes,
                (false, false) => KEPT * bytes,
            };
        }
        // The value is written once and read once.
        if far { KEPT * bytes + bytes } else { 2 * bytes }
    }
}

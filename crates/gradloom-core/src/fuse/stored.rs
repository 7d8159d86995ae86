//! Decides which values are stored, and which every kernel that uses them computes again.
//!
//! In: clusters. Out: for each value, whether it is stored. Always holds: what is not stored can be computed
//! from what is, in the kernel that needs it, by elementwise ops alone.
//!
//! A value that another cluster uses is either stored, or computed again there. The choice is a minimum cut
//! between what cannot be computed again (leaves, results of products and reductions) and the values that
//! the other cluster wants, where cutting at a value costs the bytes that are written and read if it is
//! stored, and more if it has to stay until the backward pass. (The same idea for forward and backward
//! passes: Horace He, "Min-cut optimal recomputation", AOTAutograd, 2022.)

use super::clusters::{self, Clusters, Shape};
use super::cut::Network;
use super::domain::Domain;
use super::facts::{Class, Facts, Once, Use};
use super::link::Link;
use crate::collections::{IdSet, sort_by_key};
use crate::ir::{Id, ValueId};

/// Number of reads of a value that cost as much as keeping it in memory between the passes.
const KEPT: u64 = 5;

/// Ops that are computed again for one value at most, beyond those that others have asked for already.
const AGAIN: usize = 64;
/// Ops that are computed again for each value of a kernel, on average: about what memory takes to write and
/// read it, in the time of simple functions. The backward pass of a long chain wants so many of its values
/// that it starts from one that is stored.
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
        // Computed when the program is loaded, and never again.
        if facts.nodes[node].once == Some(Once::Heavy) && !there.once {
            return true;
        }
        // A put can trap, which the commit must not.
        let traps = matches!(class, Class::Put { .. }) && there.commit && !clusters.get(home).commit;
        let again = !traps
            && matches!(class, Class::Map | Class::Move | Class::Put { .. })
            && facts.graph.ty(value).elements() > 1;
        !used.fusible || !again || !lines_up(facts, value, used.link, there.domain)
    })
}

/// Returns whether a kernel over this domain can compute the value where it uses it.
pub(super) fn lines_up(facts: &Facts<'_>, value: ValueId, link: Link, domain: Domain) -> bool {
    let elements = facts.graph.ty(value).elements();
    // Which column an index names depends on how positions are split.
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

/// Stores what `cluster` uses of others, or what that follows from. `vertices` is memory to work in.
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
    // What values are computed from comes before them.
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
    /// Values that are computed again, or that those are computed from.
    vertices: &'a mut IdSet<ValueId>,
    /// Ops that compute them.
    size: usize,
}

impl Search<'_, '_> {
    /// Adds a value with all that it is computed from; stores it instead if that is too much.
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

    /// Returns the number of ops that computing a value once more, or reading it, counts as. Short
    /// functions take a GPU or a vector unit no time beside memory accesses.
    fn size(&self, value: ValueId) -> usize {
        self.facts.node_of(value).map_or(1, |node| clusters::size(&self.facts.op(node).kind).div_ceil(4))
    }

    /// Stores what is cheapest to read among all that the wanted values can be computed from.
    fn cut(&mut self, wanted: &[ValueId]) {
        let mut network = Network::default();
        // The network numbers its vertices as they come, as their set does.
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

    /// Returns the values that this one can be computed from; `None` if it must be read.
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
            // The commit overwrites parameters and states: it should read no more of them than it must.
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

    /// Returns the cost of a cut at this value: the bytes that are moved, and some more where they stay in
    /// memory from one pass to the other.
    fn cost(&self, value: ValueId) -> u64 {
        let bytes = self.facts.graph.ty(value).bytes();
        let Some(node) = self.facts.node_of(value) else { return self.facts.leaf_bytes(value) };
        if self.facts.nodes[node].once.is_some() && !self.stored[value.index()] {
            // Read in every step, and written but once; if there is no difference, it is not kept.
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
        // Written and read.
        if far { KEPT * bytes + bytes } else { 2 * bytes }
    }
}

//! Which values reach memory, and which are computed again by every kernel that uses them.
//!
//! In: clusters. Out: for each value, whether it is stored. Always holds: what is not stored can be computed from what is, in the
//! kernel that needs it, by elementwise ops alone.
//!
//! What another cluster uses is either stored, or computed there from what it was computed from. The choice is a minimum cut between
//! what cannot be computed again (leaves, results of products and reductions) and the values that the other cluster wants, where
//! cutting at a value costs the bytes that are written and read if it is stored, and more if it has to stay until the backward pass.
//! (The same idea for forward and backward passes:
//! Horace He, "Min-cut optimal recomputation", AOTAutograd, 2022.)

use super::clusters::{Clusters, Shape};
use super::cut::Network;
use super::domain::Domain;
use super::facts::{Class, Facts, Once, Use};
use super::link::Link;
use crate::collections::IdMap;
use crate::ir::{Id, ValueId};

/// How often a value could be read for what it costs to keep it in memory between the passes.
const KEPT: u64 = 5;

/// More ops than this are not computed again.
const MANY: usize = 64;

/// For each value, whether a kernel writes it. Leaves are not written.
pub(super) fn decide(clusters: &Clusters<'_, '_>) -> Vec<bool> {
    let facts = clusters.facts;
    let mut stored = vec![false; facts.graph.values.len()];
    for node in 0..facts.nodes.len() {
        for &result in &facts.op(node).results {
            stored[result.index()] = must_be_stored(clusters, node, result);
        }
    }
    for cluster in clusters.in_order() {
        if clusters.get(cluster).shape != Shape::Opaque {
            cut(clusters, cluster, &mut stored);
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

/// Whether a kernel over this domain can compute the value where it uses it.
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

/// Stores what `cluster` uses of others, or what that follows from.
fn cut(clusters: &Clusters<'_, '_>, cluster: usize, stored: &mut [bool]) {
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
    let mut search = Search {
        facts,
        domain: clusters.get(cluster).domain,
        commit: clusters.get(cluster).commit,
        depth: clusters.get(cluster).depth,
        stored,
        read: &read,
        network: Network::default(),
        vertex: IdMap::new(),
    };
    for &value in &wanted {
        let vertex = search.visit(value);
        search.network.drain(vertex);
    }
    let values: Vec<(ValueId, usize)> =
        search.vertex.iter().map(|(&value, &vertex)| (value, vertex)).collect();
    let cut = if values.len() > MANY { None } else { Some(search.network.minimum_cut()) };
    match cut {
        Some(cut) => {
            for (value, _) in values.iter().filter(|(_, vertex)| cut.contains(vertex)) {
                stored[value.index()] |= facts.node_of(*value).is_some();
            }
        }
        None => wanted.iter().for_each(|value| stored[value.index()] = true),
    }
}

struct Search<'a, 'g> {
    facts: &'a Facts<'g>,
    domain: Domain,
    commit: bool,
    depth: usize,
    stored: &'a [bool],
    /// What the cluster reads anyway.
    read: &'a [ValueId],
    network: Network,
    vertex: IdMap<ValueId, usize>,
}

impl Search<'_, '_> {
    /// The vertex of a value, with what it is computed from before it.
    fn visit(&mut self, value: ValueId) -> usize {
        if let Some(&known) = self.vertex.get(&value) {
            return known;
        }
        let vertex = self.network.vertex(self.cost(value));
        self.vertex.insert(value, vertex);
        match self.operands(value) {
            Some(operands) if self.vertex.len() <= MANY => {
                for operand in operands {
                    let before = self.visit(operand);
                    self.network.edge(before, vertex);
                }
            }
            _ => self.network.feed(vertex),
        }
        vertex
    }

    /// What the value can be computed from; `None` if it must be read.
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
            let elements = self.facts.graph.ty(source.value).elements();
            let link = Link::of(&source.layout, elements);
            let computed = self.facts.node_of(source.value).is_some() && !self.stored[source.value.index()];
            if computed && !lines_up(self.facts, source.value, link, self.domain) {
                return None;
            }
            operands.push(source.value);
        }
        Some(operands)
    }

    /// What cutting here costs: the bytes that are moved, and some more where they stay in memory from one pass to the other.
    fn cost(&self, value: ValueId) -> u64 {
        let bytes = self.facts.graph.ty(value).bytes() as u64;
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

//! Which ops become one kernel: a partition of the nodes into clusters that is refined by merging two at a time.
//!
//! Always holds: the clusters' order is one in which they can run, so there is no cycle between them; all nodes of a cluster are
//! needed at the same time (all by the step itself, or all by updates only).

use super::domain::Domain;
use super::facts::{Class, Facts};
use super::link::Link;

/// What a cluster becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A fused loop.
    Loop,
    /// A matrix product with what follows from it; the product's node.
    Dot(usize),
    /// One op.
    Opaque,
}

#[derive(Debug)]
pub(super) struct Cluster {
    /// Its nodes, in order.
    pub(super) nodes: Vec<usize>,
    pub(super) shape: Shape,
    pub(super) domain: Domain,
    pub(super) commit: bool,
    /// The greatest depth of its nodes.
    pub(super) depth: usize,
    /// Whether it needs whole rows.
    pub(super) reduces_columns: bool,
}

pub(super) struct Clusters<'f, 'g> {
    pub(super) facts: &'f Facts<'g>,
    /// Empty once merged into another.
    all: Vec<Cluster>,
    of_node: Vec<usize>,
    /// Clusters in an order in which they can run; gaps where one was merged.
    order: Vec<Option<usize>>,
    position: Vec<usize>,
}

impl<'f, 'g> Clusters<'f, 'g> {
    /// Each node by itself.
    pub(super) fn new(facts: &'f Facts<'g>) -> Self {
        let all: Vec<Cluster> = facts
            .nodes
            .iter()
            .enumerate()
            .map(|(number, node)| Cluster {
                nodes: vec![number],
                shape: match node.class {
                    Class::Dot { .. } => Shape::Dot(number),
                    Class::Opaque => Shape::Opaque,
                    _ => Shape::Loop,
                },
                domain: Domain { elements: node.elements, split: node.class.split() },
                commit: node.commit,
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
        }
    }

    /// The cluster of a node.
    pub(super) fn of(&self, node: usize) -> usize {
        self.of_node[node]
    }

    pub(super) fn get(&self, cluster: usize) -> &Cluster {
        &self.all[cluster]
    }

    /// Clusters in an order in which they can run.
    pub(super) fn in_order(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.order.iter().copied().flatten()
    }

    /// Whether nothing outside of `user` reads what `cluster` computes.
    pub(super) fn only_used_by(&self, cluster: usize, user: usize) -> bool {
        self.all[cluster].nodes.iter().all(|&node| {
            let needed =
                self.facts.op(node).results.iter().any(|r| self.facts.needed[crate::ir::Id::index(*r)]);
            !needed && self.facts.uses(node).all(|u| [cluster, user].contains(&self.of(u.user)))
        })
    }

    /// Merges two clusters, if one kernel can compute both and nothing runs between them that one needs and that needs the other.
    pub(super) fn try_merge(&mut self, a: usize, b: usize) -> bool {
        if a == b {
            return false;
        }
        let (first, second) = if self.position[a] < self.position[b] { (a, b) } else { (b, a) };
        let Some((domain, shape)) = self.fits(first, second) else { return false };
        let Some(after) = self.between(first, second) else { return false };
        let before = self.needed_between(first, second);
        self.merge(first, second, domain, shape);
        self.reorder(first, second, before, after);
        true
    }

    /// What the merged cluster would be; `None` if one kernel cannot compute both.
    fn fits(&self, first: usize, second: usize) -> Option<(Domain, Shape)> {
        let (a, b) = (&self.all[first], &self.all[second]);
        let shape = match (a.shape, b.shape) {
            (Shape::Loop, Shape::Loop) => Shape::Loop,
            (Shape::Dot(node), Shape::Loop) if !b.reduces_columns => Shape::Dot(node),
            (Shape::Loop, Shape::Dot(node)) if !a.reduces_columns => Shape::Dot(node),
            _ => return None,
        };
        if a.commit != b.commit {
            return None;
        }
        let mut splits = Vec::new();
        for &node in &a.nodes {
            for used in self.facts.uses(node).filter(|used| self.of(used.user) == second) {
                // The rows of a column are not all there before the kernel has ended.
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
        // The product's result must be what has one element for each position.
        let dot_is_whole = match shape {
            Shape::Dot(node) => self.facts.nodes[node].elements == domain.elements,
            _ => true,
        };
        dot_is_whole.then_some((domain, shape))
    }

    /// The clusters behind `first`, up to `second`, that need what `first` computes; `None` if `second` needs one of them.
    fn between(&self, first: usize, second: usize) -> Option<Vec<usize>> {
        let end = self.position[second];
        let mut found = Vec::new();
        let mut stack = vec![first];
        while let Some(cluster) = stack.pop() {
            for &node in &self.all[cluster].nodes {
                for used in self.facts.uses(node) {
                    let user = self.of(used.user);
                    if user == cluster || self.position[user] > end || found.contains(&user) {
                        continue;
                    }
                    if user == second {
                        if cluster == first {
                            continue;
                        }
                        return None;
                    }
                    found.push(user);
                    stack.push(user);
                }
            }
        }
        Some(found)
    }

    /// The clusters behind `first`, up to `second`, that `second` needs.
    fn needed_between(&self, first: usize, second: usize) -> Vec<usize> {
        let start = self.position[first];
        let mut found = Vec::new();
        let mut stack = vec![second];
        while let Some(cluster) = stack.pop() {
            for &node in &self.all[cluster].nodes {
                for &operand in &self.facts.op(node).operands {
                    let source = self.facts.source(operand).value;
                    let Some(producer) = self.facts.node_of(source).map(|node| self.of(node)) else {
                        continue;
                    };
                    if producer != second && self.position[producer] > start && !found.contains(&producer) {
                        found.push(producer);
                        stack.push(producer);
                    }
                }
            }
        }
        found
    }

    /// Puts all of `first` into `second`.
    fn merge(&mut self, first: usize, second: usize, domain: Domain, shape: Shape) {
        let nodes = std::mem::take(&mut self.all[first].nodes);
        for &node in &nodes {
            self.of_node[node] = second;
        }
        let (depth, reduces) = (self.all[first].depth, self.all[first].reduces_columns);
        let into = &mut self.all[second];
        into.nodes.extend(nodes);
        into.nodes.sort_unstable();
        into.depth = into.depth.max(depth);
        into.reduces_columns |= reduces;
        (into.domain, into.shape) = (domain, shape);
    }

    /// Finds a place for the merged cluster: where `second` stands, behind which come those that need `first` (`after`), or where `first`
    /// stands, before which come those that `second` needs (`before`); whichever moves fewer.
    fn reorder(&mut self, first: usize, second: usize, before: Vec<usize>, after: Vec<usize>) {
        let (start, end) = (self.position[first], self.position[second]);
        self.order[start] = None;
        let early = before.len() < after.len();
        let moved = if early { before } else { after };
        if moved.is_empty() && !early {
            return;
        }
        let (picked, kept): (Vec<usize>, Vec<usize>) =
            self.order[start..=end].iter().copied().flatten().partition(|cluster| moved.contains(cluster));
        let placed: Vec<usize> = match early {
            true => {
                let others = kept.into_iter().filter(|&cluster| cluster != second);
                picked.into_iter().chain([second]).chain(others).collect()
            }
            false => kept.into_iter().chain(picked).collect(),
        };
        for at in start..=end {
            self.order[at] = placed.get(at - start).copied();
            if let Some(cluster) = self.order[at] {
                self.position[cluster] = at;
            }
        }
    }
}

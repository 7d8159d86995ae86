//! Minimum cuts of small networks whose vertices, not edges, have capacities.
//!
//! By augmenting paths (Ford and Fulkerson, 1956), breadth first (Edmonds and Karp, 1972).

use std::collections::VecDeque;

const SOURCE: usize = 0;
const SINK: usize = 1;
const UNBOUNDED: u64 = u64::MAX / 4;

#[derive(Clone, Copy, Debug)]
struct Arc {
    to: usize,
    capacity: u64,
    /// Position of the arc back in the other end's list.
    back: usize,
}

/// A network from a source to a sink.
#[derive(Debug)]
pub(super) struct Network {
    /// Arcs by point. Points 0 and 1 are source and sink; a vertex is two points, its entrance and, next, its
    /// exit.
    arcs: Vec<Vec<Arc>>,
}

impl Default for Network {
    fn default() -> Self {
        Self { arcs: vec![Vec::new(); 2] }
    }
}

impl Network {
    /// Adds a vertex that can be cut at this cost.
    pub(super) fn vertex(&mut self, cost: u64) -> usize {
        let entrance = self.arcs.len();
        self.arcs.extend([Vec::new(), Vec::new()]);
        self.arc(entrance, entrance + 1, cost);
        entrance / 2 - 1
    }

    /// Adds an edge: `to` follows from `from`.
    pub(super) fn edge(&mut self, from: usize, to: usize) {
        self.arc(exit(from), entrance(to), UNBOUNDED);
    }

    /// Connects a vertex to the source: it follows from nothing in the network.
    pub(super) fn feed(&mut self, vertex: usize) {
        self.arc(SOURCE, entrance(vertex), UNBOUNDED);
    }

    /// Connects a vertex to the sink: it is wanted.
    pub(super) fn drain(&mut self, vertex: usize) {
        self.arc(exit(vertex), SINK, UNBOUNDED);
    }

    fn arc(&mut self, from: usize, to: usize, capacity: u64) {
        let (back, here) = (self.arcs[to].len(), self.arcs[from].len());
        self.arcs[from].push(Arc { to, capacity, back });
        self.arcs[to].push(Arc { to: from, capacity: 0, back: here });
    }

    /// Returns the cheapest vertices of which one is on every way from the source to the sink; of equal
    /// cuts, the one nearest to the source.
    pub(super) fn minimum_cut(mut self) -> Vec<usize> {
        loop {
            let reached = self.search();
            let Some(last) = reached[SINK] else {
                let vertices = 0..(self.arcs.len() - 2) / 2;
                let split = |&v: &usize| reached[entrance(v)].is_some() && reached[exit(v)].is_none();
                return vertices.filter(split).collect();
            };
            self.augment(&reached, last);
        }
    }

    /// Returns, for each point that can be reached, the arc that leads there, as (from, position in its
    /// list).
    fn search(&self) -> Vec<Option<(usize, usize)>> {
        let mut reached = vec![None; self.arcs.len()];
        reached[SOURCE] = Some((SOURCE, usize::MAX));
        let mut queue = VecDeque::from([SOURCE]);
        while let Some(point) = queue.pop_front() {
            for (i, arc) in self.arcs[point].iter().enumerate() {
                if arc.capacity > 0 && reached[arc.to].is_none() {
                    reached[arc.to] = Some((point, i));
                    queue.push_back(arc.to);
                }
            }
        }
        reached
    }

    fn augment(&mut self, reached: &[Option<(usize, usize)>], last: (usize, usize)) {
        let way: Vec<(usize, usize)> = std::iter::successors(Some(last), |&(point, _)| {
            (point != SOURCE).then(|| reached[point].expect("a way leads there"))
        })
        .collect();
        let room = way.iter().map(|&(from, i)| self.arcs[from][i].capacity).min().unwrap_or(0);
        for (from, i) in way {
            let Arc { to, back, .. } = self.arcs[from][i];
            self.arcs[from][i].capacity -= room;
            self.arcs[to][back].capacity += room;
        }
    }
}

fn entrance(vertex: usize) -> usize {
    2 * vertex + 2
}

fn exit(vertex: usize) -> usize {
    2 * vertex + 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_cut_where_it_is_thinnest() {
        let mut network = Network::default();
        let all: Vec<usize> = [5, 3, 1, 4].iter().map(|&cost| network.vertex(cost)).collect();
        network.feed(all[0]);
        all.windows(2).for_each(|pair| network.edge(pair[0], pair[1]));
        network.drain(all[3]);
        assert_eq!(network.minimum_cut(), [all[2]]);
    }

    #[test]
    fn one_value_before_a_fan_is_cheaper_than_the_fan() {
        let mut network = Network::default();
        let root = network.vertex(8);
        network.feed(root);
        for _ in 0..3 {
            let leaf = network.vertex(4);
            network.edge(root, leaf);
            network.drain(leaf);
        }
        assert_eq!(network.minimum_cut(), [root]);
    }

    #[test]
    fn what_leads_nowhere_is_no_way_back() {
        // The dead end follows from the root, too: nothing flows from there to the root's other follower.
        let mut network = Network::default();
        let [root, dead_end, wanted] = [1, 10, 1].map(|cost| network.vertex(cost));
        network.feed(root);
        network.feed(dead_end);
        network.edge(root, dead_end);
        network.edge(root, wanted);
        network.drain(wanted);
        assert_eq!(network.minimum_cut(), [root]);
    }

    #[test]
    fn a_free_vertex_is_cut_and_flow_is_sent_back() {
        // Two ways share a middle; the shortest first way must be undone in part.
        let mut network = Network::default();
        let [a, b, c, d] = [2, 2, 2, 2].map(|cost| network.vertex(cost));
        let free = network.vertex(0);
        for start in [a, b, free] {
            network.feed(start);
        }
        network.edge(a, c);
        network.edge(a, d);
        network.edge(b, c);
        network.edge(free, d);
        network.drain(c);
        network.drain(d);
        let cut = network.minimum_cut();
        assert!(!cut.contains(&free) || cut.len() == 3, "{cut:?}");
        assert_eq!(cut.iter().filter(|&&v| v != free).count(), 2, "{cut:?}");
    }
}

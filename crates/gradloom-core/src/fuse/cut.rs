//! Minimum cuts of small networks with capacities on vertices instead of edges.
//!
//! Uses augmenting paths (Ford and Fulkerson, 1956), found by breadth-first search (Edmonds and Karp, 1972).

use std::collections::VecDeque;

const SOURCE: usize = 0;
const SINK: usize = 1;
const UNBOUNDED: u64 = u64::MAX / 4;

#[derive(Clone, Copy, Debug)]
struct Arc {
    to: usize,
    capacity: u64,
    /// Index of the reverse arc in the list of `to`.
    back: usize,
}

/// A flow network from a source to a sink.
#[derive(Debug)]
pub(super) struct Network {
    /// Outgoing arcs of each point. Points 0 and 1 are the source and the sink. A vertex consists of two
    /// consecutive points, its entrance and its exit.
    arcs: Vec<Vec<Arc>>,
}

impl Default for Network {
    fn default() -> Self {
        Self { arcs: vec![Vec::new(); 2] }
    }
}

impl Network {
    /// Adds a vertex that can be cut at this cost. Returns its index.
    pub(super) fn vertex(&mut self, cost: u64) -> usize {
        let entrance = self.arcs.len();
        self.arcs.extend([Vec::new(), Vec::new()]);
        self.arc(entrance, entrance + 1, cost);
        entrance / 2 - 1
    }

    /// Adds an edge, which cannot be cut.
    pub(super) fn edge(&mut self, from: usize, to: usize) {
        self.arc(exit(from), entrance(to), UNBOUNDED);
    }

    /// Adds an edge from the source to a vertex.
    pub(super) fn feed(&mut self, vertex: usize) {
        self.arc(SOURCE, entrance(vertex), UNBOUNDED);
    }

    /// Adds an edge from a vertex to the sink.
    pub(super) fn drain(&mut self, vertex: usize) {
        self.arc(exit(vertex), SINK, UNBOUNDED);
    }

    fn arc(&mut self, from: usize, to: usize, capacity: u64) {
        let (back, here) = (self.arcs[to].len(), self.arcs[from].len());
        self.arcs[from].push(Arc { to, capacity, back });
        self.arcs[to].push(Arc { to: from, capacity: 0, back: here });
    }

    /// Returns the vertices of a minimum cut, which intersects every path from the source to the sink. Among
    /// equal cuts, returns the one nearest to the source.
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

    /// Returns, for each reachable point, the arc that leads to it, as (start point, index in its list of
    /// arcs).
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
        // The root also leads to the dead end. Flow that enters the dead end from the source must not return
        // through the root to the other successor.
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
        // Two paths share a middle section. Part of the flow along the first, shortest path must be reversed.
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

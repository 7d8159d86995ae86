//! Search for several byte strings in one pass (Aho and Corasick, 1975).
//!
//! In: strings and a text. Out: for each position, the start of the earliest match that ends there or later.
//! Invariant: memory is linear in the bytes of the strings, and the number of steps in the bytes of
//! strings and text, however many strings overlap, because only the longest of the strings that end at a
//! position is reported. (The `aho-corasick` crate lists all of them in each state.)

use std::sync::OnceLock;

/// A set of byte strings to search for.
#[derive(Debug)]
pub(super) struct Strings {
    strings: Vec<Vec<u8>>,
    /// Length of the longest string in bytes.
    pub(super) longest: usize,
    /// Nodes of all prefixes of the strings, shortest first, and a sentinel. Created on first use.
    nodes: OnceLock<Vec<Node>>,
}

/// A prefix of a string.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Index of the first child, which is one byte longer. The children end where those of the next node
    /// begin.
    longer: u32,
    /// Index of the longest other prefix that is a suffix of this one.
    end: u32,
    /// Length of the longest string that is a suffix of this prefix, or 0.
    longest: u32,
    /// Last byte of the prefix.
    byte: u8,
}

impl Strings {
    pub(super) fn new(mut strings: Vec<Vec<u8>>) -> Self {
        strings.retain(|string| !string.is_empty());
        strings.sort_unstable();
        strings.dedup();
        let longest = strings.iter().map(Vec::len).max().unwrap_or(0);
        Self { strings, longest, nodes: OnceLock::new() }
    }

    /// Returns, for each position in a text, the start of the earliest match that ends there or later, or
    /// `u32::MAX` if there is none. Adds the steps taken to `steps`.
    pub(super) fn earliest(&self, text: &[u8], steps: &mut usize) -> Vec<u32> {
        let nodes = self.nodes.get_or_init(|| nodes(&self.strings, steps));
        let mut earliest = vec![u32::MAX; text.len() + 1];
        let mut node = 0;
        for (at, &byte) in text.iter().enumerate() {
            node = next(nodes, node, byte, steps);
            let longest = nodes[node].longest;
            if longest > 0 {
                earliest[at + 1] = at as u32 + 1 - longest;
            }
        }
        spread(&mut earliest);
        earliest
    }
}

/// Replaces each entry by the minimum of itself and all later ones.
pub(super) fn spread(earliest: &mut [u32]) {
    for at in (1..earliest.len()).rev() {
        earliest[at - 1] = earliest[at - 1].min(earliest[at]);
    }
}

/// Returns the node of the longest prefix that is a suffix of the string of `node` followed by `byte`.
fn next(nodes: &[Node], mut node: usize, byte: u8, steps: &mut usize) -> usize {
    loop {
        *steps += 1;
        let from = nodes[node].longer as usize;
        let longer = &nodes[from..nodes[node + 1].longer as usize];
        match longer.binary_search_by_key(&byte, |longer| longer.byte) {
            Ok(place) => return from + place,
            Err(_) if node == 0 => return 0,
            Err(_) => node = nodes[node].end as usize,
        }
    }
}

/// Returns a node for each prefix of the strings, shortest first, and one more that ends the list. The
/// strings must be sorted and distinct. Adds the steps taken to `steps`.
fn nodes(strings: &[Vec<u8>], steps: &mut usize) -> Vec<Node> {
    let mut nodes = vec![Node::default()];
    // Ranges of the strings that begin with each node of the current length.
    let (mut level, mut longer) = (vec![(0, strings.len())], Vec::new());
    let (mut node, mut length) = (0, 0);
    while !level.is_empty() {
        for (mut from, to) in level.drain(..) {
            nodes[node].longer = nodes.len() as u32;
            from += usize::from(strings.get(from).is_some_and(|string| string.len() == length));
            for group in strings[from..to].chunk_by(|a, b| a[length] == b[length]) {
                let byte = group[0][length];
                // This lookup is complete because all children of shorter prefixes exist by now.
                let end = if node == 0 { 0 } else { next(&nodes, nodes[node].end as usize, byte, steps) };
                let is_whole = group[0].len() == length + 1;
                let longest = if is_whole { length as u32 + 1 } else { nodes[end].longest };
                nodes.push(Node { longer: 0, end: end as u32, longest, byte });
                longer.push((from, from + group.len()));
                from += group.len();
                *steps += group.len();
            }
            node += 1;
        }
        std::mem::swap(&mut level, &mut longer);
        length += 1;
    }
    nodes.push(Node { longer: nodes.len() as u32, ..Node::default() });
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a naive search in all short texts, for every pair of short strings together with a third
    /// one.
    #[test]
    fn the_earliest_string_is_found() {
        let mut words = vec![Vec::new()];
        for from in 0..15 {
            words.extend([b'a', b'b'].map(|byte| [&words[from][..], &[byte]].concat()));
        }
        let texts: Vec<Vec<u8>> = (0..64u32)
            .map(|bits| (0..6).map(|at| if bits >> at & 1 == 1 { b'a' } else { b'b' }).collect())
            .chain([b"abcab".to_vec(), Vec::new()])
            .collect();
        for a in 0..words.len() {
            for b in a..words.len() {
                let set = [&words[a], &words[b], &words[(a * 7 + b) % words.len()]].map(Clone::clone);
                let strings = Strings::new(set.to_vec());
                for text in &texts {
                    let found = strings.earliest(text, &mut 0);
                    for (least, &found) in found.iter().enumerate() {
                        let is_string = |from: &usize| {
                            let ends = (least.max(from + 1)..=text.len()).map(|to| text[*from..to].to_vec());
                            ends.into_iter().any(|part| set.contains(&part))
                        };
                        let wanted = (0..text.len()).find(is_string).map_or(u32::MAX, |from| from as u32);
                        assert_eq!(found, wanted, "{set:?} in {text:?} from {least}");
                    }
                }
            }
        }
    }

    /// Covers strings that overlap everywhere, and one that almost matches at every position.
    #[test]
    fn steps_and_memory_go_with_the_bytes() {
        let ladder: Vec<Vec<u8>> = (1..500).map(|length| vec![b'a'; length]).collect();
        let nearly = vec![[vec![b'a'; 100_000], vec![b'b']].concat(), vec![b'a'; 2]];
        let crossing = (0..500).map(|n| [vec![b'a'; n], vec![b'b'], vec![b'a'; 500 - n]].concat()).collect();
        for strings in [ladder, nearly, crossing] {
            let bytes: usize = strings.iter().map(Vec::len).sum();
            let strings = Strings::new(strings);
            let mut steps = 0;
            strings.earliest(b"", &mut steps);
            let nodes = strings.nodes.get().unwrap().len();
            assert!(
                steps <= 3 * bytes && nodes <= bytes + 2,
                "{steps} steps, {nodes} nodes for {bytes} bytes"
            );
            for text in [vec![b'a'; 300_000], b"aaaab".repeat(60_000)] {
                let mut steps = 0;
                strings.earliest(&text, &mut steps);
                assert!(steps <= 2 * text.len(), "{steps} steps for {} bytes", text.len());
            }
        }
    }
}

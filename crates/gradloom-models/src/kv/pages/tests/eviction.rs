//! Compares cached, found and evicted blocks with a naive model that stores whole texts and searches all of
//! them.

use super::*;
use std::collections::BTreeMap;

/// Known prefixes, each with all of its tokens and the time of its last use.
struct Model {
    capacity: usize,
    block_size: usize,
    time: u64,
    known: BTreeMap<Vec<i32>, u64>,
    /// Tokens and total number of blocks of each live sequence.
    live: Vec<(SequenceId, Vec<i32>, usize)>,
}

impl Model {
    fn in_use(&self, prefix: &[i32]) -> bool {
        self.live.iter().any(|(_, tokens, _)| tokens.starts_with(prefix))
    }

    fn counts(&self) -> Counts {
        let used_prefixes = self.known.keys().filter(|prefix| self.in_use(prefix)).count();
        let partial = self.live.iter().map(|(_, tokens, blocks)| blocks - tokens.len() / self.block_size);
        let (used, cached) = (used_prefixes + partial.sum::<usize>(), self.known.len() - used_prefixes);
        Counts { free: self.capacity - used - cached, cached, used }
    }

    fn find(&self, prompt: &[i32]) -> usize {
        let whole = (1..).map(|blocks| blocks * self.block_size).take_while(|&end| end < prompt.len());
        whole.take_while(|&end| self.known.contains_key(&prompt[..end])).last().unwrap_or(0)
    }

    /// Evicts prefixes for `wanted` blocks. Returns `false` if there are too few free and cached blocks.
    fn evict(&mut self, wanted: usize) -> bool {
        let Counts { free, cached, .. } = self.counts();
        if wanted > free + cached {
            return false;
        }
        for _ in free..wanted {
            let is_leaf = |prefix: &Vec<i32>| {
                !self.known.keys().any(|other| other.len() > prefix.len() && other.starts_with(prefix))
            };
            let idle = self.known.iter().filter(|&(prefix, _)| !self.in_use(prefix) && is_leaf(prefix));
            let victim = idle.min_by_key(|&(_, time)| time).unwrap().0.clone();
            self.known.remove(&victim);
        }
        true
    }

    fn grow(&mut self, i: usize, more: &[i32]) -> bool {
        let (_, tokens, blocks) = &self.live[i];
        let (length, blocks) = (tokens.len(), *blocks);
        let needed = (length + more.len()).div_ceil(self.block_size);
        if needed > blocks && !self.evict(needed - blocks) {
            return false;
        }
        let (_, tokens, blocks) = &mut self.live[i];
        tokens.extend(more);
        *blocks = needed.max(*blocks);
        for end in (length + 1..=tokens.len()).filter(|end| end % self.block_size == 0) {
            self.known.insert(tokens[..end].to_vec(), 0);
        }
        true
    }

    fn end(&mut self, i: usize) {
        let (_, tokens, _) = self.live.swap_remove(i);
        self.time += 1;
        for end in (1..=tokens.len() / self.block_size).map(|blocks| blocks * self.block_size) {
            *self.known.get_mut(&tokens[..end]).unwrap() = self.time;
        }
    }
}

#[test]
fn the_least_recently_used_leaf_goes_first() {
    let (mut evictions, mut hits, mut refused) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = Random(seed, 0);
        let (capacity, block_size) = (1 + random.below(12), 1 + random.below(3));
        let mut pages = pages(capacity, block_size);
        let (time, known, live) = (0, BTreeMap::new(), Vec::new());
        let mut model = Model { capacity, block_size, time, known, live };
        for _ in 0..500 {
            match random.below(3) {
                0 if model.live.len() < 4 => {
                    let prompt = random.tokens(4 * block_size);
                    let begun = pages.begin(&prompt);
                    assert_eq!(begun.cached, model.find(&prompt), "{prompt:?} of {:?}", model.known);
                    hits += usize::from(begun.cached > 0);
                    let text = prompt[..begun.cached].to_vec();
                    model.live.push((begun.sequence, text, begun.cached / block_size));
                }
                1 if !model.live.is_empty() => {
                    let i = random.below(model.live.len());
                    let more = random.tokens(2 * block_size);
                    let before = model.known.len();
                    let grown = append(&mut pages, model.live[i].0, &more);
                    assert_eq!(grown.is_ok(), model.grow(i, &more), "{grown:?}");
                    evictions += usize::from(model.known.len() < before);
                    refused += usize::from(grown.is_err());
                }
                _ if !model.live.is_empty() => {
                    let i = random.below(model.live.len());
                    pages.end(model.live[i].0).unwrap();
                    model.end(i);
                }
                _ => {}
            }
            pages.check();
            assert_eq!(pages.counts(), model.counts());
        }
    }
    assert!(evictions > 500 && hits > 500 && refused > 500, "{evictions} {hits} {refused}");
}

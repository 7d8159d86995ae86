//! Random steps on a simulated device. Each position of its memory stores a hash of all tokens up to it,
//! which, like keys and values, depends on the whole prefix. Every position of every live sequence must keep
//! its hash. Simulated faults: memory runs out, copies fail, steps fail after some of their writes, and
//! sequences end while their copies are pending.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the FNV-1a hash (Fowler, Noll, Vo) of a text, given that of the text before its last token.
fn content(before: u64, token: i32) -> u64 {
    (before ^ (token as u64 + 1)).wrapping_mul(0x0000_0100_0000_01b3)
}

const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

struct Device {
    pages: Pages,
    memory: Vec<u64>,
    live: BTreeMap<SequenceId, Text>,
    random: Random,
    seen: Seen,
}

#[derive(Clone, Default)]
struct Text {
    tokens: Vec<i32>,
    /// Rest of the prompt, which is not computed yet.
    rest: Vec<i32>,
}

/// Numbers of cases encountered, so that the test cannot pass without covering them.
#[derive(Debug, Default)]
struct Seen {
    cached: usize,
    refused: usize,
    copies: usize,
    preempted: usize,
    failed: usize,
    rejected: usize,
    unified: usize,
}

impl Device {
    fn new(seed: u32) -> Self {
        let mut random = Random(seed, 0);
        let (capacity, block_size) = (1 + random.below(14), 1 + random.below(4));
        let memory = vec![0; (capacity + 1) * block_size];
        let (live, seen) = (BTreeMap::new(), Seen::default());
        Self { pages: pages(capacity, block_size), memory, live, random, seen }
    }

    fn any(&mut self) -> Option<SequenceId> {
        let n = self.random.below(self.live.len().max(1));
        self.live.keys().nth(n).copied()
    }

    fn operation(&mut self) {
        match (self.random.below(20), self.any()) {
            (0..3, _) | (_, None) if self.live.len() < 6 => {
                let prompt = self.random.tokens(5 * self.pages.block_size());
                let begun = self.pages.begin(&prompt);
                self.seen.cached += usize::from(begun.cached > 0);
                let (tokens, rest) = prompt.split_at(begun.cached);
                let text = Text { tokens: tokens.to_vec(), rest: rest.to_vec() };
                self.live.insert(begun.sequence, text);
            }
            (3, _) if self.live.len() < 6 => {
                self.live.insert(self.pages.begin_private(), Text::default());
            }
            (4..6, Some(id)) if self.live.len() < 6 => {
                let fork = self.pages.fork(id).unwrap();
                let text = self.live[&id].clone();
                self.live.insert(fork, text);
            }
            (6, Some(id)) => self.end(id),
            (7..9, Some(id)) => {
                let text = self.live.get_mut(&id).unwrap();
                let length = self.random.below(text.tokens.len() + 1);
                text.tokens.truncate(length);
                text.rest.clear();
                self.pages.truncate(id, length).unwrap();
            }
            (9, Some(_)) if self.random.below(20) == 0 => self.pages.forget_prefixes(),
            _ => self.step(),
        }
    }

    fn end(&mut self, id: SequenceId) {
        self.pages.end(id).unwrap();
        self.live.remove(&id);
    }

    /// Reserves space for tokens. If there are too few blocks, possibly ends another sequence.
    fn reserve(&mut self, id: SequenceId, tokens: usize, copies: &mut Vec<BlockCopy>) -> bool {
        loop {
            let before = self.pages.clone();
            match self.pages.reserve(id, tokens) {
                Ok(copy) => {
                    copies.extend(copy);
                    return true;
                }
                Err(PagesError::OutOfBlocks { wanted, free, cached }) => {
                    assert!(self.pages == before);
                    assert_eq!((before.counts().free, before.counts().cached), (free, cached));
                    let has = self.pages.tokens(id).unwrap().len() + self.pages.room(id).unwrap();
                    let needed = (self.live[&id].tokens.len() + tokens).div_ceil(self.pages.block_size());
                    let fresh = needed - has.div_ceil(self.pages.block_size());
                    assert!(wanted > free + cached && (wanted == fresh || wanted == fresh + 1));
                    self.seen.refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
            match self.any() {
                Some(victim) if victim != id && self.random.below(2) == 0 => self.end(victim),
                _ => return false,
            }
            self.seen.preempted += 1;
            self.pages.check();
        }
    }

    /// Runs one step: reserves, copies, writes and commits, each of which may fail.
    fn step(&mut self) {
        let mut copies = Vec::new();
        let mut chosen: Vec<(SequenceId, Vec<i32>)> = Vec::new();
        for id in self.live.keys().copied().collect::<Vec<_>>() {
            if !self.live.contains_key(&id) || self.random.below(2) == 0 {
                continue;
            }
            let rest = &self.live[&id].rest;
            let new = if rest.is_empty() {
                self.random.tokens(3)
            } else {
                rest[..1 + self.random.below(rest.len())].to_vec()
            };
            if self.reserve(id, new.len(), &mut copies) {
                chosen.push((id, new));
            }
            // Fork sequences between the reservations of a step too.
            if self.random.below(8) == 0 && self.live.len() < 6 && self.live.contains_key(&id) {
                let fork = self.pages.fork(id).unwrap();
                self.live.insert(fork, self.live[&id].clone());
            }
            self.pages.check();
        }
        chosen.retain(|(id, _)| self.live.contains_key(id));
        match self.random.below(8) {
            0 => return self.recover(&copies),
            1..4 => self.copy_at_once(&copies),
            _ => self.copy_in_order(&copies),
        }
        self.compare();
        let writes = if self.random.below(8) == 0 { self.random.below(20) } else { usize::MAX };
        self.write(&chosen, writes);
        for (id, new) in chosen {
            if writes != usize::MAX {
                let length = self.live[&id].tokens.len();
                self.pages.truncate(id, length).unwrap();
                self.seen.failed += 1;
                continue;
            }
            // Reject some of the new tokens, as speculative decoding does.
            let accepted =
                if self.random.below(4) == 0 { self.random.below(new.len() + 1) } else { new.len() };
            let table = self.pages.table(id).unwrap().to_vec();
            self.pages.commit(id, &new[..accepted]).unwrap();
            self.seen.unified += usize::from(self.pages.table(id).unwrap() != table);
            let text = self.live.get_mut(&id).unwrap();
            text.tokens.extend(&new[..accepted]);
            text.rest.drain(..accepted.min(text.rest.len()));
            if accepted < new.len() {
                let length = text.tokens.len();
                self.pages.truncate(id, length).unwrap();
                self.seen.rejected += 1;
            }
        }
    }

    /// Recovers from failed copies: sequences drop the destination blocks and recompute them later.
    fn recover(&mut self, copies: &[BlockCopy]) {
        let targets: BTreeSet<_> = copies.iter().map(|copy| copy.to).collect();
        for (&id, text) in &mut self.live {
            let mut length = text.tokens.len();
            if self.pages.table(id).unwrap().iter().any(|block| targets.contains(block)) {
                length -= length % self.pages.block_size();
                text.tokens.truncate(length);
                text.rest.clear();
            }
            self.pages.truncate(id, length).unwrap();
        }
        self.seen.failed += 1;
    }

    fn copy_in_order(&mut self, copies: &[BlockCopy]) {
        let size = self.pages.block_size();
        for copy in copies {
            let from = copy.from.index() * size;
            self.memory.copy_within(from..from + size, copy.to.index() * size);
            self.seen.copies += 1;
        }
    }

    fn copy_at_once(&mut self, copies: &[BlockCopy]) {
        let (size, old) = (self.pages.block_size(), self.memory.clone());
        for copy in BlockCopy::at_once(copies) {
            let (from, to) = (copy.from.index() * size, copy.to.index() * size);
            self.memory[to..to + size].copy_from_slice(&old[from..from + size]);
        }
    }

    /// Writes the new tokens to the positions that the batch specifies, stopping after `writes` writes.
    fn write(&mut self, chosen: &[(SequenceId, Vec<i32>)], writes: usize) {
        let time = chosen.iter().map(|(_, new)| new.len()).max().unwrap_or(0) + 1;
        let (rows, blocks) = (chosen.len() + 1, self.pages.capacity());
        let counts: Vec<_> = chosen.iter().map(|(id, new)| (*id, new.len())).collect();
        let batch = self.pages.batch_of(&counts, BatchShape { rows, time, blocks }).unwrap();
        let mut written = BTreeSet::new();
        let size = self.pages.block_size();
        let places = (0..rows).flat_map(|row| (0..time).map(move |t| (row, t)));
        for (row, t) in places.take(writes) {
            let position = batch.starts[row] as usize + t;
            if position >= batch.lengths[row] as usize {
                continue;
            }
            let (id, new) = &chosen[row];
            let block = batch.tables[row * blocks + position / size] as usize;
            assert_ne!(block, BlockId::PADDING.index());
            let slot = block * size + position % size;
            assert!(written.insert(slot), "two tokens for one place");
            let text = self.live[id].tokens.iter().chain(&new[..=t]);
            self.memory[slot] = text.fold(EMPTY, |before, &token| content(before, token));
        }
        for (row, (id, new)) in chosen.iter().enumerate() {
            let length = self.live[id].tokens.len();
            assert_eq!(batch.starts[row] as usize, length);
            assert_eq!(batch.lengths[row] as usize, length + new.len());
            if writes == usize::MAX {
                let table = batch.tables[row * blocks..][..blocks].iter().map(|&block| block as usize);
                let tokens: Vec<_> = self.live[id].tokens.iter().chain(new).copied().collect();
                self.holds(&table.collect::<Vec<_>>(), &tokens);
            }
        }
    }

    /// Checks the hashes of a text at the positions in a table.
    fn holds(&self, table: &[usize], tokens: &[i32]) {
        let (size, mut expected) = (self.pages.block_size(), EMPTY);
        for (p, &token) in tokens.iter().enumerate() {
            expected = content(expected, token);
            assert_eq!(
                self.memory[table[p / size] * size + p % size],
                expected,
                "position {p} of {tokens:?}"
            );
        }
    }

    fn compare(&self) {
        self.pages.check();
        assert!(self.pages.sequences().eq(self.live.keys().copied()));
        for (&id, text) in &self.live {
            assert_eq!(self.pages.tokens(id).unwrap(), text.tokens);
            let table: Vec<_> = self.pages.table(id).unwrap().iter().map(|block| block.index()).collect();
            self.holds(&table, &text.tokens);
        }
    }
}

#[test]
fn every_sequence_keeps_its_own_text() {
    let mut all = Seen::default();
    for seed in 0..300 {
        let mut device = Device::new(seed);
        for _ in 0..1000 {
            device.operation();
            device.compare();
        }
        for id in device.live.keys().copied().collect::<Vec<_>>() {
            device.end(id);
        }
        device.compare();
        assert_eq!(device.pages.counts().used, 0);
        let seen = device.seen;
        all.cached += seen.cached;
        all.refused += seen.refused;
        all.copies += seen.copies;
        all.preempted += seen.preempted;
        all.failed += seen.failed;
        all.rejected += seen.rejected;
        all.unified += seen.unified;
    }
    let least = [all.cached, all.refused, all.copies, all.preempted, all.failed, all.rejected, all.unified];
    assert!(least.into_iter().all(|n| n > 1000), "{all:?}");
}

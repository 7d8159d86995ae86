//! Recomputation and checking of the invariants of paged memory, for tests.

use super::{BlockId, Counts, Pages};
use std::collections::{BTreeMap, BTreeSet};

impl Pages {
    /// Checks all invariants from scratch. Intended for tests, including those of users of this module.
    ///
    /// # Panics
    /// Panics if an invariant is violated, which is a bug in this module.
    pub fn check(&self) {
        self.check_blocks();
        self.check_tree();
        self.check_sequences();
    }

    /// Checks that user counts match the tables, each block has one state, and the counts match the states.
    fn check_blocks(&self) {
        let mut users = vec![0; self.blocks.users.len()];
        self.sequences.values().flat_map(|s| &s.table).for_each(|block| users[block.index()] += 1);
        assert_eq!(self.blocks.users, users, "users are the tables that list a block");
        assert_eq!(users[0], 0, "no table lists the scratch block");
        let free: BTreeSet<_> = self.blocks.free.iter().map(|block| block.index()).collect();
        assert_eq!(free.len(), self.blocks.free.len(), "a block is free once");

        let mut counts = Counts { free: self.capacity() + 1 - users.len(), cached: 0, used: 0 };
        for (block, &users) in users.iter().enumerate().skip(1) {
            let in_tree = self.blocks.prefixes.nodes.contains_key(&BlockId(block as u32));
            match (free.contains(&block), users > 0, in_tree) {
                (true, false, false) => counts.free += 1,
                (false, true, _) => counts.used += 1,
                (false, false, true) => counts.cached += 1,
                states => panic!("block {block}: (free, used, in the tree) are {states:?}"),
            }
        }
        assert!(!free.contains(&0), "the scratch block is not free");
        assert_eq!(self.counts(), counts);
        assert_eq!(counts.free + counts.cached + counts.used, self.capacity());
    }

    /// Checks that parents and children agree, and that a block without users was released after all its
    /// descendants.
    fn check_tree(&self) {
        let nodes = &self.blocks.prefixes.nodes;
        let mut released = BTreeMap::new();
        for (&block, node) in nodes {
            for (tokens, child) in &node.children {
                assert_eq!(nodes[child].parent, block);
                assert_eq!(nodes[child].tokens, *tokens);
            }
            if block == BlockId::PADDING {
                continue;
            }
            assert_eq!(node.tokens.len(), self.block_size);
            assert_eq!(nodes[&node.parent].children.get(&node.tokens), Some(&block));
            let used = self.blocks.users[block.index()] > 0;
            assert_eq!(node.released.is_none(), used, "{block:?}: released if not used");
            if let Some(time) = node.released {
                released.insert(time, block);
                let parent = &nodes[&node.parent].released;
                assert!(parent.is_none_or(|later| later > time), "{block:?} was released after its parent");
            }
        }
        assert_eq!(self.blocks.prefixes.released, released, "blocks without users by time");
    }

    /// Checks that tables match the length and space of their texts and follow the tree, and that no position
    /// has two writers.
    fn check_sequences(&self) {
        let nodes = &self.blocks.prefixes.nodes;
        let mut writers = BTreeSet::new();
        for (id, sequence) in &self.sequences {
            let length = sequence.tokens.len();
            let end = if sequence.room > 0 { self.block_size * sequence.table.len() } else { length };
            assert_eq!(length + sequence.room, end, "{id}: room is up to the end of the table");
            assert_eq!(sequence.table.len(), end.div_ceil(self.block_size), "{id}: its blocks");

            let mut parent = BlockId::PADDING;
            for (&block, tokens) in sequence.table.iter().zip(sequence.tokens.chunks(self.block_size)) {
                let node = nodes.get(&block);
                assert!(sequence.shares || node.is_none(), "{id} is private, but in the tree");
                assert!(
                    !sequence.shares || node.is_some() || tokens.len() < self.block_size,
                    "{id}: no path"
                );
                if let Some(node) = node {
                    assert_eq!(node.parent, parent, "{id}: {block:?} is of another text");
                    assert_eq!(node.tokens[..tokens.len()], *tokens, "{id}: {block:?} has other tokens");
                }
                parent = block;
            }
            if sequence.room > 0 {
                for (i, &block) in sequence.table.iter().enumerate().skip(length / self.block_size) {
                    assert!(writers.insert(block), "{id}: {block:?} has two writers");
                    assert!(!nodes.contains_key(&block), "{id}: {block:?} is written, and in the tree");
                    for (other, reader) in &self.sequences {
                        if other != id && reader.table.get(i) == Some(&block) {
                            assert!(reader.tokens.len() <= length, "{id} may write what {other} reads");
                        }
                    }
                }
            }
        }
    }
}

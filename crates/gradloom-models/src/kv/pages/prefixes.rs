//! The tree of prefixes, which maps a text to the blocks that contain its keys and values.
//!
//! In: full blocks with their tokens, and the blocks that gain their first user or lose their last one. Out:
//! the block that continues a text with given tokens, and the block to evict. A node is one block. Tokens
//! themselves are compared, not only their hashes. Looking up a path of n tokens takes O(n), an eviction
//! O(log blocks).
//!
//! Invariant: every user of a block uses all blocks on the path to it, and releases the end of the path
//! first. A block without users was therefore released after all its descendants, so the one that was
//! released first is a leaf, and all blocks without users can be evicted one after the other.

use super::BlockId;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prefixes {
    /// Nodes by block. The root, which represents the empty text, has the key [`BlockId::PADDING`].
    pub(super) nodes: HashMap<BlockId, Node>,
    /// Blocks without users, by release time.
    pub(super) released: BTreeMap<u64, BlockId>,
    /// Number of releases so far, which serves as the time of the next one.
    clock: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) parent: BlockId,
    /// Tokens of the full block. Empty for the root.
    pub(super) tokens: Arc<[i32]>,
    pub(super) children: HashMap<Arc<[i32]>, BlockId>,
    /// Time at which the last user released the block, or `None` while it has users.
    pub(super) released: Option<u64>,
}

impl Node {
    fn new(parent: BlockId, tokens: Arc<[i32]>) -> Self {
        Self { parent, tokens, children: HashMap::new(), released: None }
    }
}

impl Prefixes {
    pub(super) fn new() -> Self {
        let root = Node::new(BlockId::PADDING, Arc::new([]));
        Self { nodes: HashMap::from([(BlockId::PADDING, root)]), released: BTreeMap::new(), clock: 0 }
    }

    /// Returns the number of blocks without users.
    pub(super) fn idle(&self) -> usize {
        self.released.len()
    }

    /// Returns the block that continues `parent` with these tokens.
    pub(super) fn child(&self, parent: BlockId, tokens: &[i32]) -> Option<BlockId> {
        self.nodes[&parent].children.get(tokens).copied()
    }

    /// Returns the number of children of a block, or 0 if it is not in the tree.
    pub(super) fn continuations(&self, block: BlockId) -> usize {
        self.nodes.get(&block).map_or(0, |node| node.children.len())
    }

    /// Adds a used block as a child of `parent`, which has the same user.
    pub(super) fn insert(&mut self, parent: BlockId, tokens: &[i32], block: BlockId) {
        let tokens: Arc<[i32]> = tokens.into();
        self.node(parent).children.insert(tokens.clone(), block);
        self.nodes.insert(block, Node::new(parent, tokens));
    }

    /// Marks a block without users as used again.
    pub(super) fn wake(&mut self, block: BlockId) {
        let time = self.node(block).released.take().expect("it had no users");
        self.released.remove(&time);
    }

    /// Marks a block as without users. Returns `false` if it is not in the tree.
    pub(super) fn rest(&mut self, block: BlockId) -> bool {
        let Some(node) = self.nodes.get_mut(&block) else { return false };
        node.released = Some(self.clock);
        self.released.insert(self.clock, block);
        self.clock += 1;
        true
    }

    /// Removes a block from the tree, if it is there. The block must be a leaf.
    pub(super) fn remove(&mut self, block: BlockId) {
        if let Some(node) = self.nodes.remove(&block) {
            self.node(node.parent).children.remove(&node.tokens);
        }
    }

    /// Removes and returns the block that has been without users for the longest time.
    pub(super) fn evict(&mut self) -> Option<BlockId> {
        let (_, block) = self.released.pop_first()?;
        self.remove(block);
        Some(block)
    }

    fn node(&mut self, block: BlockId) -> &mut Node {
        self.nodes.get_mut(&block).expect("a block of the tree")
    }
}

//! The tree of prefixes: which block holds the keys and values of which tokens after which text.
//!
//! In: full blocks with their tokens; which of them have users. Out: the block that continues a text with
//! given tokens; the block to evict. A node is one block. Tokens are compared, never only their hash. A path
//! of n tokens costs O(n), an eviction O(log blocks).
//!
//! Always holds: whatever uses a block uses the blocks on the path to it, and releases the end of a path
//! first. So a block without users was released after all that continue its text: the block that was released
//! first is a leaf, and all blocks without users can be evicted, one after the other.

use super::BlockId;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prefixes {
    /// By block. The root, which stands for the empty text, is filed under [`BlockId::PADDING`].
    pub(super) nodes: HashMap<BlockId, Node>,
    /// The blocks without users, by the time of their release.
    pub(super) released: BTreeMap<u64, BlockId>,
    /// Counts releases. All times differ.
    clock: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) parent: BlockId,
    /// The block's tokens, as many as a block holds; none in the root.
    pub(super) tokens: Arc<[i32]>,
    pub(super) children: HashMap<Arc<[i32]>, BlockId>,
    /// When the last user released it; none while it is used.
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

    /// Returns the number of blocks in the tree that continue a block; 0 if the block is not in the tree.
    pub(super) fn continuations(&self, block: BlockId) -> usize {
        self.nodes.get(&block).map_or(0, |node| node.children.len())
    }

    /// Adds a used block behind `parent`, which has the same user.
    pub(super) fn insert(&mut self, parent: BlockId, tokens: &[i32], block: BlockId) {
        let tokens: Arc<[i32]> = tokens.into();
        self.node(parent).children.insert(tokens.clone(), block);
        self.nodes.insert(block, Node::new(parent, tokens));
    }

    /// Notes that a block without users is used again.
    pub(super) fn wake(&mut self, block: BlockId) {
        let time = self.node(block).released.take().expect("it had no users");
        self.released.remove(&time);
    }

    /// Notes that a block has lost its last user; false if it is not in the tree.
    pub(super) fn rest(&mut self, block: BlockId) -> bool {
        let Some(node) = self.nodes.get_mut(&block) else { return false };
        node.released = Some(self.clock);
        self.released.insert(self.clock, block);
        self.clock += 1;
        true
    }

    /// Takes a block that nothing continues out of the tree, if it is there.
    pub(super) fn remove(&mut self, block: BlockId) {
        if let Some(node) = self.nodes.remove(&block) {
            self.node(node.parent).children.remove(&node.tokens);
        }
    }

    /// Takes the block out of the tree that has had no users for the longest time.
    pub(super) fn evict(&mut self) -> Option<BlockId> {
        let (_, block) = self.released.pop_first()?;
        self.remove(block);
        Some(block)
    }

    fn node(&mut self, block: BlockId) -> &mut Node {
        self.nodes.get_mut(&block).expect("a block of the tree")
    }
}

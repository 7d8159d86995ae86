//! The traversal shared by all passes that rebuild the graph.
//!
//! A new graph is created by visiting the ops of the old graph in order and replacing each according to a
//! rule. The rule receives values of the new graph, whose ops are already rewritten. Unreachable parts of the
//! old graph are dropped, and ids are compact.

use crate::collections::IdMap;
use crate::ir::{
    Arena, Block, BlockId, Builder, Graph, Guard, Id, Op, OpId, OpKind, Output, Update, ValueId,
};

/// An op of the old graph that is about to be added to the new one.
pub(super) struct Candidate<'a> {
    pub(super) old: &'a Op,
    /// Kind of the op, with blocks of the new graph.
    pub(super) kind: &'a OpKind,
    /// Operands in the new graph.
    pub(super) operands: &'a [ValueId],
}

/// Rebuilds the ops for which `stays` returns `true`. They must not use the results of dropped ops. The rule
/// returns the replacements for an op's results, or `None` to keep the op. Its builder appends to the new
/// graph with the op's origin.
pub(super) fn rebuild(
    old: &Graph,
    stays: impl Fn(OpId) -> bool,
    mut rule: impl FnMut(&mut Builder<'_>, &Candidate<'_>) -> Option<Vec<ValueId>>,
) -> Graph {
    let mut new = Graph { origins: old.origins.clone(), customs: old.customs.clone(), ..Graph::new() };
    let mut walk = Walk {
        old,
        stays: &stays,
        rule: &mut rule,
        values: vec![None; old.values.len()],
        blocks: IdMap::new(),
    };
    walk.ops(&mut new, old.entry);
    new.outputs = old.outputs.iter().map(|o| Output { value: walk.value(o.value), ..o.clone() }).collect();
    new.guards = old.guards.iter().map(|g| Guard { value: walk.value(g.value), ..g.clone() }).collect();
    new.updates = old
        .updates
        .iter()
        .map(|update| Update {
            target: walk.value(update.target),
            region: update.region.as_ref().map(|starts| walk.all(starts)),
            value: walk.value(update.value),
            must_alias: update.must_alias,
        })
        .collect();
    new
}

type RuleRef<'a> = &'a mut dyn FnMut(&mut Builder<'_>, &Candidate<'_>) -> Option<Vec<ValueId>>;

struct Walk<'a> {
    old: &'a Graph,
    stays: &'a dyn Fn(OpId) -> bool,
    rule: RuleRef<'a>,
    /// New value of each value of the old graph.
    values: Vec<Option<ValueId>>,
    /// New block of each block that an op runs.
    blocks: IdMap<BlockId, BlockId>,
}

impl Walk<'_> {
    fn value(&self, old: ValueId) -> ValueId {
        self.values[old.index()].unwrap_or_else(|| panic!("a pass dropped {old}, which is used"))
    }

    fn all(&self, old: &[ValueId]) -> Vec<ValueId> {
        old.iter().map(|&v| self.value(v)).collect()
    }

    /// Rebuilds the ops of a block at the cursor of the new graph.
    fn ops(&mut self, new: &mut Graph, block: BlockId) {
        for &id in &self.old.blocks[block].ops {
            if (self.stays)(id) {
                self.op(new, id);
            }
        }
    }

    fn op(&mut self, new: &mut Graph, id: OpId) {
        let old = &self.old.ops[id];
        let operands = self.all(&old.operands);
        let kind = match old.kind {
            OpKind::Repeat { block, trip, carried } => {
                OpKind::Repeat { block: self.block(new, block), trip, carried }
            }
            OpKind::Checkpoint { block } => OpKind::Checkpoint { block: self.block(new, block) },
            ref kind => kind.clone(),
        };
        let candidate = Candidate { old, kind: &kind, operands: &operands };
        if let Some(results) = (self.rule)(&mut Builder::new(new, old.origin), &candidate) {
            self.replace(new, old, &results);
        } else {
            // Replacements have the types of the replaced values, so the result types of the op are
            // unchanged.
            let types = old.results.iter().map(|&result| self.old.ty(result).clone());
            let op = new.add_typed(kind, operands, types, old.origin);
            self.replace(new, old, &new.ops[op].results);
        }
    }

    fn replace(&mut self, new: &Graph, old: &Op, results: &[ValueId]) {
        for (&from, &to) in old.results.iter().zip(results) {
            debug_assert_eq!(self.old.ty(from), new.ty(to), "a pass changed the type of {}", old.kind.name());
            self.values[from.index()] = Some(to);
        }
    }

    /// Returns the rebuilt version of a block that an op runs.
    fn block(&mut self, new: &mut Graph, block: BlockId) -> BlockId {
        if let Some(&done) = self.blocks.get(&block) {
            return done;
        }
        let body = &self.old.blocks[block];
        let types: Vec<_> = body.params.iter().map(|&v| self.old.ty(v).clone()).collect();
        let rebuilt = new.add_block(&types);
        for (&from, &to) in body.params.iter().zip(&new.blocks[rebuilt].params) {
            self.values[from.index()] = Some(to);
        }
        let cursor = std::mem::replace(&mut new.cursor, rebuilt);
        self.ops(new, block);
        new.cursor = cursor;
        new.blocks[rebuilt].results = self.all(&body.results);
        self.blocks.insert(block, rebuilt);
        rebuilt
    }
}

/// Returns `true` if two graphs have the same ops in the same order, and the same outputs, updates and
/// guards.
pub(super) fn same(a: &Graph, b: &Graph) -> bool {
    fn parts(graph: &Graph) -> (&Arena<OpId, Op>, &Arena<BlockId, Block>) {
        (&graph.ops, &graph.blocks)
    }
    parts(a) == parts(b) && (&a.outputs, &a.updates, &a.guards) == (&b.outputs, &b.updates, &b.guards)
}

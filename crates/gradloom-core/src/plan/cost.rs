//! Minimum cost of a launch: floating-point operations and bytes transferred.
//!
//! The [`Cost`] of a launch depends only on shapes and memory locations, never on data.
//!
//! Operations are counted as in [`OpKind::flops`], the count used for rooflines. Bytes are those of the
//! distinct elements that a kernel must read or write once. A broadcast element and an operand that occurs
//! twice are read once.
//!
//! Counts saturate at `u64::MAX`, for example for a product of views that repeat an element.

use super::{Plan, Region};
use crate::ir::{DType, OpKind, Shape, product};
use crate::kernel::{Access, Body, Kernel, Launch, Layout, NodeKind, Store};
use std::ops::{Add, AddAssign};

/// The minimum cost of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of floating-point operations. 0 for a user-defined op, whose cost is unknown.
    pub flops: u64,
    /// Number of bytes of the distinct elements that are read.
    pub bytes_read: u64,
    /// Number of bytes of the elements that are written.
    pub bytes_written: u64,
}

impl Cost {
    /// Returns the number of bytes that are read or written.
    pub fn bytes(&self) -> u64 {
        self.bytes_read.saturating_add(self.bytes_written)
    }
}

impl Add for Cost {
    type Output = Cost;
    fn add(self, other: Cost) -> Cost {
        Cost {
            flops: self.flops.saturating_add(other.flops),
            bytes_read: self.bytes_read.saturating_add(other.bytes_read),
            bytes_written: self.bytes_written.saturating_add(other.bytes_written),
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        *self = *self + other;
    }
}

/// Returns the cost of a launch of the plan. The plan determines which results are written in place, where
/// untouched elements cost nothing.
pub fn cost(plan: &Plan, launch: &Launch) -> Cost {
    kernel(plan, &launch.kernel, &launch.reads, &launch.writes)
}

fn kernel(plan: &Plan, kernel: &Kernel, reads: &[Access], writes: &[Access]) -> Cost {
    match kernel {
        Kernel::Op(kind) => op(plan, kind, reads, writes),
        Kernel::Loop(body) => all(body_flops(body), reads, writes),
        Kernel::Dot { axes, epilogue } => {
            let products = product([epilogue.rows, epilogue.columns]);
            let flops = axes.flops(&reads[0].layout.shape, products).saturating_add(body_flops(epilogue));
            all(flops, reads, writes)
        }
        Kernel::Attention { spec, epilogue } => {
            let flops = OpKind::Attention(*spec).flops(&types(reads), &types(writes));
            all(flops.saturating_add(body_flops(epilogue)), reads, writes)
        }
        Kernel::Group(parts) => parts.iter().fold(Cost::default(), |sum, part| {
            let (reads, writes) = (&reads[part.reads.clone()], &writes[part.writes.clone()]);
            sum + self::kernel(plan, &part.kernel, reads, writes)
        }),
        Kernel::Copy => all(0, reads, writes),
        Kernel::WriteRegion => {
            Cost { flops: 0, bytes_read: distinct_bytes(reads), bytes_written: bytes(&reads[0]) }
        }
    }
}

fn op(plan: &Plan, kind: &OpKind, reads: &[Access], writes: &[Access]) -> Cost {
    let flops = kind.flops(&types(reads), &types(writes));
    match kind {
        OpKind::Scatter { .. } => scatter_add(plan, flops, reads, writes),
        // Only the selected rows are read, not the whole table.
        OpKind::Gather { .. } | OpKind::DynamicSlice { .. } => {
            let indices = distinct_bytes(&reads[1..]);
            let bytes_written = bytes(&writes[0]);
            Cost { flops, bytes_read: bytes_written.saturating_add(indices), bytes_written }
        }
        OpKind::DynamicUpdateSlice if in_place(plan, &reads[0], &writes[0]) => {
            Cost { flops, bytes_read: distinct_bytes(&reads[1..]), bytes_written: bytes(&reads[1]) }
        }
        _ => all(flops, reads, writes),
    }
}

fn types(accesses: &[Access]) -> Vec<(DType, &Shape)> {
    accesses.iter().map(|access| (access.dtype, &access.layout.shape)).collect()
}

/// Returns the cost of a scatter. In place, it reads and writes only the updated rows.
fn scatter_add(plan: &Plan, flops: u64, reads: &[Access], writes: &[Access]) -> Cost {
    let updates = reads[2].layout.shape.elements() as u64;
    let whole = all(flops, reads, writes);
    if !in_place(plan, &reads[0], &writes[0]) {
        return whole;
    }
    // Repeated updates of a row hit the cache, so at most the whole result is transferred.
    let touched = updates.saturating_mul(reads[2].dtype.bytes() as u64).min(bytes(&writes[0]));
    Cost { flops, bytes_read: distinct_bytes(&reads[1..]).saturating_add(touched), bytes_written: touched }
}

/// Returns the cost of reading and writing each distinct element once.
fn all(flops: u64, reads: &[Access], writes: &[Access]) -> Cost {
    Cost { flops, bytes_read: distinct_bytes(reads), bytes_written: sum(writes.iter().map(bytes)) }
}

fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

fn body_flops(body: &Body) -> u64 {
    let positions = product([body.rows, body.columns]);
    let node = |node: &crate::kernel::Node| match &node.kind {
        _ if node.dtype != DType::F32 => 0,
        NodeKind::Unary(..) | NodeKind::Binary(..) => body.elements(node.level) as u64,
        NodeKind::Reduce(..) => positions,
        NodeKind::Constant(_)
        | NodeKind::Load(_)
        | NodeKind::Column
        | NodeKind::Accumulator
        | NodeKind::Repeat(_)
        | NodeKind::Compare(..)
        | NodeKind::Select(_)
        | NodeKind::Cast(_)
        | NodeKind::CheckIndex { .. }
        | NodeKind::CheckDivisor(_) => 0,
    };
    let store = |store: &Store| match store {
        Store::ColumnReduce { node, .. } if body.node(*node).dtype == DType::F32 => positions,
        Store::ColumnReduce { .. } | Store::Value { .. } => 0,
    };
    sum(body.nodes.iter().map(node).chain(body.stores.iter().map(store)))
}

/// Returns the number of bytes of the distinct elements of an access. An axis of stride 0 repeats elements,
/// so its extent does not count.
fn bytes(access: &Access) -> u64 {
    let Layout { shape, strides, .. } = &access.layout;
    if shape.elements() == 0 {
        return 0;
    }
    let distinct = shape.iter().zip(strides).filter(|(_, stride)| **stride != 0).map(|(&n, _)| n);
    product(distinct.chain([access.dtype.bytes()]))
}

/// Returns the total number of bytes of the accesses, counting equal accesses once.
fn distinct_bytes(accesses: &[Access]) -> u64 {
    let first = |i: usize| !accesses[..i].contains(&accesses[i]);
    sum((0..accesses.len()).filter(|&i| first(i)).map(|i| bytes(&accesses[i])))
}

/// Returns `true` if the two accesses refer to the same bytes.
fn in_place(plan: &Plan, read: &Access, write: &Access) -> bool {
    let place = |access: &Access| -> Option<(Region, u64)> {
        let buffer = plan.buffer(access.buffer)?;
        Some((buffer.region, buffer.offset + access.start()))
    };
    read.layout == write.layout && place(read).is_some() && place(read) == place(write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::IdMap;
    use crate::ir::{
        AttentionSpec, BinaryOp, DotAxes, Id, Number, OpId, ReduceOp, ScatterOp, Shape, Type, UnaryOp,
        ValueId,
    };
    use crate::kernel::{Level, Node, NodeId, Part, Phase, Schedule};
    use crate::plan::{Buffer, Role, Totals};

    /// Returns a contiguous f32 access to a separate buffer.
    fn f32(buffer: usize, shape: &[usize]) -> Access {
        let layout = Layout::contiguous(&Shape::from(shape));
        Access { buffer: ValueId::from_index(buffer), dtype: DType::F32, layout, blocks: None }
    }

    fn i32(buffer: usize, shape: &[usize]) -> Access {
        Access { dtype: DType::I32, ..f32(buffer, shape) }
    }

    /// Returns the cost in a plan where each buffer is at 1 MiB times its number, except that the first
    /// buffer of each pair in `shared` is at the location of the second.
    fn cost_of(
        kernel: Kernel,
        reads: Vec<Access>,
        writes: Vec<Access>,
        shared: &[(usize, usize)],
    ) -> [u64; 3] {
        let mut plan = Plan {
            hoisted: Vec::new(),
            launches: Vec::new(),
            buffers: Vec::new(),
            buffer_of: IdMap::new(),
            outputs: Vec::new(),
            guards: Vec::new(),
            scratch: Vec::new(),
            totals: Totals::default(),
        };
        for access in reads.iter().chain(&writes) {
            let number = access.buffer.index();
            let place = shared.iter().find(|pair| pair.0 == number).map_or(number, |pair| pair.1);
            plan.buffer_of.insert(access.buffer, plan.buffers.len());
            plan.buffers.push(Buffer {
                value: access.buffer,
                ty: Type::new(access.dtype, access.layout.shape.clone()),
                role: Role::Temporary,
                bytes: access.end(),
                region: Region::Step,
                offset: (place as u64) << 20,
                first: 0,
                last: 0,
            });
        }
        let launch = Launch {
            op: OpId::from_index(0),
            kernel,
            reads,
            writes,
            may_alias: Vec::new(),
            schedule: Schedule::Whole,
            workspace: 0,
            phase: Phase::Compute,
        };
        let Cost { flops, bytes_read, bytes_written } = cost(&plan, &launch);
        [flops, bytes_read, bytes_written]
    }

    #[test]
    fn elementwise_ops_count_what_is_distinct() {
        let add = || Kernel::Op(OpKind::Binary(BinaryOp::Add));
        let (x, y) = (f32(0, &[3, 4]), f32(1, &[3, 4]));
        assert_eq!(cost_of(add(), vec![x.clone(), y], vec![f32(2, &[3, 4])], &[]), [12, 96, 48]);
        assert_eq!(cost_of(add(), vec![x.clone(), x.clone()], vec![f32(2, &[3, 4])], &[]), [12, 48, 48]);
        let mut row = f32(1, &[1, 4]);
        row.layout = row.layout.broadcast(&[3, 4].into());
        assert_eq!(cost_of(add(), vec![x.clone(), row], vec![f32(2, &[3, 4])], &[]), [12, 64, 48]);
        let integers = vec![i32(0, &[5]), i32(1, &[5])];
        assert_eq!(cost_of(add(), integers, vec![i32(2, &[5])], &[]), [0, 40, 20]);
        assert_eq!(cost_of(add(), vec![f32(0, &[0]); 2], vec![f32(2, &[0])], &[]), [0, 0, 0]);
        let sum = Kernel::Op(OpKind::Reduce { op: ReduceOp::Sum, axes: vec![0, 1] });
        assert_eq!(cost_of(sum, vec![x], vec![f32(2, &[])], &[]), [12, 48, 4]);
    }

    #[test]
    fn products_count_two_operations_a_pair() {
        let axes = DotAxes { lhs_contract: vec![1], rhs_contract: vec![0], ..DotAxes::default() };
        let reads = vec![f32(0, &[2, 3]), f32(1, &[3, 5])];
        let plain = cost_of(Kernel::Op(OpKind::Dot(axes.clone())), reads.clone(), vec![f32(2, &[2, 5])], &[]);
        assert_eq!(plain, [60, 84, 40]);
        // The product with a bias and a sum of each column in the epilogue, where the product itself is not
        // stored.
        let element = |kind| Node { kind, dtype: DType::F32, level: Level::Element };
        let epilogue = Body {
            rows: 2,
            columns: 5,
            nodes: vec![
                element(NodeKind::Accumulator),
                element(NodeKind::Load(2)),
                element(NodeKind::Binary(BinaryOp::Add, [NodeId(0), NodeId(1)])),
            ],
            stores: vec![Store::ColumnReduce { op: ReduceOp::Sum, node: NodeId(2), write: 0, parts: 1 }],
        };
        let mut bias = f32(3, &[1, 5]);
        bias.layout = bias.layout.broadcast(&[2, 5].into());
        let reads = [reads, vec![bias]].concat();
        let fused = cost_of(Kernel::Dot { axes, epilogue }, reads, vec![f32(2, &[5])], &[]);
        assert_eq!(fused, [60 + 10 + 10, 84 + 20, 20]);
    }

    /// Returns the body of `y = exp(x - mean(x))` as a row kernel.
    fn centred() -> Body {
        let node = |kind, level| Node { kind, dtype: DType::F32, level };
        Body {
            rows: 3,
            columns: 4,
            nodes: vec![
                node(NodeKind::Load(0), Level::Element),
                node(NodeKind::Reduce(ReduceOp::Sum, NodeId(0)), Level::Row),
                node(NodeKind::Constant(Number::Float(0.25)), Level::Uniform),
                node(NodeKind::Binary(BinaryOp::Mul, [NodeId(1), NodeId(2)]), Level::Row),
                node(NodeKind::Binary(BinaryOp::Sub, [NodeId(0), NodeId(3)]), Level::Element),
                node(NodeKind::Unary(UnaryOp::Exp, NodeId(4)), Level::Element),
            ],
            stores: vec![Store::Value { node: NodeId(5), level: Level::Element, write: 0 }],
        }
    }

    #[test]
    fn nodes_count_by_their_level_and_parts_add_up() {
        let one = [12 + 3 + 12 + 12, 48, 48];
        assert_eq!(cost_of(Kernel::Loop(centred()), vec![f32(0, &[3, 4])], vec![f32(1, &[3, 4])], &[]), one);
        let part = |i| Part {
            kernel: Kernel::Loop(centred()),
            reads: i..i + 1,
            writes: i..i + 1,
            schedule: Schedule::Whole,
            workspace: 0..0,
        };
        let group = Kernel::Group(vec![part(0), part(1)]);
        let two = |n| vec![f32(n, &[3, 4]), f32(n + 1, &[3, 4])];
        assert_eq!(cost_of(group, two(0), two(2), &[]), one.map(|n| 2 * n));
    }

    #[test]
    fn attention_counts_what_a_causal_query_sees() {
        let spec = |causal| AttentionSpec {
            causal,
            window: None,
            scale: 1.0,
            query_offset: false,
            key_length: false,
            block_table: false,
            dropout: None,
        };
        let reads = || vec![f32(0, &[2, 4, 3, 8]), f32(1, &[2, 2, 5, 8]), f32(2, &[2, 2, 5, 6])];
        let writes = || vec![f32(3, &[2, 4, 3, 6]), f32(4, &[2, 4, 3])];
        let flops = |kind| cost_of(Kernel::Op(kind), reads(), writes(), &[])[0];
        assert_eq!(flops(OpKind::Attention(spec(false))), 8 * 15 * 2 * (8 + 6));
        assert_eq!(flops(OpKind::Attention(spec(true))), 8 * 6 * 2 * (8 + 6));
        assert_eq!(flops(OpKind::AttentionGrad(spec(true))), 8 * 6 * 2 * (3 * 8 + 2 * 6));
        for window in 1..7 {
            let spec = |causal| AttentionSpec { window: Some(window), ..spec(causal) };
            let pairs = (0..3_i64).flat_map(|query| (0..5).map(move |key| query - key));
            let seen = pairs.filter(|distance| (0..i64::from(window)).contains(distance)).count() as u64;
            assert_eq!(flops(OpKind::Attention(spec(true))), 8 * seen * 2 * (8 + 6), "{window}");
            // Without a causal mask, each query counts for a whole window.
            let most = 3 * u64::from(2 * window - 1).min(5);
            assert_eq!(flops(OpKind::Attention(spec(false))), 8 * most * 2 * (8 + 6), "{window}");
        }
    }

    #[test]
    fn rows_of_a_table_cost_by_what_is_touched() {
        let gather = Kernel::Op(OpKind::Gather { batch: 0 });
        let reads = vec![f32(0, &[1000, 4]), i32(1, &[3])];
        assert_eq!(cost_of(gather, reads, vec![f32(2, &[3, 4])], &[]), [0, 48 + 12, 48]);
        let scatter = || Kernel::Op(OpKind::Scatter { op: ScatterOp::Add, batch: 0 });
        let reads = || vec![f32(0, &[1000, 4]), i32(1, &[3]), f32(2, &[3, 4])];
        let apart = cost_of(scatter(), reads(), vec![f32(3, &[1000, 4])], &[]);
        assert_eq!(apart, [12, 16_000 + 12 + 48, 16_000]);
        let together = cost_of(scatter(), reads(), vec![f32(3, &[1000, 4])], &[(3, 0)]);
        assert_eq!(together, [12, 12 + 48 + 48, 48]);
        let update = || Kernel::Op(OpKind::DynamicUpdateSlice);
        let reads = || vec![f32(0, &[1000]), f32(1, &[7]), i32(2, &[])];
        assert_eq!(cost_of(update(), reads(), vec![f32(3, &[1000])], &[]), [0, 4000 + 28 + 4, 4000]);
        assert_eq!(cost_of(update(), reads(), vec![f32(3, &[1000])], &[(3, 0)]), [0, 28 + 4, 28]);
    }

    #[test]
    fn what_cannot_be_counted_is_the_largest_count() {
        // Views that repeat one element 2^58 times occupy few bytes, but their product takes a huge number of
        // operations.
        let wide = |number: usize, shape: &[usize]| {
            let mut access = f32(number, &vec![1; shape.len()]);
            access.layout = access.layout.broadcast(&Shape::from(shape));
            access
        };
        let axes = DotAxes { lhs_contract: vec![1], rhs_contract: vec![0], ..DotAxes::default() };
        let (m, k) = (1 << 28, 1 << 30);
        let reads = vec![wide(0, &[m, k]), wide(1, &[k, m])];
        assert_eq!(
            cost_of(Kernel::Op(OpKind::Dot(axes)), reads, vec![wide(2, &[m, m])], &[]),
            [u64::MAX, 8, 4]
        );
        let wide_body = Body { rows: 1 << 29, columns: 1 << 29, ..centred() };
        let (read, write) = (wide(0, &[1 << 29, 1 << 29]), wide(1, &[1 << 29, 1 << 29]));
        let parts: Vec<Part> = (0..64)
            .map(|_| Part {
                kernel: Kernel::Loop(wide_body.clone()),
                reads: 0..1,
                writes: 0..1,
                schedule: Schedule::Whole,
                workspace: 0..0,
            })
            .collect();
        assert_eq!(cost_of(Kernel::Group(parts), vec![read], vec![write], &[])[0], u64::MAX);
        let total = [Cost { flops: u64::MAX, bytes_read: u64::MAX, bytes_written: 1 }; 2];
        let total = total.into_iter().fold(Cost::default(), Cost::add);
        assert_eq!((total.flops, total.bytes()), (u64::MAX, u64::MAX));
        let spec = AttentionSpec {
            causal: true,
            window: None,
            scale: 1.0,
            query_offset: false,
            key_length: false,
            block_table: false,
            dropout: None,
        };
        let far = 1 << 50;
        let reads = vec![wide(0, &[1, 1, far, 1]), wide(1, &[1, 1, far, 1]), wide(2, &[1, 1, far, 1])];
        let writes = vec![wide(3, &[1, 1, far, 1]), wide(4, &[1, 1, far])];
        // The count must not iterate over the queries, of which there are 2^50.
        assert_eq!(cost_of(Kernel::Op(OpKind::Attention(spec)), reads, writes, &[])[0], u64::MAX);
    }
}

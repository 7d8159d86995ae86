//! Axes of matrix products, the specification of attention, and the number of floating-point operations of
//! both. Counts saturate at `u64::MAX`.

use super::Shape;

/// Axes of a [`Dot`](super::OpKind::Dot). The axes of the result are the batch axes, then the free axes of
/// the left operand, then those of the right operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct DotAxes {
    /// Batch axes of the left operand, paired with `rhs_batch`.
    pub lhs_batch: Vec<usize>,
    /// Batch axes of the right operand.
    pub rhs_batch: Vec<usize>,
    /// Contracted axes of the left operand, paired with `rhs_contract`.
    pub lhs_contract: Vec<usize>,
    /// Contracted axes of the right operand.
    pub rhs_contract: Vec<usize>,
}

impl DotAxes {
    /// Returns the axes of an operand of the given rank that are in neither list, in ascending order.
    pub fn free(rank: usize, batch: &[usize], contract: &[usize]) -> Vec<usize> {
        (0..rank).filter(|axis| !batch.contains(axis) && !contract.contains(axis)).collect()
    }

    /// Returns the shape of the product of operands whose shapes match.
    pub fn result_shape(&self, lhs: &Shape, rhs: &Shape) -> Shape {
        let free = |shape: &Shape, batch: &[usize], contract: &[usize]| -> Vec<usize> {
            Self::free(shape.rank(), batch, contract).into_iter().map(|axis| shape[axis]).collect()
        };
        let mut extents: Vec<usize> = self.lhs_batch.iter().map(|&axis| lhs[axis]).collect();
        extents.extend(free(lhs, &self.lhs_batch, &self.lhs_contract));
        extents.extend(free(rhs, &self.rhs_batch, &self.rhs_contract));
        extents.into()
    }

    /// Returns the number of floating-point operations of `sums` contractions: a multiplication and an
    /// addition per pair of factors.
    pub(crate) fn flops(&self, lhs: &Shape, sums: u64) -> u64 {
        let length = product(self.lhs_contract.iter().map(|&axis| lhs[axis]));
        sums.saturating_mul(length).saturating_mul(2)
    }
}

/// Returns the product of the factors, saturating at `u64::MAX`. A factor of 0 makes the product 0.
pub(crate) fn product(factors: impl IntoIterator<Item = usize>) -> u64 {
    let mut product = 1_u64;
    for factor in factors {
        if factor == 0 {
            return 0;
        }
        product = product.saturating_mul(factor as u64);
    }
    product
}

/// Scaled dot-product attention: softmax(scale · q kᵀ) v over the keys visible to a query.
///
/// Operands: q `[batch, heads, queries, depth]`, k `[batch, kv_heads, keys, depth]` and v
/// `[batch, kv_heads, keys, value_depth]`, where `heads` is a multiple of `kv_heads` (query head h uses key
/// head `h / (heads / kv_heads)`). They are followed, in this order and if the corresponding flag is set, by
/// `query_offset` and `key_length` (each a scalar i32 or one i32 per sequence, `[batch]`), `block_table` (i32
/// `[batch, blocks]`) and `kept` (u32 `[batch, heads, queries, words]`, a word for every 32 keys).
///
/// Query i is at position `p = query_offset + i`; without the operand, the offset is 0. Key j is visible if
/// `j < key_length` (if present) and, with causal masking, `j <= p`. With a window of w positions, it is
/// visible only if, in addition, `p - w < j < p + w`. If no key is visible, the output is 0 and the
/// log-sum-exp is `-inf`.
///
/// With dropout, key j's share of the output is multiplied by the factor `dropout` if bit `j % 32` of word `j
/// / 32` of the query's row of `kept` is 1, and by 0 otherwise. The log-sum-exp is that of all visible keys.
///
/// With a block table, k and v are pools `[pool_blocks, kv_heads, block_size, depth]` shared by the batch:
/// key j of sequence b is row `j % block_size` of pool block `block_table[b, j / block_size]`, and the number
/// of keys is `blocks * block_size`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionSpec {
    /// True if only keys at or before a query's own position are visible to it.
    pub causal: bool,
    /// Number of positions of the window before a query's own position, itself included, and likewise after
    /// it; from 1 to [`AttentionSpec::MAX_WINDOW`]. `None` if keys are visible at any distance.
    pub window: Option<u32>,
    /// Factor applied to the scores, usually `1 / sqrt(depth)`.
    pub scale: f64,
    /// True if there is a `query_offset` operand.
    pub query_offset: bool,
    /// True if there is a `key_length` operand.
    pub key_length: bool,
    /// True if there is a `block_table` operand.
    pub block_table: bool,
    /// Factor on the shares of the keys in the `kept` operand, usually `1 / (1 - p)` if the others were
    /// dropped with probability p. `None` without the operand; never with a `block_table`.
    pub dropout: Option<f64>,
}

impl Eq for AttentionSpec {}
impl std::hash::Hash for AttentionSpec {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let Self { causal, window, scale, query_offset, key_length, block_table, dropout } = *self;
        (causal, window, scale.to_bits(), query_offset, key_length, block_table).hash(state);
        dropout.map(f64::to_bits).hash(state);
    }
}

impl AttentionSpec {
    /// Maximum number of positions of a window, and of queries and keys under one, so that sums of positions
    /// do not overflow an i32.
    pub const MAX_WINDOW: u32 = 1 << 28;

    /// Returns the number of operands after q, k and v.
    pub fn extra_operands(&self) -> usize {
        self.extra_positions().iter().flatten().count()
    }

    /// Returns the operand positions of `query_offset`, `key_length`, `block_table` and `kept`, where
    /// present.
    pub fn extra_positions(&self) -> [Option<usize>; 4] {
        let mut next = 3;
        [self.query_offset, self.key_length, self.block_table, self.dropout.is_some()].map(|present| {
            present.then(|| {
                next += 1;
                next - 1
            })
        })
    }

    /// Returns the number of floating-point operations of the forward pass, which consists of two matrix
    /// products.
    pub(crate) fn flops(&self, shapes: &[&Shape]) -> u64 {
        let ([depth, value_depth], pairs) = self.pairs(shapes);
        pairs.saturating_mul(depth.saturating_add(value_depth).saturating_mul(2))
    }

    /// Returns the number of floating-point operations of the gradient: recomputing the scores, and one
    /// matrix product each for the cotangents of scores, values, keys and queries.
    pub(crate) fn gradient_flops(&self, shapes: &[&Shape]) -> u64 {
        let ([depth, value_depth], pairs) = self.pairs(shapes);
        let each = depth.saturating_mul(3).saturating_add(value_depth.saturating_mul(2));
        pairs.saturating_mul(each.saturating_mul(2))
    }

    /// Returns the depths of keys and values, and an upper bound on the number of visible (query, key) pairs.
    fn pairs(&self, shapes: &[&Shape]) -> ([u64; 2], u64) {
        let table = match self.extra_positions() {
            [_, _, Some(table), _] => shapes[table][1],
            _ => 1,
        };
        let (queries, keys) = (shapes[0][2] as u64, product([shapes[1][2], table]));
        let window = self.window.map_or(u64::MAX, u64::from);
        let reach = if self.causal { window } else { window.saturating_mul(2) - 1 };
        let seen = match self.causal && !self.query_offset {
            // A query does not see the keys that are visible to the query `window` positions before it.
            true => causal_pairs(queries, keys) - causal_pairs(queries.saturating_sub(window), keys),
            // With a `query_offset`, the queries' positions are known only at run time.
            false => queries.saturating_mul(keys.min(reach)),
        };
        let rows = product([shapes[0][0], shapes[0][1]]);
        ([shapes[1][3] as u64, shapes[2][3] as u64], rows.saturating_mul(seen))
    }
}

/// Returns the number of visible (query, key) pairs under a causal mask, where query i sees at most i + 1
/// keys.
fn causal_pairs(queries: u64, keys: u64) -> u64 {
    let growing = u128::from(queries.min(keys));
    let all = growing * (growing + 1) / 2 + u128::from(queries.saturating_sub(keys)) * u128::from(keys);
    u64::try_from(all).unwrap_or(u64::MAX)
}

//! Scaled dot-product attention and its gradient, computed by their definitions; see [`AttentionSpec`].

use super::error::trap;
use super::{HostData, HostTensor};
use crate::error::Result;
use crate::float;
use crate::ir::{AttentionSpec, Type};

/// The positions in k and v of the keys that are visible to each query.
struct Keys<'a> {
    spec: &'a AttentionSpec,
    q: &'a HostTensor,
    k: &'a HostTensor,
    v: &'a HostTensor,
    /// Position of query 0 of each sequence.
    offsets: Vec<i64>,
    /// Number of existing keys of each sequence, before the causal mask.
    lengths: Vec<usize>,
    table: Option<&'a HostTensor>,
    /// Kept keys, and the factor on their shares.
    kept: Option<(&'a HostTensor, f64)>,
    /// Number of query heads per key head.
    group: usize,
}

/// A visible key.
struct Key {
    /// Row in k and v, counted over batch, heads and length.
    row: usize,
    score: f64,
    /// Factor on the key's share of the output, 1 without dropout.
    kept: f64,
}

impl<'a> Keys<'a> {
    fn new(spec: &'a AttentionSpec, operands: &[&'a HostTensor]) -> Result<Self> {
        let (q, k, v) = (operands[0], operands[1], operands[2]);
        let [offset, length, table, kept] =
            spec.extra_positions().map(|position| position.map(|p| operands[p]));
        let capacity = match table {
            Some(table) => table.ty.shape[1] * k.ty.shape[2],
            None => k.ty.shape[2],
        };
        // A scalar applies to all sequences.
        let of_each = |x: Option<&HostTensor>, default: i64| -> Vec<i64> {
            let number = |sequence: usize| x.map_or(default, |x| x.integer(sequence % x.len().max(1)));
            (0..q.ty.shape[0]).map(number).collect()
        };
        let mut lengths = Vec::new();
        for given in of_each(length, capacity as i64) {
            let length = usize::try_from(given).ok().filter(|length| *length <= capacity);
            lengths.push(length.ok_or_else(|| {
                trap(format!("attention: key_length {given} is out of range 0..={capacity}"))
            })?);
        }
        let keys = Keys {
            spec,
            q,
            k,
            v,
            offsets: of_each(offset, 0),
            lengths,
            table,
            kept: kept.zip(spec.dropout),
            group: q.ty.shape[1] / k.ty.shape[1],
        };
        keys.check_table()?;
        Ok(keys)
    }

    /// Checks the entries of the block table that refer to a key below `key_length`, visible or not.
    fn check_table(&self) -> Result<()> {
        let Some(table) = self.table else { return Ok(()) };
        let (pool, block) = (self.k.ty.shape[0], self.k.ty.shape[2]);
        let columns = table.ty.shape[1];
        for i in 0..table.len() {
            let (sequence, column) = (i / columns, i % columns);
            let entry = table.integer(i);
            if column * block < self.lengths[sequence]
                && usize::try_from(entry).map_or(true, |entry| entry >= pool)
            {
                return Err(trap(format!(
                    "attention: index {entry} (block {column} of sequence {sequence} in the block table) is \
                     out of range for a pool of {pool} blocks"
                )));
            }
        }
        Ok(())
    }

    /// Returns the row of key `j` for a sequence and a query head.
    fn row(&self, sequence: usize, head: usize, j: usize) -> usize {
        let [_, heads, length, _] = self.k.ty.shape[..] else { unreachable!("keys have rank 4") };
        let head = head / self.group;
        let (first, j) = match self.table {
            None => (sequence, j),
            Some(table) => {
                let column = sequence * table.ty.shape[1] + j / length;
                (table.integer(column) as usize, j % length)
            }
        };
        (first * heads + head) * length + j
    }

    /// Returns the keys visible to query `i`, with their scaled scores. `query` is the query's row in q.
    fn seen(&self, sequence: usize, head: usize, i: usize, query: usize) -> Vec<Key> {
        let position = self.offsets[sequence] + i as i64;
        let window = self.spec.window.map_or(i64::MAX, i64::from);
        let visible = (0..self.lengths[sequence]).filter(|&j| {
            let distance = position - j as i64;
            (!self.spec.causal || distance >= 0) && distance.abs() < window
        });
        visible
            .map(|j| {
                let row = self.row(sequence, head, j);
                let score = self.spec.scale * dot(row_of(self.q, query), row_of(self.k, row));
                Key { row, score, kept: self.kept(query, j) }
            })
            .collect()
    }

    /// Returns the factor on the share of key `j` in the output of a query, given by its row in q.
    fn kept(&self, query: usize, j: usize) -> f64 {
        let Some((kept, factor)) = self.kept else { return 1.0 };
        let word = kept.integer(query * kept.ty.shape[3] + j / 32);
        if word >> (j % 32) & 1 == 1 { factor } else { 0.0 }
    }

    /// Calls `visit` with the row of each query in q and the keys visible to it.
    fn each_query(&self, visit: &mut dyn FnMut(usize, &[Key])) {
        let [batch, heads, queries, _] = self.q.ty.shape[..] else { unreachable!("queries have rank 4") };
        for sequence in 0..batch {
            for head in 0..heads {
                for i in 0..queries {
                    let query = (sequence * heads + head) * queries + i;
                    visit(query, &self.seen(sequence, head, i, query));
                }
            }
        }
    }
}

/// Returns a row of the last axis.
fn row_of(x: &HostTensor, row: usize) -> &[f64] {
    let depth = x.ty.shape[3];
    &x.floats()[row * depth..][..depth]
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + a * b)
}

/// Adds `factor * values` to the row of `sums` with index `row`.
fn accumulate(sums: &mut [f64], row: usize, factor: f64, values: &[f64]) {
    for (sum, value) in sums[row * values.len()..].iter_mut().zip(values) {
        *sum += factor * value;
    }
}

/// Computes the output and the log-sum-exp of the scaled scores, which have the given `types`.
pub(super) fn attention(
    spec: &AttentionSpec,
    operands: &[&HostTensor],
    types: [&Type; 2],
) -> Result<Vec<HostTensor>> {
    let keys = Keys::new(spec, operands)?;
    let mut output = vec![0.0; types[0].elements()];
    let mut log_sums = Vec::with_capacity(types[1].elements());
    keys.each_query(&mut |query, seen| {
        // Shift by the maximum score, which keeps the exponentials in range. Any shift yields the same
        // result.
        let greatest = seen.iter().map(|key| key.score).fold(f64::NEG_INFINITY, f64::max);
        let shift = if greatest.is_finite() { greatest } else { 0.0 };
        let weights: Vec<f64> = seen.iter().map(|key| float::exp(key.score - shift)).collect();
        let total = weights.iter().fold(0.0, |sum, weight| sum + weight);
        for (key, weight) in seen.iter().zip(&weights) {
            accumulate(&mut output, query, key.kept * weight / total, row_of(keys.v, key.row));
        }
        log_sums.push(if seen.is_empty() { f64::NEG_INFINITY } else { shift + float::log(total) });
    });
    let tensor = |ty: &Type, data| HostTensor { ty: ty.clone(), data: HostData::Float(data) };
    Ok(vec![tensor(types[0], output), tensor(types[1], log_sums)])
}

/// Computes the cotangents of q, k and v. The weights are computed from the log-sum-exp operand, as in
/// FlashAttention-2, section 3.1.2.
pub(super) fn attention_grad(spec: &AttentionSpec, operands: &[&HostTensor]) -> Result<Vec<HostTensor>> {
    let keys = Keys::new(spec, operands)?;
    let (q, k, v) = (keys.q, keys.k, keys.v);
    let n = 3 + spec.extra_operands();
    let (output, log_sums, cotangent) = (operands[n], operands[n + 1].floats(), operands[n + 2]);
    let [mut dq, mut dk, mut dv] = [q, k, v].map(|x| vec![0.0; x.len()]);
    keys.each_query(&mut |query, seen| {
        let d_out = row_of(cotangent, query);
        let mean = dot(d_out, row_of(output, query));
        for key in seen {
            let weight = float::exp(key.score - log_sums[query]);
            let d_score = weight * (key.kept * dot(d_out, row_of(v, key.row)) - mean);
            accumulate(&mut dv, key.row, key.kept * weight, d_out);
            accumulate(&mut dq, query, spec.scale * d_score, row_of(k, key.row));
            accumulate(&mut dk, key.row, spec.scale * d_score, row_of(q, query));
        }
    });
    let tensor = |x: &HostTensor, data| HostTensor { ty: x.ty.clone(), data: HostData::Float(data) };
    Ok(vec![tensor(q, dq), tensor(k, dk), tensor(v, dv)])
}

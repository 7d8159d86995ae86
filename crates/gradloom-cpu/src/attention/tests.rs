//! Compares attention, forward and backward, with loops in f64, for random shapes, layouts, offsets, lengths
//! and block tables.

use super::*;
use crate::testing::{Job, Random, Tensor, assert_near, element_bits, rounds};
use gradloom_codegen::cpu::AttentionShape;
use gradloom_core::ir::half::{from_bf16, to_bf16};
use gradloom_core::ir::{DType, OpKind, Shape};
use gradloom_core::kernel::Schedule;
use gradloom_core::philox::random_word;

/// Parameters of a test case.
struct Setup {
    shape: AttentionShape,
    spec: AttentionSpec,
    offset: i32,
    length: usize,
    /// Number of keys per pool block, if there is a block table.
    block_size: usize,
}

impl Setup {
    fn random(random: &mut Random, extents: &[usize]) -> Self {
        let kv_heads = random.pick(&[1, 2]);
        let spec = AttentionSpec {
            causal: random.below(2) == 0,
            window: random.pick(&[
                None,
                None,
                Some(1),
                Some(3),
                Some(10),
                Some(70),
                Some(AttentionSpec::MAX_WINDOW),
            ]),
            scale: 0.3,
            query_offset: random.below(2) == 0,
            key_length: random.below(2) == 0,
            block_table: false,
            dropout: random.pick(&[None, None, Some(1.25)]),
        };
        let depths = [1, 3, 8, 16, 20, 32, 40, 64];
        let shape = AttentionShape {
            batch: random.pick(&[1, 2]),
            heads: kv_heads * random.pick(&[1, 2, 3]),
            kv_heads,
            queries: random.pick(extents),
            keys: random.pick(extents),
            depth: random.pick(&depths),
            value_depth: random.pick(&depths),
            rounds: false,
        };
        let offset = if spec.query_offset { random.below(2 * shape.keys + 20) as i32 - 20 } else { 0 };
        let length = if spec.key_length { random.below(shape.keys + 1) } else { shape.keys };
        Self { shape, spec, offset, length, block_size: 1 }
    }

    /// Returns a word of the kept keys of all queries, by its index in row-major order.
    fn word(index: usize) -> u32 {
        random_word([1, 2], 3, 4, index as u64, 0)
    }

    /// Returns the factor on the share of key `j` in the output of a query, given by its row.
    fn kept(&self, row: usize, j: usize) -> f64 {
        let Some(factor) = self.spec.dropout else { return 1.0 };
        let word = Self::word(row * self.shape.keys.div_ceil(32) + j / 32);
        if word >> (j % 32) & 1 == 1 { factor } else { 0.0 }
    }

    fn extras(&self, random: &mut Random, blocks: &[i32]) -> Vec<Tensor> {
        let mut extras = Vec::new();
        if self.spec.query_offset {
            extras.push(Tensor::i32([], &[self.offset]));
        }
        if self.spec.key_length {
            extras.push(Tensor::i32([], &[self.length as i32]));
        }
        if self.spec.block_table {
            let columns = blocks.len() / self.shape.batch;
            // Make the table a window of a wider one.
            let gap = random.below(3);
            let mut table = Tensor::i32([self.shape.batch, columns], blocks);
            let rows = (0..self.shape.batch)
                .flat_map(|b| [&table.words[b * columns..(b + 1) * columns], &vec![u32::MAX; gap]].concat());
            table.words = rows.collect();
            table.layout.strides[0] = columns + gap;
            extras.push(table);
        }
        if self.spec.dropout.is_some() {
            let s = self.shape;
            let shape = Shape::from([s.batch, s.heads, s.queries, s.keys.div_ceil(32)]);
            extras.push(Tensor::of_bits(DType::U32, shape.clone(), (0..shape.elements()).map(Self::word)));
        }
        extras
    }

    fn kv_shape(&self, depth: usize) -> Shape {
        [self.shape.batch, self.shape.kv_heads, self.shape.keys, depth].into()
    }

    fn q_shape(&self, depth: usize) -> Shape {
        [self.shape.batch, self.shape.heads, self.shape.queries, depth].into()
    }

    fn schedule(&self) -> Schedule {
        if self.shape.rounds { Schedule::Rounded(DType::BF16) } else { Schedule::Whole }
    }

    fn forward(&self, reads: Vec<Tensor>) -> Job {
        let lead = [self.shape.batch, self.shape.heads, self.shape.queries];
        let results = [(DType::F32, self.q_shape(self.shape.value_depth)), (DType::F32, lead.into())];
        let workspace = self.shape.forward_workspace(3);
        Job {
            workspace,
            schedule: self.schedule(),
            ..Job::of_op(OpKind::Attention(self.spec), reads, &results)
        }
    }

    fn backward(&self, reads: Vec<Tensor>) -> Job {
        let (depth, value_depth) = (self.shape.depth, self.shape.value_depth);
        let shapes = [self.q_shape(depth), self.kv_shape(depth), self.kv_shape(value_depth)];
        let results = shapes.map(|shape| (DType::F32, shape));
        let workspace = self.shape.backward_workspace(3);
        Job {
            workspace,
            schedule: self.schedule(),
            ..Job::of_op(OpKind::AttentionGrad(self.spec), reads, &results)
        }
    }

    fn sees(&self, query: usize, key: usize) -> bool {
        let distance = i64::from(self.offset) + query as i64 - key as i64;
        let window = self.spec.window.map_or(i64::MAX, i64::from);
        key < self.length && (!self.spec.causal || distance >= 0) && distance.abs() < window
    }

    /// Returns row (batch, head, i) of a `[batch, heads, extent, depth]` tensor in row-major order.
    fn row(values: &[f64], at: [usize; 3], heads: usize, extent: usize, depth: usize) -> &[f64] {
        let start = ((at[0] * heads + at[1]) * extent + at[2]) * depth;
        &values[start..start + depth]
    }

    /// Returns the probabilities `[batch, heads, queries, keys]` and the log-sum-exps.
    fn probabilities(&self, q: &[f64], k: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let s = self.shape;
        let (mut all, mut log_sums) = (Vec::new(), Vec::new());
        for (b, h, i) in self.queries() {
            let q = Self::row(q, [b, h, i], s.heads, s.queries, s.depth);
            let score = |j| {
                if !self.sees(i, j) {
                    return f64::NEG_INFINITY;
                }
                let k = Self::row(k, [b, h / s.group(), j], s.kv_heads, s.keys, s.depth);
                let dot: f64 = q.iter().zip(k).map(|(q, k)| q * k).sum();
                dot * self.spec.scale
            };
            let scores: Vec<f64> = (0..s.keys).map(score).collect();
            let sum: f64 = scores.iter().map(|s| s.exp()).sum();
            log_sums.push(sum.ln());
            all.extend(scores.iter().map(|s| if sum == 0.0 { 0.0 } else { s.exp() / sum }));
        }
        (all, log_sums)
    }

    fn queries(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let s = self.shape;
        (0..s.batch * s.heads * s.queries)
            .map(move |i| (i / (s.heads * s.queries), i / s.queries % s.heads, i % s.queries))
    }

    /// Returns the output and the log-sum-exps.
    fn expected(&self, q: &[f64], k: &[f64], v: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let s = self.shape;
        let (p, log_sums) = self.probabilities(q, k);
        let mut output = Vec::new();
        for (row, (b, h, _)) in self.queries().enumerate() {
            let v = |j| Self::row(v, [b, h / s.group(), j], s.kv_heads, s.keys, s.value_depth);
            output.extend((0..s.value_depth).map(|c| -> f64 {
                (0..s.keys).map(|j| self.kept(row, j) * p[row * s.keys + j] * v(j)[c]).sum()
            }));
        }
        (output, log_sums)
    }

    /// Returns dq, dk and dv, by the chain rule through the matrix of probabilities.
    fn expected_gradients(&self, q: &[f64], k: &[f64], v: &[f64], g: &[f64]) -> [Vec<f64>; 3] {
        let s = self.shape;
        let (p, _) = self.probabilities(q, k);
        let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
        for (row, (b, h, _)) in self.queries().enumerate() {
            let g = &g[row * s.value_depth..][..s.value_depth];
            let kv_row = |j| (b * s.kv_heads + h / s.group()) * s.keys + j;
            let p = &p[row * s.keys..][..s.keys];
            let dp = |j| -> f64 {
                let products = (0..s.value_depth).map(|c| g[c] * v[kv_row(j) * s.value_depth + c]);
                self.kept(row, j) * products.sum::<f64>()
            };
            let seen: Vec<(usize, f64)> = (0..s.keys).filter(|&j| p[j] != 0.0).map(|j| (j, dp(j))).collect();
            let mean: f64 = seen.iter().map(|&(j, dp)| p[j] * dp).sum();
            for (j, dp) in seen {
                let p = p[j];
                let ds = self.spec.scale * p * (dp - mean);
                for c in 0..s.value_depth {
                    dv[kv_row(j) * s.value_depth + c] += self.kept(row, j) * p * g[c];
                }
                for c in 0..s.depth {
                    dq[row * s.depth + c] += ds * k[kv_row(j) * s.depth + c];
                    dk[kv_row(j) * s.depth + c] += ds * q[row * s.depth + c];
                }
            }
        }
        [dq, dk, dv]
    }

    /// Returns sums of absolute values of the terms of the output and of dq, dk and dv. Those of the
    /// gradients include the terms of the differences that make up the cotangents of scores.
    fn sizes(&self, q: &[f64], k: &[f64], v: &[f64], g: &[f64]) -> (Vec<f64>, [Vec<f64>; 3]) {
        let s = self.shape;
        let (p, _) = self.probabilities(q, k);
        let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
        let mut output = Vec::new();
        for (row, (b, h, _)) in self.queries().enumerate() {
            let g = &g[row * s.value_depth..][..s.value_depth];
            let kv_row = |j| (b * s.kv_heads + h / s.group()) * s.keys + j;
            let share = |j: usize| self.kept(row, j) * p[row * s.keys + j];
            let terms = |j: usize| -> f64 {
                (0..s.value_depth).map(|c| (g[c] * v[kv_row(j) * s.value_depth + c]).abs()).sum()
            };
            let mean: f64 = (0..s.keys).map(|j| share(j) * terms(j)).sum();
            output.extend((0..s.value_depth).map(|c| -> f64 {
                (0..s.keys).map(|j| share(j) * v[kv_row(j) * s.value_depth + c].abs()).sum()
            }));
            for j in 0..s.keys {
                let ds = self.spec.scale * p[row * s.keys + j] * (self.kept(row, j) * terms(j) + mean);
                for c in 0..s.value_depth {
                    dv[kv_row(j) * s.value_depth + c] += share(j) * g[c].abs();
                }
                for c in 0..s.depth {
                    dq[row * s.depth + c] += ds * k[kv_row(j) * s.depth + c].abs();
                    dk[kv_row(j) * s.depth + c] += ds * q[row * s.depth + c].abs();
                }
            }
        }
        (output, [dq, dk, dv])
    }

    /// Returns a copy of q, k, v or a cotangent in which the rows that are not used are NaN: those of queries
    /// that see no key, or of keys that no query sees.
    fn spoiled(&self, tensor: &Tensor, is_of_keys: bool) -> Tensor {
        let s = self.shape;
        let is_used = |row: usize| match is_of_keys {
            true => (0..s.queries).any(|query| self.sees(query, row)),
            false => (0..s.keys).any(|key| self.sees(row, key)),
        };
        let shape = tensor.layout.shape.clone();
        let spoil = |(i, value): (usize, f64)| {
            if is_used(i / shape[3] % shape[2]) { value as f32 } else { f32::NAN }
        };
        let values: Vec<f32> = tensor.values().into_iter().enumerate().map(spoil).collect();
        Tensor::f32(shape.clone(), &values)
    }
}

fn floats(bits: &[u32]) -> Vec<f32> {
    bits.iter().map(|&bits| f32::from_bits(bits)).collect()
}

/// Checks the forward and the backward pass of a setup with every instruction set.
fn check(what: &str, setup: &Setup, random: &mut Random) {
    check_with(what, setup, random, false);
    check_with(what, setup, random, true);
}

/// Checks a setup, with NaN in the rows that are not used if `spoils`.
fn check_with(what: &str, setup: &Setup, random: &mut Random, spoils: bool) {
    let s = setup.shape;
    let q = Tensor::strided(random, &setup.q_shape(s.depth));
    let k = Tensor::strided(random, &setup.kv_shape(s.depth));
    let v = Tensor::strided(random, &setup.kv_shape(s.value_depth));
    let cotangent = Tensor::strided(random, &setup.q_shape(s.value_depth));
    let given = |tensor: &Tensor, is_of_keys: bool| match spoils {
        true => setup.spoiled(tensor, is_of_keys),
        false => tensor.clone(),
    };
    let given_qkv = vec![given(&q, false), given(&k, true), given(&v, true)];
    let reads = [given_qkv, setup.extras(random, &[])].concat();
    let given_cotangent = given(&cotangent, false);
    let [q, k, v, cotangent] = [q, k, v, cotangent].map(|tensor| tensor.values());
    let (output, log_sums) = setup.expected(&q, &k, &v);
    let gradients = setup.expected_gradients(&q, &k, &v, &cotangent);

    for level in InstructionSet::available() {
        let Setup { spec, offset, length, .. } = setup;
        let what =
            format!("{what}, {level:?}: {s:?} {spec:?} offset {offset} length {length}, NaN: {spoils}");
        let forward = setup.forward(reads.clone());
        let results = forward.run_on_all_pools(&Attention::new(&forward.launch(), spec, level)).unwrap();
        assert_near(&format!("{what}: output"), &results[0], &output, 1e-5);
        assert_near(&format!("{what}: log-sum-exp"), &results[1], &log_sums, 1e-5);

        let output = Tensor::f32(setup.q_shape(s.value_depth), &floats(&results[0]));
        let log_sum = Tensor::f32([s.batch, s.heads, s.queries], &floats(&results[1]));
        let reads = [reads.clone(), vec![output, log_sum, given_cotangent.clone()]].concat();
        let backward = setup.backward(reads);
        let results =
            backward.run_on_all_pools(&AttentionGrad::new(&backward.launch(), spec, level)).unwrap();
        for (name, (result, expected)) in ["dq", "dk", "dv"].iter().zip(results.iter().zip(&gradients)) {
            assert_near(&format!("{what}: {name}"), result, expected, 1e-4);
        }
    }
}

#[test]
fn random_setups() {
    let mut random = Random(11);
    for round in 0..rounds(150) {
        let setup = Setup::random(&mut random, &[0, 1, 2, 5, 12, 17, 33, 64]);
        check(&format!("round {round}"), &setup, &mut random);
    }
}

#[test]
fn many_blocks_of_queries_and_keys() {
    let mut random = Random(12);
    for round in 0..rounds(12) {
        let mut setup = Setup::random(&mut random, &[130, 300, 531]);
        setup.shape.batch = 1;
        setup.shape.heads = setup.shape.kv_heads * (1 + round % 2);
        check(&format!("round {round}"), &setup, &mut random);
    }
}

#[test]
fn heads_of_one_tensor() {
    // q, k and v are slices of [batch, length, 3·heads·depth], permuted to [batch, heads, length, depth].
    let (batch, heads, length, depth) = (2, 3, 40, 16);
    let mut random = Random(13);
    let all = Tensor::dense(&mut random, &[batch, length, 3, heads, depth].into());
    let part = |i: usize| {
        let slice = all.layout.slice(&[0, 0, i, 0, 0], &[batch, length, i + 1, heads, depth], &[1; 5]);
        let layout = slice.reshape(&[batch, length, heads, depth].into()).unwrap().permute(&[0, 2, 1, 3]);
        Tensor { layout, ..all.clone() }
    };
    let spec = AttentionSpec {
        causal: true,
        window: None,
        scale: 0.25,
        query_offset: false,
        key_length: false,
        block_table: false,
        dropout: None,
    };
    let shape = AttentionShape {
        batch,
        heads,
        kv_heads: heads,
        queries: length,
        keys: length,
        depth,
        value_depth: depth,
        rounds: false,
    };
    let setup = Setup { shape, spec, offset: 0, length, block_size: 1 };
    let case = setup.forward(vec![part(0), part(1), part(2)]);
    let results =
        case.run_on_all_pools(&*prepare_attention(&case.launch(), &spec, InstructionSet::detect())).unwrap();
    let [q, k, v] = [0, 1, 2].map(|i| case.reads[i].values());
    assert_near("output", &results[0], &setup.expected(&q, &k, &v).0, 1e-5);
}

/// Returns a setup with a block table, its reads, and the values of q and of the gathered keys and values.
fn paged(random: &mut Random, queries: usize) -> (Setup, Vec<Tensor>, [Vec<f64>; 3]) {
    let mut setup = Setup::random(random, &[queries]);
    let (blocks, pool) = (random.pick(&[1, 3, 30]), 37);
    setup.block_size = random.pick(&[1, 7, 16]);
    setup.shape.keys = blocks * setup.block_size;
    setup.spec.block_table = true;
    setup.spec.dropout = None;
    setup.spec.key_length = true;
    setup.length = random.below(setup.shape.keys + 1);
    let s = setup.shape;
    let used = setup.length.div_ceil(setup.block_size);
    let mut table: Vec<i32> = (0..s.batch * blocks).map(|_| random.below(pool) as i32).collect();
    for (i, entry) in table.iter_mut().enumerate() {
        // Entries past the sequence's length are never read, so -1 is allowed there.
        *entry = if i % blocks < used { *entry } else { -1 };
    }
    let pools = [s.depth, s.value_depth]
        .map(|depth| in_bf16(&Tensor::strided(random, &[pool, s.kv_heads, setup.block_size, depth].into())));
    let gathered = [(0, s.depth), (1, s.value_depth)].map(|(which, depth)| {
        let values = pools[which].values();
        let mut rows = Vec::new();
        for (b, h, j) in (0..s.batch * s.kv_heads * s.keys)
            .map(|i| (i / (s.kv_heads * s.keys), i / s.keys % s.kv_heads, i % s.keys))
        {
            let block = table[b * blocks + j / setup.block_size].max(0) as usize;
            let at = [block, h, j % setup.block_size];
            rows.extend_from_slice(Setup::row(&values, at, s.kv_heads, setup.block_size, depth));
        }
        rows
    });
    let q = in_bf16(&Tensor::strided(random, &setup.q_shape(s.depth)));
    let [k, v] = gathered;
    let values = [q.values(), k, v];
    let reads = [vec![q], pools.to_vec(), setup.extras(random, &table)].concat();
    (setup, reads, values)
}

#[test]
fn keys_in_blocks_of_a_pool() {
    let mut random = Random(14);
    for round in 0..rounds(60) {
        let (mut setup, reads, [q, k, v]) = paged(&mut random, [1, 2, 30][round % 3]);
        setup.shape.rounds = round % 2 == 0;
        // Numbers from -1 to 1 that bf16 holds, weighted by shares that are rounded to it.
        let tolerance = if setup.shape.rounds { 2f64.powi(-8) + 1e-5 } else { 1e-5 };
        let case = setup.forward(reads);
        let (output, log_sums) = setup.expected(&q, &k, &v);
        for level in InstructionSet::available() {
            let what = format!("round {round}, {level:?}");
            let kernel = prepare_attention(&case.launch(), &setup.spec, level);
            let results = case.run_on_all_pools(&*kernel).unwrap();
            assert_near(&format!("{what}: output"), &results[0], &output, tolerance);
            assert_near(&format!("{what}: log-sum-exp"), &results[1], &log_sums, tolerance);
        }
    }
}

#[test]
fn lengths_and_blocks_out_of_range_are_traps() {
    let mut random = Random(15);
    let (mut setup, mut reads, _) = paged(&mut random, 2);
    while setup.length < 2 || setup.shape.batch < 2 {
        (setup, reads, _) = paged(&mut random, 2);
    }
    let (length, table) = (reads.len() - 2, reads.len() - 1);
    let trap = |reads: &[Tensor]| {
        let case = setup.forward(reads.to_vec());
        let trap = case
            .run_on_all_pools(&*prepare_attention(&case.launch(), &setup.spec, InstructionSet::detect()))
            .unwrap_err();
        trap.message
    };
    let keys = setup.shape.keys;
    for wrong in [-1, keys as i32 + 1] {
        let mut reads = reads.clone();
        reads[length] = Tensor::i32([], &[wrong]);
        assert_eq!(
            trap(&reads),
            format!("attention: key_length is {wrong}, but there are {keys} keys (0..={keys})")
        );
    }
    for wrong in [-1, 37] {
        let mut reads = reads.clone();
        let at = reads[table].layout.strides[0];
        reads[table].words[at] = wrong as u32;
        assert_eq!(
            trap(&reads),
            format!("attention: block_table[1, 0] is {wrong}, outside the pool of 37 blocks")
        );
    }
}

#[test]
fn large_scores_neither_overflow_nor_lose_what_is_not_a_number() {
    let spec = AttentionSpec {
        causal: false,
        window: None,
        scale: 1.0,
        query_offset: false,
        key_length: false,
        block_table: false,
        dropout: None,
    };
    let shape = AttentionShape {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        queries: 6,
        keys: 20,
        depth: 1,
        value_depth: 1,
        rounds: false,
    };
    let setup = Setup { shape, spec, offset: 0, length: 20, block_size: 1 };
    let q = [1000.0, -1000.0, 0.0, f32::NAN, 3e38, 1.0];
    let keys: Vec<f32> = (0..20).map(|j| j as f32).collect();
    let operand = |values: &[f32]| Tensor::f32([1, 1, values.len(), 1], values);
    let case = setup.forward(vec![operand(&q), operand(&keys), operand(&keys)]);
    let results =
        case.run_on_all_pools(&*prepare_attention(&case.launch(), &spec, InstructionSet::detect())).unwrap();
    let output = floats(&results[0]);
    assert_eq!(output[..2], [19.0, 0.0]);
    assert!((output[2] - 9.5).abs() < 1e-5);
    assert!(output[3].is_nan() && output[4].is_nan(), "{output:?}");
    assert_eq!(floats(&results[1])[0], 19_000.0);
}

/// Returns a copy of a tensor, rounded to bf16.
fn in_bf16(tensor: &Tensor) -> Tensor {
    let mut tensor = tensor.clone();
    for p in tensor.positions() {
        tensor.set(p, from_bf16(to_bf16(f32::from_bits(tensor.bits(p)))).to_bits());
    }
    tensor
}

/// Checks results whose probabilities, or their cotangents, are rounded to bf16 before they are multiplied.
/// `sizes` are the sums of the terms' absolute values. Returns the number of elements that show the rounding.
fn assert_rounded(what: &str, bits: &[u32], expected: &[f64], sizes: &[f64]) -> usize {
    // Half of the distance between bf16 from 1 to 2, and errors of f32.
    let unit = 2f64.powi(-8);
    let mut rounded = 0;
    assert_eq!(bits.len(), expected.len(), "{what}");
    for (i, ((got, wanted), size)) in floats(bits).iter().zip(expected).zip(sizes).enumerate() {
        let off = (f64::from(*got) - wanted).abs();
        let bound = (unit + 1e-4) * size + 1e-5;
        assert!(off <= bound, "{what}: element {i} is {got}, expected {wanted} ± {bound}");
        rounded += usize::from(off > 1e-3 * size);
    }
    rounded
}

/// Checks a setup in bf16 with every instruction set, with NaN in the rows that are not used if `spoils`.
/// Returns the number of elements that show the rounding.
fn check_rounded(what: &str, setup: &Setup, random: &mut Random, spoils: bool) -> usize {
    let s = setup.shape;
    let shapes = [
        setup.q_shape(s.depth),
        setup.kv_shape(s.depth),
        setup.kv_shape(s.value_depth),
        setup.q_shape(s.value_depth),
    ];
    let exact = shapes.map(|shape| Tensor::strided(random, &shape));
    let operands = exact.each_ref().map(in_bf16);
    let given = operands.iter().enumerate().map(|(i, tensor)| match spoils {
        true => setup.spoiled(tensor, i == 1 || i == 2),
        false => tensor.clone(),
    });
    let given: Vec<Tensor> = given.collect();
    let [q, k, v, g] = operands.map(|tensor| tensor.values());
    let extras = setup.extras(random, &[]);
    let (output, log_sums) = setup.expected(&q, &k, &v);
    let narrow = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<f32>>();
    let tensors = [
        Tensor::f32(setup.q_shape(s.value_depth), &narrow(&output)),
        Tensor::f32([s.batch, s.heads, s.queries], &narrow(&log_sums)),
    ];
    let forward = setup.forward([&given[..3], &extras[..]].concat());
    let in_16_bits = |tensor: &Tensor| {
        let bits: Vec<u32> = tensor.elements().into_iter().map(|bits| bits >> 16).collect();
        element_bits(DType::BF16, tensor.layout.shape.clone(), &bits)
    };
    let stored = [given[0].clone(), in_16_bits(&given[1]), in_16_bits(&given[2])];
    let of_stored = setup.forward([&stored[..], &extras[..]].concat());
    let of_exact = [
        setup.forward([&exact[..3], &extras[..]].concat()),
        setup.backward([&exact[..3], &extras[..], &tensors[..], &exact[3..]].concat()),
    ];
    let backward = setup.backward([&given[..3], &extras[..], &tensors[..], &given[3..]].concat());
    let gradients = setup.expected_gradients(&q, &k, &v, &g);
    let (output_sizes, gradient_sizes) = setup.sizes(&q, &k, &v, &g);
    let mut rounded = 0;
    for level in InstructionSet::available() {
        let what = format!("{what}, {level:?}: {s:?} {:?}, NaN: {spoils}", setup.spec);
        let outputs =
            |job: &Job| job.run_on_all_pools(&Attention::new(&job.launch(), &setup.spec, level)).unwrap();
        let results = outputs(&forward);
        assert_eq!(outputs(&of_stored), results, "{what}: keys and values in 16 bits");
        if !spoils {
            assert_eq!(outputs(&of_exact[0]), results, "{what}: operands that are not rounded");
        }
        rounded += assert_rounded(&format!("{what}: output"), &results[0], &output, &output_sizes);
        assert_near(&format!("{what}: log-sum-exp"), &results[1], &log_sums, 1e-5);
        let kernel = AttentionGrad::new(&backward.launch(), &setup.spec, level);
        let results = backward.run_on_all_pools(&kernel).unwrap();
        if !spoils {
            let of_exact = of_exact[1].run_on_all_pools(&kernel).unwrap();
            assert_eq!(of_exact, results, "{what}: gradients of operands that are not rounded");
        }
        for (i, name) in ["dq", "dk", "dv"].iter().enumerate() {
            let what = format!("{what}: {name}");
            rounded += assert_rounded(&what, &results[i], &gradients[i], &gradient_sizes[i]);
        }
    }
    rounded
}

#[test]
fn operands_are_rounded_and_sums_are_not() {
    let (mut random, mut rounded) = (Random(16), 0);
    for round in 0..rounds(60) {
        let mut setup = Setup::random(&mut random, &[3, 12, 17, 33, 64, 70]);
        setup.shape.rounds = true;
        rounded += check_rounded(&format!("round {round}"), &setup, &mut random, round % 2 == 0);
    }
    for round in 0..rounds(6) {
        // Tasks of 96 queries leave one or two.
        let mut setup = Setup::random(&mut random, &[97, 98, 300]);
        (setup.shape.batch, setup.shape.rounds) = (1, true);
        rounded += check_rounded(&format!("large round {round}"), &setup, &mut random, round % 2 == 0);
    }
    assert!(rounded > 1000, "only {rounded} elements show that operands are rounded");
}

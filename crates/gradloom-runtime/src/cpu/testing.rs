//! For tests: tensors of any dtype in random strided layouts, and runs that must not depend on threads or
//! instruction set.
//!
//! Positions of a buffer that are not the operand's hold garbage, and results stand between guards that must
//! survive.

use super::{Call, Level, Loops, Pool, Prepared, Trap};
use gradloom_core::ir::{DType, OpId, OpKind, Shape, ValueId};
use gradloom_core::kernel::{Access, Kernel, Launch, Layout, Phase, Schedule};

const GARBAGE: u32 = 0x7fc1_7fc1;
/// Elements before and after a result.
const GUARD: usize = 4;

/// How many cases of `all` a test draws: few under Miri, which is a thousand times slower.
pub(super) fn rounds(all: usize) -> usize {
    if cfg!(miri) { all.div_ceil(50) } else { all }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 32) as u32
    }

    /// An integer below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.bits() as usize % limit
    }

    /// A number in [-1, 1).
    pub(super) fn float(&mut self) -> f32 {
        (self.bits() >> 8) as f32 / 8_388_608.0 - 1.0
    }

    /// Bits of an element that tests of `dtype` like to see: mostly small numbers, sometimes any.
    fn element(&mut self, dtype: DType) -> u32 {
        let special = self.below(20) == 0;
        match dtype {
            DType::Bool => self.bits() & 1,
            _ if special => self.bits(),
            DType::F32 => (4.0 * self.float()).to_bits(),
            DType::I32 | DType::U32 => {
                (self.below(19) as u32).wrapping_sub(if dtype == DType::I32 { 9 } else { 0 })
            }
        }
    }
}

/// A tensor somewhere in a buffer.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) dtype: DType,
    pub(super) layout: Layout,
    words: Vec<u32>,
}

impl Tensor {
    fn new(dtype: DType, layout: Layout, elements: usize) -> Self {
        Self { dtype, layout, words: vec![GARBAGE; (elements * dtype.bytes()).div_ceil(4) + 1] }
    }

    fn set(&mut self, position: usize, bits: u32) {
        match self.dtype {
            DType::Bool => {
                let shift = 8 * (position % 4);
                let word = &mut self.words[position / 4];
                *word = (*word & !(0xff << shift)) | (bits & 0xff) << shift;
            }
            _ => self.words[position] = bits,
        }
    }

    fn bits(&self, position: usize) -> u32 {
        match self.dtype {
            DType::Bool => (self.words[position / 4] >> (8 * (position % 4))) & 0xff,
            _ => self.words[position],
        }
    }

    /// Random elements in a layout.
    pub(super) fn in_layout(random: &mut Random, dtype: DType, layout: Layout) -> Self {
        let mut tensor = Self::new(dtype, layout, 0);
        tensor.words.resize((tensor.layout.end() + 3) * dtype.bytes() / 4 + 1, GARBAGE);
        for position in tensor.positions() {
            tensor.set(position, random.element(dtype));
        }
        tensor
    }

    /// Random elements, contiguous from the start of the buffer.
    pub(super) fn contiguous(random: &mut Random, dtype: DType, shape: &Shape) -> Self {
        Self::in_layout(random, dtype, Layout::contiguous(shape))
    }

    /// Random elements with the axes in any order, with steps, gaps and repeated axes.
    pub(super) fn random(random: &mut Random, dtype: DType, shape: &Shape) -> Self {
        let rank = shape.rank();
        let mut order: Vec<usize> = (0..rank).collect();
        if random.below(2) == 0 {
            (1..rank).for_each(|i| order.swap(i, random.below(i + 1)));
        }
        let mut strides = vec![0; rank];
        let mut stride = 1 + random.below(5) / 4;
        for &axis in order.iter().rev() {
            if random.below(5) > 0 {
                strides[axis] = stride;
                stride = stride * shape[axis].max(1) + if random.below(4) == 0 { 3 } else { 0 };
            }
        }
        let offset = if random.below(2) == 0 { 0 } else { random.below(9) };
        Self::in_layout(random, dtype, Layout { offset, shape: shape.clone(), strides })
    }

    /// A contiguous f32 tensor of these elements.
    pub(super) fn f32(shape: impl Into<Shape>, values: &[f32]) -> Self {
        Self::of_bits(DType::F32, shape, values.iter().map(|v| v.to_bits()))
    }

    /// A contiguous tensor of these elements' bits.
    pub(super) fn of_bits(
        dtype: DType,
        shape: impl Into<Shape>,
        bits: impl IntoIterator<Item = u32>,
    ) -> Self {
        let shape = shape.into();
        let mut tensor = Self::new(dtype, Layout::contiguous(&shape), shape.elements());
        bits.into_iter().enumerate().for_each(|(i, bits)| tensor.set(i, bits));
        tensor
    }

    /// Positions of the elements in row-major order.
    pub(super) fn positions(&self) -> Vec<usize> {
        positions(&self.layout)
    }

    /// The elements in row-major order; every dtype's fit into a float64.
    pub(super) fn values(&self) -> Vec<f64> {
        self.positions().into_iter().map(|p| value(self.dtype, self.bits(p))).collect()
    }
}

/// Positions of a layout's elements in row-major order.
pub(super) fn positions(layout: &Layout) -> Vec<usize> {
    let mut all = vec![layout.offset];
    for (&extent, &stride) in layout.shape.iter().zip(&layout.strides) {
        all = all.iter().flat_map(|&p| (0..extent).map(move |i| p + i * stride)).collect();
    }
    all
}

fn value(dtype: DType, bits: u32) -> f64 {
    match dtype {
        DType::F32 => f32::from_bits(bits).into(),
        DType::I32 => (bits as i32).into(),
        DType::U32 | DType::Bool => bits.into(),
    }
}

/// A launch with its data; one result.
pub(super) struct Case {
    pub(super) kind: OpKind,
    pub(super) reads: Vec<Tensor>,
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    /// The read whose bytes the result overwrites.
    pub(super) in_place: Option<usize>,
}

impl Case {
    pub(super) fn new(kind: OpKind, reads: Vec<Tensor>, dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { kind, reads, dtype, shape: shape.into(), in_place: None }
    }

    pub(super) fn launch(&self) -> Launch {
        let access = |buffer: usize, dtype, layout| Access { buffer: ValueId(buffer as u32), dtype, layout };
        let write = match self.in_place {
            Some(read) => self.reads[read].layout.clone(),
            None => Layout { offset: GUARD, ..Layout::contiguous(&self.shape) },
        };
        Launch {
            op: OpId(0),
            kernel: Kernel::Op(self.kind.clone()),
            reads: self.reads.iter().enumerate().map(|(i, r)| access(i, r.dtype, r.layout.clone())).collect(),
            writes: vec![access(self.in_place.unwrap_or(self.reads.len()), self.dtype, write)],
            may_alias: self.in_place.map(|read| (0, read)).into_iter().collect(),
            schedule: Schedule::Whole,
            workspace: 0,
            phase: Phase::Compute,
        }
    }

    fn run_on(&self, kernel: &dyn Prepared, pool: &Pool) -> Result<Tensor, Trap> {
        let mut reads = self.reads.clone();
        let layout = Layout { offset: GUARD, ..Layout::contiguous(&self.shape) };
        let mut result = Tensor::new(self.dtype, layout, self.shape.elements() + 2 * GUARD);
        // Through one pointer each, so that the borrow of an operand does not end that of the result in its
        // place.
        let addresses: Vec<*mut u8> = reads.iter_mut().map(|read| read.words.as_mut_ptr().cast()).collect();
        let write = self.in_place.map_or(result.words.as_mut_ptr().cast(), |read| addresses[read]);
        let sources: Vec<*const u8> = addresses.iter().map(|a| a.cast_const()).collect();
        kernel.run(&Call { pool, reads: &sources, writes: &[write], scratch: std::ptr::null_mut() })?;
        if let Some(read) = self.in_place {
            return Ok(Tensor { dtype: self.dtype, ..reads.swap_remove(read) });
        }
        let untouched = Tensor::new(self.dtype, result.layout.clone(), self.shape.elements() + 2 * GUARD);
        let (end, after) = (GUARD + self.shape.elements(), 2 * GUARD + self.shape.elements());
        for guard in (0..GUARD).chain(end..after) {
            assert_eq!(
                result.bits(guard),
                untouched.bits(guard),
                "a write at {guard}, outside {GUARD}..{end}"
            );
        }
        Ok(result)
    }

    /// Runs with every instruction set and 1, 2 and 3 threads, which must agree bit for bit.
    pub(super) fn run(
        &self,
        prepare: impl Fn(&Launch, Level) -> Box<dyn Prepared>,
    ) -> Result<Vec<f64>, Trap> {
        let launch = self.launch();
        let mut first: Option<Result<Tensor, Trap>> = None;
        for level in Level::available() {
            let kernel = prepare(&launch, level);
            for threads in [1, 2, 3] {
                let result = self.run_on(&*kernel, &Pool::new(threads));
                match (&first, &result) {
                    (None, _) => first = Some(result),
                    (Some(Ok(first)), Ok(result)) => {
                        for p in result.positions() {
                            // Which NaN it is may differ: library functions do not quiet what instructions
                            // do.
                            let values = [first, result].map(|t| value(t.dtype, t.bits(p)));
                            let same = first.bits(p) == result.bits(p) || values.iter().all(|v| v.is_nan());
                            assert!(same, "{:?}: {level:?}, {threads} threads: other bits at {p}", self.kind);
                        }
                    }
                    (Some(first), result) => {
                        assert_eq!(first.as_ref().err(), result.as_ref().err(), "{:?}", self.kind);
                    }
                }
            }
        }
        first.expect("there is a level").map(|result| result.values())
    }
}

/// A launch with its data and any number of results.
pub(super) struct Job {
    pub(super) kernel: Kernel,
    pub(super) reads: Vec<Tensor>,
    /// Dtype and layout of each result, and the read whose bytes it overwrites, which has the same layout.
    pub(super) results: Vec<(DType, Layout, Option<usize>)>,
    pub(super) workspace: usize,
}

impl Job {
    pub(super) fn launch(&self) -> Launch {
        let access = |buffer: usize, dtype, layout| Access { buffer: ValueId(buffer as u32), dtype, layout };
        let reads = self.reads.iter().enumerate().map(|(i, r)| access(i, r.dtype, r.layout.clone()));
        let writes = self.results.iter().enumerate().map(|(i, (dtype, layout, in_place))| {
            access(in_place.unwrap_or(self.reads.len() + i), *dtype, layout.clone())
        });
        let pairs = self.results.iter().enumerate().filter_map(|(i, result)| Some((i, result.2?)));
        Launch {
            op: OpId(0),
            kernel: self.kernel.clone(),
            reads: reads.collect(),
            writes: writes.collect(),
            may_alias: pairs.collect(),
            schedule: Schedule::Whole,
            workspace: self.workspace,
            phase: Phase::Compute,
        }
    }

    fn run_on(&self, kernel: &dyn Prepared, pool: &Pool) -> Result<Vec<Tensor>, Trap> {
        let mut reads = self.reads.clone();
        let fresh = |(dtype, layout, _): &(DType, Layout, Option<usize>)| {
            Tensor::new(*dtype, layout.clone(), layout.end() + GUARD)
        };
        let mut results: Vec<Tensor> = self.results.iter().map(fresh).collect();
        let addresses: Vec<*mut u8> = reads.iter_mut().map(|read| read.words.as_mut_ptr().cast()).collect();
        let own: Vec<*mut u8> = results.iter_mut().map(|result| result.words.as_mut_ptr().cast()).collect();
        let writes: Vec<*mut u8> = self
            .results
            .iter()
            .zip(own)
            .map(|(result, own)| result.2.map_or(own, |read| addresses[read]))
            .collect();
        let sources: Vec<*const u8> = addresses.iter().map(|a| a.cast_const()).collect();
        let mut scratch = vec![[u64::from(GARBAGE); 8]; self.workspace.div_ceil(64) + 1];
        kernel.run(&Call { pool, reads: &sources, writes: &writes, scratch: scratch.as_mut_ptr().cast() })?;
        let used = self.workspace / 8;
        assert!(
            scratch.as_flattened()[used..].iter().all(|&word| word == u64::from(GARBAGE)),
            "outside the scratch"
        );
        for (result, (_, layout, in_place)) in results.iter_mut().zip(&self.results) {
            let before = match in_place {
                Some(read) => {
                    result.words = reads[*read].words.clone();
                    &self.reads[*read].words
                }
                None => &Tensor::new(result.dtype, layout.clone(), layout.end() + GUARD).words,
            };
            // What is not the result's own stays.
            let mut expected = Tensor { words: before.clone(), ..result.clone() };
            result.positions().into_iter().for_each(|p| expected.set(p, result.bits(p)));
            assert_eq!(expected.words, result.words, "a write outside the result {layout:?}");
        }
        Ok(results)
    }

    /// Runs with every instruction set, both ways of loops, and 1, 2 and 3 threads, which must agree bit for
    /// bit; the results in row-major order.
    pub(super) fn run(
        &self,
        prepare: impl Fn(&Launch, Level, Loops) -> Box<dyn Prepared>,
    ) -> Result<Vec<Vec<f64>>, Trap> {
        let launch = self.launch();
        let mut first: Option<Result<Vec<Tensor>, Trap>> = None;
        let ways = Level::available().into_iter().map(|level| (level, Loops::Interpreted));
        for (level, loops) in ways.chain([(Level::detect(), Loops::Native)]) {
            let kernel = prepare(&launch, level, loops);
            for threads in [1, 2, 3] {
                let outcome = self.run_on(&*kernel, &Pool::new(threads));
                let Some(first) = &first else {
                    first = Some(outcome);
                    continue;
                };
                match (first, &outcome) {
                    (Ok(first), Ok(results)) => {
                        for (a, b) in first.iter().zip(results) {
                            for p in b.positions() {
                                let nan = [a, b].iter().all(|t| value(t.dtype, t.bits(p)).is_nan());
                                assert!(
                                    nan || a.bits(p) == b.bits(p),
                                    "{level:?}, {loops:?}, {threads} threads: other bits at {p}: {:x} and \
                                     {:x}",
                                    a.bits(p),
                                    b.bits(p)
                                );
                            }
                        }
                    }
                    (first, outcome) => assert_eq!(first.as_ref().err(), outcome.as_ref().err()),
                }
            }
        }
        let tensors = first.expect("there is a level")?;
        Ok(tensors.iter().map(Tensor::values).collect())
    }
}

/// Asserts that results are within `tolerance` of what is expected, relative to its size; NaN is expected to
/// be NaN.
pub(super) fn assert_close(what: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{what}: number of elements");
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let near = got == expected || (got - expected).abs() <= tolerance * expected.abs().max(1e-37);
        assert!(
            near || (got.is_nan() && expected.is_nan()),
            "{what}: element {i} is {got:e}, expected {expected:e}"
        );
    }
}

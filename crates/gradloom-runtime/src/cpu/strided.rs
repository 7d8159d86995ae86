//! For tests of kernels: operands in random strided layouts, and runs that detect writes out of place.
//!
//! Positions of a buffer that are not part of the operand hold NaN, and so do the results and the workspace
//! before a run: a kernel that reads outside of its operands gives NaN. Results stand between guard words
//! that have to survive.

use super::{Call, Pool, Prepared, Trap};
use gradloom_core::ir::{DType, OpId, OpKind, Shape, ValueId};
use gradloom_core::kernel::{Access, Kernel, Launch, Layout, Phase, Schedule};
use pulp::Arch;

const NAN: u32 = 0x7fc0_dead;
const GUARD: usize = 5;

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An integer below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Draws one of the choices.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A number in [-1, 1).
    pub(crate) fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// The instruction sets of this machine that products and attention are compiled for.
pub(crate) fn instruction_sets() -> Vec<Arch> {
    #[allow(unused_mut)]
    let mut all = vec![Arch::new()];
    #[cfg(target_arch = "x86_64")]
    {
        all.extend(pulp::x86::V3::try_new().map(Arch::V3));
        all.push(Arch::Scalar);
    }
    all
}

/// A tensor of 4-byte elements somewhere in a buffer.
#[derive(Clone)]
pub(crate) struct Operand {
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
    /// Elements' bits.
    pub(crate) buffer: Vec<u32>,
}

impl Operand {
    /// These elements, contiguous.
    pub(crate) fn contiguous(dtype: DType, shape: Shape, bits: Vec<u32>) -> Self {
        assert_eq!(shape.elements(), bits.len());
        Self { dtype, layout: Layout::contiguous(&shape), buffer: bits }
    }

    /// These i32 elements, contiguous.
    pub(crate) fn i32(shape: impl Into<Shape>, values: &[i32]) -> Self {
        Self::contiguous(DType::I32, shape.into(), values.iter().map(|&v| v as u32).collect())
    }

    /// These f32 elements, contiguous.
    pub(crate) fn f32(shape: impl Into<Shape>, values: &[f32]) -> Self {
        Self::contiguous(DType::F32, shape.into(), values.iter().map(|v| v.to_bits()).collect())
    }

    /// Random numbers, contiguous.
    pub(crate) fn dense(random: &mut Random, shape: &Shape) -> Self {
        let values: Vec<f32> = (0..shape.elements()).map(|_| random.float()).collect();
        Self::f32(shape.clone(), &values)
    }

    /// Random numbers in a random layout: axes in any order, gaps between rows, an offset, now and then an
    /// axis that repeats.
    pub(crate) fn random(random: &mut Random, shape: &Shape) -> Self {
        let mut order: Vec<usize> = (0..shape.rank()).collect();
        if random.below(2) == 0 {
            (1..order.len()).for_each(|i| order.swap(i, random.below(i + 1)));
        }
        Self::in_order(random, shape, &order)
    }

    /// Like [`Operand::random`], with the axes in this order in memory, outermost first.
    pub(crate) fn in_order(random: &mut Random, shape: &Shape, order: &[usize]) -> Self {
        let mut strides = vec![0; shape.rank()];
        let mut stride = if random.below(4) == 0 { 2 } else { 1 };
        for &axis in order.iter().rev() {
            if random.below(12) == 0 {
                continue; // repeats: stride 0
            }
            strides[axis] = stride;
            stride *= shape[axis].max(1);
            stride += if random.below(3) == 0 { random.below(4) } else { 0 };
        }
        let layout = Layout { offset: random.below(4), shape: shape.clone(), strides };
        let mut operand = Self { dtype: DType::F32, buffer: vec![NAN; layout.end() + 3], layout };
        for position in operand.positions() {
            operand.buffer[position] = random.float().to_bits();
        }
        operand
    }

    /// Positions of the elements in row-major order.
    pub(crate) fn positions(&self) -> Vec<usize> {
        let mut all = vec![self.layout.offset];
        for (&extent, &stride) in self.layout.shape.iter().zip(&self.layout.strides) {
            all = all.iter().flat_map(|&p| (0..extent).map(move |i| p + i * stride)).collect();
        }
        all
    }

    /// The elements in row-major order, in float64.
    pub(crate) fn values(&self) -> Vec<f64> {
        self.positions().into_iter().map(|p| f64::from(f32::from_bits(self.buffer[p]))).collect()
    }
}

/// A launch with its data.
pub(crate) struct Case {
    pub(crate) kind: OpKind,
    pub(crate) reads: Vec<Operand>,
    pub(crate) results: Vec<(DType, Shape)>,
    pub(crate) workspace: usize,
}

impl Case {
    /// The launch; results stand behind a guard.
    pub(crate) fn launch(&self) -> Launch {
        let access = |buffer: usize, dtype, layout| Access { buffer: ValueId(buffer as u32), dtype, layout };
        let result = |(i, (dtype, shape)): (usize, &(DType, Shape))| {
            let layout = Layout { offset: GUARD, ..Layout::contiguous(shape) };
            access(self.reads.len() + i, *dtype, layout)
        };
        Launch {
            op: OpId(0),
            kernel: Kernel::Op(self.kind.clone()),
            reads: self
                .reads
                .iter()
                .enumerate()
                .map(|(i, read)| access(i, read.dtype, read.layout.clone()))
                .collect(),
            writes: self.results.iter().enumerate().map(result).collect(),
            may_alias: Vec::new(),
            schedule: Schedule::Whole,
            workspace: self.workspace,
            phase: Phase::Compute,
        }
    }

    /// Runs the kernel; gives the bits of each result.
    pub(crate) fn run(&self, kernel: &dyn Prepared, pool: &Pool) -> Result<Vec<Vec<u32>>, Trap> {
        let mut buffers: Vec<Vec<u32>> =
            self.results.iter().map(|(_, shape)| vec![NAN; shape.elements() + 2 * GUARD]).collect();
        let reads: Vec<*const u8> = self.reads.iter().map(|read| read.buffer.as_ptr().cast()).collect();
        let writes: Vec<*mut u8> = buffers.iter_mut().map(|buffer| buffer.as_mut_ptr().cast()).collect();
        let mut scratch = vec![Line([NAN; 16]); self.workspace.div_ceil(64) + 1];
        let call = Call { pool, reads: &reads, writes: &writes, scratch: scratch.as_mut_ptr().cast() };
        kernel.run(&call)?;
        let used = self.workspace / 4;
        let words: Vec<u32> = scratch.iter().flat_map(|line| line.0).collect();
        assert!(words[used..].iter().all(|&word| word == NAN), "a write behind the workspace");
        Ok(buffers
            .into_iter()
            .map(|buffer| {
                let (head, rest) = buffer.split_at(GUARD);
                let (result, tail) = rest.split_at(rest.len() - GUARD);
                assert!([head, tail].concat().iter().all(|&word| word == NAN), "a write outside the result");
                result.to_vec()
            })
            .collect())
    }

    /// Runs with 1, 2 and 3 threads, which must agree bit for bit; gives the results.
    pub(crate) fn run_on_all_pools(&self, kernel: &dyn Prepared) -> Result<Vec<Vec<u32>>, Trap> {
        let [one, two, three] = [1, 2, 3].map(|threads| self.run(kernel, &Pool::new(threads)));
        assert_eq!(one, two, "2 threads give other bits than 1");
        assert_eq!(one, three, "3 threads give other bits than 1");
        one
    }
}

/// A cache line, for the workspace's alignment.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u32; 16]);

/// Asserts that bits are f32 values near `expected`.
pub(crate) fn assert_close(what: &str, bits: &[u32], expected: &[f64], tolerance: f64) {
    assert_eq!(bits.len(), expected.len(), "{what}: number of elements");
    for (i, (&bits, &expected)) in bits.iter().zip(expected).enumerate() {
        let value = f64::from(f32::from_bits(bits));
        let near = value == expected || (value - expected).abs() <= tolerance * (1.0 + expected.abs());
        assert!(near, "{what}: element {i} is {value}, expected {expected}");
    }
}

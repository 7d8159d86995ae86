//! Helpers for tests: tensors of any dtype in random strided layouts, and runs that must not depend on
//! threads or instruction set.
//!
//! Positions of a buffer that are not the operand's hold garbage, which is NaN, and so do results and scratch
//! before a run: a kernel that reads outside of its operands gives NaN. Results stand between guards that
//! must survive.

use super::device::{compiled_loops, machine};
use super::prepare::prepare_at;
use super::{Call, InstructionSet, Loops, Pool, Prepared, Trap};
use gradloom_codegen::cpu::{CpuCompiler, Panel, loop_workspace, panels};
use gradloom_core::fuse::single;
use gradloom_core::ir::{DType, Graph, OpId, OpKind, Shape, ValueId};
use gradloom_core::kernel::{Access, Kernel, Launch, Layout, Phase, Schedule};
pub(super) use gradloom_testing::Random;

const GARBAGE: u32 = 0x7fc1_7fc1;
/// Elements before and after a result.
const GUARD: usize = 4;

/// Returns the number of cases out of `all` that a test draws: few under Miri, which is a thousand times
/// slower.
pub(super) fn rounds(all: usize) -> usize {
    if cfg!(miri) { all.div_ceil(50) } else { all }
}

/// Returns random bits of an element, for tests of `dtype`: mostly small numbers, sometimes any.
fn element(random: &mut Random, dtype: DType) -> u32 {
    let special = random.below(20) == 0;
    match dtype {
        DType::Bool => random.bits() & 1,
        DType::U8 => random.bits() & 0xff,
        _ if special => random.bits(),
        DType::F32 => (4.0 * random.float()).to_bits(),
        DType::F16 | DType::BF16 => dtype.narrow_bits(4.0 * random.float()).into(),
        DType::I32 | DType::U32 | DType::I64 => {
            (random.below(19) as u32).wrapping_sub(if dtype == DType::I32 { 9 } else { 0 })
        }
    }
}

/// A tensor somewhere in a buffer.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) dtype: DType,
    pub(super) layout: Layout,
    /// The buffer: elements' bits, those of bools as bytes.
    pub(super) words: Vec<u32>,
}

impl Tensor {
    fn new(dtype: DType, layout: Layout, elements: usize) -> Self {
        Self { dtype, layout, words: vec![GARBAGE; (elements * dtype.bytes()).div_ceil(4) + 1] }
    }

    pub(super) fn set(&mut self, position: usize, bits: u32) {
        match self.dtype {
            DType::F32 | DType::I32 | DType::U32 => self.words[position] = bits,
            smaller => {
                let size = smaller.bytes();
                let (shift, mask) = (8 * size * (position % (4 / size)), (1 << (8 * size)) - 1);
                let word = &mut self.words[position / (4 / size)];
                *word = (*word & !(mask << shift)) | (bits & mask) << shift;
            }
        }
    }

    pub(super) fn bits(&self, position: usize) -> u32 {
        match self.dtype {
            DType::F32 | DType::I32 | DType::U32 => self.words[position],
            smaller => {
                let size = smaller.bytes();
                let word = self.words[position / (4 / size)];
                (word >> (8 * size * (position % (4 / size)))) & ((1 << (8 * size)) - 1)
            }
        }
    }

    /// Returns random elements in a layout.
    pub(super) fn in_layout(random: &mut Random, dtype: DType, layout: Layout) -> Self {
        let mut tensor = Self::new(dtype, layout, 0);
        tensor.words.resize((tensor.layout.end() + 3) * dtype.bytes() / 4 + 1, GARBAGE);
        for position in tensor.positions() {
            tensor.set(position, element(random, dtype));
        }
        tensor
    }

    /// Returns random elements, contiguous from the start of the buffer.
    pub(super) fn contiguous(random: &mut Random, dtype: DType, shape: &Shape) -> Self {
        Self::in_layout(random, dtype, Layout::contiguous(shape))
    }

    /// Returns random elements with the axes in any order, with steps, gaps and repeated axes.
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

    /// Returns random f32 elements in [-1, 1), contiguous.
    pub(super) fn dense(random: &mut Random, shape: &Shape) -> Self {
        let values: Vec<f32> = (0..shape.elements()).map(|_| random.float()).collect();
        Self::f32(shape.clone(), &values)
    }

    /// Returns random f32 elements in [-1, 1), laid out at random: axes in any order, gaps between rows, an
    /// offset, now and then an axis that repeats.
    pub(super) fn strided(random: &mut Random, shape: &Shape) -> Self {
        let mut order: Vec<usize> = (0..shape.rank()).collect();
        if random.below(2) == 0 {
            (1..order.len()).for_each(|i| order.swap(i, random.below(i + 1)));
        }
        Self::in_order(random, shape, &order)
    }

    /// Like [`Tensor::strided`], with the axes in this order in memory, outermost first.
    pub(super) fn in_order(random: &mut Random, shape: &Shape, order: &[usize]) -> Self {
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
        let elements = layout.end() + 3;
        let mut tensor = Self::new(DType::F32, layout, elements);
        for position in tensor.positions() {
            tensor.set(position, random.float().to_bits());
        }
        tensor
    }

    /// Returns a contiguous i32 tensor of these elements.
    pub(super) fn i32(shape: impl Into<Shape>, values: &[i32]) -> Self {
        Self::of_bits(DType::I32, shape, values.iter().map(|&v| v as u32))
    }

    /// Returns a contiguous f32 tensor of these elements.
    pub(super) fn f32(shape: impl Into<Shape>, values: &[f32]) -> Self {
        Self::of_bits(DType::F32, shape, values.iter().map(|v| v.to_bits()))
    }

    /// Returns a contiguous tensor of these elements' bits.
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

    /// Returns the positions of the elements in row-major order.
    pub(super) fn positions(&self) -> Vec<usize> {
        self.layout.positions().collect()
    }

    /// Returns the elements' bits in row-major order.
    pub(super) fn elements(&self) -> Vec<u32> {
        self.positions().into_iter().map(|p| self.bits(p)).collect()
    }

    /// Returns the elements in row-major order; every dtype's fit into a float64.
    pub(super) fn values(&self) -> Vec<f64> {
        self.positions().into_iter().map(|p| value(self.dtype, self.bits(p))).collect()
    }
}

/// Returns a contiguous tensor of these elements, by their bits.
pub(super) fn element_bits(dtype: DType, shape: impl Into<Shape>, bits: &[u32]) -> Tensor {
    let mut tensor = Tensor::contiguous(&mut Random(1), dtype, &shape.into());
    bits.iter().enumerate().for_each(|(i, &bits)| tensor.set(i, bits));
    tensor
}

fn value(dtype: DType, bits: u32) -> f64 {
    match dtype {
        DType::F32 => f32::from_bits(bits).into(),
        DType::F16 | DType::BF16 => dtype.of_narrow_bits(bits as u16).into(),
        DType::I32 => (bits as i32).into(),
        DType::U32 | DType::Bool | DType::U8 | DType::I64 => bits.into(),
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

    /// Returns the op's kernel with its operands: a loop if the op is elementwise or a reduction.
    fn job(&self) -> Job {
        let layout = match self.in_place {
            Some(read) => self.reads[read].layout.clone(),
            None => Layout { offset: GUARD, ..Layout::contiguous(&self.shape) },
        };
        let mut job = Job {
            kernel: Kernel::Op(self.kind.clone()),
            reads: self.reads.clone(),
            results: vec![(self.dtype, layout, self.in_place)],
            schedule: Schedule::Whole,
            workspace: 0,
        };
        let mut reads = job.launch().reads;
        job.kernel = single(&self.kind, &mut reads, self.dtype);
        for (read, access) in job.reads.iter_mut().zip(reads) {
            read.layout = access.layout;
        }
        job.workspace = job.kernel.body().map_or(0, loop_workspace);
        job
    }

    pub(super) fn launch(&self) -> Launch {
        self.job().launch()
    }

    /// Runs with every instruction set and 1, 2 and 3 threads, which must agree bit for bit.
    pub(super) fn run(
        &self,
        prepare: impl Fn(&Launch, InstructionSet) -> Box<dyn Prepared>,
    ) -> Result<Vec<f64>, Trap> {
        self.job().run(|launch, level, _| prepare(launch, level)).map(|mut results| results.remove(0))
    }

    /// Runs an elementwise op or a reduction, as [`Job::run`] does.
    pub(super) fn run_loop(&self) -> Result<Vec<f64>, Trap> {
        let results = self.job().run(|launch, level, loops| prepare_at(launch, &Graph::new(), level, loops));
        results.map(|mut results| results.remove(0))
    }
}

/// A launch with its data and any number of results.
pub(super) struct Job {
    pub(super) kernel: Kernel,
    pub(super) reads: Vec<Tensor>,
    /// Dtype and layout of each result, and the read whose bytes it overwrites, which has the same layout.
    pub(super) results: Vec<(DType, Layout, Option<usize>)>,
    pub(super) schedule: Schedule,
    pub(super) workspace: usize,
}

/// A cache line: scratch is aligned to it.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u32; 16]);

impl Job {
    /// Returns an op with contiguous results behind a guard.
    pub(super) fn of_op(kind: OpKind, reads: Vec<Tensor>, results: &[(DType, Shape)]) -> Self {
        let behind_a_guard = |(dtype, shape): &(DType, Shape)| {
            (*dtype, Layout { offset: GUARD, ..Layout::contiguous(shape) }, None)
        };
        let results = results.iter().map(behind_a_guard).collect();
        Self { kernel: Kernel::Op(kind), reads, results, schedule: Schedule::Whole, workspace: 0 }
    }

    pub(super) fn launch(&self) -> Launch {
        let access = |buffer: usize, dtype, layout| Access {
            buffer: ValueId(buffer as u32),
            dtype,
            layout,
            blocks: None,
        };
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
            schedule: self.schedule.clone(),
            workspace: self.workspace as u64,
            phase: Phase::Compute,
        }
    }

    pub(super) fn run_on(&self, kernel: &dyn Prepared, pool: &Pool) -> Result<Vec<Tensor>, Trap> {
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
        let mut scratch = vec![Line([GARBAGE; 16]); self.workspace.div_ceil(64) + 1];
        kernel.run(&Call { pool, reads: &sources, writes: &writes, scratch: scratch.as_mut_ptr().cast() })?;
        let mut unused = scratch.iter().flat_map(|line| line.0).skip(self.workspace.div_ceil(4));
        assert!(unused.all(|word| word == GARBAGE), "a write behind the scratch");
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

    /// Runs each panel of the launch alone, phase after phase, on operands that are garbage outside of the
    /// panel's ranges, and checks that together they compute `whole`, and that none writes outside of its
    /// ranges. Returns the largest number of panels of a phase.
    pub(super) fn check_panels(&self, kernel: &dyn Prepared, whole: &[Tensor]) -> usize {
        let launch = self.launch();
        let compiled = CpuCompiler::new(machine(InstructionSet::detect(), Loops::Native)).launch(&launch);
        let Some(tasks) = kernel.tasks() else { return 0 };
        let mut phases: Vec<Vec<Panel>> =
            (0..tasks.phases()).map(|phase| panels(&launch, &compiled, phase)).collect();
        let most = phases.iter().map(Vec::len).max().unwrap_or(0);
        phases.truncate(phases.iter().rposition(|panels| !panels.is_empty()).map_or(0, |last| last + 1));
        for (phase, panels) in phases.iter_mut().enumerate() {
            let mut all: Vec<usize> = panels.iter().flat_map(|panel| panel.tasks.clone()).collect();
            all.sort_unstable();
            let tasks: Vec<usize> = (0..tasks.count(phase)).collect();
            if panels.is_empty() {
                let [reads, writes] =
                    [launch.reads.len(), launch.writes.len()].map(|count| vec![None; count]);
                panels.push(Panel { tasks, reads, writes });
            } else {
                assert_eq!(all, tasks, "each task is in one panel");
            }
        }
        let mut scratch = vec![Line([GARBAGE; 16]); self.workspace.div_ceil(64) + 1];
        let mut found: Vec<Vec<bool>> =
            whole.iter().map(|result| vec![false; result.positions().len()]).collect();
        for (phase, panels) in phases.iter().enumerate() {
            // Panels find what earlier phases wrote to the scratch, but not what the others write.
            let before = scratch.clone();
            for panel in panels {
                let mut reads = self.reads.clone();
                for (read, range) in reads.iter_mut().zip(&panel.reads) {
                    let outside = |p: &usize| range.as_ref().is_some_and(|range| !range.contains(p));
                    read.positions().into_iter().filter(outside).for_each(|p| read.set(p, GARBAGE));
                }
                let fresh = |(dtype, layout, _): &(DType, Layout, Option<usize>)| {
                    Tensor::new(*dtype, layout.clone(), layout.end() + GUARD)
                };
                let mut results: Vec<Tensor> = self.results.iter().map(fresh).collect();
                let old: Vec<Tensor> = (self.results.iter().zip(&results))
                    .map(|((.., in_place), result)| in_place.map_or(result, |read| &reads[read]).clone())
                    .collect();
                let sources: Vec<*mut u8> =
                    reads.iter_mut().map(|read| read.words.as_mut_ptr().cast()).collect();
                let own = results.iter_mut().map(|result| result.words.as_mut_ptr().cast());
                let writes: Vec<*mut u8> = (self.results.iter().zip(own))
                    .map(|((.., in_place), own)| in_place.map_or(own, |read| sources[read]))
                    .collect();
                let sources: Vec<*const u8> = sources.iter().map(|address| address.cast_const()).collect();
                let pool = Pool::new(1);
                let mut own = before.clone();
                let address = own.as_mut_ptr().cast();
                let call = Call { pool: &pool, reads: &sources, writes: &writes, scratch: address };
                // SAFETY: the buffers are those of the launch, and each task runs once.
                panel.tasks.iter().for_each(|&task| unsafe { tasks.run_task(&call, phase, task) });
                for (w, range) in panel.writes.iter().enumerate() {
                    let (Some(range), in_place) = (range, self.results[w].2) else { continue };
                    let after = in_place.map_or(&results[w], |read| &reads[read]);
                    for (number, p) in old[w].positions().into_iter().enumerate() {
                        let is_right = after.bits(p) == whole[w].bits(p);
                        found[w][number] |= is_right && range.contains(&p);
                        let is_untouched = after.bits(p) == old[w].bits(p);
                        assert!(
                            is_untouched || (is_right && range.contains(&p)),
                            "element {p} of {w} in {panel:?}"
                        );
                    }
                }
                let written = own.iter().zip(&before).enumerate();
                written
                    .filter(|(_, (own, before))| own.0 != before.0)
                    .for_each(|(i, (own, _))| scratch[i] = *own);
            }
        }
        for (w, found) in found.into_iter().enumerate() {
            let is_known = |panels: &&Vec<Panel>| panels.iter().all(|panel| panel.writes[w].is_some());
            let known = phases.iter().filter(is_known).flatten();
            let known = known.flat_map(|panel| panel.writes[w].clone()).any(|range| !range.is_empty());
            assert!(!known || found.into_iter().all(|found| found), "an element is in no panel");
        }
        most
    }

    /// Runs with 1, 2 and 3 threads, which must agree bit for bit; the bits of each result in row-major
    /// order.
    pub(super) fn run_on_all_pools(&self, kernel: &dyn Prepared) -> Result<Vec<Vec<u32>>, Trap> {
        let [one, two, three] = [1, 2, 3].map(|threads| {
            let results = self.run_on(kernel, &Pool::new(threads));
            results.map(|results| results.iter().map(Tensor::elements).collect::<Vec<_>>())
        });
        assert_eq!(one, two, "2 threads give other bits than 1");
        assert_eq!(one, three, "3 threads give other bits than 1");
        if one.is_ok() {
            self.check_panels(kernel, &self.run_on(kernel, &Pool::new(1))?);
        }
        one
    }

    /// Runs the loops interpreted with every instruction set and compiled for every vector instruction set,
    /// each with 1, 2 and 3 threads; all must agree bit for bit. Returns the results in row-major order.
    pub(super) fn run(
        &self,
        prepare: impl Fn(&Launch, InstructionSet, Loops) -> Box<dyn Prepared>,
    ) -> Result<Vec<Vec<f64>>, Trap> {
        let launch = self.launch();
        let mut first: Option<Result<Vec<Tensor>, Trap>> = None;
        let mut compiled = InstructionSet::available();
        compiled.retain(|&level| compiled_loops(level).is_some());
        compiled.dedup_by_key(|level| compiled_loops(*level));
        let ways = InstructionSet::available().into_iter().map(|level| (level, Loops::Interpreted));
        for (level, loops) in ways.chain(compiled.into_iter().map(|level| (level, Loops::Native))) {
            let kernel = prepare(&launch, level, loops);
            for threads in [1, 2, 3] {
                let outcome = self.run_on(&*kernel, &Pool::new(threads));
                if let (1, Ok(whole)) = (threads, &outcome) {
                    self.check_panels(&*kernel, whole);
                }
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

/// Asserts that f32 results, as bits, are within `tolerance` of what is expected, relative to its size or to
/// 1, whichever is larger: terms of a sum may cancel.
pub(super) fn assert_near(what: &str, bits: &[u32], expected: &[f64], tolerance: f64) {
    assert_eq!(bits.len(), expected.len(), "{what}: number of elements");
    for (i, (&bits, &expected)) in bits.iter().zip(expected).enumerate() {
        let value = f64::from(f32::from_bits(bits));
        let near = value == expected || (value - expected).abs() <= tolerance * (1.0 + expected.abs());
        assert!(near, "{what}: element {i} is {value}, expected {expected}");
    }
}

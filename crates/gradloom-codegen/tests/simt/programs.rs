//! Tests of whole programs on the simulated grid, with the limits of several devices, against the f64
//! reference.
//!
//! Every value has separate memory, so the tests do not depend on a plan.

use gradloom_codegen::cuda::{LibraryMatrix, LibraryProduct};
use gradloom_codegen::pipeline::Target;
use gradloom_codegen::product::is_in_fours;
use gradloom_codegen::schedule::group;
use gradloom_codegen::simt::kernels::{self, Table, View, Views};
use gradloom_codegen::simt::{Kernel, custom, verify};
use gradloom_codegen::wgsl::tuning::candidates;
use gradloom_codegen::wgsl::{Choices, Limits, Precision};
use gradloom_core::collections::IdMap;
use gradloom_core::fuse::{Fusion, fuse};
use gradloom_core::ir::{DType, Graph, OpKind, Output, Type, ValueId, parse};
use gradloom_core::kernel::{self, Access, Launch, Lowered, Method, Part, Phase, Schedule, Staging, Tile};
use gradloom_core::nn::{Param, attend_to_new};
use gradloom_core::passes;
use gradloom_core::plan::{StoreLayout, plan};
use gradloom_core::reference::{Evaluation, HostTensor, evaluate, evaluate_values};
use gradloom_core::trace::{AttentionOptions, Input, Tensor, full, gradients, iota, trace};
use gradloom_grid::{Machine, bits, tensor};
use gradloom_testing::Leaves;
use gradloom_testing::float32::{Found, compare};
use gradloom_testing::training_step;
use std::collections::BTreeMap;

/// Returns the limits that WebGPU guarantees, and those of a driver that runs on a CPU (lavapipe), one that
/// splits vectors into scalars (SwiftShader), and a large CUDA device.
fn devices() -> [(&'static str, Limits); 4] {
    let software = Limits { software: true, subgroup: Some(8), ..Limits::portable() };
    [
        ("portable", Limits::portable()),
        ("software", software),
        ("scalar", Limits { scalar: true, subgroup: None, ..software }),
        ("cuda", Limits::cuda_of((9, 0))),
    ]
}

/// Program, with the memory of its values.
struct Memory<'g> {
    graph: &'g Graph,
    limits: &'g Limits,
    /// Words of each buffer; `None` if not written.
    buffers: IdMap<ValueId, Vec<Option<u32>>>,
    /// Number of runs of each kind of schedule.
    kinds: BTreeMap<&'static str, usize>,
}

impl Memory<'_> {
    fn words(&self, access: &Access) -> Vec<u32> {
        // Words that were not written hold a NaN pattern, so that their use is detected.
        self.buffers.get(&access.buffer).unwrap().iter().map(|word| word.unwrap_or(0x7fc0_dead)).collect()
    }

    fn fill(&mut self, access: &Access, value: &HostTensor) {
        let words = bits(value);
        for (place, word) in access.layout.positions().zip(words) {
            self.buffers.get_mut(&access.buffer).unwrap()[place] = Some(word);
        }
    }

    fn read(&self, access: &Access) -> HostTensor {
        let buffer = self.buffers.get(&access.buffer).unwrap();
        let words: Vec<u32> =
            access.layout.positions().map(|at| buffer[at].expect("all is written")).collect();
        tensor(access.dtype, &access.layout.shape, &words)
    }

    /// Runs the kernels of a launch; parts of a group are run together whenever possible.
    fn run(&mut self, launch: &Launch) {
        let parts = match &launch.kernel {
            kernel::Kernel::Group(parts) => parts.clone(),
            kernel::Kernel::Loop(_) if matches!(launch.schedule, Schedule::Group(_)) => {
                vec![Part::whole(launch)]
            }
            _ => return self.alone(launch),
        };
        for batch in group::batches(&parts, launch, |_, _| true) {
            match batch[..] {
                [only] if !group::is_columns(&parts[only], launch) => {
                    self.alone(&parts[only].alone(launch));
                }
                _ => self.together(launch, &batch.iter().map(|&i| &parts[i]).collect::<Vec<_>>()),
            }
        }
    }

    fn alone(&mut self, launch: &Launch) {
        let schedule = &launch.schedule;
        let kind = match schedule {
            Schedule::Whole | Schedule::Rounded(_) => launch.kernel.name(),
            Schedule::Rows(rows) if rows.kept.is_some() => "kept rows",
            Schedule::Rows(_) => "rows",
            Schedule::Axes(_) => "axes",
            Schedule::Group(_) => "group",
            Schedule::Product(product) => match product.choice.method {
                Method::Portable(Tile { staging: Staging::Lanes(_), .. }) => "lanes",
                Method::Portable(_) => "product",
                Method::Cooperative(tile) if tile.is_streamed() => "streamed",
                Method::Cooperative(_) => "matrices",
            },
            Schedule::Scatter(_) => "scatter",
            Schedule::Cumulate(_) => "cumulate",
            Schedule::Sort(_) => "sort",
            Schedule::Attention(_) if launch.kernel.body().is_some() => "attention and rows",
            Schedule::Attention(_) => "attention",
            Schedule::Custom(_) => "custom",
            Schedule::Library(library) => {
                let has_bias = launch.reads.len() > 2;
                *self.kinds.entry(if has_bias { "library with bias" } else { "library" }).or_default() += 1;
                let (kernel::Kernel::Op(OpKind::Dot(axes)) | kernel::Kernel::Dot { axes, .. }) =
                    &launch.kernel
                else {
                    panic!("{launch:?}")
                };
                let product = LibraryProduct::of(axes, &launch.reads, &launch.writes[0], library).unwrap();
                return self.multiply(&product, launch);
            }
        };
        *self.kinds.entry(kind).or_default() += 1;
        // Like the targets, declare vectors if the kernel can use them.
        let vectors = |access: &Access| match &launch.kernel {
            kernel::Kernel::Loop(body) | kernel::Kernel::Attention { epilogue: body, .. } => {
                self.limits.fours && is_in_fours(body, access)
            }
            _ => !self.limits.scalar && matches!(schedule, Schedule::Product(_)),
        };
        let views = views(&launch.reads, &launch.writes, &vectors, launch.phase);
        let custom = custom::kernels(launch, self.graph, &views, self.limits).unwrap();
        let made = custom.or_else(|| kernels::kernels(&launch.kernel, schedule, &views, "test"));
        let made = made.unwrap_or_else(|| panic!("no kernel for {}", launch.kernel.name()));
        let operands = launch.reads.iter().map(|access| self.words(access)).collect();
        let results: Vec<_> = launch.writes.iter().map(|access| vec![access.buffer]).collect();
        self.kernels(&made, operands, &results, launch.workspace as usize);
    }

    /// Computes a product as a library does, including elements outside of the operands that the library may
    /// read.
    fn multiply(&mut self, product: &LibraryProduct, launch: &Launch) {
        let LibraryProduct { batch, m, n, k, lhs, rhs, result, .. } = *product;
        let [left, right] = [0, 1].map(|read| self.words(&launch.reads[read]));
        let first = |access: &Access| access.layout.offset;
        let at = |matrix: &LibraryMatrix, [i, row, column]: [usize; 3]| {
            let [line, place] = if matrix.by_rows { [row, column] } else { [column, row] };
            i * matrix.batch_stride + line * matrix.stride + place
        };
        // Memory after an operand may have any contents, such as NaN.
        let number = |words: &[u32], at: usize| {
            words.get(at).map_or(f64::NAN, |word| f64::from(f32::from_bits(*word)))
        };
        let write = &launch.writes[0];
        for i in 0..batch {
            for row in 0..m {
                for column in 0..n {
                    let term = |p| {
                        let a = number(&left, first(&launch.reads[0]) + at(&lhs, [i, row, p]));
                        a * number(&right, first(&launch.reads[1]) + at(&rhs, [i, p, column]))
                    };
                    let sum: f64 = (0..k).map(term).sum::<f64>() + self.bias(product, launch, column);
                    let rounded = tensor(write.dtype, &[1], &[(sum as f32).to_bits()]);
                    let place = first(write) + at(&result, [i, row, column]);
                    self.buffers.get_mut(&write.buffer).unwrap()[place] = Some(bits(&rounded)[0]);
                }
            }
        }
    }

    /// Returns the number that a product adds to a column.
    fn bias(&self, product: &LibraryProduct, launch: &Launch, column: usize) -> f64 {
        if !product.has_bias {
            return 0.0;
        }
        let bias = &launch.reads[2];
        assert_eq!((bias.dtype, bias.layout.strides[..].to_vec()), (product.result.dtype, vec![0, 1]));
        f64::from(f32::from_bits(self.words(bias)[bias.layout.offset + column]))
    }

    fn together(&mut self, launch: &Launch, parts: &[&Part]) {
        *self.kinds.entry("together").or_default() += 1;
        let (reads, writes) = (parts[0].reads.len(), parts[0].writes.len());
        // For each operand and result, concatenate the memory of all parts, and collect each part's start
        // index in it.
        let mut memory: Vec<Vec<u32>> = vec![Vec::new(); reads];
        let mut results: Vec<Vec<ValueId>> = vec![Vec::new(); writes];
        let mut ends = vec![0; writes];
        let mut starts: Vec<Vec<u32>> = Vec::new();
        for part in parts {
            let mut own = Vec::new();
            for (i, access) in launch.reads[part.reads.clone()].iter().enumerate() {
                // Align the starts for vectors.
                let start = memory[i].len().next_multiple_of(64);
                own.push(u32::try_from(start + access.layout.offset).unwrap());
                memory[i].resize(start, 0);
                memory[i].extend(self.words(access));
            }
            for (i, access) in launch.writes[part.writes.clone()].iter().enumerate() {
                own.push(u32::try_from(ends[i] + access.layout.offset).unwrap());
                ends[i] += self.buffers.get(&access.buffer).unwrap().len();
                results[i].push(access.buffer);
            }
            starts.push(own);
        }
        let Schedule::Group(schedule) = &launch.schedule else { panic!("a group's schedule") };
        let form = group::Form::of_part(parts[0]).unwrap();
        let extents = |part: &Part| group::extents(part, &launch.reads[part.reads.clone()]);
        let all = parts.iter().zip(starts).map(|(part, starts)| (extents(part), starts));
        let table = Table::new(form, all, schedule);
        let (first, last) = (&launch.reads[parts[0].reads.clone()], &launch.writes[parts[0].writes.clone()]);
        let vectors = form == group::Form::Product && !self.limits.scalar;
        let views = views(first, last, &|_| vectors, launch.phase);
        let made = kernels::together(&views, parts, &table, schedule);
        self.kernels(&made, memory, &results, launch.workspace as usize);
    }

    /// Runs kernels on operands, and stores each result in the buffers whose concatenation it is.
    fn kernels(
        &mut self,
        made: &[Kernel],
        operands: Vec<Vec<u32>>,
        results: &[Vec<ValueId>],
        workspace: usize,
    ) {
        let words = |buffers: &Vec<ValueId>| -> Vec<Option<u32>> {
            buffers.iter().flat_map(|buffer| self.buffers.get(buffer).unwrap().clone()).collect()
        };
        let before: Vec<_> = results.iter().map(words).collect();
        let mut machine = Machine {
            operands,
            results: before.clone(),
            workspace: vec![None; workspace.div_ceil(4)],
            faults: Vec::new(),
            checked: Vec::new(),
            committed: true,
            status: Vec::new(),
        };
        for kernel in made {
            verify(kernel).unwrap_or_else(|error| panic!("{error}\n{kernel}"));
            machine.run(kernel).unwrap_or_else(|error| panic!("{error}"));
        }
        assert_eq!(machine.faults, [], "no index of these programs is out of range");
        // Store only the words that changed, because several results may be windows of the same buffer.
        for ((list, words), before) in results.iter().zip(machine.results).zip(before) {
            let mut changes = words.into_iter().zip(before);
            for buffer in list {
                for word in self.buffers.get_mut(buffer).unwrap() {
                    let (now, before) = changes.next().expect("a word for each of the buffer's");
                    if now != before {
                        *word = now;
                    }
                }
            }
        }
    }
}

fn views<'a>(
    reads: &'a [Access],
    writes: &'a [Access],
    has_vectors: &dyn Fn(&Access) -> bool,
    phase: Phase,
) -> Views<'a> {
    let view = |access: &'a Access| View::of(access, has_vectors(access));
    // Declare the operands of the first phase as available early, which changes the order of loads; tests on
    // devices without early loads cover the other order.
    let early = |access: &'a Access| View { is_early: phase == Phase::Compute, ..view(access) };
    Views {
        reads: reads.iter().map(early).collect(),
        writes: writes.iter().map(view).collect(),
        gated: phase == Phase::Commit,
        in_place: false,
    }
}

/// Fuses a graph and lowers it for CUDA if the limits allow concurrent kernels, else for WebGPU.
fn lower(graph: &Graph, limits: &Limits, choices: &Choices) -> Lowered {
    let target = if limits.branches { Target::cuda } else { Target::wgsl };
    let target = target(*limits, choices.precision()).with_choices(choices.clone());
    target.lower(graph, fuse(graph, target.fusion).unwrap_or_else(|error| panic!("{error}")))
}

/// Returns the results of a program on a device, and the number of runs of each kind of kernel.
fn evaluation(
    graph: &Graph,
    leaves: &Leaves,
    (limits, choices): (&Limits, &Choices),
    want: &Evaluation,
) -> (Evaluation, BTreeMap<&'static str, usize>) {
    let lowered = lower(graph, limits, choices);
    let values =
        evaluate_values(graph, &|kind: &OpKind| leaves.value(kind)).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = Memory { graph, limits, buffers: IdMap::new(), kinds: BTreeMap::new() };
    for (buffer, ty) in lowered.buffers.iter() {
        memory.buffers.insert(*buffer, vec![None; ty.elements()]);
    }
    for (_, op) in graph.entry_ops().filter(|(_, op)| op.operands.is_empty()) {
        for &value in &op.results {
            if let (Some(access), Some(tensor)) = (lowered.access.get(&value), values.get(value)) {
                memory.fill(access, tensor);
            }
        }
    }
    lowered.launches.iter().for_each(|launch| memory.run(launch));
    let read = |value: ValueId| memory.read(&lowered.access[&value]);
    let mut got = want.clone();
    for ((_, tensor), output) in got.outputs.iter_mut().zip(&graph.outputs) {
        *tensor = read(output.value);
    }
    for ((_, tensor), guard) in got.guards.iter_mut().zip(&graph.guards) {
        *tensor = read(guard.value);
    }
    if want.not_finite.is_none() {
        for update in graph.updates.iter().filter(|update| update.region.is_none()) {
            let leaf = graph.entry_ops().find(|(_, op)| op.results.contains(&update.target)).unwrap().1;
            let name = Graph::leaf_name(&leaf.kind).unwrap();
            let (_, tensor) = got.next.iter_mut().find(|(next, _)| next == name).unwrap();
            *tensor = read(update.value);
        }
    }
    (got, memory.kinds)
}

/// Checks a program on every device; returns the number of runs of each kind of kernel.
#[track_caller]
pub(super) fn agrees(graph: &Graph, leaves: &Leaves) -> BTreeMap<&'static str, usize> {
    let mut kinds = BTreeMap::new();
    let Ok(want) = evaluate(graph, &|kind| leaves.value(kind)) else { return kinds };
    for (name, limits) in devices() {
        let choices = Choices::by_rule(Precision::F32);
        let (got, ran) = evaluation(graph, leaves, (&limits, &choices), &want);
        ran.into_iter().for_each(|(kind, count)| *kinds.entry(kind).or_default() += count);
        match compare(graph, leaves, &got, &want) {
            Ok(Found::Close | Found::Sensitive | Found::Wild) => {}
            Err(error) => panic!("{name}: {error}\n{graph}"),
        }
    }
    kinds
}

#[test]
fn training_steps() {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..12 {
        let step = training_step(seed);
        for graph in [&step.graph, &passes::run(step.graph.clone()).0] {
            agrees(graph, &step.leaves)
                .into_iter()
                .for_each(|(kind, n)| *kinds.entry(kind).or_default() += n);
        }
    }
    for kind in ["map", "rows", "product", "together"] {
        assert!(kinds.contains_key(kind), "{kinds:?}");
    }
}

/// Every schedule of products in each precision, with operands in every order of axes and extents that tiles
/// do not divide. The elements are small integers, so that there is no rounding.
#[test]
fn products_are_exact_of_whole_numbers() {
    for precision in [Precision::F16, Precision::Bf16, Precision::Tf32, Precision::Tf32x3] {
        exact_products(precision);
    }
}

/// Products in TF32 have its rounding error; with the products of the residuals, they are almost as exact as
/// in f32. All values remain f32.
#[test]
fn products_in_tf32_are_off_by_what_it_rounds() {
    let graph = block();
    let leaves = Leaves::random(3);
    let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
    let limits = Limits::cuda();
    for (precision, range) in [(Precision::Tf32, 1e-5..2e-3), (Precision::Tf32x3, 0.0..3e-6)] {
        let choices = Choices::by_rule(precision);
        let lowered = lower(&graph, &limits, &choices);
        assert!(lowered.buffers.values().all(|ty| !matches!(ty.dtype, DType::F16 | DType::BF16)));
        let (got, kinds) = evaluation(&graph, &leaves, (&limits, &choices), &want);
        assert!(kinds["matrices"] > 5 && kinds["attention"] == 2, "{kinds:?}");
        for ((name, got), (_, want)) in got.outputs.iter().zip(&want.outputs).skip(1) {
            let off = distance(&got.to_f64(), &want.to_f64());
            println!("{precision:?}: output {name} is off by {off:.1e}");
            assert!(range.contains(&off), "{precision:?}: output {name} is off by {off:.1e}");
        }
    }
    // A library rounds to TF32 internally, which the simulation omits, so the error is that of attention.
    let choices = Choices::by_rule(Precision::Tf32);
    let limits = Limits { library: Some(1), ..limits };
    let lowered = lower(&graph, &limits, &choices);
    let by_library = |launch: &&Launch| matches!(launch.schedule, Schedule::Library(_));
    assert!(lowered.launches.iter().filter(by_library).count() > 5);
    let (got, _) = evaluation(&graph, &leaves, (&limits, &choices), &want);
    for ((name, got), (_, want)) in got.outputs.iter().zip(&want.outputs) {
        let off = distance(&got.to_f64(), &want.to_f64());
        assert!(off < 1e-3, "output {name} is off by {off:.1e}");
    }
    let choices = Choices::by_rule(Precision::Tf32x3);
    assert_eq!(lower(&graph, &limits, &choices).launches.iter().filter(by_library).count(), 0);
}

/// Returns the distance of two vectors, relative to the norm of the second.
fn distance(got: &[f64], want: &[f64]) -> f64 {
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut got.iter().zip(want).map(|(got, want)| got - want)) / norm(&mut want.iter().copied())
}

fn exact_products(precision: Precision) {
    let (m, n, k) = (70, 66, 40);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for (left, right, axes) in [
        ([m, k], [k, n], "lhs_contract=[1], rhs_contract=[0]"),
        ([m, k], [n, k], "lhs_contract=[1], rhs_contract=[1]"),
        ([k, m], [k, n], "lhs_contract=[0], rhs_contract=[0]"),
        ([k, m], [n, k], "lhs_contract=[0], rhs_contract=[1]"),
    ] {
        let graph = parse(&format!(
            "graph {{\n %0: f32{left:?} = input \"a\"\n %1: f32{right:?} = input \"b\"\n \
             %2: f32[{m}, {n}] = dot %0, %1 {{{axes}}}\n output \"y\" %2\n}}"
        ))
        .unwrap();
        let whole = |shape: [usize; 2], factor: usize| -> Vec<f64> {
            (0..shape[0] * shape[1]).map(|i| (i * factor % 17) as f64 - 8.0).collect()
        };
        let leaves = Leaves::random(0).with("a", DType::F32, &left, &whole(left, 5)).with(
            "b",
            DType::F32,
            &right,
            &whole(right, 7),
        );
        let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
        let limits = Limits::cuda();
        let rule = Choices::by_rule(precision);
        let fused = fuse(&graph, Fusion::SumsApart).unwrap();
        let problem = Target::cuda(limits, precision).problems(&graph, &fused).remove(0);
        for choice in candidates(&problem, precision, &limits) {
            let mut choices = rule.clone();
            choices.insert(problem.clone(), choice);
            let (got, ran) = evaluation(&graph, &leaves, (&limits, &choices), &want);
            assert_eq!(got.outputs, want.outputs, "{precision:?}: {choice:?} of {left:?} and {right:?}");
            ran.into_iter().for_each(|(kind, count)| *kinds.entry(kind).or_default() += count);
        }
    }
    assert!(kinds["matrices"] >= 16 && kinds["product"] >= 16, "{kinds:?}");
}

/// Products with equal extents are merged into one kernel even if other tiled products are between them, and
/// have the same results as separate kernels. Products that depend on each other are not merged.
#[test]
fn products_that_are_alike_run_together() {
    let graph = parse(
        "graph {\n %0: f32[70, 36] = input \"x\"\n %1: f32[36, 44] = input \"a\"\n \
         %2: f32[36, 44] = input \"b\"\n %3: f32[36, 44] = input \"c\"\n %4: f32[70, 44] = input \"g\"\n \
         %5: f32[70, 44] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}\n \
         %6: f32[36, 44] = dot %0, %4 {lhs_contract=[0], rhs_contract=[0]}\n \
         %7: f32[70, 44] = dot %0, %2 {lhs_contract=[1], rhs_contract=[0]}\n \
         %8: f32[70, 44] = dot %0, %3 {lhs_contract=[1], rhs_contract=[0]}\n \
         %9: f32[70, 36] = dot %7, %1 {lhs_contract=[1], rhs_contract=[1]}\n \
         %10: f32[70, 36] = dot %8, %2 {lhs_contract=[1], rhs_contract=[1]}\n \
         output \"p\" %5\n output \"q\" %6\n output \"r\" %9\n output \"s\" %10\n}",
    )
    .unwrap();
    let number = |elements: usize, factor: usize| -> Vec<f64> {
        (0..elements).map(|i| (i * factor % 17) as f64 - 8.0).collect()
    };
    let mut leaves = Leaves::random(0);
    for (factor, (name, shape)) in
        [("x", [70, 36]), ("a", [36, 44]), ("b", [36, 44]), ("c", [36, 44]), ("g", [70, 44])]
            .into_iter()
            .enumerate()
    {
        leaves = leaves.with(name, DType::F32, &shape, &number(shape[0] * shape[1], 5 + factor));
    }
    let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
    for (name, limits) in devices() {
        let choices = Choices::by_rule(Precision::F32);
        let lowered = lower(&graph, &limits, &choices);
        let parts = |launch: &Launch| match &launch.kernel {
            kernel::Kernel::Group(parts) => parts.len(),
            _ => 1,
        };
        assert_eq!(lowered.launches.iter().map(parts).collect::<Vec<_>>(), [3, 1, 2], "{name}");
        let (got, ran) = evaluation(&graph, &leaves, (&limits, &choices), &want);
        assert_eq!(got.outputs, want.outputs, "{name}");
        assert_eq!(ran, BTreeMap::from([("together", 2), ("product", 1)]), "{name}");
    }
}

/// An update in place is not merged with a launch that reads the state that it overwrites.
#[test]
fn updates_that_are_alike_stay_apart() {
    let axes = "{lhs_contract=[1], rhs_contract=[0]}";
    let graph = parse(&format!(
        "graph {{\n \
         %0: f32[64, 64] = state \"a\" {{init=0.0}}\n %1: f32[64, 64] = state \"b\" {{init=0.0}}\n \
         %2: f32[64, 64] = input \"x\"\n %3: f32[64, 64] = input \"y\"\n \
         %4: f32[64, 64] = dot %2, %2 {axes}\n %5: f32[64, 64] = dot %0, %3 {axes}\n \
         update %0 <- %4 {{alias}}\n update %1 <- %5\n}}"
    ))
    .unwrap();
    for (name, limits) in devices() {
        let lowered = lower(&graph, &limits, &Choices::by_rule(Precision::F32));
        let mut layout = StoreLayout::default();
        layout.extend(&graph).unwrap();
        let plan = plan(&graph, lowered, &layout, None).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(plan.launches.len(), 2, "{name}");
    }
}

/// With few rows, threads split the terms, and every element is multiplied exactly once.
#[test]
fn products_of_few_rows_are_exact_of_whole_numbers() {
    let sizes = [(1, 64, 64), (1, 100, 70), (3, 66, 768), (8, 131, 200), (2, 768, 96), (5, 64, 515)];
    let ran = products_of_few_rows(&sizes, Precision::F32);
    assert_eq!(ran.get("lanes"), Some(&24), "{ran:?}");
    assert_eq!(ran.get("streamed"), None);
}

/// With matrix instructions, subgroups split the terms: for up to eight, up to sixteen and more rows, extents
/// that tiles do not divide, 16 and 32 columns at a time, and one to sixteen subgroups.
#[test]
fn matrix_instructions_take_few_rows_from_memory() {
    let sizes = [(5, 64, 48), (8, 132, 256), (9, 100, 768), (16, 1540, 192), (16, 9000, 48), (7, 131, 48)];
    let sizes = [&sizes[..], &[(2, 64, 1536), (20, 132, 200)]].concat();
    for precision in [Precision::Bf16, Precision::F16] {
        let ran = products_of_few_rows(&sizes, precision);
        assert_eq!(ran.get("streamed"), Some(&13), "{ran:?}");
    }
    // Long sums use split-K, and the elementwise kernel after them adds the partial sums.
    let ran = products_of_few_rows(&[(3, 64, 2048), (12, 96, 2048)], Precision::Bf16);
    assert_eq!((ran.get("streamed"), ran.get("map")), (Some(&4), Some(&4)), "{ran:?}");
    // With more rows, a workgroup has 32 of them, with one or two subgroups, and long sums use split-K, too.
    let ran = products_of_few_rows(&[(48, 2052, 32), (33, 2048, 192)], Precision::Bf16);
    assert_eq!(ran.get("streamed"), Some(&4), "{ran:?}");
    let ran = product_of_few_rows((40, 768, 2048), [false, false], Precision::Bf16);
    assert_eq!((ran.get("streamed"), ran.get("map")), (Some(&1), Some(&1)), "{ran:?}");
}

/// Returns the number of runs of each kind of kernel for products with these rows, columns and terms, with
/// operands in every order of axes.
fn products_of_few_rows(
    sizes: &[(usize, usize, usize)],
    precision: Precision,
) -> BTreeMap<&'static str, usize> {
    let mut kinds = BTreeMap::new();
    for &size in sizes {
        for turned in [[false, false], [false, true], [true, false], [true, true]] {
            let ran = product_of_few_rows(size, turned, precision);
            ran.into_iter().for_each(|(kind, count)| *kinds.entry(kind).or_default() += count);
        }
    }
    kinds
}

/// Returns the number of runs of each kind of kernel for one product, with transposed operands or not.
fn product_of_few_rows(
    (m, n, k): (usize, usize, usize),
    [left_turned, right_turned]: [bool; 2],
    precision: Precision,
) -> BTreeMap<&'static str, usize> {
    let (left, by_left) = if left_turned { ([k, m], 0) } else { ([m, k], 1) };
    let (right, by_right) = if right_turned { ([n, k], 1) } else { ([k, n], 0) };
    let graph = parse(&format!(
        "graph {{\n %0: f32{left:?} = input \"a\"\n %1: f32{right:?} = input \"b\"\n \
         %2: f32[{m}, {n}] = dot %0, %1 {{lhs_contract=[{by_left}], rhs_contract=[{by_right}]}}\n \
         %3: f32[{n}] = input \"c\"\n %4: f32[1, {n}] = reshape %3\n \
         %6: f32[{m}, {n}] = broadcast %4\n %5: f32[{m}, {n}] = add %2, %6\n output \"y\" %5\n}}"
    ));
    let graph = graph.unwrap_or_else(|error| panic!("{error}"));
    let whole = |count: usize, factor: usize| -> Vec<f64> {
        (0..count).map(|i| (i * factor % 17) as f64 - 8.0).collect()
    };
    let leaves = Leaves::random(0)
        .with("a", DType::F32, &left, &whole(m * k, 5))
        .with("b", DType::F32, &right, &whole(n * k, 7))
        .with("c", DType::F32, &[n], &whole(n, 3));
    let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
    let (got, ran) = evaluation(&graph, &leaves, (&Limits::cuda(), &Choices::by_rule(precision)), &want);
    assert_eq!(got.outputs, want.outputs, "{left:?} and {right:?}");
    ran
}

/// 16-bit weights are read directly, without a kernel that converts them.
#[test]
fn products_read_weights_of_16_bits() {
    let limits = Limits::cuda();
    for (m, dtype, precision) in [
        (1, "bf16", Precision::F32),
        (3, "f16", Precision::F32),
        (70, "bf16", Precision::F32),
        (1, "bf16", Precision::Bf16),
        (70, "bf16", Precision::Bf16),
    ] {
        for (right, axes) in [
            ([96, 64], "lhs_contract=[1], rhs_contract=[0]"),
            ([64, 96], "lhs_contract=[1], rhs_contract=[1]"),
        ] {
            let graph = parse(&format!(
                "graph {{\n %0: f32[{m}, 96] = input \"a\"\n %1: {dtype}{right:?} = param \"b\"\n \
                 %2: f32{right:?} = cast %1\n %3: f32[{m}, 64] = dot %0, %2 {{{axes}}}\n \
                 output \"y\" %3\n}}"
            ));
            let graph = graph.unwrap_or_else(|error| panic!("{error}"));
            let whole = |count: usize, factor: usize| -> Vec<f64> {
                (0..count).map(|i| (i * factor % 17) as f64 - 8.0).collect()
            };
            let ty = if dtype == "f16" { DType::F16 } else { DType::BF16 };
            let leaves = Leaves::random(0).with("a", DType::F32, &[m, 96], &whole(m * 96, 5)).with(
                "b",
                ty,
                &right,
                &whole(96 * 64, 7),
            );
            let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
            let (got, ran) = evaluation(&graph, &leaves, (&limits, &Choices::by_rule(precision)), &want);
            assert_eq!(got.outputs, want.outputs, "{m} rows of {dtype}, {right:?}, {precision:?}");
            assert_eq!(ran.get("cast").or(ran.get("map")), None, "{ran:?}");
        }
    }
}

/// Returns the graph of a function of f32 inputs with these shapes, after all passes. Each result is an
/// output.
fn program(shapes: &[&[usize]], results: impl Fn(&[Tensor]) -> Vec<Tensor>) -> Graph {
    let input =
        |(i, shape): (usize, &&[usize])| Input { name: i.to_string(), ty: Type::new(DType::F32, *shape) };
    let inputs: Vec<Input> = shapes.iter().enumerate().map(input).collect();
    let traced = trace(&Vec::<Param>::new(), &inputs, false, results, |results| results);
    let mut traced = traced.unwrap_or_else(|error| panic!("{error}"));
    let outputs = traced.results.iter().enumerate();
    traced.graph.outputs = outputs.map(|(i, &value)| Output { name: i.to_string(), value }).collect();
    passes::run(traced.graph).0
}

/// Attention over a KV cache of no, few and many keys, followed by a row-wise loop that adds a new key, whose
/// head may be shared, or combines rows in other ways. On CUDA, this is one kernel.
#[test]
fn rows_that_follow_from_attention_are_its_epilogue() {
    let cached = |[q, keys, values]: [Tensor; 3]| {
        let lengths = iota(DType::I32, [q.shape()[0]], 0) * 41;
        q.attention_with_log_sum(keys, values, AttentionOptions::full().key_length(lengths))
    };
    for [batch, heads, shared, keys, depth, width] in
        [[3, 2, 2, 90, 8, 8], [2, 6, 2, 64, 64, 64], [2, 4, 1, 70, 20, 12], [1, 2, 1, 64, 128, 128]]
    {
        let queries = batch;
        let key = |length| [[batch, shared, length, depth], [batch, shared, length, width]];
        let (q, [[k, v], [new_k, new_v]]) = ([batch, heads, 1, depth], [keys, 1].map(key));
        let joined = program(&[&q, &k, &v, &new_k, &new_v], |all| {
            let [q, k, v, new_k, new_v] = all.try_into().expect("five tensors");
            vec![attend_to_new(cached([q, k, v]), [q, new_k, new_v], None)]
        });
        let many = [batch, heads, queries, depth];
        let normed = program(&[&many, &k, &v], |all| {
            let (output, log_sum) = cached(all.try_into().expect("three tensors"));
            let most = output.max_axes(-1).maximum(log_sum.maximum(-1.0)).unsqueeze(-1);
            vec![output.tanh() - most, (output * output).sum_axes(-1).unsqueeze(-1) + output]
        });
        let watched = program(&[&q, &k, &v], |all| {
            let (output, _) = cached(all.try_into().expect("three tensors"));
            vec![output.tanh() + output.sum_axes(-1).unsqueeze(-1), output]
        });
        for (graph, together) in [(joined, 1), (normed, 1), (watched, 0)] {
            let ran = agrees(&graph, &Leaves::random(5));
            assert_eq!(ran.get("attention and rows").copied().unwrap_or(0), together, "{q:?}: {ran:?}");
        }
    }
}

/// 16-bit keys and values in paged memory are read directly, 16 bytes at a time if rows allow it: with few
/// and many heads per key head, and row lengths that are multiples of eight, of four, and of neither.
#[test]
fn attention_reads_pools_of_16_bits() {
    for ([heads, shared, depth, width], dtype) in [
        ([4, 2, 64, 64], "bf16"),
        ([2, 2, 24, 8], "f16"),
        ([6, 1, 16, 40], "bf16"),
        ([2, 1, 12, 20], "f16"),
        ([2, 2, 7, 8], "bf16"),
    ] {
        let queries = if depth == 24 { 3 } else { 1 };
        let graph = parse(&format!(
            "graph {{\n %0: f32[2, {heads}, {queries}, {depth}] = input \"q\"\n \
             %1: {dtype}[7, {shared}, 16, {depth}] = param \"k\"\n \
             %2: {dtype}[7, {shared}, 16, {width}] = param \"v\"\n %3: i32[2] = input \"length\"\n \
             %4: i32[2, 5] = input \"table\"\n %5: f32[7, {shared}, 16, {depth}] = cast %1\n \
             %6: f32[7, {shared}, 16, {width}] = cast %2\n \
             %7: f32[2, {heads}, {queries}, {width}], %8: f32[2, {heads}, {queries}] = \
             attention %0, %5, %6, %3, %4 {{scale=0.25, key_length, block_table}}\n \
             %9: f32[2, {heads}, {queries}, {width}] = tanh %7\n \
             %10: f32[2, {heads}, {queries}] = sum %9 {{axes=[3]}}\n \
             %11: f32[2, {heads}, {queries}, 1] = reshape %10\n \
             %12: f32[2, {heads}, {queries}, {width}] = broadcast %11\n \
             %13: f32[2, {heads}, {queries}, {width}] = add %9, %12\n output \"y\" %13\n}}"
        ));
        let graph = graph.unwrap_or_else(|error| panic!("{error}"));
        let table = [6.0, 0.0, 3.0, 1.0, 5.0, 2.0, 4.0, 6.0, -1.0, 9.0];
        let leaves = Leaves::random(11).with("length", DType::I32, &[2], &[77.0, 41.0]).with(
            "table",
            DType::I32,
            &[2, 5],
            &table,
        );
        let limits = Limits::cuda();
        let lowered = lower(&graph, &limits, &Choices::by_rule(Precision::F32));
        let attention = lowered.launches.iter().find(|launch| launch.reads.len() >= 5).expect("attention");
        let Schedule::Attention(schedule) = &attention.schedule else { panic!("{attention:?}") };
        let [(_, kernel::AttentionChoice::Lanes(lanes))] = schedule.kernels[..] else {
            panic!("{schedule:?}")
        };
        let has_eights = [depth, width].iter().all(|rows| rows % 8 == 0) && heads / shared <= 2;
        assert_eq!((lanes.each, attention.reads[1].dtype.bytes()), (if has_eights { 8 } else { 4 }, 2));
        let ran = agrees(&graph, &leaves);
        assert!(ran.contains_key("attention and rows"), "{ran:?}");
    }
}

/// Returns a transformer block with its gradients: attention, a norm, an activation, and products of every
/// kind.
fn block() -> Graph {
    const WIDTH: usize = 32;
    let shapes: [&[usize]; 5] =
        [&[64, WIDTH], &[WIDTH, 3 * WIDTH], &[WIDTH, WIDTH], &[WIDTH, 64], &[64, WIDTH]];
    let results = |all: &[Tensor]| {
        let [x, qkv, mix, up, down] = all.try_into().expect("five tensors");
        let small = |w: Tensor| w * 0.2;
        let heads = |i: isize| {
            let (from, to) = (i * WIDTH as isize, (i + 1) * WIDTH as isize);
            x.matmul(small(qkv)).slice(1, from..to).reshape([1, 64, 2, 16]).permute([0, 2, 1, 3])
        };
        let mixed = heads(0).attention(heads(1), heads(2), AttentionOptions::causal());
        let mixed = mixed.permute([0, 2, 1, 3]).reshape([64, WIDTH]).matmul(small(mix));
        let normal = (x + mixed).layer_norm(full(DType::F32, [WIDTH], 1.0), 1e-5);
        let y = normal.matmul(small(up)).gelu().matmul(small(down)) + normal;
        let loss = y.square().mean();
        [vec![loss, y], gradients(loss, [x, qkv, mix, up, down]).to_vec()].concat()
    };
    program(&shapes, results)
}

/// If values between kernels have 16 bits, the error of outputs relative to f64 is that of a few roundings,
/// and not less.
#[test]
fn values_between_kernels_are_rounded_in_each_precision() {
    let graph = block();
    let leaves = Leaves::random(3);
    let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
    let limits = Limits::cuda();
    // Maximum relative error of a rounding. On the longest path, from the loss to the gradient of the first
    // weights, there are about 20 roundings, which have random signs.
    for (precision, unit, dtype) in
        [(Precision::F16, 2f64.powi(-11), DType::F16), (Precision::Bf16, 2f64.powi(-8), DType::BF16)]
    {
        let choices = Choices::by_rule(precision);
        let lowered = lower(&graph, &limits, &choices);
        let narrow = lowered.buffers.values().filter(|ty| ty.dtype == dtype).count();
        assert!(narrow > 10, "{precision:?}: {narrow} values of 16 bits");
        let (got, kinds) = evaluation(&graph, &leaves, (&limits, &choices), &want);
        assert!(kinds["matrices"] > 5 && kinds["attention"] == 2, "{kinds:?}");
        for ((name, got), (_, want)) in got.outputs.iter().zip(&want.outputs) {
            let off = distance(&got.to_f64(), &want.to_f64());
            println!("{precision:?}: output {name} is off by {:.2} roundings", off / unit);
            assert!(off < 4.0 * unit, "{precision:?}: output {name} is off by {:.2} roundings", off / unit);
            assert!(
                name == "0" || off > unit / 20.0,
                "{precision:?}: output {name} is not rounded: {off:.1e}"
            );
        }
    }
}

/// Returns a classifier of 13 classes, whose rows of logits are not whole vectors, with its gradients. If
/// `has_bias` is true, the library can add the bias: the product's operand is scaled, not the product.
fn classifier(has_bias: bool) -> Graph {
    let shapes: [&[usize]; 4] = [&[32, 16], &[16, 24], &[24], &[13, 24]];
    let results = |all: &[Tensor]| {
        let [x, up, bias, classes] = all.try_into().expect("four tensors");
        let sums = if has_bias { (x * 0.3).matmul(up) } else { x.matmul(up) * 0.3 };
        let hidden = (sums + bias).gelu();
        let logits = hidden.matmul(classes.transpose(0, 1));
        let loss = (logits.softmax(1) * logits).square().sum();
        // Scale the gradients, so that no output is the result of a product: outputs have no padding after
        // them.
        [vec![loss], gradients(loss, [x, up, bias, classes]).map(|gradient| gradient * 0.5).to_vec()].concat()
    };
    program(&shapes, results)
}

/// Products by a library have 16-bit operands, each rounded once, and extents that are padded with zeros to
/// multiples of eight.
#[test]
fn a_library_multiplies_whole_vectors() {
    let limits = Limits { library: Some(1), ..Limits::cuda() };
    for (graph, has_bias) in [(classifier(false), false), (classifier(true), true), (block(), false)] {
        let leaves = Leaves::random(5);
        let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
        let choices = Choices::by_rule(Precision::Bf16);
        let lowered = lower(&graph, &limits, &choices);
        let products = lowered.launches.iter().filter(|launch| {
            matches!(&launch.kernel, kernel::Kernel::Op(OpKind::Dot(_)) | kernel::Kernel::Dot { .. })
        });
        let mut extents = Vec::new();
        for launch in products {
            let Schedule::Library(library) = &launch.schedule else { panic!("{launch:?}") };
            extents.push(library.extents);
        }
        assert!(extents.len() >= 5 && extents.iter().flatten().all(|extent| extent % 8 == 0), "{extents:?}");
        let (got, kinds) = evaluation(&graph, &leaves, (&limits, &choices), &want);
        let biases = kinds.get("library with bias").copied().unwrap_or(0);
        assert_eq!(kinds["library"] + biases, extents.len());
        assert_eq!(biases > 0, has_bias);
        for ((name, got), (_, want)) in got.outputs.iter().zip(&want.outputs) {
            let (got, want) = (got.to_f64(), want.to_f64());
            let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
            let off = norm(&mut got.iter().zip(&want).map(|(got, want)| got - want));
            let off = off / norm(&mut want.iter().copied()) / 2f64.powi(-8);
            assert!(off < 6.0, "output {name} is off by {off:.2} roundings");
        }
    }
}

/// In f32, the rows of temporaries are padded for the library, but not those of inputs and outputs.
#[test]
fn a_library_multiplies_rows_of_any_length() {
    let limits = Limits { library: Some(1), ..Limits::cuda_of((9, 0)) };
    let outputs = program(&[&[32, 12], &[12, 13], &[13, 9]], |all| {
        let [x, up, down] = all.try_into().expect("three tensors");
        let hidden = x.matmul(up);
        vec![hidden, hidden.exp().matmul(down).sum(), (hidden * 0.5).matmul(down)]
    });
    // The rows of the last graph's inputs and outputs are not multiples of eight elements.
    for (graph, by_library) in [(classifier(false), true), (classifier(true), true), (outputs, false)] {
        let leaves = Leaves::random(6);
        let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
        let choices = Choices::by_rule(Precision::Tf32);
        let (got, kinds) = evaluation(&graph, &leaves, (&limits, &choices), &want);
        assert_eq!(kinds.contains_key("library"), by_library, "{kinds:?}");
        for ((name, got), (_, want)) in got.outputs.iter().zip(&want.outputs) {
            let off = distance(&got.to_f64(), &want.to_f64());
            assert!(off < 2e-3, "output {name} is off by {off:.1e}");
        }
    }
}

/// Distinct rows are stored in a copy or in a state's memory, without sorting; rows out of range are skipped.
#[test]
fn distinct_rows_are_put_and_others_left_out() {
    for (batches, rows, updates, width) in [(1, 7, 4, 3), (2, 3, 5, 70), (1, 1, 1, 1), (3, 300, 2, 1)] {
        let graph = parse(&format!(
            "graph {{\n %0: f32[{batches}, {rows}, {width}] = input \"x\"\n \
             %1: i32[{batches}, {updates}] = input \"i\"\n \
             %2: f32[{batches}, {updates}, {width}] = input \"u\"\n \
             %3: f32[{batches}, {rows}, {width}] = scatter_distinct %0, %1, %2 {{batch=1}}\n \
             output \"y\" %3\n}}"
        ))
        .unwrap();
        let numbers: Vec<f64> = (0..batches * updates)
            .map(|i| [1.0, -1.0, 0.0, f64::from(rows), 2.0][(i % updates) as usize])
            .collect();
        let shape = [batches as usize, updates as usize];
        let kinds = agrees(&graph, &Leaves::random(3).with("i", DType::I32, &shape, &numbers));
        assert!(kinds["scatter"] >= 4, "{kinds:?}");
    }
}

/// Scatters of the commit with equal shapes are one launch, whose kernel stores the rows of each.
#[test]
fn scatters_of_distinct_rows_run_together() {
    let graph = parse(
        "graph {\n %0: f32[5, 3] = state \"a\" {init=0.0}\n %1: f32[5, 3] = state \"b\" {init=0.0}\n \
         %2: i32[2] = input \"i\"\n %3: f32[2, 3] = input \"u\"\n %4: f32[2, 3] = input \"v\"\n \
         %5: f32[5, 3] = scatter_distinct %0, %2, %3 {batch=0}\n \
         %6: f32[5, 3] = scatter_distinct %1, %2, %4 {batch=0}\n update %0 <- %5\n update %1 <- %6\n}",
    );
    let graph = graph.unwrap_or_else(|error| panic!("{error}"));
    let choices = Choices::by_rule(Precision::F32);
    let scatters = |limits: &Limits| -> Vec<usize> {
        let lowered = lower(&graph, limits, &choices);
        let parts = |launch: &Launch| match &launch.kernel {
            kernel::Kernel::Group(parts) => parts.len(),
            _ => 1,
        };
        lowered.launches.iter().map(parts).collect()
    };
    assert_eq!([scatters(&Limits::cuda()), scatters(&Limits::portable())], [vec![2], vec![1, 1]]);

    let lowered = lower(&graph, &Limits::cuda(), &choices);
    let launch = &lowered.launches[0];
    let (kernel::Kernel::Group(parts), Schedule::Group(schedule)) = (&launch.kernel, &launch.schedule) else {
        panic!("{launch:?}")
    };
    let (reads, writes) = (&launch.reads[parts[0].reads.clone()], &launch.writes[parts[0].writes.clone()]);
    let views = views(reads, writes, &|_| false, Phase::Compute);
    // Both matrices are in one buffer, one after the other, and so are both updates.
    let starts = [([2, 3], vec![0, 0, 0, 0]), ([2, 3], vec![15, 0, 6, 15])];
    let table = Table::new(group::Form::of_part(&parts[0]).unwrap(), starts.into_iter(), schedule);
    let made = kernels::together(&views, &[&parts[0]], &table, schedule);
    let floats = |numbers: std::ops::Range<u8>| -> Vec<u32> {
        numbers.map(|number| f32::from(number).to_bits()).collect()
    };
    let matrices = floats(0..30);
    let mut machine = Machine {
        operands: vec![matrices.clone(), vec![4, u32::MAX], floats(100..112)],
        results: vec![matrices.iter().copied().map(Some).collect()],
        workspace: Vec::new(),
        faults: Vec::new(),
        checked: Vec::new(),
        committed: true,
        status: Vec::new(),
    };
    assert_eq!(made.len(), 1);
    verify(&made[0]).unwrap_or_else(|error| panic!("{error}"));
    machine.run(&made[0]).unwrap_or_else(|error| panic!("{error}"));
    // A row with an index out of range is skipped.
    let mut want = matrices;
    want[12..15].copy_from_slice(&floats(100..103));
    want[27..30].copy_from_slice(&floats(106..109));
    assert_eq!(machine.results[0], want.into_iter().map(Some).collect::<Vec<_>>());
}

/// The epilogue of a library product is merged into the row-wise kernel after it.
#[test]
fn a_residual_and_the_norm_behind_it_are_one_kernel() {
    let results = |all: &[Tensor]| {
        let [x, weight, residual] = all.try_into().expect("three tensors");
        let y = x.matmul(weight) + residual;
        vec![y, y.layer_norm(full(DType::F32, [32], 1.0), 1e-5)]
    };
    let graph = program(&[&[64, 32], &[32, 32], &[64, 32]], results);
    let leaves = Leaves::random(5);
    let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
    let limits = Limits { library: Some(1), ..Limits::cuda() };
    let choices = Choices::by_rule(Precision::Tf32);
    let lowered = lower(&graph, &limits, &choices);
    assert_eq!(lowered.launches.len(), 2, "{:?}", lowered.launches);
    let (got, kinds) = evaluation(&graph, &leaves, (&limits, &choices), &want);
    assert_eq!((kinds.get("library"), kinds.get("rows")), (Some(&1), Some(&1)), "{kinds:?}");
    for ((name, got), (_, want)) in got.outputs.iter().zip(&want.outputs) {
        let off = distance(&got.to_f64(), &want.to_f64());
        assert!(off < 1e-5, "output {name} is off by {off:.1e}");
    }
}

/// Rows of all lengths that groups of four treat differently: whole groups or not, in registers or not, with
/// column sums.
#[test]
fn rows_in_fours_of_every_length() {
    let mut compared = 0;
    for columns in [64, 1020, 1024, 1025, 1027, 2050, 4096, 4099, 4100, 5120, 16_384, 20_000, 20_002] {
        let shapes: [&[usize]; 2] = [&[3, columns], &[columns]];
        let results = |all: &[Tensor]| {
            let [x, weight] = all.try_into().expect("two tensors");
            let y = x.layer_norm(weight, 1e-5);
            let loss = (y.softmax(1) * y).sum();
            [vec![loss, y.softmax(1)], gradients(loss, [x, weight]).to_vec()].concat()
        };
        let graph = program(&shapes, results);
        let leaves = Leaves::random(columns as u64);
        let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
        let (got, kinds) =
            evaluation(&graph, &leaves, (&Limits::cuda(), &Choices::by_rule(Precision::F32)), &want);
        assert!(kinds.contains_key("rows"), "{kinds:?}");
        match compare(&graph, &leaves, &got, &want) {
            Ok(Found::Close | Found::Sensitive) => compared += 1,
            // The f32 error of such a long sum may be as large as the sum.
            Ok(Found::Wild) => {}
            Err(error) => panic!("{columns} columns: {error}"),
        }
    }
    assert!(compared >= 10, "{compared}");
}

/// Rows that a workgroup keeps in its memory have the same results as rows that each pass reads again.
#[test]
fn kept_rows_have_the_same_results() {
    for (columns, fits) in [(4099, false), (5000, true), (20_000, true), (29_056, true), (29_060, false)] {
        let graph = program(&[&[3, columns], &[3, columns]], |all| {
            let [x, y] = all.try_into().expect("two tensors");
            let loss = (x.log_softmax(1) * y).sum();
            vec![x.softmax(1), gradients(loss, x)]
        });
        let leaves = Leaves::random(columns as u64);
        let want = evaluate(&graph, &|kind| leaves.value(kind)).unwrap();
        let run =
            |limits: Limits| evaluation(&graph, &leaves, (&limits, &Choices::by_rule(Precision::F32)), &want);
        let ((read, _), (kept, kinds)) = (run(Limits::cuda()), run(Limits::cuda_of((9, 0))));
        assert_eq!(kinds.contains_key("kept rows"), fits, "{columns} columns: {kinds:?}");
        for ((name, read), (_, kept)) in read.outputs.iter().zip(&kept.outputs) {
            assert_eq!(bits(read), bits(kept), "{name} of {columns} columns");
        }
        compare(&graph, &leaves, &kept, &want).unwrap_or_else(|error| panic!("{columns}: {error}"));
    }
}

//! Matrix products: squares, and those of two GPT training steps.

use crate::device::Device;
use crate::matrices::{Matrices, Operands, Prepared};
use gradloom_codegen::pipeline::Precision;
use gradloom_codegen::schedule::product::{choose, fits};
use gradloom_core::ir::DType;
use gradloom_core::kernel::{CooperativeTile, Method, ProductChoice, Staging, Tile};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Returns the three products of each linear layer in a GPT training step with 1,024 tokens.
fn training_step(label: &str, width: usize, vocabulary: usize, precision: Precision) -> Vec<Matrices> {
    let tokens = 1024;
    let layers = [
        ("qkv", width, 3 * width),
        ("projection", width, width),
        ("up", width, 4 * width),
        ("down", 4 * width, width),
        ("head", width, vocabulary),
    ];
    let shapes = layers.into_iter().flat_map(|(layer, from, to)| {
        // The head's weight is the transposed embedding table, so its storage order is the opposite.
        let tied = layer == "head";
        let new = |what: &str, extents, by_columns| {
            Matrices::new(&format!("{label} {layer} {what}"), 1, extents, by_columns, precision)
        };
        [
            new("y", [tokens, to, from], [false, tied]),
            new("dx", [tokens, from, to], [false, !tied]),
            new("dW", [from, to, tokens], [true, false]),
        ]
    });
    shapes.collect()
}

fn shapes(device: &Device) -> Vec<Matrices> {
    let mut shapes = Vec::new();
    let mut square = |label: &str, n: usize, precision| {
        for (layout, by_columns) in [("nn", [false, false]), ("nt", [false, true]), ("tn", [true, false])] {
            shapes.push(Matrices::new(&format!("{label} {n} {layout}"), 1, [n, n, n], by_columns, precision));
        }
    };
    let sizes: &[usize] = if device.limits.software { &[256, 512] } else { &[1024, 4096, 4160] };
    for &n in sizes {
        square("square", n, Precision::F32);
        if device.limits.cooperative {
            square("square-f16", n, Precision::F16);
        }
    }
    shapes.extend(training_step("S", 128, 256, Precision::F32));
    shapes.extend(training_step("M", 384, 8192, Precision::F32));
    if device.limits.cooperative {
        shapes.extend(training_step("M-f16", 384, 8192, Precision::F16));
    }
    shapes.push(Matrices::new("odd", 1, [1000, 65, 777], [false, false], Precision::F32));
    shapes.push(Matrices::new("vector", 1, [1, 1536, 384], [false, false], Precision::F32));
    shapes
}

/// Returns the choices to measure: tiles and split-K factors that fit the adapter and are reasonable for the
/// shape.
fn candidates(device: &Device, shape: &Matrices) -> Vec<ProductChoice> {
    let tile =
        |[m, n, k, thread_m, thread_n]: [u32; 5], staging| Tile { m, n, k, thread_m, thread_n, staging };
    let mut methods = Vec::new();
    let staged: &[([u32; 5], u32)] = &[
        ([128, 128, 32, 8, 8], 1),
        ([128, 128, 16, 8, 8], 1),
        ([128, 64, 32, 8, 8], 1),
        ([128, 64, 16, 8, 8], 1),
        ([128, 64, 16, 8, 8], 2),
        ([64, 64, 32, 8, 4], 1),
        ([64, 64, 16, 8, 4], 1),
        ([64, 64, 16, 8, 4], 2),
        ([64, 64, 32, 4, 4], 1),
        ([64, 64, 16, 4, 4], 2),
        ([64, 32, 32, 4, 4], 1),
        ([32, 32, 32, 4, 4], 1),
        ([32, 32, 32, 2, 4], 1),
        ([16, 32, 32, 2, 4], 1),
    ];
    let registers: &[[u32; 5]] = &[
        [64, 64, 4, 8, 8],
        [64, 32, 4, 8, 4],
        [64, 64, 4, 8, 4],
        [32, 32, 4, 4, 4],
        [32, 64, 4, 4, 8],
        [16, 32, 4, 4, 4],
        [16, 32, 4, 2, 4],
        [4, 64, 4, 1, 4],
        [32, 32, 4, 8, 8],
        [16, 64, 4, 4, 16],
    ];
    if !device.limits.software {
        methods.extend(staged.iter().map(|x| Method::Portable(tile(x.0, Staging::Workgroup(x.1)))));
    } else {
        methods.extend(
            [[32, 32, 16, 4, 4], [64, 64, 16, 8, 8]]
                .map(|x| Method::Portable(tile(x, Staging::Workgroup(1)))),
        );
    }
    let registers = if device.limits.software { registers } else { &[] };
    methods.extend(registers.iter().map(|x| Method::Portable(tile(*x, Staging::Registers))));
    if shape.precision == Precision::F16 && device.limits.cooperative {
        methods.clear();
        let tile = |[m, n, k, subgroup_m, subgroup_n, buffers]: [u32; 6]| CooperativeTile {
            m,
            n,
            k,
            subgroup_m,
            subgroup_n,
            buffers,
        };
        let tiles = [
            [128, 128, 32, 64, 64, 1],
            [128, 128, 32, 64, 32, 2],
            [128, 128, 64, 64, 32, 1],
            [128, 64, 64, 32, 32, 1],
            [64, 128, 32, 32, 64, 2],
            [64, 64, 64, 32, 32, 1],
            [64, 64, 64, 32, 32, 2],
            [64, 32, 64, 32, 16, 2],
        ];
        methods.extend(tiles.map(|x| Method::Cooperative(tile(x))));
    }
    let fits = |method: &Method| fits(*method, DType::F16, &device.limits);
    let [m, n, k] = shape.extents;
    let choices = methods.into_iter().filter(fits).flat_map(|method| {
        let (tile_m, tile_n) = match method {
            Method::Portable(tile) => (tile.m as usize, tile.n as usize),
            Method::Cooperative(tile) => (tile.m as usize, tile.n as usize),
        };
        let groups = m.div_ceil(tile_m) * n.div_ceil(tile_n);
        let most = if device.limits.software || groups >= 400 { 1 } else { (k / 64).min(2048 / groups) };
        let parts = [1, 2, 4, 8, 16].into_iter().filter(move |&parts| parts == 1 || parts <= most);
        let absurd =
            tile_m >= 2 * m.next_power_of_two() || tile_n >= 2 * n.next_power_of_two() || groups > 200_000;
        let few = groups * most.max(1) < 16 && m * n * k > 1 << 22;
        let small = tile_m * tile_n < 64 * 64 && shape.operations() > 2e10 && !device.limits.software;
        parts
            .filter(move |_| !absurd && !few && !small)
            .map(move |parts| ProductChoice { method, parts: parts as u32 })
    });
    choices.collect()
}

fn label(choice: &ProductChoice) -> String {
    let method = match choice.method {
        Method::Portable(x) => {
            let staging = match x.staging {
                Staging::Registers => "registers".into(),
                Staging::Scalars => "scalars".into(),
                Staging::Lanes(slices) => format!("lanes {slices}"),
                Staging::Sliced(slices) => format!("sliced {slices}"),
                Staging::Workgroup(buffers) => format!("staged {buffers}"),
            };
            format!("{}x{}x{} {}x{} {staging}", x.m, x.n, x.k, x.thread_m, x.thread_n)
        }
        Method::Cooperative(x) => {
            format!("coop {}x{}x{} {}x{} {}", x.m, x.n, x.k, x.subgroup_m, x.subgroup_n, x.buffers)
        }
    };
    format!("{method} /{}", choice.parts)
}

/// Creates the pipelines for all choices, in parallel on all cores.
fn prepare(
    device: &Device,
    shape: &Matrices,
    operands: &Operands,
    choices: &[ProductChoice],
) -> Vec<Result<Prepared, String>> {
    let next = AtomicUsize::new(0);
    let made: Mutex<Vec<_>> = Mutex::new((0..choices.len()).map(|_| None).collect());
    let workers = std::thread::available_parallelism().map_or(1, |x| x.get()).min(choices.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(choice) = choices.get(i) else { return };
                    let prepared = shape.prepare(device, operands, &shape.shaders(choice, device));
                    made.lock().expect("no worker panicked")[i] = Some(prepared);
                }
            });
        }
    });
    made.into_inner().expect("no worker panicked").into_iter().map(|x| x.expect("all were made")).collect()
}

/// Times products, with the rule's choice and, if `tune` is true, with many others.
pub(crate) fn run(device: &Device, filter: &[&str], tune: bool) {
    println!("{:<22} {:<36} {:>10} {:>8} {:>9}", "product", "choice", "us", "GFLOP/s", "error");
    let wanted = |shape: &Matrices| filter.is_empty() || filter.iter().any(|word| shape.name.contains(word));
    for shape in shapes(device).into_iter().filter(wanted) {
        let operands = shape.operands(device);
        let rule = choose(&shape.problem(), device.limits.operands(shape.precision), &device.limits);
        let mut choices = vec![rule];
        if tune {
            choices.extend(candidates(device, &shape).into_iter().filter(|x| *x != rule));
        }
        let start = Instant::now();
        let prepared = prepare(device, &shape, &operands, &choices);
        let compile = start.elapsed().as_secs_f64() * 1e3;
        let repeats = if shape.operations() > 2e10 { 3 } else { 20 };
        let repeats = if device.limits.software { 1 } else { repeats };
        let mut rows = Vec::new();
        for (choice, prepared) in choices.iter().zip(&prepared) {
            let prepared = match prepared {
                Ok(prepared) => prepared,
                Err(error) => {
                    println!("{:<22} {:<36} failed: {error}", shape.name, label(choice));
                    continue;
                }
            };
            let [m, n, _] = shape.extents;
            let bytes = 4 * (shape.batch * m * n) as u64;
            device.queue.write_buffer(&operands.result, 0, &vec![0xff; bytes as usize]);
            // Warm up longer before the first choice, because the clock rates of an idle device fall.
            let warm = Duration::from_millis(if tune && !rows.is_empty() { 5 } else { 300 });
            let timing = device.measure(warm, if tune { 5 } else { 11 }, |pass| {
                (0..repeats).for_each(|_| prepared.encode(pass));
            });
            let error = shape.error(&operands, &device.read(&operands.result, bytes), 500);
            rows.push((timing.device / f64::from(repeats), *choice, error));
        }
        if tune {
            rows[1..].sort_by(|x, y| x.0.total_cmp(&y.0));
        }
        for (i, (time, choice, error)) in rows.iter().enumerate() {
            let note = match (i, tune) {
                (0, false) => format!("<- rule, made in {compile:.0} ms"),
                (0, true) => "<- rule".into(),
                _ => String::new(),
            };
            println!(
                "{:<22} {:<36} {time:>10.1} {:>8.0} {error:>9.1e} {note}",
                shape.name,
                label(choice),
                shape.operations() / time / 1e3
            );
        }
    }
}

/// Prints the shaders that the rule selects for the products of this name.
pub(crate) fn print(device: &Device, name: &str) {
    for shape in shapes(device).into_iter().filter(|shape| shape.name == name) {
        let choice = choose(&shape.problem(), device.limits.operands(shape.precision), &device.limits);
        let shaders = shape.shaders(&choice, device);
        println!("// {}: {}", shape.name, label(&choice));
        shaders.dispatches.iter().for_each(|dispatch| println!("{}", dispatch.source));
    }
}

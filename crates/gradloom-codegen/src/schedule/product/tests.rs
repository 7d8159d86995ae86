//! Tests that every kind of product kernel is valid WGSL and can be translated to MSL and HLSL.

use super::*;
use crate::product::{BatchAxis, MatrixView, fold_batch};
use crate::wgsl::{Choices, Dispatch, alone_product};
use gradloom_core::kernel::{CooperativeTile, ProductChoice, Tile};

/// Returns the limits of a WebGPU adapter with all features.
fn everything() -> Limits {
    Limits {
        invocations: 1024,
        workgroup_memory: 48 << 10,
        subgroup: Some(32),
        f16: true,
        cooperative: true,
        ..Limits::default()
    }
}

fn problem(batch: usize, [m, n, k]: [usize; 3], by_columns: [bool; 2]) -> DotProblem {
    let view = |free: usize, contract: usize, by_free: bool| match by_free {
        true => MatrixView { offset: 0, free_stride: 1, contract_stride: free },
        false => MatrixView { offset: 0, free_stride: contract, contract_stride: 1 },
    };
    let axis = BatchAxis { extent: batch, lhs_stride: m * k, rhs_stride: k * n };
    let batch = if batch == 1 { Vec::new() } else { vec![axis] };
    DotProblem { batch, m, n, k, lhs: view(m, k, by_columns[0]), rhs: view(n, k, !by_columns[1]) }
}

/// Returns the shaders of a product.
fn shaders(problem: &DotProblem, choice: &ProductChoice, limits: &Limits) -> Vec<Dispatch> {
    alone_product(problem, choice, limits).dispatches
}

/// Validates a shader, and translates it to MSL and HLSL if `print` is true.
fn check(source: &str, print: bool) {
    let module = naga::front::wgsl::parse_str(source)
        .unwrap_or_else(|e| panic!("{}\n{source}", e.emit_to_string(source)));
    let mut validator =
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
    let info =
        validator.validate(&module).unwrap_or_else(|e| panic!("{}\n{source}", e.emit_to_string(source)));
    if !print {
        return;
    }
    let options = naga::back::msl::Options { fake_missing_bindings: true, ..Default::default() };
    naga::back::msl::write_string(&module, &info, &options, &Default::default())
        .unwrap_or_else(|e| panic!("{e}\n{source}"));
    let options = naga::back::hlsl::Options {
        shader_model: naga::back::hlsl::ShaderModel::V6_2,
        fake_missing_bindings: true,
        ..Default::default()
    };
    let mut text = String::new();
    naga::back::hlsl::Writer::new(&mut text, &options, &Default::default())
        .write(&module, &info, None)
        .unwrap_or_else(|e| panic!("{e}\n{source}"));
}

fn check_all(shaders: &[Dispatch], print: bool) {
    shaders.iter().for_each(|shader| check(&shader.source, print));
}

const STAGED: Tile = Tile { m: 32, n: 32, k: 16, thread_m: 4, thread_n: 4, staging: Staging::Workgroup(2) };
const REGISTERS: Tile = Tile { m: 32, n: 32, k: 4, thread_m: 4, thread_n: 8, staging: Staging::Registers };
const COOPERATIVE: CooperativeTile =
    CooperativeTile { m: 64, n: 64, k: 32, subgroup_m: 32, subgroup_n: 32, buffers: 2 };

#[test]
fn shaders_are_valid_for_any_extents_and_layouts() {
    let narrow = Tile { thread_m: 1, m: 8, staging: Staging::Workgroup(1), ..STAGED };
    let scalars = Tile { staging: Staging::Scalars, thread_n: 1, n: 8, ..REGISTERS };
    let device = everything();
    let software = Limits { software: true, scalar: true, ..device };
    for (extents, batch) in
        [([64, 64, 64], 1), ([1, 1, 1], 1), ([7, 65, 1000], 3), ([40, 24, 36], 2), ([5, 3, 0], 1)]
    {
        for by_columns in [[false, false], [false, true], [true, false], [true, true]] {
            let problem = problem(batch, extents, by_columns);
            let made =
                |method, parts, limits: &Limits| shaders(&problem, &ProductChoice { method, parts }, limits);
            for parts in [1, 3] {
                for tile in [STAGED, REGISTERS, narrow] {
                    check_all(&made(Method::Portable(tile), parts, &device), true);
                    check_all(&made(Method::Portable(tile), parts, &software), true);
                }
                check_all(&made(Method::Cooperative(COOPERATIVE), parts, &device), false);
            }
            check_all(&made(Method::Portable(scalars), 1, &software), true);
        }
    }
}

#[test]
fn shared_right_operands_fold_into_rows() {
    let mut shared = problem(6, [4, 8, 16], [false, false]);
    shared.batch[0].rhs_stride = 0;
    let folded = fold_batch(shared.clone());
    assert_eq!((folded.batch.len(), folded.m, folded.lhs.free_stride), (0, 24, 16));
    // With one row per batch element, the batch can be merged regardless of its stride.
    let mut single = problem(6, [1, 8, 16], [false, false]);
    single.batch[0] = BatchAxis { extent: 6, lhs_stride: 40, rhs_stride: 0 };
    assert_eq!((fold_batch(single.clone()).m, fold_batch(single).lhs.free_stride), (6, 40));
    // Rows of a column-major operand are not evenly spaced over the batch.
    let mut columns = problem(6, [4, 8, 16], [true, false]);
    columns.batch[0].rhs_stride = 0;
    assert_eq!(fold_batch(columns.clone()), columns);
    let own = problem(6, [4, 8, 16], [false, false]);
    assert_eq!(fold_batch(own.clone()), own);
}

#[test]
fn dispatches_fold_at_the_limit() {
    let limits = Limits { workgroups: 13, ..everything() };
    let problem = problem(1, [320, 320, 8], [false, false]);
    let choice = ProductChoice { method: Method::Portable(STAGED), parts: 1 };
    let shaders = shaders(&problem, &choice, &limits);
    // 100 tiles take eight rows of 13 workgroups, four of which have nothing to do.
    assert_eq!(shaders[0].workgroups, [13, 8, 1]);
    assert!(shaders[0].source.contains("if (group >= 100u)"));
    check_all(&shaders, true);
}

#[test]
fn nothing_to_compute_is_no_dispatch() {
    for (batch, extents) in [(1, [0, 5, 300]), (3, [5, 0, 300]), (0, [80, 80, 300])] {
        let problem = problem(batch, extents, [false, false]);
        for parts in [1, 2] {
            let choice = ProductChoice { method: Method::Portable(STAGED), parts };
            assert!(shaders(&problem, &choice, &everything()).is_empty(), "{extents:?}");
        }
    }
}

#[test]
fn parts_without_terms_are_left_out() {
    let problem = problem(1, [32, 32, 64], [false, false]);
    let schedule_of = |parts| {
        let choice = ProductChoice { method: Method::Portable(STAGED), parts };
        assert_eq!(shaders(&problem, &choice, &everything()).len(), if parts > 1 { 2 } else { 1 });
        schedule(&problem, choice, DType::F16, &everything())
    };
    // The 64 terms form four staged tiles, so there are at most four parts.
    assert_eq!((schedule_of(7).choice.parts, schedule_of(7).workspace), (4, 4 * 4 * 32 * 32));
    assert_eq!(schedule_of(1).workspace, 0);
}

#[test]
fn choices_fit_and_are_valid_everywhere() {
    let software = Limits { software: true, ..Limits::default() };
    let scalar = Limits { scalar: true, ..software };
    let smallest = Limits { workgroup_memory: 8 << 10, invocations: 128, ..Limits::default() };
    for limits in [Limits::default(), smallest, everything(), software, scalar] {
        for extents in [
            [1, 1536, 384],
            [1024, 128, 128],
            [128, 384, 1024],
            [4096, 4096, 64],
            [2048, 2048, 96],
            [0, 4, 4],
            [300, 1, 20],
            [1, 300, 20],
            [17, 2, 0],
        ] {
            let problem = problem(1, extents, [false, true]);
            for operands in [None, Some(DType::F16)] {
                let choice = choose(&problem, operands, &limits);
                // Panics if the choice does not fit.
                let shaders = shaders(&problem, &choice, &limits);
                check_all(&shaders, matches!(choice.method, Method::Portable(_)));
            }
        }
    }
}

#[test]
fn tall_skinny_products_are_split_and_large_ones_are_not() {
    let parts = |extents| choose(&problem(1, extents, [true, false]), None, &everything()).parts;
    assert_eq!(parts([128, 384, 1024]), 8);
    assert_eq!(parts([384, 1536, 1024]), 4);
    assert_eq!(parts([4096, 4096, 4096]), 1);
    assert_eq!(parts([1024, 512, 128]), 1);
}

#[test]
fn f16_is_for_products_that_fill_cooperative_matrices() {
    let method = |precision, extents, by_columns, limits: &Limits| {
        Choices::by_rule(precision).product(&problem(1, extents, by_columns), limits).method
    };
    let by_rows = |extents| method(Precision::F16, extents, [false, false], &everything());
    let is_cooperative = |method| matches!(method, Method::Cooperative(_));
    for extents in [[1024, 384, 128], [128, 384, 1024], [32, 32, 8], [4096, 50257, 768]] {
        assert!(is_cooperative(by_rows(extents)), "{extents:?}");
        assert!(!is_cooperative(method(Precision::F32, extents, [false, false], &everything())));
        let lacking = Limits { cooperative: false, ..everything() };
        assert!(!is_cooperative(method(Precision::F16, extents, [false, false], &lacking)));
    }
    for extents in [[1, 1536, 384], [1024, 8, 384], [31, 4096, 4096]] {
        assert!(!is_cooperative(by_rows(extents)), "{extents:?}");
    }
    // As measured, tiles with more terms at a time are faster if the terms of the right operand are
    // contiguous.
    let depth = |by_columns| match method(Precision::F16, [4096, 4096, 4096], by_columns, &everything()) {
        Method::Cooperative(tile) => tile.k,
        Method::Portable(tile) => panic!("{tile:?}"),
    };
    assert_eq!((depth([false, false]), depth([false, true])), (32, 64));
}

#[test]
fn a_choice_has_no_more_parts_than_have_terms() {
    for extents in [[128, 384, 1024], [128, 128, 1000], [64, 64, 0], [384, 1152, 1024]] {
        let problem = problem(1, extents, [true, false]);
        for precision in [Precision::F32, Precision::F16] {
            let choice = Choices::by_rule(precision).product(&problem, &everything());
            assert_eq!(schedule(&problem, choice, DType::F16, &everything()).choice, choice, "{extents:?}");
        }
    }
}

#[test]
fn candidates_suit_are_different_and_have_valid_shaders() {
    let software = Limits { software: true, ..Limits::default() };
    let scalar = Limits { scalar: true, ..software };
    let smallest = Limits { workgroup_memory: 8 << 10, invocations: 128, ..Limits::default() };
    for limits in [Limits::default(), smallest, everything(), software, scalar] {
        for (batch, extents) in
            [(1, [1, 1536, 384]), (1, [128, 384, 1024]), (3, [64, 65, 70]), (1, [4096, 4096, 64])]
        {
            let problem = problem(batch, extents, [false, true]);
            for precision in [Precision::F32, Precision::F16] {
                let all = candidates(&problem, precision, &limits);
                assert_eq!(all[0], Choices::by_rule(precision).product(&problem, &limits));
                assert!((2..48).contains(&all.len()), "{extents:?}: {}", all.len());
                for (i, choice) in all.iter().enumerate() {
                    assert!(suits(choice, &problem, precision, &limits), "{choice:?}");
                    assert!(!all[..i].contains(choice), "{choice:?}");
                    let portable = matches!(choice.method, Method::Portable(_));
                    assert!(portable || precision == Precision::F16);
                    let alone = shaders(&problem, choice, &limits);
                    check_all(&alone, portable);
                    assert_eq!(alone.len(), if choice.parts > 1 { 2 } else { 1 });
                }
            }
        }
    }
}

#[test]
fn items_of_four_need_aligned_strides() {
    let aligned = problem(2, [8, 12, 16], [false, false]);
    assert_eq!(lanes(&aligned, &everything()), [4, 4]);
    // With seven columns, rows of the right operand are not aligned.
    assert_eq!(lanes(&problem(2, [8, 7, 16], [false, false]), &everything()), [4, 1]);
    let mut shifted = aligned.clone();
    shifted.lhs.offset = 2;
    assert_eq!(lanes(&shifted, &everything()), [1, 4]);
    let mut batched = aligned;
    batched.batch[0].rhs_stride += 1;
    assert_eq!(lanes(&batched, &everything()), [4, 1]);
}

/// Checks with `tint`, as browsers do, that barriers are in uniform control flow, which `naga` does not
/// check.
#[test]
fn tint_accepts_portable_shaders() {
    use std::process::Command;
    if Command::new("tint").arg("--version").output().is_err() {
        println!("skipped: no tint on the path");
        return;
    }
    let folder = std::env::temp_dir().join(format!("gradloom-tint-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let limits = Limits { workgroups: 13, ..everything() };
    let mut count = 0;
    for (batch, extents) in [(1, [64, 64, 64]), (3, [70, 65, 100]), (2, [40, 24, 36])] {
        for by_columns in [[false, false], [true, true]] {
            for (tile, parts) in [(STAGED, 1), (STAGED, 3), (REGISTERS, 2)] {
                let problem = problem(batch, extents, by_columns);
                let choice = ProductChoice { method: Method::Portable(tile), parts };
                let shaders = shaders(&problem, &choice, &limits);
                for shader in &shaders {
                    let file = folder.join(format!("{count}.wgsl"));
                    count += 1;
                    std::fs::write(&file, &shader.source).expect("a temporary file");
                    let output = Command::new("tint")
                        .args(["--format", "wgsl", "-o", if cfg!(windows) { "NUL" } else { "/dev/null" }])
                        .arg(&file)
                        .output()
                        .expect("tint runs");
                    let said = String::from_utf8_lossy(&output.stderr);
                    assert!(output.status.success(), "{said}\n{}", shader.source);
                }
            }
        }
    }
    std::fs::remove_dir_all(&folder).expect("the temporary folder goes");
}

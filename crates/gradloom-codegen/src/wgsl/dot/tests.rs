//! Every kind of product shader is valid WGSL, and prints as Metal's and Direct3D's languages.

use super::*;
use crate::cpu::{BatchAxis, DotProblem, MatrixView};
use crate::wgsl::{Choices, Limits, Precision};

/// An adapter with everything.
fn everything() -> Limits {
    Limits {
        invocations: 1024,
        workgroup_memory: 48 << 10,
        subgroup: Some(32),
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

fn item(scalar: Scalar, lanes: u32) -> &'static str {
    match (scalar, lanes) {
        (Scalar::F32, 1) => "f32",
        (Scalar::F32, _) => "vec4<f32>",
        (Scalar::F16, 1) => "f16",
        (Scalar::F16, _) => "vec4<f16>",
    }
}

/// The shaders of a product whose epilogue stores twice the sum.
fn shaders(
    problem: &DotProblem,
    scalar: Scalar,
    lanes: [u32; 2],
    choice: &Choice,
    limits: &Limits,
) -> DotShaders {
    let (lhs, rhs) = (|i: &str| format!("lhs[{i}]"), |i: &str| format!("rhs[{i}]"));
    let result = if problem.n.is_multiple_of(4) && !limits.scalar { 4 } else { 1 };
    let array = |binding: u32, name: &str, item: &str| {
        format!("@group(0) @binding({binding}) var<storage, read_write> {name}: array<{item}>;\n")
    };
    let declarations = |stage: Stage| {
        let operands = array(0, "lhs", item(scalar, lanes[0])) + &array(1, "rhs", item(scalar, lanes[1]));
        match stage {
            Stage::Whole => operands + &array(2, "result", item(Scalar::F32, result)),
            Stage::Parts => operands + &array(2, "workspace", workspace_item(problem)),
            Stage::Sum => {
                array(0, "workspace", workspace_item(problem))
                    + &array(1, "result", item(Scalar::F32, result))
            }
        }
    };
    let store = |writer: &mut crate::wgsl::Writer, element: &Element<'_>| {
        writer.line(format_args!("result[{} / {result}u] = 2.0 * {};", element.index, element.value));
    };
    let kernel = DotKernel {
        problem,
        lhs: Operand { scalar, lanes: lanes[0], load: &lhs },
        rhs: Operand { scalar, lanes: lanes[1], load: &rhs },
        epilogue: Epilogue { lanes: result, store: &store },
        declarations: &declarations,
    };
    generate(&kernel, choice, limits)
}

/// Validates a shader; prints it as MSL and HLSL too, unless it uses what they lack.
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

fn check_all(shaders: &DotShaders, print: bool) {
    check(&shaders.product.source, print);
    if let Some(sum) = &shaders.sum {
        check(&sum.source, print);
    }
}

const STAGED: Tile = Tile { m: 32, n: 32, k: 16, thread_m: 4, thread_n: 4, staging: Staging::Workgroup(2) };
const REGISTERS: Tile = Tile { m: 32, n: 32, k: 4, thread_m: 4, thread_n: 8, staging: Staging::Registers };
const COOPERATIVE: CooperativeTile =
    CooperativeTile { m: 64, n: 64, k: 32, subgroup_m: 32, subgroup_n: 32, buffers: 2 };

#[test]
fn shaders_are_valid_for_any_extents_and_layouts() {
    let narrow = Tile { thread_m: 1, m: 8, staging: Staging::Workgroup(1), ..STAGED };
    let methods = [STAGED, REGISTERS, narrow].map(Method::Portable);
    for (extents, batch) in
        [([64, 64, 64], 1), ([1, 1, 1], 1), ([7, 65, 1000], 3), ([40, 24, 36], 2), ([5, 3, 0], 1)]
    {
        for by_columns in [[false, false], [false, true], [true, false], [true, true]] {
            let problem = problem(batch, extents, by_columns);
            for scalar in [Scalar::F32, Scalar::F16] {
                let widest = lanes(&problem, &everything());
                for method in methods.iter().copied().chain([Method::Cooperative(COOPERATIVE)]) {
                    let portable = matches!(method, Method::Portable(_));
                    for parts in [1, 3] {
                        let choice = Choice { method, parts };
                        for lanes in [widest, [4, 4], [1, 1]] {
                            let shaders = shaders(&problem, scalar, lanes, &choice, &everything());
                            check_all(&shaders, portable);
                        }
                        if portable {
                            let limits = Limits { software: true, scalar: true, ..everything() };
                            check_all(&shaders(&problem, scalar, [1, 1], &choice, &limits), true);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn shared_right_operands_fold_into_rows() {
    let mut shared = problem(6, [4, 8, 16], [false, false]);
    shared.batch[0].rhs_stride = 0;
    let folded = fold_batch(shared.clone());
    assert_eq!((folded.batch.len(), folded.m, folded.lhs.free_stride), (0, 24, 16));
    // The same with one row each, whatever their distance.
    let mut single = problem(6, [1, 8, 16], [false, false]);
    single.batch[0] = BatchAxis { extent: 6, lhs_stride: 40, rhs_stride: 0 };
    assert_eq!((fold_batch(single.clone()).m, fold_batch(single).lhs.free_stride), (6, 40));
    // Rows by columns are not evenly spaced over the batch.
    let mut columns = problem(6, [4, 8, 16], [true, false]);
    columns.batch[0].rhs_stride = 0;
    assert_eq!(fold_batch(columns.clone()), columns);
    let own = problem(6, [4, 8, 16], [false, false]);
    assert_eq!(fold_batch(own.clone()), own);
}

#[test]
fn dispatches_fold_at_the_limit() {
    let limits = Limits { workgroups: 7, ..everything() };
    let problem = problem(1, [320, 320, 8], [false, false]);
    let choice = Choice { method: Method::Portable(STAGED), parts: 1 };
    let shaders = shaders(&problem, Scalar::F32, [4, 4], &choice, &limits);
    // 100 tiles: two planes of 7 x 7, and some that have nothing to do.
    assert_eq!(shaders.product.workgroups, [7, 7, 3]);
    assert!(shaders.product.source.contains("if (group >= 100u)"));
    check_all(&shaders, true);
}

#[test]
fn nothing_to_compute_is_an_empty_dispatch() {
    for (batch, extents) in [(1, [0, 5, 300]), (3, [5, 0, 300]), (0, [80, 80, 300])] {
        let problem = problem(batch, extents, [false, false]);
        for parts in [1, 2] {
            let choice = Choice { method: Method::Portable(STAGED), parts };
            let shaders = shaders(&problem, Scalar::F32, [1, 1], &choice, &everything());
            assert!(shaders.product.workgroups.contains(&0), "{extents:?}");
            check_all(&shaders, true);
        }
    }
}

#[test]
fn parts_without_terms_are_left_out() {
    let problem = problem(1, [32, 32, 64], [false, false]);
    let shaders_of = |parts| {
        let choice = Choice { method: Method::Portable(STAGED), parts };
        shaders(&problem, Scalar::F32, [4, 4], &choice, &everything())
    };
    // Four staged tiles of 16 terms make no more than four parts.
    let split = shaders_of(7);
    assert_eq!((split.product.workgroups, split.workspace), ([4, 1, 1], 4 * 32 * 32));
    assert!(split.sum.is_some());
    assert!(shaders_of(1).sum.is_none());
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
            for (scalar, half) in [(Scalar::F32, false), (Scalar::F16, true)] {
                let choice = choose(&problem, half, &limits);
                // `generate` refuses what does not fit.
                let shaders = shaders(&problem, scalar, lanes(&problem, &limits), &choice, &limits);
                check_all(&shaders, matches!(choice.method, Method::Portable(_)));
            }
        }
    }
}

#[test]
fn tall_skinny_products_are_split_and_large_ones_are_not() {
    let parts = |extents| choose(&problem(1, extents, [true, false]), false, &everything()).parts;
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
    // Measured: a right operand whose terms are contiguous wants more of them at a time.
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
            let scalar = Scalar::F32;
            let made = shaders(&problem, scalar, lanes(&problem, &everything()), &choice, &everything());
            let counted = if choice.parts > 1 { choice.parts as usize * extents[0] * extents[1] } else { 0 };
            assert_eq!(made.workspace, counted, "{extents:?} {choice:?}");
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
                    assert!(choice.suits(&problem, precision, &limits), "{choice:?}");
                    assert!(!all[..i].contains(choice), "{choice:?}");
                    let portable = matches!(choice.method, Method::Portable(_));
                    assert!(portable || precision == Precision::F16);
                    let alone = crate::wgsl::product::alone(&problem, choice, &limits).shaders;
                    alone.dispatches.iter().for_each(|dispatch| check(&dispatch.source, portable));
                    assert_eq!(alone.dispatches.len(), if choice.parts > 1 { 2 } else { 1 });
                }
            }
        }
    }
}

#[test]
fn lines_of_choices_read_back() {
    for batch in [1, 4] {
        let problem = problem(batch, [128, 384, 1024], [true, false]);
        for choice in candidates(&problem, Precision::F16, &everything()) {
            let line = to_line(&problem, &choice);
            assert_eq!(from_line(&line), Some((problem.clone(), choice)), "{line}");
        }
    }
    let line = to_line(
        &problem(2, [8, 4, 16], [false, false]),
        &Choice { method: Method::Portable(STAGED), parts: 3 },
    );
    assert_eq!(line, "product 2x128x64 8 4 16 0 16 1 0 1 4 : portable 32 32 16 4 4 2 3");
    for wrong in [
        "",
        "product",
        "product 8 4 16 0 16 1 0 1 4",
        "product 8 4 16 0 16 1 0 1 : portable 32 32 16 4 4 2 3",
        "product 8 4 16 0 16 1 0 1 4 : portable 32 32 16 4 4 2",
        "product 8 4 16 0 16 1 0 1 4 : portable 32 32 16 0 4 2 3",
        "product 8 4 16 0 16 1 0 1 -4 : portable 32 32 16 4 4 2 3",
        "product 8 4 16 0 16 1 0 1 4 : portable 4294967295 4294967295 16 1 1 2 3",
        "product 8 4 16 0 16 1 0 1 4 : other 32 32 16 4 4 2 3",
        "product 8 2x128x64 4 16 0 16 1 0 1 4 : portable 32 32 16 4 4 2 3",
    ] {
        assert_eq!(from_line(wrong), None, "{wrong}");
    }
}

#[test]
fn items_of_four_need_aligned_strides() {
    let aligned = problem(2, [8, 12, 16], [false, false]);
    assert_eq!(lanes(&aligned, &everything()), [4, 4]);
    // Seven columns: rows of the right operand start anywhere.
    assert_eq!(lanes(&problem(2, [8, 7, 16], [false, false]), &everything()), [4, 1]);
    let mut shifted = aligned.clone();
    shifted.lhs.offset = 2;
    assert_eq!(lanes(&shifted, &everything()), [1, 4]);
    let mut batched = aligned;
    batched.batch[0].rhs_stride += 1;
    assert_eq!(lanes(&batched, &everything()), [4, 1]);
}

/// What browsers will say: `tint` checks that barriers are in uniform control flow, which `naga` does not.
#[test]
fn tint_accepts_portable_shaders() {
    use std::process::Command;
    if Command::new("tint").arg("--version").output().is_err() {
        println!("skipped: no tint on the path");
        return;
    }
    let folder = std::env::temp_dir().join(format!("gradloom-tint-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let limits = Limits { workgroups: 7, ..everything() };
    let mut count = 0;
    for (batch, extents) in [(1, [64, 64, 64]), (3, [70, 65, 100]), (2, [40, 24, 36])] {
        for by_columns in [[false, false], [true, true]] {
            for (tile, scalar, parts) in
                [(STAGED, Scalar::F32, 1), (STAGED, Scalar::F16, 3), (REGISTERS, Scalar::F32, 2)]
            {
                let problem = problem(batch, extents, by_columns);
                let choice = Choice { method: Method::Portable(tile), parts };
                let shaders = shaders(&problem, scalar, lanes(&problem, &limits), &choice, &limits);
                for shader in std::iter::once(&shaders.product).chain(&shaders.sum) {
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

//! Comparison of kernels of every kind with the reviewed files in `tests/files/wgsl` and `tests/files/cuda`.
//!
//! Both directories have a file for each of `cases`: the graph, followed by the kernels of its launches in
//! order. `UPDATE=1 cargo test -p gradloom-codegen --test wgsl` rewrites them. naga validates the WGSL, and
//! NVIDIA's compiler the CUDA C if it is installed.

use super::attention::text as attention;
use super::{adapters, checked_with, graph, plan_for};
use gradloom_codegen::cuda::{self, Work};
use gradloom_codegen::pipeline::Target;
use gradloom_codegen::step::Owner;
use gradloom_codegen::wgsl::{Choices, Cuts, Limits, Precision};
use gradloom_core::ir::Graph;
use gradloom_testing::nvrtc;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

/// Graph with few launches.
struct Case {
    /// Name of the files.
    name: &'static str,
    /// Hint for reviewers.
    note: &'static str,
    /// Text of the graph.
    lines: String,
    /// Precision of the graph's products. WGSL with f16 is generated for a large GPU, with f32 for the limits
    /// that WebGPU guarantees.
    precision: Precision,
}

fn case(name: &'static str, note: &'static str, lines: &str) -> Case {
    Case { name, note, lines: lines.to_string(), precision: Precision::F32 }
}

fn cases() -> Vec<Case> {
    vec![
        case(
            "map",
            "One element for each invocation; the bias is read by its column, the comparison becomes a selection.",
            "%0: f32[6, 50] = input \"x\"\n%1: f32[50] = param \"b\"\n%2: f32[1, 50] = reshape %1\n\
             %3: f32[6, 50] = broadcast %2\n%4: f32[6, 50] = add %0, %3\n%5: f32[6, 50] = constant 0.0\n\
             %6: bool[6, 50] = gt %4, %5\n%7: f32[6, 50] = exp %4\n%8: f32[6, 50] = select %6, %4, %7\noutput \"y\" %8",
        ),
        case(
            "divide",
            "A zero divisor is a trap that names its element. WGSL defines x / 0 and -2^31 / -1, CUDA C does not, so a \
             function stands between.",
            "%0: i32[70] = input \"x\"\n%1: i32[70] = input \"y\"\n%2: i32[70] = div %0, %1\noutput \"z\" %2",
        ),
        case(
            "softmax",
            "32 invocations for each row find its largest element, then the sum of the exponentials: through shared \
             memory in WGSL, which is for adapters without subgroups here, by shuffles in CUDA C.",
            "%0: f32[5, 70] = input \"x\"\n%1: f32[5] = reduce_max %0 {axes=[1]}\n%2: f32[5, 1] = reshape %1\n\
             %3: f32[5, 70] = broadcast %2\n%4: f32[5, 70] = sub %0, %3\n%5: f32[5, 70] = exp %4\n\
             %6: f32[5] = sum %5 {axes=[1]}\n%7: f32[5, 1] = reshape %6\n%8: f32[5, 70] = broadcast %7\n\
             %9: f32[5, 70] = div %5, %8\noutput \"y\" %9",
        ),
        case(
            "column-sum",
            "Many rows: parts of them are added up by workgroups, and the parts by another kernel.",
            "%0: f32[1024, 40] = input \"x\"\n%1: f32[40] = sum %0 {axes=[0]}\noutput \"y\" %1",
        ),
        case(
            "group",
            "Updates of three parameters of different sizes in one kernel: a table has where each one's elements are.",
            "%0: f32[40] = param \"a\"\n%1: f32[3, 8] = param \"b\"\n%2: f32[300] = param \"c\"\n\
             %3: f32[40] = input \"da\"\n%4: f32[3, 8] = input \"db\"\n%5: f32[300] = input \"dc\"\n\
             %6: f32[40] = sub %0, %3\n%7: f32[3, 8] = sub %1, %4\n%8: f32[300] = sub %2, %5\n\
             update %0 <- %6\nupdate %1 <- %7\nupdate %2 <- %8",
        ),
        case(
            "transpose",
            "The flat result of a permuted operand cannot be a view: a copy reads through the strides.",
            "%0: f32[6, 50] = param \"x\"\n%1: f32[50, 6] = permute %0 {perm=[1, 0]}\n\
             %2: f32[300] = reshape %1\noutput \"y\" %2",
        ),
        case(
            "concat",
            "Each operand has workgroups of its own.",
            "%0: f32[3, 5] = input \"x\"\n%1: f32[3, 40] = input \"y\"\n%2: f32[3, 45] = concat %0, %1 {axis=1}\n\
             output \"z\" %2",
        ),
        case(
            "windows",
            "Where a window starts comes from data, so it is checked: one out of range is a trap.",
            "%0: f32[7, 9] = input \"x\"\n%1: i32[] = input \"i\"\n%2: f32[2, 3] = dynamic_slice %0, %1, %1\n\
             %3: f32[4, 8] = pad %2 {low=[1, 0], high=[1, 1], interior=[0, 2], value=-1.5}\noutput \"y\" %3",
        ),
        case(
            "gather",
            "Each index is checked by one invocation, and clamped by all.",
            "%0: f32[7, 40] = param \"x\"\n%1: i32[3, 4] = input \"i\"\n%2: f32[3, 4, 40] = gather %0, %1 {batch=0}\n\
             output \"y\" %2",
        ),
        case(
            "scatter",
            "The indices are sorted, so that each row adds its updates in their order, without atomics.",
            "%0: f32[9, 8] = constant 0.0\n%1: i32[20] = input \"i\"\n%2: f32[20, 8] = input \"u\"\n\
             %3: f32[9, 8] = scatter_add %0, %1, %2 {batch=0}\noutput \"y\" %3",
        ),
        case(
            "arg-max",
            "The first of equal elements; NaN counts as the largest.",
            "%0: f32[3, 400] = input \"x\"\n%1: i32[3] = argmax %0 {axis=1}\noutput \"y\" %1",
        ),
        case(
            "cumulate",
            "Totals of pieces, what is before each piece, and then the sums from the last element back.",
            "%0: f32[2, 3000] = input \"x\"\n%1: f32[2, 3000] = cumsum %0 {reverse}\noutput \"y\" %1",
        ),
        case(
            "sort",
            "A bitonic sort of a row in the workgroup's memory; the smaller index wins among equals.",
            "%0: f32[3, 400] = input \"x\"\n%1: f32[3, 9], %2: i32[3, 9] = sort %0 {count=9, descending}\n\
             output \"y\" %1\noutput \"i\" %2",
        ),
        case(
            "random",
            "Philox: four words for each invocation, from the counter alone.",
            "%0: u32[] = scalar \"a\"\n%1: u32[] = scalar \"b\"\n%2: u32[] = scalar \"c\"\n\
             %3: u32[7, 9] = random_bits %0, %1, %2 {site=5}\noutput \"y\" %3",
        ),
        case(
            "product",
            "f32: each invocation has a tile of sums in registers.",
            "%0: f32[10, 24] = input \"x\"\n%1: f32[24, 20] = param \"w\"\n\
             %2: f32[10, 20] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}\noutput \"y\" %2",
        ),
        Case {
            precision: Precision::F16,
            ..case(
                "product-f16",
                "Operands are read as vectors of four and rounded on the way to the workgroup's memory; the epilogue \
                 has the sum in f32; rows beyond the last are not stored.",
                "%0: f32[70, 128] = input \"x\"\n%1: f32[128, 64] = param \"w\"\n%2: f32[64] = param \"b\"\n\
                 %3: f32[70, 64] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}\n%4: f32[1, 64] = reshape %2\n\
                 %5: f32[70, 64] = broadcast %4\n%6: f32[70, 64] = add %3, %5\noutput \"y\" %6",
            )
        },
        case(
            "guards",
            "The first guard that is not finite is the verdict, unless a kernel trapped or a window of the commit does not fit; \
             a step that failed leaves a record.",
            "%0: f32[300] = param \"w\"\n%1: f32[] = input \"loss\"\n%2: i32[] = input \"at\"\n\
             %3: f32[8] = state \"cache\" {init=0.0}\n%4: f32[2] = input \"new\"\nupdate %3[%2] <- %4\n\
             guard \"loss\" %1\nguard \"w\" %0",
        ),
        case(
            "attention",
            "A causal mask, and two heads of queries for each of keys.",
            &attention([1, 2, 1, 6, 6, 4, 4], ", causal", false),
        ),
        case(
            "attention-grad",
            "The gradient of queries row by row, then that of keys and values; sums have a fixed order.",
            "%0: f32[1, 1, 6, 4] = input \"q\"\n%1: f32[1, 1, 6, 4] = input \"k\"\n%2: f32[1, 1, 6, 4] = input \"v\"\n\
             %3: f32[1, 1, 6, 4] = input \"o\"\n%4: f32[1, 1, 6] = input \"s\"\n%5: f32[1, 1, 6, 4] = input \"g\"\n\
             %6: f32[1, 1, 6, 4], %7: f32[1, 1, 6, 4], %8: f32[1, 1, 6, 4] = \
             attention_grad %0, %1, %2, %3, %4, %5 {scale=0.5}\noutput \"dq\" %6\noutput \"dk\" %7\noutput \"dv\" %8",
        ),
    ]
}

/// Returns the text of a file before its kernels.
fn heading(case: &Case, graph: &Graph) -> String {
    let mut text = String::new();
    let graph = graph.to_string();
    for line in std::iter::once(case.note).chain(graph.lines()) {
        writeln!(text, "// {line}").unwrap();
    }
    text
}

fn wgsl(case: &Case) -> String {
    let graph = graph(&case.lines);
    let [portable, _, large, _] = adapters();
    let limits = if case.precision == Precision::F16 { large } else { portable };
    let mut text = heading(case, &graph);
    for made in checked_with(&graph, &limits, &Choices::by_rule(case.precision)) {
        // Omit the guards' kernel if the graph has no guards.
        if made.label != "guards" || !graph.guards.is_empty() {
            write!(text, "\n// {:?} workgroups\n{}", made.workgroups, made.source).unwrap();
        }
    }
    text
}

/// Returns the text of a file, and the source of each of its kernels.
fn cuda(case: &Case) -> (String, Vec<String>) {
    let graph = graph(&case.lines);
    let target = Target::cuda(Limits::cuda(), case.precision);
    let plan = plan_for(&graph, &target);
    let made = cuda::units(&plan, &graph, &Cuts::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut text = heading(case, &graph);
    let mut sources = Vec::new();
    let shown = made.into_iter().filter(|unit| unit.owner != Owner::Guards || !graph.guards.is_empty());
    for kernel in shown {
        let Work::Function { source, groups, threads, .. } = kernel.work else { panic!("{kernel:?}") };
        write!(text, "\n// {groups} blocks of {threads} threads\n{source}").unwrap();
        sources.push(source);
    }
    (text, sources)
}

fn folder(language: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/files").join(language)
}

fn updates() -> bool {
    std::env::var_os("UPDATE").is_some_and(|value| value == "1")
}

#[track_caller]
fn is_as_reviewed(case: &Case, language: &str, ending: &str, text: &str) {
    let path = folder(language).join(format!("{}.{ending}", case.name));
    if updates() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == reviewed, "{} has changed; look at it with UPDATE=1\n{text}", path.display());
}

#[test]
fn kernels_in_wgsl_are_as_reviewed() {
    cases().iter().for_each(|case| is_as_reviewed(case, "wgsl", "wgsl", &wgsl(case)));
}

#[test]
fn kernels_in_cuda_c_are_as_reviewed() {
    let mut texts = Vec::new();
    for case in &cases() {
        let (text, made) = cuda(case);
        is_as_reviewed(case, "cuda", "cu", &text);
        texts.extend(made);
    }
    if let Some(library) = nvrtc::library() {
        nvrtc::check(&library, texts.iter().map(String::as_str));
    }
}

/// A file without a case would never be compared.
#[test]
fn every_file_is_a_case() {
    if updates() {
        return;
    }
    let cases = cases();
    for (language, ending) in [("wgsl", "wgsl"), ("cuda", "cu")] {
        let named: BTreeSet<String> = cases.iter().map(|case| format!("{}.{ending}", case.name)).collect();
        let entries = std::fs::read_dir(folder(language)).unwrap();
        let found: BTreeSet<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(named, found, "of {language}");
    }
}

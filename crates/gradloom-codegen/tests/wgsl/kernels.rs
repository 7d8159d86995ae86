//! Tests of the shaders of single ops, and of their number.

use super::{adapters, checked, graph};
use gradloom_codegen::wgsl::Dispatch;
use gradloom_core::ir::{BinaryOp, DType, UnaryOp};

/// Checks the shaders of a graph for all adapters; returns the labels of those for the first.
#[track_caller]
fn labels(lines: &str) -> Vec<String> {
    let graph = graph(lines);
    let mut all = adapters().map(|limits| checked(&graph, &limits)).into_iter();
    let portable = all.next().expect("there are adapters");
    portable.into_iter().map(|dispatch| dispatch.label).filter(|label| label != "guards").collect()
}

#[test]
fn elementwise_and_reductions() {
    labels(
        "%0: f32[37, 130] = input \"x\"\n%1: f32[37] = reduce_max %0 {axes=[1]}\n%2: f32[130] = sum %0 {axes=[0]}\n\
         %3: f32[37, 130] = exp %0\noutput \"a\" %1\noutput \"b\" %2\noutput \"c\" %3",
    );
}

/// All reductions of a row are one kernel, whether they depend on each other or not, and share the workgroup
/// memory of each adapter.
#[test]
fn many_reductions_of_a_row_fit_in_workgroup_memory() {
    for [depths, reductions] in [[1, 60], [2, 30], [9, 7]] {
        let mut lines = String::from("%0: f32[37, 1000] = input \"x\"\n");
        let (mut last, mut row) = (0, 0);
        let mut line = |shape: &str, op: String| {
            last += 1;
            lines += &format!("%{last}: f32[{shape}] = {op}\n");
            last
        };
        for _ in 0..depths {
            let (mut power, mut total) = (row, None);
            for _ in 0..reductions {
                power = line("37, 1000", format!("mul %{power}, %{row}"));
                let sum = line("37", format!("sum %{power} {{axes=[1]}}"));
                total = Some(total.map_or(sum, |total| line("37", format!("add %{total}, %{sum}"))));
            }
            let column = line("37, 1", format!("reshape %{}", total.unwrap()));
            let whole = line("37, 1000", format!("broadcast %{column}"));
            row = line("37, 1000", format!("sub %{row}, %{whole}"));
        }
        assert_eq!(labels(&format!("{lines}output \"y\" %{row}")).len(), 1);
    }
}

#[test]
fn windows() {
    labels(
        "%0: f32[7, 9] = input \"x\"\n%1: i32[] = input \"i\"\n%2: f32[2, 3] = dynamic_slice %0, %1, %1\n\
         %3: f32[7, 9] = dynamic_update_slice %0, %2, %1, %1\n\
         %4: f32[16, 10] = pad %3 {low=[1, 0], high=[2, 1], interior=[1, 0], value=-inf}\noutput \"y\" %4\noutput \"z\" %2",
    );
}

#[test]
fn random_bits() {
    for shape in ["", "3", "7, 5", "8, 8", "0", "3000, 257"] {
        for ones in ["", ", ones=1843, digits=11"] {
            let shaders = labels(&format!(
                "%0: u32[] = scalar \"a\"\n%1: u32[] = scalar \"b\"\n%2: u32[] = scalar \"c\"\n\
                 %3: u32[{shape}] = random_bits %0, %1, %2 {{site=4294967295{ones}}}\noutput \"y\" %3"
            ));
            assert_eq!(shaders.len(), usize::from(shape != "0"), "{shaders:?}");
        }
    }
}

#[test]
fn positions_of_extremes() {
    for (dtype, op) in [("f32", "argmax"), ("f32", "argmin"), ("i32", "argmax"), ("u32", "argmin")] {
        for (from, axis, to) in
            [("3, 4, 5", 1, "3, 5"), ("2, 300", 1, "2"), ("300, 2", 0, "2"), ("0, 4", 1, "0")]
        {
            labels(&format!(
                "%0: {dtype}[{from}] = input \"x\"\n%1: i32[{to}] = {op} %0 {{axis={axis}}}\noutput \"y\" %1"
            ));
        }
    }
    // Use a permuted view as the operand.
    labels(
        "%0: f32[3, 200] = input \"x\"\n%1: f32[200, 3] = permute %0 {perm=[1, 0]}\n\
         %2: i32[3] = argmax %1 {axis=0}\noutput \"y\" %2",
    );
}

#[test]
fn rows_by_number() {
    for (x, index, result, batch) in [
        ("f32[7, 3]", "4", "4, 3", 0),
        ("f32[7]", "2, 2", "2, 2", 0),
        ("f32[2, 7, 3]", "2, 5", "2, 5, 3", 1),
        ("bool[2, 7, 3]", "2, 5", "2, 5, 3", 1),
        ("f32[2, 7]", "2", "2", 1),
        ("f32[0, 3]", "4", "4, 3", 0),
        ("f32[7, 0]", "4", "4, 0", 0),
        ("f32[30000, 768]", "4, 1024", "4, 1024, 768", 0),
    ] {
        let dtype = x.split('[').next().unwrap();
        labels(&format!(
            "%0: {x} = input \"x\"\n%1: i32[{index}] = input \"i\"\n\
             %2: {dtype}[{result}] = gather %0, %1 {{batch={batch}}}\noutput \"y\" %2"
        ));
    }
}

#[test]
fn updates_by_number() {
    for (x, index, updates, batch, count) in [
        ("7, 3", "4", "4, 3", 0, 2),
        ("7", "2, 2", "2, 2", 0, 2),
        ("2, 7, 3", "2, 5", "2, 5, 3", 1, 2),
        // With one update per batch, there is no need to sort.
        ("64, 7", "64", "64", 1, 1),
        ("7, 3", "0", "0, 3", 0, 0),
        ("0, 3", "4", "4, 3", 0, 1),
        ("7, 0", "4", "4, 0", 0, 1),
        ("30000, 768", "4, 1024", "4, 1024, 768", 0, 2),
        ("256, 128", "8, 128", "8, 128, 128", 0, 2),
    ] {
        let shaders = labels(&format!(
            "%0: f32[{x}] = input \"x\"\n%1: i32[{index}] = input \"i\"\n%2: f32[{updates}] = input \"u\"\n\
             %3: f32[{x}] = scatter_add %0, %1, %2 {{batch={batch}}}\noutput \"y\" %3"
        ));
        assert_eq!(shaders.len(), count, "{x}: {shaders:?}");
    }
    // The result is not in place: the shader that sorts also copies zeros.
    let shaders = labels(
        "%0: f32[256, 128] = constant 0.0\n%1: i32[8, 128] = input \"i\"\n%2: f32[8, 128, 128] = input \"u\"\n\
         %3: f32[256, 128] = scatter_add %0, %1, %2 {batch=0}\noutput \"y\" %3",
    );
    assert_eq!(shaders, ["scatter: sort", "scatter"]);
    // The updates are processed in chunks.
    let shaders = labels(
        "%0: f32[2, 9, 3] = constant 0.0\n%1: i32[2, 20000] = input \"i\"\n%2: f32[2, 20000, 3] = input \"u\"\n\
         %3: f32[2, 9, 3] = scatter_add %0, %1, %2 {batch=1}\noutput \"y\" %3",
    );
    assert_eq!((shaders.len(), shaders[0].as_str()), (7, "scatter: copy"));
}

/// Only the invocation that owns a row checks its index, because others may read it after it was overwritten.
/// Further uses are clamped.
#[test]
fn indices_are_checked_by_who_answers_for_them() {
    let graph = graph(
        "%0: f32[3, 5] = input \"x\"\n%1: i32[3] = input \"i\"\n%2: f32[3, 5] = exp %0\n%3: f32[3] = gather %2, %1 {batch=1}\n\
         output \"y\" %3",
    );
    for limits in adapters() {
        let shaders = checked(&graph, &limits);
        let picks =
            shaders.iter().find(|shader| shader.label != "guards" && shader.source.contains("&status[1]"));
        let text = &picks.expect("the index is checked").source;
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let check = lines.iter().position(|line| line.ends_with(" >= 5) {")).expect("of five columns");
        // The condition is that the invocation is the row's first lane, and that the row exists.
        let owned = lines[check - 1];
        assert!(owned.starts_with("if (") && owned.contains(" == 0u) && "), "{text}");
        assert!(lines[check..].iter().any(|line| line.contains(", 0i), 4i)")), "{text}");
    }
}

/// Shaders for scalar devices have no vectors and little shared memory: SwiftShader is slow to compile
/// vectors, and clears shared memory with code for each element.
#[test]
fn a_scalar_device_shares_little_and_has_no_vectors() {
    let graphs = [
        // A loss and the norm of a gradient, in few dispatches.
        "%0: f32[40, 12] = input \"x\"\n%1: f32[40, 12] = mul %0, %0\n%2: f32[] = sum %1 {axes=[0, 1]}\n%3: f32[5000] = input \"y\"\n\
         %4: f32[5000] = mul %3, %3\n%5: f32[] = sum %4 {axes=[0]}\n%6: f32[1] = reshape %2\n%7: f32[1] = reshape %5\n\
         %8: f32[2] = concat %6, %7 {axis=0}\n%9: f32[] = sum %8 {axes=[0]}\noutput \"a\" %9",
        "%0: f32[100, 64] = input \"x\"\n%1: f32[100] = sum %0 {axes=[1]}\n%2: f32[100, 1] = reshape %1\n\
         %3: f32[100, 64] = broadcast %2\n%4: f32[100, 64] = mul %0, %3\n%5: f32[64] = sum %4 {axes=[0]}\noutput \"a\" %5",
        // The gradient of a LayerNorm has this form.
        "%0: f32[100, 768] = input \"x\"\n%1: f32[100] = sum %0 {axes=[1]}\n%2: f32[100, 1] = reshape %1\n\
         %3: f32[100, 768] = broadcast %2\n%4: f32[100, 768] = mul %0, %3\n%5: f32[768] = sum %4 {axes=[0]}\noutput \"a\" %5",
        "%0: f32[3, 2000] = input \"x\"\n%1: f32[3] = sum %0 {axes=[1]}\n%2: i32[3] = argmax %0 {axis=1}\noutput \"a\" %1\noutput \"b\" %2",
        "%0: f32[50, 8] = input \"x\"\n%1: i32[700] = input \"i\"\n%2: f32[700, 8] = input \"u\"\n\
         %3: f32[50, 8] = scatter_add %0, %1, %2 {batch=0}\noutput \"a\" %3",
        "%0: f32[64, 32] = input \"x\"\n%1: f32[32, 48] = input \"y\"\n\
         %2: f32[64, 48] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}\noutput \"a\" %2",
    ];
    let [portable, .., scalar] = adapters();
    for lines in graphs {
        for Dispatch { label, source, .. } in checked(&graph(lines), &scalar) {
            assert!(!source.contains("vec4<f32>"), "{label}\n{source}");
            let arrays = source
                .lines()
                .filter_map(|line| line.strip_prefix("var<workgroup> ")?.split_once(": array<"));
            for (name, rest) in arrays {
                let count: usize = rest[rest.rfind(", ").unwrap() + 2..rest.len() - 2].parse().unwrap();
                assert!(count <= 16, "{label}: {name} has {count}\n{source}");
            }
        }
    }
    let totals = |limits| -> Vec<String> {
        checked(&graph(graphs[0]), &limits)
            .into_iter()
            .map(|d| d.label)
            .filter(|l| l.contains("totals"))
            .collect()
    };
    assert_eq!(totals(scalar), ["2 kernels: totals"]);
    assert_eq!(totals(portable), ["2 kernels: shares of totals", "2 kernels: totals"]);
}

/// WGSL compilers accept every function that a spelling calls.
#[test]
fn every_elementwise_function_is_valid_wgsl() {
    let [portable, ..] = adapters();
    for dtype in DType::ALL {
        let unary = UnaryOp::ALL.iter().filter(|op| op.accepts(dtype)).map(|op| (op.name(), "%0"));
        let binary = BinaryOp::ALL.iter().filter(|op| op.accepts(dtype)).map(|op| (op.name(), "%0, %1"));
        for (name, operands) in unary.chain(binary) {
            let text = format!(
                "%0: {dtype}[40] = input \"a\"\n%1: {dtype}[40] = input \"b\"\n\
                 %2: {dtype}[40] = {name} {operands}\noutput \"y\" %2"
            );
            let dispatches = checked(&graph(&text), &portable);
            assert!(name == "detach" || !dispatches.is_empty(), "{name} of {dtype}");
        }
    }
}

//! Tests of the shaders of attention and its gradient: extents that fill blocks and others, masks, shared key
//! heads, block tables, and other layouts.

use super::{adapters, checked, graph};
use gradloom_codegen::wgsl::Dispatch;

/// Extents: batch, heads, key heads, queries, keys, depth, value depth.
pub(crate) type Extents = [usize; 7];

fn list(extents: &[usize]) -> String {
    extents.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the text of attention, with its gradient if `gradient`; `flags` are the op's attributes.
pub(crate) fn text([b, h, g, t, s, d, e]: Extents, flags: &str, gradient: bool) -> String {
    let (q, k, v) = (list(&[b, h, t, d]), list(&[b, g, s, d]), list(&[b, g, s, e]));
    let (output, log_sum) = (list(&[b, h, t, e]), list(&[b, h, t]));
    let mut lines = format!(
        "%0: f32[{q}] = input \"q\"\n%1: f32[{k}] = input \"k\"\n%2: f32[{v}] = input \"v\"\n\
         %3: i32[] = input \"offset\"\n%4: i32[] = input \"length\"\n"
    );
    let mut operands = "%0, %1, %2".to_string();
    for (flag, operand) in [("query_offset", ", %3"), ("key_length", ", %4")] {
        if flags.contains(flag) {
            operands.push_str(operand);
        }
    }
    lines += &format!(
        "%5: f32[{output}], %6: f32[{log_sum}] = attention {operands} {{scale=0.25{flags}}}\noutput \"o\" %5\n"
    );
    if gradient {
        lines += &format!(
            "%7: f32[{output}] = input \"g\"\n%8: f32[{q}], %9: f32[{k}], %10: f32[{v}] = \
             attention_grad {operands}, %5, %6, %7 {{scale=0.25{flags}}}\n\
             output \"dq\" %8\noutput \"dk\" %9\noutput \"dv\" %10"
        );
    }
    lines
}

fn shaders(lines: &str) -> [Vec<Dispatch>; 4] {
    let graph = graph(lines);
    adapters().map(|limits| {
        let all = checked(&graph, &limits).into_iter();
        all.filter(|dispatch| dispatch.label.starts_with("attention")).collect()
    })
}

pub(crate) const EXTENTS: [Extents; 12] = [
    [2, 3, 3, 128, 128, 32, 32],
    [1, 2, 1, 1024, 1024, 64, 64],
    [3, 4, 2, 8, 8, 16, 16],
    [1, 2, 2, 33, 70, 24, 40],
    [1, 1, 1, 5, 7, 3, 5],
    [1, 2, 1, 1, 300, 64, 64],
    [1, 2, 2, 100, 100, 128, 128],
    [1, 1, 1, 65, 65, 256, 256],
    [1, 1, 1, 20, 20, 300, 70],
    [2, 2, 2, 40, 40, 0, 8],
    [2, 2, 2, 40, 40, 8, 0],
    [1, 1, 1, 1, 1, 1, 1],
];

#[test]
fn every_extent_has_valid_shaders() {
    for extents in EXTENTS {
        for flags in ["", ", causal", ", causal, query_offset, key_length"] {
            for all in shaders(&text(extents, flags, true)) {
                assert!((1..=4).contains(&all.len()), "{extents:?}: {}", all.len());
            }
        }
    }
}

#[test]
fn nothing_is_launched_for_nothing() {
    for extents in [[0, 2, 2, 8, 8, 4, 4], [1, 2, 2, 0, 8, 4, 4]] {
        for all in shaders(&text(extents, ", causal", false)) {
            assert!(all.is_empty(), "{extents:?}");
        }
    }
    // Queries without keys still have results.
    for all in shaders(&text([1, 2, 2, 8, 0, 4, 4], ", causal", true)) {
        assert_eq!(all.len(), 2);
    }
}

#[test]
fn tables_are_followed_and_checked() {
    let lines = "%0: f32[2, 4, 3, 16] = input \"q\"\n%1: f32[9, 2, 8, 16] = state \"k\" {init=0.0}\n\
        %2: f32[9, 2, 8, 16] = state \"v\" {init=0.0}\n%3: i32[] = input \"offset\"\n%4: i32[2, 5] = input \"table\"\n\
        %5: f32[2, 4, 3, 16], %6: f32[2, 4, 3] = attention %0, %1, %2, %3, %3, %4 {scale=0.25, causal, query_offset, key_length, block_table}\n\
        output \"o\" %5";
    for all in shaders(lines) {
        assert!(all.len() == 1 && all[0].source.contains("status[1]"));
    }
}

#[test]
fn heads_are_read_and_written_where_they_are() {
    // One matrix contains q, k and v of each position, and one receives their gradients.
    let heads = |from: usize, number: usize| {
        let [slice, split, heads] = [number, number + 1, number + 2];
        format!(
            "%{slice}: f32[64, 24] = slice %0 {{start=[0, {from}], limit=[64, {}], step=[1, 1]}}\n\
             %{split}: f32[2, 32, 3, 8] = reshape %{slice}\n%{heads}: f32[2, 3, 32, 8] = permute %{split} {{perm=[0, 2, 1, 3]}}\n",
            from + 24
        )
    };
    let back = |value: usize, number: usize| {
        let [permuted, flat] = [number, number + 1];
        format!(
            "%{permuted}: f32[2, 32, 3, 8] = permute %{value} {{perm=[0, 2, 1, 3]}}\n%{flat}: f32[64, 24] = reshape %{permuted}\n"
        )
    };
    let mut lines = "%0: f32[64, 72] = input \"x\"\n%1: f32[2, 3, 32, 8] = input \"g\"\n".to_string();
    lines += &(heads(0, 2) + &heads(24, 5) + &heads(48, 8));
    lines += "%11: f32[2, 3, 32, 8], %12: f32[2, 3, 32] = attention %4, %7, %10 {scale=0.25, causal}\n\
        %13: f32[2, 3, 32, 8], %14: f32[2, 3, 32, 8], %15: f32[2, 3, 32, 8] = attention_grad %4, %7, %10, %11, %12, %1 {scale=0.25, causal}\n";
    lines += &(back(13, 16) + &back(14, 18) + &back(15, 20) + &back(11, 22));
    lines += "%24: f32[64, 72] = concat %17, %19, %21 {axis=1}\noutput \"d\" %24\noutput \"o\" %23";
    for all in shaders(&lines) {
        assert_eq!(all.len(), 3);
    }
}

//! Attention and its gradient against the reference, with tiles of all sizes that workgroup memory allows,
//! and without workgroup memory.

use crate::{agree, devices};
use gradloom_core::ir::DType;
use gradloom_runtime::Device;
use gradloom_testing::Leaves;

/// Extents of an attention op: batch, heads, key heads, queries, keys, depth, value depth.
pub(crate) type Extents = [usize; 7];

fn list(extents: &[usize]) -> String {
    extents.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns a graph with attention and its gradient; `flags` are attributes of the op.
fn text([b, h, g, t, s, d, e]: Extents, flags: &str) -> String {
    let (q, k, v) = (list(&[b, h, t, d]), list(&[b, g, s, d]), list(&[b, g, s, e]));
    let (output, log_sum) = (list(&[b, h, t, e]), list(&[b, h, t]));
    let mut operands = "%0, %1, %2".to_string();
    for (flag, operand) in [("query_offset", ", %3"), ("key_length", ", %4")] {
        if flags.contains(flag) {
            operands.push_str(operand);
        }
    }
    let op = format!("{{scale=0.25{flags}}}");
    format!(
        "%0: f32[{q}] = input \"q\"\n%1: f32[{k}] = input \"k\"\n%2: f32[{v}] = input \"v\"\n\
         %3: i32[] = input \"offset\"\n%4: i32[] = input \"length\"\n%5: f32[{output}] = input \"g\"\n\
         %6: f32[{output}], %7: f32[{log_sum}] = attention {operands} {op}\n\
         %8: f32[{q}], %9: f32[{k}], %10: f32[{v}] = attention_grad {operands}, %6, %7, %5 {op}\n\
         output \"o\" %6\noutput \"log_sum\" %7\noutput \"dq\" %8\noutput \"dk\" %9\noutput \"dv\" %10"
    )
}

fn number(value: i32) -> [f64; 1] {
    [f64::from(value)]
}

pub(crate) fn check(device: &Device, extents: Extents, flags: &str, offset: i32, length: i32) {
    let leaves = Leaves::random(7).with("offset", DType::I32, &[], &number(offset)).with(
        "length",
        DType::I32,
        &[],
        &number(length),
    );
    agree(device, &text(extents, flags), &leaves, 2e-5);
}

/// Checks extents that fill whole tiles and extents that do not, each with its most relevant flags, and some
/// with all flags.
fn check_all(device: &Device) {
    for extents in [
        [2, 3, 3, 128, 128, 32, 32],
        [1, 4, 2, 70, 70, 64, 64],
        [3, 4, 2, 8, 8, 16, 16],
        [1, 2, 2, 33, 70, 24, 40],
        [1, 1, 1, 5, 7, 3, 5],
        [1, 4, 1, 1, 150, 64, 64],
        [1, 2, 1, 40, 90, 128, 128],
        [1, 1, 1, 35, 35, 256, 256],
        [1, 1, 1, 20, 20, 300, 70],
        [1, 2, 2, 20, 20, 0, 8],
        [1, 2, 2, 20, 20, 8, 0],
        [1, 2, 2, 4, 0, 8, 8],
        [1, 1, 1, 1, 1, 1, 1],
    ] {
        let keys = extents[4] as i32;
        check(device, extents, ", causal, query_offset, key_length", keys / 2, keys - keys / 4);
    }
    for extents in [[2, 3, 3, 128, 128, 32, 32], [1, 2, 2, 33, 70, 24, 40], [3, 4, 2, 8, 8, 16, 16]] {
        check(device, extents, "", 0, 0);
        check(device, extents, ", causal", 0, 0);
        // With an offset of -2, the first queries attend to no key.
        check(device, extents, ", causal, query_offset", -2, 0);
    }
    let extents = [1, 2, 1, 40, 50, 16, 16];
    for (offset, length) in [(i32::MAX, 50), (i32::MIN, 50), (3, 0), (60, 1)] {
        check(device, extents, ", causal, query_offset, key_length", offset, length);
    }
    check(device, extents, ", key_length", 0, 33);
}

#[test]
fn all_extents_and_masks_agree_with_the_reference() {
    if crate::skipped() {
        return;
    }
    check_all(&crate::device());
}

/// Software devices take minutes to compile tiles that their own limits would not select, so these are only
/// tested if `GRADLOOM_EVERY_BLOCK` is set.
#[test]
fn blocks_in_workgroup_memory_agree_with_the_reference() {
    if crate::skipped() {
        return;
    }
    let devices = devices();
    let [own, large, small, _] = &devices[..] else { return };
    if std::env::var_os("GRADLOOM_EVERY_BLOCK").is_some() {
        return [own, large, small].into_iter().for_each(check_all);
    }
    check(large, [2, 3, 3, 128, 128, 32, 32], ", causal", 0, 0);
    check(large, [3, 4, 2, 8, 8, 16, 16], ", causal", 0, 0);
    check(small, [1, 2, 2, 33, 70, 24, 40], ", causal, query_offset, key_length", 35, 53);
}

#[test]
fn enough_heads_for_large_blocks() {
    if crate::skipped() {
        return;
    }
    for device in devices() {
        // Skip SwiftShader, which takes minutes and gigabytes to compile tiles of 64 rows and would not
        // select them.
        if !device.description().contains("SwiftShader") {
            check(&device, [8, 32, 16, 70, 65, 8, 12], ", causal", 0, 0);
        }
    }
}

#[test]
fn what_is_not_seen_changes_nothing() {
    if crate::skipped() {
        return;
    }
    let extents @ [b, _, g, _, s, d, e] = [1, 2, 1, 40, 80, 16, 16];
    for device in devices() {
        let mut leaves = Leaves::random(3).with("length", DType::I32, &[], &[33.0]);
        for (name, width) in [("k", d), ("v", e)] {
            let value =
                |i: usize| if i / width % s < 33 { ((i * 37) % 19) as f64 / 9.0 - 1.0 } else { f64::NAN };
            let values: Vec<f64> = (0..b * g * s * width).map(value).collect();
            leaves = leaves.with(name, DType::F32, &[b, g, s, width], &values);
        }
        agree(&device, &text(extents, ", key_length"), &leaves, 2e-5);
    }
}

#[test]
fn large_scores_stay_in_range_and_nan_stays_nan() {
    if crate::skipped() {
        return;
    }
    let lines = "%0: f32[1, 1, 6, 1] = input \"q\"\n%1: f32[1, 1, 40, 1] = input \"k\"\n\
                 %2: f32[1, 1, 40, 1] = input \"v\"\n\
        %3: f32[1, 1, 6, 1], %4: f32[1, 1, 6] = attention %0, %1, %2 {scale=1.0}\noutput \"o\" %3";
    let q = [1000.0, -1000.0, 0.0, f64::NAN, 1.0, -3.0];
    for device in devices() {
        let leaves = Leaves::random(5).with("q", DType::F32, &[1, 1, 6, 1], &q);
        agree(&device, lines, &leaves, 1e-4);
    }
}

#[test]
fn tables_are_followed() {
    if crate::skipped() {
        return;
    }
    let lines = "%0: f32[2, 4, 3, 16] = input \"q\"\n%1: f32[9, 2, 8, 16] = input \"k\"\n\
        %2: f32[9, 2, 8, 16] = input \"v\"\n%3: i32[] = input \"offset\"\n%4: i32[] = input \"length\"\n\
        %5: i32[2, 5] = input \"table\"\n\
        %6: f32[2, 4, 3, 16], %7: f32[2, 4, 3] = attention %0, %1, %2, %3, %4, %5 {scale=0.25, causal, \
        query_offset, key_length, block_table}\n\
        output \"o\" %6\noutput \"l\" %7";
    // Table entries past the existing keys may have any value.
    let table = [8.0, 0.0, 3.0, 1.0, -7.0, 2.0, 5.0, 4.0, 6.0, 1e6];
    for device in devices() {
        let leaves = Leaves::random(11)
            .with("offset", DType::I32, &[], &[20.0])
            .with("length", DType::I32, &[], &[27.0])
            .with("table", DType::I32, &[2, 5], &table);
        agree(&device, lines, &leaves, 2e-5);
        for (name, shape, values) in [("length", vec![], vec![41.0]), ("length", vec![], vec![-1.0])] {
            let leaves = leaves.clone().with(name, DType::I32, &shape, &values);
            crate::traps(&device, lines, &leaves);
        }
        let leaves =
            leaves.with("table", DType::I32, &[2, 5], &[8.0, 0.0, 3.0, 1.0, 0.0, 2.0, 9.0, 4.0, 6.0, 0.0]);
        crate::traps(&device, lines, &leaves);
    }
}

#[test]
fn heads_are_read_and_written_where_they_are() {
    if crate::skipped() {
        return;
    }
    let heads = |from: usize, number: usize| {
        let [slice, split, heads] = [number, number + 1, number + 2];
        format!(
            "%{slice}: f32[64, 24] = slice %0 {{start=[0, {from}], limit=[64, {}], step=[1, 1]}}\n\
             %{split}: f32[2, 32, 3, 8] = reshape %{slice}\n\
             %{heads}: f32[2, 3, 32, 8] = permute %{split} {{perm=[0, 2, 1, 3]}}\n",
            from + 24
        )
    };
    let back = |value: usize, number: usize| {
        let [permuted, flat] = [number, number + 1];
        format!(
            "%{permuted}: f32[2, 32, 3, 8] = permute %{value} {{perm=[0, 2, 1, 3]}}\n\
             %{flat}: f32[64, 24] = reshape %{permuted}\n"
        )
    };
    let mut lines = "%0: f32[64, 72] = input \"x\"\n%1: f32[2, 3, 32, 8] = input \"g\"\n".to_string();
    lines += &(heads(0, 2) + &heads(24, 5) + &heads(48, 8));
    lines += "%11: f32[2, 3, 32, 8], %12: f32[2, 3, 32] = attention %4, %7, %10 {scale=0.25, causal}\n\
        %13: f32[2, 3, 32, 8], %14: f32[2, 3, 32, 8], %15: f32[2, 3, 32, 8] = attention_grad %4, %7, %10, \
        %11, %12, %1 {scale=0.25, causal}\n";
    lines += &(back(13, 16) + &back(14, 18) + &back(15, 20) + &back(11, 22));
    lines += "%24: f32[64, 72] = concat %17, %19, %21 {axis=1}\noutput \"d\" %24\noutput \"o\" %23";
    for device in devices() {
        agree(&device, &lines, &Leaves::random(13), 2e-5);
    }
}

//! The position of the largest or smallest element along an axis.
//!
//! In: one operand. Out: i32 positions, contiguous. Elements are compared as unsigned keys, in which a NaN is
//! above all numbers and zeros are equal; so nothing depends on what a compiler assumes about floats. Always
//! holds: the first of equals wins.

use super::Dispatch;
use super::movement::{done, each};
use super::source::{Source, WORKGROUP, index_at};
use gradloom_core::ir::{ArgReduceOp, DType};
use gradloom_core::kernel::Layout;

/// From this extent on, a workgroup goes through each axis together; but not on a software device, where
/// sharing costs more than it saves.
const SHARED: usize = 128;

/// The shader of `ArgReduce`.
pub(crate) fn arg_reduce(mut source: Source<'_>, op: ArgReduceOp, axis: usize, label: &str) -> Vec<Dispatch> {
    let (read, write) = (source.operands.reads[0].clone(), source.operands.writes[0].clone());
    let (mut shape, mut strides) = (read.layout.shape.to_vec(), read.layout.strides.clone());
    let (extent, stride) = (shape.remove(axis), strides.remove(axis));
    let outer = Layout::new(read.layout.offset, shape.into(), strides);
    let elements = write.layout.shape.elements();
    source.global(key_function(read.dtype, op));
    let key_at = |source: &mut Source<'_>, i: &str| {
        let value = source.load(&read, &format!("first + {i} * {stride}u"));
        source.line(format_args!("let key = key_of({value});"));
    };
    if extent < SHARED || source.limits.software {
        each(&mut source, elements, |source| {
            source.line(format_args!("let first = {};", index_at(&outer, "position")));
            source.line("var best = 0u;");
            source.line("var place = 0u;");
            source.line(format_args!("for (var i = 0u; i < {extent}u; i++) {{"));
            key_at(source, "i");
            source.line("if (i == 0u || key > best) {");
            source.line("best = key;");
            source.line("place = i;");
            source.line("}");
            source.line("}");
            source.store(&write, &index_at(&write.layout, "position"), "i32(place)");
        });
        return done(source, label, elements);
    }
    if elements == 0 {
        return Vec::new();
    }
    source.global(format_args!("var<workgroup> keys: array<u32, {WORKGROUP}>;"));
    source.global(format_args!("var<workgroup> places: array<u32, {WORKGROUP}>;"));
    source.line(format_args!("let first = {};", index_at(&outer, "group")));
    // Of an invocation without elements: below all others, and behind them.
    source.line("var best = 0u;");
    source.line(format_args!("var place = {extent}u;"));
    source.line(format_args!("for (var i = local; i < {extent}u; i += {WORKGROUP}u) {{"));
    key_at(&mut source, "i");
    source.line("if (i == local || key > best) {");
    source.line("best = key;");
    source.line("place = i;");
    source.line("}");
    source.line("}");
    source.line("keys[local] = best;");
    source.line("places[local] = place;");
    source.line("workgroupBarrier();");
    source.line(format_args!("for (var half = {}u; half > 0u; half /= 2u) {{", WORKGROUP / 2));
    source.line("if (local < half) {");
    source.line("let key = keys[local + half];");
    source.line("let at = places[local + half];");
    source.line("if (key > keys[local] || (key == keys[local] && at < places[local])) {");
    source.line("keys[local] = key;");
    source.line("places[local] = at;");
    source.line("}");
    source.line("}");
    source.line("workgroupBarrier();");
    source.line("}");
    let gate = if source.gated { " && committed" } else { "" };
    source.line(format_args!("if (local == 0u{gate}) {{"));
    source.store(&write, &index_at(&write.layout, "group"), "i32(places[0])");
    source.line("}");
    vec![source.finish(label, WORKGROUP, elements)]
}

/// A function of an element: the greater it is, the more the element is wanted.
fn key_function(dtype: DType, op: ArgReduceOp) -> String {
    let flip = match op {
        ArgReduceOp::ArgMax => "",
        ArgReduceOp::ArgMin => "~",
    };
    match dtype {
        DType::F32 => format!(
            "fn key_of(x: f32) -> u32 {{
    let bits = bitcast<u32>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {{
        return 0xffffffffu;
    }}
    if ((bits & 0x7fffffffu) == 0u) {{
        return {flip}0x80000000u;
    }}
    return {flip}select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}}"
        ),
        DType::I32 => {
            format!("fn key_of(x: i32) -> u32 {{\n    return {flip}(bitcast<u32>(x) ^ 0x80000000u);\n}}")
        }
        DType::U32 => format!("fn key_of(x: u32) -> u32 {{\n    return {flip}x;\n}}"),
        DType::Bool => panic!("gradloom launched {op:?} on bool elements; please report this"),
    }
}

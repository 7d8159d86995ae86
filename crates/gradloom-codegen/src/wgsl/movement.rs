//! Ops that move elements: copies, joins, windows at positions that are known when the step runs.

use super::source::{Source, WORKGROUP, index_at, index_of};
use super::{Dispatch, Limits, Operands};
use gradloom_core::ir::{Number, Shape};

/// The read's elements to the write, in the order of their layouts' axes.
pub(crate) fn copy(mut source: Source<'_>, label: &str) -> Vec<Dispatch> {
    let (read, write) = (source.operands.reads[0].clone(), source.operands.writes[0].clone());
    let elements = write.layout.shape.elements();
    each(&mut source, elements, |source| {
        let value = source.load(&read, &index_at(&read.layout, "position"));
        source.store(&write, &index_at(&write.layout, "position"), &value);
    });
    done(source, label, elements)
}

/// Operands joined along an axis: one shader for each.
pub(crate) fn concat(
    operands: &Operands,
    limits: &Limits,
    gated: bool,
    number: usize,
    axis: usize,
) -> Vec<Dispatch> {
    let write = &operands.writes[0];
    let mut from = 0;
    let mut shaders = Vec::new();
    for (i, read) in operands.reads.iter().enumerate() {
        let shape = &read.layout.shape;
        let mut start = vec![0; shape.rank()];
        let mut limit = write.layout.shape.to_vec();
        (start[axis], limit[axis]) = (from, from + shape[axis]);
        from = limit[axis];
        let window = write.layout.slice(&start, &limit, &vec![1; shape.rank()]);
        let elements = shape.elements();
        let mut source = Source::new(operands, limits, gated, number);
        each(&mut source, elements, |source| {
            let value = source.load(read, &index_at(&read.layout, "position"));
            source.store(write, &index_at(&window, "position"), &value);
        });
        shaders.extend(done(source, &format!("concat: operand {i}"), elements));
    }
    shaders
}

/// The operand with elements of `value` around and between its own.
pub(crate) fn pad(mut source: Source<'_>, low: &[usize], interior: &[usize], value: Number) -> Vec<Dispatch> {
    let (read, write) = (source.operands.reads[0].clone(), source.operands.writes[0].clone());
    let elements = write.layout.shape.elements();
    each(&mut source, elements, |source| {
        coordinates(source, &write.layout.shape, "position");
        let mut inside = vec!["true".to_string()];
        let mut from = Vec::new();
        for (axis, &extent) in read.layout.shape.iter().enumerate() {
            // Unsigned: what lies before the first element is far behind the last.
            let pitch = interior[axis] + 1;
            source.line(format_args!("let d{axis} = c{axis} - {}u;", low[axis]));
            let room = if extent == 0 { 0 } else { (extent - 1) * pitch + 1 };
            inside.push(format!("d{axis} < {room}u"));
            if pitch > 1 {
                inside.push(format!("d{axis} % {pitch}u == 0u"));
            }
            from.push(format!("d{axis} / {pitch}u"));
        }
        let outside = source.constant(value, write.dtype);
        source.line(format_args!("var value = {outside};"));
        if read.layout.shape.elements() > 0 {
            source.line(format_args!("if ({}) {{", inside.join(" && ")));
            let element = source.load(&read, &index_of(&read.layout, &from));
            source.line(format_args!("value = {element};"));
            source.line("}");
        }
        source.store(&write, &index_at(&write.layout, "position"), "value");
    });
    done(source, "pad", elements)
}

/// A window at starts that the step computes; out of range is a trap.
pub(crate) fn dynamic_slice(mut source: Source<'_>) -> Vec<Dispatch> {
    let (read, write) = (source.operands.reads[0].clone(), source.operands.writes[0].clone());
    let elements = write.layout.shape.elements();
    each(&mut source, elements, |source| {
        starts(source, &read.layout.shape, &write.layout.shape, 1);
        coordinates(source, &write.layout.shape, "position");
        let from: Vec<String> =
            (0..read.layout.shape.rank()).map(|axis| format!("c{axis} + s{axis}")).collect();
        let value = source.load(&read, &index_of(&read.layout, &from));
        source.store(&write, &index_at(&write.layout, "position"), &value);
    });
    done(source, "dynamic_slice", elements)
}

/// The operand with a window replaced; out of range is a trap. The result may lie in the operand's place.
pub(crate) fn dynamic_update_slice(
    operands: &Operands,
    limits: &Limits,
    gated: bool,
    number: usize,
) -> Vec<Dispatch> {
    let (read, window, write) = (&operands.reads[0], &operands.reads[1], &operands.writes[0]);
    let mut shaders = Vec::new();
    if (read.binding, read.base) != (write.binding, write.base) || read.layout != write.layout {
        shaders.extend(copy(Source::new(operands, limits, gated, number), "dynamic_update_slice: copy"));
    }
    let elements = window.layout.shape.elements();
    let mut source = Source::new(operands, limits, gated, number);
    each(&mut source, elements, |source| {
        starts(source, &write.layout.shape, &window.layout.shape, 2);
        coordinates(source, &window.layout.shape, "position");
        let to: Vec<String> =
            (0..write.layout.shape.rank()).map(|axis| format!("c{axis} + s{axis}")).collect();
        let value = source.load(window, &index_at(&window.layout, "position"));
        source.store(write, &index_of(&write.layout, &to), &value);
    });
    shaders.extend(done(source, "dynamic_update_slice", elements));
    shaders
}

/// Replaces a window of the write. The step's guards have looked at the starts before.
pub(crate) fn write_region(mut source: Source<'_>, label: &str) -> Vec<Dispatch> {
    let (window, write) = (source.operands.reads[0].clone(), source.operands.writes[0].clone());
    let elements = window.layout.shape.elements();
    each(&mut source, elements, |source| {
        for axis in 0..write.layout.shape.rank() {
            let start = source.operands.reads[1 + axis].clone();
            let value = source.load(&start, &index_at(&start.layout, "0u"));
            source.line(format_args!("let s{axis} = u32({value});"));
        }
        coordinates(source, &window.layout.shape, "position");
        let to: Vec<String> =
            (0..write.layout.shape.rank()).map(|axis| format!("c{axis} + s{axis}")).collect();
        let value = source.load(&window, &index_at(&window.layout, "position"));
        source.store(&write, &index_of(&write.layout, &to), &value);
    });
    done(source, label, elements)
}

/// Runs `f` at each position below `elements`.
pub(crate) fn each(source: &mut Source<'_>, elements: usize, f: impl FnOnce(&mut Source<'_>)) {
    let gate = if source.gated { "committed && " } else { "" };
    source.line(format_args!("let position = group * {WORKGROUP}u + local;"));
    source.line(format_args!("if ({gate}position < {elements}u) {{"));
    f(source);
    source.line("}");
}

/// The shader of [`each`], unless there is nothing to do.
pub(crate) fn done(source: Source<'_>, label: &str, elements: usize) -> Vec<Dispatch> {
    match elements {
        0 => Vec::new(),
        _ => vec![source.finish(label, WORKGROUP, elements.div_ceil(WORKGROUP as usize))],
    }
}

/// Names `c0`, `c1`, .. for the coordinates of a row-major position.
pub(crate) fn coordinates(source: &mut Source<'_>, shape: &Shape, position: &str) {
    let mut inner = 1;
    for axis in (0..shape.rank()).rev() {
        let extent = shape[axis].max(1);
        let expression = match axis {
            0 => format!("{position} / {inner}u"),
            _ => format!("({position} / {inner}u) % {extent}u"),
        };
        source.line(format_args!("let c{axis} = {expression};"));
        inner *= extent;
    }
}

/// Names `s0`, `s1`, .. for the starts of a window of `whole`, which the operands from `first` on give. Out
/// of range is a trap, and 0.
fn starts(source: &mut Source<'_>, whole: &Shape, window: &Shape, first: usize) {
    for axis in 0..whole.rank() {
        let start = source.operands.reads[first + axis].clone();
        let value = source.load(&start, &index_at(&start.layout, "0u"));
        let room = whole[axis] - window[axis];
        source.line(format_args!("let start_{axis} = {value};"));
        let start = source.check_index(&format!("start_{axis}"), room + 1, &format!("{axis}u"));
        source.line(format_args!("let s{axis} = u32({start});"));
    }
}

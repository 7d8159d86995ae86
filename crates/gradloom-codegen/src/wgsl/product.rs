//! Matrix products of a launch: the kernels of [`dot`](super::dot), with what the launch binds and what
//! follows from the product.

use super::body::{Nodes, Place, checks_of};
use super::dot::{self, Choice, DotKernel, Epilogue, Scalar, Stage, fold_batch};
use super::operands::{Element, NONE, Operand};
use super::source::{Source, index_at};
use super::tuning::{Alone, Value, side_by_side};
use super::{Bound, Choices, Dispatch, Limits, Operands, Shader, Shaders};
use crate::cpu::DotProblem;
use gradloom_core::ir::{DType, DotAxes, OpKind, Shape};
use gradloom_core::kernel::{Access, Body, Kernel, Layout, Level};
use std::cell::RefCell;

/// Stands where the declarations go, which are known once the statements are.
const DECLARATIONS: &str = "// declarations";

/// A launch's product as the kernels take it.
///
/// # Panics
/// When an operand must be copied first.
fn problem(axes: &DotAxes, lhs: &Layout, rhs: &Layout) -> DotProblem {
    fold_batch(DotProblem::new(axes, lhs, rhs).expect("operands were made to fit"))
}

/// Bytes of scratch that a product needs.
pub(crate) fn workspace(axes: &DotAxes, reads: &[Access], limits: &Limits, choices: &Choices) -> usize {
    let problem = problem(axes, &reads[0].layout, &reads[1].layout);
    let choice = choices.product(&problem, limits);
    if choice.parts > 1 { 4 * elements(&problem) * choice.parts as usize } else { 0 }
}

/// Parts into which the sums of a product are cut; 1 if its operands must be copied first.
pub(crate) fn parts(axes: &DotAxes, [lhs, rhs]: [&Layout; 2], limits: &Limits, choices: &Choices) -> usize {
    let Some(problem) = DotProblem::new(axes, lhs, rhs) else { return 1 };
    choices.product(&fold_batch(problem), limits).parts as usize
}

fn elements(problem: &DotProblem) -> usize {
    problem.batch_count() * problem.m * problem.n
}

/// Declares the operands as vectors of four where the kernels can load them so.
pub(crate) fn vectorise(operands: &mut Operands, axes: &DotAxes, limits: &Limits) {
    let problem = problem(axes, &operands.reads[0].layout, &operands.reads[1].layout);
    for (side, lanes) in dot::lanes(&problem, limits).into_iter().enumerate() {
        let binding = operands.reads[side].binding;
        if lanes == 4 && binding != NONE && operands.bindings[binding].element == Element::Plain(DType::F32) {
            operands.bindings[binding].element = Element::Vector;
        }
    }
}

/// The product of a launch.
pub(crate) fn problem_of(kernel: &Kernel, reads: &[Access]) -> Option<DotProblem> {
    match kernel {
        Kernel::Op(OpKind::Dot(axes)) | Kernel::Dot { axes, .. } => {
            Some(problem(axes, &reads[0].layout, &reads[1].layout))
        }
        _ => None,
    }
}

/// The shaders of a product that nothing follows from, to be measured: bindings are the left operand, the
/// right one and the results.
pub(super) fn alone(problem: &DotProblem, choice: &Choice, limits: &Limits) -> Alone {
    let [lhs, rhs] = dot::last_elements(problem).map(|last| last + 1);
    let lanes = dot::lanes(problem, limits);
    let value = |count: usize, lanes: u32| {
        let element = if lanes == 4 { Element::Vector } else { Element::Plain(DType::F32) };
        Value { element, dtype: DType::F32, layout: Layout::contiguous(&Shape::from([count])) }
    };
    let reads = vec![value(lhs, lanes[0]), value(rhs, lanes[1])];
    let operands = side_by_side(reads, vec![value(elements(problem), 1)]);
    let source = || Source::new(&operands, limits, false, 0);
    let dispatches = chosen(source, problem, choice, None, "product");
    Alone { shaders: Shaders { operands, dispatches }, words: Vec::new(), results: vec![Bound::Operand(2)] }
}

/// The shaders of a product and what follows from it; `source` begins one.
pub(crate) fn product<'a>(
    source: impl Fn() -> Source<'a>,
    axes: &DotAxes,
    choices: &Choices,
    epilogue: Option<&Body>,
    label: &str,
) -> Vec<Dispatch> {
    let Source { operands, limits, .. } = source();
    let problem = problem(axes, &operands.reads[0].layout, &operands.reads[1].layout);
    if elements(&problem) == 0 {
        return Vec::new();
    }
    chosen(source, &problem, &choices.product(&problem, limits), epilogue, label)
}

/// The same by a choice.
fn chosen<'a>(
    source: impl Fn() -> Source<'a>,
    problem: &DotProblem,
    choice: &Choice,
    epilogue: Option<&Body>,
    label: &str,
) -> Vec<Dispatch> {
    let Source { operands, limits, .. } = source();
    let (lhs, rhs) = (&operands.reads[0], &operands.reads[1]);
    let sources = RefCell::new(Vec::new());
    let load_lhs = |index: &str| item(operands, lhs, index, limits);
    let load_rhs = |index: &str| item(operands, rhs, index, limits);
    let side = |operand: &Operand| if is_vector(operands, operand) { 4 } else { 1 };
    let kernel = DotKernel {
        problem,
        lhs: dot::Operand { scalar: Scalar::F32, lanes: side(lhs), load: &load_lhs },
        rhs: dot::Operand { scalar: Scalar::F32, lanes: side(rhs), load: &load_rhs },
        epilogue: Epilogue {
            lanes: 1,
            store: &|writer, element| {
                let mut sources = sources.borrow_mut();
                let source: &mut Source<'_> = sources.last_mut().expect("declarations come first");
                source.line(format_args!(
                    "let product_row = {} * {}u + {};",
                    element.batch, problem.m, element.row
                ));
                finish(source, epilogue, element.column, element.index, element.value);
                writer.lines(&source.take_lines());
            },
        },
        declarations: &|stage| {
            let mut source = source();
            if stage != Stage::Whole {
                let bytes = 4 * elements(problem) * choice.parts as usize;
                source.named_workspace(
                    0..bytes,
                    "workspace",
                    &format!("array<{}>", dot::workspace_item(problem)),
                );
            }
            sources.borrow_mut().push(source);
            DECLARATIONS.to_string()
        },
    };
    let shaders = dot::generate(&kernel, choice, limits);
    let made = [Some(shaders.product), shaders.sum].into_iter().flatten();
    let names = if choice.parts > 1 { [": parts", ": sums of parts"] } else { ["", ""] };
    made.zip(sources.into_inner())
        .zip(names)
        .map(|((shader, source), name)| placed(source, shader, &format!("{label}{name}")))
        .collect()
}

/// The dispatch of a shader that was made elsewhere.
fn placed(source: Source<'_>, shader: Shader, label: &str) -> Dispatch {
    let (declarations, bindings) = source.declarations(&shader.source);
    let text = shader.source.replacen(DECLARATIONS, declarations.trim_end(), 1);
    Dispatch {
        label: label.to_string(),
        source: format!("// {label}\n{text}"),
        bindings,
        workgroups: shader.workgroups,
    }
}

fn is_vector(operands: &Operands, operand: &Operand) -> bool {
    operand.binding != NONE && operands.bindings[operand.binding].element == Element::Vector
}

/// An operand's item: four neighbours where it is declared so.
fn item(operands: &Operands, operand: &Operand, index: &str, limits: &Limits) -> String {
    let (binding, base) = (operand.binding, operand.base / 4);
    match is_vector(operands, operand) {
        true if base == 0 => operands.item(binding, index, limits),
        true => operands.item(binding, &format!("{}u + ({index})", base / 4), limits),
        false => operands.load(operand, index, limits),
    }
}

/// What follows from the product's element.
fn finish(source: &mut Source<'_>, epilogue: Option<&Body>, column: &str, index: &str, value: &str) {
    if source.gated {
        source.line("if (committed()) {");
        source.committed();
    }
    match epilogue {
        None => {
            let write = source.operands.writes[0].clone();
            source.store(&write, &index_at(&write.layout, index), value);
        }
        Some(body) => {
            let place = Place { row: "product_row", column, position: Some(index), suffix: "", exists: "" };
            let mut nodes = Nodes::new(body);
            nodes.set_accumulator(value);
            for id in Level::ALL.into_iter().flat_map(|level| checks_of(body, level)) {
                nodes.compute(source, id, place);
            }
            nodes.store_elements(source, place);
        }
    }
    if source.gated {
        source.line("}");
    }
}

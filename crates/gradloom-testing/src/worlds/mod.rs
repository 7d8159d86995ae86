//! Enumerates small programs: every program of a few ops over small shapes, with its values and gradients by
//! definition.
//!
//! In: a maximum extent, a rank, a number of ops. Out: programs, each with its graph as traced from user
//! code, forward and backward, and with the expected numbers. Random generation rarely produces programs that
//! are small and use a value several times; here, all of them are enumerated. Invariant: the expected
//! numbers come from `dual.rs`, which shares no code with the compiler.

mod dual;
mod legal;
mod op;

use legal::shapes;
pub use op::{Function, Op, Pair, Reduction, Sliding};

use crate::{Leaves, Random};
use dual::{Array, Dual};
use gradloom_core::error::Error;
use gradloom_core::grad;
use gradloom_core::ir::{DType, Graph, OpKind, Output, Type, ValueId};
use gradloom_core::reference::Evaluation;
use gradloom_core::trace::{Input, Tensor, literal, trace};

/// Maximum error of a number, relative to the largest number of the program, or to 1 if that is larger.
const TOLERANCE: f64 = 2e-5;
/// Maximum magnitude up to which float32 results are compared.
const WILD: f64 = 1e4;

/// Operand of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// Value with this index: 0 is the input, n is the result of step n.
    Value(usize),
    /// New parameter of this shape, with no other use.
    Fresh(Vec<usize>),
}

impl Operand {
    fn shape<'a>(&'a self, values: &'a [Vec<usize>]) -> &'a [usize] {
        match self {
            Operand::Value(number) => &values[*number],
            Operand::Fresh(shape) => shape,
        }
    }
}

/// Op with its operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Op of the step.
    pub op: Op,
    /// One or two operands.
    pub operands: Vec<Operand>,
}

/// Program with one input. Its results are the values that no step uses.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Shape of the input.
    pub shape: Vec<usize>,
    /// Steps in order.
    pub steps: Vec<Step>,
}

/// Graph of a program, and the expected numbers.
#[derive(Debug)]
pub struct Expected {
    /// Graph with the outputs `y0`, `y1`, .. (values) and `d x`, `d w0`, .. (gradients of a weighted sum of
    /// the values).
    pub graph: Graph,
    /// Values of the leaves.
    pub leaves: Leaves,
    /// Name and elements of each output.
    pub outputs: Vec<(String, Vec<f64>)>,
    /// True if gradients can be compared in float32: no element was decided by a choice between nearly equal
    /// values, and no number is infinite, NaN, or very large.
    pub gradients: bool,
}

/// Calls `visit` with every program of one op on every shape, every concatenation of two views, and every
/// program of two ops on shapes of up to two axes: 690,780 programs.
pub fn all(visit: &mut dyn FnMut(&Program)) {
    let images = |shape: &&Vec<usize>| (1..=2).contains(&shape[0]) && (1..=2).contains(&shape[1]);
    for rank in 0..=4 {
        for shape in shapes(rank, 3).iter().filter(|shape| rank < 4 || images(shape)) {
            each(shape, 1, visit);
        }
    }
    for shape in [&[2][..], &[3], &[2, 2]] {
        joins(shape, visit);
    }
    for rank in 0..=2 {
        shapes(rank, 3).iter().for_each(|shape| each(shape, 2, visit));
    }
}

/// Calls `visit` with one in `share` of the 8.2 million programs of three ops on a scalar and on vectors of
/// up to two elements.
pub fn deep(share: u64, visit: &mut dyn FnMut(&Program)) {
    let mut number = 0;
    for shape in [&[][..], &[0], &[1], &[2]] {
        each(shape, 3, &mut |program| {
            number += 1;
            // Select programs at random, because consecutive ones differ little.
            if Random::new(number).next().is_multiple_of(share) {
                visit(program);
            }
        });
    }
}

/// Calls `visit` with every program of exactly `depth` steps on an input of this shape.
fn each(shape: &[usize], depth: usize, visit: &mut dyn FnMut(&Program)) {
    let mut program = Program { shape: shape.to_vec(), steps: Vec::new() };
    extend(&mut program, &mut vec![shape.to_vec()], depth, visit);
}

/// Calls `visit` with every concatenation of two parts on an input of this shape. Each part is a view or a
/// reduction of the input or of a parameter, scaled or not. This covers results whose parts are written
/// directly into their bytes.
fn joins(shape: &[usize], visit: &mut dyn FnMut(&Program)) {
    let (input, parameter) = (Operand::Value(0), Operand::Fresh([shape, &[2]].concat()));
    let starts = [legal::views(&input, shape), legal::views(&parameter, &[shape, &[2]].concat())].concat();
    let values = [shape.to_vec()];
    let scaled = |steps: &mut Vec<Step>, number: usize| {
        steps.push(Step { op: Op::Unary(Function::Triple), operands: vec![Operand::Value(number)] });
        number + 1
    };
    for first in &starts {
        for second in &starts {
            let (a, b) = (first.result_shape(&values), second.result_shape(&values));
            for (op, scale) in legal::concats(&a, &b).into_iter().flat_map(|op| [(op.clone(), 1), (op, 2)]) {
                let mut steps = vec![first.clone()];
                let left = scaled(&mut steps, 1);
                steps.push(second.clone());
                let mut right = steps.len();
                if scale == 2 {
                    right = scaled(&mut steps, right);
                }
                steps.push(Step { op, operands: [left, right].map(Operand::Value).to_vec() });
                visit(&Program { shape: shape.to_vec(), steps });
            }
        }
    }
}

fn extend(
    program: &mut Program,
    values: &mut Vec<Vec<usize>>,
    depth: usize,
    visit: &mut dyn FnMut(&Program),
) {
    if depth == 0 {
        return visit(program);
    }
    for step in legal::steps(values) {
        values.push(step.result_shape(values));
        program.steps.push(step);
        extend(program, values, depth - 1, visit);
        program.steps.pop();
        values.pop();
    }
}

impl Step {
    fn result_shape(&self, values: &[Vec<usize>]) -> Vec<usize> {
        let operands: Vec<&[usize]> = self.operands.iter().map(|operand| operand.shape(values)).collect();
        legal::result_shape(&self.op, &operands)
    }
}

impl Program {
    /// Draws a program of three to five steps on an input of up to three axes.
    pub fn draw(random: &mut Random) -> Self {
        let rank = random.below(4);
        let shape = random.pick(&shapes(rank, 3));
        let mut values = vec![shape.clone()];
        let mut steps = Vec::new();
        for _ in 0..3 + random.below(3) {
            let step = random.pick(&legal::steps(&values));
            values.push(step.result_shape(&values));
            steps.push(step);
        }
        Self { shape, steps }
    }

    /// Returns the shapes of the leaves: the input, then the parameters in order of use.
    fn leaf_shapes(&self) -> Vec<Vec<usize>> {
        let operands = self.steps.iter().flat_map(|step| &step.operands);
        let fresh = operands.filter_map(|operand| match operand {
            Operand::Fresh(shape) => Some(shape.clone()),
            Operand::Value(_) => None,
        });
        std::iter::once(self.shape.clone()).chain(fresh).collect()
    }

    /// Returns the indices of the values that no step uses.
    fn results(&self) -> Vec<usize> {
        let used =
            |value: usize| self.steps.iter().any(|step| step.operands.contains(&Operand::Value(value)));
        (1..=self.steps.len()).filter(|&value| !used(value)).collect()
    }

    /// Runs the steps on any type of value, and returns all values.
    fn run<V: Clone>(&self, leaves: &[V], apply: impl Fn(&Op, &[V]) -> V) -> Vec<V> {
        let (mut values, mut fresh) = (vec![leaves[0].clone()], leaves[1..].iter());
        for step in &self.steps {
            let operands: Vec<V> = step
                .operands
                .iter()
                .map(|operand| match operand {
                    Operand::Value(number) => values[*number].clone(),
                    Operand::Fresh(_) => fresh.next().expect("a leaf for each").clone(),
                })
                .collect();
            values.push(apply(&step.op, &operands));
        }
        values
    }

    /// Returns the values that no step uses.
    fn results_of<V: Clone>(&self, values: &[V]) -> Vec<V> {
        self.results().into_iter().map(|number| values[number].clone()).collect()
    }

    /// Traces the program with its gradients, and computes the expected numbers.
    ///
    /// # Errors
    /// Returns an error if the tracer or differentiation rejects the program.
    pub fn expected(&self) -> Result<Expected, Error> {
        let shapes = self.leaf_shapes();
        let names: Vec<String> = (0..shapes.len())
            .map(|leaf| if leaf == 0 { "x".to_string() } else { format!("w{}", leaf - 1) })
            .collect();
        let elements: Vec<Vec<f64>> = shapes
            .iter()
            .enumerate()
            .map(|(leaf, shape)| (0..shape.iter().product()).map(|i| leaf_value(leaf, i)).collect())
            .collect();
        let values = self.run(&arrays(&shapes, &elements), |op, operands| {
            op.compute(&operands.iter().collect::<Vec<_>>())
        });
        let results = self.results_of(&values);
        let graph = self.graph(&names, &shapes, &results)?;
        let mut leaves = Leaves::random(0);
        for ((name, shape), elements) in names.iter().zip(&shapes).zip(&elements) {
            leaves = leaves.with(name, DType::F32, shape, elements);
        }
        let mut outputs: Vec<(String, Vec<f64>)> = Vec::new();
        for (number, result) in results.iter().enumerate() {
            outputs.push((format!("y{number}"), result.elements.iter().map(|e| e.value).collect()));
        }
        outputs.extend(names.iter().map(|name| format!("d {name}")).zip(gradients(&elements, &results)));
        let sound = |v: &f64| v.abs() < WILD;
        let numbers = values.iter().flat_map(|value| &value.elements);
        let gradients = results.iter().all(|result| !result.kinked)
            && numbers.flat_map(|e| e.slope.iter().chain([&e.value])).all(sound);
        Ok(Expected { graph, leaves, outputs, gradients })
    }

    fn graph(&self, names: &[String], shapes: &[Vec<usize>], results: &[Array]) -> Result<Graph, Error> {
        let input =
            |name: &String, shape: &[usize]| Input { name: name.clone(), ty: Type::new(DType::F32, shape) };
        let inputs: Vec<Input> = names.iter().zip(shapes).map(|(name, shape)| input(name, shape)).collect();
        let traced = trace(
            &(),
            &inputs,
            true,
            |leaves| {
                let values = self.results_of(&self.run(leaves, |op, operands| op.trace(operands)));
                let weighted = values.iter().enumerate().zip(results).map(|((number, y), array)| {
                    let weights: Vec<f32> =
                        (0..array.elements.len()).map(|i| weight(number, i) as f32).collect();
                    (*y * literal(&weights, array.shape.clone())).sum()
                });
                let loss = weighted.reduce(|a, b| a + b).expect("the last value is a result");
                [&values[..], &[loss]].concat()
            },
            |results: Vec<Tensor>| results,
        )?;
        let mut graph = traced.graph;
        // Turn all leaves except the input into parameters.
        let mut leaves: Vec<ValueId> = Vec::new();
        for op in graph.blocks[graph.entry].ops.clone() {
            if let OpKind::Input { name, ty } = graph.ops[op].kind.clone() {
                leaves.push(graph.ops[op].results[0]);
                if name != "x" {
                    graph.ops[op].kind = OpKind::Param { name, ty };
                }
            }
        }
        let (loss, values) = traced.results.split_last().expect("the loss is the last");
        for (number, &value) in values.iter().enumerate() {
            graph.outputs.push(Output { name: format!("y{number}"), value });
        }
        for (name, gradient) in names.iter().zip(grad::append(&mut graph, *loss, None, &leaves)?) {
            if let Some(value) = gradient {
                graph.outputs.push(Output { name: format!("d {name}"), value });
            }
        }
        Ok(graph)
    }
}

impl Expected {
    /// Compares the results of a device with the expected numbers.
    ///
    /// # Errors
    /// Returns a description of the first element that is wrong.
    pub fn check(&self, got: &Evaluation) -> Result<(), String> {
        let finite = self.outputs.iter().flat_map(|(_, elements)| elements).filter(|v| v.is_finite());
        let scale = finite.fold(1.0, |largest: f64, v| largest.max(v.abs()));
        for (name, want) in &self.outputs {
            let is_gradient = name.starts_with("d ");
            if is_gradient && !self.gradients {
                continue;
            }
            let elements = match got.output(name) {
                Some(tensor) => tensor.to_f64(),
                // Expect a gradient of 0, because the loss does not depend on this leaf.
                None if is_gradient => vec![0.0; want.len()],
                None => return Err(format!("there is no output {name}")),
            };
            if elements.len() != want.len() {
                return Err(format!("{name} has {} elements, expected {}", elements.len(), want.len()));
            }
            for (at, (&got, &want)) in elements.iter().zip(want).enumerate() {
                let same = got == want || (got.is_nan() && want.is_nan());
                let close = (got - want).abs() <= TOLERANCE * scale;
                // Do not compare numbers that may overflow in float32.
                let wild = want.abs() >= WILD * WILD;
                if !same && !close && !wild {
                    return Err(format!("element {at} of {name} is {got:e}, expected {want:e}"));
                }
            }
        }
        Ok(())
    }
}

/// Returns an element of a leaf: distinct numbers around 0 that are exact in float32.
fn leaf_value(leaf: usize, element: usize) -> f64 {
    let step = (element * 37 + leaf * 11) % 64;
    let sign = if (element + leaf).is_multiple_of(3) { -1.0 } else { 1.0 };
    sign * (0.3125 + step as f64 / 64.0 + leaf as f64 / 1024.0)
}

/// Returns the weight of a result's element in the loss.
fn weight(result: usize, element: usize) -> f64 {
    ((element * 29 + result * 7) % 32) as f64 / 16.0 - 0.90625
}

fn arrays(shapes: &[Vec<usize>], elements: &[Vec<f64>]) -> Vec<Array> {
    let leaves = elements.iter().map(Vec::len).sum();
    let mut first = 0;
    let mut arrays = Vec::new();
    for (shape, elements) in shapes.iter().zip(elements) {
        let duals = elements.iter().enumerate().map(|(i, &value)| {
            let mut dual = Dual::constant(value, leaves);
            dual.slope[first + i] = 1.0;
            dual
        });
        arrays.push(Array { shape: shape.clone(), elements: duals.collect(), leaves, kinked: false });
        first += elements.len();
    }
    arrays
}

/// Returns the gradient of the loss with respect to each leaf.
fn gradients(leaves: &[Vec<f64>], results: &[Array]) -> Vec<Vec<f64>> {
    let mut all = vec![0.0; leaves.iter().map(Vec::len).sum()];
    for (number, result) in results.iter().enumerate() {
        for (i, element) in result.elements.iter().enumerate() {
            all.iter_mut().zip(&element.slope).for_each(|(sum, slope)| *sum += weight(number, i) * slope);
        }
    }
    let mut rest = &all[..];
    leaves
        .iter()
        .map(|leaf| {
            let (own, others) = rest.split_at(leaf.len());
            rest = others;
            own.to_vec()
        })
        .collect()
}

//! Finds the op that produced the first value that is not finite.
//!
//! In: a program, its store, and the data of a step. Out: the op that received finite numbers and returned
//! the NaN or infinity that reached the guard. Invariant: neither the program nor its store changes.

use super::{DebugRun, Program, Retention};
use crate::store::Store;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{Number, OpKind, Type, ValueId};
use gradloom_device::Device;
use gradloom_device::communicator::Alike;

/// Kind of non-finite number in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    None,
    Infinity,
    NaN,
}

impl Program {
    /// Runs the step again on another device, op by op, and finds the op that caused a non-finite guard.
    /// Returns an error of the given kind that names the op, or `None` if all guards are finite.
    pub(crate) fn find_not_finite(
        &self,
        on: &Device,
        inputs: &[(&str, &[u8])],
        scalar: impl Fn(&str) -> Option<Number>,
        kind: ErrorKind,
    ) -> Result<Option<Error>> {
        // Other ranks need not take part: this shows what comes from this rank.
        let (rank, ranks) = (self.device.rank(), self.device.ranks());
        let device = on.op_by_op()?.in_world(&Alike { rank, ranks })?;
        let store = Store::of(&device);
        // Initial values are not needed, because the elements are written below, bit by bit.
        let nothing = |_: &str, _: &Type, _: &mut [f32]| Ok(());
        let copy = Self::load(self.graph().clone(), &device, &store, nothing)?;
        let own = store.layout();
        let content = self.store().read_where(|entry| own.get(&entry.name).is_some())?;
        let content: Vec<_> =
            content.iter().map(|(entry, bytes)| (entry.name.as_str(), &entry.ty, &bytes[..])).collect();
        store.write(&content)?;
        let mut run = copy.debug_run(inputs, scalar, Retention::EveryValue)?;
        let before_commit = run.plan().first_commit();
        if let Err(trap) = run.run(0..before_commit) {
            return Ok(Some(trap));
        }
        let guards: Vec<ValueId> = copy.graph().guards.iter().map(|guard| guard.value).collect();
        let bad = guards.into_iter().find(|&guard| fault(&run, guard) != Fault::None);
        Ok(bad.map(|guard| blame(&run, guard, kind)))
    }
}

/// Returns the worst fault among a value's elements; for a view, that of its operand.
fn fault(run: &DebugRun, value: ValueId) -> Fault {
    match run.read(value) {
        Ok(tensor) => {
            let of = |x: f64| match x {
                x if x.is_nan() => Fault::NaN,
                x if x.is_infinite() => Fault::Infinity,
                _ => Fault::None,
            };
            tensor.to_f64().into_iter().map(of).max().unwrap_or(Fault::None)
        }
        Err(_) => {
            let operands = run.graph().defining_op(value).map_or(&[][..], |op| &op.operands);
            operands.first().map_or(Fault::None, |&operand| fault(run, operand))
        }
    }
}

/// Follows faulty operands back from a value to the op whose operands are finite.
fn blame(run: &DebugRun, mut value: ValueId, kind: ErrorKind) -> Error {
    let graph = run.graph();
    loop {
        let Some(op) = graph.defining_op(value) else {
            return Error::new(ErrorKind::Internal, format!("{value} is not finite, and nothing made it"));
        };
        let worst = op
            .operands
            .iter()
            .copied()
            .filter(|&v| !is_asked_for(run, v))
            .map(|v| (fault(run, v), v))
            .max_by_key(|(fault, _)| *fault)
            .filter(|(fault, _)| *fault != Fault::None);
        match worst {
            Some((_, operand)) => value = operand,
            None => return described(run, value, kind),
        }
    }
}

/// Returns `true` if all infinities of a value come from constants, which models use intentionally, as in
/// masks.
fn is_asked_for(run: &DebugRun, value: ValueId) -> bool {
    let Some(op) = run.graph().defining_op(value) else { return false };
    if op.operands.is_empty() {
        return leaf(&op.kind).is_none();
    }
    let mut infinite = op.operands.iter().filter(|&&v| fault(run, v) != Fault::None).peekable();
    fault(run, value) == Fault::Infinity
        && infinite.peek().is_some()
        && infinite.all(|&v| is_asked_for(run, v))
}

/// Returns the kind and name of an input, parameter, state or scalar.
fn leaf(kind: &OpKind) -> Option<(&'static str, &str)> {
    match kind {
        OpKind::Input { name, .. } => Some(("input", name)),
        OpKind::Param { name, .. } => Some(("parameter", name)),
        OpKind::State { name, .. } => Some(("state", name)),
        OpKind::Scalar { name, .. } => Some(("number", name)),
        _ => None,
    }
}

fn described(run: &DebugRun, value: ValueId, kind: ErrorKind) -> Error {
    let graph = run.graph();
    let what = if fault(run, value) == Fault::NaN { "NaN" } else { "infinity" };
    let op = graph.defining_op(value).expect("it was found by its op");
    if let Some((which, name)) = leaf(&op.kind) {
        return Error::new(kind, format!("the {which} `{name}` has {what}"))
            .help("look at what was fed, loaded or learnt before");
    }
    let name = op.kind.name();
    let from = match op.operands.iter().any(|&operand| fault(run, operand) != Fault::None) {
        true => "the infinities of a mask",
        false => "finite numbers",
    };
    let mut error = Error::new(kind, format!("`{name}` made {what} from {from}"));
    for &operand in &op.operands {
        if let Ok(tensor) = run.read(operand) {
            let values = tensor.to_f64();
            let (low, high) = values
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
            if !values.is_empty() {
                error = error.note(format!("an operand, {}, is between {low} and {high}", tensor.ty));
            }
        }
    }
    graph.blame(op, error)
}

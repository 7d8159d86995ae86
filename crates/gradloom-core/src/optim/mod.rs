//! The optimizer as part of the graph.
//!
//! In: a graph with gradients, an [`Optimizer`] and the parameters. Out: the graph with moments and the step
//! counter as states, and an update edge for each. Always holds: what may change between steps (learning
//! rate, decay, betas) is a per-step scalar, so changing it compiles nothing; bias corrections are computed
//! on the device from `optim.applied_step`.
//!
//! # Formulas
//!
//! PyTorch's, for parameter `p` with gradient `g` at step `t`, counted from 1:
//!
//! ```text
//! Adam    g <- g + decay·p                       AdamW   p <- p·(1 - lr·decay)
//!         m <- m + (g - m)·(1 - beta1)
//!         v <- v·beta2 + g·g·(1 - beta2)
//!         p <- p - lr/(1 - beta1^t) · m / (sqrt(v)/sqrt(1 - beta2^t) + epsilon)
//!
//! Sgd     g <- g + decay·p
//!         b <- momentum·b + g                    (with momentum)
//!         p <- p - lr·b                          (Nesterov: p - lr·(g + momentum·b))
//!
//! RmsProp g <- g + decay·p                       Adagrad g <- g + decay·p
//!         v <- v + (g·g - v)·(1 - alpha)                 v <- v + g·g
//!         p <- p - lr·g / (sqrt(v) + epsilon)            p <- p - lr·g / (sqrt(v) + epsilon)
//!
//! Lion    p <- p·(1 - lr·decay)                  Muon    p <- p·(1 - lr·decay)
//!         p <- p - lr·sign(m + (g - m)·(1 - beta1))      m <- m + (g - m)·(1 - momentum)
//!         m <- m + (g - m)·(1 - beta2)                   p <- p - lr·scale·orthogonal(g + (m - g)·momentum)
//!
//! Adafactor, of a matrix with the means r over rows and c over columns of g·g:
//!         R <- R + (r - R)·t^decay, C <- C + (c - C)·t^decay, v = R·C / mean(R)
//!         u = g / sqrt(v), p <- p - min(lr, 1/sqrt(t))·max(epsilon2, rms(p))·u / max(1, rms(u) / threshold)
//! ```

/// Defines the setters of an optimizer's numbers under their documentation, and the one of the parameters
/// that weight decay applies to.
macro_rules! setters {
    ($($(#[$doc:meta])+ $name:ident)+ $(; $everything:ident)?) => {
        $(
            $(#[$doc])+
            #[must_use]
            pub fn $name(mut self, $name: f64) -> Self {
                self.$name = $name;
                self
            }
        )+
        $(
            /// Applies weight decay to every parameter, biases and gains too, unless the parameter says
            /// otherwise.
            #[must_use]
            pub fn $everything(mut self) -> Self {
                self.decay_rule = DecayRule::Everything;
                self
            }
        )?
    };
}

mod accumulate;
mod adafactor;
mod adagrad;
mod adam;
mod clip;
mod groups;
mod lion;
mod loss_scale;
mod muon;
mod plateau;
mod rmsprop;
mod schedule;
mod settings;
mod sgd;
mod words;

pub use accumulate::{accumulate, of_all_batches};
pub use adafactor::Adafactor;
pub use adagrad::Adagrad;
pub use adam::{Adam, AdamOf, AdamW};
pub use clip::{clip_by_global_norm, clip_by_value, global_norm};
pub use groups::Groups;
pub use lion::Lion;
pub use loss_scale::{LOSS_SCALE, loss_scale};
pub use muon::Muon;
pub use plateau::Plateau;
pub use rmsprop::RmsProp;
pub use schedule::Schedule;
pub use settings::{AVERAGE_PREFIX, Settings};
pub use sgd::Sgd;

use crate::collections::SortedMap;
use crate::decimal::Decimal;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{BinaryOp, Builder, DType, Graph, Guard, Number, OpKind, Output, Type, Update, ValueId};
use std::fmt;

/// Prefix of the names of all optimizer states; a reset fills them with their initial values.
pub const STATE_PREFIX: &str = "optim.";
/// State: number of steps that took effect, i32.
pub const APPLIED_STEP: &str = "optim.applied_step";
/// Output: the norm of all gradients together, before clipping.
pub const GRADIENT_NORM: &str = "gradient_norm";

/// The optimizer's numbers by name (`lr`, `beta1`, ..): they may change at every step.
pub type Hyperparameters = SortedMap<String, f64>;

/// A parameter to train.
#[derive(Clone, Debug)]
pub struct Trainable {
    /// Name in the store.
    pub name: String,
    /// Its leaf in the graph.
    pub value: ValueId,
    /// Gradient of the loss, of the same type.
    pub gradient: ValueId,
    /// The value of [`crate::nn::Param::set_decay`], if it was set.
    pub decay: Option<bool>,
}

/// A rule that turns gradients into new parameters.
pub trait Optimizer: Send + Sync + 'static {
    /// Returns the learning rate by attempted step.
    fn schedule(&self) -> &Schedule;

    /// Sets the learning rate, `lr`, of an attempted step, counted from 0.
    fn set_rates(&self, numbers: &mut Hyperparameters, step: u64) {
        set_number(numbers, "lr", self.schedule().at(step));
    }

    /// Returns the other numbers, with their starting values.
    fn hyperparameters(&self) -> Hyperparameters;

    /// Checks the numbers, `lr` among them, and adds what the device needs that is derived from them in
    /// float64. Called before every step, so numbers that are there are changed in place, see [`set_number`].
    ///
    /// # Errors
    /// When a number is out of range, naming it.
    fn derive(&self, numbers: &mut Hyperparameters) -> Result<()>;

    /// Checks what the optimizer expects of the parameters.
    ///
    /// # Errors
    /// When they are not as it needs them.
    fn check(&self, _parameters: &[Trainable]) -> Result<()> {
        Ok(())
    }

    /// Adds the ops that compute a parameter's next value, and its states' updates.
    fn update(&self, step: &mut StepBuilder<'_, '_>, parameter: &Trainable) -> ValueId;
}

/// By its numbers. The trait does not ask for `Debug`: the texts of all optimizers would then be part of
/// every program that has one.
impl fmt::Debug for dyn Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Optimizer")
            .field("schedule", self.schedule())
            .field("numbers", &self.hyperparameters())
            .finish()
    }
}

/// The values and the builder for one parameter's update.
#[derive(Debug)]
pub struct StepBuilder<'b, 'g> {
    /// The builder that adds ops to the graph.
    pub builder: &'b mut Builder<'g>,
    /// Number of this step among those that take effect, from 1, as f32.
    pub step: ValueId,
    scalars: SortedMap<String, ValueId>,
    derived: SortedMap<&'static str, ValueId>,
    /// Values of other learning rates, by the rates' names.
    rates: SortedMap<&'static str, SortedMap<&'static str, ValueId>>,
    /// Prefix of the names of numbers.
    prefix: String,
    /// Values of groups of parameters, by their prefixes.
    groups: SortedMap<String, Derived>,
    /// True if the gradients are finite; `None` without a loss scale.
    fits: Option<ValueId>,
}

/// Values that are built once: for all parameters, and for those of other rates.
type Derived = (SortedMap<&'static str, ValueId>, SortedMap<&'static str, SortedMap<&'static str, ValueId>>);

impl StepBuilder<'_, '_> {
    /// Returns a number of the per-step block, of rank 0.
    pub fn scalar(&mut self, name: &str) -> ValueId {
        let name = format!("{}{name}", self.prefix);
        if let Some(&known) = self.scalars.get(&name) {
            return known;
        }
        let value = self.builder.op(OpKind::Scalar { name: scalar_name(&name), dtype: DType::F32 }, &[]);
        self.scalars.insert(name, value);
        value
    }

    /// Returns a rank-0 value that is the same for all parameters, and builds it once.
    pub fn shared(&mut self, key: &'static str, build: impl FnOnce(&mut Self) -> ValueId) -> ValueId {
        if let Some(&known) = self.derived.get(key) {
            return known;
        }
        let value = build(self);
        self.derived.insert(key, value);
        value
    }

    /// Appends `x op s` with a rank-0 `s`.
    pub fn with_scalar(&mut self, op: BinaryOp, x: ValueId, s: ValueId) -> ValueId {
        let shape = self.builder.shape(x);
        let s = self.builder.broadcast(s, &shape);
        self.builder.binary(op, x, s)
    }

    /// Adds a state `optim.{kind}.{parameter}` of the parameter's type that starts at 0; returns its
    /// current value.
    pub fn state(&mut self, kind: &str, parameter: &Trainable) -> ValueId {
        let name = format!("{STATE_PREFIX}{kind}.{}", parameter.name);
        let ty = self.builder.ty(parameter.value);
        self.builder.op(OpKind::State { name, ty, init: Number::Float(0.0) }, &[])
    }

    /// Adds a state `optim.{kind}.{parameter}` of another type; returns its current value.
    pub fn state_of(&mut self, kind: &str, parameter: &Trainable, ty: Type, init: f64) -> ValueId {
        let name = format!("{STATE_PREFIX}{kind}.{}", parameter.name);
        self.builder.op(OpKind::State { name, ty, init: Number::Float(init) }, &[])
    }

    /// Appends `from + (to - from) · rate`, with the number of this name for the rate.
    pub fn moved(&mut self, from: ValueId, to: ValueId, rate: &str) -> ValueId {
        let difference = self.builder.sub(to, from);
        let rate = self.scalar(rate);
        let change = self.with_scalar(BinaryOp::Mul, difference, rate);
        self.builder.add(from, change)
    }

    /// Adds a running mean of x, as a state: [`StepBuilder::moved`] towards x. Returns its next value.
    pub fn running_mean(&mut self, kind: &str, parameter: &Trainable, x: ValueId, rate: &str) -> ValueId {
        let state = self.state(kind, parameter);
        let next = self.moved(state, x, rate);
        self.assign(state, next)
    }

    /// Returns the parameter's gradient, with the number `weight_decay` times the parameter where the rule
    /// applies.
    pub fn with_decay(&mut self, parameter: &Trainable, rule: DecayRule) -> ValueId {
        if !rule.applies(self.builder.graph, parameter) {
            return parameter.gradient;
        }
        let decay = self.scalar("weight_decay");
        let pull = self.with_scalar(BinaryOp::Mul, parameter.value, decay);
        self.builder.add(parameter.gradient, pull)
    }

    /// Returns the parameter, times 1 less the numbers `lr` and `weight_decay` where the rule applies.
    pub fn shrunk(&mut self, parameter: &Trainable, rule: DecayRule) -> ValueId {
        if !rule.applies(self.builder.graph, parameter) {
            return parameter.value;
        }
        let keep = self.shared("keep", |s| {
            let (lr, decay) = (s.scalar("lr"), s.scalar("weight_decay"));
            let shrink = s.builder.mul(lr, decay);
            let one = s.builder.number(1.0);
            s.builder.sub(one, shrink)
        });
        self.with_scalar(BinaryOp::Mul, parameter.value, keep)
    }

    /// Appends `from` less the number `lr` times a direction.
    pub fn descend(&mut self, from: ValueId, direction: ValueId) -> ValueId {
        let lr = self.scalar("lr");
        let change = self.with_scalar(BinaryOp::Mul, direction, lr);
        self.builder.sub(from, change)
    }

    /// Builds with another learning rate. What is shared within is shared with what else has this `name`.
    pub fn at_rate<R>(&mut self, name: &'static str, lr: ValueId, build: impl FnOnce(&mut Self) -> R) -> R {
        let own = self.scalar("lr");
        let key = format!("{}lr", self.prefix);
        self.scalars.insert(key.clone(), lr);
        let others = self.rates.get(name).cloned().unwrap_or_default();
        let shared = std::mem::replace(&mut self.derived, others);
        let result = build(self);
        self.rates.insert(name, std::mem::replace(&mut self.derived, shared));
        self.scalars.insert(key, own);
        result
    }

    /// Builds with the numbers whose names begin with a prefix. What is shared within is shared with what
    /// else has the prefix.
    fn in_group<R>(&mut self, prefix: &str, build: impl FnOnce(&mut Self) -> R) -> R {
        let outer = std::mem::replace(&mut self.prefix, prefix.to_string());
        let own = self.groups.get(prefix).cloned().unwrap_or_default();
        let shared = (std::mem::replace(&mut self.derived, own.0), std::mem::replace(&mut self.rates, own.1));
        let result = build(self);
        let own =
            (std::mem::replace(&mut self.derived, shared.0), std::mem::replace(&mut self.rates, shared.1));
        self.groups.insert(prefix.to_string(), own);
        self.prefix = outer;
        result
    }

    /// Gives a state or parameter its next value, which comes back: with a loss scale, it is the value of
    /// before where gradients overflowed. What follows reads that one, so that one kernel makes all of it.
    pub fn assign(&mut self, target: ValueId, value: ValueId) -> ValueId {
        let value = self.unless_overflown(value, target);
        self.builder.graph.updates.push(Update { target, region: None, value, must_alias: false });
        value
    }

    fn unless_overflown(&mut self, value: ValueId, before: ValueId) -> ValueId {
        let Some(fits) = self.fits else { return value };
        let shape = self.builder.shape(before);
        let fits = self.builder.broadcast(fits, &shape);
        self.builder.select(fits, value, before)
    }
}

/// Sets a number; allocates only for a new name.
pub fn set_number(numbers: &mut Hyperparameters, name: &str, value: f64) {
    match numbers.get_mut(name) {
        Some(number) => *number = value,
        None => {
            numbers.insert(name.to_string(), value);
        }
    }
}

/// Returns the name of the per-step scalar behind one of the optimizer's numbers.
pub fn scalar_name(number: &str) -> String {
    format!("{STATE_PREFIX}{number}")
}

/// Choice of the parameters that decay: those that say so themselves, else all, none, or those of rank 2
/// and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DecayRule {
    /// Matrices, tables and kernels, but not biases and gains.
    #[default]
    Matrices,
    /// Every parameter.
    Everything,
}

impl DecayRule {
    /// Returns whether a parameter decays.
    pub fn applies(self, graph: &Graph, parameter: &Trainable) -> bool {
        parameter.decay.unwrap_or(match self {
            DecayRule::Matrices => graph.ty(parameter.value).shape.rank() >= 2,
            DecayRule::Everything => true,
        })
    }
}

/// Appends the optimizer: gradient norm (an output, and a guard of the commit), what the settings do with
/// gradients and parameters, updates, step counter. If the backward pass began with [`loss_scale`], it
/// adapts.
///
/// # Errors
/// When there is nothing to train, or a pattern is the name of no parameter; with a loss scale, when the
/// model updates a part of a state.
pub fn attach(
    mut graph: Graph,
    parameters: &[Trainable],
    optimizer: &dyn Optimizer,
    settings: &Settings,
) -> Result<Graph> {
    if parameters.is_empty() {
        return Err(Error::new(ErrorKind::MissingGradient, "the model has no parameter to train")
            .help("use a parameter that is not frozen in the loss, or evaluate with `.infer(..)`"));
    }
    let names = parameters.iter().map(|parameter| parameter.name.as_str());
    settings.normalize.iter().try_for_each(|pattern| pattern.expect_any(names.clone()))?;
    optimizer.check(parameters)?;
    let mut builder = Builder::new(&mut graph, None);
    let counter = builder.op(
        OpKind::State { name: APPLIED_STEP.into(), ty: Type::scalar(DType::I32), init: Number::Int(0) },
        &[],
    );
    let one = builder.splat(&Type::scalar(DType::I32), 1.0);
    let next = builder.add(counter, one);
    let step = builder.cast(next, DType::F32);
    let mut state = StepBuilder {
        builder: &mut builder,
        step,
        scalars: SortedMap::new(),
        derived: SortedMap::new(),
        rates: SortedMap::new(),
        prefix: String::new(),
        groups: SortedMap::new(),
        fits: None,
    };
    let (gradients, norm) = settings.gradients(&mut state, parameters);
    let guarded = match loss_scale::of(state.builder.graph) {
        Some(scale) => loss_scale::adapt(&mut state, scale, norm)?,
        None => norm,
    };
    for (parameter, gradient) in parameters.iter().zip(gradients) {
        // Of 16 bits, it is rounded once.
        let (leaf, dtype) = (parameter.value, state.builder.ty(parameter.value).dtype);
        let value = state.builder.cast(leaf, dtype.computed());
        let parameter = Trainable { gradient, value, ..parameter.clone() };
        let updated = optimizer.update(&mut state, &parameter);
        let updated = state.unless_overflown(updated, value);
        let rounded = state.builder.cast(updated, dtype);
        state.builder.graph.updates.push(Update {
            target: leaf,
            region: None,
            value: rounded,
            must_alias: false,
        });
        settings.average(&mut state, &parameter, updated);
    }
    state.assign(counter, next);
    graph.outputs.push(Output { name: GRADIENT_NORM.into(), value: norm });
    graph.guards.push(Guard { name: "gradient norm".into(), value: guarded });
    Ok(graph)
}

/// Largest learning rate and weight decay. A gradient of which the norm is finite has elements up to 1.8e19,
/// so that the step that it makes is finite, too: no weight becomes infinite at once, and nothing needs to be
/// looked for on the device.
pub const LARGEST_RATE: f64 = 1e18;

/// Returns a number that must lie in a range, or an error that names it.
fn check(numbers: &Hyperparameters, name: &str, ok: fn(f64) -> bool, range: &str) -> Result<f64> {
    let value = numbers.get(name).copied().unwrap_or(f64::NAN);
    let most = match name {
        "lr" | "weight_decay" | "others_rate" => LARGEST_RATE,
        // The device computes in float32.
        _ => f32::MAX.into(),
    };
    if ok(value) && value.abs() <= most {
        return Ok(value);
    }
    let range = match most == LARGEST_RATE && ok(value) {
        true => "at most 1e18, so that what it is multiplied with stays finite",
        false => range,
    };
    Err(Error::new(ErrorKind::Feed, format!("the optimizer's `{name}` is {}", Decimal::from(value)))
        .help(format!("`{name}` must be {range}")))
}

/// Checks the learning rate and the weight decay.
fn check_rates(numbers: &Hyperparameters) -> Result<()> {
    ["lr", "weight_decay"].into_iter().try_for_each(|name| check_size(numbers, name).map(drop))
}

/// Checks a number that must be finite and not negative.
fn check_size(numbers: &Hyperparameters, name: &str) -> Result<f64> {
    check(numbers, name, |v| v >= 0.0 && v.is_finite(), "finite and not negative")
}

/// Checks a number that must be at least 0 and less than 1.
fn check_share(numbers: &Hyperparameters, name: &str) -> Result<f64> {
    check(numbers, name, |v| (0.0..1.0).contains(&v), "at least 0 and less than 1")
}

/// Collects numbers by their names.
fn named<const N: usize>(numbers: [(&str, f64); N]) -> Hyperparameters {
    numbers.map(|(name, value)| (name.to_string(), value)).into()
}

/// Returns an error unless a number is finite and above 0 as a float32, of which the device has no smaller
/// ones.
fn check_positive(numbers: &Hyperparameters, name: &str) -> Result<()> {
    let range = "finite and greater than 0, as a float32";
    check(numbers, name, |v| v >= f32::MIN_POSITIVE.into(), range).map(drop)
}

/// Checks a number that keeps a divisor from being 0. So that 0 divided by 0 makes no weight NaN, it is at
/// least 1e-19, whose square is a float32, too.
fn check_epsilon(numbers: &mut Hyperparameters, name: &str) -> Result<()> {
    let value = check_size(numbers, name)?;
    set_number(numbers, name, value.max(1e-19));
    Ok(())
}

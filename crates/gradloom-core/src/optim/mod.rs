//! The optimizer as part of the graph.
//!
//! In: a graph with gradients, an [`Optimizer`] and the parameters. Out: the graph with the moments and the
//! step counter as states, and an update edge for each. Invariant: hyperparameters that may change between
//! steps (learning rate, decay, betas) are per-step scalars, so changing them does not recompile the program;
//! bias corrections are computed on the device from `optim.applied_step`.
//!
//! # Formulas
//!
//! The formulas are PyTorch's, for a parameter `p` with gradient `g` at step `t`, counted from 1:
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

/// Defines documented setters for an optimizer's hyperparameters, which are f64 where no type is given, and,
/// after `;`, a setter that applies weight decay to all parameters.
macro_rules! setters {
    (@type) => { f64 };
    (@type $ty:ty) => { $ty };
    ($($(#[$doc:meta])+ $name:ident $(: $ty:ty)?)+ $(; $everything:ident)?) => {
        $(
            $(#[$doc])+
            #[must_use]
            pub fn $name(mut self, $name: setters!(@type $($ty)?)) -> Self {
                self.$name = $name.into();
                self
            }
        )+
        $(
            /// Applies weight decay to every parameter, including biases and gains, except where
            /// [`Param::set_decay`](crate::nn::Param::set_decay) overrides it.
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
mod groups;
mod lion;
mod loss_scale;
mod muon;
mod norm;
mod plateau;
mod replicas;
mod rmsprop;
mod schedule;
mod settings;
mod sgd;
mod words;

pub use accumulate::{accumulate, of_all_batches};
pub use adafactor::Adafactor;
pub use adagrad::Adagrad;
pub use adam::{Adam, AdamOf, AdamW};
pub use groups::Groups;
pub use lion::Lion;
pub use loss_scale::{LOSS_SCALE, loss_scale};
pub use muon::Muon;
pub use norm::global_norm;
pub use plateau::Plateau;
pub use replicas::{Replicas, average_over_ranks};
pub use rmsprop::RmsProp;
pub use schedule::Schedule;
pub use settings::{AVERAGE_PREFIX, Settings};
pub use sgd::Sgd;

use crate::collections::SortedMap;
use crate::decimal::Decimal;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{
    BinaryOp, Builder, CollectiveOp, DType, Graph, Guard, Number, OpKind, Output, Shape, Type, Update,
    ValueId,
};
use std::fmt;

/// Prefix of the names of all optimizer states. A reset of the optimizer restores their initial values.
pub const STATE_PREFIX: &str = "optim.";
/// Name of the i32 state with the number of steps that took effect.
pub const APPLIED_STEP: &str = "optim.applied_step";
/// Name of the output with the global norm of all gradients, before clipping.
pub const GRADIENT_NORM: &str = "gradient_norm";

/// Name of the i32 scalar with the number of the rank that runs the step.
pub const RANK: &str = "world.rank";

/// The optimizer's hyperparameters by name (`lr`, `beta1`, ..), which may change at every step.
pub type Hyperparameters = SortedMap<String, f64>;

/// A parameter to train.
#[derive(Clone, Debug)]
pub struct Trainable {
    /// Name of the parameter in the store.
    pub name: String,
    /// Leaf of the parameter in the graph.
    pub value: ValueId,
    /// Gradient of the loss, with the type of the parameter; if the parameter is sharded, that of this rank's
    /// shard.
    pub gradient: ValueId,
    /// Value that was set by [`crate::nn::Param::set_decay`], if any.
    pub decay: Option<bool>,
    /// Division of the parameter into shards, of which each rank updates its own; `None` if all ranks update
    /// the whole parameter.
    pub shard: Option<Shard>,
}

/// Division of a parameter among ranks. Shard r is the vector of the r-th of as many equal parts of the
/// parameter's elements, in order, as there are ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of ranks.
    pub ranks: usize,
    /// Shape of the whole parameter.
    pub whole: Shape,
    /// This rank's shard of the parameter.
    pub value: ValueId,
}

impl Shard {
    /// Appends the parameters of which this rank has the given shards.
    fn gathered(b: &mut Builder<'_>, shards: &[(&Shard, ValueId)]) -> Vec<ValueId> {
        let Some(&(Shard { ranks, .. }, _)) = shards.first() else { return Vec::new() };
        let kind = OpKind::Collective { op: CollectiveOp::AllGather, ranks: *ranks, rounded: false };
        let operands: Vec<ValueId> = shards.iter().map(|(_, value)| *value).collect();
        let all = b.all(kind, &operands);
        shards.iter().zip(all).map(|((shard, _), all)| b.reshape(all, shard.whole.clone())).collect()
    }
}

impl Trainable {
    /// Returns the gradient of the whole parameter.
    pub fn whole_gradient(&self, b: &mut Builder<'_>) -> ValueId {
        match &self.shard {
            None => self.gradient,
            Some(shard) => Shard::gathered(b, &[(shard, self.gradient)])[0],
        }
    }

    /// Returns the shape of the whole parameter.
    fn shape<'g>(&'g self, graph: &'g Graph) -> &'g Shape {
        self.shard.as_ref().map_or(&graph.ty(self.value).shape, |shard| &shard.whole)
    }
}

/// A rule that computes new parameters from gradients.
pub trait Optimizer: Send + Sync + 'static {
    /// Returns the learning rate as a function of the attempted step.
    fn schedule(&self) -> &Schedule;

    /// Sets the learning rate, `lr`, to that of an attempted step, counted from 0.
    fn set_rates(&self, numbers: &mut Hyperparameters, step: u64) {
        set_number(numbers, "lr", self.schedule().at(step));
    }

    /// Returns the hyperparameters other than `lr`, with their initial values.
    fn hyperparameters(&self) -> Hyperparameters;

    /// Checks the hyperparameters, including `lr`, and adds the numbers that the device needs and that are
    /// derived from them in f64. This is called before every step, so existing numbers are changed in place
    /// (see [`set_number`]).
    ///
    /// # Errors
    /// Returns an error that names the number if one is out of range.
    fn derive(&self, numbers: &mut Hyperparameters) -> Result<()>;

    /// Checks that the optimizer can train these parameters.
    ///
    /// # Errors
    /// Returns an error if the optimizer cannot train these parameters.
    fn check(&self, _parameters: &[Trainable]) -> Result<()> {
        Ok(())
    }

    /// Adds the ops that compute a parameter's next value, and the updates of the parameter's optimizer
    /// states. Returns the next value.
    fn update(&self, step: &mut StepBuilder<'_, '_>, parameter: &Trainable) -> ValueId;

    /// Returns `true` if the update of each element of the parameter with this name depends only on that
    /// element, its gradient, and states of its shape. Several ranks can then update a shard each.
    fn is_elementwise(&self, _parameter: &str) -> bool {
        false
    }
}

/// Formats the schedule and the hyperparameters. The trait does not require `Debug`, because the formatting
/// code of all optimizers would then be part of every program that contains one.
impl fmt::Debug for dyn Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Optimizer")
            .field("schedule", self.schedule())
            .field("numbers", &self.hyperparameters())
            .finish()
    }
}

/// The builder and the shared values for the updates of parameters.
#[derive(Debug)]
pub struct StepBuilder<'b, 'g> {
    /// The builder that adds ops to the graph.
    pub builder: &'b mut Builder<'g>,
    /// Number of this step among the steps that take effect, counted from 1, as f32.
    pub step: ValueId,
    scalars: SortedMap<String, ValueId>,
    /// Shared values, by the prefix and the learning rate under which they were built, and their name.
    shared: SortedMap<(String, &'static str, &'static str), ValueId>,
    /// Prefix of the names of hyperparameters.
    prefix: String,
    /// Name of the learning rate that stands in for `lr`; empty for `lr` itself.
    rate: &'static str,
    /// Bool value that is true if the norm of the gradients is finite; `None` without a loss scale.
    fits: Option<ValueId>,
}

impl StepBuilder<'_, '_> {
    /// Returns the per-step scalar of a hyperparameter, adding it at the first use.
    pub fn scalar(&mut self, name: &str) -> ValueId {
        let name = format!("{}{name}", self.prefix);
        if let Some(&known) = self.scalars.get(&name) {
            return known;
        }
        let value = self.builder.op(OpKind::Scalar { name: scalar_name(&name), dtype: DType::F32 }, &[]);
        self.scalars.insert(name, value);
        value
    }

    /// Returns a rank-0 value that is the same for all parameters, building it at the first use.
    pub fn shared(&mut self, key: &'static str, build: impl FnOnce(&mut Self) -> ValueId) -> ValueId {
        let key = (self.prefix.clone(), self.rate, key);
        if let Some(&known) = self.shared.get(&key) {
            return known;
        }
        let value = build(self);
        self.shared.insert(key, value);
        value
    }

    /// Appends `x op s`, where `s` has rank 0.
    pub fn with_scalar(&mut self, op: BinaryOp, x: ValueId, s: ValueId) -> ValueId {
        let shape = self.builder.shape(x);
        let s = self.builder.broadcast(s, &shape);
        self.builder.binary(op, x, s)
    }

    /// Adds a state `optim.{kind}.{parameter}` that has the parameter's type and starts at 0. Returns its
    /// current value.
    pub fn state(&mut self, kind: &str, parameter: &Trainable) -> ValueId {
        let ty = self.builder.ty(parameter.value);
        self.state_of(kind, parameter, ty, 0.0)
    }

    /// Adds a state `optim.{kind}.{parameter}` with the given type and initial value. Returns its current
    /// value.
    pub fn state_of(&mut self, kind: &str, parameter: &Trainable, ty: Type, init: f64) -> ValueId {
        let name = format!("{STATE_PREFIX}{kind}.{}", parameter.name);
        let shard = parameter.shard.as_ref().filter(|_| ty.shape == self.builder.shape(parameter.value));
        let whole = shard.map_or_else(Vec::new, |shard| shard.whole.to_vec());
        self.builder.op(OpKind::State { name, ty, init: Number::Float(init), whole }, &[])
    }

    /// Appends `from + (to - from) · rate`, where `rate` names a hyperparameter.
    pub fn moved(&mut self, from: ValueId, to: ValueId, rate: &str) -> ValueId {
        let difference = self.builder.sub(to, from);
        let rate = self.scalar(rate);
        let change = self.with_scalar(BinaryOp::Mul, difference, rate);
        self.builder.add(from, change)
    }

    /// Adds a state with the running mean of x, which is updated by [`StepBuilder::moved`] towards x. Returns
    /// its next value.
    pub fn running_mean(&mut self, kind: &str, parameter: &Trainable, x: ValueId, rate: &str) -> ValueId {
        let state = self.state(kind, parameter);
        let next = self.moved(state, x, rate);
        self.assign(state, next)
    }

    /// Returns the parameter's gradient, plus `weight_decay` times the parameter where the rule applies.
    pub fn with_decay(&mut self, parameter: &Trainable, rule: DecayRule) -> ValueId {
        if !rule.applies(self.builder.graph, parameter) {
            return parameter.gradient;
        }
        let decay = self.scalar("weight_decay");
        let pull = self.with_scalar(BinaryOp::Mul, parameter.value, decay);
        self.builder.add(parameter.gradient, pull)
    }

    /// Returns the parameter, multiplied by `1 - lr · weight_decay` where the rule applies.
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

    /// Appends `from - lr · direction`.
    pub fn descend(&mut self, from: ValueId, direction: ValueId) -> ValueId {
        let lr = self.scalar("lr");
        let change = self.with_scalar(BinaryOp::Mul, direction, lr);
        self.builder.sub(from, change)
    }

    /// Runs `build` with another learning rate. Shared values are separate for each `name`.
    pub fn at_rate<R>(&mut self, name: &'static str, lr: ValueId, build: impl FnOnce(&mut Self) -> R) -> R {
        let own = self.scalar("lr");
        let key = format!("{}lr", self.prefix);
        self.scalars.insert(key.clone(), lr);
        let outer = std::mem::replace(&mut self.rate, name);
        let result = build(self);
        self.rate = outer;
        self.scalars.insert(key, own);
        result
    }

    /// Runs `build` with the hyperparameters whose names begin with a prefix. Shared values are separate for
    /// each prefix.
    fn in_group<R>(&mut self, prefix: &str, build: impl FnOnce(&mut Self) -> R) -> R {
        let outer = (std::mem::replace(&mut self.prefix, prefix.to_string()), std::mem::take(&mut self.rate));
        let result = build(self);
        (self.prefix, self.rate) = outer;
        result
    }

    /// Records the next value of a state or parameter, and returns it. With a loss scale, the recorded value
    /// is the current one if gradients overflowed. Later ops should read the returned value, so that one
    /// kernel computes all of them.
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

/// Sets a hyperparameter, allocating only for a new name.
pub fn set_number(numbers: &mut Hyperparameters, name: &str, value: f64) {
    match numbers.get_mut(name) {
        Some(number) => *number = value,
        None => {
            numbers.insert(name.to_string(), value);
        }
    }
}

/// Returns the name of the per-step scalar of a hyperparameter.
pub fn scalar_name(number: &str) -> String {
    format!("{STATE_PREFIX}{number}")
}

/// The choice of parameters to which weight decay applies, unless [`Trainable::decay`] overrides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DecayRule {
    /// Parameters of rank 2 or higher: matrices, tables and kernels, but not biases and gains.
    #[default]
    Matrices,
    /// Every parameter.
    Everything,
}

impl DecayRule {
    /// Returns `true` if weight decay applies to a parameter.
    pub fn applies(self, graph: &Graph, parameter: &Trainable) -> bool {
        parameter.decay.unwrap_or(match self {
            DecayRule::Matrices => parameter.shape(graph).rank() >= 2,
            DecayRule::Everything => true,
        })
    }
}

/// Appends the optimizer: the gradient norm (an output, and a guard of the commit), the changes of gradients
/// and parameters that the settings request, the updates, and the step counter. If the backward pass began
/// with [`loss_scale()`], also appends the update of the scale.
///
/// # Errors
/// Returns an error if there is no parameter to train, or if a pattern matches no parameter; with a loss
/// scale, also if the model updates a part of a state or a state that must be updated in place.
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
        OpKind::State {
            name: APPLIED_STEP.into(),
            ty: Type::scalar(DType::I32),
            init: Number::Int(0),
            whole: Vec::new(),
        },
        &[],
    );
    let one = builder.splat(&Type::scalar(DType::I32), 1.0);
    let next = builder.add(counter, one);
    let step = builder.cast(next, DType::F32);
    let mut state = StepBuilder {
        builder: &mut builder,
        step,
        scalars: SortedMap::new(),
        shared: SortedMap::new(),
        prefix: String::new(),
        rate: "",
        fits: None,
    };
    let (gradients, norm) = settings.gradients(&mut state, parameters);
    let guarded = match loss_scale::of(state.builder.graph) {
        Some(scale) => loss_scale::adapt(&mut state, scale, norm)?,
        None => norm,
    };
    let mut shards: Vec<(&Trainable, &Shard, ValueId)> = Vec::new();
    for (parameter, gradient) in parameters.iter().zip(gradients) {
        // Update a 16-bit parameter in f32, and round it once.
        let own = parameter.shard.as_ref().map_or(parameter.value, |shard| shard.value);
        let value = state.builder.cast(own, state.builder.ty(own).dtype.computed());
        let own = Trainable { gradient, value, ..parameter.clone() };
        let updated = optimizer.update(&mut state, &own);
        let updated = state.unless_overflown(updated, value);
        match &parameter.shard {
            None => settings.replace(&mut state, parameter, updated),
            Some(shard) => shards.push((parameter, shard, updated)),
        }
    }
    let ranks = shards.first().map_or(1, |(_, shard, _)| shard.ranks);
    for bucket in replicas::buckets(state.builder.graph, &shards, ranks, |(.., updated)| *updated) {
        let updated: Vec<_> = bucket.iter().map(|(_, shard, updated)| (*shard, *updated)).collect();
        let wholes = Shard::gathered(state.builder, &updated);
        for ((parameter, ..), whole) in bucket.into_iter().zip(wholes) {
            settings.replace(&mut state, parameter, whole);
        }
    }
    state.assign(counter, next);
    graph.outputs.push(Output { name: GRADIENT_NORM.into(), value: norm });
    graph.guards.push(Guard { name: "gradient norm".into(), value: guarded });
    Ok(graph)
}

/// Maximum of learning rates and weight decays. The elements of a gradient with a finite norm are at most
/// 1.8e19, so the step that the gradient causes is also finite: no weight becomes infinite in one step, and
/// the device need not check for infinity.
pub const LARGEST_RATE: f64 = 1e18;

/// Returns a hyperparameter, or an error that names it if it is out of range.
fn check(numbers: &Hyperparameters, name: &str, ok: fn(f64) -> bool, range: &str) -> Result<f64> {
    let value = numbers.get(name).copied().unwrap_or(f64::NAN);
    let most = match name {
        "lr" | "weight_decay" | "others_rate" => LARGEST_RATE,
        // The device computes in f32.
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

fn check_rates(numbers: &Hyperparameters) -> Result<()> {
    ["lr", "weight_decay"].into_iter().try_for_each(|name| check_size(numbers, name).map(drop))
}

/// Checks that a number is finite and not negative.
fn check_size(numbers: &Hyperparameters, name: &str) -> Result<f64> {
    check(numbers, name, |v| v >= 0.0 && v.is_finite(), "finite and not negative")
}

/// Checks that a number is at least 0 and less than 1.
fn check_share(numbers: &Hyperparameters, name: &str) -> Result<f64> {
    check(numbers, name, |v| (0.0..1.0).contains(&v), "at least 0 and less than 1")
}

fn named<const N: usize>(numbers: [(&str, f64); N]) -> Hyperparameters {
    numbers.map(|(name, value)| (name.to_string(), value)).into()
}

/// Checks that a number is finite and at least the smallest positive normal f32, as the device has no smaller
/// positive numbers.
fn check_positive(numbers: &Hyperparameters, name: &str) -> Result<()> {
    let range = "finite and greater than 0, as a float32";
    check(numbers, name, |v| v >= f32::MIN_POSITIVE.into(), range).map(drop)
}

/// Checks a number that keeps a divisor from being 0, and raises it to at least 1e-19, whose square is
/// representable in f32. With a smaller number, 0 divided by 0 could make a weight NaN.
fn check_epsilon(numbers: &mut Hyperparameters, name: &str) -> Result<()> {
    let value = check_size(numbers, name)?;
    set_number(numbers, name, value.max(1e-19));
    Ok(())
}

//! Low-rank adapters, which are trained instead of the weights of linear layers.
//!
//! In: a model and patterns of names. Out: for every weight `W` whose name matches, two small parameters,
//! `NAME.lora_a` and `NAME.lora_b`, which follow `W` in the model; all other parameters are frozen.
//! Invariant: a product with `W` adds `(alpha / rank) (x A) B`, so training creates no additional matrix with
//! the shape of `W`; `B` starts at zero, so the model's initial results are those without adapters.
//!
//! Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021.

use super::{Init, Module, Param, Pattern, Visitor};
use crate::collections::SortedSet;
use crate::decimal::Decimal;
use crate::error::{Error, ErrorKind, Result};
use crate::trace::{ParamTable, ParamUse, Tensor};

/// Settings of low-rank adapters. Attach them before the session or the trainer is created.
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; }
/// use gradloom::nn::{CausalSelfAttention, LowRank};
///
/// let model = CausalSelfAttention::new(64, 4);
/// let names = LowRank::new(8).alpha(16.0).targets("*c_attn.weight").attach(&model)?;
/// assert_eq!(names, ["c_attn.weight"]);
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub struct LowRank {
    rank: usize,
    alpha: f64,
    dropout: f64,
    targets: Vec<Pattern>,
}

/// The adapter of one weight `W` `[in, out]`.
#[derive(Clone, Debug)]
pub struct Adapter {
    a: Param,
    b: Param,
    alpha: f64,
    dropout: f64,
}

impl LowRank {
    /// Creates settings for adapters of this rank, with an alpha equal to the rank and no dropout.
    pub fn new(rank: usize) -> Self {
        Self { rank, alpha: rank as f64, dropout: 0.0, targets: Vec::new() }
    }

    /// Sets alpha; the output of an adapter is multiplied by `alpha / rank`.
    pub fn alpha(self, alpha: f64) -> Self {
        Self { alpha, ..self }
    }

    /// Sets the probability of dropout, which is applied in training to the input of `A` only.
    pub fn dropout(self, p: f64) -> Self {
        Self { dropout: p, ..self }
    }

    /// Adds a pattern for the names of the weights of [`Linear`](super::Linear) layers that get adapters. A
    /// name must match at least one of the patterns.
    pub fn targets(mut self, pattern: impl Into<Pattern>) -> Self {
        self.targets.push(pattern.into());
        self
    }

    /// Attaches an adapter to every target, and freezes all parameters of the model that do not belong to
    /// adapters. Returns the names of the targets, in the order of the model's fields. `A` `[in, rank]`
    /// starts uniformly distributed within ±1/sqrt(in), as in the paper's code, and `B` `[rank, out]` starts
    /// at 0; both are f32.
    ///
    /// Further adapters can be attached to other targets of the model later.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if a pattern matches no parameter, or a parameter with uses
    /// other than as the weight of linear layers; if a target already has an adapter; or if a number is out
    /// of range.
    pub fn attach(&self, model: &dyn Module) -> Result<Vec<String>> {
        self.check_numbers()?;
        let table = ParamTable::of(model)?;
        let own = || table.iter().filter(|used| !used.param.is_of_adapter());
        let names = own().map(|used| used.name.as_str());
        self.targets.iter().try_for_each(|pattern| pattern.expect_any(names.clone()))?;
        let mut elsewhere = SortedSet::new();
        model.visit(&mut Visitor::of_weights(&mut |param, of_product| {
            if !of_product {
                elsewhere.insert(param.id());
            }
        }));
        let is_target = |used: &&ParamUse| self.targets.iter().any(|pattern| pattern.matches(&used.name));
        let mut chosen = Vec::new();
        for ParamUse { name, param, .. } in own().filter(is_target) {
            let refused = |message: String, help: &str| Error::new(ErrorKind::Trace, message).help(help);
            if param.adapter().is_some() {
                let help = "attach once, with all targets, or choose other ones";
                return Err(refused(format!("`{name}` has an adapter already"), help));
            }
            let (&[inputs, outputs], false) = (&param.shape()[..], elsewhere.contains(&param.id())) else {
                let (ty, help) =
                    (param.ty(), "let the patterns match weights of `Linear`, as `*.c_attn.weight`");
                let message = format!("`{name}`, {ty}, is not the weight of linear layers alone");
                return Err(
                    refused(message, help).note("only products of linear layers add what an adapter says")
                );
            };
            chosen.push((name, param, inputs, outputs));
        }
        own().for_each(|used| used.param.freeze());
        for &(_, weight, inputs, outputs) in &chosen {
            weight.set_adapter(Adapter {
                a: Param::new([inputs, self.rank], Init::FanIn).transposed_in_torch().of_adapter(),
                b: Param::new([self.rank, outputs], Init::Zeros).transposed_in_torch().of_adapter(),
                alpha: self.alpha,
                dropout: self.dropout,
            });
        }
        Ok(chosen.into_iter().map(|(name, ..)| name.clone()).collect())
    }

    fn check_numbers(&self) -> Result<()> {
        let problem = |message: String, help: &str| Err(Error::new(ErrorKind::Trace, message).help(help));
        if self.rank == 0 {
            return problem("adapters of rank 0 add nothing".to_string(), "give a rank of 1 or more");
        }
        if !self.alpha.is_finite() {
            let message = format!("the alpha of adapters is {}", Decimal::from(self.alpha));
            return problem(message, "give a finite number, such as the rank or twice the rank");
        }
        if !(0.0..1.0).contains(&self.dropout) {
            let message = format!("the dropout of adapters is {}", Decimal::from(self.dropout));
            return problem(message, "it is from 0, and below 1, the part that becomes 0");
        }
        if self.targets.is_empty() {
            let help = "name weights of linear layers by `.targets(\"*.c_attn.weight\")`";
            return problem("adapters have no target".to_string(), help);
        }
        Ok(())
    }
}

/// Adds `scale · A B` to a weight, computed in f64. `A` is `[in, rank]`, `B` is `[rank, out]` and the weight
/// is `[in, out]`, all row-major.
pub fn add_low_rank(weight: &mut [f32], [a, b]: [&[f32]; 2], rank: usize, scale: f64) {
    if rank == 0 {
        return;
    }
    // A weight without elements may have rows of length 0, but chunks must have at least one element.
    let columns = (b.len() / rank).max(1);
    for (row, a) in weight.chunks_exact_mut(columns).zip(a.chunks_exact(rank)) {
        let mut sums: Vec<f64> = row.iter().map(|&w| f64::from(w)).collect();
        for (&a, b) in a.iter().zip(b.chunks_exact(columns)) {
            let a = f64::from(a) * scale;
            sums.iter_mut().zip(b).for_each(|(sum, &b)| *sum += a * f64::from(b));
        }
        row.iter_mut().zip(sums).for_each(|(weight, sum)| *weight = sum as f32);
    }
}

impl Adapter {
    /// Returns the first factor, `[in, rank]`.
    pub fn a(&self) -> &Param {
        &self.a
    }

    /// Returns the second factor, `[rank, out]`.
    pub fn b(&self) -> &Param {
        &self.b
    }

    /// Returns alpha; see [`LowRank::alpha`].
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Returns the probability of dropout; see [`LowRank::dropout`].
    pub fn dropout(&self) -> f64 {
        self.dropout
    }

    /// Returns the rank, the extent that `A` and `B` share.
    pub fn rank(&self) -> usize {
        self.b.shape()[0]
    }

    /// Returns `alpha / rank`, the factor on `A B`.
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank() as f64
    }

    /// Computes the tensor to add to the product of `x` and the weight: `[.., in] -> [.., out]`, of the dtype
    /// of `x`.
    #[track_caller]
    pub(super) fn forward(&self, x: Tensor) -> Tensor {
        let factor = |param: &Param| param.tensor().cast(x.dtype());
        // Apply the scale to the product with `A`, which has the fewest elements.
        (x.dropout(self.dropout).matmul(factor(&self.a)) * self.scale()).matmul(factor(&self.b))
    }
}

impl Module for Adapter {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("lora_a", &self.a);
        visitor.field("lora_b", &self.b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{CausalSelfAttention, Embedding, LayerNorm, Linear, ParamId, duplicate};
    use crate::trace::{f32, trace};

    type Model = (Embedding, Linear, LayerNorm, Vec<CausalSelfAttention>);

    fn model() -> Model {
        let layers = vec![CausalSelfAttention::new(4, 2), CausalSelfAttention::new(4, 2)];
        (Embedding::new(3, 4), Linear::new(4, 4), LayerNorm::new(4), layers)
    }

    fn params(model: &dyn Module) -> Vec<(String, ParamId, bool)> {
        let table = ParamTable::of(model).unwrap();
        table.iter().map(|used| (used.name.clone(), used.param.id(), used.param.is_frozen())).collect()
    }

    #[test]
    fn targets_have_factors_behind_them_and_the_rest_is_frozen() {
        let model = model();
        let before: Vec<String> = params(&model).into_iter().map(|(name, ..)| name).collect();
        let names = LowRank::new(2).targets("3.*.c_attn.weight").targets("1.weight").attach(&model).unwrap();
        assert_eq!(names, ["1.weight", "3.0.c_attn.weight", "3.1.c_attn.weight"]);
        let after = params(&model);
        let at = after.iter().position(|(name, ..)| name == "1.weight").unwrap();
        assert_eq!([&after[at + 1].0, &after[at + 2].0], ["1.weight.lora_a", "1.weight.lora_b"]);
        let trained: Vec<&str> =
            after.iter().filter(|(.., frozen)| !frozen).map(|(name, ..)| name.as_str()).collect();
        let factors: Vec<String> =
            names.iter().flat_map(|n| [format!("{n}.lora_a"), format!("{n}.lora_b")]).collect();
        assert_eq!(trained, factors);
        let own: Vec<&String> =
            after.iter().map(|(name, ..)| name).filter(|name| !name.contains("lora")).collect();
        assert_eq!(own, before.iter().collect::<Vec<_>>());
        let adapter = model.3[1].c_attn.weight.adapter().unwrap();
        assert_eq!((&adapter.a.shape()[..], &adapter.b.shape()[..]), (&[4, 2][..], &[2, 12][..]));
        assert_eq!((adapter.a.init(), adapter.b.init()), (&Init::FanIn, &Init::Zeros));
        assert_eq!((adapter.rank(), adapter.alpha(), adapter.scale()), (2, 2.0, 1.0));
        // Adapters of other targets can be attached later, and the first adapters remain trainable.
        LowRank::new(1).targets("3.0.c_proj.weight").attach(&model).unwrap();
        let trained = params(&model).into_iter().filter(|(.., frozen)| !frozen).count();
        assert_eq!(trained, factors.len() + 2);
    }

    #[test]
    fn mistakes_are_named_and_change_nothing() {
        let model = model();
        for (adapters, wanted) in [
            (LowRank::new(2), "no target"),
            (LowRank::new(0).targets("1.weight"), "rank 0"),
            (LowRank::new(2).alpha(f64::NAN).targets("1.weight"), "alpha of adapters is NaN"),
            (LowRank::new(2).dropout(1.0).targets("1.weight"), "dropout of adapters is 1"),
            (LowRank::new(2).dropout(-0.5).targets("1.weight"), "dropout of adapters is -0.5"),
            (LowRank::new(2).targets("1.weight").targets("*.c_atn.weight"), "`*.c_atn.weight`"),
            (LowRank::new(2).targets("1.weight").targets("0.weight"), "`0.weight`, f32[3, 4], is not"),
            (LowRank::new(2).targets("*.bias"), "`1.bias`, f32[4], is not"),
            (LowRank::new(2).targets("2.weight"), "`2.weight`, f32[4], is not"),
        ] {
            let error = adapters.attach(&model).unwrap_err().to_string();
            assert!(error.contains(wanted) && error.contains("help"), "{error}");
            assert!(params(&model).iter().all(|(name, _, frozen)| !frozen && !name.contains("lora")));
        }
        let once = LowRank::new(2).targets("1.weight");
        once.attach(&model).unwrap();
        let error = once.attach(&model).unwrap_err().to_string();
        assert!(error.contains("`1.weight` has an adapter already"), "{error}");
        // Parameters of adapters are not targets, even if a pattern matches their names.
        let error = LowRank::new(2).targets("*.lora_a").attach(&model).unwrap_err().to_string();
        assert!(error.contains("`*.lora_a` is the name of no parameter"), "{error}");
    }

    #[test]
    fn a_tie_is_a_target_where_all_its_places_are_linear_layers() {
        let first = Linear::no_bias(4, 4);
        let both = (Linear { weight: first.weight.tie(), bias: None }, first);
        assert_eq!(LowRank::new(1).targets("*").attach(&both).unwrap(), ["0.weight"]);
        let table = Embedding::new(4, 4);
        let mixed = (Linear { weight: table.weight.tie(), bias: None }, table);
        let error = LowRank::new(1).targets("0.weight").attach(&mixed).unwrap_err().to_string();
        assert!(error.contains("`0.weight`"), "{error}");
    }

    #[test]
    fn clones_have_adapters_of_their_own() {
        let model = model();
        LowRank::new(2).alpha(6.0).dropout(0.1).targets("1.weight").attach(&model).unwrap();
        for copy in [model.clone(), duplicate(&model)] {
            let [old, new] = [&model, &copy].map(|model| model.1.weight.adapter().unwrap());
            assert!(old.a.id() != new.a.id() && old.b.id() != new.b.id());
            assert_eq!((new.alpha(), new.dropout(), new.rank()), (6.0, 0.1, 2));
            assert!(new.a.is_of_adapter() && !new.b.is_frozen() && copy.1.weight.is_frozen());
        }
        let first = Linear::no_bias(4, 4);
        let tied = (Linear { weight: first.weight.tie(), bias: None }, first);
        LowRank::new(1).targets("*").attach(&tied).unwrap();
        let copy = duplicate(&tied);
        let [one, two] = [&copy.0, &copy.1].map(|layer| layer.weight.adapter().unwrap().a.id());
        assert_eq!(one, two);
    }

    #[test]
    fn a_product_adds_two_thin_ones_and_dropout_acts_on_them_in_training_alone() {
        let layer = Linear::new(8, 6);
        LowRank::new(2).dropout(0.5).targets("weight").attach(&layer).unwrap();
        let ops =
            |training: bool, name: &str| {
                let traced =
                    trace(&layer, &[f32("x", [3, 8])], training, |x| layer.forward(x[0]), |y| vec![y]);
                let graph = traced.unwrap().graph;
                assert!(!graph.entry_ops().any(|(_, op)| op.kind.name() == "dot"
                && graph.ty(op.results[0]).shape[..] == [8, 6]));
                graph.entry_ops().filter(|(_, op)| op.kind.name() == name).count()
            };
        assert_eq!((ops(true, "dot"), ops(false, "dot")), (3, 3));
        assert_eq!((ops(true, "random_bits"), ops(false, "random_bits")), (1, 0));
    }
}

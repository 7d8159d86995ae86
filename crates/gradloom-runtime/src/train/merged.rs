//! Merges adapters into the weights of a model.
//!
//! In: a session of a model with adapters, and the same model without them. Out: a session of the latter,
//! with weights `W + (alpha / rank) A B`. Invariant: sums are computed in float64, and rounded once to the
//! weight's type.

use super::Session;
use crate::store::{Store, rounded};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::nn::{Adapter, Module, add_low_rank};

impl<M: Module> Session<M> {
    /// Returns a session of `base`, the model without its [adapters](gradloom_core::nn::LowRank), with the
    /// same results: adapters are added to the weights, and everything else is copied. The files that it
    /// saves have the names and shapes of the base model, for programs that do not support adapters.
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
    /// # use gradloom_cpu::CpuDevice as _;
    /// use gradloom::{Device, Session, nn::{Linear, LowRank}};
    ///
    /// let layer = Linear::new(3, 2);
    /// LowRank::new(1).targets("weight").attach(&layer)?;
    /// let session = Session::new(layer, &Device::cpu(), 7)?;
    /// session.set("weight.lora_a", &[1.0f32, 0.0, 0.0])?;
    /// session.set("weight.lora_b", &[0.0f32, 0.5])?;
    /// let (before, after) = (session.get("weight")?, session.merged(Linear::new(3, 2))?.get("weight")?);
    /// assert_eq!(after, [before[0], before[1] + 0.5, before[2], before[3], before[4], before[5]]);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error that names a parameter if `base` has adapters or is another model, or an error if
    /// there is not enough memory, or on the null device.
    pub fn merged<B: Module>(&self, base: B) -> Result<Session<B>> {
        let merged = Session::new(base, self.device(), self.seed())?;
        let problem = |message: String| {
            let error = Error::new(ErrorKind::Store, message);
            Err(error.help("give the same model without adapters, as it was before `LowRank::attach`"))
        };
        if let Some(used) = merged.params().iter().find(|used| used.param.is_of_adapter()) {
            return problem(format!("the model to merge into has an adapter, `{}`", used.name));
        }
        self.materialize()?;
        merged.materialize()?;
        let (store, merged_store) = (self.store(), merged.store());
        let own = self.params().iter().filter(|used| !used.param.is_of_adapter());
        let own = own.map(|used| (used.name.as_str(), used.param.adapter()));
        let all: Vec<_> =
            own.chain(self.params().states().map(|state| (state.name.as_str(), None))).collect();
        let entries = merged_store.entries();
        if let Some(entry) = entries.iter().find(|entry| all.iter().all(|(name, _)| *name != entry.name)) {
            return problem(format!("the model to merge into has `{}`, which this one lacks", entry.name));
        }
        for (name, adapter) in all {
            let ty = store.ty(name)?;
            let Some(entry) = entries.iter().find(|entry| entry.name == name && entry.ty == ty) else {
                return problem(format!("the model to merge into has no `{name}` of {ty}"));
            };
            match adapter {
                None => merged_store.write(&[(name, &ty, &store.read(name)?)])?,
                Some(adapter) => {
                    let weight = sum(&store, name, adapter)?;
                    merged_store.write(&[(name, &ty, &rounded(entry, &weight)?)])?;
                }
            }
        }
        Ok(merged)
    }
}

/// Returns `W + (alpha / rank) A B`.
fn sum(store: &Store, name: &str, adapter: &Adapter) -> Result<Vec<f32>> {
    let mut weight = store.read_f32(name)?;
    let [a, b] = ["lora_a", "lora_b"].map(|factor| store.read_f32(&format!("{name}.{factor}")));
    add_low_rank(&mut weight, [&a?, &b?], adapter.rank(), adapter.scale());
    Ok(weight)
}

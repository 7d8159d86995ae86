//! Which tensor of a file is which parameter.

use crate::any_model::AnyModel;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::nn::{Module, Visitor};
use gradloom_runtime::Session;
use gradloom_runtime::files::{Load, Weights};
use std::collections::BTreeSet;

/// What stands before the names of a model without its output layer in the files of one that has it.
pub(super) fn prefix(model: &AnyModel) -> &'static str {
    match model {
        AnyModel::Gpt2(_) => "transformer.",
        AnyModel::Llama(_) => "model.",
    }
}

/// Sets a session's parameters to the tensors of a file of transformers, whether it was written with the
/// output layer or without (`GPT2LMHeadModel` or `GPT2Model`), or by gradloom. Floats of other widths are
/// converted.
///
/// # Errors
/// When a tensor is missing, is of another shape, or is there and not in the model: nothing changes then.
pub fn load(session: &Session<AnyModel>, weights: &Weights) -> Result<()> {
    let model = session.model();
    let has_prefix = weights.iter().any(|(name, _)| name.starts_with(prefix(model)));
    let name_in_file = |name: &str| match model {
        AnyModel::Gpt2(_) if has_prefix => format!("{}{name}", prefix(model)),
        AnyModel::Llama(_) if !has_prefix => name.trim_start_matches(prefix(model)).to_string(),
        _ => name.to_string(),
    };
    let mut wanted = BTreeSet::new();
    model.visit(&mut Visitor::new(&mut |name, _| {
        wanted.insert(name_in_file(name));
    }));
    let superfluous =
        weights.iter().map(|(name, _)| name).find(|name| !wanted.contains(*name) && !is_left_alone(name));
    if let Some(name) = superfluous {
        let message = format!("{}: the model has no place for `{name}`", weights.name());
        return Err(Error::new(ErrorKind::File, message)
            .help("config.json does not describe these tensors: get both once more"));
    }
    let load = Load::strict().only("*").from(name_in_file);
    // GPT-2's linear layers are `Conv1D` in transformers, whose weights lie as ours do.
    let load = if matches!(model, AnyModel::Llama(_)) { load.torch() } else { load };
    session.load_with(weights, &load).map(drop)
}

/// Tensors that old files have and that no parameter is made of: masks, angles, and the output layer where it
/// is the token embedding.
fn is_left_alone(name: &str) -> bool {
    let endings = [".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"];
    name == "lm_head.weight" || endings.iter().any(|ending| name.ends_with(ending))
}

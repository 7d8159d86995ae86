//! Mapping between the parameters of a model and the tensors in a file, by name.

use crate::any_model::AnyModel;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::nn::{Module, Visitor};
use gradloom_runtime::Session;
use gradloom_runtime::files::{Load, Weights};
use std::collections::BTreeSet;

/// Name of the output layer in a transformers file.
const HEAD: &str = "lm_head.weight";

/// Returns the name of a parameter in transformers' models with an output layer.
pub(super) fn full_name(model: &AnyModel, name: &str) -> String {
    name_in_file(matches!(model, AnyModel::Llama(_)), true, name)
}

/// Returns the name of a parameter in a file. `has_prefix` is true if names in the file begin with the base
/// model's prefix.
fn name_in_file(is_llama: bool, has_prefix: bool, name: &str) -> String {
    match is_llama {
        _ if name == HEAD => name.to_string(),
        false if has_prefix => format!("transformer.{name}"),
        true if !has_prefix => name.trim_start_matches("model.").to_string(),
        _ => name.to_string(),
    }
}

fn has_prefix(is_llama: bool, weights: &Weights) -> bool {
    let prefix = if is_llama { "model." } else { "transformer." };
    weights.iter().any(|(name, _)| name.starts_with(prefix))
}

/// Returns the name of the token embedding in a file.
fn embedding(is_llama: bool, weights: &Weights) -> String {
    let name = if is_llama { "model.embed_tokens.weight" } else { "wte.weight" };
    name_in_file(is_llama, has_prefix(is_llama, weights), name)
}

/// Returns `true` if a file contains an output layer that differs from the token embedding.
pub(super) fn has_own_head(is_llama: bool, weights: &Weights) -> Result<bool> {
    let (Some(head), Some(embedding)) = (weights.get(HEAD), weights.get(&embedding(is_llama, weights)))
    else {
        return Ok(false);
    };
    if head.shape != embedding.shape {
        return Ok(true);
    }
    if head.type_name() == embedding.type_name() && head.bytes == embedding.bytes {
        return Ok(false);
    }
    Ok(head.to_f32()? != embedding.to_f32()?)
}

/// Sets a session's parameters to the tensors of a file written by gradloom or by transformers, with or
/// without the output layer (`GPT2LMHeadModel` or `GPT2Model`). Floats of other widths are converted.
///
/// # Errors
/// Returns an error without changing the session if a tensor is missing, has another shape, or is not part of
/// the model.
pub fn load(session: &Session<AnyModel>, weights: &Weights) -> Result<()> {
    let model = session.model();
    let (is_llama, is_tied) = match model {
        AnyModel::Gpt2(model) => (false, model.lm_head.is_none()),
        AnyModel::Llama(model) => (true, model.lm_head.is_none()),
    };
    if is_tied && has_own_head(is_llama, weights)? {
        let message = format!("{}: its `{HEAD}` is not the token embedding", weights.name());
        return Err(Error::new(ErrorKind::File, message)
            .help("load it into a model whose output layer is apart: `tied: false`"));
    }
    let (has_prefix, embedding) = (has_prefix(is_llama, weights), embedding(is_llama, weights));
    let name_in_file = |name: &str| {
        let name = name_in_file(is_llama, has_prefix, name);
        // If the layers are tied, accept the tensor under either name.
        if is_tied && name == embedding && weights.get(&name).is_none() { HEAD.to_string() } else { name }
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
    // Transpose only Llama's matrices: GPT-2's linear layers are `Conv1D` in transformers, whose weights have
    // the same layout as gradloom's.
    let load = if matches!(model, AnyModel::Llama(_)) { load.torch() } else { load };
    session.load_with(weights, &load).map(drop)
}

/// Returns `true` for tensors in old files that are not parameters: masks, rotary frequencies, and a tied
/// output layer.
fn is_left_alone(name: &str) -> bool {
    let endings = [".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"];
    name == HEAD || endings.iter().any(|ending| name.ends_with(ending))
}

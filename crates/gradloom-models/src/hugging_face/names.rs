//! The parameters that the tensors of a file belong to, by name.

use crate::any_model::AnyModel;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::nn::{Module, Visitor};
use gradloom_runtime::Session;
use gradloom_runtime::files::{Load, Weights};
use std::collections::BTreeSet;

/// The output layer in a file of transformers.
const HEAD: &str = "lm_head.weight";

/// Returns the name that transformers' models with an output layer give a parameter.
pub(super) fn full_name(model: &AnyModel, name: &str) -> String {
    name_in_file(matches!(model, AnyModel::Llama(_)), true, name)
}

/// Returns the name of a parameter in a file, of which some names begin with the prefix or none does.
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

/// Returns true for a file with an output layer that is not the token embedding.
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

/// Sets a session's parameters to the tensors of a file of transformers, whether it was written with the
/// output layer or without (`GPT2LMHeadModel` or `GPT2Model`), or by gradloom. Floats of other widths are
/// converted.
///
/// # Errors
/// When a tensor is missing, is of another shape, or is there and not in the model: nothing changes then.
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
        // Of two names of one tensor, a file may have the other one.
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
    // GPT-2's linear layers are `Conv1D` in transformers, whose weights lie as ours do.
    let load = if matches!(model, AnyModel::Llama(_)) { load.torch() } else { load };
    session.load_with(weights, &load).map(drop)
}

/// Tensors that old files have and that no parameter is made of: masks, angles, and the output layer where it
/// is the token embedding.
fn is_left_alone(name: &str) -> bool {
    let endings = [".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"];
    name == HEAD || endings.iter().any(|ending| name.ends_with(ending))
}

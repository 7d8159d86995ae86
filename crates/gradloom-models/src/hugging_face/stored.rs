//! Folders with matrices of reduced precision, which only gradloom can read.
//!
//! In: a session with such parameters. Out: a folder with `config.json`, in transformers' format with an
//! added `quantization_config`, and `model.safetensors` with the contents of the store; and sessions from
//! such a folder. Invariant: a session that is read computes the same as the one that was written;
//! transformers rejects the unknown quantization method instead of misinterpreting the blocks.

use super::save::{failed, remove_others, write_config};
use crate::any_model::{AnyConfig, AnyModel};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{BLOCK, BlockFormat, DType};
use gradloom_core::nn::{Module, Param, Stored, Visitor};
use gradloom_runtime::Session;
use gradloom_runtime::files::{Found, Load, Weights};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Key in `config.json`, which transformers uses for the same purpose.
const KEY: &str = "quantization_config";
/// Name of gradloom's quantization method.
const METHOD: &str = "gradloom";
/// Name of the tensor file.
const FILE: &str = "model.safetensors";

/// Returns the name of a format: `f16`, `bf16`, `q8_0` or `q4_0`.
pub fn stored_name(stored: Stored) -> &'static str {
    match stored {
        Stored::F16 => "f16",
        Stored::BF16 => "bf16",
        Stored::Blocks(format) => format.name(),
    }
}

/// Returns the reduced-precision format of a folder's matrices, or `None` for floats that transformers can
/// read.
///
/// # Errors
/// Returns an error if the quantization method is not supported.
pub(super) fn stored_of(config: &Value, path: &str) -> Result<Option<Stored>> {
    let Some(found) = config.get(KEY).filter(|found| !found.is_null()) else { return Ok(None) };
    let blocks = BlockFormat::ALL.into_iter().map(Stored::Blocks);
    let mut all = [Stored::F16, Stored::BF16].into_iter().chain(blocks);
    let stored = all.find(|stored| found["weights"] == stored_name(*stored));
    if found["quant_method"] == METHOD && stored.is_some() {
        return Ok(stored);
    }
    let what = format!("`{KEY}` is {} with the weights {}", found["quant_method"], found["weights"]);
    Err(Error::new(ErrorKind::File, format!("{path}: {what}, which is not read"))
        .help("get the model in 16 or 32 bits, and keep it in fewer by `gradloom export`"))
}

/// Writes the model of a session to a folder that [`Folder`](super::Folder) can read. Its matrices must have
/// reduced precision, which [`store_matrices`](gradloom_core::nn::store_matrices) sets.
///
/// The folder is created if necessary, and existing files of a model are replaced. `extra` contains
/// additional keys of the configuration.
///
/// # Errors
/// Returns an error if no parameter has reduced precision, if a file cannot be written, or on the null
/// device.
pub fn save_stored(
    session: &Session<AnyModel>,
    path: impl AsRef<Path>,
    extra: &Map<String, Value>,
) -> Result<()> {
    let path = path.as_ref();
    let Some(stored) = stored_in(session.model()) else {
        let message = "no matrix of the model is kept in fewer bits";
        return Err(Error::new(ErrorKind::File, message).help("write it by `save`"));
    };
    std::fs::create_dir_all(path).map_err(|error| failed(path, &error))?;
    session.save(path.join(FILE))?;
    remove_others(path, &[(String::new(), FILE.to_string())].into());
    let mut extra = extra.clone();
    extra.insert(KEY.into(), json!({ "quant_method": METHOD, "weights": stored_name(stored) }));
    write_config(path, &session.model().config(), &extra)
}

/// Returns the format in which a model's matrices are kept.
fn stored_in(model: &AnyModel) -> Option<Stored> {
    let mut stored = None;
    model.visit(&mut Visitor::new(&mut |_, param: &Param| stored = stored.or(param.stored())));
    stored
}

/// Sets the parameters of a session to the tensors of a folder with matrices in the format `stored`. They are
/// copied unchanged if the session keeps them in the same format, and decoded to floats otherwise.
///
/// # Errors
/// Returns an error if the tensors do not match the model, or the session keeps them in another
/// reduced-precision format.
pub(super) fn load_stored(session: &Session<AnyModel>, weights: &Weights, stored: Stored) -> Result<()> {
    match stored_in(session.model()) {
        Some(own) if own != stored => {
            let (own, stored) = (stored_name(own), stored_name(stored));
            let message = format!("{}: the weights are {stored}, and are wanted in {own}", weights.name());
            Err(Error::new(ErrorKind::File, message).help("take the model that they were made of"))
        }
        Some(_) => session.load_with(weights, &Load::strict()).map(drop),
        None => load_decoded(session, weights, stored),
    }
}

fn load_decoded(session: &Session<AnyModel>, weights: &Weights, stored: Stored) -> Result<()> {
    let Stored::Blocks(format) = stored else { return session.load_with(weights, &Load::strict()).map(drop) };
    let mut parameters = Vec::new();
    session.model().visit(&mut Visitor::new(&mut |name, param: &Param| {
        parameters.push((name.to_string(), param.shape().to_vec(), param.is_transposed_in_torch()));
    }));
    let mut decoded = Vec::new();
    for (name, shape, by_columns) in parameters {
        let found = weights.get(&name).and_then(|found| elements(&found, &shape, by_columns, format));
        let elements = found.ok_or_else(|| {
            let message = format!("{}: `{name}` is missing, or of another shape", weights.name());
            Error::new(ErrorKind::File, message).help("the file is damaged: export the model once more")
        })?;
        decoded.push((name, elements));
    }
    // All tensors have been validated, so that either all or none are set.
    decoded.iter().try_for_each(|(name, elements)| session.set(name, elements))
}

/// Returns the elements of a parameter, row-major, if the tensor has its shape.
fn elements(found: &Found<'_>, shape: &[usize], by_columns: bool, format: BlockFormat) -> Option<Vec<f32>> {
    if found.type_name() != DType::U8.to_string() {
        return if found.shape == shape { found.to_f32().ok() } else { None };
    }
    let &[rows, columns] = shape else { return None };
    let [lines, length] = if by_columns { [columns, rows] } else { [rows, columns] };
    if found.shape != [lines, format.bytes_of(length)?] {
        return None;
    }
    let numbers = found.bytes.chunks_exact(format.block_bytes()).flat_map(|block| format.decode(block));
    let numbers: Vec<f32> = numbers.collect();
    debug_assert_eq!(numbers.len(), lines * length.div_ceil(BLOCK) * BLOCK);
    if !by_columns {
        return Some(numbers);
    }
    Some((0..rows * columns).map(|i| numbers[i % columns * length + i / columns]).collect())
}

/// Builds a model whose matrices are kept in the format `stored`, if given.
///
/// # Errors
/// Returns an error if the configuration is invalid.
pub(super) fn built(config: &AnyConfig, stored: Option<Stored>, path: &Path) -> Result<AnyModel> {
    let model = config.build().map_err(|error| {
        let message = format!("{}: these sizes make no model: {error}", path.display());
        Error::new(ErrorKind::File, message).help(error.remedy())
    })?;
    if let Some(stored) = stored {
        gradloom_core::nn::store_matrices(&model, stored)?;
    }
    Ok(model)
}

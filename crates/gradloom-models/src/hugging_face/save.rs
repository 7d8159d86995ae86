//! Writing of a model's folder.

use super::names::full_name;
use super::to_json;
use crate::any_model::{AnyConfig, AnyModel};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Type};
use gradloom_core::nn::{Module, Visitor};
use gradloom_runtime::files::{TensorBytes, replace_file, swapped, transposed, write_for_transformers};
use gradloom_runtime::{Session, python_json};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Options for writing a model's folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// Element type of the tensors: f32, f16 or bf16.
    pub dtype: DType,
    /// Maximum total size of the tensors in one file, in bytes. A single larger tensor gets its own file.
    pub shard_bytes: usize,
    /// Additional keys of the configuration, such as `eos_token_id`.
    pub extra: serde_json::Map<String, Value>,
}

impl Default for Saving {
    /// Returns options for f32 tensors in files of at most 5 GB, as in transformers.
    fn default() -> Self {
        Self { dtype: DType::F32, shard_bytes: 5_000_000_000, extra: serde_json::Map::new() }
    }
}

/// A parameter to be written.
struct Parameter {
    name: String,
    /// Shape in the model, and element type in the file.
    ty: Type,
    /// True if the file contains the transposed matrix.
    by_columns: bool,
}

/// Writes the model of a session as a folder of transformers: `config.json`, and `model.safetensors` or
/// several files with their index.
///
/// The folder is created if necessary. Existing files are replaced one after the other, and an interrupted
/// process leaves a mixture of old and new ones, so write to a new folder and rename it afterwards.
///
/// # Errors
/// Returns an error if a file cannot be written, if no model type of transformers has the model's features,
/// or on the null device, which stores no parameters.
pub fn save(session: &Session<AnyModel>, path: impl AsRef<Path>, saving: &Saving) -> Result<()> {
    let path = path.as_ref();
    if !saving.dtype.is_float() {
        return Err(Error::new(ErrorKind::File, format!("a model is not written as {}", saving.dtype))
            .help("take f32, f16 or bf16"));
    }
    if let AnyConfig::Llama(config) = session.model().config()
        && config.window.is_some()
        && (config.attention_bias || config.mlp_bias)
    {
        // A `llama` has no window, and a `mistral` no biases.
        let message = "no model of transformers has both a sliding window and biases".to_string();
        return Err(Error::new(ErrorKind::File, message).help("take a model without one of them"));
    }
    std::fs::create_dir_all(path).map_err(|error| failed(path, &error))?;
    session.materialize()?;
    let model = session.model();
    // Transpose only Llama's matrices: GPT-2's linear layers are `Conv1D` in transformers, whose weights have
    // the same layout as gradloom's.
    let is_llama = matches!(model, AnyModel::Llama(_));
    let mut parameters = Vec::new();
    model.visit(&mut Visitor::new(&mut |name, param| {
        let ty = Type::new(saving.dtype, param.shape().clone());
        let by_columns = is_llama && param.is_transposed_in_torch();
        parameters.push(Parameter { name: name.to_string(), ty, by_columns });
    }));
    let shards = in_shards(&parameters, saving.shard_bytes as u64);
    let count = shards.len();
    let mut map = BTreeMap::new();
    let mut total = 0;
    for (i, shard) in shards.iter().enumerate() {
        let file = match count {
            1 => "model.safetensors".to_string(),
            _ => format!("model-{:05}-of-{count:05}.safetensors", i + 1),
        };
        let tensors = shard.iter().map(|parameter| tensor(session, parameter)).collect::<Result<Vec<_>>>()?;
        let bytes: Vec<_> = tensors.iter().map(|(name, ty, bytes)| TensorBytes { name, ty, bytes }).collect();
        write_for_transformers(&path.join(&file), &bytes)?;
        total += bytes.iter().map(|tensor| tensor.bytes.len()).sum::<usize>();
        map.extend(tensors.into_iter().map(|(name, ..)| (name, file.clone())));
    }
    if count > 1 {
        let index = json!({ "metadata": { "total_size": total }, "weight_map": map });
        write_json(path, "model.safetensors.index.json", &index)?;
    }
    remove_others(path, &map);
    write_config(path, &model.config(), &saving.extra)
}

/// Writes `config.json`: the model's configuration, and additional keys.
pub(super) fn write_config(
    path: &Path,
    config: &AnyConfig,
    extra: &serde_json::Map<String, Value>,
) -> Result<()> {
    let mut config = to_json(config);
    if let Value::Object(keys) = &mut config {
        for (key, value) in extra {
            keys.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    write_json(path, "config.json", &config)
}

fn write_json(folder: &Path, name: &str, value: &Value) -> Result<()> {
    let file = folder.join(name);
    let text = python_json::text(value);
    replace_file(&file, |out| out.write_all(text.as_bytes())).map_err(|error| failed(&file, &error))
}

pub(super) fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::File, format!("{}: cannot be written: {error}", path.display()))
        .help("give a folder that can be written, on a disk with room")
}

/// Removes files of an earlier model that would take precedence when the folder is read: tensor files with
/// transformers' names, and their index.
pub(super) fn remove_others(path: &Path, map: &BTreeMap<String, String>) {
    let is_of_index = |name: &str| name == "model.safetensors.index.json";
    let is_of_tensors = |name: &str| {
        name == "model.safetensors" || (name.starts_with("model-") && name.ends_with(".safetensors"))
    };
    let has_index = map.values().all(|file| file != "model.safetensors");
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_old = (is_of_index(&name) && !has_index)
            || (is_of_tensors(&name) && map.values().all(|file| *file != name));
        if is_old {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Distributes the parameters over files, in order.
fn in_shards(parameters: &[Parameter], most: u64) -> Vec<Vec<&Parameter>> {
    let mut shards: Vec<Vec<&Parameter>> = vec![Vec::new()];
    let mut filled = 0;
    for parameter in parameters {
        let bytes = parameter.ty.bytes();
        if filled > 0 && filled + bytes > most {
            shards.push(Vec::new());
            filled = 0;
        }
        filled += bytes;
        shards.last_mut().expect("there is one at the start").push(parameter);
    }
    shards
}

/// Returns the name, type and bytes of a parameter in the file.
fn tensor(session: &Session<AnyModel>, parameter: &Parameter) -> Result<(String, Type, Vec<u8>)> {
    let Parameter { name, ty, by_columns } = parameter;
    let elements = session.get(name)?;
    let bytes: Vec<u8> = match ty.dtype {
        DType::F32 => elements.iter().flat_map(|x| x.to_le_bytes()).collect(),
        dtype => elements.iter().flat_map(|&x| dtype.narrow_bits(x).to_le_bytes()).collect(),
    };
    let name = full_name(session.model(), name);
    Ok(if *by_columns { (name, swapped(ty), transposed(&bytes, ty)) } else { (name, ty.clone(), bytes) })
}

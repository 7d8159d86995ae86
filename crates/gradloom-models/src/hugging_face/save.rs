//! A folder that is written.

use super::names::prefix;
use super::to_json;
use crate::any_model::AnyModel;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Type};
use gradloom_core::nn::{Module, Visitor};
use gradloom_runtime::Session;
use gradloom_runtime::files::{TensorBytes, replace_file, write_for_transformers};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// How a folder is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// The type of the tensors: f32, f16 or bf16.
    pub dtype: DType,
    /// Most bytes of tensors in one file; a single larger tensor has a file of its own.
    pub shard_bytes: usize,
    /// Keys that the configuration has beside those of the sizes, such as `eos_token_id`.
    pub extra: serde_json::Map<String, Value>,
}

impl Default for Saving {
    /// f32, at most 5 GB in a file, as transformers does.
    fn default() -> Self {
        Self { dtype: DType::F32, shard_bytes: 5_000_000_000, extra: serde_json::Map::new() }
    }
}

/// One tensor to write.
struct Tensor {
    name: String,
    ty: Type,
    bytes: Vec<u8>,
}

/// Writes the model of a session as a folder of transformers: `config.json`, and `model.safetensors` or
/// several files with their index. The folder is made if it is not there; files of these names in it are
/// replaced.
///
/// # Errors
/// When a file cannot be written; on the null device, which keeps no parameters.
pub fn save(session: &Session<AnyModel>, path: impl AsRef<Path>, saving: &Saving) -> Result<()> {
    let path = path.as_ref();
    let failed = |path: &Path, error: &std::io::Error| {
        Error::new(ErrorKind::File, format!("{}: cannot be written: {error}", path.display()))
            .help("give a folder that can be written, on a disk with room")
    };
    if !saving.dtype.is_float() {
        return Err(Error::new(ErrorKind::File, format!("a model is not written as {}", saving.dtype))
            .help("take f32, f16 or bf16"));
    }
    std::fs::create_dir_all(path).map_err(|error| failed(path, &error))?;
    session.materialize()?;
    let mut names: Vec<(String, bool)> = Vec::new();
    session.model().visit(&mut Visitor::new(&mut |name, param| {
        names.push((name.to_string(), param.is_transposed_in_torch()));
    }));
    let shards = in_shards(session, &names, saving)?;
    let count = shards.len();
    let mut map = BTreeMap::new();
    let mut total = 0;
    for (i, names) in shards.iter().enumerate() {
        let file = match count {
            1 => "model.safetensors".to_string(),
            _ => format!("model-{:05}-of-{count:05}.safetensors", i + 1),
        };
        let tensors =
            names.iter().map(|name| tensor(session, name, saving.dtype)).collect::<Result<Vec<_>>>()?;
        let bytes: Vec<_> = tensors
            .iter()
            .map(|tensor| TensorBytes { name: &tensor.name, ty: &tensor.ty, bytes: &tensor.bytes })
            .collect();
        write_for_transformers(&path.join(&file), &bytes)?;
        total += tensors.iter().map(|tensor| tensor.bytes.len()).sum::<usize>();
        map.extend(tensors.into_iter().map(|tensor| (tensor.name, file.clone())));
    }
    let put = |name: &str, value: &Value| {
        let file = path.join(name);
        let text = format!("{value:#}\n");
        replace_file(&file, |out| out.write_all(text.as_bytes())).map_err(|error| failed(&file, &error))
    };
    if count > 1 {
        put(
            "model.safetensors.index.json",
            &json!({ "metadata": { "total_size": total }, "weight_map": map }),
        )?;
    }
    remove_others(path, &map);
    let mut config = to_json(&session.model().config());
    if let Value::Object(keys) = &mut config {
        for (key, value) in &saving.extra {
            keys.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    put("config.json", &config)
}

/// Removes what an earlier model left that would be read instead: files of tensors under transformers' names,
/// and an index of them.
fn remove_others(path: &Path, map: &BTreeMap<String, String>) {
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

/// Parameters in the order of the model, shared out over files.
fn in_shards<'n>(
    session: &Session<AnyModel>,
    names: &'n [(String, bool)],
    saving: &Saving,
) -> Result<Vec<Vec<&'n (String, bool)>>> {
    let entries = session.store().entries();
    let mut shards: Vec<Vec<&(String, bool)>> = vec![Vec::new()];
    let mut filled = 0;
    for name in names {
        let entry = entries
            .iter()
            .find(|entry| entry.name == name.0)
            .ok_or_else(|| Error::new(ErrorKind::Internal, format!("the store has no `{}`", name.0)))?;
        let bytes = entry.ty.elements() * saving.dtype.bytes();
        if filled > 0 && filled + bytes > saving.shard_bytes {
            shards.push(Vec::new());
            filled = 0;
        }
        filled += bytes;
        shards.last_mut().expect("there is one at the start").push(name);
    }
    Ok(shards)
}

/// A parameter under its name in the file, as it lies there.
fn tensor(session: &Session<AnyModel>, (name, transposed): &(String, bool), dtype: DType) -> Result<Tensor> {
    let elements = session.get(name)?;
    let entries = session.store().entries();
    let shape = entries.iter().find(|entry| entry.name == *name).map(|entry| entry.ty.shape.to_vec());
    let mut shape = shape.unwrap_or_default();
    let is_llama = matches!(session.model(), AnyModel::Llama(_));
    let elements = match (&mut shape[..], *transposed && is_llama) {
        ([rows, columns], true) => {
            std::mem::swap(rows, columns);
            let (rows, columns) = (*rows, *columns);
            (0..rows * columns).map(|i| elements[i % columns * rows + i / columns]).collect()
        }
        _ => elements,
    };
    let bytes = match dtype {
        DType::F32 => elements.iter().flat_map(|x| x.to_le_bytes()).collect(),
        _ => elements.iter().flat_map(|&x| dtype.narrow_bits(x).to_le_bytes()).collect(),
    };
    let name = if is_llama { name.clone() } else { format!("{}{name}", prefix(session.model())) };
    Ok(Tensor { name, ty: Type::new(dtype, shape), bytes })
}

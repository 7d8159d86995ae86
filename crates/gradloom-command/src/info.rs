//! `gradloom info`: prints the contents of a model's files.

use crate::failure::Result;
use crate::format::{bytes, count, thousands};
use crate::output::{in_a_line, print_line};
use crate::source::{Found, Source};
use gradloom::runtime::files::{Found as Tensor, Weights};
use gradloom_models::any_model::AnyConfig;
use gradloom_models::gguf::{self, Gguf};
use gradloom_models::hugging_face::{Folder, stored_name};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Arguments of `gradloom info`.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Folder of a run of `gradloom train`, a folder of transformers, a GGUF file, or any safetensors file.
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Print one JSON object instead of lines for people.
    #[arg(long)]
    json: bool,
    /// List every tensor, too.
    #[arg(long)]
    tensors: bool,
}

/// Prints the contents of a model's files; for a file that has only tensors, lists them.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let found = Found::open(&arguments.path)?;
    let tensors = match &found {
        Found::Model(source) => listed(source)?,
        Found::Tensors(weights) => tensors(weights),
    };
    let source = match &found {
        Found::Model(source) => Some(source),
        Found::Tensors(_) => None,
    };
    let kind = source.map_or("tensors without a configuration", Source::kind);
    let stored = source.and_then(Source::stored);
    // Number of elements and bytes by type, sorted by the type's name.
    let mut types: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for tensor in &tensors {
        let (elements, size) = types.entry(&tensor.ty).or_default();
        *elements += tensor.shape.iter().product::<usize>();
        *size += tensor.bytes;
    }
    let elements: usize = types.values().map(|(elements, _)| elements).sum();
    let size: usize = types.values().map(|(_, size)| size).sum();
    if arguments.json {
        let types: BTreeMap<_, _> = types.iter().map(|(name, (elements, _))| (name, elements)).collect();
        let mut json = serde_json::json!({
            "kind": kind,
            "config": source.map(Source::config),
            "weights": stored.map(stored_name),
            "tensors": tensors.len(),
            "elements": elements,
            "bytes": size,
            "types": types,
        });
        if arguments.tensors {
            json["names"] = tensors.iter().map(|tensor| (tensor.name.clone(), tensor.to_string())).collect();
        }
        return print_line!("{json:#}");
    }
    print_line!("{}: {kind}", arguments.path.display())?;
    if let Some(source) = source {
        print_line!("model    {}", described(source.config()))?;
    }
    if let (Some(source), Some(stored)) = (source, stored) {
        let parameters = thousands(source.config().parameters() as u64);
        print_line!("weights  {parameters} parameters, matrices in {}", stored_name(stored))?;
    }
    let types: Vec<String> =
        types.iter().map(|(name, (elements, _))| format!("{} {name}", thousands(*elements as u64))).collect();
    if tensors.is_empty() {
        print_line!("tensors  none")?;
    } else {
        print_line!(
            "tensors  {} with {} elements, {} ({})",
            tensors.len(),
            thousands(elements as u64),
            bytes(size as u64),
            types.join(", ")
        )?;
    }
    if arguments.tensors || source.is_none() {
        for tensor in &tensors {
            print_line!("  {}: {tensor}", in_a_line(&tensor.name))?;
        }
    }
    Ok(())
}

/// A tensor as stored in the files.
struct Listed {
    name: String,
    /// Element type, such as `f32` or `q8_0`.
    ty: String,
    shape: Vec<usize>,
    bytes: usize,
}

/// Formats the type and the shape: `f32[2, 3]`.
impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.ty, self.shape)
    }
}

/// Returns all tensors of a model's files. Those of a GGUF file have the names and types stored there, not
/// those that they are converted to.
fn listed(source: &Source) -> Result<Vec<Listed>> {
    if let Some(path) = source.folder().map(Folder::path).filter(|path| path.is_file()) {
        let of = |tensor: gguf::Tensor<'_>| Listed {
            name: tensor.name.to_string(),
            ty: tensor.ty.to_string().to_lowercase(),
            shape: tensor.shape.to_vec(),
            bytes: tensor.bytes.len(),
        };
        return Ok(Gguf::open(path)?.tensors().map(of).collect());
    }
    Ok(tensors(source.weights()))
}

/// Returns all tensors of safetensors files.
fn tensors(weights: &Weights) -> Vec<Listed> {
    let of = |(name, found): (&str, Tensor<'_>)| Listed {
        name: name.to_string(),
        ty: found.type_name(),
        shape: found.shape.to_vec(),
        bytes: found.bytes.len(),
    };
    weights.iter().map(of).collect()
}

/// Describes a model in one line.
fn described(config: &AnyConfig) -> String {
    match config {
        AnyConfig::Gpt2(model) => format!(
            "GPT-2: {}, width {}, {}, MLP {}, vocabulary {}, context {}",
            count(model.layers, "layer"),
            model.width,
            count(model.heads, "head"),
            model.mlp_width(),
            thousands(model.vocabulary as u64),
            model.context
        ),
        AnyConfig::Llama(model) => format!(
            "Llama: {}, width {}, {} of {} over {} of keys, MLP {}, vocabulary {}, context {}",
            count(model.layers, "layer"),
            model.width,
            count(model.heads, "head"),
            model.depth,
            count(model.key_heads, "head"),
            model.mlp_width,
            thousands(model.vocabulary as u64),
            model.context
        ),
    }
}

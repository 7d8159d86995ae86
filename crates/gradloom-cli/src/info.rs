//! `gradloom info`.

use crate::failure::Result;
use crate::format::{bytes, count, thousands};
use crate::output::print_line;
use crate::source::Source;
use gradloom_models::any_model::AnyConfig;
use gradloom_models::hugging_face::stored_name;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What `gradloom info` takes.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Folder of a run of `gradloom train`, its model.safetensors, a folder of transformers,
    /// or a GGUF file.
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Print one JSON object instead of lines for people.
    #[arg(long)]
    json: bool,
    /// List every tensor, too.
    #[arg(long)]
    tensors: bool,
}

/// Prints what a model's files have.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let source = Source::open(&arguments.path)?;
    let weights = source.weights();
    // Elements by type, in the order of the types' names.
    let mut types: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (_, tensor) in weights.iter() {
        let (elements, size) = types.entry(tensor.type_name()).or_default();
        *elements += tensor.shape.iter().product::<usize>();
        *size += tensor.bytes.len();
    }
    let elements: usize = types.values().map(|(elements, _)| elements).sum();
    let size: usize = types.values().map(|(_, size)| size).sum();
    if arguments.json {
        let types: BTreeMap<_, _> = types.iter().map(|(name, (elements, _))| (name, elements)).collect();
        let mut json = serde_json::json!({
            "kind": source.kind(),
            "config": source.config(),
            "weights": source.stored().map(stored_name),
            "tensors": weights.iter().count(),
            "elements": elements,
            "bytes": size,
            "types": types,
        });
        if arguments.tensors {
            json["names"] = weights.iter().map(|(name, found)| (name, found.to_string())).collect();
        }
        return print_line!("{json:#}");
    }
    print_line!("{}: {}", arguments.path.display(), source.kind())?;
    print_line!("model    {}", described(source.config()))?;
    if let Some(stored) = source.stored() {
        let parameters = thousands(source.config().parameters() as u64);
        print_line!("weights  {parameters} parameters, matrices in {}", stored_name(stored))?;
    }
    let types: Vec<String> =
        types.iter().map(|(name, (elements, _))| format!("{} {name}", thousands(*elements as u64))).collect();
    print_line!(
        "tensors  {} with {} elements, {} ({})",
        weights.iter().count(),
        thousands(elements as u64),
        bytes(size as u64),
        types.join(", ")
    )?;
    if arguments.tensors {
        for (name, tensor) in weights.iter() {
            print_line!("  {name}: {tensor}")?;
        }
    }
    Ok(())
}

/// A model in a line.
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

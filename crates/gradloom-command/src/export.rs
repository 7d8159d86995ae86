//! `gradloom export`: writes a model as a folder that transformers loads.

use crate::failure::{Failure, Result};
use crate::format::{bytes, count};
use crate::new_folder::{NewFolder, PARTIAL};
use crate::output::{print_line, quoted};
use crate::run::unusable;
use crate::source::Source;
use crate::weights::Weights;
use gradloom::CpuDevice as _;
use gradloom::Device;
use gradloom::ir::DType;
use gradloom::nn::{Module, Visitor};
use gradloom::runtime::files::replace_file;
use gradloom::runtime::{python_json, regular_file};
use gradloom_models::hugging_face::{Saving, save, save_stored, stored_name};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Arguments of `gradloom export`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Folder of a run of `gradloom train`, its model.safetensors, a folder of transformers,
    /// or a GGUF file.
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Folder to write: new, or with files of an earlier export, which are replaced.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Type of the tensors.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = Type::F32)]
    dtype: Type,
    /// Maximum size of a file of tensors in megabytes.
    #[arg(long, value_name = "MB", default_value_t = 5000,
        value_parser = clap::value_parser!(u32).range(1..))]
    shard_mb: u32,
    /// Store matrices in fewer bits, in a folder that only gradloom reads: `sample`, `eval` and `info` take
    /// it, and the weights keep this type in memory. q8_0 and q4_0 have blocks of 32 numbers: a matrix whose
    /// row length is not a multiple of 32 is left unchanged.
    #[arg(long, visible_alias = "quantize", value_name = "TYPE", value_enum,
        conflicts_with_all = ["dtype", "shard_mb"])]
    weights: Option<Weights>,
}

const EXAMPLES: &str = "\
Examples:
  gradloom export runs/gpt2-1 --out gpt2-mine              a folder that transformers loads
  gradloom export runs/gpt2-1 --out small --dtype bf16     half as large
  gradloom export models/gpt2 --out gpt2-q8 --weights q8_0 a quarter, for gradloom";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Type {
    F32,
    F16,
    Bf16,
}

/// Maximum size of a configuration in bytes.
const LARGEST_CONFIG: u64 = 16 << 20;

/// Key of the configuration that marks a folder as an export.
const MARK: &str = "exported_by";

/// Files of the tokenizer, which are copied unchanged.
const ALONG: [&str; 7] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "chat_template.jinja",
];

/// Exports a model to a folder.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let source = Source::open(&arguments.path)?;
    check_is_free(&arguments.out, &arguments.path)?;
    let stored = arguments.weights.and_then(Weights::stored);
    if let (Some(own), Some(stored)) = (source.stored(), stored)
        && own != stored
    {
        let (own, stored) = (stored_name(own), stored_name(stored));
        return Err(Failure::usage(format!("--weights {stored}: those of the model are {own} already"))
            .help("export the model that it was made of"));
    }
    let session = source.session_stored(&Device::cpu(), stored)?;
    let (mut tensors, mut kept, mut size) = (0, 0, 0);
    session.model().visit(&mut Visitor::new(&mut |_, param| {
        tensors += 1;
        kept += usize::from(param.stored().is_some());
        size += param.ty().bytes();
    }));
    if let (Some(stored), 0) = (stored, kept) {
        let name = stored_name(stored);
        return Err(Failure::usage(format!(
            "--weights {name}: no matrix has rows of a multiple of 32 numbers"
        ))
        .help("take bf16 or f16, or --dtype"));
    }
    let mut saving = Saving {
        dtype: match arguments.dtype {
            Type::F32 => DType::F32,
            Type::F16 => DType::F16,
            Type::Bf16 => DType::BF16,
        },
        shard_bytes: arguments.shard_mb as usize * 1_000_000,
        ..Saving::default()
    };
    if let Some(folder) = source.folder() {
        // Keep the source's other keys, such as the tokens that begin and end a text, but not those of its
        // element type, which no longer hold.
        let keys = folder.json().as_object().into_iter().flatten();
        let kept =
            keys.filter(|(key, _)| !["dtype", "torch_dtype", "quantization_config"].contains(&key.as_str()));
        saving.extra = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    }
    let tokenizer = source.tokenizer().ok();
    // Take these tokens from the generation settings, as of a run, or from the tokenizer, as of other files.
    // If the keys were missing, transformers would use GPT-2's tokens.
    let generation = source.generation()?;
    let end = tokenizer.as_ref().and_then(|tokenizer| tokenizer.get().end_of_text());
    let first = tokenizer.as_ref().and_then(|tokenizer| tokenizer.get().beginning());
    for (key, id) in [("eos_token_id", end), ("bos_token_id", first.or(end)), ("pad_token_id", None)] {
        let said = generation.get(key).cloned().unwrap_or_else(|| id.into());
        saving.extra.entry(key).or_insert(said);
    }
    saving.extra.insert(MARK.to_string(), "gradloom".into());
    let new = NewFolder::begin(&arguments.out)?;
    match stored {
        Some(_) => save_stored(&session, new.path(), &saving.extra)?,
        None => save(&session, new.path(), &saving)?,
    }
    if source.folder().is_some_and(|folder| folder.path().is_dir()) {
        copy_along(&arguments.path, new.path())?;
    } else if let Some(tokenizer) = &tokenizer {
        tokenizer.save(new.path())?;
    }
    generation.save(new.path())?;
    new.finish("config.json", || check_is_free(&arguments.out, &arguments.path))?;
    let (out, tensors) = (arguments.out.display(), count(tensors, "tensor"));
    if let Some(stored) = stored {
        print_line!("{out}: {tensors}, {kept} of them in {}, {}", stored_name(stored), bytes(size))?;
        return tell_sample(&arguments.out);
    }
    print_line!("{out}: {tensors} in {}", saving.dtype)?;
    print_line!(
        "         transformers: AutoModelForCausalLM.from_pretrained({:?})",
        arguments.out.display().to_string()
    )?;
    tell_sample(&arguments.out)
}

/// Prints a command that samples from the export, if it has a tokenizer.
fn tell_sample(out: &Path) -> Result<()> {
    match Source::open(out)?.tokenizer() {
        Ok(_) => print_line!("         gradloom sample {}", quoted(&out.display().to_string())),
        Err(_) => Ok(()),
    }
}

/// Copies the tokenizer's files unchanged.
fn copy_along(from: &Path, out: &Path) -> Result<()> {
    for name in ALONG {
        let (file, to) = (from.join(name), out.join(name));
        if file.is_file() {
            let mut from = regular_file::open_to_read(&file)
                .map_err(|error| Failure::unreadable(&file, &error, "check the permissions"))?;
            replace_file(&to, |out| io::copy(&mut from, out).map(drop))
                .map_err(|error| unusable(&to, &error))?;
        }
    }
    Ok(())
}

/// Returns an error message if a configuration was not written by an export.
fn foreign(config: &Path) -> Option<String> {
    let read = regular_file::read(config, LARGEST_CONFIG).map_err(|error| error.to_string());
    match read.and_then(|bytes| python_json::parse(&bytes)) {
        Ok(json) if json.get(MARK).is_some() => None,
        Ok(_) => Some("the folder has another model, which no export wrote".to_string()),
        Err(reason) => Some(format!("the folder has a config.json that cannot be read: {reason}")),
    }
}

/// Returns an error for a folder with files that no export wrote, and for the model's own folder.
fn check_is_free(out: &Path, from: &Path) -> Result<()> {
    let flag = format!("--out {}", out.display());
    let same =
        |path: &Path| out.canonicalize().is_ok_and(|out| path.canonicalize().is_ok_and(|path| out == path));
    if same(from) || from.parent().is_some_and(|parent| from.is_file() && same(parent)) {
        return Err(Failure::usage(format!("{flag}: the model would be written over itself"))
            .help("choose another folder"));
    }
    let Ok(entries) = fs::read_dir(out) else { return Ok(()) };
    let is_ours = |name: &str| {
        ["config.json", "generation_config.json", PARTIAL].contains(&name)
            || ALONG.contains(&name)
            || (name.starts_with("model") && name.contains(".safetensors"))
    };
    let config = out.join("config.json");
    if let Some(wrong) = config.exists().then(|| foreign(&config)).flatten() {
        return Err(
            Failure::usage(format!("{flag}: {wrong}")).help("name a folder that is empty or not there yet")
        );
    }
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let Some(other) = names.into_iter().find(|name| !is_ours(name)) else { return Ok(()) };
    Err(Failure::usage(format!("{flag}: the folder has {other}, which no export wrote"))
        .help("name a folder that is empty or not there yet"))
}

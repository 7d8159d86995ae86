//! `gradloom import`: writes a model as the folder of a run.
//!
//! In: a model's files. Out: a folder with 32-bit weights, the configuration and the tokenizer, in the layout
//! of a run of `gradloom train`. Invariant: the folder appears only when everything is written; nothing is
//! left if the model cannot be read.

use crate::failure::Result;
use crate::format::{bytes, thousands};
use crate::new_folder::{NewFolder, PARTIAL};
use crate::output::{print_line, program, quoted, say};
use crate::run::{MODEL, RunFolder, STATE, Saved, Snapshot, TOKENIZER};
use crate::train::init::Begun;
use crate::train::options::Options;
use crate::train::settings::{Settings, absolute};
use gradloom::CpuDevice as _;
use gradloom::Device;
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of `gradloom import`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A folder of transformers, a GGUF file, or the folder of a run.
    #[arg(value_name = "PATH")]
    path: String,
    /// Folder to write: empty, new, or an earlier import of the same model.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Tokenizer of a model whose files have none: a tokenizer.json, a folder with one, or `bytes`.
    #[arg(long, value_name = "TOKENIZER")]
    tokenizer: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  gradloom import models/gpt2 gpt2-here
  gradloom import model.gguf model-here      weights in 32 bits, whatever they were

The folder has model.safetensors, config.json and the tokenizer, as a run has them: for `gradloom sample`,
`eval`, `info`, `export`, and `gradloom train --init OUT`.";

/// Writes a model in the layout of a run's folder.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let (path, tokenizer) = (&arguments.path, &arguments.tokenizer);
    check_free(&arguments.out, path)?;
    let begun = Begun::open(path, tokenizer.as_deref(), None)?;
    // Set the batch to 1, because the settings are the model's and those of a later training are not known.
    let (init, tokenizer) = (Some(path.clone()), tokenizer.clone());
    let options = Options { init, tokenizer, batch: Some(1), ..Options::default() };
    let Begun { source, tokenizer } = begun;
    let generation = source.generation()?;
    let mut settings = Settings::begun_from(&options, source.config())?;
    settings.use_tokenizer(&tokenizer)?;
    let session = source.session_stored(&Device::cpu(), None)?;
    session.materialize()?;
    let snapshot = Snapshot::of(&session.store(), 0)?;
    let new = NewFolder::begin(&arguments.out)?;
    let folder = RunFolder::within(&new);
    tokenizer.save(folder.path())?;
    generation.save(folder.path())?;
    folder.write_text("config.json", &settings.to_json())?;
    snapshot.write_model(&folder, &settings)?;
    new.finish(MODEL, || check_free(&arguments.out, path))?;
    let parameters = settings.model.parameters();
    print_line!(
        "{}: {} parameters, {}",
        arguments.out.display(),
        thousands(parameters as u64),
        bytes(4 * parameters as u64)
    )?;
    let out = quoted(&arguments.out.display().to_string());
    say!("  {} sample {out}", program());
    say!("  {} train --init {out} --data TEXT", program());
    Ok(())
}

/// Returns an error for a folder with any file that an import of the same path did not write.
fn check_free(out: &Path, path: &str) -> Result<()> {
    let free = RunFolder::check_free(out);
    if free.is_err() && !out.join(STATE).exists() {
        let is_ours =
            |name: &str| [MODEL, "config.json", PARTIAL].contains(&name) || TOKENIZER.contains(&name);
        let names = fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let are_ours = names.into_iter().all(|name| name.to_str().is_some_and(is_ours));
        let saved = Saved::open(&out.join(MODEL)).ok().filter(|_| are_ours);
        if saved.is_some_and(|saved| saved.steps == 0 && saved.settings.init == Some(absolute(path))) {
            return Ok(());
        }
    }
    free
}

//! `gradloom import`.
//!
//! In: a model's files. Out: a folder with the weights in 32 bits, the configuration and the tokenizer, as a
//! run of `gradloom train` has them. Always holds: nothing is left behind where the model cannot be read.

use crate::failure::Result;
use crate::format::{bytes, thousands};
use crate::output::{print_line, program, quoted, say};
use crate::run::{RunFolder, Snapshot};
use crate::train::init::Begun;
use crate::train::options::Options;
use crate::train::settings::Settings;
use gradloom::Device;
use std::path::PathBuf;

/// What `gradloom import` takes.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A folder of transformers, a GGUF file, or the folder of a run.
    #[arg(value_name = "PATH")]
    path: String,
    /// Folder to write, empty or not there yet.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// The tokenizer of a model whose files have none: a tokenizer.json, a folder with one, or `bytes`.
    #[arg(long, value_name = "TOKENIZER")]
    tokenizer: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  gradloom import models/gpt2 gpt2-here
  gradloom import model.gguf model-here      weights in 32 bits, whatever they were

The folder has model.safetensors, config.json and the tokenizer, as a run has them: for `gradloom sample`,
`eval`, `info`, `export`, and `gradloom train --init OUT`.";

/// Writes a model as a run's folder has it.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    RunFolder::check_free(&arguments.out)?;
    let (path, tokenizer) = (&arguments.path, &arguments.tokenizer);
    let begun = Begun::open(path, tokenizer.as_deref(), None)?;
    // One text at a time: the settings are the model's, and what a training would be is not known.
    let (init, tokenizer) = (Some(path.clone()), tokenizer.clone());
    let options = Options { init, tokenizer, batch: Some(1), ..Options::default() };
    let Begun { source, tokenizer } = begun;
    let mut settings = Settings::begun_from(&options, source.config())?;
    settings.use_tokenizer(&tokenizer)?;
    let session = source.session_stored(&Device::cpu(), None)?;
    session.materialize()?;
    let snapshot = Snapshot::of(&session.store(), 0)?;
    let folder = RunFolder::create(Some(&arguments.out), "")?;
    let written = tokenizer.save(folder.path()).and_then(|()| snapshot.write_model(&folder, &settings));
    if let Err(failure) = written {
        folder.undo();
        return Err(failure);
    }
    folder.write_text("config.json", &settings.to_json())?;
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

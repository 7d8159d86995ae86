//! Everything before the first step: settings, data, folder, compiled programs.

use super::options::Options;
use super::settings::{DataSource, Settings};
use crate::failure::{Failure, Result};
use crate::format::{bytes, count, thousands};
use crate::model::{self, Gpt2Train};
use crate::output::say;
use crate::run::{Metrics, RunFolder, STATE, Saved, save};
use gradloom_models::data::{Bytes, DataError, Split, Text, Tokenizer, load};
use std::path::Path;

/// A run that is ready to make its next step.
pub(super) struct Run {
    pub(super) settings: Settings,
    pub(super) data: Split,
    pub(super) folder: RunFolder,
    pub(super) train: Gpt2Train,
    pub(super) metrics: Metrics,
    /// Steps that were made before.
    pub(super) steps: u64,
}

/// The text that ships with the program.
const BUILT_IN: &str = include_str!("../../assets/corpus.txt");

/// Begins a new run. The folder comes last, so that a mistake leaves none behind, and is written to at once, so that one that cannot hold the run
/// is noticed before the first step.
pub(super) fn create(options: &Options) -> Result<Run> {
    let mut settings = Settings::resolve(options)?;
    let (text, data) = read_data(&settings)?;
    settings.data = described(&settings, &text);
    announce(&settings, &text, &data);
    let train = compiled(&settings)?;
    let folder = RunFolder::create(options.out.as_deref(), &settings.preset)?;
    folder.write_text("config.json", &settings.to_json())?;
    let metrics = Metrics::create(&folder)?;
    save(&folder, &train.store(), &settings, 0)?;
    say!("run     {}", folder.path().display());
    Ok(Run { settings, data, folder, train, metrics, steps: 0 })
}

/// Goes on with a run. All that decides the result comes from the state file; flags may change what is allowed to change.
pub(super) fn resume(path: &Path, options: &Options) -> Result<Run> {
    let folder = RunFolder::open(path)?;
    let saved = Saved::open(&folder.file(STATE))?;
    let mut settings = saved.settings.clone();
    settings.change(options)?;
    if saved.steps > settings.training.steps {
        return Err(Failure::usage(format!(
            "--steps {}: the run in {} has {} already",
            settings.training.steps,
            path.display(),
            count(saved.steps as usize, "step")
        ))
        .help("--steps counts from the beginning of the run: give a larger number"));
    }
    let (text, data) = read_data(&settings)?;
    let found = described(&settings, &text);
    if options.data.is_none() && found != settings.data {
        return Err(Failure::usage(format!(
            "the data of the run in {} has changed: {} then, {} now",
            path.display(),
            bytes(settings.data.bytes as u64),
            bytes(found.bytes as u64)
        ))
        .help("restore the files, or name them with --data to go on with what they are now"));
    }
    settings.data = found;
    announce(&settings, &text, &data);
    let mut train = compiled(&settings)?;
    saved.restore(&train.store())?;
    train.set_attempted_steps(saved.steps);
    folder.write_text("config.json", &settings.to_json())?;
    let metrics = Metrics::resume(&folder, saved.steps)?;
    say!("run     {}, from step {}", folder.path().display(), thousands(saved.steps));
    Ok(Run { settings, data, folder, train, metrics, steps: saved.steps })
}

fn read_data(settings: &Settings) -> Result<(Text, Split)> {
    let flag = |error: DataError| {
        let failure = Failure::from(error);
        if settings.data.paths.is_empty() { failure } else { failure.context("--data") }
    };
    let text = if settings.data.paths.is_empty() {
        Text::built_in(BUILT_IN)
    } else {
        load(&settings.data.paths).map_err(flag)?
    };
    let split = Split::new(Bytes.encode(&text.bytes), settings.model.context).map_err(flag)?;
    Ok((text, split))
}

fn described(settings: &Settings, text: &Text) -> DataSource {
    DataSource { paths: settings.data.paths.clone(), bytes: text.bytes.len(), sha256: text.fingerprint() }
}

fn announce(settings: &Settings, text: &Text, data: &Split) {
    let model = &settings.model;
    say!(
        "model   {}: {}, {}, width {}, context {}; {} parameters",
        settings.preset,
        count(model.layers, "layer"),
        count(model.heads, "head"),
        model.width,
        model.context,
        thousands(model.parameters() as u64)
    );
    let source = match text.sources.len() {
        0 => "built-in text".to_string(),
        1 => text.sources[0].display().to_string(),
        n => count(n, "file"),
    };
    say!(
        "data    {source}: {}, of which {} held out",
        bytes(text.bytes.len() as u64),
        bytes(data.held_out.len() as u64)
    );
    if let Some(first) = text.skipped.first() {
        let more = text.skipped.len() - 1;
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        say!("        left out {} ({}){more}", first.path.display(), first.reason);
    }
    if model.vocabulary > Bytes.vocabulary() {
        say!("        bytes are the tokens: 256 of {} are used", thousands(model.vocabulary as u64));
    }
}

fn compiled(settings: &Settings) -> Result<Gpt2Train> {
    let device = model::cpu(settings.training.threads)?;
    let train = model::compile(settings, &device)?;
    say!("device  {}, {}", device.description(), count(device.threads(), "thread"));
    let (batch, context) = (settings.training.batch, settings.model.context);
    say!("step    {batch} × {context} tokens, {}", bytes(train.plan().totals.peak() as u64));
    Ok(train)
}

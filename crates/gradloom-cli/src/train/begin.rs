//! Everything before the first step: settings, data, folder, compiled programs.

use super::interrupt;
use super::options::Options;
use super::settings::{DataSource, Settings, Training};
use crate::device::{DeviceArguments, report_tuning};
use crate::failure::{Failure, Result};
use crate::format::{bytes, count, thousands};
use crate::model::{self, Evaluator, Gpt2Train};
use crate::output::{say, tell};
use crate::run::{Metrics, RunFolder, STATE, Saved, Snapshot};
use gradloom_models::data::{Bytes, DataError, Split, Text, Tokenizer, load};
use std::path::Path;

/// A run that is ready to make its next step.
pub(super) struct Run {
    pub(super) settings: Settings,
    pub(super) data: Split,
    pub(super) folder: RunFolder,
    pub(super) train: Gpt2Train,
    pub(super) evaluator: Evaluator,
    pub(super) metrics: Metrics,
    /// Steps that were made before.
    pub(super) steps: u64,
}

/// The text that ships with the program.
const BUILT_IN: &str = include_str!("../../assets/corpus.txt");

/// Begins a new run. The folder comes last, when all memory and threads are there, so that a failure leaves
/// none behind, and is written to at once, so that one that cannot hold the run is noticed before the first
/// step.
pub(super) fn create(options: &Options) -> Result<Run> {
    let mut settings = Settings::resolve(options)?;
    if let Some(folder) = &options.out {
        RunFolder::check_free(folder)?;
    }
    let (text, data) = read_data(&settings, if options.data.is_some() { "--data" } else { "built-in text" })?;
    settings.data = described(&settings, &text);
    announce(&settings, &text, &data);
    let (train, evaluator) = compiled(&settings, &data)?;
    let beginning = Snapshot::of(&train.store(), 0)?;
    interrupt::save_first();
    let folder = RunFolder::create(options.out.as_deref(), &settings.preset)?;
    if let Err(failure) = beginning.write_state(&folder, &settings) {
        // Without a state it is no run.
        folder.undo();
        return Err(failure);
    }
    beginning.write_model(&folder, &settings)?;
    folder.write_text("config.json", &settings.to_json())?;
    let metrics = Metrics::create(&folder)?;
    say!("run     {}", folder.path().display());
    Ok(Run { settings, data, folder, train, evaluator, metrics, steps: 0 })
}

/// Goes on with a run. All that decides the result comes from the state file; flags may change what is
/// allowed to change.
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
    let (text, data) = if options.data.is_some() {
        read_data(&settings, "--data")?
    } else {
        read_data(&settings, &format!("the data of the run in {}", path.display())).map_err(|failure| {
            failure.help("restore it, or name the data with --data to go on with what there is now")
        })?
    };
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
    let (mut train, evaluator) = compiled(&settings, &data)?;
    saved.restore(&train.store())?;
    train.set_attempted_steps(saved.steps);
    interrupt::save_first();
    if settings != saved.settings {
        // At once, or a crash before the next saving would take the new settings back.
        Snapshot::of(&train.store(), saved.steps)?.write_state(&folder, &settings)?;
    }
    folder.write_text("config.json", &settings.to_json())?;
    let (metrics, warning) = Metrics::resume(&folder, saved.steps)?;
    if let Some(warning) = warning {
        tell!("warning: {warning}");
    }
    say!("run     {}, from step {}", folder.path().display(), thousands(saved.steps));
    Ok(Run { settings, data, folder, train, evaluator, metrics, steps: saved.steps })
}

/// Reads and splits the text; `what` names it in a failure.
fn read_data(settings: &Settings, what: &str) -> Result<(Text, Split)> {
    let failure = |error: DataError| Failure::from(error).context(what);
    let text = if settings.data.paths.is_empty() {
        Text::built_in(BUILT_IN)
    } else {
        load(&settings.data.paths).map_err(failure)?
    };
    let split = Split::new(Bytes.encode(&text.bytes), settings.model.context).map_err(failure)?;
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

/// The programs of a run, with the threads and the memory that they need.
fn compiled(settings: &Settings, data: &Split) -> Result<(Gpt2Train, Evaluator)> {
    let training = &settings.training;
    let &Training { device, precision, threads, .. } = training;
    let (adapter, tune) = (training.adapter.clone(), training.tune.unwrap_or(false));
    let device = DeviceArguments { device, adapter, precision, tune, threads }.open()?;
    let train = model::compile(settings, &device)?;
    let evaluator = Evaluator::new(&train, &data.held_out, training.batch)?;
    report_tuning(&device);
    say!("device  {}, {}", device.description(), count(device.threads(), "thread"));
    let (batch, context) = (settings.training.batch, settings.model.context);
    say!("step    {batch} × {context} tokens, {}", bytes(train.plan().totals.peak() as u64));
    Ok((train, evaluator))
}

//! Preparation of a run before its first step: settings, data, folder, compiled programs.

use super::data::{Data, Source};
use super::follow::Shards;
use super::init::Begun;
use super::interrupt;
use super::options::Options;
use super::saving::{Files, Writer, writer};
use super::settings::{DataSource, Settings, Training};
use crate::device::{DeviceArguments, report_tuning};
use crate::failure::{Failure, Result};
use crate::format::{bytes, count, thousands};
use crate::model::{self, Evaluator, ModelTrain, Smaller};
use crate::output::{printable, quoted, say, tell};
use crate::run::{Beginning, Event, Events, Metrics, RunFolder, STATE, Saved, Snapshot, Taken};
use crate::source::Source as ModelSource;
use crate::tokenizer::AnyTokenizer;
use crate::world;
use gradloom_models::data::Split;
use gradloom_models::hugging_face::Generation;
use std::path::Path;
use std::sync::Arc;

/// A run that is ready for its next step.
pub(super) struct Run {
    pub(super) files: Arc<Files>,
    pub(super) data: Split,
    pub(super) tokenizer: AnyTokenizer,
    pub(super) train: ModelTrain,
    pub(super) evaluator: Evaluator,
    pub(super) writer: Writer,
    /// Memory for a copy of the state.
    pub(super) spare: Snapshot,
    /// Number of steps completed so far.
    pub(super) steps: u64,
}

/// Settings, data and published weights of a new run.
struct Fresh {
    settings: Settings,
    source: Source,
    split: Split,
    tokenizer: AnyTokenizer,
    /// Published model to start from.
    from: Option<ModelSource>,
    generation: Generation,
}

impl Fresh {
    fn read(options: &Options) -> Result<Self> {
        let begun = options
            .init
            .as_deref()
            .map(|path| Begun::open(path, options.tokenizer.as_deref(), Some("--init")))
            .transpose()?;
        let mut settings = match &begun {
            Some(begun) => Settings::begun_from(options, begun.source.config())?,
            None => Settings::resolve(options)?,
        };
        let generation =
            begun.as_ref().map(|begun| begun.source.generation()).transpose()?.unwrap_or_default();
        let (from, tokenizer) =
            begun.map_or((None, None), |begun| (Some(begun.source), Some(begun.tokenizer)));
        let what = if options.data.is_some() { "--data" } else { "built-in text" };
        let Data { source, split, tokenizer } = Data::read(&settings, tokenizer, what)?;
        settings.use_tokenizer(&tokenizer)?;
        settings.data = source.described(&settings);
        Ok(Self { settings, source, split, tokenizer, from, generation })
    }

    /// Compiles the training step and loads the published weights.
    fn compiled(&self) -> Result<ModelTrain> {
        let train = compiled(&self.settings)?;
        if let Some(from) = &self.from {
            from.load_into(train.session())?;
        }
        Ok(train)
    }
}

/// Creates a new run. Its folder is created last, after memory and threads are allocated, so that a failure
/// leaves no folder. The first state is written immediately, so that a folder that cannot hold the run is
/// reported before the first step.
pub(super) fn create(options: &Options, json: bool) -> Result<Run> {
    if let Some(folder) = &options.out {
        check_free(folder)?;
    }
    let fresh = Fresh::read(options)?;
    let Fresh { settings, source, split, tokenizer, generation, .. } = &fresh;
    // If the configuration is that of another run, compare the data with that run's.
    let theirs = options.run.as_ref().map(|run| settings.recorded(run));
    if let Some(difference) = theirs.and_then(|then| difference(&then, &settings.data)) {
        tell!("note: the data is not that of the run that --config repeats: {difference}");
    }
    let taken = announce(settings, source, split, tokenizer);
    let train = fresh.compiled()?;
    let evaluator = evaluator(&train, settings, split)?;
    let beginning = Snapshot::of(&train.store(), 0)?;
    let writer = writer()?;
    interrupt::save_first();
    world::meet(&settings.common())?;
    let folder = RunFolder::create(options.out.as_deref(), &settings.preset);
    let folder = folder.map_err(|failure| match &options.out {
        Some(_) => failure.under("--out"),
        None => failure,
    })?;
    // Write the tokenizer first, because a state could not be resumed without it.
    let written = tokenizer
        .save(folder.path())
        .and_then(|()| Ok(generation.save(folder.path())?))
        .and_then(|()| {
            if world::shards_states() { world::share_folder(Some(folder.path())).map(drop) } else { Ok(()) }
        })
        .and_then(|()| beginning.write_state(folder.path(), settings));
    if let Err(failure) = written {
        // Remove the folder, which is not a run without a state.
        folder.undo();
        return Err(failure);
    }
    beginning.write_model(&folder, settings)?;
    folder.write_text("config.json", &settings.to_json())?;
    let metrics = Metrics::create(&folder)?;
    let events = Events::create(&folder, json)?;
    events.push(0, &began(settings, &train, &folder, taken, None))?;
    say!("run     {}", folder.path().display());
    let Fresh { settings, split, tokenizer, .. } = fresh;
    let files = Arc::new(Files { settings, folder, metrics, events });
    Ok(Run { files, data: split, tokenizer, train, evaluator, writer, spare: beginning, steps: 0 })
}

/// Returns an error for a folder that cannot become the new run's.
fn check_free(folder: &Path) -> Result<()> {
    let checked = RunFolder::check_free(folder).and_then(|()| RunFolder::check_possible(folder));
    checked.map_err(|failure| {
        let failure = failure.under("--out");
        match RunFolder::has_run(folder) {
            true => {
                let folder = quoted(&folder.display().to_string());
                failure.help(format!("go on with it by --resume {folder}, or choose another folder"))
            }
            false => failure,
        }
    })
}

/// Saved state of a run with the settings and data with which it goes on.
struct Continued {
    saved: Saved,
    settings: Settings,
    source: Source,
    split: Split,
    tokenizer: AnyTokenizer,
}

impl Continued {
    fn read(path: &Path, state: &Path, options: &Options) -> Result<Self> {
        let saved = Saved::open(state)?;
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
        let tokenizer = Some(AnyTokenizer::of_run(path, &settings)?);
        let Data { source, split, tokenizer } = if options.data.is_some() {
            Data::read(&settings, tokenizer, "--data")?
        } else {
            let what = format!("the data of the run in {}", path.display());
            Data::read(&settings, tokenizer, &what).map_err(|failure| {
                failure.help("restore it, or name the data with --data to go on with what there is now")
            })?
        };
        let found = source.described(&settings);
        if let Some(difference) = difference(&saved.settings.data, &found) {
            let changed = format!("the data of the run in {} has changed: {difference}", path.display());
            if options.data.is_none() {
                return Err(Failure::usage(changed).help(match found.paths.is_empty() {
                    true => "use the gradloom that began the run, or go on with data that --data names",
                    false => "restore the files, or name them with --data to go on with what they are now",
                }));
            }
            if world::is_first() {
                tell!("note: {changed}; it goes on with what --data names");
            }
        }
        settings.data = found;
        Ok(Self { saved, settings, source, split, tokenizer })
    }

    /// Compiles the training step and restores the state.
    fn compiled(&self) -> Result<ModelTrain> {
        let mut train = compiled(&self.settings)?;
        self.saved.restore(&train.store())?;
        train.set_attempted_steps(self.saved.steps);
        Ok(train)
    }
}

/// A run on a rank other than the first, which writes no files.
pub(super) struct Follower {
    pub(super) settings: Settings,
    pub(super) data: Split,
    pub(super) train: ModelTrain,
    /// Number of steps completed so far.
    pub(super) steps: u64,
    /// Saved shards; `None` if the first rank saves everything.
    pub(super) shards: Option<Shards>,
}

impl Follower {
    /// Prepares a new run, or one that is resumed, as the first rank does.
    pub(super) fn new(resumed: Option<&Path>, options: &Options) -> Result<Self> {
        let (settings, data, train, steps, is_saved) = match resumed {
            Some(path) => {
                let continued = Continued::read(path, &path.join(STATE), options)?;
                let train = continued.compiled()?;
                let Continued { saved, settings, split, .. } = continued;
                let is_saved = settings == saved.settings;
                (settings, split, train, saved.steps, is_saved)
            }
            None => {
                let fresh = Fresh::read(options)?;
                let train = fresh.compiled()?;
                (fresh.settings, fresh.split, train, 0, false)
            }
        };
        let spare = world::shards_states().then(|| Snapshot::of(&train.store(), steps)).transpose()?;
        interrupt::save_first();
        world::meet(&settings.common())?;
        let shards = spare.map(|spare| {
            let folder = resumed.map_or_else(|| world::share_folder(None), |path| Ok(path.to_path_buf()))?;
            if resumed.is_none() || world::first_says(!is_saved)? {
                spare.write_state(&folder, &settings)?;
            }
            Shards::new(folder, settings.clone(), spare)
        });
        let shards = shards.transpose()?;
        Ok(Self { settings, data, train, steps, shards })
    }
}

/// Resumes a run. Everything that determines the result is read from the state file; flags may change some
/// settings.
pub(super) fn resume(path: &Path, options: &Options, json: bool) -> Result<Run> {
    let folder = RunFolder::open(path)?;
    let continued = Continued::read(path, &folder.file(STATE), options)?;
    let Continued { saved, settings, source, split, tokenizer } = &continued;
    let taken = announce(settings, source, split, tokenizer);
    let train = continued.compiled()?;
    let evaluator = evaluator(&train, settings, split)?;
    let writer = writer()?;
    let spare = Snapshot::of(&train.store(), saved.steps)?;
    interrupt::save_first();
    world::meet(&settings.common())?;
    let is_changed = *settings != saved.settings;
    let is_changed = if world::shards_states() { world::first_says(is_changed)? } else { is_changed };
    if is_changed {
        // Save the settings immediately, because a crash before the next save would lose the changes.
        spare.write_state(folder.path(), settings)?;
    }
    folder.write_text("config.json", &settings.to_json())?;
    let (metrics, warning) = Metrics::resume(&folder, saved.steps)?;
    if let Some(warning) = warning {
        tell!("warning: {warning}");
    }
    let (events, last, warning) = Events::resume(&folder, json)?;
    if let Some(warning) = warning {
        tell!("warning: {warning}");
    }
    let lost = last.map_or(0, |last| last.saturating_sub(saved.steps));
    events.push(saved.steps, &began(settings, &train, &folder, taken, Some(lost)))?;
    say!("run     {}, from step {}", folder.path().display(), thousands(saved.steps));
    let Continued { saved, settings, split, tokenizer, .. } = continued;
    let (files, steps) = (Arc::new(Files { settings, folder, metrics, events }), saved.steps);
    Ok(Run { files, data: split, tokenizer, train, evaluator, writer, spare, steps })
}

/// Returns the event of a run that starts or, with `lost_steps`, resumes and repeats that many steps.
fn began(
    settings: &Settings,
    train: &ModelTrain,
    folder: &RunFolder,
    data: Taken,
    lost_steps: Option<u64>,
) -> Event {
    Event::Began(Box::new(Beginning {
        lost_steps,
        version: env!("CARGO_PKG_VERSION"),
        preset: settings.preset.clone(),
        parameters: settings.model.parameters(),
        steps: settings.training.steps,
        batch: settings.training.batch,
        context: settings.model.context(),
        device: train.session().device().description(),
        step_bytes: train.plan().totals.peak(),
        folder: folder.path().display().to_string(),
        data,
    }))
}

/// Describes how the text of a run differs from the recorded one; `None` if it is the same, even at another
/// path.
fn difference(then: &DataSource, now: &DataSource) -> Option<String> {
    let of = |data: &DataSource| match data.files {
        0 => format!("the built-in text of {}", bytes(data.bytes as u64)),
        files => format!("{} of {} bytes", count(files, "file"), thousands(data.bytes as u64)),
    };
    match (of(then), of(now)) {
        _ if then.sha256 == now.sha256 => None,
        (then, now) if then == now => Some(format!("{then}, with other contents than then")),
        (then, now) => Some(format!("{then} then, {now} now")),
    }
}

/// Prints the model and its data, and returns the record of the data.
fn announce(settings: &Settings, source: &Source, data: &Split, tokenizer: &AnyTokenizer) -> Taken {
    let (model, tokenizer) = (&settings.model, tokenizer.get());
    say!(
        "model   {}: {}, {}, width {}, context {}; {} parameters",
        settings.preset,
        count(model.layers(), "layer"),
        count(model.heads(), "head"),
        model.width(),
        model.context(),
        thousands(model.parameters() as u64)
    );
    let name = match source.files.len() {
        0 => "built-in text".to_string(),
        1 => near(&source.files[0]),
        n => count(n, "file"),
    };
    let (tokens, held_out) = (data.training.len() + data.held_out.len(), data.held_out.len());
    let are_bytes = settings.token_name() == "byte";
    if are_bytes && !source.is_of_tokens {
        say!("data    {name}: {}, of which {} held out", bytes(source.bytes as u64), bytes(held_out as u64));
    } else {
        let (tokens, held_out) = (thousands(tokens as u64), thousands(held_out as u64));
        say!("data    {name}: {}, {tokens} tokens, of which {held_out} held out", bytes(source.bytes as u64));
    }
    if !are_bytes {
        let name = near(Path::new(tokenizer.name()));
        say!("tokens  {name}: a vocabulary of {}", thousands(tokenizer.vocabulary() as u64));
    }
    // Estimate the size of the held-out text in bytes, which avoids reading all tokens.
    let held_out_bytes = (source.bytes as f64 * held_out as f64 / tokens as f64) as usize;
    let taken = Taken {
        files: source.files.len(),
        bytes: source.bytes,
        held_out_bytes: if are_bytes { held_out } else { held_out_bytes },
        tokens,
        held_out_tokens: held_out,
        sha256: settings.data.sha256.clone(),
        names: source.files.iter().take(NAMED).map(|path| near(path)).collect(),
        left_out: source.skipped.len(),
    };
    let and_more = |all: usize, named: usize| match all - named {
        0 => String::new(),
        more => format!(", and {} more", thousands(more as u64)),
    };
    if taken.files > 1 {
        say!("        {}{}", taken.names.join(", "), and_more(taken.files, taken.names.len()));
    }
    if let Some(first) = source.skipped.first() {
        let more = and_more(taken.left_out, 1);
        say!("        left out {} ({}){more}", near(&first.path), first.reason);
    }
    if model.vocabulary() > tokenizer.vocabulary() {
        say!("        bytes are the tokens: 256 of {} are used", thousands(model.vocabulary() as u64));
    }
    taken
}

/// Maximum number of files to name.
const NAMED: usize = 5;

/// Returns a path relative to the current folder if possible, for a terminal.
fn near(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    printable(&path.strip_prefix(here).unwrap_or(path).display().to_string())
}

/// Remedies for a step that does not fit in memory.
const SMALLER: Smaller = Smaller {
    step: "lower --batch or --context, or take a smaller model: --preset, --layers, --width",
    budgeted: "raise --memory-budget, lower --batch or --context, or take a smaller model: --preset, --layers, \
               --width",
};

/// Compiles the training step of a run, and allocates its threads and memory.
fn compiled(settings: &Settings) -> Result<ModelTrain> {
    let training = &settings.training;
    let &Training { device, precision, threads, batch, .. } = training;
    let world = world::joined()?;
    settings.check_ranks(world.size())?;
    let (adapter, tune) = (training.adapter.clone(), training.tune.unwrap_or(false));
    let device = DeviceArguments { device, adapter, precision, tune, threads, of_run: true }.open()?;
    let device = device.in_world(world)?;
    let train = model::compile(settings, &device, SMALLER)?;
    report_tuning(&device);
    let ranks =
        if world.size() == 1 { String::new() } else { format!(", on each of {} ranks", world.size()) };
    say!("device  {}, {}{ranks}", device.description(), count(device.threads(), "thread"));
    let (batch, context) = (batch / world.size(), settings.model.context());
    say!("step    {batch} × {context} tokens, {}{ranks}", bytes(train.plan().totals.peak()));
    Ok(train)
}

/// Compiles the evaluation of a run.
fn evaluator(train: &ModelTrain, settings: &Settings, data: &Split) -> Result<Evaluator> {
    Evaluator::new(train, &data.held_out, settings.training.batch)
}

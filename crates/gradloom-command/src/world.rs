//! Several processes of one command that train one model together.
//!
//! In: `--ranks` or `--gpus`, or the environment of a launcher such as torchrun. Out: this process's
//! [`World`], or, for `--ranks`, an exit code once all processes have ended. Invariants: only rank 0 prints,
//! and it writes all files but the shards of others; a failure is printed once.

use crate::failure::{Failure, Result};
use crate::output::tell;
use gradloom::communicator::Communicator as _;
use gradloom::nn::Module;
use gradloom::plan::StoreEntry;
use gradloom::runtime::files::{Entries, ShardWriter};
use gradloom::{Membership, Trainer, World};
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Options of commands that run in several processes.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct WorldArguments {
    /// Start N processes on this host that train together, with --device cuda each on a GPU of its own. For
    /// several hosts, start the command by torchrun, srun or mpirun instead.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    ranks: Option<u16>,
    /// Train on N GPUs of this host: --ranks N with --device cuda.
    #[arg(long, value_name = "N", conflicts_with = "ranks", value_parser = clap::value_parser!(u16).range(1..=1024))]
    gpus: Option<u16>,
    /// Sum gradients over the processes in the 16 bits of --precision, on GPUs, instead of in f32.
    #[arg(long)]
    round_sums: bool,
    /// Keep in each process only its shard of the optimizer's states (ZeRO, stage 1). If states are saved,
    /// each process writes its shard.
    #[arg(long)]
    shard_states: bool,
}

/// Options of this process.
static ARGUMENTS: OnceLock<WorldArguments> = OnceLock::new();

/// Returns the trainer, set to sum gradients and to keep states as the command line says.
pub(crate) fn configured<M: Module, const N: usize>(trainer: Trainer<M, N>) -> Trainer<M, N> {
    let WorldArguments { round_sums, shard_states, .. } = ARGUMENTS.get().copied().unwrap_or_default();
    let trainer = if round_sums { trainer.round_sums() } else { trainer };
    if shard_states { trainer.shard_states() } else { trainer }
}

/// Returns the number of GPUs that `--gpus` asks for.
pub(crate) fn gpus() -> Option<u16> {
    ARGUMENTS.get().and_then(|arguments| arguments.gpus)
}

/// Returns `true` if the processes shall sum gradients in 16 bits.
pub(crate) fn rounds_sums() -> bool {
    ARGUMENTS.get().is_some_and(|arguments| arguments.round_sums)
}

/// Returns `true` if each rank keeps and saves shards of the optimizer's states.
pub(crate) fn shards_states() -> bool {
    ARGUMENTS.get().is_some_and(|arguments| arguments.shard_states)
        && WORLD.get().is_some_and(|world| world.size() > 1)
}

/// World of this process, once it has joined one.
static WORLD: OnceLock<World> = OnceLock::new();

/// Variable that tells a process that `--ranks` or `--gpus` has started it.
const STARTED: &str = "GRADLOOM_STARTED_BY_RANKS";

/// Time for which rank 0, which saves, may go on after a process has failed, before all are ended.
const GRACE: Duration = Duration::from_secs(60);

/// Time for which other processes may go on after rank 0 has ended and one has failed.
const GRACE_WITHOUT_FIRST: Duration = Duration::from_secs(5);

impl WorldArguments {
    /// Returns the options of a process that only plans a step.
    pub(crate) fn planned(shard_states: bool) -> Self {
        Self { shard_states, ..Self::default() }
    }

    /// Starts the processes that `--ranks` or `--gpus` asks for, and waits for them. Returns `None` in one of
    /// these processes, and if one is enough.
    ///
    /// # Errors
    /// Returns an error if the processes cannot be started.
    pub(crate) fn start(self) -> Result<Option<ExitCode>> {
        let _ = ARGUMENTS.set(self);
        let option = if self.gpus.is_some() { "--gpus" } else { "--ranks" };
        match self.ranks.or(self.gpus) {
            None | Some(1) => Ok(None),
            Some(_) if std::env::var_os(STARTED).is_some() => {
                listen();
                Ok(None)
            }
            Some(_) if Membership::from_env().is_ok_and(|own| own.size > 1) => {
                let message = format!("{option}: a launcher has started this process as one of several");
                let help = format!("leave {option} out, or start the command without the launcher");
                Err(Failure::usage(message).help(help))
            }
            Some(ranks) => start(ranks, &format!("{option} {ranks}")).map(Some),
        }
    }
}

/// Returns this process's world, which it joins at the first call; that of one rank without a launcher.
///
/// # Errors
/// Returns an error if the environment is wrong, or the other processes do not come.
pub(crate) fn joined() -> Result<&'static World> {
    if let Some(world) = WORLD.get() {
        return Ok(world);
    }
    wait_aloud();
    let world = World::from_env()?;
    if !world.is_first() {
        crate::output::leave_to_a_program();
    }
    Ok(WORLD.get_or_init(|| world))
}

/// Says on rank 0 that it waits for the others, if they do not come at once.
fn wait_aloud() {
    let Some(own) = Membership::from_env().ok().filter(|own| own.size > 1 && own.rank == 0) else { return };
    let say = move || {
        thread::sleep(Duration::from_secs(5));
        if WORLD.get().is_none() {
            tell!("waiting until all {} processes have started", own.size);
        }
    };
    let _ = thread::Builder::new().name("gradloom-waiting".to_string()).spawn(say);
}

/// Returns the number of this process among those of its host, which is that of its GPU.
#[cfg(feature = "cuda")]
pub(crate) fn local_rank() -> usize {
    WORLD.get().map_or(0, World::local_rank)
}

/// Returns `true` in a process that `--ranks` or `--gpus` has started.
#[cfg(feature = "cuda")]
pub(crate) fn is_started_by_ranks() -> bool {
    std::env::var_os(STARTED).is_some()
}

/// Returns the number of cores for this process: those of the host, divided among the processes that a
/// launcher has started on it.
pub(crate) fn cores() -> usize {
    let here = std::env::var("LOCAL_WORLD_SIZE").ok().and_then(|number| number.parse::<usize>().ok());
    let here = here.filter(|_| WORLD.get().is_some_and(|world| world.size() > 1)).unwrap_or(1);
    let all = thread::available_parallelism().map_or(1, usize::from);
    (all / here.max(1)).clamp(1, 1024)
}

/// Waits until all ranks have come here with the same settings.
///
/// # Errors
/// Returns an error if the settings differ, or a rank has failed.
pub(crate) fn meet(settings: &[(String, String)]) -> Result<()> {
    agree(settings)?;
    HAS_MET.store(true, Ordering::Relaxed);
    Ok(WORLD.get().map_or(Ok(()), |world| world.all_reduce(&mut []))?)
}

/// True once all ranks are ready for the first step.
static HAS_MET: AtomicBool = AtomicBool::new(false);

/// Checks that all ranks have been given the options that decide what they tell each other.
///
/// # Errors
/// Returns an error if the options differ, or a rank has failed.
pub(crate) fn agree_on_options(resumes: bool, auto_resumes: bool) -> Result<()> {
    let WorldArguments { round_sums, shard_states, .. } = ARGUMENTS.get().copied().unwrap_or_default();
    let options = [
        ("--resume", resumes),
        ("--auto-resume", auto_resumes),
        ("--round-sums", round_sums),
        ("--shard-states", shard_states),
    ];
    agree(&options.map(|(name, is_given)| (name.to_string(), is_given.to_string())))
}

/// Checks that this rank has the names and values of rank 0. All ranks must call this.
fn agree(own: &[(String, String)]) -> Result<()> {
    let Some(world) = WORLD.get().filter(|world| world.size() > 1) else { return Ok(()) };
    let line = |(name, value): &(String, String)| format!("{name}\t{}", value.replace(['\n', '\t'], " "));
    let lines: Vec<String> = own.iter().map(line).collect();
    let mut first = lines.join("\n").into_bytes();
    world.broadcast(0, &mut first)?;
    let first = String::from_utf8_lossy(&first);
    let mut pairs =
        lines.iter().map(|own| own.split_once('\t')).zip(first.lines().map(|own| own.split_once('\t')));
    let Some((Some((name, own)), Some((_, other)))) = pairs.find(|(own, first)| own != first) else {
        return Ok(());
    };
    let failure = Failure::failed(format!("{name} is {own} on this rank, and {other} on rank 0"))
        .help("give all ranks the same command line, and the same files and run folder");
    abort(&failure);
    Err(failure)
}

/// Returns `true` in the process that prints and writes files.
pub(crate) fn is_first() -> bool {
    WORLD.get().is_none_or(World::is_first)
}

/// Leaves the world in order, so that the end of this process is not taken for a failure.
pub(crate) fn leave() {
    WORLD.get().into_iter().for_each(World::leave);
}

/// Tells the other processes that this one has failed. Returns `true` if this process is the one to print
/// the failure: the first rank, which learns of the failures of all, or the second if the first one has
/// failed without a word.
pub(crate) fn tells(failure: &Failure) -> bool {
    let names = |rank: usize| failure.message().starts_with(&format!("rank {rank} "));
    let Some(world) = WORLD.get() else {
        // The ranks have not met. Rank 0 has an error of its own, or has told it to those that came; another
        // rank's own error names that rank or, if rank 0 was lost, rank 0.
        let rank = Membership::from_env().map_or(0, |own| own.rank);
        return !failure.is_of_world() || rank == 0 || names(rank) || rank == 1 && names(0);
    };
    if !failure.is_of_world() {
        if !world.is_first() && !HAS_MET.load(Ordering::Relaxed) {
            // The command line is the same for all, so the first rank most likely finds the same error.
            let end = Instant::now() + SAME_ERROR;
            while world.check().is_ok() && Instant::now() < end {
                thread::sleep(Duration::from_millis(10));
            }
        }
        world.abort(&failure.for_the_world());
        return world.is_first();
    }
    // All ranks have the same message.
    let first_is_lost = names(0) && !failure.message().contains(" gave up: ");
    world.rank() == usize::from(first_is_lost)
}

/// Sends the path of the run's folder from rank 0, which gives it, to the others. Returns the path.
///
/// # Errors
/// Returns an error if a rank has failed.
pub(crate) fn share_folder(path: Option<&Path>) -> Result<PathBuf> {
    let path = path.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()));
    let mut bytes = path.map_or_else(Vec::new, |path| path.into_os_string().into_encoded_bytes());
    WORLD.get().map_or(Ok(()), |world| world.broadcast(0, &mut bytes))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage("--out: with --shard-states, the path must be of valid text"))?;
    Ok(PathBuf::from(text))
}

/// Returns what rank 0 says to a question that all ranks ask.
///
/// # Errors
/// Returns an error if a rank has failed.
pub(crate) fn first_says(answer: bool) -> Result<bool> {
    let mut bytes = vec![u8::from(answer)];
    WORLD.get().map_or(Ok(()), |world| world.broadcast(0, &mut bytes))?;
    Ok(bytes == [1])
}

/// Tells the other ranks that this one cannot go on, before it comes to its next collective op.
pub(crate) fn abort(failure: &Failure) {
    WORLD.get().into_iter().for_each(|world| world.abort(&failure.for_the_world()));
}

/// Writes the state after a step together with the other ranks, each its shards.
///
/// # Errors
/// Returns an error if a file cannot be written, or a rank has failed.
pub(crate) fn write_shards(
    path: &Path,
    step: u64,
    entries: &[(StoreEntry, Vec<u8>)],
    notes: &Entries,
) -> Result<()> {
    let world = joined()?;
    let check = &|| world.check();
    let (rank, ranks, world) = (world.rank(), world.size(), world.session());
    Ok(ShardWriter { rank, ranks, world, number: step, check }.write(path, entries, notes)?)
}

/// Agreement of the ranks on the steps to train and the states to save.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    /// Number of steps that may be completed before the ranks agree again.
    until: u64,
    last: Option<Instant>,
    /// Number of steps agreed on at a time.
    steps: u64,
    /// Number of steps between saves; `None` if the first rank decides by time.
    every: Option<u64>,
    /// Number of steps completed before the run began or was resumed.
    began: u64,
}

/// Decision of the ranks after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// True if they train another step.
    pub(crate) goes_on: bool,
    /// True if they save this step's state.
    pub(crate) saves: bool,
}

/// Time between two agreements, which is how long the ranks take to see a request to stop.
const PERIOD: Duration = Duration::from_millis(200);

impl Agreement {
    /// Creates the agreement of a run that goes on after `began` steps, and saves its state after each
    /// multiple of `every` steps or, if that is `None`, by time.
    pub(crate) fn new(began: u64, every: Option<u64>) -> Self {
        Self { began, every, ..Self::default() }
    }

    /// Returns what the ranks do after `step` steps, until one of them wants to stop. If they save by time,
    /// the first rank says whether that `is_due`; if each saves its shards, they do so when they next agree.
    ///
    /// # Errors
    /// Returns an error if a rank has failed.
    pub(crate) fn after(&mut self, step: u64, stops: bool, is_due: bool) -> Result<Agreed> {
        let Agreed { goes_on, saves } = self.agree(step, stops, is_due)?;
        let is_multiple = |every| step.is_multiple_of(every) && step != self.began;
        Ok(Agreed { goes_on, saves: self.every.map_or(saves, is_multiple) })
    }

    fn agree(&mut self, step: u64, stops: bool, is_due: bool) -> Result<Agreed> {
        let alone = Agreed { goes_on: !stops, saves: is_due };
        let Some(world) = WORLD.get().filter(|world| world.size() > 1) else { return Ok(alone) };
        world.note_step(step);
        if step < self.until {
            return Ok(Agreed { goes_on: true, saves: is_due && !shards_states() });
        }
        // Agree once per period: if the last steps took less time, on more of them at a time.
        let now = Instant::now();
        let passed = self.last.replace(now).map_or(PERIOD, |last| now - last);
        self.steps = if passed < PERIOD / 2 { self.steps * 2 } else { self.steps / 2 }.clamp(1, 1024);
        // The number of steps and whether to save are those of the first rank.
        let own = |number: f32| if world.is_first() { number } else { 0.0 };
        let mut numbers = [own(self.steps as f32), f32::from(stops), own(f32::from(is_due))];
        world.all_reduce(&mut [&mut numbers])?;
        let [steps, stops, saves] = numbers.map(|number| number as u64);
        self.until = step + if stops > 0 { 0 } else { steps };
        Ok(Agreed { goes_on: step < self.until, saves: saves > 0 })
    }
}

/// Time for which a rank with an error before the first step waits for the first rank to find it, too.
const SAME_ERROR: Duration = Duration::from_secs(2);

/// Starts the processes that an option asks for, and waits until all have ended. Returns the exit code of the
/// run.
fn start(ranks: u16, option: &str) -> Result<ExitCode> {
    let failed = |error: io::Error| Failure::failed(format!("{option}: {error}"));
    // The port is free now; rank 0 opens it again.
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).map_err(failed)?.port();
    let mut children = Children::default();
    for rank in 0..ranks {
        let variables = [
            ("RANK", rank.to_string()),
            ("LOCAL_RANK", rank.to_string()),
            ("WORLD_SIZE", ranks.to_string()),
            ("LOCAL_WORLD_SIZE", ranks.to_string()),
            ("MASTER_ADDR", "127.0.0.1".to_string()),
            ("MASTER_PORT", port.to_string()),
            (STARTED, "1".to_string()),
            // Disable support for graphs with collective ops that overlap, or that single calls of NCCL
            // follow before they end: there are no such graphs and calls.
            ("NCCL_GRAPH_MIXING_SUPPORT", "0".to_string()),
        ];
        children.start(rank, variables).map_err(failed)?;
    }
    let lines = Arc::clone(&children.lines);
    // Another handler is not an error: without this one, an interrupt ends this process, and so the others.
    let _ = ctrlc::set_handler(move || interrupt(&lines));
    let Some((rank, status)) = children.wait().map_err(failed)? else { return Ok(ExitCode::SUCCESS) };
    match status.code() {
        // Processes that have met say themselves that one has been killed.
        None if children.unmet => Err(Failure::failed(format!(
            "{option}: rank {rank} was ended before the ranks had met: {status}"
        ))),
        code => Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))),
    }
}

/// Lines to the standard inputs of the processes: [`INTERRUPT`] or [`LOST`], or the end of the line, which
/// ends a process.
type Lines = Mutex<Vec<ChildStdin>>;

/// Byte that asks a process to stop.
const INTERRUPT: u8 = b'!';
/// Byte that tells a process that another one has failed, so that it does not wait for it.
const LOST: u8 = b'x';
/// Exit code of a process that was waiting for one that has failed.
const UNMET: i32 = 3;

/// Passes an interrupt to rank 0. A second one ends all processes.
fn interrupt(lines: &Lines) {
    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    let is_first = !std::mem::replace(&mut *INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner), true);
    let passed = is_first && lines.first_mut().is_some_and(|line| line.write_all(&[INTERRUPT]).is_ok());
    if !passed {
        lines.clear();
    }
}

/// True after the first interrupt.
static INTERRUPTED: Mutex<bool> = Mutex::new(false);

/// Obeys the line from the process that has started this one.
fn listen() {
    let obey = || {
        let mut byte = [0];
        while matches!(io::stdin().read(&mut byte), Ok(1)) {
            match byte[0] {
                LOST if WORLD.get().is_none() => std::process::exit(UNMET),
                LOST => {}
                _ => crate::train::interrupt::stop(),
            }
        }
        std::process::exit(1);
    };
    // Without the thread, an interrupt ends this process together with the one that has started it.
    let _ = thread::Builder::new().name("gradloom-interrupts".to_string()).spawn(obey);
}

/// The processes that `--ranks` or `--gpus` has started. Those that still run when this is dropped end at
/// once.
#[derive(Default)]
struct Children {
    /// Processes that run, with their ranks.
    running: Vec<(u16, Child)>,
    lines: Arc<Lines>,
    /// True if one was waiting for another that has failed.
    unmet: bool,
}

impl Children {
    fn start(&mut self, rank: u16, variables: [(&str, String); 8]) -> io::Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).envs(variables).stdin(Stdio::piped());
        // A terminal sends Ctrl-C to a whole group of processes, but only this one is to get it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).extend(child.stdin.take());
        self.running.push((rank, child));
        Ok(())
    }

    /// Waits until all processes have ended. Returns the rank and status of rank 0 if it has failed,
    /// otherwise those of the first that has.
    fn wait(&mut self) -> io::Result<Option<(u16, ExitStatus)>> {
        let mut failed: Option<(u16, ExitStatus, Instant)> = None;
        let mut grace = GRACE;
        while !self.running.is_empty() {
            let mut running = Vec::new();
            for (rank, mut child) in self.running.drain(..) {
                let Some(status) = child.try_wait()? else {
                    running.push((rank, child));
                    continue;
                };
                if status.code() == Some(UNMET) {
                    self.unmet = true;
                } else if !status.success() && (rank == 0 || failed.is_none()) {
                    if failed.is_none() {
                        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
                        lines.iter_mut().for_each(|line| _ = line.write_all(&[LOST]));
                    }
                    failed = Some((rank, status, Instant::now()));
                }
                if rank == 0 {
                    grace = GRACE_WITHOUT_FIRST;
                }
            }
            self.running = running;
            if failed.is_some_and(|(_, _, since)| since.elapsed() > grace) {
                self.running.iter_mut().for_each(|(_, child)| _ = child.kill());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(failed.map(|(rank, status, _)| (rank, status)))
    }
}

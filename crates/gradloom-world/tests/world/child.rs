//! Ranks that are processes: this program, started again.

use gradloom_core::error::{Error, ErrorKind};
use gradloom_device::communicator::Communicator;
use gradloom_world::World;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// Variable that makes this program a rank, with what the rank is to do.
const SCENARIO: &str = "GRADLOOM_TEST_RANK";
/// Longest wait for a rank, far above what it takes.
const PATIENCE: Duration = Duration::from_secs(40);
/// Step at which the rank does what is different.
const STEP: u64 = 3;

/// A rank.
pub(crate) struct Rank {
    child: Child,
    lines: Receiver<String>,
}

/// Starts a world. `scenario` is what rank `culprit` does, `variables` are set on all ranks.
pub(crate) fn start(size: usize, culprit: usize, scenario: &str, variables: &[(&str, &str)]) -> Vec<Rank> {
    let port = super::support::port().to_string();
    let start = |rank: usize| {
        let program = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(program);
        command.args(["--exact", "child::rank", "--nocapture", "--test-threads=1"]);
        command.env(SCENARIO, if rank == culprit { scenario } else { "train" });
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", size.to_string());
        command.env("MASTER_ADDR", "localhost").env("MASTER_PORT", &port);
        command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::null());
        Rank::new(command.spawn().expect("a process"))
    };
    (0..size).map(start).collect()
}

impl Rank {
    fn new(mut child: Child) -> Self {
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    /// Waits until the rank prints a line with `mark`, and returns what follows it.
    pub(crate) fn wait_for(&self, mark: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no line with `{mark}`"));
            if let Some((_, rest)) = line.split_once(mark) {
                return rest.to_string();
            }
        }
    }

    /// Waits until the rank has trained for some steps.
    pub(crate) fn train(&self) {
        self.wait_for(&format!("step {STEP}"));
    }

    /// Ends the process as the system does when memory is short.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a process that runs");
    }

    /// Sends a signal.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.expect("the command kill").success());
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A rank, if the variable is set.
#[test]
fn rank() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    let world = World::from_env().expect("a world");
    let error = train(&world, &scenario);
    if let Err(error) = error {
        assert_eq!(error.kind(), ErrorKind::World);
        assert_eq!(world.check().unwrap_err().message(), error.message());
        assert_eq!(world.broadcast(0, &mut vec![]).unwrap_err().message(), error.message());
        println!("error {}", error.message());
    }
    drop(world);
    println!("left");
}

fn train(world: &World, scenario: &str) -> Result<(), Error> {
    let mut part = vec![1.0; 100_000];
    for step in 0.. {
        world.note_step(step);
        if step > STEP {
            match scenario {
                "train" | "killed" => {}
                "leave" => return Ok(()),
                "exit" => std::process::exit(0),
                "panic" => panic!("a rank that panics"),
                "abort" => {
                    world.abort(&Error::new(ErrorKind::File, "no space left"));
                    return world.check();
                }
                "sleep" => std::thread::sleep(PATIENCE),
                "other" => world.broadcast(1, &mut vec![])?,
                _ => panic!("no scenario {scenario}"),
            }
        }
        world.all_reduce(&mut [&mut part])?;
        println!("step {step}");
    }
    Ok(())
}

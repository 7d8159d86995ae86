//! Runs of several processes: their results, and what remains when one of them fails.
//!
//! `GRADLOOM_KILLS=200` injects 200 faults.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::{Workspace, wait_until};
use gradloom_testing::Random;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CONFIG: &str = "layers = 1\nheads = 2\nwidth = 16\ncontext = 16\nbatch = 12\nsteps = 30\nlr = 0.01\n\
                      dropout = 0.0\neval-every = 10\nsave-every = 4\nthreads = 1\n";
/// Flags of a run with shards of the states: parameters as small as those of the configuration have none.
const SHARDS: &str = "--width 96 --shard-states";
const TRAIN: &str = "train --config ranks.toml --data text.txt";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.put("ranks.toml", CONFIG.as_bytes());
    workspace
}

/// Returns the losses of a run, of training and of the held-out text.
fn losses(workspace: &Workspace, run: &str) -> Vec<[Option<f32>; 2]> {
    let text = workspace.text(&format!("{run}/metrics.csv"));
    let row = |line: &str| {
        let mut cells = line.split(',').skip(1).map(|cell| cell.parse().ok());
        [cells.next().flatten(), cells.next().flatten()]
    };
    text.lines().skip(1).map(row).collect()
}

#[test]
fn any_number_of_ranks_trains_to_the_loss_of_one() {
    let workspace = workspace();
    workspace.succeed(&format!("{TRAIN} --out one"));
    let one = losses(&workspace, "one");
    assert_eq!(one.len(), 31);
    let is_equal = |run: &str| {
        let other = losses(&workspace, run);
        assert_eq!(other.len(), one.len());
        for (a, b) in one.iter().flatten().zip(other.iter().flatten()) {
            assert_eq!(a.is_some(), b.is_some());
            assert!((a.unwrap_or(0.0) - b.unwrap_or(0.0)).abs() < 1e-3, "{run}: {a:?} {b:?}");
        }
    };
    for ranks in [2, 4] {
        let finished = workspace.succeed(&format!("{TRAIN} --ranks {ranks} --out of{ranks}"));
        is_equal(&format!("of{ranks}"));
        assert_eq!(finished.stdout.matches("\nresult  ").count(), 1, "{}", finished.stdout);
        // The same number of ranks gives the same bits.
        workspace.succeed(&format!("{TRAIN} --ranks {ranks} --out again{ranks}"));
        let file = |run: &str| workspace.read(&format!("{run}{ranks}/model.safetensors"));
        assert_eq!(file("of"), file("again"));
    }
    // So do ranks that keep shards of the states.
    let count = |run: &str, is_wanted: fn(&str) -> bool| {
        let names = fs::read_dir(workspace.path(run)).unwrap();
        names.filter(|file| is_wanted(&file.as_ref().unwrap().file_name().to_string_lossy())).count()
    };
    workspace.succeed(&format!("{TRAIN} {SHARDS} --ranks 1 --out wide"));
    let wide = losses(&workspace, "wide");
    for ranks in [2, 4] {
        let run = format!("shards{ranks}");
        workspace.succeed(&format!("{TRAIN} {SHARDS} --ranks {ranks} --out {run}"));
        let losses = losses(&workspace, &run);
        for (a, b) in wide.iter().flatten().zip(losses.iter().flatten()) {
            assert!((a.unwrap_or(0.0) - b.unwrap_or(0.0)).abs() < 1e-3, "{run}: {a:?} {b:?}");
        }
        assert_eq!(losses.len(), wide.len());
        assert_eq!(count(&run, |name| name.contains("-of-")), ranks, "only the last shards stay");
    }
    let shards = |run: &str| {
        let files = fs::read_dir(workspace.path(run)).unwrap().map(|file| file.unwrap());
        let own = files.filter(|file| file.file_name().to_string_lossy().ends_with("1-of-4"));
        own.map(|file| file.metadata().unwrap().len()).sum::<u64>()
    };
    assert!(shards("shards4") > 100_000, "{} bytes", shards("shards4"));
    // Any number of ranks goes on from a state, with shards or without.
    for (ranks, shards, steps) in
        [(4, "", 31), (2, "--shard-states", 33), (1, "", 34), (4, "--shard-states", 36)]
    {
        workspace.succeed(&format!("train --resume shards4 --ranks {ranks} {shards} --steps {steps}"));
        assert_eq!(losses(&workspace, "shards4").len(), steps + 1);
        let files = if shards.is_empty() { 0 } else { ranks };
        assert_eq!(count("shards4", |name| name.contains("-of-")), files);
    }
    // Another number of ranks goes on from a state.
    workspace.succeed(&format!("{TRAIN} --ranks 3 --steps 17 --out changed"));
    workspace.succeed("train --resume changed --ranks 2 --steps 30");
    assert_eq!(losses(&workspace, "changed").len(), one.len());
}

#[test]
fn a_batch_that_does_not_divide_is_one_error() {
    let workspace = workspace();
    let finished = workspace.run(&format!("{TRAIN} --ranks 5 --out run"));
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert_eq!(
        finished.stderr,
        "error: --batch 12: the texts do not divide among 5 ranks\n  help: give a multiple of the number of \
         ranks\n"
    );
    assert!(!workspace.path("run").exists());
    let inspected = workspace.run("inspect tiny --world 5");
    assert_eq!(inspected.code, Some(2));
    assert!(inspected.stderr.contains("do not divide among 5 ranks"), "{}", inspected.stderr);
    let profile = workspace.succeed("profile --config mlp-sin --ranks 2 --steps 6 --threads 1");
    assert!(profile.stdout.contains("communication that nothing hides"), "{}", profile.stdout);
    workspace.succeed("inspect tiny --world 4 --target cuda");
    let planned = workspace.succeed("inspect gpt2 --batch 32768 --world 1024 --target cuda --shard-states");
    assert!(planned.stdout.contains("predicted for hosts of 8 GPUs with NVLink"), "{}", planned.stdout);
    let wgsl = workspace.run("inspect tiny --world 4 --target wgsl");
    assert!(wgsl.code == Some(2) && wgsl.stderr.contains("WebGPU has no connection"), "{}", wgsl.stderr);
}

/// Runs two ranks, each with flags of its own, as a launcher would that starts commands. Returns the standard
/// error and exit code of each.
fn pair(workspace: &Workspace, port: u16, flags: [&str; 2], prefix: &str) -> [(String, Option<i32>); 2] {
    let children = [0, 1].map(|rank| {
        let command = workspace.command(&format!("{TRAIN} {}", flags[rank]));
        let mut command = match rank {
            1 if !prefix.is_empty() => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("{prefix}; exec \"$0\" \"$@\"")]).arg(command.get_program());
                shell.args(command.get_args()).current_dir(workspace.path(""));
                shell
            }
            _ => command,
        };
        let variables = [
            ("RANK", rank.to_string()),
            ("LOCAL_RANK", rank.to_string()),
            ("WORLD_SIZE", "2".to_string()),
            ("MASTER_ADDR", "127.0.0.1".to_string()),
            ("MASTER_PORT", port.to_string()),
            ("GRADLOOM_WORLD_JOIN_SECONDS", "20".to_string()),
        ];
        command.envs(variables).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
    });
    children.map(|child| {
        let output = child.wait_with_output().unwrap();
        (String::from_utf8(output.stderr).unwrap(), output.status.code())
    })
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn options_that_the_device_does_not_support_are_refused() {
    let workspace = workspace();
    for (options, message) in [
        ("--gpus 2 --device cpu", "--gpus 2: the device is not cuda"),
        ("--gpus 1 --device wgpu", "--gpus 1: the device is not cuda"),
        ("--ranks 2 --round-sums", "--round-sums: sums have 16 bits on CUDA"),
        ("--round-sums --device cuda", "--round-sums: sums have 16 bits on CUDA"),
        ("--gpus 2 --ranks 2", "cannot be used with"),
    ] {
        let refused = workspace.run(&format!("{TRAIN} {options} --out refused"));
        assert_eq!(refused.code, Some(2), "{options}: {}", refused.stderr);
        assert_eq!(refused.stderr.matches(message).count(), 1, "{options}: {}", refused.stderr);
    }
    // A machine without CUDA says so, instead of training on the CPU, also where a run on the CPU goes on.
    workspace.succeed(&format!("{TRAIN} --steps 2 --out cpu"));
    for command in
        [format!("{TRAIN} --gpus 1 --out gpu"), "train --resume cpu --gpus 1 --steps 3".to_string()]
    {
        let run = workspace.run(&command);
        let is_cuda = run.code == Some(0) && run.stdout.contains("NVIDIA");
        assert!(is_cuda || run.stderr.contains("--ranks 1 starts as many"), "{}{}", run.stdout, run.stderr);
    }
}

#[test]
fn ranks_with_other_settings_are_refused_by_name() {
    let workspace = workspace();
    workspace
        .put("other.txt", b"another text, which is long enough to be divided into two parts of some length");
    for (flag, values) in [
        ("--lr 0.5", "--lr is 0.5 on this rank, and 0.01 on rank 0"),
        ("--batch 24", "--batch is 24 on this rank, and 12 on rank 0"),
        ("--precision bf16", "--precision is \"bf16\" on this rank, and null on rank 0"),
        ("--save-every 5", "--save-every is 5 on this rank, and 4 on rank 0"),
        ("--data other.txt", "SHA-256 of the data is "),
        ("--shard-states", "--shard-states is true on this rank, and false on rank 0"),
        ("--auto-resume", "--auto-resume is true on this rank, and false on rank 0"),
    ] {
        let [first, second] = pair(&workspace, free_port(), ["--out run", &format!("--out run {flag}")], "");
        assert!(
            first.0.contains(" gave up: ") && first.0.contains(values),
            "{flag}: {} {}",
            first.0,
            second.0
        );
        assert!(first.0.contains("help: give all ranks the same command line"), "{}", first.0);
        assert_eq!((first.1, second.1, second.0.as_str()), (Some(1), Some(1), ""), "{flag}");
        assert!(!workspace.path("run").exists(), "{flag}");
    }
}

#[test]
fn a_failure_before_the_ranks_meet_is_printed() {
    let workspace = workspace();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let [first, second] = pair(&workspace, port, ["--out run"; 2], "export GRADLOOM_WORLD_JOIN_SECONDS=2");
    assert!(first.0.contains(&format!("cannot listen at port {port}")), "{}", first.0);
    assert!(second.0.contains("has not reached rank 0"), "{}", second.0);
    drop(taken);
    for number in 0..4 {
        let run = format!("run{number}");
        let mut command = workspace.command(&format!("{TRAIN} --steps 1000000 --ranks 2 --out {run}"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (began, mut victim) = (Instant::now(), None);
        wait_until("a process", || {
            victim = rank_of(child.id(), number % 2);
            victim.is_some()
        });
        signal("KILL", victim.unwrap());
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        assert!(!output.status.success());
        assert_eq!(error.matches("error: ").count(), 1, "{error}");
        assert!(error.contains(&format!("rank {}", number % 2)), "{error}");
    }
}

#[test]
fn a_full_disk_on_one_rank_is_reported_with_its_remedy() {
    let workspace = workspace();
    let flags = format!("{SHARDS} --out run");
    let [first, second] = pair(&workspace, free_port(), [&flags, &flags], "ulimit -f 8");
    assert!(first.0.starts_with("error: rank 1 (") && first.0.contains("1-of-2: "), "{}", first.0);
    assert!(first.0.contains("File too large") && first.0.contains("help: "), "{}", first.0);
    assert_eq!((first.0.matches("error: ").count(), second.0.as_str()), (1, ""));
    assert!(!workspace.path("run").exists(), "there is no run without a state");
    workspace.succeed(&format!("{TRAIN} {SHARDS} --ranks 2 --out run"));
}

/// Sends a signal to a process.
fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args([format!("-{name}"), process.to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Returns the process of a rank that a process has started.
fn rank_of(parent: u32, rank: usize) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().find_map(|child| {
        let variables = fs::read(format!("/proc/{child}/environ")).ok()?;
        let is_it = variables.split(|&byte| byte == 0).any(|line| line == format!("RANK={rank}").as_bytes());
        is_it.then(|| child.parse().unwrap())
    })
}

/// Starts a run of three ranks that does not end by itself, and waits until it has made a step.
fn started(workspace: &Workspace, run: &str, flags: &str) -> Child {
    let line = format!("{TRAIN} --steps 1000000 --ranks 3 {flags} --out {run}");
    let mut command = workspace.command(&line);
    command.env("GRADLOOM_WORLD_HEARTBEAT_SECONDS", "2");
    let error = fs::File::create(workspace.path(&format!("{run}.error"))).unwrap();
    let child = command.stdout(Stdio::null()).stderr(error).spawn().expect("the command starts");
    wait_until("a step", || workspace.rows(run) > 1);
    child
}

#[test]
fn an_interrupt_stops_all_ranks_after_the_same_step() {
    let workspace = workspace();
    let mut child = started(&workspace, "run", SHARDS);
    signal("INT", child.id());
    assert!(child.wait().unwrap().success(), "{}", workspace.text("run.error"));
    assert_eq!(workspace.text("run.error").matches("finishing the step").count(), 1);
    let steps = workspace.rows("run") - 1;
    workspace.succeed(&format!("train --resume run --ranks 2 --steps {}", steps + 3));
}

/// Tests what a launcher relies on that starts failed processes again.
#[test]
fn the_same_command_goes_on_from_the_last_state() {
    let workspace = workspace();
    let mut child = started(&workspace, "run", &format!("{SHARDS} --auto-resume"));
    wait_until("a saved state", || workspace.rows("run") > 40);
    signal("KILL", rank_of(child.id(), 2).expect("the rank runs"));
    assert!(!child.wait().unwrap().success());
    let steps = workspace.rows("run") + 10;
    let line = format!("{TRAIN} {SHARDS} --ranks 3 --out run --auto-resume --steps {steps}");
    let finished = workspace.succeed(&line);
    let from = finished.stdout.split(", from step ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let from: usize = from.expect("it resumes").replace(',', "").parse().unwrap();
    assert!(
        from > 0 && from.is_multiple_of(4) && losses(&workspace, "run").len() == steps + 1,
        "{}",
        finished.stdout
    );
    let alone = workspace.run("train --auto-resume");
    assert!(alone.code == Some(2) && alone.stderr.contains("there is no --out"), "{}", alone.stderr);
}

/// Tests that a rank that is killed or frozen at any moment is named, and that the run goes on from its last
/// state.
#[test]
fn a_rank_that_fails_is_named_once_and_loses_nothing_that_was_saved() {
    let workspace = workspace();
    let faults = std::env::var("GRADLOOM_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let mut random = Random(faults);
    for number in 0..faults {
        let (run, rank) = (format!("run{number}"), random.below(3));
        // The first rank may be saving, so a minute passes before it is ended. That is too long here.
        let freezes = number % 4 == 3 && rank != 0;
        let mut child = started(&workspace, &run, if number % 3 == 0 { SHARDS } else { "" });
        std::thread::sleep(Duration::from_secs_f64(random.uniform(0.0, 0.3)));
        let victim = rank_of(child.id(), rank).expect("the rank runs");
        let began = Instant::now();
        signal(if freezes { "STOP" } else { "KILL" }, victim);
        let status = child.wait().unwrap();
        assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
        assert!(!status.success());
        let error = workspace.text(&format!("{run}.error"));
        assert_eq!(error.matches("error: ").count(), 1, "fault {number} of rank {rank}: {error}");
        assert!(error.contains(&format!("error: rank {rank} (")), "fault {number}: {error}");
        let folder = workspace.path(&run);
        resumes(&workspace, &run, &folder);
        fs::remove_dir_all(folder).unwrap();
    }
}

/// Checks that a run resumes from its last state.
fn resumes(workspace: &Workspace, run: &str, folder: &Path) {
    assert!(folder.join("state.safetensors").exists());
    let info = workspace.succeed(&format!("info {run}/state.safetensors"));
    assert!(!info.stdout.is_empty());
    let steps = workspace.rows(run) + 1;
    let finished = workspace.succeed(&format!("train --resume {run} --ranks 2 --steps {steps}"));
    assert!(finished.stdout.contains("result  held-out loss"), "{}", finished.stdout);
}

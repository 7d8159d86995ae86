//! `events.jsonl`: the events of a run with their times, one JSON object per line; `train --json` prints the
//! same.
//!
//! In: events. Out: lines at the end of the file. Invariant: lines are only appended, except that an
//! incomplete line left by an interruption is removed before the next one. `docs/runs.md` describes the keys,
//! which may be added, but never renamed.

use super::folder::{RunFolder, unusable};
use super::metrics::set_aside;
use crate::failure::Result;
use crate::output::escaped;
use gradloom::runtime::regular_file;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// An event of a run.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Event {
    /// A run started, or resumed.
    Began(Box<Beginning>),
    /// A step was completed.
    Step {
        training_loss: f32,
        learning_rate: f64,
        /// Norm before clipping; `None` if a scaled loss overflowed.
        gradient_norm: Option<f32>,
        /// Tokens per second in the last steps; `None` at the first step.
        tokens_per_s: Option<f64>,
    },
    Evaluated {
        held_out_loss: f32,
    },
    /// The state after this step was saved to the folder.
    Saved {
        files: [&'static str; 2],
    },
    Ended(Ending),
}

/// Record of the start of a part of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Beginning {
    /// Number of recorded steps that a resumed run repeats, because they follow the state from which it
    /// resumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost_steps: Option<u64>,
    pub(crate) version: &'static str,
    pub(crate) preset: String,
    pub(crate) parameters: usize,
    pub(crate) steps: u64,
    pub(crate) batch: usize,
    pub(crate) context: usize,
    pub(crate) device: String,
    pub(crate) step_bytes: u64,
    pub(crate) folder: String,
    pub(crate) data: Taken,
}

/// Summary of the data of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Taken {
    pub(crate) files: usize,
    pub(crate) bytes: usize,
    pub(crate) held_out_bytes: usize,
    pub(crate) tokens: usize,
    pub(crate) held_out_tokens: usize,
    pub(crate) sha256: String,
    /// Names of the first few files.
    pub(crate) names: Vec<String>,
    /// Number of files that were left out because they are not text.
    pub(crate) left_out: usize,
}

/// Record of the end of a part of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Ending {
    pub(crate) reason: Reason,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    pub(crate) seconds: f64,
    /// Time until the first step was completed.
    pub(crate) start_seconds: f64,
    /// Time of the steps after the first.
    pub(crate) step_seconds: f64,
    /// Time of the evaluations.
    pub(crate) evaluation_seconds: f64,
    /// Time for which the steps waited for saves.
    pub(crate) saving_seconds: f64,
    /// Time spent generating the text at the end.
    pub(crate) sample_seconds: f64,
    /// Average speed, including evaluation and saving but not the first step.
    pub(crate) tokens_per_s: Option<f64>,
}

/// Reason why a part of a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    /// All steps were completed.
    Done,
    /// The run was interrupted by Ctrl-C or a request to terminate.
    Interrupted,
    Failed,
}

/// A line of the file.
#[derive(Serialize)]
struct Line<'e> {
    event: &'static str,
    /// Seconds since 1970-01-01 00:00 UTC.
    time: f64,
    step: u64,
    #[serde(flatten)]
    rest: &'e Event,
}

/// The events file, opened at its end.
#[derive(Debug)]
pub(crate) struct Events {
    path: PathBuf,
    file: File,
    /// True if each line is also printed to the standard output.
    printed: bool,
}

pub(crate) const EVENTS: &str = "events.jsonl";
/// Maximum length of a line in bytes.
const LONGEST: u64 = 1 << 20;

impl Events {
    /// Creates an empty file.
    pub(crate) fn create(folder: &RunFolder, printed: bool) -> Result<Self> {
        folder.write_text(EVENTS, "")?;
        Self::open(folder, printed).map_err(|error| unusable(&folder.file(EVENTS), &error))
    }

    /// Opens a file to continue it, or creates it if it is missing. Returns the last step recorded in it, and
    /// a warning if the file was damaged and is kept under another name.
    pub(crate) fn resume(folder: &RunFolder, printed: bool) -> Result<(Self, Option<u64>, Option<String>)> {
        let path = folder.file(EVENTS);
        let (mut step, mut warning) = (None, None);
        match repaired(&path) {
            Ok(last) => step = last,
            Err(error) => {
                let aside = set_aside(&path)?;
                warning = Some(format!("{}: {error}; it is now {aside}", path.display()));
            }
        }
        let events = Self::open(folder, printed).map_err(|error| unusable(&path, &error))?;
        Ok((events, step, warning))
    }

    fn open(folder: &RunFolder, printed: bool) -> io::Result<Self> {
        let path = folder.file(EVENTS);
        let file = regular_file::open(&path, OpenOptions::new().create(true).append(true))?;
        Ok(Self { path, file, printed })
    }

    /// Appends an event of a step. The line is in the file when this returns, and on the disk after
    /// [`sync`](Self::sync).
    pub(crate) fn push(&self, step: u64, event: &Event) -> Result<()> {
        let line = line(step, event);
        if self.printed {
            // Ignore errors, because the reader may have closed the pipe.
            let _ = io::stdout().write_all(escaped(&line).as_bytes());
        }
        let push = || -> io::Result<()> {
            let before = self.file.metadata()?.len();
            (&self.file).write_all(line.as_bytes()).inspect_err(|_| {
                // Remove an incomplete line, which would damage the next one.
                let _ = self.file.set_len(before);
            })
        };
        push().map_err(|error| unusable(&self.path, &error))
    }

    /// Flushes the events to the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| unusable(&self.path, &error))
    }
}

fn line(step: u64, event: &Event) -> String {
    let name = match event {
        Event::Began(beginning) if beginning.lost_steps.is_some() => "resumed",
        Event::Began(_) => "started",
        Event::Step { .. } => "step",
        Event::Evaluated { .. } => "evaluated",
        Event::Saved { .. } => "saved",
        Event::Ended(_) => "ended",
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let line = Line { event: name, time: now.as_millis() as f64 / 1e3, step, rest: event };
    serde_json::to_string(&line).expect("events are plain data") + "\n"
}

/// Removes an incomplete line left by an interruption, and returns the last completed step. A state is saved
/// while later steps run, so the line before the last one may have a later step.
fn repaired(path: &Path) -> io::Result<Option<u64>> {
    let file = match regular_file::open(path, OpenOptions::new().read(true).write(true)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| io::Error::new(error.kind(), format!("cannot be read: {error}")))?,
    };
    let bytes = file.metadata()?.len();
    let start = bytes.saturating_sub(LONGEST);
    (&file).seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    (&file).take(LONGEST).read_to_end(&mut tail)?;
    let end_of = |tail: &[u8]| tail.iter().rposition(|&byte| byte == b'\n').map(|at| at + 1);
    let end = end_of(&tail).unwrap_or(0);
    let damaged = || io::Error::new(ErrorKind::InvalidData, "its last line is damaged");
    if end == 0 && start > 0 {
        return Err(damaged());
    }
    if end < tail.len() {
        file.set_len(start + end as u64)?;
    }
    if end == 0 {
        return Ok(None);
    }
    #[derive(Deserialize)]
    struct Told<'t> {
        event: &'t str,
        step: u64,
    }
    let start_of = |end: usize| end_of(&tail[..end - 1]).unwrap_or(0);
    #[expect(clippy::disallowed_methods, reason = "the events are our own")]
    let told = |start: usize, end: usize| serde_json::from_slice::<Told<'_>>(&tail[start..end]);
    let start = start_of(end);
    let last = told(start, end).map_err(|_| damaged())?;
    let before = (last.event == "saved" && start > 0).then(|| told(start_of(start), start).ok());
    Ok(before.flatten().map(|before| before.step).max(Some(last.step)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const STEP: Event = Event::Step {
        training_loss: 0.1,
        learning_rate: 3e-4,
        gradient_norm: Some(f32::NAN),
        tokens_per_s: None,
    };

    fn folder() -> (tempfile::TempDir, RunFolder) {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::create(Some(folder.path()), "tiny").unwrap();
        (folder, run)
    }

    #[test]
    fn a_line_has_its_event_time_and_step_and_no_number_that_json_lacks() {
        let line: serde_json::Value = serde_json::from_str(&line(7, &STEP)).unwrap();
        assert_eq!((&line["event"], &line["step"]), (&"step".into(), &7.into()));
        assert_eq!(line["training_loss"].as_f64(), Some(0.1));
        assert!(line["gradient_norm"].is_null() && line["tokens_per_s"].is_null());
        assert!(line["time"].as_f64().unwrap() > 1.7e9);
    }

    #[test]
    fn a_line_that_was_cut_short_is_removed_and_the_others_stay() {
        let (_keep, folder) = folder();
        let events = Events::create(&folder, false).unwrap();
        (1..=3).for_each(|step| events.push(step, &STEP).unwrap());
        let whole = fs::read_to_string(folder.file(EVENTS)).unwrap();
        let last = whole.trim_end().rfind('\n').unwrap() + 1;
        for cut in last..whole.len() {
            fs::write(folder.file(EVENTS), &whole[..cut]).unwrap();
            let (_, step, warning) = Events::resume(&folder, false).unwrap();
            assert_eq!((step, warning), (Some(2), None));
            assert_eq!(fs::read_to_string(folder.file(EVENTS)).unwrap(), whole[..last]);
        }
        fs::write(folder.file(EVENTS), &whole).unwrap();
        let (events, step, _) = Events::resume(&folder, false).unwrap();
        assert_eq!(step, Some(3));
        events.push(4, &STEP).unwrap();
        let longer = fs::read_to_string(folder.file(EVENTS)).unwrap();
        assert!(longer.starts_with(&whole) && longer.lines().count() == 4);
        for (text, left) in [("", ""), ("{\"eve", "")] {
            fs::write(folder.file(EVENTS), text).unwrap();
            let (_, step, warning) = Events::resume(&folder, false).unwrap();
            assert_eq!((step, warning), (None, None));
            assert_eq!(fs::read_to_string(folder.file(EVENTS)).unwrap(), left);
        }
        fs::remove_file(folder.file(EVENTS)).unwrap();
        assert_eq!(Events::resume(&folder, false).unwrap().1, None);
    }

    /// Tests that the last step is found although a state is saved while later steps run.
    #[test]
    fn the_last_step_is_told_by_the_line_before_a_saved_one() {
        let (_keep, folder) = folder();
        let events = Events::create(&folder, false).unwrap();
        let saved = Event::Saved { files: ["a", "b"] };
        for (step, event, last) in [(7, &saved, 7), (9, &STEP, 9), (8, &saved, 9), (10, &STEP, 10)] {
            events.push(step, event).unwrap();
            assert_eq!(Events::resume(&folder, false).unwrap().1, Some(last));
        }
        // Steps before an event `resumed` are not counted as lost again.
        let resumed = "{\"event\":\"resumed\",\"time\":1.0,\"step\":8}\n";
        fs::write(folder.file(EVENTS), fs::read_to_string(folder.file(EVENTS)).unwrap() + resumed).unwrap();
        assert_eq!(Events::resume(&folder, false).unwrap().1, Some(8));
    }

    #[test]
    fn a_damaged_file_is_kept() {
        let (_keep, folder) = folder();
        for (i, text) in ["my notes\n".to_string(), "x".repeat(LONGEST as usize + 1)].iter().enumerate() {
            fs::write(folder.file(EVENTS), text).unwrap();
            let (_, step, warning) = Events::resume(&folder, false).unwrap();
            let aside = ["events.damaged.jsonl", "events.damaged-2.jsonl"][i];
            let warning = warning.expect("a warning");
            assert!(warning.ends_with(&format!("its last line is damaged; it is now {aside}")), "{warning}");
            assert_eq!((step, &fs::read_to_string(folder.file(aside)).unwrap()), (None, text));
        }
    }
}

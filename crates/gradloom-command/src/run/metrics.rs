//! `metrics.csv` and its chart: one row per step, with nothing that depends on the clock, so that equal runs
//! have equal files.

use super::chart::{Series, chart};
use super::folder::{RunFolder, unusable};
use crate::failure::Result;
use crate::format::{number, thousands};
use gradloom::runtime::regular_file;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Measurements at a step. Row 0 holds the held-out loss before training.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measurement {
    pub(crate) step: u64,
    /// Loss of the step's batch before its update, in nats per token.
    pub(crate) training: Option<f32>,
    /// Loss on the held-out windows after the update, in nats per token.
    pub(crate) held_out: Option<f32>,
    pub(crate) lr: f64,
}

/// Maximum size in bytes of a file to continue, about twenty million rows.
const LARGEST: u64 = 1 << 30;

const HEADER: &str = "step,training_loss,held_out_loss,learning_rate";

/// The rows so far, in memory and in the file.
#[derive(Debug)]
pub(crate) struct Metrics {
    rows: Mutex<Vec<Measurement>>,
    path: PathBuf,
    file: File,
}

impl Metrics {
    /// Creates an empty file.
    pub(crate) fn create(folder: &RunFolder) -> Result<Self> {
        folder.write_text("metrics.csv", &format!("{HEADER}\n"))?;
        Self::append_to(folder, Vec::new())
    }

    /// Opens a file to continue it after a step: later rows, which an interrupted run may have left, are
    /// dropped. A damaged file is renamed, and its intact rows are kept. Also returns a warning about that,
    /// or about missing rows.
    pub(crate) fn resume(folder: &RunFolder, step: u64) -> Result<(Self, Option<String>)> {
        let path = folder.file("metrics.csv");
        let (mut rows, problem) = read(&path);
        rows.retain(|row| row.step <= step);
        let warning = match problem {
            Some(problem) => {
                let aside = set_aside(&path)?;
                let kept = rows.len();
                Some(format!(
                    "{}: {problem}; it is now {aside}, and {kept} of its rows go on",
                    path.display()
                ))
            }
            None if step > 0 && rows.last().is_none_or(|row| row.step != step) => {
                Some(format!("{}: the rows up to step {step} are missing", path.display()))
            }
            None => None,
        };
        let mut text = format!("{HEADER}\n");
        rows.iter().for_each(|row| text.push_str(&line(row)));
        folder.write_text("metrics.csv", &text)?;
        Ok((Self::append_to(folder, rows)?, warning))
    }

    fn append_to(folder: &RunFolder, rows: Vec<Measurement>) -> Result<Self> {
        let path = folder.file("metrics.csv");
        let file = regular_file::open(&path, OpenOptions::new().append(true))
            .map_err(|error| unusable(&path, &error))?;
        Ok(Self { rows: Mutex::new(rows), path, file })
    }

    fn rows(&self) -> MutexGuard<'_, Vec<Measurement>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if nothing has been measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows().is_empty()
    }

    /// Appends a row. It is in the file when this returns, and on the disk after [`sync`](Self::sync).
    pub(crate) fn push(&self, row: Measurement) -> Result<()> {
        (&self.file).write_all(line(&row).as_bytes()).map_err(|error| unusable(&self.path, &error))?;
        self.rows().push(row);
        Ok(())
    }

    /// Flushes the rows to the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| unusable(&self.path, &error))
    }

    /// Returns the last held-out loss.
    pub(crate) fn held_out(&self) -> Option<f32> {
        self.rows().iter().rev().find_map(|row| row.held_out)
    }

    /// Draws `loss.svg`, with losses in nats per `token`.
    pub(crate) fn draw(&self, folder: &RunFolder, name: &str, token: &str) -> Result<()> {
        let points = |value: fn(&Measurement) -> Option<f32>| {
            let rows = self.rows();
            let points = rows.iter().filter_map(|row| Some((row.step as f64, f64::from(value(row)?))));
            points.collect::<Vec<_>>()
        };
        let steps = self.rows().last().map_or(0, |row| row.step);
        let held_out = self.held_out().map_or_else(String::new, |loss| format!(", held out {loss:.3}"));
        let title = format!("{name}: {} steps{held_out}", thousands(steps));
        let series = [
            Series { name: "training", points: points(|row| row.training) },
            Series { name: "held out", points: points(|row| row.held_out) },
        ];
        folder.write_text("loss.svg", &chart(&title, "step", &format!("loss (nats a {token})"), &series))
    }
}

fn line(row: &Measurement) -> String {
    let loss = |value: Option<f32>| value.map_or_else(String::new, |v| v.to_string());
    format!("{},{},{},{}\n", row.step, loss(row.training), loss(row.held_out), number(row.lr))
}

/// Returns the intact rows of a file, and the problem found in it, if any.
fn read(path: &Path) -> (Vec<Measurement>, Option<String>) {
    let bytes = match regular_file::read(path, LARGEST) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (Vec::new(), None),
        Err(error) => return (Vec::new(), Some(format!("cannot be read: {error}"))),
    };
    let text = String::from_utf8_lossy(&bytes);
    let (mut rows, mut problem): (Vec<Measurement>, _) = (Vec::new(), None);
    // Skip an incomplete row left by an interruption, which has no newline and is not a problem.
    let complete = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    for (i, line) in complete.enumerate() {
        match parse(line) {
            _ if i == 0 && line == HEADER => {}
            Some(row) if i > 0 && rows.last().is_none_or(|last| last.step < row.step) => rows.push(row),
            _ => {
                problem.get_or_insert_with(|| format!("line {} is damaged", i + 1));
            }
        }
    }
    (rows, problem)
}

/// Renames a damaged file, and returns its new name.
pub(super) fn set_aside(path: &Path) -> Result<String> {
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (stem, end) = (part(path.file_stem()), part(path.extension()));
    let name = |n: u32| match n {
        1 => format!("{stem}.damaged.{end}"),
        n => format!("{stem}.damaged-{n}.{end}"),
    };
    let free = (1u32..).map(name).find(|name| !path.with_file_name(name).exists());
    let free = free.expect("a free number");
    fs::rename(path, path.with_file_name(&free)).map_err(|error| unusable(path, &error))?;
    Ok(free)
}

fn parse(line: &str) -> Option<Measurement> {
    let fields: Vec<&str> = line.split(',').collect();
    let [step, training, held_out, lr] = fields[..] else { return None };
    let loss = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
    Some(Measurement {
        step: step.parse().ok()?,
        training: loss(training)?,
        held_out: loss(held_out)?,
        lr: lr.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(step: u64) -> Measurement {
        let loss = 5.545_177_5 / step as f32;
        Measurement {
            step,
            training: Some(loss),
            held_out: (step == 2).then_some(0.1),
            lr: 3e-4 * step as f64,
        }
    }

    #[test]
    fn resuming_cuts_off_what_came_after() {
        let folder = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(Some(folder.path()), "tiny").unwrap();
        let metrics = Metrics::create(&folder).unwrap();
        (1..=5).for_each(|step| metrics.push(row(step)).unwrap());
        let whole = fs::read_to_string(folder.file("metrics.csv")).unwrap();
        fs::write(folder.file("metrics.csv"), format!("{whole}6,0.1")).unwrap();

        let (resumed, warning) = Metrics::resume(&folder, 3).unwrap();
        assert_eq!(warning, None);
        assert_eq!(*resumed.rows(), [row(1), row(2), row(3)]);
        assert_eq!(resumed.held_out(), Some(0.1));
        (4..=5).for_each(|step| resumed.push(row(step)).unwrap());
        assert_eq!(fs::read_to_string(folder.file("metrics.csv")).unwrap(), whole);
        assert!(Metrics::resume(&folder, 0).unwrap().0.is_empty());
    }

    fn warning(folder: &RunFolder, step: u64) -> Option<String> {
        Metrics::resume(folder, step).unwrap().1
    }

    #[test]
    fn missing_rows_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(Some(folder.path()), "tiny").unwrap();
        assert_eq!(warning(&folder, 0), None, "a run that was killed before it measured anything");
        let metrics = Metrics::create(&folder).unwrap();
        (1..=5).for_each(|step| metrics.push(row(step)).unwrap());
        let missing = warning(&folder, 6).unwrap();
        assert!(missing.ends_with("metrics.csv: the rows up to step 6 are missing"), "{missing}");
        assert_eq!(warning(&folder, 5), None, "all rows are still there");
        fs::remove_file(folder.file("metrics.csv")).unwrap();
        assert!(warning(&folder, 5).is_some());
    }

    #[test]
    fn a_damaged_file_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(Some(folder.path()), "tiny").unwrap();
        let metrics = Metrics::create(&folder).unwrap();
        (1..=5).for_each(|step| metrics.push(row(step)).unwrap());
        let path = folder.file("metrics.csv");
        let whole = fs::read_to_string(&path).unwrap();
        let damages = [
            (whole.replace("\n3,", "\nx,"), "line 4 is damaged", vec![row(1), row(2), row(4), row(5)]),
            (whole.replace("\n3,", "\n2,"), "line 4 is damaged", vec![row(1), row(2), row(4), row(5)]),
            (whole.replacen("step", "stop", 1), "line 1 is damaged", (1..=5).map(row).collect()),
        ];
        for (i, (text, problem, rows)) in (1..).zip(damages) {
            fs::write(&path, &text).unwrap();
            let (resumed, warning) = Metrics::resume(&folder, 5).unwrap();
            assert_eq!(*resumed.rows(), rows);
            let name =
                if i == 1 { "metrics.damaged.csv".to_string() } else { format!("metrics.damaged-{i}.csv") };
            let warning = warning.expect("a warning");
            assert!(warning.contains(problem) && warning.contains(&name), "{warning}");
            assert_eq!(fs::read_to_string(folder.file(&name)).unwrap(), text);
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let (resumed, warning) = Metrics::resume(&folder, 5).unwrap();
        assert!(resumed.is_empty() && warning.unwrap().contains("cannot be read"));
        assert!(folder.file("metrics.damaged-4.csv").is_dir());
    }
}

//! `metrics.csv` and its chart: one row a step, nothing in it that depends on the clock, so that two equal runs have equal files.

use super::chart::{Series, chart};
use super::folder::{RunFolder, unusable};
use crate::failure::Result;
use crate::format::thousands;
use crate::output::say;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

/// What was measured at a step. Row 0 holds the held-out loss before training.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) step: u64,
    /// Loss of the step's batch before its update, nats a token.
    pub(crate) training: Option<f32>,
    /// Loss on the held-out windows after the update, nats a token.
    pub(crate) held_out: Option<f32>,
    pub(crate) lr: f64,
}

const HEADER: &str = "step,training_loss,held_out_loss,learning_rate";

/// The rows so far, in memory and in the file.
#[derive(Debug)]
pub(crate) struct Metrics {
    rows: Vec<Row>,
    path: PathBuf,
    file: File,
}

impl Metrics {
    /// Begins an empty file.
    pub(crate) fn create(folder: &RunFolder) -> Result<Self> {
        folder.write_text("metrics.csv", &format!("{HEADER}\n"))?;
        Self::append_to(folder, Vec::new())
    }

    /// Goes on after a step: later rows, which an interrupted run may have left, are cut off.
    pub(crate) fn resume(folder: &RunFolder, step: u64) -> Result<Self> {
        let path = folder.file("metrics.csv");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                say!("warning: {}: {error}; the rows up to step {step} are missing", path.display());
                String::new()
            }
        };
        // A row that an interruption cut short has no newline.
        let complete = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let rows: Vec<Row> = complete
            .skip(1)
            .filter_map(|line| parse(line.trim_end()))
            .filter(|row| row.step <= step)
            .collect();
        let expected = u64::from(!text.is_empty()) * (step + 1);
        if (rows.len() as u64) < expected {
            let aside = path.with_extension("csv.damaged");
            fs::copy(&path, &aside).map_err(|error| unusable(&aside, &error))?;
            say!(
                "warning: {} has {} of {expected} rows up to step {step}; the file is kept as {}",
                path.display(),
                rows.len(),
                aside.display()
            );
        }
        let mut text = format!("{HEADER}\n");
        rows.iter().for_each(|row| text.push_str(&line(row)));
        folder.write_text("metrics.csv", &text)?;
        Self::append_to(folder, rows)
    }

    fn append_to(folder: &RunFolder, rows: Vec<Row>) -> Result<Self> {
        let path = folder.file("metrics.csv");
        let file = OpenOptions::new().append(true).open(&path).map_err(|error| unusable(&path, &error))?;
        Ok(Self { rows, path, file })
    }

    /// Whether nothing was measured yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row; it is in the file when this returns, and on the disk after [`sync`](Self::sync).
    pub(crate) fn push(&mut self, row: Row) -> Result<()> {
        self.file.write_all(line(&row).as_bytes()).map_err(|error| unusable(&self.path, &error))?;
        self.rows.push(row);
        Ok(())
    }

    /// Makes the rows durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| unusable(&self.path, &error))
    }

    /// The last held-out loss.
    pub(crate) fn held_out(&self) -> Option<f32> {
        self.rows.iter().rev().find_map(|row| row.held_out)
    }

    /// Draws `loss.svg`.
    pub(crate) fn draw(&self, folder: &RunFolder, name: &str) -> Result<()> {
        let points = |value: fn(&Row) -> Option<f32>| {
            let rows = self.rows.iter();
            rows.filter_map(|row| Some((row.step as f64, f64::from(value(row)?)))).collect::<Vec<_>>()
        };
        let steps = self.rows.last().map_or(0, |row| row.step);
        let held_out = self.held_out().map_or_else(String::new, |loss| format!(", held out {loss:.3}"));
        let title = format!("{name}: {} steps{held_out}", thousands(steps));
        let series = [
            Series { name: "training", points: points(|row| row.training) },
            Series { name: "held out", points: points(|row| row.held_out) },
        ];
        folder.write_text("loss.svg", &chart(&title, "step", "loss (nats a byte)", &series))
    }
}

fn line(row: &Row) -> String {
    let number = |value: Option<f32>| value.map_or_else(String::new, |v| v.to_string());
    format!("{},{},{},{}\n", row.step, number(row.training), number(row.held_out), row.lr)
}

fn parse(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split(',').collect();
    let [step, training, held_out, lr] = fields[..] else { return None };
    let loss = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
    Some(Row {
        step: step.parse().ok()?,
        training: loss(training)?,
        held_out: loss(held_out)?,
        lr: lr.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(step: u64) -> Row {
        let loss = 5.545_177_5 / step as f32;
        Row { step, training: Some(loss), held_out: (step == 2).then_some(0.1), lr: 3e-4 * step as f64 }
    }

    #[test]
    fn resuming_cuts_off_what_came_after() {
        let folder = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(Some(folder.path()), "tiny").unwrap();
        let mut metrics = Metrics::create(&folder).unwrap();
        (1..=5).for_each(|step| metrics.push(row(step)).unwrap());
        let whole = fs::read_to_string(folder.file("metrics.csv")).unwrap();
        fs::write(folder.file("metrics.csv"), format!("{whole}6,0.1")).unwrap();

        let mut resumed = Metrics::resume(&folder, 3).unwrap();
        assert_eq!(resumed.rows, [row(1), row(2), row(3)]);
        assert_eq!(resumed.held_out(), Some(0.1));
        (4..=5).for_each(|step| resumed.push(row(step)).unwrap());
        assert_eq!(fs::read_to_string(folder.file("metrics.csv")).unwrap(), whole);
        assert!(Metrics::resume(&folder, 0).unwrap().is_empty());
    }
}

//! Progress of a run: a bar on a terminal, plain lines elsewhere.

use super::rate::Rate;
use crate::format::{count, duration, thousands};
use crate::output::{is_for_people, say};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shows the run.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    total: u64,
    tokens_per_step: f64,
    rate: Rate,
    held_out: Option<f32>,
    began: Instant,
    first: u64,
}

impl Progress {
    pub(super) fn new(total: u64, done: u64, tokens_per_step: usize) -> Self {
        let bar = (is_for_people() && std::io::stdout().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{wide_bar:.blue/dim} {msg}")
                .expect("a valid template")
                .progress_chars("━╸─");
            let target = ProgressDrawTarget::stdout();
            ProgressBar::with_draw_target(Some(total), target).with_style(style).with_position(done)
        });
        Self {
            bar,
            total,
            tokens_per_step: tokens_per_step as f64,
            rate: Rate::default(),
            held_out: None,
            began: Instant::now(),
            first: done,
        }
    }

    /// A step was made.
    pub(super) fn step(&mut self, step: u64, loss: f32, took: Duration) {
        self.rate.step(took);
        if let Some(bar) = &self.bar {
            bar.set_position(step);
            let held_out = self.held_out.map_or_else(|| "-".to_string(), |loss| format!("{loss:.3}"));
            bar.set_message(format!(
                "{step}/{} loss {loss:.3} held out {held_out}{}",
                self.total,
                self.pace(step, " ")
            ));
        }
    }

    /// The held-out loss was measured after a step.
    pub(super) fn measured(&mut self, step: u64, loss: Option<f32>, held_out: f32) {
        self.held_out = Some(held_out);
        let loss = loss.map_or_else(|| "   -  ".to_string(), |loss| format!("{loss:.4}"));
        let width = self.total.to_string().len();
        let mut line = format!("step {step:>width$}/{}  loss {loss}  held out {held_out:.4}", self.total);
        line.push_str(&self.pace(step, "  "));
        self.say(&line);
    }

    /// Prints a line, above the bar if there is one.
    pub(super) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => say!("{line}"),
        }
    }

    /// Work beside the steps, such as measuring, took this long.
    pub(super) fn aside(&mut self, took: Duration) {
        self.rate.aside(took);
    }

    /// Removes the bar and prints the time that the run took.
    pub(super) fn finish(&self, step: u64) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if step > self.first {
            let made = count((step - self.first) as usize, "step");
            let speed = self.average_speed().map_or_else(String::new, |speed| format!(", {}", rate(speed)));
            say!("time    {} for {made}{speed}", duration(self.began.elapsed()));
        }
    }

    /// Time since the beginning of this part of the run.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Tokens a second now.
    pub(super) fn speed(&self) -> Option<f64> {
        self.rate.now().map(|seconds| self.tokens_per_step / seconds.max(1e-9))
    }

    /// Tokens a second in this part of the run, its first step aside.
    pub(super) fn average_speed(&self) -> Option<f64> {
        self.rate.average().map(|seconds| self.tokens_per_step / seconds.max(1e-9))
    }

    /// Speed and time left, each after a gap; nothing while only the first step is known.
    fn pace(&self, step: u64, gap: &str) -> String {
        match (self.speed(), self.rate.left(self.total - step)) {
            (Some(speed), Some(left)) => format!("{gap}{}{gap}{} left", rate(speed), duration(left)),
            _ => String::new(),
        }
    }
}

fn rate(tokens_per_second: f64) -> String {
    format!("{} tokens/s", thousands(tokens_per_second as u64))
}

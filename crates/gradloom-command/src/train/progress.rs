//! Progress of a run: a bar on a terminal, plain lines elsewhere.

use super::rate::Rate;
use crate::format::{count, duration, thousands};
use crate::output::{is_for_people, say};
use crate::run::{Ending, Reason};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Display of a run's progress.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    total: u64,
    tokens_per_step: f64,
    rate: Rate,
    held_out: Option<f32>,
    began: Instant,
    first: u64,
    /// End of the last step.
    last: Instant,
    /// Time until the first step was completed.
    start: Option<Duration>,
    pub(super) spent: Spent,
}

/// Time spent between and after the steps, since the first one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) evaluation: Duration,
    /// Time spent waiting for copies of the state, and for the last one to be written.
    pub(super) saving: Duration,
    /// Time spent generating the text at the end.
    pub(super) sample: Duration,
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
            last: Instant::now(),
            start: None,
            spent: Spent::default(),
        }
    }

    /// Records a completed step, which took the time `took`.
    pub(super) fn step(&mut self, step: u64, loss: f32, took: Duration) {
        let before = std::mem::replace(&mut self.last, Instant::now());
        self.rate.step(took, (self.last - before).saturating_sub(took));
        if self.start.is_none() {
            self.start = Some(self.elapsed());
            self.spent = Spent::default();
        }
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

    /// Records the held-out loss after a step.
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

    /// Removes the bar.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Prints the time that the run took, and its parts.
    pub(super) fn finish(&self, step: u64) {
        if step > self.first {
            let made = count((step - self.first) as usize, "step");
            let speed = self.average_speed().map_or_else(String::new, |speed| format!(", {}", rate(speed)));
            say!("time    {} for {made}{speed}", duration(self.elapsed()));
            let Spent { evaluation, saving, sample } = self.spent;
            let [start, own, evaluation, saving, sample] =
                [self.start(), self.own(), evaluation, saving, sample].map(|time| time.as_secs_f64());
            say!(
                "        {start:.2} s until the first step was made; since then {own:.2} s for steps, \
                 {evaluation:.2} s for evaluation, {saving:.2} s for saving, {sample:.2} s for the sample"
            );
        }
    }

    /// Returns the record of the run's end for its events.
    pub(super) fn ending(&self, reason: Reason, message: Option<String>) -> Ending {
        let seconds = |time: Duration| time.as_millis() as f64 / 1e3;
        Ending {
            reason,
            message,
            seconds: seconds(self.elapsed()),
            start_seconds: seconds(self.start()),
            step_seconds: seconds(self.own()),
            evaluation_seconds: seconds(self.spent.evaluation),
            saving_seconds: seconds(self.spent.saving),
            sample_seconds: seconds(self.spent.sample),
            tokens_per_s: self.average_speed(),
        }
    }

    /// Returns the time until the first step was completed.
    fn start(&self) -> Duration {
        self.start.unwrap_or_else(|| self.elapsed())
    }

    /// Returns the time of the steps themselves, except for the first.
    fn own(&self) -> Duration {
        self.rate.own()
    }

    /// Returns the time since the start of this part of the run.
    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the current speed in tokens per second.
    pub(super) fn speed(&self) -> Option<f64> {
        self.rate.now().map(|seconds| self.tokens_per_step / seconds.max(1e-9))
    }

    /// Returns the average tokens per second in this part of the run, including evaluation and saving, except
    /// for its first step and the text at the end.
    fn average_speed(&self) -> Option<f64> {
        let seconds = self.elapsed().saturating_sub(self.start()).saturating_sub(self.spent.sample);
        let tokens = self.tokens_per_step * self.rate.counted() as f64;
        (self.rate.counted() > 0).then(|| tokens / seconds.as_secs_f64().max(1e-9))
    }

    /// Formats the speed and the remaining time, each after `gap`; empty while only the first step is
    /// complete.
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

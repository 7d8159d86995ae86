//! How far the run is: a bar on a terminal, plain lines elsewhere.

use crate::format::{duration, thousands};
use crate::output::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shows the run.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    total: u64,
    tokens_per_step: f64,
    /// Seconds a step, averaged with more weight on the last ones.
    seconds: Option<f64>,
    held_out: Option<f32>,
    /// Time that was not spent on steps, since the beginning.
    aside: Duration,
    began: Instant,
    first: u64,
}

/// Weight of the last step in the average duration: the last fifty or so count.
const SMOOTHING: f64 = 0.02;

impl Progress {
    pub(super) fn new(total: u64, done: u64, tokens_per_step: usize) -> Self {
        let bar = std::io::stdout().is_terminal().then(|| {
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
            seconds: None,
            held_out: None,
            aside: Duration::ZERO,
            began: Instant::now(),
            first: done,
        }
    }

    /// A step was made.
    pub(super) fn step(&mut self, step: u64, loss: f32, took: Duration) {
        let took = took.as_secs_f64();
        self.seconds = Some(self.seconds.map_or(took, |s| s + SMOOTHING * (took - s)));
        if let Some(bar) = &self.bar {
            bar.set_position(step);
            let held_out = self.held_out.map_or_else(|| "-".to_string(), |loss| format!("{loss:.3}"));
            bar.set_message(format!(
                "{step}/{} loss {loss:.3} held out {held_out} {} {}",
                self.total,
                self.speed(),
                self.left(step)
            ));
        }
    }

    /// The held-out loss was measured after a step.
    pub(super) fn measured(&mut self, step: u64, loss: Option<f32>, held_out: f32) {
        self.held_out = Some(held_out);
        let loss = loss.map_or_else(|| "   -  ".to_string(), |loss| format!("{loss:.4}"));
        let width = self.total.to_string().len();
        let mut line = format!("step {step:>width$}/{}  loss {loss}  held out {held_out:.4}", self.total);
        if self.seconds.is_some() {
            line.push_str(&format!("  {}  {}", self.speed(), self.left(step)));
        }
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
        self.aside += took;
    }

    /// Removes the bar and says how long it took.
    pub(super) fn finish(self, step: u64) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if step > self.first {
            let made = thousands(step - self.first);
            say!("time    {} for {made} steps, {}", duration(self.began.elapsed()), self.speed());
        }
    }

    fn speed(&self) -> String {
        let tokens = self.seconds.map_or(0.0, |s| self.tokens_per_step / s.max(1e-9));
        format!("{} tokens/s", thousands(tokens as u64))
    }

    fn left(&self, step: u64) -> String {
        let made = (step - self.first).max(1) as f64;
        let aside = self.aside.as_secs_f64() / made;
        let seconds = (self.total - step) as f64 * (self.seconds.unwrap_or(0.0) + aside);
        format!("{} left", duration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
    }
}

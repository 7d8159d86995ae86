//! Beam search.
//!
//! In: log-probabilities of the next token of each running sequence. Out: for each sequence that continues,
//! its parent and the appended token, so that the caller can fork the cached state; finally the best
//! hypotheses. The rules are those of transformers 5.24 (`generate(num_beams=..)`). Invariant: running
//! sequences are sorted by score; ties are broken in favor of the earlier parent, then the lower token id.

use gradloom_core::error::{Error, ErrorKind, Result};

/// Condition for ending a search while sequences are still running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyStopping {
    /// Ends once there are as many hypotheses as beams (`early_stopping=True`).
    Full,
    /// Ends once there are as many hypotheses as beams and the best running sequence, if it ended now, would
    /// score no better than any of them (`early_stopping=False`).
    #[default]
    Hopeless,
    /// Ends once the condition of [`EarlyStopping::Hopeless`] holds for every length up to the maximum
    /// (`early_stopping="never"`).
    Never,
}

/// Options of a beam search.
#[derive(Clone, Debug, PartialEq)]
pub struct BeamOptions {
    /// Number of parallel sequences, and of hypotheses; at least 1.
    pub beams: usize,
    /// Exponent of the length in a hypothesis's score: the sum of the log-probabilities of its n new tokens,
    /// divided by n to this power. Values above 0 favor longer hypotheses, values below 0 shorter ones.
    pub length_penalty: f64,
    /// Condition for stopping early.
    pub early_stopping: EarlyStopping,
    /// Maximum number of new tokens in a hypothesis; at least 1.
    pub most: usize,
    /// Tokens that end a sequence.
    pub ends: Vec<i32>,
}

/// A sequence of new tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// The tokens, including the one that ended the sequence.
    pub tokens: Vec<i32>,
    /// For a running sequence, the sum of its log-probabilities. For a hypothesis, this sum divided by its
    /// length to the power of the length penalty.
    pub score: f64,
}

/// A continuation of a running sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Index of the continued sequence among those running before the step.
    pub parent: usize,
    /// Appended token.
    pub token: i32,
}

/// State of a beam search.
#[derive(Clone, Debug)]
pub struct Beams {
    options: BeamOptions,
    /// Number of new tokens in each running sequence.
    length: usize,
    running: Vec<Hypothesis>,
    ended: Vec<Hypothesis>,
    /// True if no running sequence can become one of the best hypotheses.
    hopeless: bool,
}

/// Tolerance for log-probabilities that rounding has made positive.
const SLACK: f64 = 1e-3;

impl Beams {
    /// Starts a search with one running sequence without new tokens: the prompt.
    ///
    /// # Errors
    /// Returns an error if the number of beams or the maximum length is 0, or the length penalty is not
    /// finite.
    pub fn new(options: BeamOptions) -> Result<Self> {
        let BeamOptions { beams, most, length_penalty, .. } = options;
        if beams == 0 || most == 0 {
            let message = format!("a beam search of {beams} beams and at most {most} tokens");
            return Err(refusal(message, "search with at least one beam, for at least one token"));
        }
        if !length_penalty.is_finite() {
            let message = format!("the length penalty {length_penalty} is not a finite number");
            return Err(refusal(message, "1 is the mean of the log-probabilities, 0 their sum"));
        }
        let prompt = Hypothesis { tokens: Vec::new(), score: 0.0 };
        Ok(Self { options, length: 0, running: vec![prompt], ended: Vec::new(), hopeless: false })
    }

    /// Returns the running sequences, best first. There are none once the search has ended.
    pub fn running(&self) -> &[Hypothesis] {
        &self.running
    }

    /// Extends the running sequences by one token.
    ///
    /// `log_probabilities` has a row for each running sequence, with the log-probability of each token.
    /// Returns the sequences that now run, in order, or none if the search has ended. A token with
    /// log-probability `-inf` is never chosen.
    ///
    /// # Errors
    /// Returns an error without changing the search if the values are not whole rows, or one is NaN or
    /// positive.
    pub fn step(&mut self, log_probabilities: &[f32]) -> Result<Vec<Extension>> {
        let (numbers, rows) = (log_probabilities.len(), self.running.len());
        if rows == 0 && numbers == 0 {
            return Ok(Vec::new());
        }
        if rows == 0 || numbers == 0 || !numbers.is_multiple_of(rows) {
            let message = format!("{numbers} log-probabilities for {rows} running sequences");
            return Err(refusal(
                message,
                "give a row of the vocabulary for each sequence of `Beams::running`",
            ));
        }
        let candidates = self.candidates(log_probabilities, numbers / rows)?;
        self.length += 1;
        // Evaluate this once, so that all sequences that end in the same step count.
        let takes_more = self.takes_more();
        let (mut running, mut extensions) = (Vec::new(), Vec::new());
        for (rank, (extension, score)) in candidates.into_iter().enumerate() {
            let ends = self.options.ends.contains(&extension.token) || self.length == self.options.most;
            let tokens = || [&self.running[extension.parent].tokens[..], &[extension.token]].concat();
            if ends {
                // Ignore a candidate beyond the best `beams`, which would not have continued either.
                if rank < self.options.beams && takes_more {
                    let score = score / self.divisor(self.length);
                    self.ended.push(Hypothesis { tokens: tokens(), score });
                }
            } else if running.len() < self.options.beams {
                running.push(Hypothesis { tokens: tokens(), score });
                extensions.push(extension);
            }
        }
        self.ended.sort_by(|a, b| b.score.total_cmp(&a.score));
        self.ended.truncate(self.options.beams);
        self.running = running;
        self.hopeless |= self.is_hopeless();
        if !self.takes_more() {
            self.running.clear();
            extensions.clear();
        }
        Ok(extensions)
    }

    /// Returns up to `beams` hypotheses, best first. If the search has not ended, the running sequences
    /// follow the finished ones, scored as if they ended now.
    pub fn finish(mut self) -> Vec<Hypothesis> {
        let divisor = self.divisor(self.length.max(1));
        let now = self.running.into_iter().map(|h| Hypothesis { score: h.score / divisor, ..h });
        self.ended.extend(now);
        self.ended.truncate(self.options.beams);
        self.ended
    }

    /// Returns the most likely continuations in order: more than `beams`, so that enough of them continue
    /// even if some end.
    fn candidates(&self, log_probabilities: &[f32], vocabulary: usize) -> Result<Vec<(Extension, f64)>> {
        let mut all = Vec::with_capacity(log_probabilities.len());
        for (row, logs) in log_probabilities.chunks(vocabulary).enumerate() {
            for (token, &value) in logs.iter().enumerate() {
                let value = f64::from(value);
                if value.is_nan() || value > SLACK {
                    let message =
                        format!("the log-probability of token {token} after sequence {row} is {value}");
                    return Err(refusal(message, "give the logarithms of probabilities, from -inf to 0"));
                }
                if value > f64::NEG_INFINITY {
                    let extension = Extension { parent: row, token: token as i32 };
                    all.push((extension, self.running[row].score + value));
                }
            }
        }
        let count = self.options.beams.saturating_mul(2.max(1 + self.options.ends.len()));
        let better = |a: &(Extension, f64), b: &(Extension, f64)| {
            let place = |e: Extension| (e.parent, e.token);
            b.1.total_cmp(&a.1).then(place(a.0).cmp(&place(b.0)))
        };
        if count < all.len() {
            all.select_nth_unstable_by(count, better);
            all.truncate(count);
        }
        all.sort_unstable_by(better);
        Ok(all)
    }

    fn is_full(&self) -> bool {
        self.ended.len() >= self.options.beams
    }

    fn takes_more(&self) -> bool {
        !(self.hopeless || self.is_full() && self.options.early_stopping == EarlyStopping::Full)
    }

    fn divisor(&self, length: usize) -> f64 {
        libm::pow(length as f64, self.options.length_penalty)
    }

    /// Returns `true` if there are enough hypotheses and none of them is worse than the best running
    /// sequence.
    fn is_hopeless(&self) -> bool {
        let patient =
            self.options.early_stopping == EarlyStopping::Never && self.options.length_penalty > 0.0;
        let length = if patient { self.options.most } else { self.length };
        let best = self.running.first().map(|best| best.score / self.divisor(length));
        let worst = self.ended.last().filter(|_| self.is_full()).map(|worst| worst.score);
        matches!((best, worst), (Some(best), Some(worst)) if best <= worst)
    }
}

fn refusal(message: String, help: &str) -> Error {
    Error::new(ErrorKind::Feed, message).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Oracle {
        table: Vec<f64>,
        vocabulary: usize,
        beams: Vec<Case>,
    }

    #[derive(serde::Deserialize)]
    struct Case {
        beams: usize,
        length_penalty: f64,
        early_stopping: String,
        ends: Vec<i32>,
        most: usize,
        tokens: Vec<Vec<i32>>,
        scores: Vec<f64>,
    }

    fn oracle() -> Oracle {
        serde_json::from_str(include_str!("../../../../tests/data/generation.json")).unwrap()
    }

    /// Returns the log-probabilities at a position after the token `last`.
    fn logs(oracle: &Oracle, position: usize, last: i32) -> Vec<f32> {
        let start = (position * oracle.vocabulary + last as usize) * oracle.vocabulary;
        let row = &oracle.table[start..start + oracle.vocabulary];
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        row.iter().map(|x| (x - sum.ln()) as f32).collect()
    }

    fn options(case: &Case) -> BeamOptions {
        let early_stopping = match case.early_stopping.as_str() {
            "Full" => EarlyStopping::Full,
            "Hopeless" => EarlyStopping::Hopeless,
            _ => EarlyStopping::Never,
        };
        let Case { beams, length_penalty, ref ends, most, .. } = *case;
        BeamOptions { beams, length_penalty, early_stopping, most, ends: ends.clone() }
    }

    /// Runs a search that starts with token 2, and follows the extensions as a caller would with its cache.
    fn search(oracle: &Oracle, options: BeamOptions) -> Vec<Hypothesis> {
        let mut beams = Beams::new(options).unwrap();
        let mut texts = vec![vec![2]];
        let mut position = 0;
        while !beams.running().is_empty() {
            let rows: Vec<f32> =
                texts.iter().flat_map(|text| logs(oracle, position, *text.last().unwrap())).collect();
            let extensions = beams.step(&rows).unwrap();
            texts = extensions.iter().map(|e| [&texts[e.parent][..], &[e.token]].concat()).collect();
            let running: Vec<&[i32]> = beams.running().iter().map(|h| &h.tokens[..]).collect();
            assert_eq!(texts.iter().map(|text| &text[1..]).collect::<Vec<_>>(), running);
            position += 1;
        }
        beams.finish()
    }

    /// Tokens, scores and order match the results of `scripts/oracle/generation.py`.
    #[test]
    fn hypotheses_are_those_of_transformers() {
        let oracle = oracle();
        assert_eq!(oracle.beams.len(), 60);
        for case in &oracle.beams {
            let found = search(&oracle, options(case));
            let tokens: Vec<&[i32]> = found.iter().map(|h| &h.tokens[..]).collect();
            assert_eq!(tokens, case.tokens, "{:?}", options(case));
            for (hypothesis, want) in found.iter().zip(&case.scores) {
                assert!((hypothesis.score - want).abs() < 1e-4, "{hypothesis:?}, not {want}");
            }
        }
    }

    #[test]
    fn one_beam_is_greedy() {
        let oracle = oracle();
        let (most, ends) = (9, Vec::new());
        let early_stopping = EarlyStopping::default();
        let found =
            search(&oracle, BeamOptions { beams: 1, length_penalty: 1.0, early_stopping, most, ends });
        let mut want = vec![2];
        for position in 0..most {
            let row = logs(&oracle, position, *want.last().unwrap());
            want.push((0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as i32);
        }
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].tokens, want[1..]);
    }

    #[test]
    fn small_vocabularies_and_excluded_tokens_leave_fewer_sequences() {
        let options = BeamOptions {
            beams: 4,
            length_penalty: 0.0,
            early_stopping: EarlyStopping::Never,
            most: 3,
            ends: vec![0],
        };
        let mut beams = Beams::new(options).unwrap();
        assert_eq!(beams.step(&[f32::NEG_INFINITY, -1.0]).unwrap(), [Extension { parent: 0, token: 1 }]);
        assert_eq!(beams.step(&[-1.0, -0.5]).unwrap(), [Extension { parent: 0, token: 1 }]);
        // No continuation is possible, so the earlier hypothesis remains.
        assert_eq!(beams.step(&[f32::NEG_INFINITY; 2]).unwrap(), []);
        assert_eq!(beams.step(&[]).unwrap(), []);
        assert_eq!(beams.finish(), [Hypothesis { tokens: vec![1, 0], score: -2.0 }]);
    }

    #[test]
    fn a_search_that_is_broken_off_has_its_running_sequences() {
        let options = BeamOptions {
            beams: 2,
            length_penalty: 1.0,
            early_stopping: EarlyStopping::Full,
            most: 9,
            ends: vec![0],
        };
        let mut beams = Beams::new(options.clone()).unwrap();
        beams.step(&[-3.0, -1.0, -2.0]).unwrap();
        beams.step(&[-0.5, -1.0, -4.0, -9.0, -9.0, -9.0]).unwrap();
        let found = beams.finish();
        let tokens: Vec<&[i32]> = found.iter().map(|h| &h.tokens[..]).collect();
        assert_eq!((tokens, found[0].score, found[1].score), (vec![&[1, 0][..], &[1, 1]], -0.75, -1.0));
        assert_eq!(Beams::new(options).unwrap().finish(), [Hypothesis { tokens: vec![], score: 0.0 }]);
    }

    #[test]
    fn wrong_numbers_are_refused() {
        let options = BeamOptions {
            beams: 2,
            length_penalty: 1.0,
            early_stopping: EarlyStopping::Full,
            most: 9,
            ends: vec![],
        };
        for (beams, most) in [(0, 1), (1, 0)] {
            let error = Beams::new(BeamOptions { beams, most, ..options.clone() }).unwrap_err();
            let message = format!("a beam search of {beams} beams and at most {most} tokens");
            assert_eq!(error.message(), message);
        }
        let penalty = BeamOptions { length_penalty: f64::NAN, ..options.clone() };
        let error = Beams::new(penalty).unwrap_err();
        assert_eq!(error.message(), "the length penalty NaN is not a finite number");
        let mut beams = Beams::new(options).unwrap();
        let error = beams.step(&[]).unwrap_err();
        assert_eq!(error.message(), "0 log-probabilities for 1 running sequences");
        for value in [f32::NAN, 0.5, f32::INFINITY] {
            let error = beams.step(&[-1.0, value]).unwrap_err();
            let message = format!("the log-probability of token 1 after sequence 0 is {value}");
            assert_eq!(error.message(), message);
        }
        beams.step(&[-1.0, -2.0]).unwrap();
        let error = beams.step(&[-1.0; 3]).unwrap_err();
        assert_eq!(error.message(), "3 log-probabilities for 2 running sequences");
        assert_eq!(beams.running().len(), 2);
    }
}

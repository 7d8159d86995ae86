//! Steps on the device: queueing, and processing of their results.

use super::Generator;
use super::memory::{Choice, NewTokens, floats, words};
use super::program::Head;
use super::request::{Event, Finish, RequestId, TokenLogprobs};
use super::schedule::Text;
use crate::decoding::{Choices, LastTokens};
use crate::kv::pages::{BlockCopy, SequenceId};
use gradloom_core::error::Result;
use gradloom_runtime::Step;

/// New tokens of a text in a step, with reserved space.
#[derive(Clone, Copy)]
pub(super) struct New {
    pub(super) id: RequestId,
    pub(super) count: usize,
    /// Row of the queued previous step that chooses the token, if it is not known yet. The text stays in this
    /// row, because the token is stored per row.
    pub(super) row: Option<usize>,
}

impl New {
    /// Returns the number of preceding tokens that the previous step computes.
    pub(super) fn under_way(&self) -> usize {
        usize::from(self.row.is_some())
    }
}

/// Rows of a step, with reserved space, and the copies that they require.
#[derive(Default)]
pub(super) struct Planned {
    pub(super) rows: Vec<New>,
    pub(super) copies: Vec<(RequestId, BlockCopy)>,
}

/// A queued step.
#[derive(Debug)]
pub(super) struct UnderWay {
    step: Step,
    head: Head,
    rows: Vec<Option<RowUnderWay>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RowUnderWay {
    id: RequestId,
    /// Sequence of the text when the step was queued. The text may have been removed from memory since.
    sequence: SequenceId,
    count: usize,
    chooses: bool,
}

impl UnderWay {
    /// Returns `true` if a step over `texts` texts can read the tokens of this one. Tokens are stored per
    /// number of rows, which must be the same for both steps.
    pub(super) fn precedes(&self, texts: usize) -> bool {
        self.rows.len() == texts.next_power_of_two()
    }

    /// Returns the row that chooses the text's next token, unless the text's sequence has changed.
    pub(super) fn row_of(&self, id: RequestId, text: &Text) -> Option<usize> {
        let is_of = |row: &RowUnderWay| row.id == id && row.chooses && text.sequence == Some(row.sequence);
        self.rows.iter().position(|row| row.as_ref().is_some_and(is_of))
    }
}

impl Generator {
    /// Queues a step over rows with reserved space. Returns `None` if there are no rows, or if the step
    /// cannot read the tokens of the queued step `behind`.
    pub(super) fn queue(&mut self, planned: Planned, behind: Option<&UnderWay>) -> Result<Option<UnderWay>> {
        let Planned { rows: planned, copies } = planned;
        let (owners, copies): (Vec<_>, Vec<_>) = copies.into_iter().unzip();
        if let Err(error) = self.memory.run_copies(&copies) {
            // The destination blocks of the failed copies are invalid, so the texts are recomputed.
            owners.into_iter().for_each(|id| self.rest(id));
            return Err(error);
        }
        if planned.is_empty() || behind.is_some_and(|behind| !behind.precedes(planned.len())) {
            return Ok(None);
        }
        let places = placed(&planned, planned.len().next_power_of_two());
        let head = self.head(&planned);
        let Self { memory, texts, .. } = self;
        let row = |new: &New| {
            let text = &texts[&new.id];
            let (tokens, sequence) = (text.seen(), text.sequence.expect("it is in memory"));
            let (start, under_way) = (memory.length(sequence), new.under_way());
            let end = start + under_way + new.count;
            let choice = (end == tokens.len() + under_way).then(|| Choice {
                sampling: &text.request.sampling,
                past: &text.past,
                position: text.generated() + under_way,
            });
            let tokens = if under_way > 0 { &[LastTokens::ID] } else { &tokens[start..end] };
            NewTokens { sequence, under_way, tokens, choice }
        };
        let rows: Vec<_> = places.iter().map(|new| new.as_ref().map(row)).collect();
        let step = memory.queue(&rows, head);
        let under_way = places.iter().zip(&rows).map(|(new, row)| {
            let (New { id, count, .. }, row) = ((*new)?, (*row)?);
            Some(RowUnderWay { id, sequence: row.sequence, count, chooses: row.choice.is_some() })
        });
        let rows: Vec<_> = under_way.collect();
        let step = step.inspect_err(|_| self.give_room_back(&rows))?;
        for row in rows.iter().flatten().filter(|row| row.chooses) {
            self.texts.get_mut(&row.id).expect("it is under way").awaited += 1;
        }
        self.totals.ahead += u64::from(behind.is_some());
        Ok(Some(UnderWay { step, head, rows }))
    }

    /// Waits for a step and records its results. If the step failed, its texts are unchanged.
    pub(super) fn settle(&mut self, under_way: UnderWay) -> Result<()> {
        let outcome = under_way.step.result();
        if outcome.is_err() {
            self.take_back(&under_way);
            return outcome;
        }
        let UnderWay { step, head, rows } = under_way;
        for row in rows.iter().flatten() {
            self.totals.computed += row.count as u64;
            let Some(text) = self.texts.get_mut(&row.id) else { continue };
            text.awaited -= usize::from(row.chooses);
            if text.sequence == Some(row.sequence) {
                let start = self.memory.length(row.sequence);
                let new = &text.seen()[start..start + row.count];
                self.memory.pages.commit(row.sequence, new).expect("there was room");
            }
        }
        let Head::Choose { choices, .. } = head else { return Ok(()) };
        let tokens = words(&step, 0);
        let logprobs = choices.logprobs.map(|n| (n, floats(&step, 1), floats(&step, 2), words(&step, 3)));
        for (row, under_way) in rows.iter().enumerate() {
            let Some(RowUnderWay { id, chooses: true, .. }) = *under_way else { continue };
            let Some(text) = self.texts.get(&id) else { continue };
            let logprobs = logprobs.as_ref().zip(text.request.logprobs);
            let logprobs = logprobs.map(|((n, own, top, ids), wanted)| {
                let top = ids[row * n..].iter().map(|&id| id as i32).zip(top[row * n..].to_vec());
                TokenLogprobs { own: own[row], top: top.take(wanted).collect() }
            });
            self.chosen(id, tokens[row] as i32, logprobs);
        }
        Ok(())
    }

    /// Waits for a step to end, ignores its result and reverts its effects.
    pub(super) fn take_back(&mut self, under_way: &UnderWay) {
        // Ignore the error: the caller retries the step and gets it then.
        let _ = under_way.step.result();
        for row in under_way.rows.iter().flatten() {
            if let Some(text) = self.texts.get_mut(&row.id) {
                text.awaited -= usize::from(row.chooses);
            }
        }
        self.give_room_back(&under_way.rows);
    }

    /// Releases the space reserved for the rows of a failed step.
    fn give_room_back(&mut self, rows: &[Option<RowUnderWay>]) {
        for row in rows.iter().flatten() {
            let text = self.texts.get(&row.id);
            if text.is_some_and(|text| text.sequence == Some(row.sequence) && text.awaited == 0) {
                let length = self.memory.length(row.sequence);
                self.memory.pages.truncate(row.sequence, length).expect("it has as many");
            }
        }
    }

    /// Returns the output of a step over the planned rows. To limit the number of compiled programs, the
    /// output covers the settings of all active texts, and all kinds of truncation if one is used.
    fn head(&self, planned: &[New]) -> Head {
        let completes = |new: &New| self.pending(&self.texts[&new.id]) == Some(new.count);
        if !planned.iter().any(completes) {
            return Head::Nothing;
        }
        let asked = || self.wanted.keys().map(|wanted| wanted.choices);
        let greedy_only = asked().all(|choices| choices.greedy_only);
        let cuts = asked().any(|choices| choices.top_k || choices.top_p || choices.min_p);
        let logprobs = asked().filter_map(|choices| choices.logprobs).max();
        let choices = Choices { greedy_only, top_k: cuts, top_p: cuts, min_p: cuts, logprobs };
        let adjusts = self.wanted.keys().any(|wanted| wanted.adjusts);
        Head::Choose { choices, adjusts }
    }

    /// Records the next token of a text.
    fn chosen(&mut self, request: RequestId, token: i32, logprobs: Option<TokenLogprobs>) {
        let context = self.memory.context();
        let text = self.texts.get_mut(&request).expect("it is under way");
        let finish = match token {
            -1 => Some(Finish::NoToken),
            end if text.request.ends.contains(&end) => Some(Finish::End(end)),
            _ => {
                text.tokens.push(token);
                text.past.push(token);
                self.events.push(Event::Token { request, token, logprobs });
                match text.generated() == text.request.most {
                    true => Some(Finish::Length),
                    false if text.seen().len() <= context => None,
                    false if text.request.rolls => {
                        text.roll(context);
                        self.rest(request);
                        None
                    }
                    false => Some(Finish::Context),
                }
            }
        };
        if let Some(finish) = finish {
            self.end(request);
            self.events.push(Event::Finished { request, finish });
        }
    }
}

/// Assigns the planned texts to `rows` rows.
fn placed(planned: &[New], rows: usize) -> Vec<Option<New>> {
    let mut places = vec![None; rows];
    for new in planned {
        if let Some(row) = new.row {
            places[row] = Some(*new);
        }
    }
    let free = places.iter_mut().filter(|place| place.is_none());
    let others = planned.iter().filter(|new| new.row.is_none());
    free.zip(others).for_each(|(place, new)| *place = Some(*new));
    places
}

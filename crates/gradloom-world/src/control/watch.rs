//! The judgement of one rank by its control connection.
//!
//! In: events of a line. Out: a verdict if the rank ended or fell silent; messages, handed on. Invariants:
//! silence is counted in ticks of reading, so a process that was itself suspended blames nobody for that
//! time; a rank that said goodbye is not judged.

use super::line::{Event, Listener};
use super::state::State;
use crate::verdict::Verdict;
use crate::wire::Message;
use std::time::Duration;

/// Limits of silence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) tick: Duration,
    pub(crate) limit: Duration,
}

/// Watches `rank` until it leaves or ends, or this rank leaves. `on_message` gets its messages, `on_verdict`
/// the verdict on its silence or end.
pub(crate) fn watch(
    state: &State,
    rank: usize,
    mut listener: Listener,
    patience: Patience,
    on_message: impl Fn(Message),
    on_verdict: impl Fn(Verdict),
) {
    let name = state.name(rank);
    let mut silence = Duration::ZERO;
    loop {
        let ended = match listener.next() {
            Event::Message(Message::Goodbye(entered)) => return on_message(Message::Goodbye(entered)),
            Event::Message(message) => {
                silence = Duration::ZERO;
                on_message(message);
                continue;
            }
            Event::Silence if !state.is_leaving() => {
                silence += patience.tick;
                if silence >= patience.limit {
                    on_verdict(Verdict::silent(&name, patience.limit));
                }
                continue;
            }
            Event::Silence => return,
            Event::Ended => Verdict::ended(&name),
            Event::Garbled => Verdict::garbled(&name),
        };
        if !state.is_leaving() {
            on_verdict(ended);
        }
        return;
    }
}

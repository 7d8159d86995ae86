//! Ranks for which others wait in vain.
//!
//! In: the progress of all ranks, once in each tick. Out: a verdict if a rank has left, or does not come, or
//! if all are there and no data moves. Invariant: time is counted in ticks, so a suspension of this process
//! does not count.

use crate::verdict::Verdict;
use crate::wire::Progress;
use std::time::Duration;

/// One rank, as rank 0 knows it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peer {
    pub(crate) progress: Progress,
    /// State of the rank: gone with a goodbye, or not.
    pub(crate) left: bool,
}

/// The clock of one situation in which no rank proceeds.
#[derive(Debug)]
pub(crate) struct Stall {
    tick: Duration,
    limit: Duration,
    /// Entered collectives and received pieces of all ranks, when one last proceeded.
    last: Vec<(u64, u64)>,
    elapsed: Duration,
}

impl Stall {
    pub(crate) fn new(tick: Duration, limit: Duration) -> Self {
        Self { tick, limit, last: Vec::new(), elapsed: Duration::ZERO }
    }

    /// Counts a tick, and returns a verdict if the limit is reached.
    pub(crate) fn tick(&mut self, peers: &[Peer], name: impl Fn(usize) -> String) -> Option<Verdict> {
        let now: Vec<_> = peers.iter().map(|peer| (peer.progress.entered, peer.progress.moved)).collect();
        let front = peers.iter().filter(|peer| peer.progress.waiting).map(|peer| peer.progress.entered).max();
        let Some(front) = front.filter(|_| now == self.last) else {
            self.last = now;
            self.elapsed = Duration::ZERO;
            return None;
        };
        self.elapsed += self.tick;
        (self.elapsed >= self.limit).then(|| self.verdict(peers, front, name))
    }

    fn verdict(&self, peers: &[Peer], front: u64, name: impl Fn(usize) -> String) -> Verdict {
        let seconds = self.limit.as_secs_f64();
        let behind = (0..peers.len()).filter(|rank| peers[*rank].progress.entered < front);
        let Some(rank) = behind.min_by_key(|rank| peers[*rank].progress.entered) else {
            let message =
                format!("all ranks are in collective {front}, but no data has moved for {seconds} s");
            return Verdict::new(message, "check the network between the hosts");
        };
        let waiting = peers.iter().filter(|peer| peer.progress.waiting);
        let step = waiting.map(|peer| peer.progress.step).max().unwrap_or_default();
        let (name, own) = (name(rank), peers[rank].progress.step);
        let others = format!("the others wait at step {step} for {seconds} s");
        let message = format!("{name} is at step {own} and has not entered collective {front}; {others}");
        Verdict::new(message, "find out what that rank does, or raise GRADLOOM_WORLD_STALL_SECONDS")
    }
}

/// Returns the verdict on a rank that left before a collective in which another one waits.
pub(crate) fn left(peers: &[Peer], name: impl Fn(usize) -> String) -> Option<Verdict> {
    let front = peers.iter().filter(|peer| peer.progress.waiting).map(|peer| peer.progress.entered).max()?;
    let rank = peers.iter().position(|peer| peer.left && peer.progress.entered < front)?;
    Some(Verdict::left(&name(rank), front))
}

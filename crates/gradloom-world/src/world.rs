//! The processes that train one model together, as one of them sees them.
//!
//! In: a membership. Out: collectives. Invariant: after the first failure, every call returns the same error.

use crate::blame::{failure, unconnected};
use crate::collective::{self, AllGather, AllReduce, Call, Fault, Kind, ReduceScatter, Ring};
use crate::control::{Control, State, lock};
use crate::membership::Membership;
use crate::net;
use crate::rendezvous;
use crate::verdict::Verdict;
use gradloom_core::error::{Error, Result};
use gradloom_device::communicator::Communicator;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Longest time to connect to the next rank, once all have joined.
const CONNECT: Duration = Duration::from_secs(60);

/// Connection of this process to the others that train the same model. Clones are the same connection.
///
/// The last clone that is dropped leaves the world, as [`World::leave`] does.
#[derive(Clone, Debug)]
pub struct World(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    local_rank: usize,
    /// Random number of the world; 0 in a world of one rank.
    session: u64,
    state: Arc<State>,
    /// None in a world of one rank.
    links: Option<Links>,
}

#[derive(Debug)]
struct Links {
    control: Control,
    /// Held during a collective.
    ring: Mutex<Ring>,
}

impl World {
    /// Returns the world of this process alone, whose collectives change nothing.
    pub fn alone() -> Self {
        Self::single(0)
    }

    fn single(local_rank: usize) -> Self {
        let state = Arc::new(State::new(0, vec![net::host_name()]));
        Self(Arc::new(Inner { local_rank, session: 0, state, links: None }))
    }

    /// Joins the world of the environment ([`Membership::from_env`]), or that of this process alone if no
    /// launcher set one.
    ///
    /// # Errors
    /// Returns the errors of [`Membership::from_env`] and [`World::join`].
    pub fn from_env() -> Result<Self> {
        Self::join(Membership::from_env()?)
    }

    /// Waits for all ranks of the world, and connects to them.
    ///
    /// # Errors
    /// Returns [`ErrorKind::World`](gradloom_core::error::ErrorKind::World) if the membership is impossible,
    /// if ranks do not come before the timeout, do not fit together or end, or if a port cannot be reached.
    pub fn join(membership: Membership) -> Result<Self> {
        membership.check()?;
        let membership = Membership { options: membership.options.bounded(), ..membership };
        if membership.size == 1 {
            return Ok(Self::single(membership.local_rank));
        }
        let (lines, party) = rendezvous::meet(&membership)?;
        let hosts = party.start.seats.iter().map(|seat| seat.host.clone()).collect();
        let state = Arc::new(State::new(membership.rank, hosts));
        let control = Control::start(state.clone(), lines, &membership.options).map_err(|error| {
            let message =
                format!("{} cannot start the threads of its world: {error}", state.name(membership.rank));
            Verdict::new(message, "raise the limit on threads and open files").error()
        })?;
        let timeout = membership.options.join_timeout.min(CONNECT);
        let ring = match Ring::connect(&state, &party, timeout) {
            Ok(ring) => Mutex::new(ring),
            Err(failure) => {
                let verdict = control.explain(unconnected(&state, failure));
                control.leave();
                return Err(verdict.error());
            }
        };
        let links = Some(Links { control, ring });
        let (local_rank, session) = (membership.local_rank, party.start.session);
        Ok(Self(Arc::new(Inner { local_rank, session, state, links })))
    }

    /// Returns the number of this process, from 0.
    pub fn rank(&self) -> usize {
        self.0.state.rank
    }

    /// Returns the number of processes.
    pub fn size(&self) -> usize {
        self.0.state.size()
    }

    /// Returns the number of this process among those of its host, from 0: that of its device.
    pub fn local_rank(&self) -> usize {
        self.0.local_rank
    }

    /// Returns `true` on rank 0, which writes files and messages for all.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Notes the step at which this rank is, for messages about ranks that stay behind.
    pub fn note_step(&self, step: u64) {
        self.0.state.note_step(step);
    }

    /// Tells all other ranks that this one gives up because of `error`. Their collectives fail with an error
    /// that names this rank and has the message and the remedies of `error`. It waits for rank 0 for a few
    /// seconds at most.
    pub fn abort(&self, error: &Error) {
        let remedies: Vec<&str> = error.remedies().collect();
        self.0.abort(error.message(), (!remedies.is_empty()).then(|| remedies.join("; ")).as_deref());
    }

    /// Leaves the world gracefully. Later calls do nothing. In a world of several ranks, later collectives of
    /// this rank fail. The other ranks fail if one of them waits in a collective that this rank has not
    /// entered, or if rank 0 has left and they begin another collective. The call blocks for about a second
    /// at most, or two if a rank hangs.
    pub fn leave(&self) {
        self.0.leave();
    }

    /// Runs a collective, and finds the reason if it fails.
    fn collective(&self, call: Call, run: impl FnOnce(&mut Ring, &State) -> Result<(), Fault>) -> Result<()> {
        let Inner { state, links, .. } = &*self.0;
        let Some(Links { control, ring }) = links else { return state.check() };
        let mut ring = lock(ring);
        let call = Call { number: state.enter()?, ..call };
        let result = ring.agree(&call).and_then(|()| run(&mut ring, state));
        // The flag that this rank waits stays until rank 0 has had it for its verdict.
        let result = result.map_err(|fault| failure(state, control, &call, fault).error());
        state.exit();
        result
    }
}

impl Inner {
    fn abort(&self, reason: &str, remedy: Option<&str>) {
        let verdict = Verdict::gave_up(&self.state.name(self.state.rank), reason, remedy);
        match &self.links {
            Some(links) => _ = links.control.report(verdict),
            None => _ = self.state.fail(verdict),
        }
    }

    fn leave(&self) {
        match &self.links {
            Some(links) => links.control.leave(),
            None => _ = self.state.leave(),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if thread::panicking() && self.state.check().is_ok() && !self.state.is_leaving() {
            self.abort("it panicked", None);
        }
        self.leave();
    }
}

impl Communicator for World {
    fn rank(&self) -> usize {
        World::rank(self)
    }

    fn size(&self) -> usize {
        World::size(self)
    }

    fn session(&self) -> u64 {
        self.0.session
    }

    fn all_reduce(&self, parts: &mut [&mut [f32]]) -> Result<()> {
        let call = Call::new(Kind::AllReduce, 0, parts.iter().map(|part| part.len()));
        let is_empty = parts.iter().all(|part| part.is_empty());
        self.collective(call, |ring, state| {
            let (rank, size) = (ring.rank, ring.size);
            if is_empty {
                // Without an element, ranks would wait for their neighbors only.
                return collective::run(ring, &mut AllReduce::new(rank, size, &mut [&mut [0.0]]), state);
            }
            collective::run(ring, &mut AllReduce::new(rank, size, parts), state)
        })
    }

    fn reduce_scatter(&self, parts: &[&[f32]], shards: &mut [&mut [f32]]) -> Result<()> {
        let lengths = || shards.iter().map(|shard| shard.len());
        self.check_shards("reduce_scatter", parts.iter().map(|part| part.len()), lengths())?;
        let call = Call::new(Kind::ReduceScatter, 0, parts.iter().map(|part| part.len()));
        if self.size() == 1 {
            shards.iter_mut().zip(parts).for_each(|(shard, part)| shard.copy_from_slice(part));
        }
        self.collective(call, |ring, state| {
            collective::run(ring, &mut ReduceScatter::new(ring.rank, ring.size, parts, shards), state)
        })
    }

    fn all_gather(&self, shards: &[&[f32]], parts: &mut [&mut [f32]]) -> Result<()> {
        let lengths = || parts.iter().map(|part| part.len());
        self.check_shards("all_gather", lengths(), shards.iter().map(|shard| shard.len()))?;
        let call = Call::new(Kind::AllGather, 0, lengths());
        if self.size() == 1 {
            parts.iter_mut().zip(shards).for_each(|(part, shard)| part.copy_from_slice(shard));
        }
        self.collective(call, |ring, state| {
            collective::run(ring, &mut AllGather::new(ring.rank, ring.size, shards, parts), state)
        })
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        if root >= self.size() {
            let message = format!("there is no rank {root} to broadcast in a world of {} ranks", self.size());
            return Err(Verdict::new(message, "pass a rank below the size of the world").error());
        }
        let call = Call::new(Kind::Broadcast, root, std::iter::empty());
        self.collective(call, |ring, state| collective::broadcast(ring, root, bytes, state))
    }

    fn fail(&self, error: &Error) {
        self.abort(error);
    }

    fn check(&self) -> Result<()> {
        self.0.state.check()
    }
}

impl World {
    /// Checks that each part is as long as the shards of all ranks.
    fn check_shards(
        &self,
        name: &str,
        parts: impl ExactSizeIterator<Item = usize>,
        shards: impl ExactSizeIterator<Item = usize>,
    ) -> Result<()> {
        let (size, counts) = (self.size(), (parts.len(), shards.len()));
        let help = "give each part a shard, and make the part as long as the shards of all ranks";
        if counts.0 != counts.1 {
            let message = format!("{name} got {} parts and {} shards", counts.0, counts.1);
            return Err(Verdict::new(message, help).error());
        }
        let mut pairs = parts.zip(shards).enumerate();
        let Some((index, (part, shard))) =
            pairs.find(|(_, (part, shard))| shard.checked_mul(size) != Some(*part))
        else {
            return Ok(());
        };
        let message = format!("{name} got a part {index} of {part} elements, but {size} shards of {shard}");
        Err(Verdict::new(message, help).error())
    }
}

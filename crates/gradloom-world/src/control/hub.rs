//! Rank 0's part of the control plane: it watches all others and decides.
//!
//! In: a control connection to each other rank. Out: one verdict, sent to all. Invariant: a verdict is sent
//! by the one caller whose verdict was the first.

use super::Plane;
use super::line::{Line, Listener};
use super::stall::{Peer, Stall};
use super::state::{State, lock};
use super::watch::{Patience, watch};
use crate::verdict::Verdict;
use crate::wire::{Message, Progress};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::{io, thread};

/// Rank 0's part.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Arc<State>,
    /// Lines to the ranks from 1.
    lines: Vec<Line>,
    /// All ranks, rank 0 included.
    peers: Mutex<Vec<Peer>>,
    stall: Mutex<Stall>,
    /// Held from a verdict until all have it, and while this rank leaves, so that it leaves afterwards.
    deciding: Mutex<()>,
}

impl Hub {
    /// Starts to watch the ranks from 1 over their sockets.
    pub(crate) fn start(
        state: &Arc<State>,
        sockets: Vec<TcpStream>,
        patience: Patience,
        stall: Stall,
    ) -> io::Result<(Arc<Self>, Vec<JoinHandle<()>>)> {
        let lines = sockets.iter().map(Line::new).collect::<io::Result<_>>()?;
        let peers = Mutex::new(vec![Peer::default(); state.size()]);
        let hub = Arc::new(Self {
            state: state.clone(),
            lines,
            peers,
            stall: Mutex::new(stall),
            deciding: Mutex::default(),
        });
        let mut threads = Vec::new();
        for (index, socket) in sockets.into_iter().enumerate() {
            let (hub, listener) = (hub.clone(), Listener::new(socket, patience.tick)?);
            let builder = thread::Builder::new().name(format!("world rank {}", index + 1));
            threads.push(builder.spawn(move || hub.watch(index + 1, listener, patience))?);
        }
        Ok((hub, threads))
    }

    fn watch(&self, rank: usize, listener: Listener, patience: Patience) {
        let on_message = |message| self.receive(rank, message);
        watch(&self.state, rank, listener, patience, on_message, |verdict| self.judge(verdict));
    }

    fn receive(&self, rank: usize, message: Message) {
        match message {
            Message::Beat(progress) => {
                lock(&self.peers)[rank].progress = progress;
                self.judge_left();
            }
            Message::Verdict(verdict) => self.judge(verdict),
            Message::Goodbye(entered) => {
                let progress = Progress { entered, ..Progress::default() };
                lock(&self.peers)[rank] = Peer { progress, left: true };
                // The rank waits for the end of the connection.
                self.lines[rank - 1].close(&Message::Goodbye(self.state.progress().entered));
                self.judge_left();
            }
            Message::Welcome | Message::Start(_) | Message::OtherRun(_) => {}
        }
    }

    /// Makes `verdict` that of the world, unless there is one.
    fn judge(&self, verdict: Verdict) {
        let _deciding = lock(&self.deciding);
        let bytes = Message::Verdict(verdict.clone()).encode();
        if self.state.fail(verdict) {
            self.send(&bytes);
        }
    }

    fn send(&self, bytes: &[u8]) {
        for line in &self.lines {
            line.send(bytes);
        }
    }

    /// Judges ranks that have left and for which another one waits.
    fn judge_left(&self) {
        let verdict = super::stall::left(&self.peers(), |rank| self.state.name(rank));
        verdict.into_iter().for_each(|verdict| self.judge(verdict));
    }

    /// Returns all ranks' progress as far as it is known.
    fn peers(&self) -> Vec<Peer> {
        let mut peers = lock(&self.peers);
        peers[0].progress = self.state.progress();
        peers.clone()
    }
}

impl Plane for Hub {
    fn beat(&self) {
        self.send(&Message::Beat(self.state.progress()).encode());
        self.judge_left();
    }

    fn tick(&self) {
        self.beat();
        let verdict = lock(&self.stall).tick(&self.peers(), |rank| self.state.name(rank));
        verdict.into_iter().for_each(|verdict| self.judge(verdict));
    }

    fn report(&self, verdict: Verdict) {
        self.judge(verdict);
    }

    fn goodbye(&self) {
        let _deciding = lock(&self.deciding);
        let goodbye = Message::Goodbye(self.state.progress().entered);
        for line in &self.lines {
            line.close(&goodbye);
        }
    }
}

//! The part of the ranks from 1 in the control plane: each watches rank 0 and obeys it.
//!
//! In: the control connection to rank 0. Out: rank 0's verdict, or one on rank 0. Invariant: this rank
//! decides nothing about ranks other than rank 0, but proposes.

use super::Plane;
use super::line::{Line, Listener};
use super::state::State;
use super::watch::{Patience, watch};
use crate::verdict::Verdict;
use crate::wire::Message;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::{io, thread};

/// Part of a rank from 1.
#[derive(Debug)]
pub(crate) struct Spoke {
    state: Arc<State>,
    line: Line,
}

impl Spoke {
    /// Starts to watch rank 0 over the socket.
    pub(crate) fn start(
        state: &Arc<State>,
        socket: TcpStream,
        patience: Patience,
    ) -> io::Result<(Arc<Self>, Vec<JoinHandle<()>>)> {
        let spoke = Arc::new(Self { state: state.clone(), line: Line::new(&socket)? });
        let listener = Listener::new(socket, patience.tick)?;
        let watcher = spoke.clone();
        let thread = thread::Builder::new()
            .name("world rank 0".to_string())
            .spawn(move || watcher.watch(listener, patience))?;
        Ok((spoke, vec![thread]))
    }

    fn watch(&self, listener: Listener, patience: Patience) {
        let fail = |verdict| {
            self.state.fail(verdict);
        };
        watch(&self.state, 0, listener, patience, |message| self.receive(message), fail);
    }

    fn receive(&self, message: Message) {
        match message {
            Message::Verdict(verdict) => {
                self.state.fail(verdict);
            }
            Message::Goodbye(entered) => {
                self.state.note_first_left(entered);
                // Rank 0 waits for the end of the connection.
                self.line.close(&self.goodbye_message());
            }
            Message::Beat(_) | Message::Welcome | Message::Start(_) | Message::OtherRun(_) => {}
        }
    }

    fn goodbye_message(&self) -> Message {
        Message::Goodbye(self.state.progress().entered)
    }
}

impl Plane for Spoke {
    fn beat(&self) {
        self.line.send(&Message::Beat(self.state.progress()).encode());
    }

    fn tick(&self) {
        self.beat();
    }

    fn report(&self, verdict: Verdict) {
        self.line.send(&Message::Verdict(verdict).encode());
    }

    fn goodbye(&self) {
        self.line.close(&self.goodbye_message());
    }
}

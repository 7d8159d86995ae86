//! Predicted time of the messages between the ranks of a world.
//!
//! In: the collective ops of a plan, and a network. Out: the time of their messages alone. The model is that
//! of latency and bandwidth: within a host, the ranks form a ring; between hosts, the ranks with the same
//! number on each host form a ring for their part of the bytes or, for sums that all ranks get, a double tree
//! if that is faster. (Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
//! MPICH", 2005; Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and
//! scan", 2009.)

use gradloom_core::ir::{CollectiveOp, OpKind};
use gradloom_core::kernel::{Access, Kernel, Launch};
use gradloom_core::plan::Plan;
use std::time::Duration;

/// Connections between ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Network {
    /// Maximum number of ranks of a host.
    pub(super) per_host: usize,
    /// Connection of a rank to others of its host.
    pub(super) within: Link,
    /// Connection of a rank to ranks of other hosts.
    pub(super) between: Link,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    /// Bytes per second in each direction.
    pub(super) bandwidth: f64,
    /// Time of a message without bytes, in seconds.
    pub(super) latency: f64,
}

impl Network {
    /// Eight GPUs of a host with NVLink 4, and a network card of 400 Gbit/s for each. The first bandwidth was
    /// fitted to sums of 57 MB and 158 MB between two H200s; the other numbers are assumed: nine tenths
    /// of the card's bandwidth, and the latencies of NCCL's own model.
    pub(super) const NVLINK: Self = Self {
        per_host: 8,
        within: Link { bandwidth: 265e9, latency: 4e-6 },
        between: Link { bandwidth: 45e9, latency: 15e-6 },
    };

    /// Returns the time in seconds of an op on `ranks` ranks, of `bytes` bytes of whole operands or results.
    fn time(&self, op: CollectiveOp, bytes: f64, ranks: usize) -> f64 {
        // A sum for all ranks is one for shards, whose results are then exchanged.
        let passes = if op.keeps_types() { 2.0 } else { 1.0 };
        let local = ranks.clamp(1, self.per_host);
        let hosts = ranks.div_ceil(local);
        let ring = |link: Link, members: usize, bytes: f64| {
            let steps = members as f64 - 1.0;
            steps * (bytes / members as f64 / link.bandwidth + link.latency)
        };
        let part = bytes / local as f64;
        let levels = (hosts as f64).log2().ceil();
        let tree = part / self.between.bandwidth + levels * self.between.latency;
        let between = match hosts {
            1 => 0.0,
            _ if op.keeps_types() => ring(self.between, hosts, part).min(tree),
            _ => ring(self.between, hosts, part),
        };
        passes * (ring(self.within, local, bytes) + between)
    }
}

/// Messages of a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Traffic {
    /// Collective ops, in order.
    pub(super) messages: Vec<Message>,
    /// Predicted time of all messages, one after the other.
    pub(super) all: Duration,
    /// Predicted time of those that no later kernel of the backward pass can hide.
    pub(super) exposed: Duration,
}

/// Messages of a collective op.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Message {
    pub(super) op: CollectiveOp,
    /// Number of values.
    pub(super) values: usize,
    /// Bytes of the whole operands or results.
    pub(super) bytes: u64,
}

impl Traffic {
    /// Returns the bytes of all messages.
    pub(super) fn bytes(&self) -> u64 {
        self.messages.iter().map(|message| message.bytes).sum()
    }

    /// Returns the messages of a plan; `None` if it has none.
    pub(super) fn of(plan: &Plan, network: &Network) -> Option<Self> {
        let op_of = |launch: &Launch| match launch.kernel {
            Kernel::Op(OpKind::Collective { op, ranks, .. }) => Some((op, ranks)),
            _ => None,
        };
        // Everything after the gradients waits for the last of their sums.
        let last = plan
            .launches
            .iter()
            .rposition(|launch| op_of(launch).is_some_and(|(op, _)| op == CollectiveOp::CheckedAllReduce));
        let mut traffic = Self { messages: Vec::new(), all: Duration::ZERO, exposed: Duration::ZERO };
        for (number, launch) in plan.launches.iter().enumerate() {
            let Some((op, ranks)) = op_of(launch) else { continue };
            let whole = if op == CollectiveOp::AllGather { &launch.writes } else { &launch.reads };
            let size = |access: &Access| access.layout.shape.elements() as u64 * access.dtype.bytes() as u64;
            let bytes: u64 = whole.iter().map(size).sum();
            let time = Duration::from_secs_f64(network.time(op, bytes as f64, ranks));
            traffic.messages.push(Message { op, values: whole.len(), bytes });
            traffic.all += time;
            if last.is_none_or(|last| number >= last) {
                traffic.exposed += time;
            }
        }
        (!traffic.messages.is_empty()).then_some(traffic)
    }
}

#[cfg(test)]
mod tests {
    use super::{Link, Network};
    use gradloom_core::ir::CollectiveOp;

    const NETWORK: Network = Network {
        per_host: 4,
        within: Link { bandwidth: 100.0, latency: 0.0 },
        between: Link { bandwidth: 10.0, latency: 1.0 },
    };

    #[test]
    fn times_are_those_of_the_formulas() {
        let time = |op, ranks| NETWORK.time(op, 1000.0, ranks);
        assert_eq!(time(CollectiveOp::AllReduce, 1), 0.0);
        // Each rank sends half of the bytes, and then the other half.
        assert_eq!(time(CollectiveOp::AllReduce, 2), 10.0);
        assert_eq!(time(CollectiveOp::ReduceScatter, 2), 5.0);
        assert_eq!(time(CollectiveOp::AllGather, 4), 7.5);
        // Two hosts exchange a quarter of the bytes for each of the four ranks.
        assert_eq!(time(CollectiveOp::AllGather, 8), 7.5 + 12.5 + 1.0);
        // For many hosts, a tree has fewer steps than the ring with its 1023 latencies.
        assert_eq!(time(CollectiveOp::AllReduce, 4096), 2.0 * (7.5 + 25.0 + 10.0));
    }
}

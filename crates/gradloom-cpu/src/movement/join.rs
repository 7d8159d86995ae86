//! Concatenation: each operand is copied to its window of the result.

use super::CopyLoop;
use crate::kernel::{Call, Prepared, Tasks};
use gradloom_core::kernel::Launch;

/// Returns a kernel for a `Concat` launch.
pub(crate) fn prepare(launch: &Launch, axis: usize) -> Box<dyn Prepared> {
    let write = &launch.writes[0];
    let rank = write.layout.shape.rank();
    let mut at = 0;
    let parts = launch.reads.iter().enumerate().map(|(read, access)| {
        let (mut start, mut limit) = (vec![0; rank], write.layout.shape.to_vec());
        start[axis] = at;
        at += access.layout.shape[axis];
        limit[axis] = at;
        let window = write.layout.slice(&start, &limit, &vec![1; rank]);
        (read, CopyLoop::new(&access.layout, &window, write.dtype.bytes()))
    });
    let parts: Vec<_> = parts.filter(|(_, part)| part.tasks() > 0).collect();
    let mut tasks = 0;
    let first = |(_, part): &(usize, CopyLoop)| {
        tasks += part.tasks();
        tasks - part.tasks()
    };
    Box::new(Concat { first_tasks: parts.iter().map(first).collect(), tasks, parts })
}

struct Concat {
    /// Index of each read and its copy, in the order of the reads.
    parts: Vec<(usize, CopyLoop)>,
    /// Index of the first task of each part.
    first_tasks: Vec<usize>,
    /// Number of tasks of all parts.
    tasks: usize,
}

impl Tasks for Concat {
    fn count(&self, _: usize) -> usize {
        self.tasks
    }

    unsafe fn run_task(&self, call: &Call<'_>, _: usize, task: usize) {
        let number = self.first_tasks.partition_point(|&first| first <= task) - 1;
        let (read, part) = &self.parts[number];
        // SAFETY: the launch's layouts lie in the call's buffers, and the windows are disjoint.
        unsafe { part.run_task(task - self.first_tasks[number], call.read(*read, 0), call.write(0, 0)) };
    }
}

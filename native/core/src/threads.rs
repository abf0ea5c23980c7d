//! Work on all cores.

use std::sync::LazyLock;

use crate::OutOfMemory;

/// Fewer records a thread cost more than they save; not measured.
const RECORDS_PER_THREAD: usize = 4096;

/// How many threads may run at a time; to ask costs as much as a small block.
static THREADS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));

/// Return in how many parts so many records are worked on.
pub fn count(records: usize) -> usize {
    THREADS.min(records / RECORDS_PER_THREAD).max(1)
}

/// Run jobs beside each other, the first one here; return what they made, in their order.
pub fn run<T: Send>(
    jobs: Vec<impl Fn() -> Result<T, OutOfMemory> + Send + Sync>,
) -> Result<Vec<T>, OutOfMemory> {
    let Some((first, others)) = jobs.split_first() else { return Ok(Vec::new()) };
    std::thread::scope(|scope| {
        let others: Vec<_> = others
            .iter()
            .map(|job| (job, std::thread::Builder::new().spawn_scoped(scope, job).ok()))
            .collect();
        let mut done = vec![first()?];
        for (job, thread) in others {
            done.push(match thread.map(|t| t.join()) {
                Some(Ok(made)) => made?,
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                None => job()?, // no more threads are to be had
            });
        }
        Ok(done)
    })
}

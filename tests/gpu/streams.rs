//! Asynchronous calls: after other work, on several streams concurrently, in graphs.

use gridz::{ByteOrder, DType};

use crate::arrays::{self, Kind, Random, array};
use crate::batch::{Batch, Layout};
use crate::common::assert_same_bytes;
use crate::driver::Stream;
use crate::has_gpu;

/// Rows of 256 bytes, so that the kernels for aligned rows are used.
const EXTENTS: [u64; 3] = [40, 50, 64];

fn chunks(seed: u64, n_chunks: usize) -> Vec<Vec<u8>> {
    let array = array(DType::F32, ByteOrder::Little, &EXTENTS);
    let mut random = Random::new(seed);
    let mut chunk = || arrays::bytes(&array, random_kind(&mut random), &mut random);
    (0..n_chunks).map(|_| chunk()).collect()
}

fn random_kind(random: &mut Random) -> Kind {
    random.pick(&[Kind::Walk, Kind::Mixed, Kind::Noise])
}

fn batch(stream: &Stream, n_chunks: usize, has_workspace: bool) -> Batch<'_> {
    let array = array(DType::F32, ByteOrder::Little, &EXTENTS);
    Batch::new(stream, array, &crate::common::ndzip(), Layout { has_workspace, ..Layout::of(n_chunks) })
}

/// A call returns although its stream is blocked. Needs exclusive use of the GPU: other threads
/// that free memory wait for all streams, and meanwhile block the driver.
#[test]
#[ignore = "needs the GPU for itself"]
fn calls_do_not_wait() {
    if !has_gpu("calls_do_not_wait") {
        return;
    }
    let stream = Stream::new();
    for has_workspace in [true, false] {
        let batch = batch(&stream, 4, has_workspace);
        let chunks = chunks(11, 4);
        // The query for the workspace size has loaded the kernels.
        batch.write_chunks(&chunks);
        batch.poison_results();
        stream.synchronize();
        let gate = stream.gate();
        batch.submit_compress();
        batch.submit_decompress(0);
        gate.open();
        let back = batch.back.read_all();
        assert_eq!(batch.read_statuses(), [0; 4]);
        for (i, raw) in chunks.iter().enumerate() {
            assert_same_bytes(batch.chunk(&back, i), raw, &format!("workspace {has_workspace}, chunk {i}"));
        }
    }
}

#[test]
fn streams_side_by_side() {
    if !has_gpu("streams_side_by_side") {
        return;
    }
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let stream = Stream::new();
                for round in 0..8 {
                    let n_chunks = 1 + (thread + 3 * round) % 9;
                    let chunks = chunks((100 * thread + round) as u64, n_chunks);
                    let batch = batch(&stream, n_chunks, round % 2 == 0);
                    batch.check(&chunks, &format!("thread {thread}, round {round}"));
                }
            });
        }
    });
}

/// NULL is a valid stream.
#[test]
fn the_legacy_default_stream() {
    if !has_gpu("the_legacy_default_stream") {
        return;
    }
    let stream = Stream::legacy();
    batch(&stream, 3, false).check(&chunks(12, 3), "the legacy default stream");
}

/// Compression and decompression in one graph, which is created once and replayed with other data.
#[test]
fn graphs() {
    if !has_gpu("graphs") {
        return;
    }
    let stream = Stream::new();
    let batch = batch(&stream, 5, true);
    // A captured call cannot load kernels.
    batch.check(&chunks(20, 5), "before");
    let graph = stream.capture(|| {
        batch.submit_compress();
        batch.submit_decompress(0);
    });
    for seed in 21..24 {
        let chunks = chunks(seed, 5);
        batch.write_chunks(&chunks);
        batch.poison_results();
        batch.frames.fill(0);
        batch.lengths.fill(crate::driver::POISON);
        stream.replay(&graph);
        let (back, frames) = (batch.back.read_all(), batch.frames.read_all());
        assert_eq!(batch.read_statuses(), [0; 5]);
        for (i, (raw, n_bytes)) in chunks.iter().zip(batch.read_lengths()).enumerate() {
            assert_same_bytes(batch.chunk(&back, i), raw, &format!("replay {seed}, chunk {i}"));
            let frame = &frames[i * batch.slot..][..n_bytes as usize];
            let by_cpu = crate::common::compress(&batch.array, &crate::common::ndzip(), raw, &crate::cpu());
            assert_same_bytes(frame, &by_cpu, &format!("replay {seed}, frame {i}"));
        }
    }
}

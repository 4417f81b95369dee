//! A GPU that is out of memory, lost, or used by another process: the CPU takes over where allowed,
//! with the same bytes. Each test is a separate process and needs exclusive use of the GPU.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cudarc::driver::sys::{CUresult, cuCtxSynchronize};
use gridz::{Array, ByteOrder, Context, DType, ErrorKind, Result};
use gridz_codecs::settings::{self, Backend};
use gridz_cuda::{Device, Grid, KernelStruct};

use crate::arrays::{self, Kind, Random};
use crate::common::{assert_same_bytes, compress};
use crate::driver;
use crate::mock_cuda::{Args, output_with_driver};
use crate::{cpu, gpu};

const LOG: [(&str, &str); 1] = [("GRIDZ_LOG", "info")];

/// A context that uses the GPU for chunks of this size because the program has a CUDA context, and
/// the CPU if the GPU fails.
fn auto() -> Context {
    Context::new(Some(1), None).unwrap().on(Backend::Auto, None).unwrap()
}

/// A chunk in host memory and its frame.
struct Chunk {
    array: Array,
    raw: Vec<u8>,
    frame: Vec<u8>,
}

impl Chunk {
    fn new(extents: &[u64]) -> Self {
        let array = arrays::array(DType::F32, ByteOrder::Little, extents);
        let raw = arrays::bytes(&array, Kind::Walk, &mut Random::new(14));
        let frame = compress(&array, &crate::common::ndzip(), &raw, &cpu());
        Self { array, raw, frame }
    }

    fn compress(&self, context: &Context) -> Result<Vec<u8>> {
        let mut frame = vec![0; gridz::compress_bound(&self.array, &crate::common::ndzip())? as usize];
        let n_bytes = gridz::compress(&self.array, &crate::common::ndzip(), &self.raw, &mut frame, context)?;
        frame.truncate(n_bytes);
        Ok(frame)
    }

    fn error(&self, context: &Context) -> Option<ErrorKind> {
        self.compress(context).err().map(|error| error.kind())
    }

    #[track_caller]
    fn assert_same_frame(&self, context: &Context, what: &str) {
        assert_same_bytes(&self.compress(context).unwrap(), &self.frame, what);
    }
}

fn takeovers(log: &str) -> usize {
    log.lines().filter(|line| line.contains("the CPU takes over")).count()
}

#[test]
#[ignore = "needs the GPU for itself"]
fn no_memory() {
    let log = output_with_driver("faults::no_memory", &LOG, || {
        driver::enter();
        // Load the kernels while there is memory.
        Chunk::new(&[16, 32, 32]).assert_same_frame(&gpu(), "before");
        // More than the memory that gridz may have cached from that call.
        let chunk = Chunk::new(&[128, 512, 512]);
        let all = driver::use_up_memory();
        assert!(driver::free_bytes() < 64 << 20, "the GPU is not full");
        assert_eq!(chunk.error(&gpu()), Some(ErrorKind::OutOfMemory));
        chunk.assert_same_frame(&auto(), "on a full GPU");
        driver::free(all);
        chunk.assert_same_frame(&gpu(), "after that");
        chunk.assert_same_frame(&auto(), "after that");
    });
    if let Some(log) = log {
        assert_eq!(takeovers(&log), 1, "{log}");
    }
}

#[test]
#[ignore = "needs the GPU for itself"]
fn a_lost_device() {
    let log = output_with_driver("faults::a_lost_device", &LOG, || {
        driver::enter();
        let chunk = Chunk::new(&[128, 128, 128]);
        chunk.assert_same_frame(&gpu(), "before");
        // Create the contexts while the GPU works: later they would be refused.
        let (gpu, auto) = (gpu(), auto());
        let device = Device::choose(settings::checked().unwrap()).unwrap();
        let stream = device.stream().unwrap();
        let trap = device.module(crate::selftest::fatbin()).unwrap().function("selftest_trap").unwrap();
        let args = Args { dst: 0, n_words: 0, extents: [0; 3], value: 1, other: 0 };
        let one = Grid { ctas: 1, threads: 1, shared_bytes: 0 };
        // SAFETY: the kernel accesses no memory.
        unsafe { trap.launch(one, &stream, args.as_bytes()).unwrap() };
        // Synchronize without gridz, so that gridz notices the error only in the next call.
        // SAFETY: a context is current.
        assert_ne!(unsafe { cuCtxSynchronize() }, CUresult::CUDA_SUCCESS);
        chunk.assert_same_frame(&auto, "on a lost GPU");
        assert_eq!(chunk.error(&gpu), Some(ErrorKind::Device));
    });
    if let Some(log) = log {
        assert_eq!(takeovers(&log), 1, "{log}");
    }
}

#[test]
#[ignore = "needs the GPU for itself"]
fn a_forked_child() {
    output_with_driver("faults::a_forked_child", &[], || {
        driver::enter();
        let chunk = Chunk::new(&[128, 128, 128]);
        let auto = auto();
        chunk.assert_same_frame(&gpu(), "in the parent");
        chunk.assert_same_frame(&auto, "in the parent");
        // SAFETY: the child compresses, which is allowed after a fork, and exits without exit
        // handlers.
        match unsafe { libc::fork() } {
            0 => {
                let is_same = catch_unwind(AssertUnwindSafe(|| chunk.compress(&auto).unwrap() == chunk.frame));
                // SAFETY: as above.
                unsafe { libc::_exit(i32::from(!is_same.unwrap_or(false))) }
            }
            child => {
                let mut status = 0;
                // SAFETY: waits for the child and writes one integer.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0, "the child's frame differs");
            }
        }
        chunk.assert_same_frame(&gpu(), "in the parent, later");
    });
}

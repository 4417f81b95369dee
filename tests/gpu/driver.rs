//! The CUDA driver as an application uses it: its own memory, streams, events and graphs, created
//! without gridz. Panics on every error.
#![allow(dead_code)] // the bench uses only some of it

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUdeviceptr, CUevent, CUgraph, CUgraphExec, CUresult, CUstream};

#[track_caller]
pub fn check(code: CUresult) {
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

/// Makes the primary context of the first GPU current on this thread. libcuda must be available.
pub fn enter() {
    let mut context = ptr::null_mut();
    // SAFETY: writes one handle, which stays valid until the end of the process.
    unsafe {
        check(sys::cuInit(0));
        check(sys::cuDevicePrimaryCtxRetain(&raw mut context, 0));
        check(sys::cuCtxSetCurrent(context));
    }
}

/// A stream that does not synchronize with the legacy default stream.
pub struct Stream(CUstream);

impl Stream {
    pub fn new() -> Self {
        enter();
        let mut stream = ptr::null_mut();
        // SAFETY: writes one handle; a context is current.
        check(unsafe { sys::cuStreamCreate(&raw mut stream, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32) });
        Self(stream)
    }

    /// The legacy default stream.
    pub fn legacy() -> Self {
        enter();
        Self(ptr::null_mut())
    }

    /// The handle for the C API.
    pub fn raw(&self) -> *mut c_void {
        self.0.cast()
    }

    #[track_caller]
    pub fn synchronize(&self) {
        // SAFETY: the stream is alive.
        check(unsafe { sys::cuStreamSynchronize(self.0) });
    }

    pub fn record(&self) -> Event {
        let mut event = ptr::null_mut();
        // SAFETY: writes one handle; the stream is alive.
        unsafe {
            check(sys::cuEventCreate(&raw mut event, 0));
            check(sys::cuEventRecord(event, self.0));
        }
        Event(event)
    }

    /// Blocks the stream until the gate is opened or a few seconds have passed.
    pub fn gate(&self) -> Gate {
        extern "C" fn wait(gate: *mut c_void) {
            // SAFETY: the flags are leaked, so they are valid whenever the stream runs this.
            let gate = unsafe { &*gate.cast::<Flags>() };
            let begin = Instant::now();
            while !gate.is_open.load(Ordering::Acquire) {
                if begin.elapsed() > Duration::from_secs(5) {
                    gate.gave_up.store(true, Ordering::Release);
                    return;
                }
                std::hint::spin_loop();
            }
        }
        let flags = Box::leak(Box::new(Flags { is_open: AtomicBool::new(false), gave_up: AtomicBool::new(false) }));
        // SAFETY: the flags are never freed.
        unsafe {
            check(sys::cuLaunchHostFunc(self.0, Some(wait), ptr::from_ref(flags).cast_mut().cast()));
        }
        Gate(flags)
    }

    /// Captures the work that `work` submits to the stream as a graph.
    pub fn capture(&self, work: impl FnOnce()) -> Graph {
        let (mut graph, mut exec): (CUgraph, CUgraphExec) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: writes handles; the stream is alive.
        unsafe {
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            check(sys::cuStreamBeginCapture_v2(self.0, mode));
            work();
            check(sys::cuStreamEndCapture(self.0, &raw mut graph));
            check(sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
            check(sys::cuGraphDestroy(graph));
        }
        Graph(exec)
    }

    pub fn replay(&self, graph: &Graph) {
        // SAFETY: both are alive.
        check(unsafe { sys::cuGraphLaunch(graph.0, self.0) });
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the handle is not used again; work still in the stream completes.
            unsafe { sys::cuStreamDestroy_v2(self.0) };
        }
    }
}

/// Captured work that can be launched on a stream repeatedly.
pub struct Graph(CUgraphExec);

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the handle is not used again; a launch that is still running completes.
        unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}

struct Flags {
    is_open: AtomicBool,
    gave_up: AtomicBool,
}

/// Blocks a stream.
pub struct Gate(&'static Flags);

impl Gate {
    /// Opens the gate. Panics if the gate had already timed out: then a call issued after the gate
    /// waited for the stream.
    #[track_caller]
    pub fn open(self) {
        self.0.is_open.store(true, Ordering::Release);
        assert!(!self.0.gave_up.load(Ordering::Acquire), "a call waited for the stream");
    }
}

/// A point in a stream.
pub struct Event(CUevent);

impl Event {
    /// Microseconds from `begin` to this event; synchronizes with this event.
    pub fn microseconds_since(&self, begin: &Event) -> f64 {
        let mut milliseconds = 0.0;
        // SAFETY: writes one number; both are alive and recorded.
        unsafe {
            check(sys::cuEventSynchronize(self.0));
            check(sys::cuEventElapsedTime_v2(&raw mut milliseconds, begin.0, self.0));
        }
        f64::from(milliseconds) * 1e3
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the handle is not used again.
        unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

const GUARD: usize = 4096;
pub const POISON: u8 = 0xa5;

/// Device memory between guard zones, all of it poisoned, for work on one stream.
pub struct Memory<'s> {
    stream: &'s Stream,
    base: CUdeviceptr,
    n_bytes: usize,
    shift: usize,
}

impl<'s> Memory<'s> {
    /// `n_bytes` of memory, at an address of `shift` bytes past a multiple of 256.
    pub fn new(stream: &'s Stream, n_bytes: usize, shift: usize) -> Self {
        let (mut base, all) = (0, n_bytes + shift + 2 * GUARD);
        // SAFETY: writes one address and fills the memory at it; a context is current.
        unsafe {
            check(sys::cuMemAlloc_v2(&raw mut base, all));
            check(sys::cuMemsetD8Async(base, POISON, all, stream.0));
        }
        Self { stream, base, n_bytes, shift }
    }

    /// Memory that contains `bytes`.
    pub fn of(stream: &'s Stream, bytes: &[u8], shift: usize) -> Self {
        let memory = Self::new(stream, bytes.len(), shift);
        memory.write(0, bytes);
        memory
    }

    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    pub fn ptr<T>(&self) -> *mut T {
        ptr::with_exposed_provenance_mut((self.base as usize) + GUARD + self.shift)
    }

    fn address(&self, at: usize) -> CUdeviceptr {
        self.base + (GUARD + self.shift + at) as u64
    }

    /// Fills all of the memory except the guard zones.
    pub fn fill(&self, byte: u8) {
        if self.n_bytes == 0 {
            return;
        }
        // SAFETY: inside the allocation.
        check(unsafe { sys::cuMemsetD8Async(self.address(0), byte, self.n_bytes, self.stream.0) });
    }

    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.n_bytes);
        if bytes.is_empty() {
            return;
        }
        // SAFETY: inside, by the assertion.
        check(unsafe {
            sys::cuMemcpyHtoDAsync_v2(self.address(at), bytes.as_ptr().cast(), bytes.len(), self.stream.0)
        });
        // The caller may reuse the source when this returns.
        self.stream.synchronize();
    }

    /// Copies `n_bytes` within the memory.
    pub fn copy_within(&self, from: usize, to: usize, n_bytes: usize) {
        assert!(from.max(to) + n_bytes <= self.n_bytes);
        // SAFETY: inside, by the line above.
        check(unsafe { sys::cuMemcpyDtoDAsync_v2(self.address(to), self.address(from), n_bytes, self.stream.0) });
    }

    /// Only submits a copy of `n_bytes` to other memory to the stream.
    pub fn copy_to(&self, from: usize, other: &Memory, to: usize, n_bytes: usize) {
        assert!(from + n_bytes <= self.n_bytes && to + n_bytes <= other.n_bytes);
        // SAFETY: inside both, by the line above.
        check(unsafe { sys::cuMemcpyDtoDAsync_v2(other.address(to), self.address(from), n_bytes, self.stream.0) });
    }

    pub fn read_into(&self, at: usize, bytes: &mut [u8]) {
        assert!(at + bytes.len() <= self.n_bytes);
        self.read_raw(self.address(at), bytes);
    }

    pub fn read(&self, at: usize, n_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; n_bytes];
        self.read_into(at, &mut bytes);
        bytes
    }

    pub fn read_all(&self) -> Vec<u8> {
        self.read(0, self.n_bytes)
    }

    fn read_raw(&self, address: CUdeviceptr, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        // SAFETY: the callers stay inside the allocation.
        check(unsafe { sys::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), address, bytes.len(), self.stream.0) });
        self.stream.synchronize();
    }

    /// Panics if anything was written to the guard zones.
    #[track_caller]
    pub fn assert_guards(&self, what: &str) {
        let (mut before, mut behind) = (vec![0; GUARD + self.shift], vec![0; GUARD]);
        self.read_raw(self.base, &mut before);
        self.read_raw(self.address(self.n_bytes), &mut behind);
        assert!(is_poison(&before), "{what}: written before the memory");
        assert!(is_poison(&behind), "{what}: written past the memory");
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: the memory is not used again; the call waits for pending work on it.
        unsafe { sys::cuMemFree_v2(self.base) };
    }
}

pub fn is_poison(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == POISON)
}

/// Bytes of free GPU memory.
pub fn free_bytes() -> usize {
    let (mut free, mut total) = (0, 0);
    // SAFETY: writes two numbers.
    check(unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) });
    free
}

/// Allocates GPU memory until less than a megabyte is left.
pub fn use_up_memory() -> Vec<CUdeviceptr> {
    let (mut all, mut n_bytes) = (Vec::new(), 8_usize << 30);
    while n_bytes >= 1 << 20 {
        let mut address = 0;
        // SAFETY: writes one address.
        match unsafe { sys::cuMemAlloc_v2(&raw mut address, n_bytes) } {
            CUresult::CUDA_SUCCESS => all.push(address),
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => n_bytes /= 2,
            code => check(code),
        }
    }
    all
}

pub fn free(all: Vec<CUdeviceptr>) {
    for address in all {
        // SAFETY: allocated above and not used.
        check(unsafe { sys::cuMemFree_v2(address) });
    }
}

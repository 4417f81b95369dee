//! Devices: one context on one GPU, with everything that gridz keeps in it.
//!
//! Contexts are shared with the application. If the application has a current context, that one is
//! used. Otherwise the primary context, which the CUDA runtime uses too, is retained once per
//! process. The list of devices only grows and has no lock. Nothing in it is freed at exit, because
//! the driver may already be unloaded then.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys::{self, CUcontext};
use once_cell::race::OnceBox;

use crate::caches::{MemoryPool, Streams};
use crate::context::{DriverContext, Entered, id_of};
use crate::error::check;
use crate::modules::{Fatbin, Module, Modules};
use crate::pinned::{PinnedBuffer, PinnedCache};
use crate::probe::{self, Gpu};
use crate::slice::DeviceSlice;
use gridz_codecs::error::{Error, Result};
use gridz_codecs::settings::{self, Gpus, Settings};

/// One context on one GPU. Any thread may use it at any time.
#[derive(Debug)]
pub struct Device {
    pub(super) context: DriverContext,
    /// True if gridz retained the primary context and has to release it.
    is_primary: bool,
    pub(super) pool: MemoryPool,
    pub(super) streams: Streams,
    pinned: PinnedCache,
    modules: Modules,
}

/// The devices of this process.
static DEVICES: OnceBox<Node> = OnceBox::new();

struct Node {
    device: Device,
    next: OnceBox<Node>,
}

impl Device {
    /// The device for data in host memory: that of `GRIDZ_DEVICE`, else that of the current context
    /// of this thread, else the GPU of this process's MPI rank on the node.
    ///
    /// # Errors
    /// `Device` with the reason if no GPU is usable, `InvalidArgument` for a `GRIDZ_DEVICE` that
    /// does not exist.
    pub fn choose(settings: &Settings) -> Result<&'static Device> {
        let gpus = probe::gpus()?;
        let current = Self::current()?;
        let Gpus::Number(wanted) = settings.gpus else {
            return current.map_or_else(|| Self::primary(&gpus[settings::local_rank() % gpus.len()]), Ok);
        };
        let gpu = gpus.get(wanted as usize).ok_or_else(|| {
            let last = gpus.len() - 1;
            Error::invalid(format!(
                "there is no GPU {wanted}; the available GPUs are 0 to {last} (GRIDZ_DEVICE, or the device of a \
                 context)"
            ))
        })?;
        current.filter(|device| device.context.gpu == gpu).map_or_else(|| Self::primary(gpu), Ok)
    }

    /// The device for one of many arrays: like [`choose`](Self::choose), but round-robin over all
    /// GPUs if all are to be used.
    ///
    /// # Errors
    /// As for [`choose`](Self::choose).
    pub fn in_turn(settings: &Settings) -> Result<&'static Device> {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        if settings.gpus != Gpus::All {
            return Self::choose(settings);
        }
        let all = Self::all()?;
        Ok(all[(settings::local_rank() + TURN.fetch_add(1, Ordering::Relaxed)) % all.len()])
    }

    /// All devices to use: the one of [`choose`](Self::choose), or those of all usable GPUs.
    ///
    /// # Errors
    /// As for `choose`.
    pub fn wanted(settings: &Settings) -> Result<Vec<&'static Device>> {
        if settings.gpus == Gpus::All { Self::all() } else { Ok(vec![Self::choose(settings)?]) }
    }

    /// The devices of all usable GPUs, at least one.
    ///
    /// # Errors
    /// `Device` with the reason if no GPU is usable.
    pub fn all() -> Result<Vec<&'static Device>> {
        let mut why_not = None;
        let usable = |gpu: &'static Gpu| {
            let device = Self::of_gpu(gpu.ordinal).and_then(|device| device.enter().map(|_| device));
            device.map_err(|error| why_not.get_or_insert(error).clone()).ok()
        };
        let all: Vec<_> = probe::gpus()?.iter().filter_map(usable).collect();
        match why_not {
            Some(error) if all.is_empty() => Err(error),
            _ => Ok(all),
        }
    }

    /// The device of the current context of this thread, if one is current. A caller's device
    /// pointers and streams belong to this context.
    ///
    /// # Errors
    /// `Device` if its GPU cannot be used.
    pub fn current() -> Result<Option<&'static Device>> {
        probe::gpus()?;
        probe::current_context().map(Self::of_context).transpose()
    }

    /// The device for memory of GPU `ordinal`: that of the current context if it is on this GPU,
    /// else that of the primary context.
    ///
    /// # Errors
    /// `Device` if it cannot be used, `InvalidArgument` if it does not exist.
    pub fn of_gpu(ordinal: u32) -> Result<&'static Device> {
        let gpus = probe::gpus()?;
        let gpu = gpus.get(ordinal as usize).ok_or_else(|| Error::invalid(format!("there is no GPU {ordinal}")))?;
        Self::current()?.filter(|device| device.context.gpu == gpu).map_or_else(|| Self::primary(gpu), Ok)
    }

    /// The device that owns all of `memory`: that of the context in which the memory was allocated.
    /// Memory of a pool belongs to no context; if all of it is pool memory, the device is that of
    /// its GPU.
    ///
    /// # Errors
    /// `InvalidArgument` if the memory belongs to two devices, or the driver does not know it;
    /// `Device` if the device cannot be used.
    pub fn of_memory(memory: &[DeviceSlice]) -> Result<&'static Device> {
        probe::gpus()?;
        let mut first = None;
        let mut owner: Option<&'static Device> = None;
        for address in memory.iter().map(DeviceSlice::address) {
            let unknown = || Error::invalid(format!("there is no GPU memory at {address:#x}"));
            let ordinal = probe::gpu_of_address(address).ok_or_else(unknown)?;
            let first = *first.get_or_insert(ordinal);
            if first != ordinal {
                return Err(Error::invalid(format!(
                    "source and destination are on different GPUs, {first} and {ordinal}; use one GPU"
                )));
            }
            let device = probe::context_of_address(address).map(Self::of_context).transpose()?;
            if let (Some(a), Some(b)) = (owner, device)
                && !ptr::eq(a, b)
            {
                return Err(Error::invalid(format!(
                    "source and destination belong to different CUDA contexts of GPU {ordinal}; use one context"
                )));
            }
            owner = owner.or(device);
        }
        let ordinal = first.ok_or_else(|| Error::invalid("no GPU memory was given"))?;
        owner.map_or_else(|| Self::of_gpu(ordinal), Ok)
    }

    /// True if kernels of this device can access `memory`: its own, managed and pinned memory, and
    /// memory of other GPUs with peer access.
    ///
    /// # Errors
    /// `Device`.
    pub fn reaches(&self, memory: DeviceSlice) -> Result<bool> {
        let _entered = self.enter()?;
        // The driver answers for single addresses only: even if it knows both ends of the memory,
        // there may be a gap between them.
        let last = memory.address() + memory.n_bytes().saturating_sub(1);
        Ok(probe::is_reached(memory.address()) && probe::is_reached(last))
    }

    /// The device of a context of the application.
    pub(super) fn of_context(context: CUcontext) -> Result<&'static Device> {
        let id = id_of(context)?;
        if let Some(known) = devices().find(|device| device.context.id == id) {
            return Ok(known);
        }
        let entered = Entered::new(context, |code| check(code, "making a CUDA context current failed"))?;
        let mut ordinal = 0;
        // SAFETY: writes one integer; a context is current.
        check(unsafe { sys::cuCtxGetDevice(&raw mut ordinal) }, "querying the GPU of a CUDA context failed")?;
        drop(entered);
        let gpus = probe::gpus()?;
        let gpu = gpus.get(ordinal as usize).ok_or_else(|| Error::device(format!("there is no GPU {ordinal}")))?;
        Self::of(gpu, context, false)
    }

    /// The device of the GPU's primary context.
    fn primary(gpu: &'static Gpu) -> Result<&'static Device> {
        if let Some(known) =
            devices().find(|device| device.is_primary && device.context.gpu == gpu && device.context.exists())
        {
            return Ok(known);
        }
        gpu.check_usable()?;
        let mut context = ptr::null_mut();
        let what = format_args!("creating a context on GPU {} ({}) failed", gpu.ordinal, gpu.name).to_string();
        // SAFETY: writes one pointer; the number is that of a GPU.
        check(unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut context, gpu.ordinal as i32) }, what)?;
        Self::of(gpu, context, true)
    }

    /// The device of `context`, created if necessary. `is_primary`: the context was retained for
    /// this call.
    fn of(gpu: &'static Gpu, context: CUcontext, is_primary: bool) -> Result<&'static Device> {
        let release = Retained { gpu, is_primary };
        gpu.check_usable()?;
        let id = id_of(context)?;
        // The application's current context may turn up again as the primary one. The application
        // keeps it alive, so our reference is not needed and is released.
        if let Some(known) = devices().find(|device| device.context.id == id) {
            return Ok(known);
        }
        let context = DriverContext::new(gpu, context)?;
        std::mem::forget(release);
        let device = Device {
            context,
            is_primary,
            pool: MemoryPool::default(),
            streams: Streams::default(),
            pinned: PinnedCache::default(),
            modules: Modules::default(),
        };
        let mut new = Box::new(Node { device, next: OnceBox::new() });
        let mut end = &DEVICES;
        // Append to the list, unless another thread has added the same context.
        while let Err(back) = end.set(new) {
            let found = end.get().expect("a cell that refuses a value has one");
            if found.device.context.id == id {
                return Ok(&found.device);
            }
            (new, end) = (back, &found.next);
        }
        Ok(&end.get().expect("it was put there above").device)
    }

    /// The GPU of this device.
    pub fn gpu(&self) -> &'static Gpu {
        self.context.gpu
    }

    /// Makes the context current on this thread as long as the result lives. The calls of this
    /// module do not need this, but many calls in a row are faster with it.
    ///
    /// # Errors
    /// `Device` if the device is lost or this process is a fork.
    pub fn enter(&self) -> Result<Entered> {
        self.context.enter()
    }

    /// The error that made this device unusable, if there was one.
    pub fn lost(&self) -> Option<&Error> {
        self.context.lost()
    }

    /// Pinned memory of `n_bytes`.
    ///
    /// # Errors
    /// `OutOfMemory`, `Device`.
    pub fn pinned(&'static self, n_bytes: usize) -> Result<PinnedBuffer> {
        PinnedBuffer::new(&self.context, &self.pinned, n_bytes)
    }

    /// The module of `fatbin`, loaded on first use. A failure is remembered, so that later calls
    /// fail at once.
    ///
    /// # Errors
    /// `Device`, also if the fatbin has no code for this GPU; `OutOfMemory`.
    pub fn module(&'static self, fatbin: &'static Fatbin) -> Result<Module> {
        self.modules.get(&self.context, fatbin)
    }

    fn release_caches(&self) {
        // The caches of a lost device are left alone.
        if let Ok(_entered) = self.enter() {
            self.streams.release();
            self.pinned.release(&self.context);
            self.pool.release(&self.context);
        }
    }
}

/// Frees what devices cache for later calls and do not use now: device memory, pinned memory,
/// streams. Modules stay loaded, because a CUDA graph of the application may hold their kernels.
/// Each codec has one module per context.
pub fn release_caches() {
    if probe::check_process().is_ok() {
        devices().for_each(Device::release_caches);
    }
}

/// The devices that this process has used. A forked child does not reach this: see
/// [`probe::check_process`].
fn devices() -> impl Iterator<Item = &'static Device> {
    std::iter::successors(DEVICES.get(), |node| node.next.get()).map(|node| &node.device)
}

impl Drop for Device {
    /// Runs only for a duplicate: another thread added a device for the same context at the same
    /// time.
    fn drop(&mut self) {
        drop(Retained { gpu: self.context.gpu, is_primary: self.is_primary });
    }
}

/// A reference to a primary context, if `is_primary`.
struct Retained {
    gpu: &'static Gpu,
    is_primary: bool,
}

impl Drop for Retained {
    fn drop(&mut self) {
        if self.is_primary {
            // SAFETY: the primary context of this GPU was retained for this value. An error can be
            // neither reported nor handled.
            let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.gpu.ordinal as i32) };
        }
    }
}

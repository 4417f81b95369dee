//! Finds the GPUs that gridz can use, and the owner of the memory at an address.
//!
//! Nothing here creates a context. CUDA does not survive a fork. So the process that first calls
//! the driver through gridz is recorded, and its children have no GPU. No lock is taken that a fork
//! could leave held in the child.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use once_cell::race::OnceBox;

use crate::error::check;
use crate::loaded;
use crate::sys::{self, CUresult};
use gridz_codecs::error::{Error, Result};

/// The oldest supported driver, in CUDA's numbering: that of CUDA 13.0, which is driver 580.
const MIN_DRIVER: c_int = 13_000;
/// The lowest supported compute capability, that of Turing.
const MIN_CAPABILITY: (u32, u32) = (7, 5);

/// One GPU that is visible to this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// The GPU's number, from 0.
    pub ordinal: u32,
    /// Product name.
    pub name: String,
    /// Compute capability: major, minor.
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    has_memory_pools: bool,
}

impl Gpu {
    /// Checks that gridz can use this GPU.
    ///
    /// # Errors
    /// `Device`, which names the missing property.
    pub fn check_usable(&self) -> Result<()> {
        let Gpu { ordinal, name, capability: (major, minor), .. } = self;
        if self.capability < MIN_CAPABILITY {
            let (need_major, need_minor) = MIN_CAPABILITY;
            return Err(Error::device(format!(
                "GPU {ordinal} ({name}) has compute capability {major}.{minor}; gridz needs {need_major}.{need_minor} \
                 or newer"
            )));
        }
        if !self.has_memory_pools {
            return Err(Error::device(format!(
                "GPU {ordinal} ({name}) does not support stream-ordered memory allocation (it may be a virtual GPU)"
            )));
        }
        Ok(())
    }
}

/// The GPUs of this machine, at least one. The driver is queried once per process.
///
/// # Errors
/// `Device`: no driver, too old a driver, no GPU, or a forked process.
pub fn gpus() -> Result<&'static [Gpu]> {
    static GPUS: OnceBox<Result<Vec<Gpu>>> = OnceBox::new();
    sys::load()?;
    claim_process()?;
    GPUS.get_or_init(|| Box::new(probe())).as_deref().map_err(Clone::clone)
}

/// The process that first used the driver through gridz; 0 = none yet.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Records that this process uses the driver from now on.
///
/// # Errors
/// As [`check_process`].
fn claim_process() -> Result<()> {
    // On failure there is an owner already; the check compares this process with it.
    let _ = OWNER.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
    check_process()
}

/// Checks that this process may use the driver.
///
/// # Errors
/// `Device` in a child of a process that has used CUDA through gridz.
pub(super) fn check_process() -> Result<()> {
    match OWNER.load(Ordering::Relaxed) {
        owner if owner == 0 || owner == std::process::id() => Ok(()),
        owner => Err(Error::device(format!(
            "this process was forked from process {owner}, which had used CUDA, and CUDA does not survive a fork; \
             start workers by spawn or exec"
        ))),
    }
}

fn probe() -> Result<Vec<Gpu>> {
    let mut version = 0;
    // SAFETY: writes one integer; may be called before cuInit.
    check(unsafe { sys::cuDriverGetVersion(&raw mut version) }, "querying the version of the CUDA driver failed")?;
    // Check this before calling any newer function, which an old driver lacks.
    if version < MIN_DRIVER {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        return Err(Error::device(format!(
            "the NVIDIA driver is too old: it supports CUDA {major}.{minor}, but gridz needs CUDA 13.0 (driver 580 \
             or newer)"
        )));
    }
    // SAFETY: no pointers; may be called again and by several threads.
    check(unsafe { sys::cuInit(0) }, "initializing the CUDA driver failed")?;
    let mut count = 0;
    // SAFETY: writes one integer.
    check(unsafe { sys::cuDeviceGetCount(&raw mut count) }, "querying the number of GPUs failed")?;
    if count == 0 {
        return Err(Error::device("the NVIDIA driver shows no GPU to this process; check CUDA_VISIBLE_DEVICES"));
    }
    (0..count).map(describe).collect()
}

fn describe(ordinal: c_int) -> Result<Gpu> {
    let what = format_args!("querying the properties of GPU {ordinal} failed").to_string();
    let mut device = 0;
    // SAFETY: writes one integer.
    check(unsafe { sys::cuDeviceGet(&raw mut device, ordinal) }, &what)?;
    let mut name = [0u8; 128];
    // SAFETY: writes at most the given length, with a 0 byte at the end.
    let code = unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), name.len() as c_int, device) };
    check(code, &what)?;
    let attribute = |attribute| {
        let mut value = 0;
        // SAFETY: writes one integer.
        check(unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, device) }, &what)?;
        Ok(value as u32)
    };
    Ok(Gpu {
        ordinal: ordinal as u32,
        name: String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned(),
        capability: (
            attribute(sys::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(sys::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: attribute(sys::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        has_memory_pools: attribute(sys::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0,
    })
}

/// True if the program itself uses CUDA on this thread: libcuda is loaded and a context is current.
/// The query loads and starts nothing.
pub fn is_active() -> bool {
    is_usable() && current_context().is_some()
}

/// The context that is current on this thread. libcuda must be loaded.
pub(super) fn current_context() -> Option<sys::CUcontext> {
    let mut context = ptr::null_mut();
    // SAFETY: writes one pointer; before cuInit it returns an error.
    let code = unsafe { sys::cuCtxGetCurrent(&raw mut context) };
    (code == CUresult::SUCCESS && !context.is_null()).then_some(context)
}

/// The GPU that owns the memory at `pointer`; `None` for memory that the CPU can read, which
/// includes managed and pinned memory. The query loads and starts nothing.
pub fn gpu_of_pointer(pointer: *const c_void) -> Option<u32> {
    if !is_usable() {
        return None;
    }
    let address = pointer as sys::CUdeviceptr;
    let is_device = attribute(sys::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == Some(sys::CU_MEMORYTYPE_DEVICE)
        && attribute(sys::CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == Some(0);
    if is_device { gpu_of_address(address) } else { None }
}

/// True if all of `bytes` is pinned, by one allocation or registration. The query loads and starts
/// nothing.
pub fn is_pinned(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last() else { return false };
    if !is_usable() {
        return false;
    }
    let [first, last] = [bytes.as_ptr(), last].map(|byte| byte as sys::CUdeviceptr);
    let is_host =
        |address| attribute(sys::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == Some(sys::CU_MEMORYTYPE_HOST);
    let begin = |address| attribute(sys::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
    is_host(first) && is_host(last) && begin(first) == begin(last)
}

/// The GPU that owns the memory at `address`, if the driver knows that memory. libcuda must be
/// loaded.
pub fn gpu_of_address(address: sys::CUdeviceptr) -> Option<u32> {
    attribute(sys::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address).map(|ordinal| ordinal as u32)
}

/// The context in which memory was allocated; `None` for memory of a pool, which belongs to no
/// context. libcuda must be loaded.
pub(super) fn context_of_address(address: sys::CUdeviceptr) -> Option<sys::CUcontext> {
    let context = attribute(sys::CU_POINTER_ATTRIBUTE_CONTEXT, address)?;
    (context != 0).then(|| ptr::without_provenance_mut(context as usize))
}

/// True if kernels of the current context can use `address` unchanged. libcuda must be loaded.
pub(super) fn is_reached(address: sys::CUdeviceptr) -> bool {
    attribute(sys::CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address) == Some(address)
}

/// An attribute of the memory at `address`, as an integer; the driver writes a pointer, an integer
/// or a byte. `None` if the driver does not know the memory or the attribute.
fn attribute(attribute: c_uint, address: sys::CUdeviceptr) -> Option<u64> {
    let mut value = 0u64;
    // SAFETY: writes at most 8 bytes, in little-endian order, since all machines with CUDA are
    // little-endian. The address is looked up, not dereferenced.
    let code = unsafe { sys::cuPointerGetAttribute((&raw mut value).cast::<c_void>(), attribute, address) };
    (code == CUresult::SUCCESS).then_some(value)
}

/// True if the program has loaded libcuda and this process may call it.
fn is_usable() -> bool {
    loaded::is_libcuda_loaded() && check_process().is_ok() && sys::load().is_ok()
}

//! The functions of the CUDA driver API that gridz calls, looked up in libcuda at run time.
//!
//! Result codes and attributes are numbers, not Rust enums. A newer driver may return a code that
//! no enum has, and a value outside an enum is undefined behavior. Names, types and numbers are
//! those of `cuda.h` of CUDA 13.0.
//!
//! [`load`] opens libcuda once per process. Before that, every function here returns
//! [`CUresult::NOT_INITIALIZED`]. A function that an old driver lacks returns
//! [`CUresult::NOT_FOUND`]. The table of functions is in a lock-free cell, so a fork cannot leave a
//! lock held.
#![allow(unsafe_code, reason = "calls the CUDA driver")]
#![allow(non_camel_case_types, non_snake_case, clippy::too_many_arguments, reason = "names and types of cuda.h")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use once_cell::race::OnceBox;

use gridz_codecs::error::{Error, Result};

/// A result code of the driver.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CUresult(pub u32);

impl CUresult {
    pub const SUCCESS: Self = Self(0);
    pub const INVALID_VALUE: Self = Self(1);
    pub const OUT_OF_MEMORY: Self = Self(2);
    pub const NOT_INITIALIZED: Self = Self(3);
    pub const NOT_FOUND: Self = Self(500);
    pub const NOT_READY: Self = Self(600);
}

macro_rules! opaque {
    ($($name:ident)*) => { $(
        #[doc = concat!("What a `", stringify!($name), "` points to.")]
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name { _private: [u8; 0] }
    )* };
}
opaque! { CUctx_st CUstream_st CUevent_st CUmod_st CUfunc_st CUmemPoolHandle_st }

pub(super) type CUcontext = *mut CUctx_st;
pub(super) type CUstream = *mut CUstream_st;
pub(super) type CUevent = *mut CUevent_st;
pub(super) type CUmodule = *mut CUmod_st;
pub(super) type CUfunction = *mut CUfunc_st;
pub(super) type CUmemoryPool = *mut CUmemPoolHandle_st;
pub(super) type CUdevice = c_int;
/// An address in GPU memory.
pub(super) type CUdeviceptr = u64;

/// `CUmemPoolProps`.
#[repr(C)]
pub(super) struct CUmemPoolProps {
    pub alloc_type: c_uint,
    pub handle_types: c_uint,
    pub location_type: c_uint,
    pub location_id: c_int,
    pub win32_security_attributes: *mut c_void,
    pub max_size: usize,
    pub reserved: [u8; 56],
}
const _: () = assert!(size_of::<CUmemPoolProps>() == 88);

pub(super) const CU_MEM_ALLOCATION_TYPE_PINNED: c_uint = 1;
pub(super) const CU_MEM_LOCATION_TYPE_DEVICE: c_uint = 1;
pub(super) const CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: c_uint = 4;
pub(super) const CU_MEMHOSTALLOC_PORTABLE: c_uint = 1;
pub(super) const CU_STREAM_NON_BLOCKING: c_uint = 1;
pub(super) const CU_EVENT_DEFAULT: c_uint = 0;
pub(super) const CU_EVENT_DISABLE_TIMING: c_uint = 2;
pub(super) const CU_JIT_ERROR_LOG_BUFFER: c_uint = 5;
pub(super) const CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: c_uint = 6;
pub(super) const CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: c_uint = 0;
pub(super) const CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: c_uint = 8;
pub(super) const CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: c_uint = 16;
pub(super) const CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: c_uint = 75;
pub(super) const CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: c_uint = 76;
pub(super) const CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: c_uint = 115;
pub(super) const CU_POINTER_ATTRIBUTE_CONTEXT: c_uint = 1;
pub(super) const CU_POINTER_ATTRIBUTE_MEMORY_TYPE: c_uint = 2;
pub(super) const CU_POINTER_ATTRIBUTE_DEVICE_POINTER: c_uint = 3;
pub(super) const CU_POINTER_ATTRIBUTE_IS_MANAGED: c_uint = 8;
pub(super) const CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: c_uint = 9;
pub(super) const CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: c_uint = 11;
pub(super) const CU_MEMORYTYPE_HOST: u64 = 1;
pub(super) const CU_MEMORYTYPE_DEVICE: u64 = 2;

macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {
        /// A field is `None` if the library lacks the function.
        struct Functions {
            $($name: Option<unsafe extern "C" fn($($type),*) -> CUresult>,)*
        }

        impl Functions {
            /// # Safety
            /// `handle` must be that of libcuda, which must never be closed.
            unsafe fn resolve(handle: *mut c_void) -> Self {
                $(
                    let name = const {
                        match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                            Ok(name) => name,
                            Err(_) => panic!("a symbol name"),
                        }
                    };
                    // SAFETY: the handle and the string are valid; null becomes None. A function
                    // with this name has this type in every driver.
                    let $name = unsafe {
                        std::mem::transmute::<*mut c_void, Option<unsafe extern "C" fn($($type),*) -> CUresult>>(
                            libc::dlsym(handle, name.as_ptr()),
                        )
                    };
                )*
                Self { $($name,)* }
            }
        }

        $(
            /// # Safety
            /// The driver's manual states the conditions for the function with this name.
            pub(super) unsafe fn $name($($arg: $type),*) -> CUresult {
                match DRIVER.get() {
                    Some(Some(Functions { $name: Some(function), .. })) => {
                        // SAFETY: the caller's promise.
                        unsafe { function($($arg),*) }
                    }
                    Some(Some(_)) => CUresult::NOT_FOUND,
                    _ => CUresult::NOT_INITIALIZED,
                }
            }
        )*
    };
}

functions! {
    fn cuDriverGetVersion(version: *mut c_int);
    fn cuInit(flags: c_uint);
    fn cuGetErrorName(code: CUresult, text: *mut *const c_char);
    fn cuGetErrorString(code: CUresult, text: *mut *const c_char);
    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: CUdevice);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice);
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    fn cuCtxGetCurrent(context: *mut CUcontext);
    fn cuCtxPushCurrent_v2(context: CUcontext);
    fn cuCtxPopCurrent_v2(context: *mut CUcontext);
    fn cuCtxGetId(context: CUcontext, id: *mut c_ulonglong);
    fn cuCtxGetDevice(device: *mut CUdevice);
    fn cuCtxSynchronize();
    fn cuPointerGetAttribute(value: *mut c_void, attribute: c_uint, address: CUdeviceptr);
    fn cuModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_void, n_options: c_uint, options: *mut c_uint, values: *mut *mut c_void
    );
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    fn cuModuleGetGlobal_v2(address: *mut CUdeviceptr, n_bytes: *mut usize, module: CUmodule, name: *const c_char);
    fn cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize, n_bytes: *mut usize);
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction);
    fn cuFuncSetAttribute(function: CUfunction, attribute: c_uint, value: c_int);
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: CUfunction, threads: c_int, shared_bytes: usize
    );
    fn cuLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: CUstream, arguments: *mut *mut c_void, extra: *mut *mut c_void
    );
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    fn cuStreamDestroy_v2(stream: CUstream);
    fn cuStreamSynchronize(stream: CUstream);
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
    fn cuEventCreate(event: *mut CUevent, flags: c_uint);
    fn cuEventDestroy_v2(event: CUevent);
    fn cuEventRecord(event: CUevent, stream: CUstream);
    fn cuEventQuery(event: CUevent);
    fn cuEventSynchronize(event: CUevent);
    fn cuEventElapsedTime_v2(milliseconds: *mut f32, begin: CUevent, end: CUevent);
    fn cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps);
    fn cuMemPoolDestroy(pool: CUmemoryPool);
    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void);
    fn cuMemPoolTrimTo(pool: CUmemoryPool, n_bytes: usize);
    fn cuMemAllocFromPoolAsync(address: *mut CUdeviceptr, n_bytes: usize, pool: CUmemoryPool, stream: CUstream);
    fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream);
    fn cuMemHostAlloc(address: *mut *mut c_void, n_bytes: usize, flags: c_uint);
    fn cuMemFreeHost(address: *mut c_void);
    fn cuMemcpyHtoDAsync_v2(dst: CUdeviceptr, src: *const c_void, n_bytes: usize, stream: CUstream);
    fn cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: CUdeviceptr, n_bytes: usize, stream: CUstream);
    fn cuMemcpyDtoDAsync_v2(dst: CUdeviceptr, src: CUdeviceptr, n_bytes: usize, stream: CUstream);
    fn cuMemcpyDtoH_v2(dst: *mut c_void, src: CUdeviceptr, n_bytes: usize);
    fn cuMemsetD8Async(dst: CUdeviceptr, value: u8, n_bytes: usize, stream: CUstream);
}

/// The inner `None` means that libcuda was not found.
static DRIVER: OnceBox<Option<Functions>> = OnceBox::new();

/// Opens libcuda, which stays open, unless this process has already opened it.
///
/// # Errors
/// `Device` if libcuda is not found, or if this process was forked while its parent opened libcuda.
/// In such a child, the dynamic loader may be in the middle of that work forever.
pub(super) fn load() -> Result<()> {
    /// The process that started to open the library; 0 = none.
    static LOADER: AtomicU32 = AtomicU32::new(0);
    if DRIVER.get().is_none() {
        let this = std::process::id();
        let former = LOADER.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed);
        if let Err(parent) = former
            && parent != this
        {
            return Err(Error::device(format!(
                "this process was forked while process {parent} was loading libcuda.so.1; start workers by spawn \
                 or exec"
            )));
        }
    }
    match DRIVER.get_or_init(|| Box::new(open())) {
        Some(_) => Ok(()),
        None => Err(Error::device("no NVIDIA driver is installed: libcuda.so.1 is not found")),
    }
}

fn open() -> Option<Functions> {
    // SAFETY: libcuda's initializers may run in any program; the handle is never closed.
    let handle = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    // SAFETY: the handle is that of libcuda, which stays open.
    (!handle.is_null()).then(|| unsafe { Functions::resolve(handle) })
}

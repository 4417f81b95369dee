//! Kernels: the fatbins that the build embedded, and their modules, one per device and fatbin.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::{self, CUfunction, CUmodule, CUresult};

use crate::caches::lock;
use crate::context::{DriverContext, Handle};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::kernel_struct::KernelStruct;

/// Compiled kernels for several architectures, from one `.cu` file in `kernels/`.
#[derive(Debug)]
pub struct Fatbin {
    name: &'static str,
    image: &'static [u8],
}

/// Aligns an image as the driver requires.
#[repr(C, align(16))]
pub struct Aligned<T: ?Sized>(pub T);

impl Fatbin {
    /// A fatbin that the build embedded. It is known to be complete, so it is not checked.
    pub const fn embedded(name: &'static str, image: &'static [u8]) -> Self {
        Self { name, image }
    }

    /// The name of its source file.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A fatbin that the build did not embed.
    ///
    /// # Errors
    /// `InvalidArgument` if `image` is not a complete fatbin; the driver would read beyond its end.
    pub fn new(name: &'static str, image: &'static [u8]) -> Result<Self> {
        const MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
        let claimed = || {
            let header = u16::from_le_bytes(image.get(6..8)?.try_into().ok()?);
            let body = u64::from_le_bytes(image.get(8..16)?.try_into().ok()?);
            body.checked_add(u64::from(header))
        };
        if !image.starts_with(&MAGIC) || claimed().is_none_or(|n_bytes| n_bytes > image.len() as u64) {
            return Err(Error::invalid(format!("{name} is not a complete CUDA fatbin")));
        }
        Ok(Self { name, image })
    }
}

/// The modules of a context, including those that failed to load. They stay loaded as long as the
/// process lives, because a CUDA graph of the application may hold their kernels.
#[derive(Debug, Default)]
pub(super) struct Modules(Mutex<Vec<(&'static Fatbin, Result<Module>)>>);

/// Kernels on a device, loaded as long as the process lives.
#[derive(Debug, Clone, Copy)]
pub struct Module {
    context: &'static DriverContext,
    loaded: &'static Loaded,
}

#[derive(Debug)]
struct Loaded {
    name: &'static str,
    raw: Handle<CUmodule>,
    functions: Mutex<HashMap<&'static str, &'static Kernel>>,
    constants: Mutex<HashMap<&'static str, &'static [u8]>>,
}

/// A kernel's handle and properties.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) name: &'static str,
    pub(super) raw: Handle<CUfunction>,
    args_bytes: usize,
    pub(super) max_threads: u32,
    /// Largest dynamic shared memory that the kernel has been allowed so far, in bytes.
    pub(super) shared_bytes: AtomicU32,
    /// Number of CTAs that are resident on the GPU, by threads and shared memory of a CTA.
    resident: Mutex<HashMap<(u32, u32), u32>>,
}

/// A kernel with one argument.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    pub(super) context: &'static DriverContext,
    pub(super) kernel: &'static Kernel,
}

impl Kernel {
    /// Checks the size of the argument, because the driver reads as many bytes as the kernel was
    /// compiled for.
    ///
    /// # Errors
    /// `Internal` if its argument has another size.
    pub(super) fn check_args(&self, n_bytes: usize) -> Result<()> {
        let (name, want) = (self.name, self.args_bytes);
        if n_bytes != want {
            return Err(Error::internal(format_args!("{name} takes {want} bytes of arguments, not {n_bytes}")));
        }
        Ok(())
    }
}

impl Modules {
    /// The module of `fatbin`, loaded on first use. A failure is remembered, so that later calls
    /// fail at once.
    pub(super) fn get(&self, context: &'static DriverContext, fatbin: &'static Fatbin) -> Result<Module> {
        let _entered = context.enter()?;
        // The lock is held while loading, so that other threads wait instead of loading the module
        // again.
        let mut modules = lock(&self.0);
        if let Some((_, known)) = modules.iter().find(|(known, _)| ptr::eq(*known, fatbin)) {
            return known.clone();
        }
        let module = Module::load(context, fatbin);
        // Out of memory may be temporary; other errors are permanent.
        if module.as_ref().err().is_none_or(|error| error.kind() != ErrorKind::OutOfMemory) {
            modules.push((fatbin, module.clone()));
        }
        module
    }
}

impl Module {
    /// The context must be current.
    fn load(context: &'static DriverContext, fatbin: &Fatbin) -> Result<Self> {
        // If the driver compiles PTX for the GPU, the compiler writes its error messages here.
        let mut log = vec![0u8; 4096];
        let mut options = [sys::CU_JIT_ERROR_LOG_BUFFER, sys::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(log.len() - 1)];
        let mut raw = ptr::null_mut();
        // SAFETY: the image is a complete fatbin; options, values and log have the stated lengths.
        let code = unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut raw,
                fatbin.image.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        let log = String::from_utf8_lossy(&log);
        let (name, log) = (fatbin.name, log.trim_end_matches('\0').trim());
        let colon = if log.is_empty() { "" } else { ": " };
        context.check(code, format_args!("loading the kernels of {name} failed{colon}{log}"))?;
        let loaded = Loaded { name, raw: Handle(raw), functions: Mutex::default(), constants: Mutex::default() };
        Ok(Self { context, loaded: Box::leak(Box::new(loaded)) })
    }

    /// The kernel `name`, which must have one argument.
    ///
    /// # Errors
    /// `Device` if the module has no such kernel or the kernel has more arguments.
    pub fn function(&self, name: &'static str) -> Result<Function> {
        let _entered = self.context.enter()?;
        let mut functions = lock(&self.loaded.functions);
        let kernel = match functions.get(name) {
            Some(known) => known,
            None => {
                let new: &'static Kernel = Box::leak(Box::new(self.kernel(name)?));
                functions.insert(name, new);
                new
            }
        };
        Ok(Function { context: self.context, kernel })
    }

    fn kernel(&self, name: &'static str) -> Result<Kernel> {
        let what = format!("the kernel {name} of {} cannot be used", self.loaded.name);
        let c_name = c_name(name)?;
        let mut raw = ptr::null_mut();
        // SAFETY: writes one handle; the name ends with a 0 byte.
        let code = unsafe { sys::cuModuleGetFunction(&raw mut raw, self.loaded.raw.0, c_name.as_ptr()) };
        self.context.check(code, &what)?;
        let (mut offset, mut args_bytes, mut max_threads) = (0, 0, 0);
        // SAFETY: writes two numbers; the kernel belongs to this module.
        let code = unsafe { sys::cuFuncGetParamInfo(raw, 0, &raw mut offset, &raw mut args_bytes) };
        self.context.check(code, &what)?;
        let mut none = (0, 0);
        // SAFETY: writes two numbers.
        let second = unsafe { sys::cuFuncGetParamInfo(raw, 1, &raw mut none.0, &raw mut none.1) };
        if second != CUresult::INVALID_VALUE {
            return Err(Error::device(format!("{what}: it has more than one argument")));
        }
        let attribute = sys::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        // SAFETY: writes one number.
        self.context.check(unsafe { sys::cuFuncGetAttribute(&raw mut max_threads, attribute, raw) }, &what)?;
        Ok(Kernel {
            name,
            raw: Handle(raw),
            args_bytes,
            max_threads: max_threads as u32,
            shared_bytes: AtomicU32::new(0),
            resident: Mutex::default(),
        })
    }

    /// The constant `name`, by which kernels describe their own properties to the host.
    ///
    /// # Errors
    /// `Device` if the module has no such constant, `Internal` if the constant has another size.
    pub fn global<T: KernelStruct>(&self, name: &'static str) -> Result<T> {
        let _entered = self.context.enter()?;
        let mut constants = lock(&self.loaded.constants);
        let bytes = match constants.get(name) {
            Some(known) => known,
            None => {
                let new: &'static [u8] = Box::leak(self.constant(name)?);
                constants.insert(name, new);
                new
            }
        };
        T::from_bytes(bytes).ok_or_else(|| {
            let (have, want) = (bytes.len(), size_of::<T>());
            Error::internal(format_args!("{name} has {have} bytes, not {want}"))
        })
    }

    fn constant(&self, name: &str) -> Result<Box<[u8]>> {
        let what = format!("reading constant {name} of {} failed", self.loaded.name);
        let c_name = c_name(name)?;
        let (mut address, mut n_bytes) = (0, 0);
        // SAFETY: writes two numbers; the name ends with a 0 byte.
        let code = unsafe {
            sys::cuModuleGetGlobal_v2(&raw mut address, &raw mut n_bytes, self.loaded.raw.0, c_name.as_ptr())
        };
        self.context.check(code, &what)?;
        let mut bytes = vec![0u8; n_bytes].into_boxed_slice();
        // SAFETY: both sides have that many bytes; the call waits for the copy.
        let code = unsafe { sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address, n_bytes) };
        self.context.check(code, &what)?;
        Ok(bytes)
    }
}

fn c_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| Error::invalid(format!("{name:?} is not a kernel name")))
}

impl Function {
    /// Number of CTAs with `threads` threads and `shared_bytes` of dynamic shared memory that are
    /// resident on the whole GPU at once. The driver is queried once per configuration.
    ///
    /// # Errors
    /// `Device`, also if not even one CTA fits.
    pub fn resident_ctas(&self, threads: u32, shared_bytes: u32) -> Result<u32> {
        let _entered = self.context.enter()?;
        let mut resident = lock(&self.kernel.resident);
        if let Some(known) = resident.get(&(threads, shared_bytes)) {
            return Ok(*known);
        }
        self.allow_shared(shared_bytes)?;
        let mut ctas = 0;
        // SAFETY: writes one number; the kernel belongs to this device.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut ctas,
                self.kernel.raw.0,
                threads as i32,
                shared_bytes as usize,
            )
        };
        let name = self.kernel.name;
        self.context.check(code, format_args!("querying the occupancy of {name} failed"))?;
        if ctas < 1 {
            return Err(Error::device(format!(
                "{name}: a thread block of {threads} threads does not fit on this GPU"
            )));
        }
        let ctas = ctas as u32 * self.context.gpu.multiprocessors;
        resident.insert((threads, shared_bytes), ctas);
        Ok(ctas)
    }

    /// Raises the kernel's limit of dynamic shared memory if necessary; the default is 48 KiB.
    pub(super) fn allow_shared(&self, shared_bytes: u32) -> Result<()> {
        let allowed = &self.kernel.shared_bytes;
        if shared_bytes <= allowed.load(Ordering::Relaxed).max(48 << 10) {
            return Ok(());
        }
        let attribute = sys::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the only pointer is the kernel's handle, which belongs to this device.
        let code = unsafe { sys::cuFuncSetAttribute(self.kernel.raw.0, attribute, shared_bytes as i32) };
        let name = self.kernel.name;
        self.context.check(code, format_args!("{name}: setting {shared_bytes} bytes of shared memory failed"))?;
        allowed.fetch_max(shared_bytes, Ordering::Relaxed);
        Ok(())
    }
}

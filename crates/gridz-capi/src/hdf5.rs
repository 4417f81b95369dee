//! `gridz_hdf5_by.h`: functions that transfer whole HDF5 datasets. Programs call them through
//! `gridz_hdf5.h`, which passes them the functions of the program's libhdf5.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_void;

use crate::convert;
use crate::guard::guard;
use crate::hdf5_types::{gridz_h5_function, gridz_h5_options, gridz_h5_part_info};
use crate::ptr::{self, OutStruct};
use crate::status::gridz_status;
use gridz::device::{self, DeviceSlice};
use gridz::{Context, Detail};
use gridz::{Destination, Source};
use gridz_codecs::error::{Error, Result};
use gridz_dataset::bulk::Progress;
use gridz_dataset::hdf5::bulk::{self, Access, Dataset};
use gridz_dataset::hdf5::library::Library;
use gridz_dataset::hdf5::progressive::PartAccess;

/// Limit for buffers if the options do not set one.
const MEMORY_LIMIT: u64 = 1 << 30;

/// Writes a box of a dataset. This implements `gridz_h5_write` of `gridz_hdf5.h`, which documents
/// it and passes the functions of the program's libhdf5.
///
/// `functions` ends with an entry whose name is NULL. NULL in place of the list = look up these
/// functions in the program, which must be linked with one libhdf5.
///
/// Errors: those of `gridz_h5_write`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_h5_write_by(
    functions: *const gridz_h5_function,
    dataset: i64,
    mem_type: i64,
    start: *const u64,
    count: *const u64,
    src: *const c_void,
    options: *const gridz_h5_options,
) -> gridz_status {
    guard(|| {
        let box_of = BoxOf { functions, dataset, mem_type, start, count, options };
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        unsafe {
            box_of.access(|access, options| {
                let first = if src.is_null() { src } else { src.wrapping_byte_sub(access.first()) };
                // The array extends as far as the selection and the strides say.
                let memory = ptr::source("src", first, access.span())?;
                let on_device = match &memory {
                    Source::Device(memory) => Some(*memory),
                    Source::Host(_) => None,
                };
                options.wait_for_stream("src", on_device, access.span())?;
                options.run(|options, progress| access.write(memory, options, progress))
            })
        }
    })
}

/// Reads a box of a dataset. This implements `gridz_h5_read` of `gridz_hdf5.h`; see
/// `gridz_h5_write_by` for `functions`.
///
/// Errors: those of `gridz_h5_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_h5_read_by(
    functions: *const gridz_h5_function,
    dataset: i64,
    mem_type: i64,
    start: *const u64,
    count: *const u64,
    dst: *mut c_void,
    options: *const gridz_h5_options,
) -> gridz_status {
    guard(|| {
        let box_of = BoxOf { functions, dataset, mem_type, start, count, options };
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        unsafe {
            box_of.access(|access, options| {
                // The array extends as far as the selection and the strides say.
                let memory = ptr::destination("dst", dst, access.first(), access.span())?;
                options.wait_for_destination(&memory, access.span())?;
                options.run(|options, progress| access.read(memory, options, progress))
            })
        }
    })
}

/// Reads a coarser grid, or fewer layers, of a box of a dataset. This implements
/// `gridz_h5_read_progressive` of `gridz_hdf5.h`; see `gridz_h5_write_by` for `functions`.
///
/// Errors: those of `gridz_h5_read_progressive`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_h5_read_progressive_by(
    functions: *const gridz_h5_function,
    dataset: i64,
    mem_type: i64,
    start: *const u64,
    count: *const u64,
    detail: u32,
    value: f64,
    dst: *mut c_void,
    info: *mut gridz_h5_part_info,
    options: *const gridz_h5_options,
) -> gridz_status {
    guard(|| {
        let box_of = BoxOf { functions, dataset, mem_type, start, count, options };
        let detail = convert::detail(detail, value)?;
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        unsafe {
            let info = OutStruct::optional(info)?;
            box_of.part(detail, |access, options| {
                // The array extends as far as the grid and the strides say.
                let memory = ptr::destination("dst", dst, access.first(), access.span())?;
                options.wait_for_destination(&memory, access.span())?;
                let tally = options.run(|options, progress| access.read(memory, options, progress))?;
                info.into_iter().for_each(|info| info.write(&convert::h5_part_info(access, &tally)));
                Ok(())
            })
        }
    })
}

/// Describes the result of `gridz_h5_read_progressive_by` without reading it. This implements
/// `gridz_h5_inspect_progressive` of `gridz_hdf5.h`; see `gridz_h5_write_by` for `functions`.
///
/// Errors: those of `gridz_h5_inspect_progressive`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_h5_inspect_progressive_by(
    functions: *const gridz_h5_function,
    dataset: i64,
    start: *const u64,
    count: *const u64,
    detail: u32,
    value: f64,
    info: *mut gridz_h5_part_info,
    options: *const gridz_h5_options,
) -> gridz_status {
    guard(|| {
        let box_of = BoxOf { functions, dataset, mem_type: 0, start, count, options };
        let detail = convert::detail(detail, value)?;
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        unsafe {
            let info = OutStruct::new(info)?;
            box_of.part(detail, |access, options| {
                let tally = options.run(|options, progress| access.inspect(options, progress))?;
                info.write(&convert::h5_part_info(access, &tally));
                Ok(())
            })
        }
    })
}

/// Copies a dataset. This implements `gridz_h5_copy` of `gridz_hdf5.h`; see `gridz_h5_write_by` for
/// `functions`.
///
/// Errors: those of `gridz_h5_copy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_h5_copy_by(
    functions: *const gridz_h5_function,
    src: i64,
    dst: i64,
    options: *const gridz_h5_options,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (library, options) = unsafe { (library(functions)?, Options::read(options)?) };
        let (src, dst) =
            (Dataset::open(&library, src, options.c.dxpl)?, Dataset::open(&library, dst, options.c.dxpl)?);
        options.run(|options, progress| bulk::copy(&src, &dst, options, progress))
    })
}

/// The libhdf5 that these functions belong to.
///
/// # Safety
/// The caller's promise, as [`ptr`] states it. The addresses belong to one libhdf5 that stays
/// loaded.
unsafe fn library(functions: *const gridz_h5_function) -> Result<Library<'static>> {
    if functions.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { Library::of_program() };
    }
    // SAFETY: the caller's promise.
    unsafe { Library::of_table(&ptr::functions(functions)?) }
}

/// Arguments of a call: a box, its memory, and options.
struct BoxOf {
    functions: *const gridz_h5_function,
    dataset: i64,
    mem_type: i64,
    start: *const u64,
    count: *const u64,
    options: *const gridz_h5_options,
}

impl BoxOf {
    /// Calls `work` with access to the box, and with the options.
    ///
    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    unsafe fn access(self, work: impl FnOnce(&Access, &Options) -> Result<()>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            self.open(|dataset, [start, count], (memory_type, strides), options| {
                work(&dataset.select(start, count, memory_type, strides)?, options)
            })
        }
    }

    /// Calls `work` with access to the part of the box that `detail` selects, and with the options.
    ///
    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    unsafe fn part(self, detail: Detail, work: impl FnOnce(&PartAccess, &Options) -> Result<()>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            self.open(|dataset, [start, count], (memory_type, strides), options| {
                work(&dataset.select_part((start, count), detail, memory_type, strides)?, options)
            })
        }
    }

    /// Calls `work` with the dataset, the box, and the type and strides in memory. A type of `None`
    /// is that of the file.
    ///
    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    unsafe fn open(
        self,
        work: impl FnOnce(&Dataset, [&[u64]; 2], (Option<i64>, Option<&[i64]>), &Options) -> Result<()>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        let (library, options) = unsafe { (library(self.functions)?, Options::read(self.options)?) };
        let dataset = Dataset::open(&library, self.dataset, options.c.dxpl)?;
        let rank = dataset.extents().len() as u32;
        // SAFETY: the caller's promise.
        let ([start, count], strides) =
            unsafe { (chosen(&dataset, self.start, self.count)?, options.strides(rank)?) };
        // 0 means the type of the file.
        let memory_type = (self.mem_type != 0).then_some(self.mem_type);
        work(&dataset, [&start, &count], (memory_type, strides.as_deref()), &options)
    }
}

/// Start and count of a box along each axis. The box is the whole dataset if both are null.
///
/// # Safety
/// The caller's promise, as [`ptr`] states it.
unsafe fn chosen(dataset: &Dataset, start: *const u64, count: *const u64) -> Result<[Vec<u64>; 2]> {
    let extents = dataset.extents();
    let rank = extents.len();
    if start.is_null() != count.is_null() && rank > 0 {
        return Err(Error::invalid(
            "only one of start and count is NULL; pass both for a box, or NULL for both for the whole dataset",
        ));
    }
    if start.is_null() {
        return Ok([vec![0; rank], extents.to_vec()]);
    }
    // SAFETY: the caller's promise.
    let lists = unsafe { [ptr::extents("start", start, rank as u32)?, ptr::extents("count", count, rank as u32)?] };
    Ok(lists.map(|list| list[..rank].to_vec()))
}

/// Options of C, and the context that they name. The caller has promised that the progress callback
/// may be called with its first argument.
struct Options<'a> {
    c: gridz_h5_options,
    context: &'a Context,
}

impl Options<'_> {
    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    unsafe fn read(from: *const gridz_h5_options) -> Result<Self> {
        // SAFETY: the caller's promise.
        let c = unsafe { ptr::read_options(from)? };
        // SAFETY: the caller's promise, for what the struct points to.
        Ok(Self { c, context: unsafe { ptr::context(c.context) } })
    }

    /// Waits for the caller's stream, if there is one, whose work produces or uses `array`, called
    /// `name` in C. An array of no bytes needs no GPU memory: an MPI rank may take part without
    /// data.
    ///
    /// # Safety
    /// The caller's promise, as [`ptr`] states it: it is a stream.
    unsafe fn wait_for_stream(&self, name: &str, array: Option<DeviceSlice>, n_bytes: usize) -> Result<()> {
        match array {
            _ if self.c.stream.is_null() || n_bytes == 0 => Ok(()),
            // SAFETY: the caller's promise.
            Some(array) => device::wait_for(unsafe { ptr::stream(self.c.stream) }, array),
            None => Err(Error::invalid(format!(
                "{name} is not GPU memory, but options->stream is set; synchronize the stream before the call and \
                 leave stream NULL"
            ))),
        }
    }

    /// Like [`Options::wait_for_stream`], for the array that a call reads into.
    ///
    /// # Safety
    /// As for [`Options::wait_for_stream`].
    unsafe fn wait_for_destination(&self, memory: &Destination, n_bytes: usize) -> Result<()> {
        let on_device = match memory {
            Destination::Device(memory) => Some(*memory),
            Destination::Host(_) => None,
        };
        // SAFETY: the caller's promise.
        unsafe { self.wait_for_stream("dst", on_device, n_bytes) }
    }

    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    unsafe fn strides(&self, rank: u32) -> Result<Option<Vec<i64>>> {
        // SAFETY: the caller's promise.
        let strides = unsafe { ptr::strides(self.c.strides, rank)? };
        Ok(strides.map(|strides| strides[..rank as usize].to_vec()))
    }

    /// Calls `work` with these options.
    fn run<R>(&self, work: impl FnOnce(&bulk::Options, Progress) -> Result<R>) -> Result<R> {
        let &Self { c: gridz_h5_options { memory_limit, dxpl, progress, progress_data, .. }, context } = self;
        let memory_limit = if memory_limit == 0 { MEMORY_LIMIT } else { memory_limit };
        work(&bulk::Options { context, memory_limit, dxpl }, &mut |done, total| {
            // SAFETY: the caller has promised this.
            progress.is_none_or(|function| unsafe { function(progress_data, done, total) } == 0)
        })
    }
}

//! Checks and dereferences C's pointers. No other file does: the rest sees slices, values and
//! [`Out`].
//!
//! This file checks everything that can be checked: null, impossible lengths, overlap, struct
//! versions. The rest is the caller's promise, stated in `gridz.h` and once here: *a pointer that
//! is not null points to as much memory as its length says or its type needs, and no other thread
//! writes to that memory during the call*. "The caller's promise" in the comments below means this
//! sentence.
#![allow(unsafe_code, reason = "this is where C's pointers are followed")]

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::slice;

use once_cell::race::OnceBox;

use crate::hdf5_types::gridz_h5_function;
use crate::types::gridz_context;
use crate::versioned::{self, Versioned};
use gridz::device::{DeviceSlice, StreamHandle, gpu_of_pointer};
use gridz::{Context, Destination, Source};
use gridz_codecs::error::{Error, Result};
use gridz_codecs::types::MAX_RANK;

/// Reads and checks the `struct_size` of the struct at `from`.
///
/// # Safety
/// The caller's promise.
unsafe fn struct_size<T: Versioned>(from: *const T) -> Result<usize> {
    // SAFETY: not null. By the promise it is a `T` of some version, which begins with its size.
    let n_bytes = unsafe { not_null(T::NAME, from)?.cast::<usize>().read_unaligned() };
    versioned::check_size::<T>(n_bytes).map(|()| n_bytes)
}

/// Reads the struct at `from`. Fields that the caller's version lacks become zero.
///
/// # Safety
/// The caller's promise.
pub unsafe fn read<T: Versioned>(from: *const T) -> Result<T> {
    // SAFETY: by the promise `from` has `struct_size` bytes.
    unsafe {
        let n_bytes = struct_size(from)?;
        versioned::from_bytes(slice::from_raw_parts(from.cast::<u8>(), n_bytes))
    }
}

/// Like [`read`], but all zeros for null: the defaults.
///
/// # Safety
/// The caller's promise.
pub unsafe fn read_options<T: Versioned>(from: *const T) -> Result<T> {
    // SAFETY: the caller's promise.
    if from.is_null() { versioned::from_bytes(&[]) } else { unsafe { read(from) } }
}

/// Destination of one result. No reference to it exists before it is written, so it may lie inside
/// one of the caller's buffers.
pub struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// The destination `to`, called `name` in C.
    ///
    /// # Safety
    /// The caller's promise, until the result is written.
    pub unsafe fn new(name: &str, to: *mut T) -> Result<Self> {
        not_null(name, to).map(Self)
    }

    /// Writes the result.
    pub fn write(self, value: T) {
        // SAFETY: the caller of `new` promised that the destination is valid.
        unsafe { self.0.write_unaligned(value) }
    }
}

/// Destination of one struct of the caller's version.
pub struct OutStruct<T> {
    to: NonNull<T>,
    n_bytes: usize,
}

impl<T: Versioned> OutStruct<T> {
    /// The destination `to`, whose `struct_size` the caller has set.
    ///
    /// # Safety
    /// The caller's promise, until the struct is written.
    pub unsafe fn new(to: *mut T) -> Result<Self> {
        // SAFETY: the caller's promise.
        let n_bytes = unsafe { struct_size(to.cast_const())? };
        Ok(Self { to: not_null(T::NAME, to)?, n_bytes })
    }

    /// Like [`OutStruct::new`], but `None` for null.
    ///
    /// # Safety
    /// As for [`OutStruct::new`].
    pub unsafe fn optional(to: *mut T) -> Result<Option<Self>> {
        // SAFETY: the caller's promise.
        (!to.is_null()).then(|| unsafe { Self::new(to) }).transpose()
    }

    /// Writes the fields that the caller's version has, and the caller's `struct_size`. Fields that
    /// this library does not know become zero.
    pub fn write(self, value: &T) {
        let to = self.to.as_ptr().cast::<u8>();
        let known = size_of::<T>().min(self.n_bytes);
        // SAFETY: the caller of `new` promised `n_bytes` bytes, `known` is at most that, and only
        // this function uses `value`. A `T` begins with its size.
        unsafe {
            to.copy_from_nonoverlapping(std::ptr::from_ref(value).cast::<u8>(), known);
            to.add(known).write_bytes(0, self.n_bytes - known);
            to.cast::<usize>().write_unaligned(self.n_bytes);
        }
    }
}

/// The bytes at `from`, called `name` in C.
///
/// # Safety
/// The caller's promise.
pub unsafe fn bytes<'a>(name: &str, from: *const c_void, n_bytes: usize) -> Result<&'a [u8]> {
    if is_empty(name, from, n_bytes)? {
        return Ok(&[]);
    }
    // SAFETY: not null and of a possible length. The rest is the promise.
    Ok(unsafe { slice::from_raw_parts(from.cast::<u8>(), n_bytes) })
}

/// Like [`bytes`], but `None` for null.
///
/// # Safety
/// The caller's promise.
pub unsafe fn optional_bytes<'a>(name: &str, from: *const c_void, n_bytes: usize) -> Result<Option<&'a [u8]>> {
    // SAFETY: the caller's promise.
    (!from.is_null()).then(|| unsafe { bytes(name, from, n_bytes) }).transpose()
}

/// A source in host or GPU memory.
///
/// # Safety
/// The caller's promise.
pub unsafe fn source<'a>(name: &str, from: *const c_void, n_bytes: usize) -> Result<Source<'a>> {
    let is_device = !is_empty(name, from, n_bytes)? && gpu_of_pointer(from).is_some();
    // SAFETY: the caller's promise, for memory of that GPU or of the host.
    Ok(unsafe {
        match is_device {
            true => Source::Device(DeviceSlice::from_raw(from, n_bytes as u64)),
            false => Source::Host(bytes(name, from, n_bytes)?),
        }
    })
}

/// The bytes at `from`, called `name` in C, for a function that supports host memory only.
///
/// # Safety
/// The caller's promise.
pub unsafe fn host_bytes<'a>(name: &str, from: *const c_void, n_bytes: usize) -> Result<&'a [u8]> {
    is_empty(name, from, n_bytes)?;
    check_host(name, from, n_bytes)?;
    // SAFETY: the caller's promise.
    unsafe { bytes(name, from, n_bytes) }
}

/// The `n_bytes` bytes from `before` bytes below `to` on, called `name` in C, in host or GPU
/// memory.
///
/// # Safety
/// The caller's promise. The memory must not overlap any other memory of the call.
pub unsafe fn destination<'a>(
    name: &str,
    to: *mut c_void,
    before: usize,
    n_bytes: usize,
) -> Result<Destination<'a>> {
    let start = to.wrapping_byte_sub(before);
    let no_bytes = is_empty(name, start, n_bytes)? || to.is_null();
    // SAFETY: the caller's promise.
    Ok(unsafe { checked_destination(no_bytes, start, n_bytes) })
}

/// A source and a destination, each in host or GPU memory. They must not overlap.
///
/// # Safety
/// The caller's promise for both.
pub unsafe fn source_and_destination<'a>(
    (src_name, src, src_bytes): (&str, *const c_void, usize),
    (dst_name, dst, dst_capacity): (&str, *mut c_void, usize),
) -> Result<(Source<'a>, Destination<'a>)> {
    let (no_src, no_dst) = (is_empty(src_name, src, src_bytes)?, is_empty(dst_name, dst, dst_capacity)?);
    // No sum overflows: `is_empty` has checked that.
    let apart = src.addr() + src_bytes <= dst.addr() || dst.addr() + dst_capacity <= src.addr();
    if !(no_src || no_dst || apart) {
        return Err(Error::invalid(format!(
            "{src_name} and {dst_name} overlap; gridz does not work in place, so pass a separate destination"
        )));
    }
    // SAFETY: the caller's promise, for memory of a GPU or of the host.
    Ok(unsafe { (source(src_name, src, src_bytes)?, checked_destination(no_dst, dst, dst_capacity)) })
}

/// The destination at `to`, in host or GPU memory, which has been checked.
///
/// # Safety
/// The caller's promise. The memory must not overlap any other memory of the call.
unsafe fn checked_destination<'a>(is_empty: bool, to: *mut c_void, n_bytes: usize) -> Destination<'a> {
    if is_empty {
        return Destination::Host(&mut []);
    }
    if gpu_of_pointer(to).is_some() {
        // SAFETY: the caller's promise, for memory of that GPU.
        return Destination::Device(unsafe { DeviceSlice::from_raw(to, n_bytes as u64) });
    }
    // SAFETY: not null, of a possible length and apart from the source. By the promise no other
    // thread uses it. One problem remains: the memory may be fresh from malloc, while
    // `from_raw_parts_mut` requires initialized bytes. Two arguments cover this.
    //
    // A rule of the engine: a codec writes a byte of the destination before it reads it, so no
    // indeterminate value is ever used. The C tests compare frames made in differently filled
    // destinations, and are clean under valgrind.
    //
    // A fact: this memory comes from outside through a C call. The compiler cannot know that it is
    // uninitialized, so it cannot conclude anything from that.
    //
    // The alternative is to zero every destination first. That pass over memory costs more than it
    // gives.
    Destination::Host(unsafe { slice::from_raw_parts_mut(to.cast::<u8>(), n_bytes) })
}

/// `n_bytes` bytes of GPU memory. The engine checks later that a GPU can access them.
///
/// # Safety
/// The caller's promise, until the stream has completed the work that uses the memory.
pub unsafe fn device_memory<'a>(name: &str, start: *const c_void, n_bytes: u64) -> Result<DeviceSlice<'a>> {
    is_empty(name, start, usize::try_from(n_bytes).unwrap_or(usize::MAX))?;
    // SAFETY: the caller's promise.
    Ok(unsafe { DeviceSlice::from_raw(start, n_bytes) })
}

/// Like [`device_memory`], but `None` for null.
///
/// # Safety
/// As for [`device_memory`].
pub unsafe fn optional_device_memory<'a>(
    name: &str,
    start: *const c_void,
    n_bytes: usize,
) -> Result<Option<DeviceSlice<'a>>> {
    // SAFETY: the caller's promise.
    let memory = unsafe { device_memory(name, start, n_bytes as u64)? };
    Ok((!start.is_null()).then_some(memory))
}

/// `n` lengths in host memory.
///
/// # Safety
/// The caller's promise.
pub unsafe fn lengths<'a>(name: &str, from: *const usize, n: usize) -> Result<&'a [u64]> {
    check_lengths(name, from, n)?;
    // SAFETY: the caller's promise. `size_t` is a u64 on 64-bit machines, and the address is
    // aligned.
    Ok(if n == 0 { &[] } else { unsafe { slice::from_raw_parts(from.cast(), n) } })
}

/// Destination of `n` lengths in host memory.
///
/// # Safety
/// The caller's promise.
pub unsafe fn lengths_mut<'a>(name: &str, to: *mut usize, n: usize) -> Result<&'a mut [u64]> {
    check_lengths(name, to, n)?;
    if n == 0 {
        return Ok(&mut []);
    }
    let to = to.cast::<u64>();
    // SAFETY: the caller's promise. `size_t` is a u64 on 64-bit machines, and the address is
    // aligned. The memory is initialized first.
    Ok(unsafe {
        to.write_bytes(0, n);
        slice::from_raw_parts_mut(to, n)
    })
}

/// Checks that the host can read and write `n` lengths at `start`.
fn check_lengths(name: &str, start: *const usize, n: usize) -> Result<()> {
    const { assert!(size_of::<usize>() == size_of::<u64>(), "gridz is for machines of 64 bits") };
    check_aligned(name, start, n)?;
    if n > 0 && gpu_of_pointer(start.cast()).is_some() {
        return Err(Error::invalid(format!("{name} is GPU memory; it must be host memory")));
    }
    Ok(())
}

/// The caller's stream.
///
/// # Safety
/// `stream` is null for the default stream, or a stream that exists until it has completed its
/// work.
pub unsafe fn stream<'a>(stream: *mut c_void) -> StreamHandle<'a> {
    // SAFETY: the caller's promise.
    unsafe { StreamHandle::from_raw(stream) }
}

/// Reads the first `rank` extents. The remaining entries are 0.
///
/// # Safety
/// The caller's promise.
pub unsafe fn extents(name: &str, from: *const u64, rank: u32) -> Result<[u64; MAX_RANK]> {
    let rank = rank as usize;
    let mut extents = [0; MAX_RANK];
    if rank > MAX_RANK {
        return Err(Error::invalid(format!("rank {rank} is over the limit of {MAX_RANK}")));
    }
    if rank > 0 {
        let from = not_null(name, from)?.cast::<u8>();
        let to = extents.as_mut_ptr().cast::<u8>();
        // SAFETY: `from` has `rank` extents by the promise, and `extents` has room for them by the
        // check. They are copied as bytes, so that a misaligned address is valid.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), rank * size_of::<u64>()) };
    }
    Ok(extents)
}

/// Reads the first `rank` strides, or returns `None` for null.
///
/// # Safety
/// The caller's promise.
pub unsafe fn strides(from: *const i64, rank: u32) -> Result<Option<[i64; MAX_RANK]>> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise; `i64` and `u64` have the same size.
    let strides = unsafe { extents("strides", from.cast(), rank)? };
    Ok(Some(strides.map(u64::cast_signed)))
}

/// The text at `from`, or `None` for null.
///
/// # Safety
/// The caller's promise; the text ends with a 0 byte.
pub unsafe fn text<'a>(from: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not null. The rest is the promise.
    (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) })
}

/// `n` elements in host memory.
///
/// # Safety
/// The caller's promise. Every bit pattern of the type must be valid.
pub unsafe fn items<'a, T: Copy>(name: &str, from: *const c_void, n: usize) -> Result<&'a [T]> {
    let from = from.cast::<T>();
    check_aligned(name, from, n)?;
    check_host(name, from.cast(), n)?;
    // SAFETY: the caller's promise. The memory is aligned and of a possible length.
    Ok(if n == 0 { &[] } else { unsafe { slice::from_raw_parts(from, n) } })
}

/// Destination of `n` elements in host memory. Each element is written before it is read.
///
/// # Safety
/// The caller's promise. Every bit pattern of the type must be valid, and the memory must not
/// overlap any other memory of the call.
pub unsafe fn items_mut<'a, T: Copy>(name: &str, to: *mut c_void, n: usize) -> Result<&'a mut [T]> {
    let to = to.cast::<T>();
    check_aligned(name, to, n)?;
    check_host(name, to.cast(), n)?;
    // SAFETY: the caller's promise. The memory is aligned and of a possible length. The argument
    // about fresh memory in `checked_destination` applies here too.
    Ok(if n == 0 { &mut [] } else { unsafe { slice::from_raw_parts_mut(to, n) } })
}

/// Source elements and destination elements, which must not overlap.
///
/// # Safety
/// The caller's promise for both. Every bit pattern of the type must be valid.
pub unsafe fn items_and_items_mut<'a, T: Copy>(
    (x_name, x, n_x): (&str, *const c_void, usize),
    (y_name, y, n_y): (&str, *mut c_void, usize),
) -> Result<(&'a [T], &'a mut [T])> {
    // SAFETY: the caller's promise.
    let from = unsafe { items(x_name, x, n_x)? };
    let (x_bytes, y_bytes) = (size_of_val(from), n_y.saturating_mul(size_of::<T>()));
    is_empty(y_name, y, y_bytes)?;
    if x_bytes > 0 && y_bytes > 0 && x.addr() < y.addr() + y_bytes && y.addr() < x.addr() + x_bytes {
        return Err(Error::invalid(format!("{x_name} and {y_name} overlap; pass separate memory for {y_name}")));
    }
    // SAFETY: the caller's promise; the memory does not overlap.
    Ok((from, unsafe { items_mut(y_name, y, n_y)? }))
}

fn check_host(name: &str, start: *const c_void, n: usize) -> Result<()> {
    match n > 0 && gpu_of_pointer(start).is_some() {
        true => Err(Error::unsupported(format!(
            "{name} is GPU memory, which this call does not support; copy it to the host first"
        ))),
        false => Ok(()),
    }
}

/// `n` 32-bit words in host memory.
///
/// # Safety
/// The caller's promise.
pub unsafe fn words<'a>(name: &str, from: *const u32, n: usize) -> Result<&'a [u32]> {
    check_aligned(name, from, n)?;
    // SAFETY: the caller's promise. The memory is aligned and of a possible length.
    Ok(if n == 0 { &[] } else { unsafe { slice::from_raw_parts(from, n) } })
}

/// Destination of `n` elements in host memory, which may be uninitialized.
///
/// # Safety
/// The caller's promise. Every bit pattern of the type must be valid.
pub unsafe fn room<'a, T: Copy>(name: &str, to: *mut T, n: usize) -> Result<&'a mut [MaybeUninit<T>]> {
    check_aligned(name, to, n)?;
    // SAFETY: the caller's promise. The memory is aligned and of a possible length.
    Ok(if n == 0 { &mut [] } else { unsafe { slice::from_raw_parts_mut(to.cast(), n) } })
}

fn check_aligned<T>(name: &str, start: *const T, n: usize) -> Result<()> {
    is_empty(name, start.cast(), n.saturating_mul(size_of::<T>()))?;
    match start.is_aligned() {
        true => Ok(()),
        false => {
            Err(Error::invalid(format!("{name} is at {start:p}; it must be aligned to {} bytes", align_of::<T>())))
        }
    }
}

/// Reads the list of functions at `from`, which ends with an entry without a name.
///
/// # Safety
/// The caller's promise. Names end with a 0 byte and are valid for the lifetime of the process.
pub unsafe fn functions(from: *const gridz_h5_function) -> Result<Vec<(&'static CStr, *mut c_void)>> {
    let mut found = Vec::new();
    let mut next = not_null("functions", from)?;
    loop {
        // SAFETY: the entry without a name is the last, and has not been reached yet.
        let gridz_h5_function { name, address } = unsafe { next.read_unaligned() };
        // SAFETY: the caller's promise.
        let Some(name) = (unsafe { text(name) }) else { return Ok(found) };
        found.push((name, address.map_or(ptr::null_mut(), |function| function as *mut c_void)));
        // SAFETY: this was not the last entry.
        next = unsafe { next.add(1) };
    }
}

/// The context at `from`, or the default one for null.
///
/// # Safety
/// `from` is null, or a live pointer from [`leak`].
pub unsafe fn context<'a>(from: *const gridz_context) -> &'a Context {
    static DEFAULT: OnceBox<Context> = OnceBox::new();
    // SAFETY: the promise of the caller.
    let given = unsafe { from.as_ref() };
    given.map_or_else(|| DEFAULT.get_or_init(Box::default), |context| &context.0)
}

/// The object that C holds at `from`, called `name` there.
///
/// # Safety
/// `from` is null, or a live pointer from [`leak`].
pub unsafe fn shared<'a, T>(name: &str, from: *const T) -> Result<&'a T> {
    // SAFETY: the promise of the caller.
    unsafe { from.as_ref() }.ok_or_else(|| Error::invalid(format!("{name} is NULL")))
}

/// Moves a value to the heap and hands its ownership to C.
pub fn leak<T>(held: T) -> *mut T {
    Box::into_raw(Box::new(held))
}

/// Takes the ownership back from C. `None` for null.
///
/// # Safety
/// `from` is null, or a live pointer from [`leak`] that nothing else uses.
pub unsafe fn take_back<T>(from: *mut T) -> Option<Box<T>> {
    // SAFETY: not null, so it is a pointer from `leak`.
    (!from.is_null()).then(|| unsafe { Box::from_raw(from) })
}

fn not_null<T>(name: &str, pointer: *const T) -> Result<NonNull<T>> {
    NonNull::new(pointer.cast_mut()).ok_or_else(|| Error::invalid(format!("{name} is NULL")))
}

/// Whether a buffer has no bytes. An error if no such buffer can exist.
fn is_empty(name: &str, start: *const c_void, n_bytes: usize) -> Result<bool> {
    if n_bytes == 0 {
        return Ok(true);
    }
    if start.is_null() {
        return Err(Error::invalid(format!("{name} is NULL but has a length of {n_bytes} bytes")));
    }
    if isize::try_from(n_bytes).is_err() || start.addr().checked_add(n_bytes).is_none() {
        return Err(Error::invalid(format!("{name} has {n_bytes} bytes, which exceeds the address space")));
    }
    Ok(false)
}

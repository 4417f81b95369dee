//! Reads, writes and lists the encoded chunks of a dataset, through HDF5's functions for chunks.
#![allow(unsafe_code)] // calls into libhdf5

use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_uint, c_void};

use super::abi::{self, Hid};
use super::api::ok;
use super::functions::{Find, functions};
use super::library::Library;
use gridz_codecs::error::{Error, Result};

functions! {
    /// Functions for chunks that every supported version has.
    struct RequiredChunkFunctions {
        write: "H5Dwrite_chunk" fn(Hid, Hid, u32, *const u64, usize, *const c_void) -> c_int;
        storage_size: "H5Dget_chunk_storage_size" fn(Hid, *const u64, *mut u64) -> c_int;
        info: "H5Dget_chunk_info_by_coord" fn(Hid, *const u64, *mut c_uint, *mut u64, *mut u64) -> c_int;
    }
}

functions! {
    /// Reads the encoded bytes of a chunk, in 1.10 to 1.14. Later versions have [`ReadChunk2`].
    struct ReadChunk {
        read: "H5Dread_chunk" fn(Hid, Hid, *const u64, *mut u32, *mut c_void) -> c_int;
    }
}

functions! {
    /// Reads the encoded bytes of a chunk, from 2.0 on. It takes the length of the buffer.
    struct ReadChunk2 {
        read: "H5Dread_chunk2" fn(Hid, Hid, *const u64, *mut u32, *mut c_void, *mut usize) -> c_int;
    }
}

/// `H5D_chunk_iter_op_t`.
type EachChunk = extern "C" fn(*const u64, c_uint, u64, u64, *mut c_void) -> c_int;

functions! {
    /// Iterates over all chunks, from 1.12.3 on. It is correct from 1.14 on.
    struct ChunkIter {
        for_each: "H5Dchunk_iter" fn(Hid, Hid, EachChunk, *mut c_void) -> c_int;
    }
}

/// The functions for chunks of a libhdf5.
pub(super) struct ChunkFunctions {
    all: RequiredChunkFunctions,
    read: Option<ReadChunk>,
    read_2: Option<ReadChunk2>,
    iter: Option<ChunkIter>,
}

impl ChunkFunctions {
    /// # Errors
    /// The name of the first required function that is missing.
    ///
    /// # Safety
    /// `find` must return the address of the named symbol of one initialized libhdf5.
    pub(super) unsafe fn resolve(find: &Find) -> std::result::Result<Self, &'static CStr> {
        // SAFETY: the caller's promise.
        unsafe {
            Ok(Self {
                all: RequiredChunkFunctions::resolve(find)?,
                read: ReadChunk::resolve(find).ok(),
                read_2: ReadChunk2::resolve(find).ok(),
                iter: ChunkIter::resolve(find).ok(),
            })
        }
    }
}

/// A chunk in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Number of encoded bytes.
    pub n_bytes: u64,
    /// Filter mask: a bit is set for each filter that was left out.
    pub mask: u32,
    /// Address of the encoded bytes. Depending on the version it counts from the beginning of the
    /// file or from the end of the user block.
    pub address: u64,
}

/// Checks that a chunk in a file has at most `most` encoded bytes. A damaged file must not
/// determine how much memory is allocated.
///
/// # Errors
/// `Corrupt` if it has more.
pub(super) fn check_encoded_bytes(n_bytes: u64, most: usize) -> Result<()> {
    if n_bytes > most as u64 {
        let text = format!("a chunk has {n_bytes} encoded bytes, but at most {most} are possible");
        return Err(Error::corrupt(text));
    }
    Ok(())
}

impl Library<'_> {
    /// Number of encoded bytes of the chunk at `offset` if the chunk index shows that it was
    /// written. `None` is inconclusive. This is a search in the index.
    pub fn known_bytes(&self, dataset: Hid, offset: &[u64]) -> Option<u64> {
        let mut n_bytes = 0;
        // SAFETY: takes any id; an offset of the dataset's rank, and a valid pointer for the
        // result.
        let asked =
            self.quietly(|| unsafe { (self.chunks.all.storage_size)(dataset, offset.as_ptr(), &mut n_bytes) });
        (asked >= 0 && n_bytes > 0).then_some(n_bytes)
    }

    /// Number of encoded bytes of the chunk at `offset`, or `None` if it was never written. This is
    /// a search in the chunk index. For chunks that were never written it may become a walk through
    /// the whole index.
    pub fn encoded_bytes(&self, dataset: Hid, offset: &[u64]) -> Result<Option<u64>> {
        if let Some(n_bytes) = self.known_bytes(dataset, offset) {
            return Ok(Some(n_bytes));
        }
        // The search fails for a chunk that was never written, but also for other reasons.
        Ok(self.stored(dataset, offset)?.map(|stored| stored.n_bytes))
    }

    /// The chunk at `offset`, or `None` if it was never written. This is a walk through the chunk
    /// index.
    pub fn stored(&self, dataset: Hid, offset: &[u64]) -> Result<Option<Stored>> {
        let (mut mask, mut address, mut n_bytes) = (0, 0, 0);
        // SAFETY: takes any id; an offset of the dataset's rank, and valid pointers for the
        // results.
        let asked =
            unsafe { (self.chunks.all.info)(dataset, offset.as_ptr(), &mut mask, &mut address, &mut n_bytes) };
        ok(asked).ok_or_else(|| self.failed("H5Dget_chunk_info_by_coord"))?;
        Ok((address != abi::NO_ADDRESS).then_some(Stored { n_bytes, mask, address }))
    }

    /// The chunks that were written and have a number, by that number. `number_of` gets the offset
    /// of a chunk. `None` if this version of HDF5 cannot list chunks.
    pub fn index(
        &self,
        dataset: Hid,
        rank: usize,
        number_of: &dyn Fn(&[u64]) -> Option<u64>,
    ) -> Result<Option<HashMap<u64, Stored>>> {
        /// Argument of the C callback.
        struct Visitor<'v> {
            rank: usize,
            number_of: &'v dyn Fn(&[u64]) -> Option<u64>,
            index: HashMap<u64, Stored>,
        }
        extern "C" fn each(
            offset: *const u64,
            mask: c_uint,
            address: u64,
            n_bytes: u64,
            visitor: *mut c_void,
        ) -> c_int {
            // SAFETY: the pointer passed below. Nothing else uses it during the call.
            let visitor = unsafe { &mut *visitor.cast::<Visitor>() };
            // SAFETY: libhdf5 passes an offset of the dataset's rank.
            let offset = unsafe { std::slice::from_raw_parts(offset, visitor.rank) };
            let stored = Stored { n_bytes, mask, address };
            // A panic must not unwind into libhdf5.
            let visited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                (visitor.number_of)(offset).map(|number| visitor.index.insert(number, stored));
            }));
            if visited.is_ok() { 0 } else { -1 }
        }
        // Before 1.14 the offsets were in units of chunks.
        let Some(iter) = self.chunks.iter.as_ref().filter(|_| self.api.version() >= (1, 14)) else {
            return Ok(None);
        };
        let mut visitor = Visitor { rank, number_of, index: HashMap::new() };
        // SAFETY: takes any id; the visitor lives as long as the call.
        let done =
            unsafe { (iter.for_each)(dataset, abi::DEFAULT_PLIST, each, std::ptr::from_mut(&mut visitor).cast()) };
        ok(done).map(|()| Some(visitor.index)).ok_or_else(|| self.failed("H5Dchunk_iter"))
    }

    /// Whether reading a chunk checks its length. Before 2.0 libhdf5 writes the whole stored chunk
    /// to the buffer, whatever the buffer's size is.
    pub fn tells_lengths(&self) -> bool {
        self.chunks.read_2.is_some()
    }

    /// Reads the encoded bytes of the chunk at `offset`, exactly `bytes.len()` bytes.
    /// Returns the chunk's filter mask.
    pub fn read_chunk(&self, dataset: Hid, dxpl: Hid, offset: &[u64], bytes: &mut [u8]) -> Result<u32> {
        let mut mask = 0;
        let (offset, to, mut n_bytes) = (offset.as_ptr(), bytes.as_mut_ptr().cast(), bytes.len());
        let done = match (&self.chunks.read_2, &self.chunks.read) {
            // SAFETY: takes any ids, an offset of the dataset's rank, and a buffer of `n_bytes`
            // bytes.
            (Some(two), _) => unsafe { (two.read)(dataset, dxpl, offset, &mut mask, to, &mut n_bytes) },
            // SAFETY: the same ids and offset. The buffer has the length that libhdf5 has just
            // reported, and the manual forbids writing to the dataset during the call.
            (None, Some(one)) => unsafe { (one.read)(dataset, dxpl, offset, &mut mask, to) },
            (None, None) => {
                return Err(Error::invalid(
                    "the HDF5 function H5Dread_chunk was not found; use libhdf5 1.10 or later and the current \
                     gridz_hdf5.h",
                ));
            }
        };
        ok(done).filter(|()| n_bytes == bytes.len()).map(|()| mask).ok_or_else(|| self.failed("H5Dread_chunk"))
    }

    /// Writes the encoded bytes of the chunk at `offset`, to which all filters were applied.
    pub fn write_chunk(&self, dataset: Hid, dxpl: Hid, offset: &[u64], bytes: &[u8]) -> Result<()> {
        // SAFETY: takes any ids, an offset of the dataset's rank, and `bytes.len()` bytes.
        let done = unsafe {
            (self.chunks.all.write)(dataset, dxpl, 0, offset.as_ptr(), bytes.len(), bytes.as_ptr().cast())
        };
        ok(done).ok_or_else(|| self.failed("H5Dwrite_chunk"))
    }
}

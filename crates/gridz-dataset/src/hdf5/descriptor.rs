//! Reads chunks directly from a dataset's file, through HDF5's own file descriptor.
//!
//! HDF5 itself reads whole chunks only, one after the other. But it reports the addresses of chunks and, for some
//! drivers, the descriptor of the file. Other drivers have no descriptor: files in memory, in
//! several parts, through MPI-IO, or in the cloud. If the file is open for writing, HDF5 flushes its
//! buffers first. It keeps the ownership of the descriptor, whose file position is not changed.
#![allow(unsafe_code)] // calls into libhdf5, and the descriptor of another

use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;

use super::abi::{self, Hid};
use super::api::ok;
use super::chunk_io::Stored;
use super::functions::functions;
use super::library::Library;
use crate::bulk::{Buffer, ReadAt};
use gridz_codecs::error::{Error, ErrorKind, Result};

functions! {
    /// Functions that lead to the descriptor of a file.
    struct Files {
        access_plist: "H5Fget_access_plist" fn(Hid) -> Hid;
        create_plist: "H5Fget_create_plist" fn(Hid) -> Hid;
        driver: "H5Pget_driver" fn(Hid) -> Hid;
        driver_flags: "H5FDdriver_query" fn(Hid, *mut c_ulong) -> c_int;
        handle: "H5Fget_vfd_handle" fn(Hid, Hid, *mut *mut c_void) -> c_int;
        intent: "H5Fget_intent" fn(Hid, *mut c_uint) -> c_int;
        flush: "H5Fflush" fn(Hid, c_int) -> c_int;
        user_block: "H5Pget_userblock" fn(Hid, *mut u64) -> c_int;
    }
}

/// Signature at the start of an HDF5 file, after its user block.
const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

/// Whether a file that is open for writing can be read directly.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Writable {
    /// Flushes the file first.
    Flush,
    /// Refuses it, and also a file that another process may write (SWMR).
    Refuse,
}

/// A file whose descriptor belongs to HDF5. Offsets are the addresses that HDF5 reports.
pub struct Descriptor {
    file: ManuallyDrop<File>,
    /// Length of the user block, which precedes HDF5's own bytes.
    user_block: u64,
    /// Offset in the file that addresses count from.
    base: u64,
}

impl Descriptor {
    /// Borrows the descriptor of a dataset's file. It is valid while the file is open. If there is
    /// none, the inner `Err` is the reason, in words that can follow "because".
    ///
    /// # Errors
    /// `Host` if HDF5 cannot flush the file.
    pub fn of(
        library: &Library,
        dataset: Hid,
        writable: Writable,
    ) -> Result<std::result::Result<Self, &'static str>> {
        let Some(files) = &library.files else {
            return Ok(Err("the program does not provide the necessary HDF5 functions"));
        };
        let file = library.file_of(dataset)?;
        // SAFETY: takes any id.
        let access = unsafe { (files.access_plist)(file.id()) };
        let access = library.owned_plist(access, "H5Fget_access_plist")?;
        let (mut flags, mut handle, mut intent, mut user_block) = (0, std::ptr::null_mut(), 0, 0);
        // SAFETY: takes any ids, and valid pointers for the results. The query fails for an unknown
        // driver.
        let asked = library.quietly(|| unsafe {
            let driver = (files.driver)(access.id());
            ok((files.driver_flags)(driver, &mut flags))
                .filter(|()| flags & abi::POSIX_HANDLE != 0)
                .and_then(|()| ok((files.handle)(file.id(), abi::DEFAULT_PLIST, &mut handle)))
        });
        if asked.is_none() || handle.is_null() {
            return Ok(Err("its file driver does not use a file descriptor"));
        }
        // SAFETY: takes any id.
        let created = unsafe { (files.create_plist)(file.id()) };
        let created = library.owned_plist(created, "H5Fget_create_plist")?;
        // SAFETY: takes any ids, and valid pointers for the results.
        let asked = unsafe {
            ok((files.intent)(file.id(), &mut intent)).and(ok((files.user_block)(created.id(), &mut user_block)))
        };
        asked.ok_or_else(|| library.failed("H5Fget_intent"))?;
        if intent != abi::FILE_READ_ONLY && writable == Writable::Refuse {
            return Ok(Err("its file may be written meanwhile"));
        }
        if intent & abi::FILE_WRITES != 0 {
            // SAFETY: takes any id.
            let done = unsafe { (files.flush)(file.id(), abi::SCOPE_LOCAL) };
            ok(done).ok_or_else(|| library.failed("H5Fflush"))?;
        }
        // SAFETY: such a driver returns a pointer to its descriptor, which is open while the file
        // is. `ManuallyDrop` keeps it from being closed here.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(handle.cast::<c_int>().read()) });
        let (found, mut begin) = (Self { file, user_block, base: 0 }, [0; SIGNATURE.len()]);
        let is_it = found.read_at(user_block, &mut begin).is_ok() && begin == *SIGNATURE;
        Ok(if is_it { Ok(found) } else { Err("its file does not begin with an HDF5 signature") })
    }

    /// Determines what addresses count from: with a user block, some versions of HDF5 count from its
    /// end, others from the beginning of the file. `sample` returns one
    /// chunk that HDF5 itself has read; a comparison decides.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn located(
        self,
        sample: impl FnOnce() -> Result<Option<(Stored, Buffer)>>,
    ) -> Result<std::result::Result<Self, &'static str>> {
        if self.user_block == 0 {
            return Ok(Ok(self));
        }
        let Some((Stored { n_bytes, address, .. }, mut expected)) = sample()? else { return Ok(Ok(self)) };
        let mut bytes = Buffer::new(n_bytes as usize)?;
        let mut is_at = |base: u64| {
            let is_read = self.read_at(address.saturating_add(base), bytes.bytes()).is_ok();
            is_read && bytes.bytes() == &expected.bytes()[..n_bytes as usize]
        };
        Ok(match (is_at(0), is_at(self.user_block)) {
            (true, false) => Ok(self),
            (false, true) => Ok(Self { base: self.user_block, ..self }),
            _ => Err("its chunks are not at the addresses that HDF5 reports"),
        })
    }
}

impl ReadAt for Descriptor {
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(bytes, at.saturating_add(self.base)).map_err(|error| {
            let n_bytes = bytes.len();
            match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    let text =
                        format!("the file is truncated: it ends within a chunk of {n_bytes} bytes at offset {at}");
                    Error::new(ErrorKind::Truncated, text)
                }
                _ => Error::new(
                    ErrorKind::Host,
                    format!("reading {n_bytes} bytes of the file at offset {at} failed: {error}"),
                ),
            }
        })
    }
}

//! The file of a dataset, read beside libhdf5 by its descriptor.
//!
//! HDF5 reads a chunk as a whole. It tells where chunks are, though, and, for drivers that say so of themselves, by which
//! descriptor it reads the file; others (files in memory, in several parts, by MPI-IO, in a cloud) have none. What HDF5 has not
//! written yet is written first. The descriptor stays HDF5's, and its position is left alone.
#![allow(unsafe_code)] // calls into libhdf5, and the descriptor of another

use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;

use super::abi::{self, Hid};
use super::dl::ok;
use super::functions::functions;
use super::library::Library;
use crate::bulk::ReadAt;
use gridz_codecs::error::{Error, ErrorKind, Result};

functions! {
    /// What tells the descriptor of a file.
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

/// With what a file of HDF5 begins, behind its user block.
const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

/// A file that is open, and whose descriptor is HDF5's.
pub struct Descriptor {
    file: ManuallyDrop<File>,
    /// Bytes of other programs before those of HDF5.
    pub user_block: u64,
}

impl Descriptor {
    /// That of the file of a dataset, to which everything is written that HDF5 has of it in memory. It must not be used after
    /// the file was closed. `None`: why there is none, in words that follow "because".
    ///
    /// # Errors
    /// `Host` if HDF5 cannot write what it has.
    pub fn of(library: &Library, dataset: Hid) -> Result<std::result::Result<Self, &'static str>> {
        let Some(files) = &library.files else {
            return Ok(Err("the program does not tell the functions for that"));
        };
        let file = library.file_of(dataset)?;
        // SAFETY: takes any id.
        let access = unsafe { (files.access_plist)(file.id()) };
        let access = library.owned_plist(access, "H5Fget_access_plist")?;
        let (mut flags, mut handle, mut intent, mut user_block) = (0, std::ptr::null_mut(), 0, 0);
        // SAFETY: takes any ids, and places for the answers. A driver that is not known has none.
        let asked = library.quietly(|| unsafe {
            let driver = (files.driver)(access.id());
            ok((files.driver_flags)(driver, &mut flags))
                .filter(|()| flags & abi::POSIX_HANDLE != 0)
                .and_then(|()| ok((files.handle)(file.id(), abi::DEFAULT_PLIST, &mut handle)))
        });
        if asked.is_none() || handle.is_null() {
            return Ok(Err("its file is not one of a descriptor"));
        }
        // SAFETY: takes any id.
        let created = unsafe { (files.create_plist)(file.id()) };
        let created = library.owned_plist(created, "H5Fget_create_plist")?;
        // SAFETY: takes any ids, and places for the answers.
        let asked = unsafe {
            ok((files.intent)(file.id(), &mut intent)).and(ok((files.user_block)(created.id(), &mut user_block)))
        };
        asked.ok_or_else(|| library.failed("H5Fget_intent"))?;
        if intent & abi::FILE_WRITES != 0 {
            // SAFETY: takes any id.
            let done = unsafe { (files.flush)(file.id(), abi::SCOPE_LOCAL) };
            ok(done).ok_or_else(|| library.failed("H5Fflush"))?;
        }
        // SAFETY: such a driver tells where its descriptor is, which is open while the file is; it is not closed here.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(handle.cast::<c_int>().read()) });
        let (found, mut begin) = (Self { file, user_block }, [0; SIGNATURE.len()]);
        let is_it = found.read_at(user_block, &mut begin).is_ok() && begin == *SIGNATURE;
        Ok(if is_it { Ok(found) } else { Err("its file does not begin as one of HDF5") })
    }
}

impl ReadAt for Descriptor {
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(bytes, at).map_err(|error| {
            let n_bytes = bytes.len();
            match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    let text = format!("the file ends within the {n_bytes} bytes of a chunk from {at} on");
                    Error::new(ErrorKind::Truncated, text)
                }
                _ => Error::new(ErrorKind::Host, format!("{n_bytes} bytes of the file from {at} on: {error}")),
            }
        })
    }
}

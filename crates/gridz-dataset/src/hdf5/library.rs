//! Bindings to the caller's libhdf5, resolved from a function table or from the process.
#![allow(unsafe_code)] // calls into libhdf5

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;

use super::abi::{self, Hid};
use super::api::{Api, Owned, ok};
use super::chunk_io::ChunkFunctions;
use super::descriptor::Files;
use super::dl;
use super::functions::{Find, functions};
use gridz_codecs::error::{Error, ErrorKind, Result};

functions! {
    /// Functions for transferring datasets that every supported version has.
    struct Datasets {
        dataset_space: "H5Dget_space" fn(Hid) -> Hid;
        dataset_type: "H5Dget_type" fn(Hid) -> Hid;
        dataset_plist: "H5Dget_create_plist" fn(Hid) -> Hid;
        write: "H5Dwrite" fn(Hid, Hid, Hid, Hid, Hid, *const c_void) -> c_int;
        read: "H5Dread" fn(Hid, Hid, Hid, Hid, Hid, *mut c_void) -> c_int;
        layout: "H5Pget_layout" fn(Hid) -> c_int;
        chunk: "H5Pget_chunk" fn(Hid, c_int, *mut u64) -> c_int;
        chunk_options: "H5Pget_chunk_opts" fn(Hid, *mut c_uint) -> c_int;
        fill_time: "H5Pget_fill_time" fn(Hid, *mut c_int) -> c_int;
        fill_status: "H5Pfill_value_defined" fn(Hid, *mut c_int) -> c_int;
        fill: "H5Pget_fill_value" fn(Hid, Hid, *mut c_void) -> c_int;
        space: "H5Screate_simple" fn(c_int, *const u64, *const u64) -> Hid;
        space_class: "H5Sget_simple_extent_type" fn(Hid) -> c_int;
        select: "H5Sselect_hyperslab" fn(Hid, c_int, *const u64, *const u64, *const u64, *const u64) -> c_int;
        select_none: "H5Sselect_none" fn(Hid) -> c_int;
        types_equal: "H5Tequal" fn(Hid, Hid) -> c_int;
        is_variable_string: "H5Tis_variable_str" fn(Hid) -> c_int;
        n_members: "H5Tget_nmembers" fn(Hid) -> c_int;
        member_type: "H5Tget_member_type" fn(Hid, c_uint) -> Hid;
        file_of: "H5Iget_file_id" fn(Hid) -> Hid;
        close_file: "H5Fclose" fn(Hid) -> c_int;
        close_plist: "H5Pclose" fn(Hid) -> c_int;
        close_space: "H5Sclose" fn(Hid) -> c_int;
        close_type: "H5Tclose" fn(Hid) -> c_int;
        data_transform: "H5Pget_data_transform" fn(Hid, *mut c_char, usize) -> isize;
        edc_check: "H5Pget_edc_check" fn(Hid) -> c_int;
        walk_errors: "H5Ewalk2" fn(Hid, c_int, EachError, *mut c_void) -> c_int;
        get_auto: "H5Eget_auto2" fn(Hid, *mut *mut c_void, *mut *mut c_void) -> c_int;
        set_auto: "H5Eset_auto2" fn(Hid, *mut c_void, *mut c_void) -> c_int;
    }
}

functions! {
    /// A function of parallel builds of libhdf5. It fails unless the file's driver uses MPI.
    struct Parallel {
        atomicity: "H5Fget_mpi_atomicity" fn(Hid, *mut bool) -> c_int;
    }
}

/// A libhdf5. Only the thread that owns the value calls its functions.
pub struct Library<'f> {
    /// Functions that the filter needs too.
    pub api: Api,
    datasets: Datasets,
    pub(super) chunks: ChunkFunctions,
    parallel: Option<Parallel>,
    pub(super) files: Option<Files>,
    of: PhantomData<&'f ()>,
}

/// `H5E_walk2_t`.
type EachError = extern "C" fn(c_uint, *const abi::ErrorEntry, *mut c_void) -> c_int;

impl<'f> Library<'f> {
    /// Resolves the library's functions with `find`.
    ///
    /// # Errors
    /// `InvalidArgument` naming a function that is missing.
    ///
    /// # Safety
    /// `find` must return the address of the named symbol of one initialized libhdf5, which stays
    /// loaded for `'f`.
    pub unsafe fn new(find: &Find) -> Result<Self> {
        let missing = |name: &CStr| {
            Error::invalid(format!(
                "the HDF5 function {} was not found; use libhdf5 1.10 or later and the current gridz_hdf5.h",
                name.to_string_lossy()
            ))
        };
        // SAFETY: the caller's promise.
        unsafe {
            Ok(Self {
                api: Api::resolve(find).map_err(missing)?,
                datasets: Datasets::resolve(find).map_err(missing)?,
                chunks: ChunkFunctions::resolve(find).map_err(missing)?,
                parallel: Parallel::resolve(find).ok(),
                files: Files::resolve(find).ok(),
                of: PhantomData,
            })
        }
    }

    /// Resolves the library's functions from a table that was compiled into the caller's program.
    /// Functions that a later gridz needs and the table lacks are looked up in the library that
    /// contains the functions of the table. If that fails, they are looked up in the process,
    /// provided that the process finds the functions of the table at the same addresses: it may
    /// contain several libraries.
    ///
    /// # Errors
    /// As for [`Library::new`].
    ///
    /// # Safety
    /// Each address is null, or that of the function of this name of one initialized libhdf5, which
    /// stays loaded for `'f`.
    pub unsafe fn of_table(functions: &[(&CStr, *mut c_void)]) -> Result<Self> {
        let known = functions.iter().filter(|(_, address)| !address.is_null());
        let beside = known.clone().map(|(_, address)| *address).next();
        let find = |name: &CStr| match known.clone().find(|(known, _)| *known == name) {
            Some((_, address)) => Some(*address),
            // A null entry means that the program's HDF5 lacks the function.
            None if functions.iter().any(|(known, _)| *known == name) => None,
            None => dl::function_beside(beside?, name).or_else(|| in_process(functions, name)),
        };
        // SAFETY: the caller's promise.
        unsafe { Self::new(&find) }
    }

    /// Resolves the functions of the library that the program is linked with.
    ///
    /// # Errors
    /// As for [`Library::new`].
    ///
    /// # Safety
    /// Functions of the program with names of libhdf5 are those of one initialized libhdf5, which
    /// stays loaded for `'f`.
    pub unsafe fn of_program() -> Result<Self> {
        // The program's file may be large. It is read only if a required function is not found
        // otherwise.
        // SAFETY: the caller's promise.
        unsafe {
            Self::new(&dl::shared_function)
                .or_else(|_| Self::new(&|name| dl::shared_function(name).or_else(|| dl::static_function(name))))
        }
    }

    /// The error of a function that has just failed, with the first description on HDF5's error
    /// stack. Call it at once: closing an id clears the stack.
    pub(super) fn failed(&self, what: &str) -> Error {
        extern "C" fn first(_: c_uint, entry: *const abi::ErrorEntry, text: *mut c_void) -> c_int {
            // SAFETY: the pointer passed below. Nothing else uses it during the call.
            let text = unsafe { &mut *text.cast::<Option<String>>() };
            // SAFETY: libhdf5 passes an entry of its stack.
            let description = unsafe { (*entry).description };
            if text.is_none() && !description.is_null() {
                // SAFETY: a string of that entry.
                *text = Some(unsafe { CStr::from_ptr(description) }.to_string_lossy().into_owned());
            }
            0
        }
        let mut text: Option<String> = None;
        let place = std::ptr::from_mut(&mut text).cast();
        // SAFETY: walks the stack of this thread from the innermost entry on. `text` outlives the
        // call.
        unsafe { (self.datasets.walk_errors)(abi::DEFAULT_STACK, abi::WALK_UPWARD, first, place) };
        let why = text.map_or_else(|| "HDF5 reported no reason".to_owned(), |text| format!("HDF5 says: {text}"));
        Error::new(ErrorKind::Host, format!("{what} failed; {why}"))
    }

    /// Whether HDF5 transforms elements during a transfer.
    pub fn transforms(&self, dxpl: Hid) -> bool {
        // SAFETY: takes any id. It gets no buffer for the text, and returns the text's length, or
        // an error if there is no text.
        dxpl != abi::DEFAULT_PLIST
            && self.quietly(|| unsafe { (self.datasets.data_transform)(dxpl, std::ptr::null_mut(), 0) }) > 0
    }

    /// Whether checksums are verified when data is read.
    pub fn compares(&self, dxpl: Hid) -> bool {
        // SAFETY: takes any id.
        dxpl == abi::DEFAULT_PLIST || unsafe { (self.datasets.edc_check)(dxpl) } != abi::DISABLE_EDC
    }

    fn owned(&self, id: Hid, close: unsafe extern "C" fn(Hid) -> c_int, what: &str) -> Result<Owned<'_>> {
        if id < 0 {
            return Err(self.failed(what));
        }
        // SAFETY: a new id of this library, and the function that closes its kind.
        Ok(unsafe { Owned::new(id, close) })
    }

    /// The dataspace of a dataset.
    pub fn dataset_space(&self, dataset: Hid) -> Result<Owned<'_>> {
        // SAFETY: takes any id.
        self.owned(unsafe { (self.datasets.dataset_space)(dataset) }, self.datasets.close_space, "H5Dget_space")
    }

    /// The datatype of a dataset in the file.
    pub fn dataset_type(&self, dataset: Hid) -> Result<Owned<'_>> {
        // SAFETY: takes any id.
        self.owned(unsafe { (self.datasets.dataset_type)(dataset) }, self.datasets.close_type, "H5Dget_type")
    }

    /// The creation property list of a dataset.
    pub fn dataset_plist(&self, dataset: Hid) -> Result<Owned<'_>> {
        // SAFETY: takes any id.
        let id = unsafe { (self.datasets.dataset_plist)(dataset) };
        self.owned(id, self.datasets.close_plist, "H5Dget_create_plist")
    }

    /// Extents of a dataspace. `None` for a null dataspace.
    pub fn extents(&self, space: Hid) -> Result<Option<Vec<u64>>> {
        // SAFETY: takes any id.
        if unsafe { (self.datasets.space_class)(space) } == abi::SPACE_NULL {
            return Ok(None);
        }
        self.api.extents(space).map(Some).ok_or_else(|| self.failed("H5Sget_simple_extent_dims"))
    }

    /// Chunk extents of a dataset created with `dcpl`. `None` if its layout is not chunked.
    pub fn chunk(&self, dcpl: Hid) -> Option<Vec<u64>> {
        // SAFETY: takes any id.
        if unsafe { (self.datasets.layout)(dcpl) } != abi::LAYOUT_CHUNKED {
            return None;
        }
        let mut chunk = [0; abi::MAX_RANK];
        // SAFETY: `chunk` has room for as many extents as the call may write.
        let rank = unsafe { (self.datasets.chunk)(dcpl, chunk.len() as c_int, chunk.as_mut_ptr()) };
        chunk.get(..usize::try_from(rank).ok()?).map(<[u64]>::to_vec)
    }

    /// Whether partial chunks at the edge are stored without filters.
    pub fn keeps_edges_unfiltered(&self, dcpl: Hid) -> bool {
        let mut options = 0;
        // SAFETY: takes any id, and a valid pointer for the result.
        let asked = unsafe { (self.datasets.chunk_options)(dcpl, &mut options) };
        asked < 0 || options & abi::CHUNK_DONT_FILTER_PARTIAL != 0
    }

    /// The fill value of type `dtype` and `n_bytes`, for elements that were never written. `None`
    /// if HDF5 writes none.
    pub fn fill(&self, dcpl: Hid, dtype: Hid, n_bytes: usize) -> Result<Option<Vec<u8>>> {
        let (mut time, mut status) = (0, 0);
        // SAFETY: takes any id, and valid pointers for the results.
        let asked = unsafe {
            ok((self.datasets.fill_time)(dcpl, &mut time)).and(ok((self.datasets.fill_status)(dcpl, &mut status)))
        };
        asked.ok_or_else(|| self.failed("H5Pget_fill_time"))?;
        if time == abi::FILL_TIME_NEVER || time == abi::FILL_TIME_IFSET && status == abi::FILL_VALUE_UNDEFINED {
            return Ok(None);
        }
        let mut element = vec![0; n_bytes];
        if status == abi::FILL_USER_DEFINED {
            // SAFETY: takes any ids; `element` has room for an element of the type.
            let asked = unsafe { (self.datasets.fill)(dcpl, dtype, element.as_mut_ptr().cast()) };
            ok(asked).ok_or_else(|| self.failed("H5Pget_fill_value"))?;
        }
        Ok(Some(element))
    }

    /// Whether two types are the same.
    pub fn types_equal(&self, one: Hid, other: Hid) -> bool {
        // SAFETY: takes any ids.
        unsafe { (self.datasets.types_equal)(one, other) > 0 }
    }

    /// Whether elements of the type contain pointers in memory: variable-length types and
    /// references, whose forms in memory and in the file differ.
    pub fn has_pointers(&self, dtype: Hid) -> bool {
        match self.api.class(dtype) {
            Some(abi::class::REFERENCE | abi::class::VLEN) | None => true,
            // SAFETY: takes any id.
            Some(abi::class::STRING) => unsafe { (self.datasets.is_variable_string)(dtype) != 0 },
            Some(abi::class::ARRAY) => self.api.base(dtype).is_none_or(|base| self.has_pointers(base.id())),
            Some(abi::class::COMPOUND) => {
                // SAFETY: takes any id.
                let n = unsafe { (self.datasets.n_members)(dtype) };
                n < 0
                    || (0..n as c_uint).any(|i| {
                        // SAFETY: a member of the type.
                        let id = unsafe { (self.datasets.member_type)(dtype, i) };
                        let member = self.owned(id, self.datasets.close_type, "H5Tget_member_type");
                        member.map_or(true, |member| self.has_pointers(member.id()))
                    })
            }
            Some(_) => false,
        }
    }

    /// The file of an object.
    pub fn file_of(&self, object: Hid) -> Result<Owned<'_>> {
        // SAFETY: takes any id.
        let file = unsafe { (self.datasets.file_of)(object) };
        self.owned(file, self.datasets.close_file, "H5Iget_file_id")
    }

    /// Takes the ownership of a property list that the function of this name returned.
    pub fn owned_plist(&self, id: Hid, function: &str) -> Result<Owned<'_>> {
        self.owned(id, self.datasets.close_plist, function)
    }

    /// Whether the file of an object is open through MPI-IO.
    pub fn is_parallel(&self, object: Hid) -> Result<bool> {
        let Some(parallel) = &self.parallel else { return Ok(false) };
        let file = self.file_of(object)?;
        let mut is_atomic = false;
        // SAFETY: takes any id, and a valid pointer to a C bool.
        Ok(self.quietly(|| unsafe { (parallel.atomicity)(file.id(), &mut is_atomic) }) >= 0)
    }

    /// Calls `body` while HDF5's automatic error output is off.
    pub(super) fn quietly<R>(&self, body: impl FnOnce() -> R) -> R {
        let (mut function, mut data) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: valid pointers to two addresses, which are restored unchanged.
        let asked = unsafe { (self.datasets.get_auto)(abi::DEFAULT_STACK, &mut function, &mut data) };
        if asked < 0 {
            return body();
        }
        // SAFETY: a null function turns the output off.
        unsafe { (self.datasets.set_auto)(abi::DEFAULT_STACK, std::ptr::null_mut(), std::ptr::null_mut()) };
        let result = body();
        // SAFETY: the previous function and data.
        unsafe { (self.datasets.set_auto)(abi::DEFAULT_STACK, function, data) };
        result
    }

    /// A dataspace of `extents` with a box selected in it.
    pub fn space_with(&self, extents: &[u64], start: &[u64], count: &[u64]) -> Result<Owned<'_>> {
        // SAFETY: `extents` has as many entries as the call is given; null means no larger maximum
        // extents.
        let id = unsafe { (self.datasets.space)(extents.len() as c_int, extents.as_ptr(), std::ptr::null()) };
        let space = self.owned(id, self.datasets.close_space, "H5Screate_simple")?;
        if !extents.is_empty() {
            self.select(space.id(), start, count)?;
        }
        Ok(space)
    }

    /// Selects a box of a dataspace.
    pub fn select(&self, space: Hid, start: &[u64], count: &[u64]) -> Result<()> {
        let done = if count.contains(&0) {
            // SAFETY: takes any id.
            unsafe { (self.datasets.select_none)(space) }
        } else {
            let null = std::ptr::null();
            // SAFETY: lists of the space's rank; null means a stride and block of 1.
            unsafe { (self.datasets.select)(space, abi::SELECT_SET, start.as_ptr(), null, count.as_ptr(), null) }
        };
        ok(done).ok_or_else(|| self.failed("H5Sselect_hyperslab"))
    }

    /// Calls `H5Dwrite` for the elements that `memory_space` selects in the memory at `from`.
    ///
    /// # Safety
    /// The memory at `from` contains all elements of `memory_type` that `memory_space` selects.
    pub unsafe fn write(&self, ids: &Call, from: *const u8) -> Result<()> {
        let &Call { dataset, memory_type, memory_space, file_space, dxpl } = ids;
        // SAFETY: takes any ids; the memory is the caller's promise.
        let done =
            unsafe { (self.datasets.write)(dataset, memory_type, memory_space, file_space, dxpl, from.cast()) };
        ok(done).ok_or_else(|| self.failed("H5Dwrite"))
    }

    /// Calls `H5Dread` for the elements that `memory_space` selects in the memory at `to`.
    ///
    /// # Safety
    /// The memory at `to` contains all elements of `memory_type` that `memory_space` selects.
    pub unsafe fn read(&self, ids: &Call, to: *mut u8) -> Result<()> {
        let &Call { dataset, memory_type, memory_space, file_space, dxpl } = ids;
        // SAFETY: takes any ids; the memory is the caller's promise.
        let done = unsafe { (self.datasets.read)(dataset, memory_type, memory_space, file_space, dxpl, to.cast()) };
        ok(done).ok_or_else(|| self.failed("H5Dread"))
    }
}

/// The address of a function that is visible to the whole process, if that is the library of the
/// table. In a program that is not position-independent, the addresses in the table are those of the
/// program's own jump table, so they do not identify the library.
fn in_process(table: &[(&CStr, *mut c_void)], name: &CStr) -> Option<*mut c_void> {
    let is_the_same = |(known, address): &(&CStr, *mut c_void)| dl::shared_function(known) == Some(*address);
    table.iter().any(is_the_same).then(|| dl::shared_function(name)).flatten()
}

/// Arguments of `H5Dwrite` and `H5Dread`.
pub struct Call {
    /// The dataset.
    pub dataset: Hid,
    /// Type of the elements in memory.
    pub memory_type: Hid,
    /// Selection in memory.
    pub memory_space: Hid,
    /// Selection in the dataset.
    pub file_space: Hid,
    /// Data transfer property list.
    pub dxpl: Hid,
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdf5_sys::h5::H5open;

    #[test]
    fn functions_that_a_table_lacks_are_those_of_its_library() {
        let open = (c"H5open", H5open as *mut c_void);
        // SAFETY: the one libhdf5 of this program.
        let of = |table: &[(&CStr, *mut c_void)]| unsafe { Library::of_table(table) };
        assert!(of(&[open]).is_ok());
        for (table, missing) in [
            // A null address marks a function that the program's libhdf5 lacks.
            (&[open, (c"H5Dwrite", std::ptr::null_mut())][..], "the HDF5 function H5Dwrite was not found"),
            (&[], "the HDF5 function H5get_libversion was not found"),
        ] {
            let error = of(table).err().expect("a function is missing");
            assert!(error.context().starts_with(missing), "{error}");
        }
    }

    #[test]
    fn the_process_supplies_functions_of_the_same_library_only() {
        let (open, elsewhere) = ((c"H5open", H5open as *mut c_void), (c"H5open", in_process as *mut c_void));
        assert_eq!(in_process(&[elsewhere, open], c"H5Dwrite"), dl::shared_function(c"H5Dwrite"));
        assert!(in_process(&[open], c"H5Dwrite").is_some() && in_process(&[open], c"H5Dnothing").is_none());
        assert!(in_process(&[elsewhere], c"H5Dwrite").is_none() && in_process(&[], c"H5Dwrite").is_none());
    }

    #[test]
    fn shared_functions_are_not_looked_up_in_the_programs_file() {
        assert!(dl::shared_function(c"H5open").is_some() && dl::static_function(c"H5open").is_none());
        // SAFETY: the one libhdf5 of this program.
        assert!(unsafe { Library::of_program() }.is_ok());
    }
}

//! Finds the libhdf5 that called the plugin.
//!
//! The plugin must not link libhdf5. A process may contain several: the wheels of h5py, netCDF4 and
//! tables each bring one. They need not be visible to each other, and an id of one means nothing,
//! or something else, in another. So every callback passes its return address. The object that
//! contains this address is the calling library. The functions are looked up there, once per
//! object.

#![allow(unsafe_code)] // dladdr and dlsym

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::mem::MaybeUninit;

use elf::ElfBytes;
use elf::abi::PT_LOAD;
use elf::endian::NativeEndian;
use once_cell::race::OnceBox;

use super::api::Api;

/// The libhdf5 whose code contains `address`; `None` if its functions cannot be found.
///
/// A library that was found stays loaded. A library whose functions are not found may be unloaded,
/// and another may be loaded at its address. So a failure is remembered only for the main program.
pub fn calling_library(address: *const c_void) -> Option<&'static Api> {
    /// An append-only list: no lock that a fork could leave locked.
    struct Known {
        base: usize,
        api: Option<Api>,
        next: OnceBox<Known>,
    }
    static KNOWN: OnceBox<Known> = OnceBox::new();

    let object = Object::containing(address)?;
    let mut list = &KNOWN;
    while let Some(known) = list.get() {
        if known.base == object.base as usize {
            return known.api.as_ref();
        }
        list = &known.next;
    }
    let api = object.resolve();
    if api.is_none() && !object.is_main_program() {
        return None;
    }
    let mut new = Box::new(Known { base: object.base as usize, api, next: OnceBox::new() });
    // Meanwhile another thread may have appended an entry, perhaps for this very object.
    while let Err(back) = list.set(new) {
        let known = list.get()?;
        if known.base == object.base as usize {
            return known.api.as_ref();
        }
        (new, list) = (back, &known.next);
    }
    list.get()?.api.as_ref()
}

/// A loaded executable or library.
struct Object {
    base: *mut c_void,
    path: &'static CStr,
}

impl Object {
    fn containing(address: *const c_void) -> Option<Self> {
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: dladdr takes any address and fills `info` if it returns non-zero.
        let info = unsafe { (libc::dladdr(address, info.as_mut_ptr()) != 0).then(|| info.assume_init()) }?;
        if info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: a string of the dynamic linker, valid as long as the object. The address is that
        // of a function that calls us or that we may call. So the object outlives this value, which
        // is used within that call only.
        let path = unsafe { CStr::from_ptr(info.dli_fname) };
        Some(Self { base: info.dli_fbase, path })
    }

    fn resolve(&self) -> Option<Api> {
        let handle = self.handle();
        if !handle.is_null() {
            // SAFETY: a valid handle. `exported` accepts only symbols of the calling object. That
            // object is a libhdf5, since it has called our callback.
            let api = unsafe { Api::resolve(&|name| self.exported(handle, name)) };
            if let Ok(api) = api {
                return Some(api);
            }
        }
        // A program with a statically linked libhdf5, unless its symbols were stripped.
        let symbols = self.is_main_program().then(StaticSymbols::of_program).flatten()?;
        // SAFETY: the addresses are those of the calling program's own symbols.
        unsafe { Api::resolve(&|name| symbols.find(name)) }.ok()
    }

    /// A handle that is never closed, so the object stays loaded; null if the dynamic loader does
    /// not know its name.
    fn handle(&self) -> *mut c_void {
        // The main program has no name for the dynamic linker. Its symbols are visible if it
        // exports them.
        let name = if self.is_main_program() { std::ptr::null() } else { self.path.as_ptr() };
        // SAFETY: null or a string. RTLD_NOLOAD only increments the reference count of a loaded
        // object.
        unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) }
    }

    fn is_main_program(&self) -> bool {
        // SAFETY: takes any number.
        let program_headers = unsafe { libc::getauxval(libc::AT_PHDR) };
        let main = Object::containing(program_headers as *const c_void);
        main.is_some_and(|main| main.base == self.base)
    }

    /// The address of a symbol that this object itself exports, not one of its dependencies.
    fn exported(&self, handle: *mut c_void, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: a valid handle and a string.
        let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
        let owner = Object::containing(address)?;
        (!address.is_null() && owner.base == self.base).then_some(address)
    }
}

/// The address of a function that is visible to the whole process.
pub(super) fn shared_function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a string.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// The address of a function that is statically linked into the program.
pub(super) fn static_function(name: &CStr) -> Option<*mut c_void> {
    StaticSymbols::of_program()?.find(name)
}

/// The address of a function in the same library or program as the function at `beside`.
pub(super) fn function_beside(beside: *const c_void, name: &CStr) -> Option<*mut c_void> {
    let object = Object::containing(beside)?;
    let handle = object.handle();
    let exported = (!handle.is_null()).then(|| object.exported(handle, name)).flatten();
    exported.or_else(|| if object.is_main_program() { static_function(name) } else { None })
}

/// Symbols of HDF5 in the running program's own file, which is read once per process.
struct StaticSymbols(HashMap<CString, usize>);

impl StaticSymbols {
    fn of_program() -> Option<&'static Self> {
        static SYMBOLS: OnceBox<Option<StaticSymbols>> = OnceBox::new();
        let read = || {
            // SAFETY: takes any number.
            let program_headers = unsafe { libc::getauxval(libc::AT_PHDR) };
            Object::containing(program_headers as *const c_void).and_then(|main| Self::read(&main))
        };
        SYMBOLS.get_or_init(|| Box::new(read())).as_ref()
    }

    fn read(main_program: &Object) -> Option<Self> {
        // Not the dynamic linker's path: that is whatever name the program was started with.
        let file = std::fs::read("/proc/self/exe").ok()?;
        let elf = ElfBytes::<NativeEndian>::minimal_parse(&file).ok()?;
        let first = elf.segments()?.iter().filter(|segment| segment.p_type == PT_LOAD).map(|s| s.p_vaddr).min()?;
        let bias = (main_program.base as usize).wrapping_sub((first & !0xfff) as usize);
        let (symbols, names) = elf.symbol_table().ok()??;
        let defined = symbols.iter().filter(|symbol| symbol.st_value != 0 && !symbol.is_undefined());
        let of_hdf5 = defined.filter_map(|symbol| {
            let name = names.get_raw(symbol.st_name as usize).ok().filter(|name| name.starts_with(b"H5"))?;
            Some((CString::new(name).ok()?, bias.wrapping_add(symbol.st_value as usize)))
        });
        // If several symbols have one name, the first counts, as in a search from the start.
        let mut addresses = HashMap::new();
        of_hdf5.for_each(|(name, address)| {
            addresses.entry(name).or_insert(address);
        });
        Some(Self(addresses))
    }

    fn find(&self, name: &CStr) -> Option<*mut c_void> {
        self.0.get(name).map(|&address| std::ptr::with_exposed_provenance_mut(address))
    }
}

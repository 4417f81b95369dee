//! Functions of a libhdf5 that the filter needs: filters, datatypes, dataspaces, fill values, and
//! the error stack.
#![allow(unsafe_code)] // calls into libhdf5

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;

use super::abi::{self, Hid};
use super::functions::{Find, functions};

functions! {
    /// Functions that gridz needs from every libhdf5.
    struct Base {
        get_libversion: "H5get_libversion" fn(*mut c_uint, *mut c_uint, *mut c_uint) -> c_int;
        get_nfilters: "H5Pget_nfilters" fn(Hid) -> c_int;
        get_filter: "H5Pget_filter2" fn(Hid, c_uint, *mut c_uint, *mut usize, *mut c_uint, usize, *mut c_char, *mut c_uint) -> c_int;
        modify_filter: "H5Pmodify_filter" fn(Hid, c_int, c_uint, usize, *const c_uint) -> c_int;
        get_class: "H5Tget_class" fn(Hid) -> c_int;
        get_size: "H5Tget_size" fn(Hid) -> usize;
        get_order: "H5Tget_order" fn(Hid) -> c_int;
        get_sign: "H5Tget_sign" fn(Hid) -> c_int;
        get_precision: "H5Tget_precision" fn(Hid) -> usize;
        get_super: "H5Tget_super" fn(Hid) -> Hid;
        get_array_ndims: "H5Tget_array_ndims" fn(Hid) -> c_int;
        get_array_dims: "H5Tget_array_dims2" fn(Hid, *mut u64) -> c_int;
        close_type: "H5Tclose" fn(Hid) -> c_int;
        get_ndims: "H5Sget_simple_extent_ndims" fn(Hid) -> c_int;
        get_dims: "H5Sget_simple_extent_dims" fn(Hid, *mut u64, *mut u64) -> c_int;
    }
}

/// Functions of one libhdf5, which stays loaded once they are known.
pub struct Api {
    base: Base,
    errors: Option<Errors>,
    floats: Option<Floats>,
    members: Option<Members>,
    fills: Option<Fills>,
}

impl Api {
    /// Resolves the functions if `find` knows the addresses of all required ones.
    ///
    /// # Errors
    /// The name of the first function that is missing.
    ///
    /// # Safety
    /// `find` must return the address of the named symbol of one initialized libhdf5.
    pub(super) unsafe fn resolve(find: &Find) -> std::result::Result<Self, &'static CStr> {
        // SAFETY: our caller's promise about `find`.
        let base = unsafe { Base::resolve(find)? };
        // SAFETY: the caller's promise.
        let (errors, floats) = unsafe { (Errors::resolve(find), Floats::resolve(find).ok()) };
        // SAFETY: the caller's promise.
        let (members, fills) = unsafe { (Members::resolve(find).ok(), Fills::resolve(find).ok()) };
        let api = Self { base, errors, floats, members, fills };
        // Before 1.10 ids had 32 bits.
        if api.version() >= (1, 10) { Ok(api) } else { Err(c"a libhdf5 of 1.10 or later") }
    }
}

/// `H5Epush2`.
type PushFn =
    unsafe extern "C" fn(Hid, *const c_char, *const c_char, c_uint, Hid, Hid, Hid, *const c_char, ...) -> c_int;

/// `H5Eget_auto2`. The second argument points to the address of a function.
type GetAutoFn = unsafe extern "C" fn(Hid, *mut *mut c_void, *mut *mut c_void) -> c_int;

functions! {
    /// Functions that distinguish float formats. Programs with a static libhdf5 contain them only
    /// if they use them.
    struct Floats {
        get_fields: "H5Tget_fields" fn(Hid, *mut usize, *mut usize, *mut usize, *mut usize, *mut usize) -> c_int;
        get_ebias: "H5Tget_ebias" fn(Hid) -> usize;
    }
}

functions! {
    /// Functions that describe compounds. Programs with a static libhdf5 contain them only if they use
    /// them.
    struct Members {
        get_nmembers: "H5Tget_nmembers" fn(Hid) -> c_int;
        get_member_index: "H5Tget_member_index" fn(Hid, *const c_char) -> c_int;
        get_member_offset: "H5Tget_member_offset" fn(Hid, c_uint) -> usize;
        get_member_type: "H5Tget_member_type" fn(Hid, c_uint) -> Hid;
    }
}

functions! {
    /// Functions that read fill values. Programs with a static libhdf5 may lack them, but most have
    /// them, because they are in the same object files as the functions that set chunk extents.
    struct Fills {
        is_defined: "H5Pfill_value_defined" fn(Hid, *mut c_int) -> c_int;
        get: "H5Pget_fill_value" fn(Hid, Hid, *mut c_void) -> c_int;
    }
}

/// The two callbacks that can report to the error stack.
#[derive(Debug, Clone, Copy)]
pub enum Callback {
    /// `can_apply`.
    CanApply,
    /// `set_local`.
    SetLocal,
}

/// A variable of libhdf5 that holds an id. libhdf5 sets it when it initializes; here it is only
/// read. A program that uses the variable itself may have a copy that is set instead; this one then
/// stays negative.
#[derive(Clone, Copy)]
struct IdVariable(*const Hid);

// SAFETY: points to a variable that does not change while callbacks run.
unsafe impl Sync for IdVariable {}
// SAFETY: the same.
unsafe impl Send for IdVariable {}

impl IdVariable {
    fn get(self) -> Option<Hid> {
        // SAFETY: a variable of a loaded libhdf5.
        Some(unsafe { self.0.read() }).filter(|&id| id > 0)
    }
}

/// The error stack of a libhdf5.
struct Errors {
    push: PushFn,
    get_auto: Option<GetAutoFn>,
    class: IdVariable,
    major: IdVariable,
    can_apply: IdVariable,
    set_local: IdVariable,
}

impl Errors {
    /// # Safety
    /// As for [`Api::resolve`].
    unsafe fn resolve(find: &Find) -> Option<Self> {
        let push = find(c"H5Epush2")?;
        let id = |name| find(name).map(|address| IdVariable(address.cast_const().cast()));
        Some(Self {
            // SAFETY: the address is that of H5Epush2.
            push: unsafe { std::mem::transmute::<*mut c_void, PushFn>(push) },
            // SAFETY: the address is that of H5Eget_auto2.
            get_auto: find(c"H5Eget_auto2")
                .map(|address| unsafe { std::mem::transmute::<*mut c_void, GetAutoFn>(address) }),
            class: id(c"H5E_ERR_CLS_g")?,
            major: id(c"H5E_PLINE_g")?,
            can_apply: id(c"H5E_CANAPPLY_g")?,
            set_local: id(c"H5E_SETLOCAL_g")?,
        })
    }
}

/// Bit fields of a binary float.
#[derive(Debug, PartialEq, Eq)]
pub struct FloatFields {
    /// Position of the sign bit.
    pub sign: usize,
    /// Position and width of the exponent.
    pub exponent: (usize, usize),
    /// Position and width of the mantissa.
    pub mantissa: (usize, usize),
    /// Exponent bias.
    pub bias: usize,
}

/// One filter of a pipeline.
pub struct PipelineEntry {
    /// Number of the filter.
    pub id: c_int,
    /// Flags of the filter.
    pub flags: c_uint,
    /// cd_values of the filter; the first 256 if there are more.
    pub values: Vec<u32>,
    /// Total number of cd_values.
    pub n_values: usize,
}

/// An open id of HDF5; closed when dropped.
pub struct Owned<'l> {
    id: Hid,
    close: unsafe extern "C" fn(Hid) -> c_int,
    of: PhantomData<&'l ()>,
}

impl Owned<'_> {
    /// Takes the ownership of a valid id.
    ///
    /// # Safety
    /// `close` is the function of the id's libhdf5 that closes such ids. It stays loaded for the
    /// lifetime of the value, and nothing else closes the id.
    pub(super) unsafe fn new(id: Hid, close: unsafe extern "C" fn(Hid) -> c_int) -> Self {
        Self { id, close, of: PhantomData }
    }

    /// The id.
    pub fn id(&self) -> Hid {
        self.id
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: an id of the library that `close` belongs to; closed once.
        unsafe { (self.close)(self.id) };
    }
}

/// Calls into the calling library. Ids may be invalid: libhdf5 checks them and returns an error,
/// which becomes `None`.
impl Api {
    /// Major and minor version.
    pub fn version(&self) -> (c_uint, c_uint) {
        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: three valid pointers.
        unsafe { (self.base.get_libversion)(&mut major, &mut minor, &mut release) };
        (major, minor)
    }

    /// The filters of a dataset creation property list, in the order of writing.
    pub fn pipeline(&self, dcpl: Hid) -> Option<Vec<PipelineEntry>> {
        // SAFETY: takes any id.
        let n = unsafe { (self.base.get_nfilters)(dcpl) };
        let n = c_uint::try_from(n).ok()?;
        (0..n)
            .map(|i| {
                let (mut flags, mut config, mut n_values) = (0, 0, 256);
                let mut values = vec![0; n_values];
                // SAFETY: `values` has room for `n_values` words; a name of no bytes needs no
                // memory.
                let id = unsafe {
                    let (values, name) = (values.as_mut_ptr(), std::ptr::null_mut());
                    (self.base.get_filter)(dcpl, i, &mut flags, &mut n_values, values, 0, name, &mut config)
                };
                values.truncate(n_values);
                (id >= 0).then_some(PipelineEntry { id, flags, values, n_values })
            })
            .collect()
    }

    /// Replaces the cd_values of the first filter `id`.
    pub fn set_filter_values(&self, dcpl: Hid, id: c_int, flags: c_uint, values: &[u32]) -> Option<()> {
        // SAFETY: pointer and count of one slice.
        ok(unsafe { (self.base.modify_filter)(dcpl, id, flags, values.len(), values.as_ptr()) })
    }

    /// Extents of a dataspace.
    pub fn extents(&self, space: Hid) -> Option<Vec<u64>> {
        // SAFETY: takes any id.
        let rank = usize::try_from(unsafe { (self.base.get_ndims)(space) }).ok()?;
        let mut dims = [0; abi::MAX_RANK];
        let dims = dims.get_mut(..rank)?;
        // SAFETY: room for the rank just asked for; the second list may be null.
        ok(unsafe { (self.base.get_dims)(space, dims.as_mut_ptr(), std::ptr::null_mut()) })?;
        Some(dims.to_vec())
    }

    /// Class of a datatype.
    pub fn class(&self, dtype: Hid) -> Option<c_int> {
        // SAFETY: takes any id.
        Some(unsafe { (self.base.get_class)(dtype) }).filter(|&class| class >= 0)
    }

    /// Bytes of a datatype.
    pub fn size(&self, dtype: Hid) -> Option<usize> {
        // SAFETY: takes any id.
        Some(unsafe { (self.base.get_size)(dtype) }).filter(|&size| size > 0)
    }

    /// Byte order of a datatype.
    pub fn order(&self, dtype: Hid) -> Option<c_int> {
        // SAFETY: takes any id.
        Some(unsafe { (self.base.get_order)(dtype) }).filter(|&order| order >= 0)
    }

    /// Whether an integer type is signed.
    pub fn is_signed(&self, dtype: Hid) -> Option<bool> {
        // SAFETY: takes any id.
        match unsafe { (self.base.get_sign)(dtype) } {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Significant bits of a numeric type.
    pub fn precision(&self, dtype: Hid) -> Option<usize> {
        // SAFETY: takes any id.
        Some(unsafe { (self.base.get_precision)(dtype) }).filter(|&bits| bits > 0)
    }

    /// Bit fields of a float type; `None` where the program does not have the functions.
    pub fn float_fields(&self, dtype: Hid) -> Option<FloatFields> {
        let floats = self.floats.as_ref()?;
        let [mut sign, mut e_at, mut e_bits, mut m_at, mut m_bits] = [0; 5];
        // SAFETY: five valid pointers.
        ok(unsafe { (floats.get_fields)(dtype, &mut sign, &mut e_at, &mut e_bits, &mut m_at, &mut m_bits) })?;
        // SAFETY: takes any id.
        let bias = unsafe { (floats.get_ebias)(dtype) };
        Some(FloatFields { sign, exponent: (e_at, e_bits), mantissa: (m_at, m_bits), bias })
    }

    /// The types of two members, if a compound consists of these, with these names and offsets. `None`
    /// also where the program does not have the functions.
    pub fn two_members(&self, compound: Hid, members: [(&CStr, usize); 2]) -> Option<[Owned<'_>; 2]> {
        let functions = self.members.as_ref()?;
        // SAFETY: takes any id.
        if unsafe { (functions.get_nmembers)(compound) } != 2 {
            return None;
        }
        let [first, second] = members.map(|(name, offset)| {
            // SAFETY: takes any id, and a string.
            let index = unsafe { (functions.get_member_index)(compound, name.as_ptr()) };
            let index = c_uint::try_from(index).ok()?;
            // SAFETY: a member of the compound.
            if unsafe { (functions.get_member_offset)(compound, index) } != offset {
                return None;
            }
            // SAFETY: a member of the compound; the result is a new id or negative.
            let id = unsafe { (functions.get_member_type)(compound, index) };
            // SAFETY: a new datatype of this library.
            (id >= 0).then(|| unsafe { Owned::new(id, self.base.close_type) })
        });
        Some([first?, second?])
    }

    /// Whether the user has set a fill value in a dataset creation property list. `None` if this is
    /// unknown, also because the program lacks the function.
    pub fn has_fill(&self, dcpl: Hid) -> Option<bool> {
        let mut status = 0;
        // SAFETY: takes any id, and a valid pointer for the result.
        ok(unsafe { (self.fills.as_ref()?.is_defined)(dcpl, &mut status) })?;
        Some(status == abi::FILL_USER_DEFINED)
    }

    /// Writes that fill value, as an element of datatype `dtype`, to the start of `element`.
    pub fn read_fill(&self, dcpl: Hid, dtype: Hid, element: &mut [u8]) -> Option<()> {
        let get = self.fills.as_ref()?.get;
        let is_long_enough = self.size(dtype)? <= element.len();
        // SAFETY: takes any ids; `element` has room for an element of the type.
        ok(is_long_enough.then(|| unsafe { get(dcpl, dtype, element.as_mut_ptr().cast()) })?)
    }

    /// Base type of an array, complex, enumeration or variable-length type.
    pub fn base(&self, dtype: Hid) -> Option<Owned<'_>> {
        // SAFETY: takes any id; the result is a new id or negative.
        let id = unsafe { (self.base.get_super)(dtype) };
        // SAFETY: a new datatype of this library.
        (id >= 0).then(|| unsafe { Owned::new(id, self.base.close_type) })
    }

    /// Extents of an array type.
    pub fn array_extents(&self, dtype: Hid) -> Option<Vec<u64>> {
        // SAFETY: takes any id.
        let rank = usize::try_from(unsafe { (self.base.get_array_ndims)(dtype) }).ok()?;
        let mut dims = [0; abi::MAX_RANK];
        let dims = dims.get_mut(..rank)?;
        // SAFETY: room for the rank just asked for.
        ok(unsafe { (self.base.get_array_dims)(dtype, dims.as_mut_ptr()) })?;
        Some(dims.to_vec())
    }

    /// Whether libhdf5 prints its error stack when a call fails. It does unless the program turns
    /// this off.
    pub fn shows_errors(&self) -> bool {
        let Some(get_auto) = self.errors.as_ref().and_then(|errors| errors.get_auto) else { return false };
        let (mut function, mut data) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: valid pointers to two addresses.
        let asked = unsafe { get_auto(abi::DEFAULT_STACK, &mut function, &mut data) };
        asked >= 0 && !function.is_null()
    }

    /// Pushes `text` on the error stack as an error of `callback`. `None` if that is impossible.
    pub fn push_error(&self, callback: Callback, text: &CStr) -> Option<()> {
        let errors = self.errors.as_ref()?;
        let (function, minor) = match callback {
            Callback::CanApply => (c"can_apply", errors.can_apply),
            Callback::SetLocal => (c"set_local", errors.set_local),
        };
        let (class, major, minor) = (errors.class.get()?, errors.major.get()?, minor.get()?);
        let (file, function, line) = (c"gridz".as_ptr(), function.as_ptr(), 0);
        // SAFETY: ids of this library, and strings that end in NUL. The format takes exactly one
        // string.
        ok(unsafe {
            (errors.push)(
                abi::DEFAULT_STACK,
                file,
                function,
                line,
                class,
                major,
                minor,
                c"%s".as_ptr(),
                text.as_ptr(),
            )
        })
    }
}

/// Whether a function of libhdf5 succeeded.
pub(super) fn ok(status: c_int) -> Option<()> {
    (status >= 0).then_some(())
}

#[cfg(test)]
impl Api {
    /// The functions of the libhdf5 that this program is linked with, without those for fill
    /// values.
    pub fn without_fills() -> Self {
        let find = |name: &CStr| {
            let is_there = !name.to_bytes().windows(4).any(|part| part == b"fill");
            // SAFETY: a string.
            let address = is_there.then(|| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
            address.filter(|address| !address.is_null())
        };
        // SAFETY: the addresses are those of the one libhdf5 of this program.
        unsafe { Self::resolve(&find) }.map_err(CStr::to_owned).expect("libhdf5")
    }
}

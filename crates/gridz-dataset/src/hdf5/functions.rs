//! Resolves functions of libhdf5 by name. gridz does not link libhdf5 and uses the program's own.
#![allow(unsafe_code)] // addresses become functions

use std::ffi::{CStr, c_void};

/// Finds the address of a function.
pub(super) type Find<'a> = dyn Fn(&CStr) -> Option<*mut c_void> + 'a;

/// Declares a struct of functions, each with its name in libhdf5, and a method that resolves all of
/// them.
macro_rules! functions {
    ($(#[$doc:meta])* struct $name:ident { $($field:ident: $symbol:literal fn($($arg:ty),*) -> $ret:ty;)* }) => {
        $(#[$doc])*
        pub(super) struct $name {
            $(pub(super) $field: unsafe extern "C" fn($($arg),*) -> $ret,)*
        }

        impl $name {
            /// # Errors
            /// The name of the first function that is missing.
            ///
            /// # Safety
            /// `find` must return the address of the named symbol of one initialized libhdf5.
            pub(super) unsafe fn resolve(find: &$crate::hdf5::functions::Find) -> std::result::Result<Self, &'static std::ffi::CStr> {
                $(
                    let name = const { match std::ffi::CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a symbol name"),
                    }};
                    // SAFETY: the address is that of the function of this name. libhdf5 documents
                    // its type and never changes it.
                    let $field = unsafe {
                        std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($arg),*) -> $ret>(
                            find(name).ok_or(name)?,
                        )
                    };
                )*
                Ok(Self { $($field,)* })
            }
        }
    };
}
pub(super) use functions;

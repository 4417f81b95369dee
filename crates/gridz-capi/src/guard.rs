//! Guards of the C functions: they stop every panic and keep the text of every error.

use std::ffi::{CStr, c_char};

use crate::status::{GRIDZ_OK, gridz_status};
use gridz_codecs::error::{Result, guarded, set_last};
use gridz_codecs::settings;

/// Runs the body of a C function. An invalid environment variable fails every call: a C caller sees
/// the error, and silently using a default would not do as the user asked.
pub fn guard(body: impl FnOnce() -> Result<()>) -> gridz_status {
    match guarded(|| settings::checked().and_then(|_| body())) {
        Ok(()) => GRIDZ_OK,
        Err(error) => {
            set_last(&error);
            error.kind().status()
        }
    }
}

/// Runs the body of a C function that cannot fail. Returns `otherwise` after a defect of gridz.
pub fn guard_or<R>(otherwise: R, body: impl FnOnce() -> R) -> R {
    guarded(|| Ok(body())).unwrap_or_else(|error| {
        set_last(&error);
        otherwise
    })
}

/// Like [`guard`], for a C function that returns a size: 0 after an error.
pub fn guard_size(body: impl FnOnce() -> Result<usize>) -> usize {
    guarded(|| settings::checked().and_then(|_| body())).unwrap_or_else(|error| {
        set_last(&error);
        0
    })
}

/// Like [`guard_or`], for a body that returns a text.
pub fn guard_text(body: impl FnOnce() -> *const c_char) -> *const c_char {
    const NONE: &CStr = c"";
    guard_or(NONE.as_ptr(), body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{GRIDZ_ERROR_CORRUPT, GRIDZ_ERROR_INTERNAL};
    use gridz_codecs::error::{Error, with_last};

    #[test]
    fn errors_and_panics_become_a_status_and_a_text() {
        assert_eq!(guard(|| Ok(())), GRIDZ_OK);
        assert_eq!(guard(|| Err(Error::corrupt("bad block"))), GRIDZ_ERROR_CORRUPT);
        with_last(|text| assert_eq!(text, c"bad block"));
        assert_eq!(guard(|| panic!("odd")), GRIDZ_ERROR_INTERNAL);
        with_last(|text| assert!(text.to_str().unwrap().ends_with("odd")));
        assert_eq!(guard_or(7, || panic!("odd")), 7);
        assert_eq!((guard_size(|| Ok(5)), guard_size(|| panic!("odd"))), (5, 0));
    }
}

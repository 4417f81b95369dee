//! Checks a decoded array against the guarantee of its request.

use gridz::{Array, Context, Mode, Request};
use gridz_quality::Bound;

/// Fails if the arrays differ in a lossless mode, or if an element is not within the request's
/// bound. In modes without an error bound, it checks only the elements that no codec may change:
/// missing elements, NaN and infinities.
pub fn check(
    array: &Array,
    original: &[u8],
    decoded: &[u8],
    request: &Request,
) -> Result<(), Box<dyn std::error::Error>> {
    if original == decoded {
        return Ok(());
    }
    if request.mode() != Mode::Lossless {
        let bound = match request.mode() {
            mode @ (Mode::Abs | Mode::Rel | Mode::Pwrel) => Bound::new(mode, request.value())?,
            _ => Bound::None,
        };
        let missing = request.missing_elements(array)?;
        let report = gridz_quality::compare(array, original, decoded, bound, &missing, &Context::new(None, None)?)?;
        let mismatches = report.fill_mismatches + report.nan_mismatches + report.infinity_mismatches;
        if mismatches == 0 && (bound == Bound::None || report.error_over_bound <= 1.0) {
            return Ok(());
        }
    }
    Err("the decompressed data differs from the original".into())
}

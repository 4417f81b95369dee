//! Whether what came back is what was asked for.

use gridz::{Array, Context, Mode, Request};
use gridz_quality::Bound;

/// Fails if it is not the same or, where the request has a bound, an element is not within that. Of modes that bound no
/// error it is what no codec may change that is looked at: missing elements, NaN and infinities.
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
    Err("the data came back different".into())
}

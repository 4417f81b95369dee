//! ndzip's choices: which arrays it accepts and how it folds them. It stores no parameters.

use crate::codec::ndzip::layout::Layout;
use crate::codec::{CodecState, Decision, Params, Plan};
use crate::format::fold::Fold;
use crate::types::{Array, DType};

/// Maximum number of axes that the codec distinguishes.
pub const MAX_RANK: usize = 3;

/// The plan for `array`. Arrays that are not floats, or too large for the 32-bit offset table, are
/// stored.
pub fn plan(array: &Array) -> Decision {
    if !matches!(array.dtype(), DType::F32 | DType::F64) {
        return Decision::Store;
    }
    let layout = |fold: Fold| Layout::new(&fold.apply(array.shape(), MAX_RANK), array.dtype());
    // Blocks are complete hypercubes only. An array too thin for any block in its own rank may
    // still have some if it is treated as one axis.
    let chosen = match layout(Fold::Merge) {
        Some(merged) if merged.n_blocks() == 0 => layout(Fold::Flat).map(|flat| (Fold::Flat, flat)),
        merged => merged.map(|merged| (Fold::Merge, merged)),
    };
    match chosen {
        Some((fold, layout)) => {
            let (params, bound) = (Params::NONE, layout.payload_bound());
            Decision::Take(Plan { fold, params, bound, layout: CodecState::new(layout) })
        }
        None => Decision::Store,
    }
}

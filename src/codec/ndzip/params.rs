//! ndzip's choices: which arrays it takes and how they are folded. It has no stored parameters.

use crate::codec::Plan;
use crate::codec::ndzip::layout::Layout;
use crate::format::fold::Fold;
use crate::types::{Array, DType};

/// Most axes the codec looks along.
pub const MAX_RANK: usize = 3;

/// The plan for `array`, or `None` if its elements are no floats or it is too large for the 32-bit
/// offset table.
pub fn plan(array: &Array) -> Option<Plan> {
    if !matches!(array.dtype(), DType::F32 | DType::F64) {
        return None;
    }
    let layout = |fold: Fold| Layout::new(&fold.apply(array.shape(), MAX_RANK), array.dtype());
    // Blocks cover only complete hypercubes. An array too thin for any in its own rank may still have
    // some when seen as one axis.
    let merged = layout(Fold::Merge)?;
    let (fold, layout) =
        if merged.n_blocks() == 0 { (Fold::Flat, layout(Fold::Flat)?) } else { (Fold::Merge, merged) };
    Some(Plan { fold, params: Vec::new(), bound: layout.payload_bound() })
}

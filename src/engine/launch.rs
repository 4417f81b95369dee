//! Which kernel makes or reads the frames of which arrays.

use crate::codec::form::FrameForm;
use crate::codec::gpu::{Direction, Frames, Kernel, Launch};
use crate::codec::registry::Entry;
use crate::cuda::Device;
use crate::engine::{STORED, Spec, Verify, codec_shape, entry_of, header_of, is_swapped, stored};
use crate::error::Result;
use crate::format::fold::Fold;
use crate::format::header::Header;
use crate::types::Array;

/// A kernel for chunks of one type and shape, and what their frames have in common.
pub struct Plan {
    kernel: Kernel,
    direction: Direction,
    pub frames: Frames,
    /// What the addresses of arrays are multiples of.
    pub alignment: u64,
}

impl Plan {
    /// To compress by `spec`, or to decompress what that makes of such arrays. `None`: the codec has no
    /// kernels for that.
    pub fn by_spec(direction: Direction, array: &Array, spec: &Spec, verify: Verify) -> Option<Self> {
        let planned = spec.entry.codec.plan(array, spec.level);
        let takes = |params: &[u8]| spec.entry.gpu.is_some_and(|codec| codec.takes(direction, params));
        if planned.as_ref().is_some_and(|plan| !takes(&plan.params)) {
            return None;
        }
        let by_codec =
            planned.and_then(|plan| Self::new(direction, array, spec.entry, plan.fold, &plan.params, verify));
        by_codec.or_else(|| {
            let (entry, plan) = stored(array);
            Self::new(direction, array, entry, plan.fold, &plan.params, verify)
        })
    }

    /// To decompress frames that differ from that of `header` by their payload. `None`: there are no kernels
    /// for them, or nobody can have written them.
    pub fn of_header(header: &Header, verify: Verify) -> Option<Self> {
        let entry = entry_of(header).ok()?;
        Self::new(Direction::Decompress, &header.array, entry, header.fold, header.params, verify)
    }

    fn new(
        direction: Direction,
        array: &Array,
        entry: &Entry,
        fold: Fold,
        params: &[u8],
        verify: Verify,
    ) -> Option<Self> {
        let kernel = entry.gpu?.kernel(direction, array, &codec_shape(array, entry, fold), params)?;
        let encoded = FrameForm::new(&header_of(array, entry, fold, params));
        let stored = if entry.id == STORED {
            encoded
        } else {
            let (entry, plan) = stored(array);
            FrameForm::new(&header_of(array, entry, plan.fold, &plan.params))
        };
        let frames = Frames {
            encoded,
            stored,
            swap_bytes: is_swapped(array, entry),
            skip_checksum: verify == Verify::Structure,
        };
        let alignment = if entry.verbatim { 1 } else { u64::from(array.element_size()) };
        Some(Self { kernel, direction, frames, alignment })
    }

    /// Bytes that any sound frame has, and that decompression reads however long the frame is.
    pub fn least_frame_bytes(&self) -> u64 {
        u64::from(self.frames.encoded.n_bytes) + self.kernel.table_bytes
    }

    /// The kernel on `device`, for `n_chunks` arrays at `address`, or at several addresses combined by OR. What it
    /// needs as working memory does not depend on that.
    ///
    /// # Errors
    /// As [`Launch::new`].
    pub fn launch(&self, device: &'static Device, n_chunks: u64, address: u64) -> Result<Launch> {
        Launch::new(device, &self.kernel, self.direction, n_chunks, address)
    }
}

//! What is known of a chunk before its data is looked at: decided once for each call, and carried through it.

use crate::frame::{self, FRAME_ALIGNMENT, stored_bytes};
use gridz_codecs::codec::registry::{self, Entry};
use gridz_codecs::codec::request::Request;
use gridz_codecs::codec::{CodecState, Decision, Params, Plan};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::format::fold::Fold;
use gridz_codecs::format::header::{FORMAT_VERSION, Header, header_bytes};
use gridz_codecs::types::{Array, ByteOrder, Shape};

/// Chunks of one type and shape, and how their frames are made or read: codec, fold, parameters, layout.
#[derive(Clone, Copy)]
pub struct Prepared {
    /// The array as its owner sees it.
    pub(super) array: Array,
    /// The codec, which is that of the frame: `stored` where the one that was asked for is not for such arrays.
    pub(super) entry: &'static Entry,
    pub(super) fold: Fold,
    pub(super) params: Params,
    /// The extents as the codec sees them.
    pub(super) shape: Shape,
    /// The codec's layout.
    pub(super) layout: CodecState,
    /// Most bytes of a frame while it is being made, rounded up to a multiple of [`FRAME_ALIGNMENT`]: what a kernel
    /// needs as destination.
    bound: u64,
}

impl Prepared {
    /// To compress arrays like `array` as `request` says.
    ///
    /// # Errors
    /// `InvalidArgument` if so many bytes cannot be addressed; what the codec refuses.
    pub fn new(array: &Array, request: &Request) -> Result<Self> {
        let prepared = match request.entry.codec.plan(array, &request.encode_params) {
            Decision::Take(plan) => Self::planned(array, request.entry, &plan),
            Decision::Store => Self::stored(array),
            Decision::Refuse(error) => return Err(error),
        };
        let bound = prepared.bound;
        isize::try_from(bound)
            .map_err(|_| Error::invalid(format!("a chunk of {bound} bytes cannot be addressed")))?;
        Ok(prepared)
    }

    /// To store arrays like `array`, which every array can be.
    pub(super) fn stored(array: &Array) -> Self {
        let (entry, plan) = registry::stored(array);
        Self::planned(array, entry, &plan)
    }

    fn planned(array: &Array, entry: &'static Entry, plan: &Plan) -> Self {
        let &Plan { fold, params, bound, layout } = plan;
        let shape = codec_shape(array, entry, fold);
        let bound = stored_bytes(array).max(header_bytes(array.shape().rank(), params.len()) as u64 + bound);
        // `new` refuses a bound that is too large.
        let bound = bound.checked_next_multiple_of(FRAME_ALIGNMENT).unwrap_or(bound);
        Self { array: *array, entry, fold, params, shape, layout, bound }
    }

    /// To read frames that differ from that of `header` by their payload.
    ///
    /// # Errors
    /// `UnsupportedFormat` for an unknown codec, `Corrupt` for a frame that nobody can have written.
    pub(super) fn of(header: &Header) -> Result<Self> {
        let entry = frame::entry_of(header)?;
        let (array, fold) = (header.array, header.fold);
        let shape = codec_shape(&array, entry, fold);
        if header.codec_version != entry.codec.version(header.params) {
            let text = "the frame's parameters are not those of its version; a newer gridz may read this data";
            return Err(Error::new(ErrorKind::UnsupportedFormat, text));
        }
        // Other parameters than its own the codec refuses here.
        let layout = entry.codec.layout(array.dtype(), &shape, header.params)?;
        let params = Params::new(header.params);
        // Nobody asks how long such frames can be.
        Ok(Self { array, entry, fold, params, shape, layout, bound: 0 })
    }

    /// Bytes that the destination of such chunks needs: as [`compress_bound`](crate::compress_bound).
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// The header of such frames, without payload.
    pub(super) fn header(&self) -> Header<'_> {
        let Self { entry, fold, array, .. } = *self;
        let params = &self.params;
        let (codec, codec_version) = (entry.id, entry.codec.version(params));
        let format = entry.format_of(codec_version).unwrap_or(FORMAT_VERSION);
        Header { format, codec, codec_version, fold, array, params, payload_bytes: 0, payload_checksum: 0 }
    }

    /// Codecs see little-endian elements.
    pub(super) fn is_swapped(&self) -> bool {
        self.array.order() == ByteOrder::Big && !self.entry.verbatim
    }

    /// What kernels want the addresses of arrays to be a multiple of.
    pub(super) fn alignment(&self) -> u64 {
        if self.entry.verbatim { 1 } else { u64::from(self.array.element_size()) }
    }
}

/// The shape that a codec sees.
fn codec_shape(array: &Array, entry: &Entry, fold: Fold) -> Shape {
    if entry.verbatim { *array.shape() } else { fold.apply(array.shape(), entry.codec.max_rank()) }
}

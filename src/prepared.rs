//! Decisions about a chunk that do not depend on its data. They are computed once per call and
//! passed through it.

use crate::frame::{self, FRAME_ALIGNMENT, stored_bytes};
use gridz_codecs::codec::fold_choice::FoldChoice;
use gridz_codecs::codec::registry::{self, Entry};
use gridz_codecs::codec::request::Request;
use gridz_codecs::codec::{CodecState, Decision, EncodeParams, Params, Plan, Speeds};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::format::fold::Fold;
use gridz_codecs::format::header::{Header, header_bytes};
use gridz_codecs::types::{Array, ByteOrder, Shape};

/// Everything about chunks of one type and shape, and about their frames, that does not depend on
/// the data: codec, fold, parameters, layout.
#[derive(Clone, Copy)]
pub struct Prepared {
    /// The array in the caller's type and extents.
    pub(super) array: Array,
    /// The frame's codec: the requested one, or `stored` if that does not support the array.
    pub(super) entry: &'static Entry,
    pub(super) fold: Fold,
    pub(super) params: Params,
    /// The folded extents.
    pub(super) shape: Shape,
    pub(super) layout: CodecState,
    /// The other way to fold these arrays, which the data may suit better.
    other: Option<Folded>,
    /// Other parameters that frames of the same request may have.
    sibling: Option<Params>,
    /// The request, and the levels that a writer tries in addition to the requested one.
    fallbacks: (EncodeParams, &'static [u16]),
    /// Maximum size in bytes of a frame while it is being compressed, rounded up to a multiple of
    /// [`FRAME_ALIGNMENT`]: the size of a kernel's destination.
    bound: u64,
}

const NO_FALLBACKS: (EncodeParams, &[u16]) = (EncodeParams::lossless(0), &[]);

/// A way to fold an array.
#[derive(Clone, Copy)]
struct Folded {
    fold: Fold,
    shape: Shape,
    layout: CodecState,
}

impl Prepared {
    /// Prepares to compress arrays like `array` by `request`.
    ///
    /// # Errors
    /// `InvalidArgument` if that many bytes cannot be addressed; the codec's reason if it refuses
    /// the request.
    pub fn new(array: &Array, request: &Request) -> Result<Self> {
        let (entry, encode_params) = (request.entry, &request.encode_params);
        let mut prepared = match entry.codec.plan(array, encode_params) {
            Decision::Take(plan) => Self::planned(array, entry, &plan),
            Decision::Store => Self::stored(array),
            Decision::Refuse(error) => return Err(error),
        };
        if prepared.entry.id == entry.id {
            prepared.fallbacks = (*encode_params, entry.codec.fallback_levels(encode_params.level));
            let bounds = prepared.fallbacks().map(|fallback| fallback.bound);
            prepared.bound = bounds.fold(prepared.bound, u64::max);
        }
        let bound = prepared.bound;
        isize::try_from(bound)
            .map_err(|_| Error::invalid(format!("a frame of up to {bound} bytes exceeds the address space")))?;
        Ok(prepared)
    }

    /// Other ways to compress such arrays, which may give shorter frames. A way whose codec does
    /// not support the array is left out.
    pub(super) fn fallbacks(&self) -> impl Iterator<Item = Self> {
        let Self { array, entry, fallbacks: (request, levels), .. } = *self;
        levels.iter().filter_map(move |&level| match entry.codec.plan(&array, &request.at_level(level)) {
            Decision::Take(plan) => Some(Self::planned(&array, entry, &plan)),
            Decision::Store | Decision::Refuse(_) => None,
        })
    }

    /// The same with the other parameters that frames of the same request may have.
    pub(super) fn sibling(&self) -> Option<Self> {
        let params = self.sibling?;
        let layout = self.entry.codec.layout(self.array.dtype(), &self.shape, &params).ok()?;
        Some(Self { params, layout, ..*self }.with_variants())
    }

    /// Prepares to store arrays like `array`. Every array can be stored.
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
        let (other, sibling, fallbacks) = (None, None, NO_FALLBACKS);
        Self { array: *array, entry, fold, params, shape, layout, other, sibling, fallbacks, bound }.with_variants()
    }

    /// Prepares to read frames that differ from that of `header` only by their payload. With
    /// [`with_variants`](Self::with_variants), they may be any frames of the same request.
    ///
    /// # Errors
    /// `UnsupportedFormat` for an unknown codec, `Corrupt` for a frame that no encoder writes.
    pub(super) fn of(header: &Header) -> Result<Self> {
        let entry = frame::entry_of(header)?;
        let (array, fold) = (header.array, header.fold);
        let shape = codec_shape(&array, entry, fold);
        if header.codec_version != entry.codec.version(header.params) {
            let (name, version, params) = (entry.name, header.codec_version, header.params);
            let text = format!(
                "codec {name} version {version} does not have the frame's parameters {params:?}; a newer gridz may \
                 read this data"
            );
            return Err(Error::new(ErrorKind::UnsupportedFormat, text));
        }
        // The codec refuses parameters that are not its own.
        let layout = entry.codec.layout(array.dtype(), &shape, header.params)?;
        let params = Params::new(header.params);
        let (other, sibling, fallbacks) = (None, None, NO_FALLBACKS);
        // The bound is not needed for decoding.
        Ok(Self { array, entry, fold, params, shape, layout, other, sibling, fallbacks, bound: 0 })
    }

    /// Adds the other fold and the other parameters that frames of the same request may have.
    pub(super) fn with_variants(self) -> Self {
        let Self { array, entry, fold, params, .. } = &self;
        let other = entry.codec.alternative_fold(array.shape()).and_then(|alternative| {
            let fold = match *fold {
                Fold::Merge => alternative,
                fold if fold == alternative => Fold::Merge,
                _ => return None,
            };
            let shape = codec_shape(array, entry, fold);
            // A codec may have no room for the blocks of a fold.
            let layout = entry.codec.layout(array.dtype(), &shape, params).ok()?;
            Some(Folded { fold, shape, layout })
        });
        Self { other, sibling: entry.codec.sibling_params(params), ..self }
    }

    /// The same with the other fold, if there are two.
    pub(super) fn otherwise(&self) -> Option<Self> {
        let Self { fold, shape, layout, .. } = *self;
        self.other.map(|other| Self {
            fold: other.fold,
            shape: other.shape,
            layout: other.layout,
            other: Some(Folded { fold, shape, layout }),
            ..*self
        })
    }

    /// The comparison of both folds by the data, if there are two. It asks whether the alternative
    /// to [`Fold::Merge`] is better.
    pub(super) fn fold_choice(&self) -> Option<FoldChoice> {
        let alternative = if self.fold == Fold::Merge { self.other?.fold } else { self.fold };
        self.other.map(|_| FoldChoice::new(self.array.shape(), self.array.dtype().parts().1, alternative))
    }

    /// Number of bytes that the destination of such chunks needs, as
    /// [`compress_bound`](crate::compress_bound).
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// Speeds with such chunks.
    pub(super) fn speeds(&self) -> Speeds {
        self.entry.codec.speeds(&self.params)
    }

    /// The header of such frames, without the payload's fields.
    pub(super) fn header(&self) -> Header<'_> {
        let Self { entry, fold, array, .. } = *self;
        let params = &self.params;
        let (codec, codec_version) = (entry.id, entry.codec.version(params));
        Header { codec, codec_version, fold, array, params, payload_bytes: 0, payload_checksum: 0 }
    }

    /// True if the elements must be swapped: codecs see little-endian elements.
    pub(super) fn is_swapped(&self) -> bool {
        self.array.order() == ByteOrder::Big && !self.entry.verbatim
    }

    /// Alignment that kernels require for the addresses of arrays.
    pub(super) fn alignment(&self) -> u64 {
        if self.entry.verbatim { 1 } else { u64::from(self.array.element_size()) }
    }
}

fn codec_shape(array: &Array, entry: &Entry, fold: Fold) -> Shape {
    if entry.verbatim { *array.shape() } else { fold.apply(array.shape(), entry.codec.max_rank()) }
}

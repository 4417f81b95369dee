//! Launches a codec's passes on a GPU for a batch of chunks: arguments, grids, scratch memory.
#![allow(unsafe_code, reason = "starts kernels")]

use crate::backend::Attempt;
use crate::frame::Verify;
use crate::grid::{LaunchInfo, SCRATCH_ALIGNMENT, ScratchRange, grid_and_scratch};
use crate::header_template::HeaderTemplate;
use crate::kernel_args::{Tail, arguments};
use crate::kernels;
use crate::packing;
use crate::prepared::Prepared;
use gridz_codecs::codec::gpu::{self, Answer, Chunks, Direction, MOST_THEN, Pass, Passes, Rounds, Scratch};
use gridz_codecs::codec::registry::{Entry, STORED};
use gridz_codecs::error::{Error, Result};
use gridz_codecs::format::fold::Fold;
use gridz_codecs::format::region::Region;
use gridz_cuda::{Device, DeviceSlice, Function, Grid, KernelStruct, Stream};
use std::ops::Range;

/// Flag: the elements are big-endian.
const SWAP_BYTES: u32 = 1;
/// Flag: the payload's checksum is not compared.
const SKIP_CHECKSUM: u32 = 2;
/// Flags: only chunks with the fold of the flags; all chunks but those.
const ONLY_FOLD: u32 = 4;
const NOT_FOLD: u32 = 8;
/// The number of that fold is in the flags from this bit on.
const FOLD_SHIFT: u32 = 8;
/// Flags: only frames with a byte of parameters as in the flags; all frames but those.
const ONLY_PARAM: u32 = 16;
const NOT_PARAM: u32 = 32;
/// The byte, and its index in the parameters, are in the flags from these bits on.
const PARAM_SHIFT: u32 = 16;
const PARAM_INDEX_SHIFT: u32 = 24;

/// The memory of a batch on one GPU. Chunk and frame `i` are at `i` times their strides.
#[derive(Debug, Clone, Copy)]
pub struct LaunchMemory<'a> {
    /// Arrays, aligned to the codec's elements.
    pub arrays: DeviceSlice<'a>,
    /// Bytes from array to array.
    pub array_stride: u64,
    /// Slots for frames, aligned to `FRAME_ALIGNMENT`. Each has the compression bound, rounded up
    /// to that.
    pub frames: DeviceSlice<'a>,
    /// Bytes from slot to slot, a multiple of `FRAME_ALIGNMENT`.
    pub frame_stride: u64,
    /// Bytes of a slot, at least the passes' [`table_bytes`](Passes::table_bytes) and a header.
    /// Kernels read no more, whatever `frame_bytes` says.
    pub slot_bytes: u64,
    /// A u64 for the length of each frame: written by compression, read by decompression.
    pub frame_bytes: DeviceSlice<'a>,
    /// An i32 for the status of each frame, written by decompression; not used by compression.
    pub statuses: Option<DeviceSlice<'a>>,
}

/// The GPU's work for chunks of one type and shape: the codec's passes, and the common part of the
/// frames' headers.
pub struct GpuPlan {
    own: KindPlan,
    /// Compression: for other frames of the same chunks, which are taken if they are shorter.
    /// Decompression: for frames with the other parameters that the same request may give.
    variant: Option<KindPlan>,
    /// Required alignment of the arrays' addresses.
    pub alignment: u64,
}

/// The work for frames of one kind, of both folds.
struct KindPlan {
    direction: Direction,
    /// The choice between two folds, before compression.
    choice: Option<Passes>,
    first: FoldPlan,
    /// For chunks with the other fold, if there are two.
    second: Option<Box<FoldPlan>>,
    /// Bytes of a slot when compressing.
    slot_bytes: u64,
    /// Headers of the stored frames of chunks that do not shrink.
    stored: HeaderTemplate,
}

/// The work for chunks with one fold.
struct FoldPlan {
    passes: Passes,
    /// Headers of the codec's frames.
    encoded: HeaderTemplate,
    flags: u32,
    /// The region to decompress; `None`: whole arrays.
    region: Option<Box<gpu::Region>>,
}

impl GpuPlan {
    /// A plan that decompresses a region of such frames, or of stored frames of the same array.
    pub fn region(prepared: &Prepared, region: &Region, verify: Verify) -> Attempt<Self> {
        Self::with_variant(Direction::Decompress, prepared, verify, |prepared| {
            let Prepared { array, shape, layout, entry, fold, .. } = prepared;
            // The extents of verbatim data are not folded by the codec.
            let (fold, max_rank) = (if entry.verbatim { Fold::Merge } else { *fold }, entry.codec.max_rank());
            let folded = region.folded(fold, max_rank);
            let answer = match entry.gpu {
                Some(gpu) => gpu.region(&Chunks { array, shape, layout }, &folded, verify == Verify::Checksum),
                None => no_kernels(entry),
            };
            // Kernels see three axes, even if blocks have four.
            (answer, Some(Box::new(gpu::Region::from(&region.folded(fold, max_rank.min(3))))))
        })
        .unwrap_or_else(|| Attempt::Unsupported("a region is not compressed".into()))
    }

    /// A plan that compresses such chunks, or decompresses such frames and stored frames of the
    /// same array.
    pub fn new(direction: Direction, prepared: &Prepared, verify: Verify) -> Attempt<Self> {
        let attempt = |prepared: &Prepared| {
            Self::with_variant(direction, prepared, verify, |prepared| (kernel_support(direction, prepared), None))
        };
        attempt(prepared)
            .or_else(|| attempt(&Prepared::stored(&prepared.array)))
            .unwrap_or_else(|| Attempt::Unsupported("chunks that shrink are not stored".into()))
    }

    /// A plan of the codec's answers for each kind of frame. `None` if such chunks are stored.
    fn with_variant(
        direction: Direction,
        prepared: &Prepared,
        verify: Verify,
        answer: impl Fn(&Prepared) -> (Answer, Option<Box<gpu::Region>>),
    ) -> Option<Attempt<Self>> {
        let mut fallbacks = prepared.fallbacks();
        let variant = match direction {
            Direction::Compress => fallbacks.next(),
            Direction::Decompress => prepared.sibling(),
        };
        let mut flags = [0; 2];
        if let (Direction::Decompress, Some(variant)) = (direction, &variant) {
            let differs = |(own, other): (&u8, &u8)| own != other;
            let index = prepared.params.iter().zip(variant.params.iter()).position(differs)?;
            let param = u32::from(variant.params[index]) << PARAM_SHIFT | (index as u32) << PARAM_INDEX_SHIFT;
            flags = [NOT_PARAM | param, ONLY_PARAM | param];
        }
        let plan = KindPlan::new(direction, prepared, verify, flags[0], &answer)?;
        if matches!(plan, Attempt::Done(_)) && direction == Direction::Compress && fallbacks.next().is_some() {
            let reason = format!("{} has no kernels that try several levels", prepared.entry.name);
            return Some(Attempt::Unsupported(reason.into()));
        }
        let own = match plan {
            Attempt::Done(own) => own,
            Attempt::Unsupported(reason) => return Some(Attempt::Unsupported(reason)),
        };
        let variant = match variant.map(|variant| KindPlan::new(direction, &variant, verify, flags[1], &answer)) {
            Some(Some(Attempt::Done(variant))) => Some(variant),
            Some(Some(Attempt::Unsupported(reason))) => return Some(Attempt::Unsupported(reason)),
            Some(None) | None => None,
        };
        Some(Attempt::Done(Self { own, variant, alignment: prepared.alignment() }))
    }

    /// Minimum length of a slot. Decompression reads that many bytes whatever the frame's length.
    /// No valid frame is shorter if all frames have the same fold and parameters.
    pub fn min_frame_bytes(&self) -> u64 {
        let variant = self.variant.as_ref().map_or(0, KindPlan::min_frame_bytes);
        self.own.min_frame_bytes().max(variant)
    }

    /// Binds the plan to a device and a batch of `n_chunks` chunks. `address` is the OR of all
    /// array addresses. It selects the aligned kernel variant and does not affect the scratch size.
    /// Kernels are loaded once per process and device; afterwards, neither this function nor
    /// [`Launch::start`] waits for the GPU.
    ///
    /// # Errors
    /// `UnsupportedJob` for more chunks than one launch can process, `Device`, `OutOfMemory`.
    pub fn launch(&self, device: &'static Device, n_chunks: u64, address: u64) -> Result<Launch<'_>> {
        let own = self.own.launch(device, n_chunks, address)?;
        let variant = self.variant.as_ref().map(|variant| variant.launch(device, n_chunks, address)).transpose()?;
        Ok(Launch { own, variant })
    }
}

impl KindPlan {
    /// A plan of the codec's answers for each fold. `None` if such chunks are stored.
    fn new(
        direction: Direction,
        prepared: &Prepared,
        verify: Verify,
        flags: u32,
        answer: impl Fn(&Prepared) -> (Answer, Option<Box<gpu::Region>>),
    ) -> Option<Attempt<Self>> {
        let second = prepared.otherwise();
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let common =
            flags | flag(prepared.is_swapped(), SWAP_BYTES) | flag(verify == Verify::Structure, SKIP_CHECKSUM);
        let of_fold = |prepared: &Prepared, own: u32, fold: Fold| {
            let flags = common | if second.is_some() { own | (fold as u32) << FOLD_SHIFT } else { 0 };
            let (answer, region) = answer(prepared);
            let encoded = || HeaderTemplate::new(&prepared.header());
            match answer {
                Answer::Run(passes) => Some(Attempt::Done(FoldPlan { passes, encoded: encoded(), flags, region })),
                Answer::NotHere(reason) => Some(Attempt::Unsupported(reason)),
                Answer::Incompressible => None,
            }
        };
        // A frame with any other fold is damaged; one launch must say so.
        let (own, fold) = match (&second, direction) {
            (Some(second), Direction::Decompress) => (NOT_FOLD, second.fold),
            _ => (ONLY_FOLD, prepared.fold),
        };
        let first = match of_fold(prepared, own, fold)? {
            Attempt::Done(first) => first,
            Attempt::Unsupported(reason) => return Some(Attempt::Unsupported(reason)),
        };
        let second = match second.as_ref().map(|second| of_fold(second, ONLY_FOLD, second.fold)) {
            None => None,
            Some(Some(Attempt::Done(second))) => Some(Box::new(second)),
            Some(Some(Attempt::Unsupported(reason))) => return Some(Attempt::Unsupported(reason)),
            Some(None) => return None,
        };
        let choice = match direction {
            Direction::Compress => prepared.fold_choice().and_then(|choice| {
                let Prepared { array, shape, layout, entry, .. } = prepared;
                entry.gpu?.choose_fold(&choice, &Chunks { array, shape, layout })
            }),
            Direction::Decompress => None,
        };
        if direction == Direction::Compress && second.is_some() && choice.is_none() {
            let reason = format!("{} has no kernel that chooses a fold", prepared.entry.name);
            return Some(Attempt::Unsupported(reason.into()));
        }
        let stored = match prepared.entry.id {
            STORED => first.encoded,
            _ => HeaderTemplate::new(&Prepared::stored(&prepared.array).header()),
        };
        Some(Attempt::Done(Self { direction, choice, first, second, slot_bytes: prepared.bound(), stored }))
    }

    fn min_frame_bytes(&self) -> u64 {
        let of_fold = |fold: &FoldPlan| u64::from(fold.encoded.n_bytes) + fold.passes.table_bytes;
        of_fold(&self.first).max(self.second.as_deref().map_or(0, of_fold))
    }

    /// As [`GpuPlan::launch`].
    fn launch(&self, device: &'static Device, n_chunks: u64, address: u64) -> Result<KindLaunch<'_>> {
        let bind = |passes| ReadyPasses::new(passes, device, n_chunks, address);
        let choice = self.choice.as_ref().map(bind).transpose()?;
        let first = bind(&self.first.passes)?;
        let second = self.second.as_ref().map(|second| bind(&second.passes)).transpose()?.map(Box::new);
        // Below 2^31, because there are at least as many tiles.
        Ok(KindLaunch { plan: self, n_chunks: n_chunks as u32, choice, first, second })
    }
}

/// The codec's kernels for these chunks.
fn kernel_support(direction: Direction, prepared: &Prepared) -> Answer {
    let Prepared { array, shape, layout, entry, .. } = prepared;
    match entry.gpu {
        Some(gpu) => gpu.passes(direction, &Chunks { array, shape, layout }),
        None => no_kernels(entry),
    }
}

fn no_kernels(entry: &Entry) -> Answer {
    Answer::NotHere(format!("{} has no kernels", entry.name).into())
}

/// A plan bound to a device and a number of chunks.
pub struct Launch<'a> {
    own: KindLaunch<'a>,
    variant: Option<KindLaunch<'a>>,
}

/// The work for frames of one kind, bound.
struct KindLaunch<'a> {
    plan: &'a KindPlan,
    n_chunks: u32,
    choice: Option<ReadyPasses<'a>>,
    first: ReadyPasses<'a>,
    second: Option<Box<ReadyPasses<'a>>>,
}

/// Passes with their loaded kernels.
struct ReadyPasses<'a> {
    passes: &'a Passes,
    first: ReadyPass,
    then: [Option<ReadyPass>; MOST_THEN],
    scratch_bytes: u64,
}

/// A pass with its loaded kernel.
struct ReadyPass {
    function: Function,
    pass: Pass,
    grid: Grid,
    scratch: ScratchRange,
}

impl<'a> ReadyPasses<'a> {
    /// Loads kernels and computes grids, as [`GpuPlan::launch`].
    fn new(passes: &'a Passes, device: &'static Device, n_chunks: u64, address: u64) -> Result<Self> {
        let module = device.module(kernels::find(passes.fatbin)?)?;
        let bind = |pass: &Pass, before: &[ScratchRange]| {
            let (name, info) = pass.kernel.names(address);
            let info: LaunchInfo = module.global(info)?;
            let function = module.function(name)?;
            let resident = function.resident_ctas(info.threads, info.shared_bytes)?;
            let (grid, scratch) = grid_and_scratch(pass, &info, resident, n_chunks, before)?;
            Ok::<_, Error>(ReadyPass { function, pass: *pass, grid, scratch })
        };
        let first = bind(&passes.first, &[])?;
        let mut then = [const { None }; MOST_THEN];
        let mut ranges = [first.scratch; 1 + MOST_THEN];
        for (i, pass) in passes.then.iter().flatten().enumerate() {
            let next = bind(pass, &ranges[..=i])?;
            ranges[i + 1] = next.scratch;
            then[i] = Some(next);
        }
        let scratch_bytes = ranges.iter().fold(0, |max, range| max.max(range.end()));
        Ok(Self { passes, first, then, scratch_bytes })
    }

    /// All passes, repeated as often as they run.
    fn all(&self) -> impl Iterator<Item = &ReadyPass> {
        let Rounds { start, n_passes, n } = self.passes.rounds;
        let (before, rest) = self.then.split_at(start);
        let (repeated, after) = rest.split_at(n_passes);
        let then = before.iter().chain((0..n).flat_map(move |_| repeated)).chain(after).flatten();
        std::iter::once(&self.first).chain(then)
    }
}

impl Launch<'_> {
    /// Bytes of scratch memory of the passes. Launches for different kinds of frames use the same
    /// memory, one after the other.
    fn passes_bytes(&self) -> u64 {
        let variant = self.variant.as_ref().map_or(0, KindLaunch::passes_bytes);
        self.own.passes_bytes().max(variant)
    }

    /// The parts of the scratch memory after that of the passes: lengths of the other frames of a
    /// compression, and their slots.
    fn others(&self) -> Option<[Range<u64>; 2]> {
        if self.own.plan.direction == Direction::Decompress {
            return None;
        }
        let variant = self.variant.as_ref()?;
        let n_chunks = u64::from(self.own.n_chunks);
        let lengths = (self.own.folds_bytes() + self.passes_bytes()).next_multiple_of(SCRATCH_ALIGNMENT);
        let slots = (lengths + 8 * n_chunks).next_multiple_of(SCRATCH_ALIGNMENT);
        Some([lengths..lengths + 8 * n_chunks, slots..slots + n_chunks * variant.plan.slot_bytes])
    }

    /// Bytes of scratch memory that [`start`](Self::start) needs.
    pub fn scratch_bytes(&self) -> u64 {
        self.others().map_or(self.own.folds_bytes() + self.passes_bytes(), |[_, slots]| slots.end)
    }

    /// Enqueues the passes on `stream`. `scratch` has [`scratch_bytes`](Self::scratch_bytes) at a
    /// multiple of 8 and need not be initialized. Damaged frames are not errors; they get a status.
    ///
    /// # Errors
    /// `Device`; some passes may have been enqueued.
    ///
    /// # Safety
    /// All memory must be as [`LaunchMemory`] says, for the number of chunks of this launch. It
    /// must live until the stream has completed the work; memory that is freed in the order of the
    /// same stream does.
    pub unsafe fn start(&self, stream: &Stream, memory: &LaunchMemory, scratch: DeviceSlice) -> Result<()> {
        let folds = if self.own.choice.is_some() { scratch.address() } else { 0 };
        let passes = scratch.slice(self.own.folds_bytes()..self.own.folds_bytes() + self.passes_bytes())?;
        // SAFETY: by this function's contract. The parts of the scratch memory do not overlap.
        unsafe { self.own.enqueue(stream, memory, passes, folds, self.own.choice.as_ref())? };
        let Some(variant) = &self.variant else { return Ok(()) };
        let Some([lengths, slots]) = self.others() else {
            // SAFETY: as above.
            return unsafe { variant.enqueue(stream, memory, passes, folds, None) };
        };
        let slot_bytes = variant.plan.slot_bytes;
        let other = LaunchMemory {
            frames: scratch.slice(slots)?,
            frame_stride: slot_bytes,
            slot_bytes,
            frame_bytes: scratch.slice(lengths)?,
            ..*memory
        };
        // SAFETY: as above. Both kinds of frames have slots of at least their bounds.
        unsafe {
            variant.enqueue(stream, &other, passes, folds, None)?;
            packing::take_shorter(stream, memory, &other, self.own.n_chunks)
        }
    }
}

impl KindLaunch<'_> {
    /// Bytes of the chunks' folds, in front of the scratch memory of the passes.
    fn folds_bytes(&self) -> u64 {
        match &self.choice {
            Some(_) => (4 * u64::from(self.n_chunks)).next_multiple_of(SCRATCH_ALIGNMENT),
            None => 0,
        }
    }

    /// Bytes of scratch memory of the passes. Launches for different folds use the same memory, one
    /// after the other.
    fn passes_bytes(&self) -> u64 {
        self.first.scratch_bytes.max(self.second.as_ref().map_or(0, |second| second.scratch_bytes))
    }

    /// Enqueues the passes for one kind of frames. `choice` is the pass that writes the chunks'
    /// folds, if they are not written yet.
    ///
    /// # Errors
    /// As [`Launch::start`].
    ///
    /// # Safety
    /// As [`Launch::start`]; `scratch` has [`passes_bytes`](Self::passes_bytes).
    unsafe fn enqueue(
        &self,
        stream: &Stream,
        memory: &LaunchMemory,
        scratch: DeviceSlice,
        folds: u64,
        choice: Option<&ReadyPasses>,
    ) -> Result<()> {
        let KindPlan { direction, first, second, stored, .. } = self.plan;
        let choice = choice.map(|ready| (ready, first));
        let second = self.second.as_deref().zip(second.as_deref());
        for (ready, fold) in choice.into_iter().chain([(&self.first, first)]).chain(second) {
            let FoldPlan { encoded, flags, region, .. } = fold;
            let tail = Tail { n_chunks: self.n_chunks, flags: *flags, encoded: *encoded, stored: *stored };
            for ReadyPass { function, pass, grid, scratch: range } in ready.all() {
                let scratch = scratch.slice(range.start..range.end())?;
                if pass.scratch == Scratch::Zeroed && range.n_zeroed > 0 {
                    // SAFETY: the scratch memory lives long enough by this function's contract.
                    unsafe { stream.zero(scratch.slice(0..range.n_zeroed)?)? };
                }
                let mut args = arguments(*direction, memory, scratch.address(), folds, pass.args.bytes(), &tail)?;
                if let Some(region) = region {
                    args.push(region.as_bytes());
                }
                // SAFETY: all addresses point to memory that lives long enough and is as long as
                // the kernel needs, by this function's contract and the codec's description of its
                // passes.
                unsafe { function.launch(*grid, stream, args.bytes())? };
            }
        }
        Ok(())
    }
}

//! Less than there is in a dataset: of each chunk that is a frame of layers and levels, only the bytes that are needed.
//!
//! To a [`Transfer`] the grid of a level is a dataset of its own, whose chunks are the grids of the chunks
//! ([`Grid`](super::Grid)). Its store tells where in a file a chunk is (a [`Place`]), and [`PartReader`], which is its coder, reads the
//! chunk from there: first the beginning, which tells how much is needed, and then the rest of that. So several threads
//! read at the same time. Where chunks cannot be read so, the store has their bytes.

use std::sync::Mutex;

use crate::bulk::buffer::Buffer;
use crate::bulk::grid::Grid;
use crate::bulk::pipeline;
use crate::bulk::store::{ChunkCoder, ChunkStore, Encoded};
use crate::bulk::transfer::{Progress, cancelled};
use gridz::device::Source;
use gridz::{Context, Detail, Mode, PartInfo, Promise, Verify};
use gridz_codecs::cpu::pool::lock;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::types::Array;

/// What the beginning of a frame has, but for its table: `inspect_progressive` says how much that is.
const HEAD_BYTES: u64 = 4096 - 512;
/// The bytes of the table are eight for so many elements, and some more for each level: what a page has left.
const ELEMENTS_PER_ENTRY: u64 = 1 << 16;

/// A file whose bytes threads read.
pub trait ReadAt: Sync {
    /// Reads as many bytes as `bytes` has from byte `at` on.
    ///
    /// # Errors
    /// `Truncated` where the file ends before, or what else keeps it from reading.
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> Result<()>;
}

/// Where in a file the encoded bytes of a chunk are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The first of them.
    pub at: u64,
    /// How many.
    pub n_bytes: u64,
}

impl Place {
    /// Bytes of [`Place::to_bytes`].
    pub const BYTES: usize = 16;

    /// As a store hands it over.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        (u128::from(self.at) << 64 | u128::from(self.n_bytes)).to_le_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bytes = bytes.try_into().map_err(|_| Error::new(ErrorKind::Internal, "this is no place of a chunk"))?;
        let both = u128::from_le_bytes(bytes);
        Ok(Self { at: (both >> 64) as u64, n_bytes: both as u64 })
    }
}

/// A coder whose encoded bytes may be frames.
pub trait FrameCoder: ChunkCoder {
    /// The array in the frame that encoded bytes with this mask are. `None`: they are no frame of the chunk as it is.
    fn array(&self, mask: u32) -> Option<&Array>;

    /// What encoded bytes, of which these are the first ones, promise of the chunk.
    ///
    /// # Errors
    /// Those of the engine.
    fn promise(&self, mask: u32, first: &[u8]) -> Result<Promise>;

    /// Whether checksums are compared.
    fn verify(&self) -> Verify;
}

/// What was read, or would be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tally {
    /// Chunks that were written.
    pub n_chunks: u64,
    /// Their encoded bytes that are read.
    pub read_bytes: u64,
    /// All of these.
    pub stored_bytes: u64,
    /// Most layers that are read of a chunk; 0 if none has layers.
    pub layers: u32,
    /// Most layers that there are.
    pub n_layers: u32,
    /// No element differs by more from what it was; `None`: there is no such bound.
    pub bound: Option<f64>,
    /// In no chunk is the root of the mean of the squares of all errors larger.
    pub rms: Option<f64>,
}

impl Default for Tally {
    /// Of no chunks.
    fn default() -> Self {
        let (bound, rms) = (Some(0.0), Some(0.0));
        Self { n_chunks: 0, read_bytes: 0, stored_bytes: 0, layers: 0, n_layers: 0, bound, rms }
    }
}

impl Tally {
    /// With one more chunk.
    fn add(&mut self, plan: &Plan, is_all: bool) {
        let most = |one: Option<f64>, other: Option<f64>| one.zip(other).map(|(one, other)| one.max(other));
        self.n_chunks += 1;
        self.read_bytes += plan.read_bytes;
        self.stored_bytes += plan.stored_bytes;
        if let Some(part) = &plan.part {
            self.layers = self.layers.max(part.layers);
            self.n_layers = self.n_layers.max(part.n_layers);
        }
        let Promise { mode, value, bound } = plan.promise;
        self.bound = most(self.bound, bound);
        // The mean is that of all elements, and no mean is above the bound.
        self.rms = most(self.rms, if mode == Mode::Rms && is_all { Some(value) } else { bound });
    }
}

/// What of the encoded bytes of a chunk is read.
struct Plan {
    /// What it is; `None`: they are read as a whole.
    part: Option<PartInfo>,
    promise: Promise,
    /// The first bytes that are needed.
    n_bytes: u64,
    read_bytes: u64,
    stored_bytes: u64,
}

/// Reads the grids of chunks.
pub struct PartReader<'a> {
    grid: &'a Grid,
    detail: Detail,
    coder: &'a dyn FrameCoder,
    /// Where the places are that the store tells; `None`: it has the bytes.
    file: Option<&'a dyn ReadAt>,
    element_bytes: usize,
    /// Encoded bytes that a chunk can have.
    most_bytes: usize,
    tally: Mutex<Tally>,
}

impl<'a> PartReader<'a> {
    /// Reads `grid`, of `detail`, whose chunks have elements of `element_bytes`, and no more than `most_bytes` when they are encoded by
    /// `coder`.
    pub fn new(
        (grid, detail): (&'a Grid, Detail),
        coder: &'a dyn FrameCoder,
        file: Option<&'a dyn ReadAt>,
        element_bytes: usize,
        most_bytes: usize,
    ) -> Self {
        Self { grid, detail, coder, file, element_bytes, most_bytes, tally: Mutex::default() }
    }

    /// What was read so far.
    pub fn tally(&self) -> Tally {
        *lock(&self.tally)
    }

    fn chunk_bytes(&self) -> usize {
        self.grid.chunk().iter().product::<u64>() as usize * self.element_bytes
    }

    /// How many of the first bytes tell how many are needed.
    fn head_bytes(&self) -> u64 {
        let n_elements: u64 = self.grid.chunk().iter().product();
        HEAD_BYTES + 8 * n_elements.div_ceil(ELEMENTS_PER_ENTRY)
    }

    /// What of encoded bytes with this mask is read, of which these are the first ones.
    fn plan(&self, mask: u32, first: &[u8], stored_bytes: u64) -> Result<Plan> {
        let whole = |promise| {
            let (n_bytes, read_bytes) = (stored_bytes, stored_bytes);
            Plan { part: None, promise, n_bytes, read_bytes, stored_bytes }
        };
        let Some(array) = self.coder.array(mask) else { return Ok(whole(self.coder.promise(mask, first)?)) };
        // Elements of the dataset that are arrays have no grid.
        let has_grid = self.grid.level() == 0 || array.shape().rank() as usize == self.grid.chunk().len();
        if !has_grid || gridz::inspect(first)?.array != *array {
            return Ok(whole(self.coder.promise(mask, first)?));
        }
        let part = match gridz::inspect_progressive(first, self.detail) {
            // A codec without parts.
            Err(error) if error.kind() == ErrorKind::UnsupportedJob => {
                return Ok(whole(self.coder.promise(mask, first)?));
            }
            part => part?,
        };
        let n_bytes = part.frame_bytes;
        if n_bytes > stored_bytes {
            let text = format!("a chunk of {stored_bytes} encoded bytes, of which {n_bytes} are needed");
            return Err(Error::new(ErrorKind::Truncated, text));
        }
        // The first bytes have been read, too.
        let read_bytes = if self.file.is_some() { n_bytes.max(first.len() as u64) } else { stored_bytes };
        Ok(Plan { part: Some(part), promise: part.promise, n_bytes, read_bytes, stored_bytes })
    }

    /// The plan for a chunk in a file, and the bytes that were read to make it.
    fn plan_in(&self, file: &dyn ReadAt, mask: u32, place: Place) -> Result<(Plan, Buffer)> {
        let n_bytes = place.n_bytes;
        let read = |n: u64| {
            let mut first = Buffer::new(n as usize)?;
            file.read_at(place.at, first.bytes()).map(|()| first)
        };
        let mut first = read(n_bytes.min(self.head_bytes()))?;
        match self.plan(mask, first.bytes(), n_bytes) {
            // What is longer than what is known.
            Err(error) if error.kind() == ErrorKind::Truncated && (first.n_bytes() as u64) < n_bytes => {
                let mut all = read(n_bytes)?;
                let plan = Plan { read_bytes: n_bytes, ..self.plan(mask, all.bytes(), n_bytes)? };
                Ok((plan, all))
            }
            plan => Ok((plan?, first)),
        }
    }

    /// Makes the grid of a chunk of its first encoded bytes.
    fn make(&self, plan: &Plan, mask: u32, encoded: &[u8], grid: &mut [u8], context: &Context) -> Result<()> {
        lock(&self.tally).add(plan, self.grid.level() == 0);
        let (size, verify) = (self.element_bytes, self.coder.verify());
        let Some(part) = &plan.part else {
            if self.grid.level() == 0 {
                return self.coder.decode(mask, encoded, grid, context);
            }
            let mut chunk = Buffer::new(self.chunk_bytes())?;
            self.coder.decode(mask, encoded, chunk.bytes(), context)?;
            return self.grid.thin_out(chunk.bytes(), size, grid);
        };
        let extents = part.shape.extents();
        if self.grid.level() == 0 || extents == self.grid.selection().chunk() {
            return gridz::decompress_progressive(encoded, self.detail, grid, verify, context).map(|_| ());
        }
        // No more bytes than the chunk has, whose array it is.
        let mut nodes = Buffer::new(part.n_bytes as usize)?;
        gridz::decompress_progressive(encoded, self.detail, nodes.bytes(), verify, context)?;
        self.grid.unmerge(nodes.bytes(), extents, size, grid)
    }

    /// Tells what would be read of `store`.
    ///
    /// # Errors
    /// Those of the store and of reading; `Cancelled`.
    pub fn inspect(&self, store: &mut dyn ChunkStore, context: &Context, progress: Progress) -> Result<Tally> {
        let (total, mut done) = (self.grid.selection().n_chunks(), 0);
        let mut parts = self.grid.selection().parts();
        let begin = || {
            let Some(part) = parts.next() else { return Ok(None) };
            let mut bytes = Buffer::new(0)?;
            let found = store.read(part.chunk(), &mut bytes)?;
            Ok(Some((found, bytes)))
        };
        let work = |(found, mut bytes): (Option<Encoded>, Buffer)| {
            let Some(Encoded { n_bytes, mask }) = found else { return Ok(()) };
            let bytes = &bytes.bytes()[..n_bytes];
            let plan = match self.file {
                Some(file) => self.plan_in(file, mask, Place::from_bytes(bytes)?)?.0,
                None => self.plan(mask, bytes, n_bytes as u64)?,
            };
            lock(&self.tally).add(&plan, self.grid.level() == 0);
            Ok(())
        };
        let finish = |()| {
            done += 1;
            if progress(done, total) { Ok(()) } else { Err(cancelled()) }
        };
        let pool = context.pool();
        pipeline::run(pool, 2 * pool.threads(), begin, work, finish)?;
        Ok(self.tally())
    }
}

impl ChunkCoder for PartReader<'_> {
    fn bound(&self) -> usize {
        self.most_bytes + if self.grid.level() > 0 { self.chunk_bytes() } else { 0 }
    }

    fn encode(&self, _chunk: Source, _encoded: &mut [u8], _context: &Context) -> Result<usize> {
        Err(Error::new(ErrorKind::Internal, "grids are not written"))
    }

    fn decode(&self, mask: u32, found: &[u8], grid: &mut [u8], context: &Context) -> Result<()> {
        let Some(file) = self.file else {
            let plan = self.plan(mask, found, found.len() as u64)?;
            return self.make(&plan, mask, &found[..plan.n_bytes as usize], grid, context);
        };
        let place = Place::from_bytes(found)?;
        let (plan, mut first) = self.plan_in(file, mask, place)?;
        let (have, need) = (first.n_bytes(), plan.n_bytes as usize);
        if have >= need {
            return self.make(&plan, mask, &first.bytes()[..need], grid, context);
        }
        let mut encoded = Buffer::new(need)?;
        encoded.bytes()[..have].copy_from_slice(first.bytes());
        file.read_at(place.at.saturating_add(have as u64), &mut encoded.bytes()[have..])?;
        self.make(&plan, mask, encoded.bytes(), grid, context)
    }
}

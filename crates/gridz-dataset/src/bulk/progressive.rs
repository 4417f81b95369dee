//! Progressive reads: fetch only the prefix of each chunk's frame that a level or accuracy needs.
//!
//! To a [`Transfer`] the grid of a level is a dataset of its own, whose chunks are the grids of the
//! chunks ([`Grid`](super::Grid)). Its store returns the location of a chunk in a file (a
//! [`Place`]). [`PartReader`], its coder, reads the chunk from there: first its head, which says
//! how much is needed, then the rest of that. So several threads read concurrently. If chunks
//! cannot be read directly, the store returns their bytes.

use std::sync::Mutex;

use crate::bulk::buffer::Buffer;
use crate::bulk::grid::Grid;
use crate::bulk::pipeline;
use crate::bulk::store::{ChunkCoder, ChunkStore, Encoded};
use crate::bulk::transfer::{Progress, report};
use gridz::Source;
use gridz::{Context, Detail, Frame, Mode, PartInfo, Promise, Verify};
use gridz_codecs::cpu::pool::lock;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::types::Array;

/// Bytes at the start of a frame that [`gridz::inspect_part`] needs, without the frame's
/// table.
const HEAD_BYTES: u64 = 4096 - 512;
/// Elements per table entry, which has eight bytes. A few more bytes for each level fit in the rest
/// of the page.
const ELEMENTS_PER_ENTRY: u64 = 1 << 16;

/// A file that several threads read.
pub trait ReadAt: Sync {
    /// Reads `bytes.len()` bytes from offset `at` on.
    ///
    /// # Errors
    /// `Truncated` if the file ends before, or the error that prevents reading.
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> Result<()>;
}

/// Location of a chunk's encoded bytes in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Offset of the first byte.
    pub at: u64,
    /// Number of bytes.
    pub n_bytes: u64,
}

impl Place {
    /// Length of [`Place::to_bytes`].
    pub const BYTES: usize = 16;

    /// The form in which a store passes a place to the coder.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        (u128::from(self.at) << 64 | u128::from(self.n_bytes)).to_le_bytes()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bytes = bytes.try_into().map_err(|_| Error::internal("this is no place of a chunk"))?;
        let both = u128::from_le_bytes(bytes);
        Ok(Self { at: (both >> 64) as u64, n_bytes: both as u64 })
    }
}

/// A coder whose encoded bytes may be frames.
pub trait FrameCoder: ChunkCoder {
    /// The array in the frame, if encoded bytes with this mask are a frame of the unchanged chunk.
    fn array(&self, mask: u32) -> Option<&Array>;

    /// The guarantee of a chunk whose encoded bytes begin with `first`.
    ///
    /// # Errors
    /// Those of the engine.
    fn promise(&self, mask: u32, first: &[u8]) -> Result<Promise>;

    /// Whether checksums are verified.
    fn verify(&self) -> Verify;
}

/// Statistics of a progressive read, done or planned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tally {
    /// Number of chunks that were ever written.
    pub n_chunks: u64,
    /// Encoded bytes that are read.
    pub read_bytes: u64,
    /// All encoded bytes of these chunks.
    pub stored_bytes: u64,
    /// Largest number of layers read from a chunk. 0 if no chunk has layers.
    pub layers: u32,
    /// Largest number of layers in a chunk.
    pub n_layers: u32,
    /// Largest absolute difference between an element and its original. `None` if there is no such
    /// bound.
    pub bound: Option<f64>,
    /// Upper limit of the root mean square error of each chunk.
    pub rms: Option<f64>,
}

impl Default for Tally {
    /// Statistics of no chunks.
    fn default() -> Self {
        let (bound, rms) = (Some(0.0), Some(0.0));
        Self { n_chunks: 0, read_bytes: 0, stored_bytes: 0, layers: 0, n_layers: 0, bound, rms }
    }
}

impl Tally {
    /// Adds a chunk.
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
        // A chunk's RMS guarantee covers all its elements, so it holds only if all of them are
        // read. No RMS exceeds the bound.
        self.rms = most(self.rms, if mode == Mode::Rms && is_all { Some(value) } else { bound });
    }
}

/// The part of a chunk's encoded bytes that is read.
struct Plan {
    /// Description of the part. `None` if the chunk is read as a whole.
    part: Option<PartInfo>,
    promise: Promise,
    /// Number of bytes at the start that are needed.
    n_bytes: u64,
    read_bytes: u64,
    stored_bytes: u64,
}

/// Decodes the grids of chunks.
pub struct PartReader<'a> {
    grid: &'a Grid,
    detail: Detail,
    coder: &'a dyn FrameCoder,
    /// The file of the places that the store returns. `None` if the store returns encoded bytes.
    file: Option<&'a dyn ReadAt>,
    element_bytes: usize,
    /// Maximum number of encoded bytes of a chunk.
    most_bytes: usize,
    tally: Mutex<Tally>,
}

impl<'a> PartReader<'a> {
    /// Decodes the part `detail` of the chunks of `grid`. Their elements have `element_bytes`
    /// bytes, and `coder` encodes a chunk to at most `most_bytes` bytes.
    pub fn new(
        (grid, detail): (&'a Grid, Detail),
        coder: &'a dyn FrameCoder,
        file: Option<&'a dyn ReadAt>,
        element_bytes: usize,
        most_bytes: usize,
    ) -> Self {
        Self { grid, detail, coder, file, element_bytes, most_bytes, tally: Mutex::default() }
    }

    /// Statistics of all reads so far.
    pub fn tally(&self) -> Tally {
        *lock(&self.tally)
    }

    fn chunk_bytes(&self) -> usize {
        self.grid.chunk().iter().product::<u64>() as usize * self.element_bytes
    }

    /// Number of bytes at the start of a frame that determine how many are needed.
    fn head_bytes(&self) -> u64 {
        let n_elements: u64 = self.grid.chunk().iter().product();
        HEAD_BYTES + 8 * n_elements.div_ceil(ELEMENTS_PER_ENTRY)
    }

    /// Plans the read of a chunk whose encoded bytes have this mask and begin with `first`.
    fn plan(&self, mask: u32, first: &[u8], stored_bytes: u64) -> Result<Plan> {
        let whole = |promise| {
            let (n_bytes, read_bytes) = (stored_bytes, stored_bytes);
            Plan { part: None, promise, n_bytes, read_bytes, stored_bytes }
        };
        let Some(array) = self.coder.array(mask) else { return Ok(whole(self.coder.promise(mask, first)?)) };
        // A dataset whose elements are arrays has no grid.
        let has_grid = self.grid.level() == 0 || array.shape().rank() as usize == self.grid.chunk().len();
        let frame = Frame::parse(first)?;
        if !has_grid || frame.info()?.array != *array {
            return Ok(whole(self.coder.promise(mask, first)?));
        }
        let part = match frame.part(self.detail) {
            // The codec of the frame does not support parts.
            Err(error) if error.kind() == ErrorKind::UnsupportedJob => {
                return Ok(whole(self.coder.promise(mask, first)?));
            }
            part => part?,
        };
        let n_bytes = part.frame_bytes;
        if n_bytes > stored_bytes {
            let text =
                format!("a chunk is truncated: it has {stored_bytes} encoded bytes, but {n_bytes} are needed");
            return Err(Error::new(ErrorKind::Truncated, text));
        }
        // The head has already been read, so it counts too.
        let read_bytes = if self.file.is_some() { n_bytes.max(first.len() as u64) } else { stored_bytes };
        Ok(Plan { part: Some(part), promise: part.promise, n_bytes, read_bytes, stored_bytes })
    }

    /// Plans the read of a chunk in a file. Also returns the bytes that were read for this.
    fn plan_in(&self, file: &dyn ReadAt, mask: u32, place: Place) -> Result<(Plan, Buffer)> {
        let n_bytes = place.n_bytes;
        let read = |n: u64| {
            let mut first = Buffer::new(n as usize)?;
            file.read_at(place.at, first.bytes()).map(|()| first)
        };
        let mut first = read(n_bytes.min(self.head_bytes()))?;
        match self.plan(mask, first.bytes(), n_bytes) {
            // A frame with a longer head than expected.
            Err(error) if error.kind() == ErrorKind::Truncated && (first.n_bytes() as u64) < n_bytes => {
                let mut all = read(n_bytes)?;
                let plan = Plan { read_bytes: n_bytes, ..self.plan(mask, all.bytes(), n_bytes)? };
                Ok((plan, all))
            }
            plan => Ok((plan?, first)),
        }
    }

    /// Decodes the grid of a chunk from the start of its encoded bytes.
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
            return gridz::decompress(encoded, gridz::Part::Detail(self.detail), grid, verify, context).map(|_| ());
        }
        // No more bytes than the chunk has: `plan` has checked that the frame holds the chunk's
        // array.
        let mut nodes = Buffer::new(part.n_bytes as usize)?;
        gridz::decompress(encoded, gridz::Part::Detail(self.detail), nodes.bytes(), verify, context)?;
        self.grid.unmerge(nodes.bytes(), extents, size, grid)
    }

    /// Plans the reads of all chunks in `store` and returns their statistics.
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
            report(progress, done, total)
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
        Err(Error::internal("grids are not written"))
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

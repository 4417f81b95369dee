//! `stored`: the chunk's bytes, verbatim.
//!
//! Used for elements that no codec supports and for chunks that no codec shrinks. So every chunk
//! has a frame, and none grows by more than its header.

mod cuda;

use crate::codec::{Codec, CodecState, Decision, EncodeParams, Encoded, Job, Params, Plan, Speeds};
use crate::cpu::isa::Isa;
use crate::error::{Error, Result};
use crate::format::checksum::Checksum;
use crate::format::fold::Fold;
use crate::format::region::FoldedRegion;
use crate::stage::hasher::{Hasher, Prefetch};
use crate::types::{Array, DType, MAX_RANK, Shape};

pub struct Stored;

/// Bytes copied and hashed at a time, so that hashing finds them in the cache.
const STEP_BYTES: usize = 1 << 16;

impl Codec for Stored {
    fn max_rank(&self) -> usize {
        MAX_RANK
    }

    fn plan(&self, array: &Array, _encode_params: &EncodeParams) -> Decision {
        Decision::Take(plan(array))
    }

    fn speeds(&self, _params: &[u8]) -> Speeds {
        Speeds::of_core(1.8, 2.6)
    }

    fn layout(&self, _dtype: DType, _shape: &Shape, params: &[u8]) -> Result<CodecState> {
        match params {
            [] => Ok(CodecState::new(())),
            _ => Err(Error::corrupt(format!(
                "the frame header is damaged: it has parameters {params:?}, but stored has none"
            ))),
        }
    }

    fn encode(&self, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
        Ok(Encoded { n_bytes: src.len(), sums: copy(job.level, src, dst) })
    }

    fn decode(&self, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
        if payload.len() != dst.len() {
            let (have, need) = (payload.len(), dst.len());
            return Err(Error::corrupt(format!(
                "a stored payload is damaged: it has {have} bytes, but its array has {need}"
            )));
        }
        Ok(copy(job.level, payload, dst))
    }

    /// Compares no checksum, because that would require reading everything.
    fn decode_region(
        &self,
        _job: &Job,
        payload: &[u8],
        region: &FoldedRegion,
        dst: &mut [u8],
    ) -> Result<Option<Checksum>> {
        let (wanted, all) =
            region.axes.iter().fold((1, 1), |(n, all), axis| (n * axis.count(), all * axis.extent()));
        let size = (dst.len() as u64).checked_div(wanted).unwrap_or(0);
        if payload.len() as u64 != all * size {
            return Err(Error::corrupt("a stored payload is damaged: its length does not match its array"));
        }
        region.take_all(payload, size as usize, dst);
        Ok(None)
    }
}

/// The plan that stores any array.
pub fn plan(array: &Array) -> Plan {
    Plan { fold: Fold::Merge, params: Params::NONE, bound: array.n_bytes(), layout: CodecState::new(()) }
}

fn copy(level: Isa, src: &[u8], dst: &mut [u8]) -> Checksum {
    let mut hasher = Hasher::new(level, Prefetch::Nothing);
    let steps = src.chunks(STEP_BYTES).zip(dst.chunks_mut(STEP_BYTES));
    for ((from, to), start) in steps.zip((0..).step_by(STEP_BYTES)) {
        to[..from.len()].copy_from_slice(from);
        hasher.update(from, start);
    }
    hasher.checksum()
}

//! `stored`: the chunk's bytes as they are.
//!
//! Used for elements no codec takes and for chunks no codec shrinks, so that every chunk has a frame
//! and none grows by more than its header.

mod cuda;

use crate::codec::{Codec, Encoded, Job, Plan};
use crate::cpu::level::Level;
use crate::error::{Error, Result};
use crate::format::checksum::Sums;
use crate::format::fold::Fold;
use crate::stage::sums::{Ahead, Summer};
use crate::types::{Array, MAX_RANK};

/// The codec.
pub struct Stored;

/// Bytes copied and summed at a time, so that the sum finds them in cache.
const TILE_BYTES: usize = 1 << 16;

impl Codec for Stored {
    fn max_rank(&self) -> usize {
        MAX_RANK
    }

    fn plan(&self, array: &Array, _level: u16) -> Option<Plan> {
        Some(Plan { fold: Fold::Merge, params: Vec::new(), bound: array.n_bytes() })
    }

    fn encode(&self, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
        Ok(Encoded { n_bytes: src.len(), sums: copy(job.level, src, dst) })
    }

    fn decode(&self, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Sums> {
        if !job.params.is_empty() {
            return Err(Error::corrupt("a stored payload has no parameters"));
        }
        if payload.len() != dst.len() {
            let (have, need) = (payload.len(), dst.len());
            return Err(Error::corrupt(format!("a stored payload of {have} bytes for an array of {need}")));
        }
        Ok(copy(job.level, payload, dst))
    }
}

fn copy(level: Level, src: &[u8], dst: &mut [u8]) -> Sums {
    let mut summer = Summer::new(level, Ahead::Leave);
    let tiles = src.chunks(TILE_BYTES).zip(dst.chunks_mut(TILE_BYTES));
    for ((from, to), start) in tiles.zip((0..).step_by(TILE_BYTES)) {
        to[..from.len()].copy_from_slice(from);
        summer.add(from, start);
    }
    summer.sums()
}

//! A complete codec: run lengths of bytes. docs/architecture.md explains how it would become a
//! codec of gridz.
//!
//! The payload is a list of pairs: the length of a run minus one, and the byte that it repeats.

use gridz_codecs::codec::{Codec, CodecState, Decision, EncodeParams, Encoded, Job, Params, Plan};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::{Error, Result, try_vec};
use gridz_codecs::format::checksum::Checksum;
use gridz_codecs::format::fold::Fold;
use gridz_codecs::format::region::FoldedRegion;
use gridz_codecs::stage::hasher::{Hasher, Prefetch};
use gridz_codecs::types::{Array, ByteOrder, DType, MAX_RANK, Shape};

struct Runs;

/// The state that encoding and decoding share. Here it is empty; other codecs keep the positions of
/// their blocks in it.
#[derive(Clone, Copy)]
struct Layout;

impl Codec for Runs {
    fn max_rank(&self) -> usize {
        MAX_RANK
    }

    /// Decides from type and extents. `Decision::Store` and `Decision::Refuse` are the other answers.
    fn plan(&self, array: &Array, _encode_params: &EncodeParams) -> Decision {
        let bound = 2 * array.n_bytes();
        Decision::Take(Plan { fold: Fold::Merge, params: Params::NONE, bound, layout: CodecState::new(Layout) })
    }

    /// Reads the codec's parameters in the frame header. They may be damaged.
    fn layout(&self, _dtype: DType, _shape: &Shape, params: &[u8]) -> Result<CodecState> {
        match params {
            [] => Ok(CodecState::new(Layout)),
            _ => Err(Error::corrupt("a payload of runs has no parameters")),
        }
    }

    fn encode(&self, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
        let mut n_bytes = 0;
        let mut rest = src;
        while let Some(&byte) = rest.first() {
            let run = rest.iter().take(256).take_while(|&&next| next == byte).count();
            dst[n_bytes..n_bytes + 2].copy_from_slice(&[(run - 1) as u8, byte]);
            n_bytes += 2;
            rest = &rest[run..];
        }
        Ok(Encoded { n_bytes, sums: checksum(job.level, &dst[..n_bytes]) })
    }

    /// Checks everything that it reads: any bytes may arrive here.
    fn decode(&self, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
        let (pairs, rest) = payload.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(Error::corrupt("the payload ends within a run"));
        }
        let mut at = 0;
        for &[length, byte] in pairs {
            let run = usize::from(length) + 1;
            let to = dst.get_mut(at..at + run).ok_or_else(|| Error::corrupt("the runs exceed the array"))?;
            to.fill(byte);
            at += run;
        }
        if at < dst.len() {
            return Err(Error::corrupt("the runs end before the array"));
        }
        Ok(checksum(job.level, payload))
    }

    /// Decodes a part of the array. A codec with blocks decodes only those that it needs.
    fn decode_region(
        &self,
        job: &Job,
        payload: &[u8],
        region: &FoldedRegion,
        dst: &mut [u8],
    ) -> Result<Option<Checksum>> {
        let size = job.dtype.size().unwrap_or(1) as usize;
        let n_elements: u64 = region.axes.iter().map(|axis| axis.extent()).product();
        let mut all = try_vec::<u8>(n_elements as usize * size, "the whole array")?;
        all.resize(n_elements as usize * size, 0);
        let sums = self.decode(job, payload, &mut all)?;
        region.take_all(&all, size, dst);
        Ok(Some(sums))
    }
}

fn checksum(level: Isa, payload: &[u8]) -> Checksum {
    let mut hasher = Hasher::new(level, Prefetch::Nothing);
    hasher.update(payload, 0);
    hasher.checksum()
}

pub fn main() -> Result<()> {
    let shape = Shape::new(&[64, 64])?;
    let array = Array::new(DType::U16, ByteOrder::Little, shape)?;
    let raw: Vec<u8> = (0..64 * 64u16).flat_map(|i| (i / 1000).to_le_bytes()).collect();

    let Decision::Take(plan) = Runs.plan(&array, &EncodeParams::lossless(0)) else {
        unreachable!("it takes all arrays")
    };
    let pool = Pool::new(1);
    let job =
        Job { dtype: array.dtype(), shape, layout: &plan.layout, pool: &pool, level: Isa::best(), verify: true };
    let mut payload = vec![0; plan.bound as usize];
    let encoded = Runs.encode(&job, &raw, &mut payload)?;
    payload.truncate(encoded.n_bytes);

    let mut decoded = vec![0; raw.len()];
    assert_eq!(Runs.decode(&job, &payload, &mut decoded)?, encoded.sums);
    assert_eq!(decoded, raw);
    println!("{} bytes became {}; decoding restored them.", raw.len(), payload.len());

    let error = Runs.decode(&job, &payload[..payload.len() - 1], &mut decoded).unwrap_err();
    println!("Without its last byte: {error}.");
    Ok(())
}

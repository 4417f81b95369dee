//! Partial reads: levels and layers of a payload.

use crate::codec::mode::Mode;
use crate::codec::multigrid::arrays::Arrays;
use crate::codec::multigrid::real::Real;
use crate::codec::multigrid::{Chunk, Multigrid, decode};
use crate::codec::{CodecState, Detail, Job, Part, Progressive, Promise};
use crate::cpu::float::Ieee;
use crate::error::{Error, Result};
use crate::format::checksum::Checksum;
use crate::types::DType;

impl Progressive for Multigrid {
    fn part(&self, layout: &CodecState, payload: &[u8], n_all: u64, detail: Detail) -> Result<Part> {
        let chunk: &Chunk = layout.get();
        match chunk.dtype {
            DType::F32 => part::<f32>(chunk, payload, n_all, detail),
            _ => part::<f64>(chunk, payload, n_all, detail),
        }
    }

    fn decode_part(&self, job: &Job, payload: &[u8], n_all: u64, part: &Part, dst: &mut [u8]) -> Result<Checksum> {
        let chunk: &Chunk = job.layout.get();
        let what = (part.level, part.layers as usize);
        match chunk.dtype {
            DType::F32 => decode::decode_part::<f32>(chunk, job, &chunk.parse::<f32>(payload, n_all)?, what, dst),
            _ => decode::decode_part::<f64>(chunk, job, &chunk.parse::<f64>(payload, n_all)?, what, dst),
        }
    }
}

fn part<T: Real>(chunk: &Chunk, payload: &[u8], n_all: u64, detail: Detail) -> Result<Part> {
    let _ieee = Ieee::begin();
    let payload = chunk.parse::<T>(payload, n_all)?;
    let (head, asked) = (&payload.head, &chunk.asked);
    let (n_layers, n_levels) = (head.n_layers, head.grid.n_levels());
    let promised = |k: usize| Promise {
        mode: asked.mode,
        value: asked.of_layer(k, asked.value),
        bound: Some(head.layers[k].bound),
    };
    let (level, layers) = match detail {
        Detail::Level(level) if level > n_levels => {
            return Err(Error::invalid(format!(
                "level {level} does not exist; the array has levels 0 to {n_levels}"
            )));
        }
        Detail::Level(level) => (level, 1),
        Detail::Layers(n) if !(1..=n_layers as u32).contains(&n) => {
            return Err(Error::invalid(format!(
                "{n} layers were requested, but the frame has {n_layers}; request 1 to {n_layers}"
            )));
        }
        Detail::Layers(n) => (0, n as usize),
        Detail::Error(error) if error.is_nan() || error < 0.0 => {
            return Err(Error::invalid(format!("error {error:?} is invalid; give 0 or a positive number")));
        }
        Detail::Error(error) => {
            let is_enough = |promise: Promise| match promise.mode {
                Mode::Rms => promise.value <= error,
                _ => promise.bound.is_some_and(|bound| bound <= error),
            };
            (0, 1 + (0..n_layers).position(|k| is_enough(promised(k))).unwrap_or(n_layers - 1))
        }
    };
    let promise = match promised(layers - 1) {
        // The mean is known for all elements only, not for those of a level.
        Promise { mode: Mode::Rms, bound: Some(bound), .. } if level > 0 => {
            Promise { mode: Mode::Abs, value: bound, bound: Some(bound) }
        }
        promise => promise,
    };
    let end = match level {
        0 => payload.end(layers),
        _ => payload.end_of(&Arrays::of_steps(head.grid, head.grid.n_steps(level)))?,
    };
    let layers = layers as u32;
    Ok(Part { level, n_levels, layers, n_layers: n_layers as u32, n_bytes: end as u64, promise })
}

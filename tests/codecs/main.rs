//! Codecs and frames on the CPU: bytes, values, bounds and regions, the golden frames, and the second encoders in
//! `oracle`.

#[path = "../common/mod.rs"]
mod common;

mod bounds;
mod cci;
mod checksum;
mod chunks;
mod context_rejects;
mod float_state;
mod folds;
mod golden;
mod level_sizes;
mod levels;
mod lists;
mod missing;
mod multigrid;
mod quality;
mod real_data;
mod regions;
mod roundtrip;
mod sparse;
mod sparse_golden;
mod toy;
mod vectors;
mod zfp;
mod zfp_blocks;

//! The toy codec of docs/architecture.md works.

#[path = "../../examples/toy_codec.rs"]
mod toy_codec;

#[test]
fn the_toy_codec_runs() {
    toy_codec::main().unwrap();
}

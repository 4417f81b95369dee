//! The frame format and the codecs on CPUs: pure functions of bytes.
//!
//! Layers, each using only those above it: `error`, `types`, `settings`, `format`; `cpu`; `stage`; `codec`.

pub mod codec;
pub mod cpu;
pub mod error;
pub mod format;
pub mod kernel_struct;
pub mod settings;
pub mod stage;
pub mod types;

/// The version of gridz.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

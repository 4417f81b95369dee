//! The public interfaces of the library: in C, and for stores of chunks.

#[path = "../common/mod.rs"]
mod common;

mod bulk;
mod c_api;
mod library;
mod typed;

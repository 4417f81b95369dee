//! cci on a GPU.

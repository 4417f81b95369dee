//! Where data is: memory of the host or of a GPU.

use crate::cuda::{Device, DeviceSlice};
use crate::error::{Error, Result};

/// Memory to read.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// Of the host.
    Host(&'a [u8]),
    /// Of the GPU.
    Device(DeviceSlice<'a>),
}

/// Memory to write.
#[derive(Debug)]
pub enum Destination<'a> {
    /// Of the host.
    Host(&'a mut [u8]),
    /// Of the GPU.
    Device(DeviceSlice<'a>),
}

impl<'a> Source<'a> {
    /// Its bytes.
    pub(super) fn n_bytes(&self) -> u64 {
        match self {
            Source::Host(bytes) => bytes.len() as u64,
            Source::Device(bytes) => bytes.n_bytes(),
        }
    }

    /// The memory, for a function of this name, which works in that of the host only.
    ///
    /// # Errors
    /// `UnsupportedJob` if it is the GPU's.
    pub(super) fn on_host(self, function: &str) -> Result<&'a [u8]> {
        match self {
            Source::Host(bytes) => Ok(bytes),
            Source::Device(_) => Err(Error::unsupported(format!(
                "{function} does not take memory of a GPU; copy the frame to the host first"
            ))),
        }
    }

    fn on_device(&self) -> Option<DeviceSlice<'a>> {
        match self {
            Source::Host(_) => None,
            Source::Device(bytes) => Some(*bytes),
        }
    }
}

impl<'a> Destination<'a> {
    /// Its bytes.
    pub(super) fn n_bytes(&self) -> u64 {
        match self {
            Destination::Host(bytes) => bytes.len() as u64,
            Destination::Device(bytes) => bytes.n_bytes(),
        }
    }

    /// The memory, for a function of this name, which works in that of the host only.
    ///
    /// # Errors
    /// `UnsupportedJob` if it is the GPU's.
    pub(super) fn on_host(self, function: &str) -> Result<&'a mut [u8]> {
        match self {
            Destination::Host(bytes) => Ok(bytes),
            Destination::Device(_) => {
                Err(Error::unsupported(format!("{function} does not write to memory of a GPU; give it the host's")))
            }
        }
    }

    /// The same for a while.
    pub(super) fn reborrow(&mut self) -> Destination<'_> {
        match self {
            Destination::Host(bytes) => Destination::Host(bytes),
            Destination::Device(bytes) => Destination::Device(*bytes),
        }
    }

    fn on_device(&self) -> Option<DeviceSlice<'a>> {
        match self {
            Destination::Host(_) => None,
            Destination::Device(bytes) => Some(*bytes),
        }
    }
}

/// The device whose memory source or destination is, if one of them is a GPU's.
///
/// # Errors
/// `InvalidArgument` if they are of two; `Device` if it cannot be used.
pub(super) fn device_of(src: &Source, dst: &Destination) -> Result<Option<&'static Device>> {
    match (src.on_device(), dst.on_device()) {
        (None, None) => Ok(None),
        (Some(one), None) | (None, Some(one)) => Device::of_memory(&[one]).map(Some),
        (Some(src), Some(dst)) => Device::of_memory(&[src, dst]).map(Some),
    }
}

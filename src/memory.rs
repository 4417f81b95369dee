//! Where data is: memory of the host or of a GPU.

use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_cuda::{Device, DeviceSlice};

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

    /// Its first bytes, so many.
    ///
    /// # Errors
    /// `Truncated` if it has fewer.
    pub(super) fn start(self, n_bytes: u64) -> Result<Self> {
        if self.n_bytes() < n_bytes {
            let text = format!("the frame ends after {} of {n_bytes} bytes", self.n_bytes());
            return Err(Error::new(ErrorKind::Truncated, text));
        }
        match self {
            Source::Host(bytes) => Ok(Source::Host(&bytes[..n_bytes as usize])),
            Source::Device(bytes) => bytes.slice(0..n_bytes).map(Source::Device),
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

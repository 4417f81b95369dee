//! Host or GPU memory that a call reads or writes.

use crate::context::Context;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_cuda::{Device, DeviceSlice};

/// Memory to read.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// Host memory.
    Host(&'a [u8]),
    /// Memory of a GPU.
    Device(DeviceSlice<'a>),
}

/// Memory to write.
#[derive(Debug)]
pub enum Destination<'a> {
    /// Host memory.
    Host(&'a mut [u8]),
    /// Memory of a GPU.
    Device(DeviceSlice<'a>),
}

macro_rules! from_host_memory {
    ($([$($generics:tt)*] $bytes:ty;)+) => {$(
        impl<'a, $($generics)*> From<&'a $bytes> for Source<'a> {
            fn from(bytes: &'a $bytes) -> Self {
                Self::Host(bytes)
            }
        }

        impl<'a, $($generics)*> From<&'a mut $bytes> for Destination<'a> {
            fn from(bytes: &'a mut $bytes) -> Self {
                Self::Host(bytes)
            }
        }
    )+};
}

from_host_memory! {
    [] [u8];
    [] Vec<u8>;
    [const N: usize] [u8; N];
}

impl<'a> From<DeviceSlice<'a>> for Source<'a> {
    fn from(slice: DeviceSlice<'a>) -> Self {
        Self::Device(slice)
    }
}

impl<'a> From<DeviceSlice<'a>> for Destination<'a> {
    fn from(slice: DeviceSlice<'a>) -> Self {
        Self::Device(slice)
    }
}

impl<'a> Source<'a> {
    pub(super) fn n_bytes(&self) -> u64 {
        match self {
            Source::Host(bytes) => bytes.len() as u64,
            Source::Device(bytes) => bytes.n_bytes(),
        }
    }

    /// The first `n_bytes` bytes.
    ///
    /// # Errors
    /// `Truncated` if it has fewer.
    pub(super) fn start(self, n_bytes: u64) -> Result<Self> {
        if self.n_bytes() < n_bytes {
            let text = format!("the frame is truncated: it has {} of {n_bytes} bytes", self.n_bytes());
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
    pub(super) fn n_bytes(&self) -> u64 {
        match self {
            Destination::Host(bytes) => bytes.len() as u64,
            Destination::Device(bytes) => bytes.n_bytes(),
        }
    }

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

/// The device that owns the source or the destination; `None` if both are host memory.
///
/// # Errors
/// `InvalidArgument` if they belong to two devices; `Device` if the device cannot be used.
pub(super) fn device_of(src: &Source, dst: &Destination) -> Result<Option<&'static Device>> {
    match (src.on_device(), dst.on_device()) {
        (None, None) => Ok(None),
        (Some(one), None) | (None, Some(one)) => Device::of_memory(&[one]).map(Some),
        (Some(src), Some(dst)) => Device::of_memory(&[src, dst]).map(Some),
    }
}

/// The bytes of `src`. If they are in memory of `device`, copies as many of the first ones as fit
/// to `start`, and returns those.
pub(super) fn start_of<'a>(
    device: Option<&'static Device>,
    src: Source<'a>,
    start: &'a mut [u8],
) -> Result<&'a [u8]> {
    match (src, device) {
        (Source::Device(src), Some(device)) => {
            let n_bytes = src.n_bytes().min(start.len() as u64);
            let start = &mut start[..n_bytes as usize];
            device.stream()?.copy_out(src.slice(0..n_bytes)?, start)?;
            Ok(start)
        }
        (Source::Host(src), _) => Ok(src),
        (Source::Device(_), None) => unreachable!("memory of a GPU has a device"),
    }
}

/// Runs CPU `work` on host memory. Memory of `device` is copied before and after: the whole source,
/// and up to `need` bytes of the destination. Returns the number of bytes that `work` wrote.
pub(super) fn through_host(
    device: Option<&'static Device>,
    src: Source,
    dst: Destination,
    need: u64,
    context: &Context,
    work: impl FnOnce(&[u8], &mut [u8]) -> Result<usize>,
) -> Result<usize> {
    let stream = match (&src, &dst) {
        (Source::Host(_), Destination::Host(_)) => None,
        _ => Some(device.expect("memory of a GPU has a device").stream()?),
    };
    let copied;
    let src = match (src, &stream) {
        (Source::Device(bytes), Some(stream)) => {
            let mut host = context.scratch(bytes.n_bytes() as usize)?;
            stream.copy_out(bytes, &mut host)?;
            copied = host;
            &copied
        }
        (Source::Host(bytes), _) => bytes,
        (Source::Device(_), None) => unreachable!("memory of a GPU has a stream"),
    };
    match (dst, &stream) {
        (Destination::Device(bytes), Some(stream)) => {
            let mut host = context.scratch(need as usize)?;
            let n_bytes = work(src, &mut host)?;
            stream.copy_in(bytes.slice(0..n_bytes as u64)?, &host[..n_bytes])?;
            Ok(n_bytes)
        }
        (Destination::Host(bytes), _) => work(src, bytes),
        (Destination::Device(_), None) => unreachable!("memory of a GPU has a stream"),
    }
}

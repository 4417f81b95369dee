//! Checks the arguments of an asynchronous call before it enqueues work: the memory that the caller
//! lends to a stream, and the settings.

use crate::context::Context;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::settings::Backend;
use gridz_cuda::{Device, DeviceSlice, Entered, Stream, StreamHandle, gpu_of_address};

/// A memory argument and its name.
pub type NamedSlice<'a> = (&'static str, DeviceSlice<'a>);

/// Maximum number of memory arguments of a call.
pub const MAX_ARGS: usize = 5;

/// A memory argument: its name, its memory, the bytes it must have and its required alignment.
pub type Requirement<'a> = (&'static str, DeviceSlice<'a>, u64, u64);

/// Checks lengths and alignments, and that no two arguments overlap.
///
/// # Errors
/// `InvalidArgument` with the name of the argument.
pub fn check_args(all: [Option<Requirement>; MAX_ARGS]) -> Result<[Option<NamedSlice>; MAX_ARGS]> {
    let mut checked: [Option<NamedSlice>; MAX_ARGS] = [None; MAX_ARGS];
    for (i, (name, slice, need, alignment)) in all.into_iter().flatten().enumerate() {
        let (start, have) = (slice.address(), slice.n_bytes());
        if have < need {
            return Err(Error::invalid(format!("{name} has {have} bytes; {need} are needed")));
        }
        if have == 0 {
            continue;
        }
        if !start.is_multiple_of(alignment) {
            let text = format!("{name} is at {start:#x}; it must be aligned to {alignment} bytes");
            return Err(Error::invalid(text));
        }
        let overlaps =
            |other: &DeviceSlice| start < other.address() + other.n_bytes() && other.address() < start + have;
        if let Some((other, _)) = checked.iter().flatten().find(|(_, other)| overlaps(other)) {
            return Err(Error::invalid(format!("{other} and {name} overlap; pass separate memory for each")));
        }
        checked[i] = Some((name, slice));
    }
    Ok(checked)
}

/// Opens the stream, enters its context, and checks that it can access all memory. A default stream
/// belongs to the GPU of `memory`, whose name is `name`.
///
/// # Errors
/// `InvalidArgument` for memory that the stream's GPU cannot access, `Device`.
pub fn open<'a>(
    stream: StreamHandle<'a>,
    name: &str,
    memory: DeviceSlice,
    all: &[Option<NamedSlice>],
    context: &Context,
) -> Result<(Stream<'a>, Entered)> {
    let stream = stream.open(|| Device::of_memory(&[memory])).map_err(|error| match error.kind() {
        ErrorKind::InvalidArgument => not_gpu_memory(name),
        _ => error,
    })?;
    let device = stream.device();
    context.check_device(device)?;
    let entered = device.enter()?;
    for &(name, slice) in all.iter().flatten() {
        if !device.reaches(slice)? {
            return Err(match gpu_of_address(slice.address()) {
                Some(other) => Error::invalid(format!(
                    "{name} is memory of GPU {other}, which GPU {} of the stream cannot access",
                    device.gpu().ordinal
                )),
                None => not_gpu_memory(name),
            });
        }
    }
    Ok((stream, entered))
}

fn not_gpu_memory(name: &str) -> Error {
    Error::invalid(format!(
        "{name} is not memory that a GPU can access; for host memory use gridz_compress and gridz_decompress"
    ))
}

/// Checks that the settings allow a GPU.
///
/// # Errors
/// `Device` if they do not.
pub fn check_gpu_allowed(context: &Context) -> Result<()> {
    match context.settings()?.backend {
        Backend::Cpu => Err(Error::device(
            "asynchronous calls need a GPU, but GRIDZ_BACKEND=cpu excludes GPUs; unset it, or use gridz_compress \
             and gridz_decompress",
        )),
        Backend::Auto | Backend::Cuda => Ok(()),
    }
}

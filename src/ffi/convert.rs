//! C's descriptions become the engine's, and the engine's answers C's.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use once_cell::race::OnceBox;

use crate::codec::registry::{self, CODECS};
use crate::engine::{BlockCounts, Context, FrameInfo, Spec, Verify};
use crate::error::{Error, Result};
use crate::ffi::types::*;
use crate::settings::Backend;
use crate::types::{Array, ByteOrder, DType, MAX_RANK, Shape};

/// The array that C describes.
pub fn array(c: &gridz_array, extents: &[u64; MAX_RANK]) -> Result<Array> {
    let dtype = u8::try_from(c.dtype).ok().and_then(DType::from_id).ok_or_else(|| {
        let last = DType::ALL.len() - 1;
        Error::invalid(format!("dtype {} is none of GRIDZ_DTYPE_*, which are 0 to {last}", c.dtype))
    })?;
    let order = match c.byte_order {
        GRIDZ_BYTE_ORDER_NATIVE => ByteOrder::NATIVE,
        GRIDZ_BYTE_ORDER_LITTLE => ByteOrder::Little,
        GRIDZ_BYTE_ORDER_BIG => ByteOrder::Big,
        other => return Err(Error::invalid(format!("byte_order {other} is none of GRIDZ_BYTE_ORDER_*"))),
    };
    let element_size = match (c.element_size, dtype.size()) {
        (0, Some(size)) => size,
        (0, None) => return Err(Error::invalid("GRIDZ_DTYPE_OPAQUE needs element_size, the bytes of one element")),
        (size, _) => size,
    };
    Array::with_size(dtype, order, element_size, Shape::new(&extents[..c.rank as usize])?)
}

/// What to compress with.
pub fn spec(c: &gridz_options, codec: Option<&CStr>) -> Result<Spec> {
    check_mode(c)?;
    let id = match codec {
        Some(name) => codec_id(name)?,
        None => registry::DEFAULT,
    };
    Spec::new(u32::from(id), c.level)
}

fn codec_id(name: &CStr) -> Result<u8> {
    let found = CODECS.iter().find(|entry| entry.name.as_bytes() == name.to_bytes());
    found.map(|entry| entry.id).ok_or_else(|| {
        let names: Vec<&str> = CODECS.iter().map(|entry| entry.name).collect();
        let (name, version, names) = (name.to_string_lossy(), crate::VERSION, names.join(", "));
        Error::unsupported(format!(
            "codec \"{name}\" is unknown to gridz {version}; it has {names}, and NULL is the default"
        ))
    })
}

fn check_mode(c: &gridz_options) -> Result<()> {
    let wish = match c.mode {
        GRIDZ_MODE_LOSSLESS if c.value == 0.0 => return Ok(()),
        GRIDZ_MODE_LOSSLESS => {
            return Err(Error::invalid(format!("value must be 0 in GRIDZ_MODE_LOSSLESS, not {}", c.value)));
        }
        GRIDZ_MODE_ABSOLUTE_ERROR => "GRIDZ_MODE_ABSOLUTE_ERROR",
        GRIDZ_MODE_RELATIVE_ERROR => "GRIDZ_MODE_RELATIVE_ERROR",
        GRIDZ_MODE_BITS_PER_VALUE => "GRIDZ_MODE_BITS_PER_VALUE",
        GRIDZ_MODE_PRECISION => "GRIDZ_MODE_PRECISION",
        other => return Err(Error::invalid(format!("mode {other} is none of GRIDZ_MODE_*"))),
    };
    let version = crate::VERSION;
    Err(Error::unsupported(format!("no codec of gridz {version} has {wish}; use GRIDZ_MODE_LOSSLESS")))
}

/// Whether to compare checksums.
pub fn verify(c: &gridz_options) -> Result<Verify> {
    match c.flags {
        0 => Ok(Verify::Checksum),
        GRIDZ_FLAG_SKIP_CHECKSUM => Ok(Verify::Structure),
        other => Err(Error::invalid(format!("flags {other:#x} has bits that are none of GRIDZ_FLAG_*"))),
    }
}

/// The context that C asks for.
pub fn context(c: &gridz_context_options) -> Result<Context> {
    let threads = (c.threads != 0).then_some(c.threads as usize);
    let context = Context::new(threads, (c.memory_limit != 0).then_some(c.memory_limit))?;
    match c.device {
        GRIDZ_DEVICE_AUTO => Ok(context),
        from_one => context.on(Backend::Cuda, Some(from_one - 1)),
    }
}

/// What a frame says, for a struct of `struct_size` bytes.
pub fn frame_info(info: &FrameInfo, struct_size: usize) -> gridz_frame_info {
    let shape = info.array.shape();
    let mut extents = [0; GRIDZ_MAX_RANK];
    extents[..shape.extents().len()].copy_from_slice(shape.extents());
    gridz_frame_info {
        struct_size,
        dtype: u32::from(info.array.dtype().id()),
        byte_order: match info.array.order() {
            ByteOrder::Little => GRIDZ_BYTE_ORDER_LITTLE,
            ByteOrder::Big => GRIDZ_BYTE_ORDER_BIG,
        },
        element_size: info.array.element_size(),
        rank: u32::from(shape.rank()),
        extents,
        array_bytes: info.array.n_bytes(),
        frame_bytes: info.frame_bytes,
        codec_name: codec_name(info.codec),
        codec: u32::from(info.codec),
        reserved: 0,
    }
}

/// The counts, for a struct of `struct_size` bytes.
pub fn block_counts(counts: &BlockCounts, struct_size: usize) -> gridz_block_counts {
    let BlockCounts { all, raw, constant, packed, entropy, fixed_point, dictionary } = *counts;
    gridz_block_counts { struct_size, all, raw, constant, packed, entropy, fixed_point, dictionary }
}

/// The codec's name with the 0 byte that C wants, alive for ever; null if there is no such codec.
fn codec_name(id: u8) -> *const c_char {
    static NAMES: OnceBox<Vec<CString>> = OnceBox::new();
    let to_c = |name: &str| CString::new(name).expect("codec names have no 0 byte");
    let names = NAMES.get_or_init(|| Box::new(CODECS.iter().map(|entry| to_c(entry.name)).collect()));
    let position = CODECS.iter().position(|entry| entry.id == id);
    position.map_or(ptr::null(), |i| names[i].as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_of_c_are_those_of_the_library() {
        let version = format!("{GRIDZ_VERSION_MAJOR}.{GRIDZ_VERSION_MINOR}.{GRIDZ_VERSION_PATCH}");
        assert_eq!(version, crate::VERSION);
        assert_eq!(GRIDZ_MAX_RANK, MAX_RANK);
        let dtypes = [
            (DType::Opaque, GRIDZ_DTYPE_OPAQUE),
            (DType::U8, GRIDZ_DTYPE_U8),
            (DType::U16, GRIDZ_DTYPE_U16),
            (DType::U32, GRIDZ_DTYPE_U32),
            (DType::U64, GRIDZ_DTYPE_U64),
            (DType::I8, GRIDZ_DTYPE_I8),
            (DType::I16, GRIDZ_DTYPE_I16),
            (DType::I32, GRIDZ_DTYPE_I32),
            (DType::I64, GRIDZ_DTYPE_I64),
            (DType::F16, GRIDZ_DTYPE_F16),
            (DType::Bf16, GRIDZ_DTYPE_BF16),
            (DType::F32, GRIDZ_DTYPE_F32),
            (DType::F64, GRIDZ_DTYPE_F64),
            (DType::C64, GRIDZ_DTYPE_C64),
            (DType::C128, GRIDZ_DTYPE_C128),
        ];
        assert_eq!(dtypes.map(|(dtype, _)| dtype), DType::ALL);
        assert!(dtypes.iter().all(|&(dtype, c)| u32::from(dtype.id()) == c));
    }

    #[test]
    fn every_codec_is_found_by_its_name() {
        for entry in CODECS {
            let name = CString::new(entry.name).unwrap();
            assert_eq!(codec_id(&name).unwrap(), entry.id);
            assert!(!codec_name(entry.id).is_null());
        }
        assert!(codec_id(c"").is_err());
        assert!(codec_name(255).is_null());
    }
}

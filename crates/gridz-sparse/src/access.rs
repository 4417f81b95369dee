//! Access to the values of a matrix, for any value codec: specialized code for each codec where
//! speed matters, or one version for all.

use crate::element::Element;
use crate::frame::View;
use crate::layout::{LANES, Slice, ValueBlock, ValueCodec};
use crate::values::{Blocks, Constant, Dictionary, Plain, Values};
use gridz_codecs::error::Result;

/// A computation on the values of a matrix, generic over the value codec.
pub trait WithValues<T> {
    /// The result.
    type Output;
    fn run<V: Values<T>>(self, values: V) -> Result<Self::Output>;
}

/// Runs a computation with the values of a matrix, specialized for their codec.
///
/// # Errors
/// Errors of the computation, and `OutOfMemory`.
pub fn with_values<T: Element, W: WithValues<T>>(view: &View, work: W) -> Result<W::Output> {
    match view.head.codec {
        ValueCodec::Plain => work.run(Plain(view.values())),
        ValueCodec::Constant => work.run(Constant(view.different::<T>(0))),
        ValueCodec::Dictionary8 => {
            let table = Dictionary::<T, 1>::table(view)?;
            work.run(Dictionary::<T, 1>::new(view, &table))
        }
        ValueCodec::Dictionary16 => {
            let table = Dictionary::<T, 2>::table(view)?;
            work.run(Dictionary::<T, 2>::new(view, &table))
        }
        ValueCodec::Blocks => work.run(Blocks(*view)),
    }
}

/// The values of a matrix, for code that is compiled once for all codecs: each step is a call.
#[derive(Clone, Copy)]
pub enum AnyValues<'a, T> {
    /// See [`ValueCodec::Plain`].
    Plain(Plain<'a>),
    /// See [`ValueCodec::Constant`].
    Constant(T),
    /// See [`ValueCodec::Dictionary8`].
    Dictionary8(Dictionary<'a, T, 1>),
    /// See [`ValueCodec::Dictionary16`].
    Dictionary16(Dictionary<'a, T, 2>),
    /// See [`ValueCodec::Blocks`].
    Blocks(Blocks<'a>),
}

impl<T: Element> Values<T> for AnyValues<'_, T> {
    type OfSlice = (usize, ValueBlock);

    fn any(&self) -> AnyValues<'_, T> {
        *self
    }

    #[inline(always)]
    fn of_slice(&self, i: usize, slice: &Slice) -> Self::OfSlice {
        let block = match self {
            Self::Blocks(Blocks(view)) => view.block(i),
            _ => ValueBlock { first: 0, at: 0, width: 0, shift: 0 },
        };
        (slice.values_at as usize, block)
    }

    #[inline(never)]
    fn step(&self, (at, block): Self::OfSlice, step: usize) -> [T; LANES] {
        match self {
            Self::Plain(values) => values.step(at, step),
            Self::Constant(value) => [*value; LANES],
            Self::Dictionary8(values) => values.step(at, step),
            Self::Dictionary16(values) => values.step(at, step),
            Self::Blocks(values) => values.step(block, step),
        }
    }
}

/// Runs a computation with the values of a matrix, as one type for all codecs.
///
/// # Errors
/// Errors of the computation, and `OutOfMemory`.
pub fn with_any_values<T: Element, R>(view: &View, work: impl FnOnce(AnyValues<T>) -> Result<R>) -> Result<R> {
    match view.head.codec {
        ValueCodec::Plain => work(AnyValues::Plain(Plain(view.values()))),
        ValueCodec::Constant => work(AnyValues::Constant(view.different::<T>(0))),
        ValueCodec::Dictionary8 => {
            let table = Dictionary::<T, 1>::table(view)?;
            work(AnyValues::Dictionary8(Dictionary::new(view, &table)))
        }
        ValueCodec::Dictionary16 => {
            let table = Dictionary::<T, 2>::table(view)?;
            work(AnyValues::Dictionary16(Dictionary::new(view, &table)))
        }
        ValueCodec::Blocks => work(AnyValues::Blocks(Blocks(*view))),
    }
}

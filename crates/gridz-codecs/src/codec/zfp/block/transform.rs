//! The transform of a block, which makes all but its first numbers small.

use crate::stage::word::Word;

/// A line of four numbers.
type Line<W> = [W; 4];

/// From values to coefficients, with rounding.
#[inline(always)]
fn forward<W: Word>([mut x, mut y, mut z, mut w]: Line<W>) -> Line<W> {
    x = x.wrapping_add(w).shift_signed(1);
    w = w.wrapping_sub(x);
    z = z.wrapping_add(y).shift_signed(1);
    y = y.wrapping_sub(z);
    x = x.wrapping_add(z).shift_signed(1);
    z = z.wrapping_sub(x);
    w = w.wrapping_add(y).shift_signed(1);
    y = y.wrapping_sub(w);
    w = w.wrapping_add(y.shift_signed(1));
    y = y.wrapping_sub(w.shift_signed(1));
    [x, y, z, w]
}

/// The approximate inverse of [`forward`].
#[inline(always)]
fn backward<W: Word>([mut x, mut y, mut z, mut w]: Line<W>) -> Line<W> {
    y = y.wrapping_add(w.shift_signed(1));
    w = w.wrapping_sub(y.shift_signed(1));
    y = y.wrapping_add(w);
    w = w.wrapping_sub(y.wrapping_sub(w));
    z = z.wrapping_add(x);
    x = x.wrapping_sub(z.wrapping_sub(x));
    y = y.wrapping_add(z);
    z = z.wrapping_sub(y.wrapping_sub(z));
    w = w.wrapping_add(x);
    x = x.wrapping_sub(w.wrapping_sub(x));
    [x, y, z, w]
}

/// From values to higher-order differences.
#[inline(always)]
fn forward_reversible<W: Word>([x, mut y, mut z, mut w]: Line<W>) -> Line<W> {
    w = w.wrapping_sub(z);
    z = z.wrapping_sub(y);
    y = y.wrapping_sub(x);
    w = w.wrapping_sub(z);
    z = z.wrapping_sub(y);
    w = w.wrapping_sub(z);
    [x, y, z, w]
}

/// The exact inverse of [`forward_reversible`].
#[inline(always)]
fn backward_reversible<W: Word>([x, mut y, mut z, mut w]: Line<W>) -> Line<W> {
    w = w.wrapping_add(z);
    z = z.wrapping_add(y);
    w = w.wrapping_add(z);
    y = y.wrapping_add(x);
    z = z.wrapping_add(y);
    w = w.wrapping_add(z);
    [x, y, z, w]
}

/// Replaces all lines along the axis with this stride.
#[inline(always)]
fn along<W: Word>(block: &mut [W], stride: usize, lift: impl Fn(Line<W>) -> Line<W>) {
    for four in block.chunks_exact_mut(4 * stride) {
        for i in 0..stride {
            let line = lift([four[i], four[i + stride], four[i + 2 * stride], four[i + 3 * stride]]);
            for (k, number) in line.into_iter().enumerate() {
                four[i + k * stride] = number;
            }
        }
    }
}

/// Transforms a block of 4^rank numbers.
#[inline(always)]
pub fn transform<W: Word>(block: &mut [W], rank: u32, is_reversible: bool) {
    for axis in 0..rank {
        if is_reversible {
            along(block, 4usize.pow(axis), forward_reversible);
        } else {
            along(block, 4usize.pow(axis), forward);
        }
    }
}

/// Undoes [`transform`].
#[inline(always)]
pub fn restore<W: Word>(block: &mut [W], rank: u32, is_reversible: bool) {
    for axis in (0..rank).rev() {
        if is_reversible {
            along(block, 4usize.pow(axis), backward_reversible);
        } else {
            along(block, 4usize.pow(axis), backward);
        }
    }
}

/// A word in which every other bit is 1, from the second bit on.
#[inline(always)]
pub fn alternating<W: Word>() -> W {
    W::from_u64(0xaaaa_aaaa_aaaa_aaaa)
}

/// The digits of a number to base −2. Small numbers of either sign have leading zeros.
#[inline(always)]
pub fn to_negabinary<W: Word>(number: W) -> W {
    number.wrapping_add(alternating()) ^ alternating()
}

/// The number with these digits.
#[inline(always)]
pub fn from_negabinary<W: Word>(digits: W) -> W {
    (digits ^ alternating()).wrapping_sub(alternating())
}

//! The range of an array's elements, which turns a relative bound into an absolute one.

use crate::cpu::isa::Isa;
use crate::cpu::pool::Pool;
use crate::error::{Result, try_vec};
use crate::stage::element::Element;
use crate::stage::missing::MissingWords;
use crate::stage::quantize::Numbers;
use crate::stage::rows::{LANES, Simd, SimdWord, WithSimd, dispatch, first_lanes};
use crate::stage::word::Word;

/// Finds the range of elements.
pub struct Ranger<'a> {
    /// Workers for large arrays.
    pub pool: &'a Pool,
    /// Instructions that may be used.
    pub level: Isa,
    /// How elements become words.
    pub element: Element,
    /// The order of the elements' numbers.
    pub numbers: Numbers,
}

impl Ranger<'_> {
    /// The absolute bound: `value` times the range of the elements in `bytes`, both rounded down; 0
    /// if there is no range. Elements that are not finite, or missing, are ignored. `missing` has
    /// the words of each part of the elements.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn bound<W: SimdWord>(&self, bytes: &[u8], missing: Option<&[MissingWords<W>]>, value: f64) -> Result<f64> {
        let n_pieces = self.pool.pieces(bytes.len() as u64).max(1);
        let look = |bytes| dispatch(self.level, Look { ranger: self, bytes, missing });
        let range = if n_pieces == 1 {
            look(bytes)
        } else {
            let n_elements = bytes.len() / self.element.bytes;
            let piece_bytes = n_elements.div_ceil(n_pieces).next_multiple_of(LANES) * self.element.bytes;
            let mut pieces = try_vec(n_pieces, "bookkeeping")?;
            pieces.extend(bytes.chunks(piece_bytes));
            let ranges = self.pool.map(pieces, look);
            ranges.into_iter().flatten().reduce(|a, b| [a[0].min_max_signed(b[0]).0, a[1].min_max_signed(b[1]).1])
        };
        Ok(bound_of(self.numbers, range, value))
    }
}

/// The absolute bound: `value` times the range of numbers between these places; 0 without any.
pub fn bound_of<W: Word>(numbers: Numbers, range: Option<[W; 2]>, value: f64) -> f64 {
    range.map_or(0.0, |[least, most]| {
        let [least, most] = [least, most].map(|place| numbers.at_place(place));
        product_down(numbers.difference_down(most, least), value)
    })
}

/// Finds the least and the greatest place of numbers, in the order of the numbers.
struct Look<'a, W> {
    ranger: &'a Ranger<'a>,
    bytes: &'a [u8],
    /// The elements to ignore, for each part; parts alternate among the lanes.
    missing: Option<&'a [MissingWords<W>]>,
}

impl<W: SimdWord> WithSimd<W> for Look<'_, W> {
    type Output = Option<[W; 2]>;

    #[inline(always)]
    fn run<S: Simd<W>>(self, s: S) -> Option<[W; 2]> {
        let Ranger { element, numbers, .. } = *self.ranger;
        let (last, first) = (W::low_mask(W::BITS - 1), W::from_u64(1) << (W::BITS - 1));
        let (mut least, mut most) = (s.splat(last), s.splat(first));
        let mut any = 0;
        let mut bytes = self.bytes;
        while !bytes.is_empty() {
            let n = LANES.min(bytes.len() / element.bytes);
            let row = if n == LANES {
                s.load_elements(element, bytes)
            } else {
                let mut words = [W::default(); LANES];
                element.load(bytes, &mut words[..n]);
                s.load(&words)
            };
            let (places, are_finite) = numbers.places(s, row);
            let mut counting = are_finite & first_lanes(n);
            match self.missing {
                None => {}
                Some([missing]) => counting &= missing.present(s, row),
                Some(parts) => {
                    // Two parts: real parts are in the even lanes.
                    let present = parts.iter().enumerate().map(|(i, part)| part.present(s, row) & 0x5555_5555 << i);
                    counting &= present.fold(0, |all, present| all | present);
                }
            }
            least = s.select(counting, s.min_signed(least, places), least);
            most = s.select(counting, s.max_signed(most, places), most);
            any |= counting;
            bytes = &bytes[n * element.bytes..];
        }
        (any != 0).then(|| [s.lowest(least), s.highest(most)])
    }
}

/// a · b, rounded down, for numbers that are not below 0.
fn product_down(a: f64, b: f64) -> f64 {
    let nearest = (a * b).min(f64::MAX);
    // Exact unless it is near the subnormal numbers.
    let rest = a.mul_add(b, -nearest);
    if rest < 0.0 || nearest < f64::MIN_POSITIVE / f64::EPSILON { nearest.next_down().max(0.0) } else { nearest }
}

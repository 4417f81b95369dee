//! Tests of the rows of all levels.

use super::*;
use crate::types::DType;

/// The results of all operations for two rows.
struct Computed<'a, W> {
    words: &'a [W; 2 * LANES],
    mask: u32,
}

impl<W: Word> WithSimd<W> for Computed<'_, W> {
    type Output = (Vec<Vec<W>>, Vec<u8>);

    fn run<S: Simd<W>>(self, s: S) -> Self::Output {
        let Self { words, mask } = self;
        let (a, b) = (s.load(&words[..]), s.load(&words[LANES..]));
        let counts = s.shift_right(b, W::BITS - 7);
        let mut string = vec![0; LANES * W::BYTES];
        s.store_bytes(a, &mut string);
        let mut all = vec![
            vec![s.lowest(a), s.highest(a), s.any(a)],
            vec![W::from_u64(s.to_multiples(mask, a, 10.0, 1e6).is_some().into())],
        ];
        let multiples = s.to_multiples(mask, a, 10.0, 1e6).unwrap_or(a);
        let rows = [
            s.select(mask, a, b),
            s.fill_forward(mask, a, b),
            s.shift_left_each(a, counts),
            s.shift_right_each(a, counts),
            s.quotients(s.shift_right_signed(a, W::BITS / 2), 1000.0),
            s.prefix_sum(a),
            s.select_or_zero(mask, multiples),
            s.mul(a, b),
            s.mul_scalar(a, words[3]),
            s.unpack_bits(&string, mask.count_ones().min(W::BITS - 7)),
        ];
        for row in rows {
            let mut row_words = vec![W::default(); LANES];
            s.store(row, &mut row_words);
            all.push(row_words);
        }
        // Groups of eight numbers of any width, packed and unpacked.
        let numbers = s.shift_right(a, mask.count_ones() % W::BITS);
        let mut lengths = [0; LANES / 8];
        let mut plain = [W::default(); LANES];
        s.store(numbers, &mut plain);
        s.group_lengths(&plain, &mut lengths);
        let mut packed = vec![0; BYTE_GROUPS_ROOM];
        s.pack_byte_groups(numbers, lengths, &mut packed);
        packed[lengths.iter().map(|&length| usize::from(length)).sum()..].fill(0xa5);
        let mut unpacked = vec![W::default(); LANES];
        s.store(s.unpack_byte_groups(lengths, &packed), &mut unpacked);
        assert!(unpacked == plain);
        all.push(unpacked);
        let zeros = s.total(s.add_group_zeros(s.add_group_zeros(s.no_sum(), numbers), a));
        all.push(vec![W::from_u64(zeros)]);
        let table: [u8; 128] = std::array::from_fn(|i| (i as u8).wrapping_mul(77));
        let mut looked_up: Vec<u8> = string.iter().chain(&packed).map(|byte| byte % 128).collect();
        looked_up.resize(looked_up.len().next_multiple_of(64), 3);
        s.look_up(&table, &mut looked_up);
        all.push(looked_up.iter().chain(&packed).map(|&byte| W::from_u64(byte.into())).collect());
        let mut bytes = vec![0; 8 * LANES];
        for (dtype, place) in [DType::U8, DType::I16, DType::U16, DType::I8].iter().zip(bytes.chunks_mut(64)) {
            let element = Element::of(*dtype).expect("numbers");
            if W::BYTES == 4 {
                s.store_elements(a, element, place);
                let mut row_words = vec![W::default(); LANES];
                s.store(s.load_elements(element, place), &mut row_words);
                all.push(row_words);
            }
        }
        (all, bytes)
    }
}

/// Checks decimal numbers with some other number among them.
fn check<W: SimdWord + std::fmt::Debug>(not_decimal: &[f64]) {
    for mask in [0, 1, 1 << 31, 0xffff, 0xffff_0000, 0x8421_1248, !0x10, u32::MAX] {
        for &other in [0.5].iter().chain(not_decimal) {
            let mut words = [W::default(); 2 * LANES];
            for (i, word) in words.iter_mut().enumerate() {
                *word = W::from_float((i * i) as f64 / 10.0 - 7.0);
            }
            words[4] = W::from_float(other);
            let portable = Computed { words: &words, mask }.run(PORTABLE);
            for level in Isa::all() {
                let computed = dispatch(level, Computed { words: &words, mask });
                assert!(computed == portable, "{level:?} {mask:x} {other}: {computed:?} instead of {portable:?}");
            }
        }
    }
}

/// The results of the operations on floats: dot products and conversions.
struct OfFloats<'a>(&'a [f64; KEYS]);

impl WithSimd<u32> for OfFloats<'_> {
    type Output = ([[[i64; VALUES]; 2]; 5], f64);

    fn run<S: Simd<u32>>(self, s: S) -> Self::Output {
        let Self(values) = self;
        let [a, b]: [[f64; FACTORS]; 2] = [0, KEYS - FACTORS].map(|from| std::array::from_fn(|k| values[from + k]));
        let lanes = [Lanes([0, 1, 2, 3, 4, 5, 6, 7]), Lanes([15, 8, 8, 10, 9, 13, 12, 14])];
        let given = [(1 << 6, i64::MIN), (1 << 3, -7)];
        let ordered = |shift| lanes.map(|lanes| s.ordered_singles(values, &lanes, shift, given));
        let nearest = lanes.map(|lanes| s.nearest(values, &lanes, [given[1], (0, 5)]));
        // The bits of a NaN matter here, because it is only copied.
        let chosen = lanes.map(|lanes| s.chosen(values, &lanes).map(|value| value.to_bits() as i64));
        ([ordered(0), ordered(7), ordered(31), nearest, chosen], s.dot(&a, &b))
    }
}

#[test]
fn operations_on_floats_are_the_same_on_every_level() {
    let special = [-0.0, 1e-45, -1e-40, 3.4e38, -3.5e38, 1e300, f64::INFINITY, f64::NEG_INFINITY, 1e-300, f64::NAN];
    for special in special {
        for at in 0..KEYS {
            let mut values: [f64; KEYS] = std::array::from_fn(|k| (k as f64 - 7.3) * 1.1f64.powi(3 * k as i32));
            values[at] = special;
            let portable = OfFloats(&values).run(PORTABLE);
            for level in Isa::all() {
                let computed = dispatch(level, OfFloats(&values));
                assert_eq!(computed.0, portable.0, "{level:?}: {special} at {at}");
                // The bits of a NaN do not matter.
                let dots = [computed.1, portable.1];
                let are_same = dots[0].to_bits() == dots[1].to_bits() || dots.iter().all(|dot| dot.is_nan());
                assert!(are_same, "{level:?}: {special} at {at}: {dots:?}");
            }
        }
    }
}

/// Converts values to the nearest integers.
struct Nearest<'a>(&'a [f64; KEYS]);

impl WithSimd<u32> for Nearest<'_> {
    type Output = [i64; VALUES];

    fn run<S: Simd<u32>>(self, s: S) -> Self::Output {
        s.nearest(self.0, &Lanes([0, 1, 2, 3, 4, 5, 6, 7]), [(0, 0); 2])
    }
}

#[test]
fn nearest_integers_are_casts_on_every_level() {
    let sizes = [0.0, f64::MIN_POSITIVE, 0.4, 0.5, 1.0, 1.5, 255.9, 4503599627370495.5, 9007199254740993.0, 1e18];
    let most = [9223372036854774784.0, 9223372036854775808.0, 1e19, 1e300, f64::INFINITY, f64::NAN];
    let powers = (-70..70).map(|k| 1.7 * f64::powi(2.0, k));
    let near = [2251799813685247.0, 2251799813685247.5, 2251799813685248.0, 2251799813685248.5];
    for size in sizes.into_iter().chain(most).chain(powers).chain(near) {
        for value in [size, -size] {
            // Alone, and among values of other signs and sizes.
            for others in [[value; VALUES - 1], [7.5, -7.5, 1e15, -1e15, 0.0, -0.0, 1.0]] {
                let values = std::array::from_fn(|k| if k == 0 { value } else { others[(k - 1) % others.len()] });
                let expected: [i64; VALUES] =
                    std::array::from_fn(|k| (values[k] + if values[k] < 0.0 { -0.5 } else { 0.5 }) as i64);
                for level in Isa::all() {
                    assert_eq!(dispatch(level, Nearest(&values)), expected, "{level:?}: {value}");
                }
            }
        }
    }
}

#[test]
fn rows_are_the_same_on_every_level() {
    check::<u32>(&[-0.0, f64::from(f32::MIN_POSITIVE), 0.25, 1e5, 1e30, f64::INFINITY]);
    check::<u64>(&[-0.0, f64::MIN_POSITIVE, 0.25, 0.1 + 0.2, 1e5, 1e300, f64::INFINITY]);
}

//! Folding: reduces an array of any rank to at most the codec's rank.
//!
//! Codecs look for smoothness along at most a few axes. Unit extents carry none and are dropped.
//! Of the others either the leading ones are merged, because neighbors along the trailing ones lie
//! closer in memory, or those in the middle: the first axis is often time. Which one is better
//! depends on the data (`codec::fold_choice`).

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::types::{MAX_RANK, Shape};

/// The fold byte of a frame. The codec's `params.rs` chooses it; decoders obey it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fold {
    /// Drop unit extents, then merge leading axes until at most the codec's rank is left.
    Merge = 0,
    /// One axis with all elements.
    Flat = 1,
    /// Drop unit extents, then merge the second axis with those after it until at most the codec's
    /// rank is left.
    Middle = 3,
}

impl Fold {
    /// The fold with the stored number `id`.
    ///
    /// # Errors
    /// `UnsupportedFormat` for a number this version does not know.
    pub fn from_id(id: u8) -> Result<Self> {
        match id {
            0 => Ok(Fold::Merge),
            1 => Ok(Fold::Flat),
            3 => Ok(Fold::Middle),
            _ => Err(Error::new(
                ErrorKind::UnsupportedFormat,
                format!("the frame header has an unknown fold, {id}; a newer gridz may read this data"),
            )),
        }
    }

    /// The axes that become one, of `rank` axes with extents above 1, where `max_rank` are to be left:
    /// at least one axis, or none if `rank` is 0.
    pub fn merged(self, rank: usize, max_rank: usize) -> Range<usize> {
        let n_merged = 1 + rank.saturating_sub(max_rank);
        match self {
            Fold::Flat => 0..rank,
            Fold::Middle if max_rank > 1 && n_merged > 1 => 1..1 + n_merged,
            Fold::Merge | Fold::Middle => 0..n_merged.min(rank),
        }
    }

    /// The folded shape: between 1 and `max_rank` extents, as many elements as `shape`.
    pub fn apply(self, shape: &Shape, max_rank: usize) -> Shape {
        let all = shape.n_elements();
        let folded = match self {
            Fold::Flat => Shape::new(&[all]),
            Fold::Merge | Fold::Middle if all <= 1 => Shape::new(&[all]),
            Fold::Merge | Fold::Middle => {
                let (mut extents, mut rank) = ([0; MAX_RANK], 0);
                for &n in shape.extents().iter().filter(|&&n| n != 1) {
                    extents[rank] = n;
                    rank += 1;
                }
                // The last merged axis holds the product of the merged extents.
                let merged = self.merged(rank, max_rank);
                let last = merged.end - 1;
                extents[last] = extents[merged.clone()].iter().product();
                // Axes before the merged ones come directly before their product.
                extents.copy_within(..merged.start, last - merged.start);
                Shape::new(&extents[last - merged.start..rank])
            }
        };
        folded.expect("a folded shape has the elements of a valid shape")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(extents: &[u64]) -> Vec<u64> {
        Fold::Merge.apply(&Shape::new(extents).unwrap(), 3).extents().to_vec()
    }

    #[test]
    fn unit_extents_go_and_leading_axes_merge() {
        assert_eq!(merged(&[]), [1]);
        assert_eq!(merged(&[1, 1, 1]), [1]);
        assert_eq!(merged(&[7]), [7]);
        assert_eq!(merged(&[1, 7, 1, 5]), [7, 5]);
        assert_eq!(merged(&[2, 3, 4]), [2, 3, 4]);
        assert_eq!(merged(&[2, 3, 4, 5]), [6, 4, 5]);
        assert_eq!(merged(&[2, 1, 3, 4, 1, 5, 6]), [24, 5, 6]);
        assert_eq!(merged(&[4, 0, 5, 6]), [0]);
    }

    #[test]
    fn axes_in_the_middle_merge() {
        let folded =
            |extents: &[u64], rank| Fold::Middle.apply(&Shape::new(extents).unwrap(), rank).extents().to_vec();
        for extents in [&[] as &[u64], &[7], &[1, 7, 1, 5], &[2, 3, 4], &[4, 0, 5, 6]] {
            assert_eq!(folded(extents, 3), merged(extents));
        }
        assert_eq!(folded(&[2, 3, 4, 5], 3), [2, 12, 5]);
        assert_eq!(folded(&[2, 1, 3, 4, 1, 5, 6], 3), [2, 60, 6]);
        assert_eq!(folded(&[2, 3, 4, 5], 4), [2, 3, 4, 5]);
        assert_eq!(folded(&[2, 3, 4, 5], 2), [2, 60]);
        assert_eq!(folded(&[2, 3, 4, 5], 1), [120]);
    }

    #[test]
    fn flat_is_one_axis() {
        assert_eq!(Fold::Flat.apply(&Shape::new(&[2, 3, 4]).unwrap(), 3).extents(), [24]);
        assert_eq!(Fold::Flat.apply(&Shape::new(&[]).unwrap(), 3).extents(), [1]);
    }
}

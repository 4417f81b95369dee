//! The frequency tables of contexts. Each context has a bit, set if it uses the table of the next
//! context; otherwise its own frequencies follow. Adjacent contexts share a table where that takes
//! fewer bits. The last context has its own.

use crate::error::{Error, Result};
use crate::stage::bits::{Writer, peek};
use crate::stage::entropy::frequencies::{Frequencies, LOG2_TOTAL, MAX_SYMBOLS, TABLE_BITS};

/// Maximum number of bytes of the tables of `contexts` contexts, including the bytes after them that
/// a writer may overwrite.
pub const fn tables_bytes(contexts: usize) -> usize {
    (contexts * (TABLE_BITS + 1)).div_ceil(8) + 8
}

/// Writes the tables of contexts whose symbols have these counts; returns their byte count. The
/// counts of contexts that share a table are added up in the last of them. `ranges`, 2^8 for each
/// context, receives the slot ranges of symbols.
pub fn write<const CONTEXTS: usize>(
    counts: &mut [[u32; MAX_SYMBOLS]; CONTEXTS],
    ranges: &mut [u32],
    out: &mut [u8],
) -> usize {
    let made = |counts: &[u32; MAX_SYMBOLS]| {
        let frequencies = Frequencies::new(counts);
        (frequencies.bits(counts), frequencies)
    };
    let mut of_last = made(&counts[0]);
    let mut tables = [None; CONTEXTS];
    for next in 1..CONTEXTS {
        let mut both = counts[next];
        both.iter_mut().zip(&counts[next - 1]).for_each(|(n, of_last)| *n += of_last);
        let (together, own) = (made(&both), made(&counts[next]));
        if together.0 <= of_last.0 + own.0 {
            (counts[next], of_last) = (both, together);
        } else {
            tables[next - 1] = Some(of_last.1);
            of_last = own;
        }
    }
    tables[CONTEXTS - 1] = Some(of_last.1);
    let mut writer = Writer::new(out);
    for table in &tables {
        writer.push(table.is_none().into(), 1);
        if let Some(frequencies) = table {
            frequencies.write(&mut writer);
        }
    }
    let mut of_next = [0; MAX_SYMBOLS];
    for (table, ranges) in tables.iter().zip(ranges.chunks_exact_mut(1 << u8::BITS)).rev() {
        of_next = table.map_or(of_next, |frequencies| frequencies.ranges());
        ranges[..MAX_SYMBOLS].copy_from_slice(&of_next);
    }
    writer.finish()
}

/// Fills the slots of all tables. Returns the byte count of the tables, and the first slot of each
/// context.
///
/// # Errors
/// `Corrupt`.
pub fn read<const CONTEXTS: usize>(bytes: &[u8], slots: &mut [u32]) -> Result<(usize, [u32; CONTEXTS])> {
    let mut first = [0; CONTEXTS];
    let (mut at, mut n_slots) = (0, 0);
    let mut is_shared = false;
    for first in &mut first {
        *first = n_slots as u32;
        is_shared = peek(bytes, at) & 1 == 1;
        at += 1;
        if !is_shared {
            Frequencies::read(bytes, &mut at)?.fill(&mut slots[n_slots..][..1 << LOG2_TOTAL]);
            n_slots += 1 << LOG2_TOTAL;
        }
    }
    if is_shared {
        return Err(Error::corrupt("a block is damaged: its last context has no table"));
    }
    Ok((at.div_ceil(8), first))
}

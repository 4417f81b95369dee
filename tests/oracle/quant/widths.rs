//! The widths of a block's groups.

use super::{bit_length, bits};

/// bl of the largest number of each group.
fn needed(r: &[u64]) -> Vec<u32> {
    r.chunks(8).map(|group| bit_length(*group.iter().max().unwrap())).collect()
}

/// The table of widths.
pub fn table(r: &[u64]) -> Vec<u32> {
    let needed = needed(r);
    let bytes_of_groups =
        |table: &[u32]| needed.iter().map(|&width| fitting(table, width).unwrap() as usize).sum::<usize>();
    let mut table = needed.clone();
    table.sort_unstable();
    table.dedup();
    let mut tables = vec![table.clone()];
    while table.len() > 1 {
        // The largest width must stay, or numbers of that width would not fit.
        let without = |i: usize| [&table[..i], &table[i + 1..]].concat();
        let all = (0..table.len() - 1).map(without);
        table = all.min_by_key(|table| bytes_of_groups(table)).unwrap();
        tables.push(table.clone());
    }
    let bytes = |table: &[u32]| bytes_of_groups(table) + table.len() + entries(&needed, table).len();
    tables.into_iter().filter(|table| table.len() <= 8).min_by_key(|table| bytes(table)).unwrap()
}

/// The smallest width of the table that fits numbers of this width.
fn fitting(table: &[u32], width: u32) -> Option<u32> {
    table.iter().copied().find(|&other| other >= width)
}

fn entries(needed: &[u32], table: &[u32]) -> Vec<u8> {
    let place = |&width: &u32| table.iter().position(|&other| other >= width).unwrap() as u64;
    bits::string_of(needed.iter().map(place), bit_length(table.len() as u64 - 1))
}

/// The groups' table entries, and the packed groups.
pub fn encode(r: &[u64], table: &[u32]) -> (Vec<u8>, Vec<u8>) {
    let needed = needed(r);
    let mut groups = vec![];
    for (group, &width) in r.chunks(8).zip(&needed) {
        let width = fitting(table, width).unwrap();
        let mut group = group.to_vec();
        group.resize(8, 0);
        for low in (0..width).step_by(8) {
            groups.extend(bits::string_of(group.iter().map(|r| r >> low), (width - low).min(8)));
        }
    }
    (entries(&needed, table), groups)
}

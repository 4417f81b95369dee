//! Arrays of indices: what sparse matrices, meshes and tables have.

use super::generate::Xorshift;

/// So many indices by a rule, if it is one of them.
pub fn words(generator: &str, n: usize, random: &mut Xorshift) -> Option<Vec<u64>> {
    let mut all = Vec::with_capacity(n + 1000);
    match generator {
        // The columns of a matrix: each node of a grid with its neighbours.
        "stencil" => {
            let side = 5 + random.next() % 20;
            let shape = [1 + random.next() % side, side, side];
            for row in 0.. {
                if all.len() >= n {
                    break;
                }
                neighbours(row % shape.iter().product::<u64>(), shape, &mut all);
            }
        }
        // The same of a mesh, whose nodes have 1 to 6 unknowns.
        "mesh" => {
            let unknowns = 1 + random.next() % 6;
            for node in 0.. {
                if all.len() >= n {
                    break;
                }
                let mut nodes: Vec<u64> = (0..4 + random.next() % 12)
                    .map(|_| {
                        let near = random.next() >> 40;
                        2000 + node + if near & 1 == 0 { near % 9 } else { near % 1999 } - near % 5
                    })
                    .collect();
                nodes.sort_unstable();
                nodes.dedup();
                for _ in 0..unknowns {
                    all.extend(nodes.iter().flat_map(|node| (0..unknowns).map(move |u| unknowns * node + u)));
                }
            }
        }
        // Rows of any length, with columns in no relation to those before, which ascend in nearly all rows.
        "columns" => {
            let n_columns = 10 << (random.next() % 20);
            while all.len() < n {
                let mut row: Vec<u64> =
                    (0..random.next() % 40).map(|_| (random.next() >> 20) % n_columns).collect();
                if !random.next().is_multiple_of(64) {
                    row.sort_unstable();
                }
                all.extend(row);
            }
        }
        // Where rows begin: most are as long as each other.
        "pointers" => {
            let (mut at, length) = (0, random.next() % 100);
            while all.len() < n {
                let any = random.next();
                all.extend((0..any % 500).scan(&mut at, |at, _| {
                    **at += length;
                    Some(**at - length)
                }));
                at += any >> 20 & 0xff;
            }
        }
        _ => return None,
    }
    all.truncate(n);
    Some(all)
}

fn neighbours(node: u64, shape: [u64; 3], all: &mut Vec<u64>) {
    let place = [node / (shape[1] * shape[2]), node / shape[2] % shape[1], node % shape[2]];
    let near = |k: usize| place[k].saturating_sub(1)..=(place[k] + 1).min(shape[k] - 1);
    for (z, y) in near(0).flat_map(|z| near(1).map(move |y| (z, y))) {
        all.extend(near(2).map(|x| (z * shape[1] + y) * shape[2] + x));
    }
}

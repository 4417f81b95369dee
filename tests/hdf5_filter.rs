//! The HDF5 filter as used by Rust programs: through the C interface of the system's libhdf5, with
//! the plugin that cargo built together with this test.
//!
//! `tests/hosts` tests many other hosts. Here the filter and the library are compared directly: each
//! reads what the other writes, and both write the same bytes.
//!
//! These tests are a program of their own. A test that starts another program while a file is open
//! here would lend it the file's descriptor, and with it the lock that HDF5 holds on the file.

#![allow(unsafe_code)] // every call of libhdf5

use std::ffi::{CStr, CString, c_uint, c_void};
use std::fs;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

#[path = "api/library.rs"]
mod library;

use gridz::{Array, ByteOrder, Context, DType, Request, Shape, Verify};
use gridz_dataset::hdf5::cd::Values;
use hdf5_sys::h5::{H5is_library_threadsafe, H5open, herr_t, hsize_t};
use hdf5_sys::h5d::*;
use hdf5_sys::h5e::{H5E_DEFAULT, H5E_direction_t, H5E_error2_t, H5Eset_auto2, H5Ewalk2};
use hdf5_sys::h5f::{H5F_ACC_RDONLY, H5F_ACC_TRUNC, H5Fclose, H5Fcreate, H5Fopen};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::*;
use hdf5_sys::h5pl::H5PLprepend;
use hdf5_sys::h5s::{H5S_ALL, H5Sclose, H5Screate_simple};
use hdf5_sys::h5t::{H5T_IEEE_F32BE, H5T_IEEE_F32LE, H5T_IEEE_F64BE, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE};
use hdf5_sys::h5z::H5Z_FLAG_MANDATORY;
use library::library;

const GRIDZ: i32 = 34013;

/// libhdf5 with the plugin in its search path. The guard serializes the tests if libhdf5 is not
/// thread-safe.
fn hdf5() -> Option<MutexGuard<'static, ()>> {
    static IS_SAFE: OnceLock<bool> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let is_safe = *IS_SAFE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hdf5_filter");
        fs::create_dir_all(&folder).unwrap();
        fs::copy(library(), folder.join("libh5gridz.so")).unwrap();
        let folder = CString::new(folder.to_str().unwrap()).unwrap();
        let mut is_safe = 0;
        // SAFETY: a string and the address of the result; no other thread uses libhdf5 yet.
        unsafe {
            assert!(H5open() >= 0 && H5PLprepend(folder.as_ptr()) >= 0);
            assert!(H5is_library_threadsafe((&raw mut is_safe).cast()) >= 0);
        }
        is_safe != 0
    });
    // SAFETY: no printing function, no data for it. Each thread has its own error stack.
    unsafe { H5Eset_auto2(H5E_DEFAULT, None, null_mut()) };
    (!is_safe).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The texts of the calling thread's error stack.
fn errors() -> String {
    extern "C" fn keep(_: c_uint, entry: *const H5E_error2_t, texts: *mut c_void) -> herr_t {
        // SAFETY: libhdf5 passes an entry of its stack, whose text is a string, and the pointer to
        // `texts`.
        let (text, texts) = unsafe { (CStr::from_ptr((*entry).desc), &mut *texts.cast::<String>()) };
        texts.push_str(&text.to_string_lossy());
        texts.push('\n');
        0
    }
    let mut texts = String::new();
    // SAFETY: `keep` is called with the pointer to `texts` before this returns.
    unsafe { H5Ewalk2(H5E_DEFAULT, H5E_direction_t::H5E_WALK_DOWNWARD, Some(keep), (&raw mut texts).cast()) };
    texts
}

/// Turns a negative id or status into the text of the error stack.
fn ok<T: PartialOrd + Default>(result: T) -> Result<T, String> {
    if result < T::default() { Err(errors()) } else { Ok(result) }
}

fn file_type(array: &Array) -> hid_t {
    match (array.dtype(), array.order()) {
        (DType::F32, ByteOrder::Little) => *H5T_IEEE_F32LE,
        (DType::F32, ByteOrder::Big) => *H5T_IEEE_F32BE,
        (DType::F64, ByteOrder::Little) => *H5T_IEEE_F64LE,
        (DType::F64, ByteOrder::Big) => *H5T_IEEE_F64BE,
        other => panic!("{other:?}"),
    }
}

/// A file with one dataset `x`.
struct Dataset {
    file: hid_t,
    id: hid_t,
    array: Array,
}

impl Dataset {
    fn create(path: &Path, array: &Array, chunk: &[u64], values: &[u32]) -> Result<Self, String> {
        Self::create_behind(false, path, array, chunk, values)
    }

    /// Creates the dataset, with or without HDF5's shuffle before gridz.
    fn create_behind(
        is_shuffled: bool,
        path: &Path,
        array: &Array,
        chunk: &[u64],
        values: &[u32],
    ) -> Result<Self, String> {
        Self::create_after(path, array, chunk, values, |plist| {
            // SAFETY: a property list.
            if is_shuffled { unsafe { H5Pset_shuffle(plist) } } else { 0 }
        })
    }

    /// Creates the dataset. `set` modifies the property list before gridz is added; a negative
    /// result is an error.
    fn create_after(
        path: &Path,
        array: &Array,
        chunk: &[u64],
        values: &[u32],
        set: impl Fn(hid_t) -> herr_t,
    ) -> Result<Self, String> {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        let (extents, rank) = (array.shape().extents(), chunk.len() as i32);
        // SAFETY: strings, and arrays of the given lengths.
        unsafe {
            let file = ok(H5Fcreate(path.as_ptr(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT))?;
            let plist = ok(H5Pcreate(*H5P_CLS_DATASET_CREATE))?;
            let space = ok(H5Screate_simple(rank, extents.as_ptr(), std::ptr::null()))?;
            ok(H5Pset_chunk(plist, rank, chunk.as_ptr()))?;
            ok(set(plist))?;
            ok(H5Pset_filter(plist, GRIDZ, H5Z_FLAG_MANDATORY, values.len(), values.as_ptr()))?;
            let id = H5Dcreate2(file, c"x".as_ptr(), file_type(array), space, H5P_DEFAULT, plist, H5P_DEFAULT);
            let id = ok(id);
            H5Sclose(space);
            H5Pclose(plist);
            if id.is_err() {
                H5Fclose(file);
            }
            Ok(Self { file, id: id?, array: *array })
        }
    }

    fn open(path: &Path, array: &Array) -> Self {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: strings.
        unsafe {
            let file = ok(H5Fopen(path.as_ptr(), H5F_ACC_RDONLY, H5P_DEFAULT)).unwrap();
            Self { file, id: ok(H5Dopen2(file, c"x".as_ptr(), H5P_DEFAULT)).unwrap(), array: *array }
        }
    }

    fn write(&self, data: &[u8]) {
        assert_eq!(data.len() as u64, self.array.n_bytes());
        let dtype = file_type(&self.array);
        // SAFETY: `data` has as many bytes as the dataset.
        ok(unsafe { H5Dwrite(self.id, dtype, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.as_ptr().cast()) }).unwrap();
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        let mut data = vec![0xa5; self.array.n_bytes() as usize];
        let dtype = file_type(&self.array);
        // SAFETY: `data` has room for all bytes of the dataset.
        ok(unsafe { H5Dread(self.id, dtype, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.as_mut_ptr().cast()) })?;
        Ok(data)
    }

    /// The stored bytes of the chunk that begins at `offset`.
    #[allow(deprecated)] // the call that libhdf5 has had since 1.10.3
    fn chunk(&self, offset: &[hsize_t]) -> Vec<u8> {
        let (mut n_bytes, mut mask, mut address) = (0, 0, 0);
        // SAFETY: an offset of the dataset's rank, and a buffer of the length that was just
        // queried.
        unsafe {
            let asked = H5Dget_chunk_info_by_coord(self.id, offset.as_ptr(), &mut mask, &mut address, &mut n_bytes);
            ok(asked).unwrap();
            let mut frame = vec![0; n_bytes as usize];
            let read = H5Dread_chunk1(self.id, H5P_DEFAULT, offset.as_ptr(), &mut mask, frame.as_mut_ptr().cast());
            ok(read).unwrap();
            assert_eq!(mask, 0, "the filter was left out");
            frame
        }
    }

    fn write_chunk(&self, offset: &[hsize_t], frame: &[u8]) {
        self.write_chunk_by(0, offset, frame);
    }

    /// Writes an encoded chunk. `mask`: the filters that were skipped.
    fn write_chunk_by(&self, mask: u32, offset: &[hsize_t], frame: &[u8]) {
        // SAFETY: an offset of the dataset's rank; pointer and length of one slice.
        let written = unsafe {
            H5Dwrite_chunk(self.id, H5P_DEFAULT, mask, offset.as_ptr(), frame.len(), frame.as_ptr().cast())
        };
        ok(written).unwrap();
    }

    /// The stored cd_values.
    fn values(&self) -> Vec<u32> {
        let (mut flags, mut config, mut n) = (0, 0, 256);
        let mut values = vec![0; n];
        // SAFETY: room for `n` words; a name buffer of 0 bytes needs no memory.
        unsafe {
            let plist = ok(H5Dget_create_plist(self.id)).unwrap();
            let (out, name) = (values.as_mut_ptr(), null_mut());
            ok(H5Pget_filter_by_id2(plist, GRIDZ, &mut flags, &mut n, out, 0, name, &mut config)).unwrap();
            H5Pclose(plist);
        }
        values.truncate(n);
        values
    }
}

impl Drop for Dataset {
    fn drop(&mut self) {
        // SAFETY: our ids, closed once.
        unsafe { assert!(H5Dclose(self.id) >= 0 && H5Fclose(self.file) >= 0) };
    }
}

fn array(dtype: DType, order: ByteOrder, extents: &[u64]) -> Array {
    Array::new(dtype, order, Shape::new(extents).unwrap()).unwrap()
}

/// A wave, and bit patterns that arithmetic would not preserve.
fn data(array: &Array, seed: u64) -> Vec<u8> {
    let special = [0x7ff0_dead_beef_0001_u64, 0xfff8 << 48, 0x7ff << 52, 1 << 63, 1];
    let wave = (0..array.shape().n_elements()).map(|i| {
        let value = ((i + seed) as f64 / 50.0).sin() * 40.0;
        let special = special.get((i / 31) as usize).filter(|_| i % 31 == 0);
        let mut bytes = match array.dtype() {
            DType::F32 => special.map_or((value as f32).to_bits(), |s| (s >> 32) as u32).to_le_bytes().to_vec(),
            _ => special.copied().unwrap_or(value.to_bits()).to_le_bytes().to_vec(),
        };
        if array.order() == ByteOrder::Big {
            bytes.reverse();
        }
        bytes
    });
    wave.flatten().collect()
}

const ALL: [(DType, ByteOrder); 4] = [
    (DType::F32, ByteOrder::Little),
    (DType::F32, ByteOrder::Big),
    (DType::F64, ByteOrder::Little),
    (DType::F64, ByteOrder::Big),
];

fn round_trip(path: &Path, array: &Array, chunk: &[u64], data: &[u8]) {
    Dataset::create(path, array, chunk, &[]).unwrap().write(data);
    assert_eq!(Dataset::open(path, array).read().unwrap(), data, "{array:?} in chunks of {chunk:?}");
}

#[test]
fn arrays_come_back_bit_for_bit() {
    let _turn = hdf5();
    let folder = tempfile::tempdir().unwrap();
    for (dtype, order) in ALL {
        for (extents, chunk) in [
            (&[9000][..], &[4096][..]),
            (&[100, 130], &[64, 64]),
            (&[20, 33, 40], &[16, 16, 32]),
            (&[3, 2, 17, 18, 5], &[2, 2, 16, 16, 5]),
            (&[1], &[1]),
        ] {
            let array = array(dtype, order, extents);
            round_trip(&folder.path().join("x.h5"), &array, chunk, &data(&array, 0));
        }
    }
}

#[test]
fn filter_and_library_write_the_same_bytes_and_read_each_other() {
    let _turn = hdf5();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    for (dtype, order) in ALL {
        let array = array(dtype, order, &[40, 48, 70]);
        let (data, spec, context) = (data(&array, 3), Request::default(), Context::default());
        let mut frame = vec![0; gridz::compress_bound(&array, &spec).unwrap() as usize];
        let n_bytes = gridz::compress(&array, &spec, &data, &mut frame, &context).unwrap();
        frame.truncate(n_bytes);
        assert!(frame.len() < data.len());

        let written = Dataset::create(&path, &array, array.shape().extents(), &[]).unwrap();
        written.write(&data);
        drop(written);
        let chunk = Dataset::open(&path, &array).chunk(&[0; 3]);
        assert!(chunk == frame, "{dtype:?} {order:?}: the filter writes other bytes than the library");
        let mut back = vec![0; data.len()];
        assert_eq!(
            gridz::decompress(&chunk, gridz::Part::All, &mut back, Verify::Checksum, &context),
            Ok(data.len())
        );
        assert_eq!(back, data);

        Dataset::create(&path, &array, array.shape().extents(), &[]).unwrap().write_chunk(&[0; 3], &frame);
        assert_eq!(Dataset::open(&path, &array).read().unwrap(), data);
    }
}

#[test]
fn stored_values_describe_the_chunk_and_are_a_fixed_point() {
    let _turn = hdf5();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    for (dtype, order) in ALL {
        let array = array(dtype, order, &[100, 60]);
        let values = Dataset::create(&path, &array, &[32, 60], &[]).unwrap().values();
        let Ok(Values::Record(record)) = Values::parse(&values) else { panic!("{values:?}") };
        assert_eq!(record.array(), &self::array(dtype, order, &[32, 60]));
        assert_eq!(record.request().unwrap().codec(), Request::default().codec());
        assert_eq!(Dataset::create(&path, &array, &[32, 60], &values).unwrap().values(), values);
        // Other chunks, the same request.
        let other = Dataset::create(&path, &array, &[50, 7], &values).unwrap().values();
        // The last word is the checksum.
        assert_eq!((&other[..6], &other[6..other.len() - 1]), (&values[..6], &[50, 0, 7, 0][..]));
    }
}

/// A shuffle before gridz costs time but no bytes: the frames are those of the unshuffled arrays.
#[test]
fn a_shuffle_before_gridz_is_undone_and_done_again() {
    let _turn = hdf5();
    let folder = tempfile::tempdir().unwrap();
    let [path, plain] = ["x.h5", "y.h5"].map(|name| folder.path().join(name));
    for (dtype, order) in ALL {
        for values in [&[][..], &[1], &[2, 0, 2], &[0]] {
            let array = array(dtype, order, &[20, 33, 40]);
            let (data, chunk) = (data(&array, 3), [16, 16, 40]);
            let create = |path, is_shuffled, values: &[u32]| {
                Dataset::create_behind(is_shuffled, path, &array, &chunk, values).unwrap()
            };
            create(&path, true, values).write(&data);
            create(&plain, false, values).write(&data);
            let (shuffled, plain) = (Dataset::open(&path, &array), Dataset::open(&plain, &array));
            assert_eq!(shuffled.read().unwrap(), data);
            for offset in [[0, 0, 0], [16, 32, 0]] {
                assert_eq!(shuffled.chunk(&offset), plain.chunk(&offset), "{dtype:?} {order:?} {values:?}");
            }
            // The cd_values contain the shuffle flag and the element size, also when they already
            // did. Without the shuffle filter they are removed.
            let (words, without) = (shuffled.values(), plain.values());
            assert_eq!(words[2], without[2] | 1 << 24);
            assert_eq!(words[12..words.len() - 1], [dtype.size().unwrap()]);
            let again = folder.path().join("again.h5");
            assert_eq!(create(&again, true, &words).values(), words);
            assert_eq!(create(&again, false, &words).values(), without);
            assert_eq!(create(&again, true, &without).values(), words);
        }
    }
}

/// Codecs that keep every element ignore the fill value: words and frames are those of a dataset
/// without one.
#[test]
fn a_fill_value_changes_nothing_for_codecs_that_keep_every_element() {
    let _turn = hdf5();
    let folder = tempfile::tempdir().unwrap();
    let [path, plain] = ["x.h5", "y.h5"].map(|name| folder.path().join(name));
    for (dtype, order) in ALL {
        for values in [&[][..], &[1], &[2, 0, 2], &[0]] {
            let array = array(dtype, order, &[40, 60]);
            let (data, fill) = (data(&array, 3), -999.0f64);
            let create = |path, has_fill| {
                let set = |plist| match has_fill {
                    // SAFETY: a property list, and a value of that type.
                    true => unsafe { H5Pset_fill_value(plist, *H5T_NATIVE_DOUBLE, (&raw const fill).cast()) },
                    false => 0,
                };
                Dataset::create_after(path, &array, &[20, 60], values, set).unwrap()
            };
            create(&path, true).write(&data);
            create(&plain, false).write(&data);
            let (with, without) = (Dataset::open(&path, &array), Dataset::open(&plain, &array));
            assert_eq!(with.values(), without.values());
            assert_eq!(with.read().unwrap(), data);
            for offset in [[0, 0], [20, 0]] {
                assert_eq!(with.chunk(&offset), without.chunk(&offset), "{dtype:?} {order:?} {values:?}");
            }
        }
    }
}

/// HDF5 skips an optional filter that fails for a chunk, and records that in the chunk's filter
/// mask.
#[test]
fn a_chunk_that_was_not_shuffled_comes_back_too() {
    let _turn = hdf5();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    let array = array(DType::F32, ByteOrder::Little, &[64, 64]);
    let data = data(&array, 5);
    let dataset = Dataset::create_behind(true, &path, &array, &[64, 64], &[]).unwrap();
    dataset.write(&data);
    drop(dataset);
    let frame = Dataset::open(&path, &array).chunk(&[0, 0]);
    let dataset = Dataset::create_behind(true, &path, &array, &[64, 64], &[]).unwrap();
    dataset.write_chunk_by(1, &[0, 0], &frame);
    drop(dataset);
    // The frame holds the array, so gridz's output is shuffled, and no filter unshuffles it.
    let shuffled = Dataset::open(&path, &array).read().unwrap();
    let n = data.len() / 4;
    assert!((0..data.len()).all(|i| shuffled[i] == data[i % n * 4 + i / n]));
}

#[test]
fn refusals_are_on_the_error_stack_of_the_thread() {
    let _turn = hdf5();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    let array = array(DType::F32, ByteOrder::Little, &[100]);
    for (values, text) in [
        (&[250][..], "codec 250 is unknown"),
        (&[1, 0, 9], "ndzip has no levels; use 0, not 9"),
        (&[1, 1, 0, 0], "ndzip: use mode 0, lossless; it has no mode 1, abs"),
        (&[1, 1], "[1, 1] are invalid; allowed are: no value"),
        (&[9; 256], "codec 9 is unknown"),
        (&[3], "quant: use mode 1, abs, or mode 2, rel, or mode 5, pwrel; it has no mode 0, lossless"),
        (&[3, 2, 0, 0x3fe0_0000], "the filter processes one chunk at a time"),
        (
            &[3, 1, 0, 0x3fe0_0000, 4],
            "quant does not have level 4; its levels are 1 fast, 2 dense, 3 max, and 0 for the default",
        ),
        (&[2, 0, 1, 0], "allowed are: no value"),
    ] {
        let Err(stack) = Dataset::create(&path, &array, &[50], values) else { panic!("{values:?} was accepted") };
        assert!(stack.contains(text), "{values:?}: {stack}");
        assert!(Dataset::create(&path, &array, &[50], &[]).is_ok(), "after {values:?}");
        assert_eq!(errors(), "", "a success leaves no errors");
    }
}

#[test]
fn a_damaged_chunk_is_an_error_and_the_others_are_not() {
    let _turn = hdf5();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    let array = array(DType::F64, ByteOrder::Little, &[8192]);
    let data = data(&array, 1);
    Dataset::create(&path, &array, &[4096], &[]).unwrap().write(&data);
    let mut frame = Dataset::open(&path, &array).chunk(&[4096]);
    let middle = frame.len() / 2;
    frame[middle] ^= 1;
    let copy = Dataset::create(&folder.path().join("y.h5"), &array, &[4096], &[]).unwrap();
    copy.write_chunk(&[0], &frame);
    assert!(copy.read().is_err());
    frame[middle] ^= 1;
    copy.write_chunk(&[0], &frame);
    copy.write_chunk(&[4096], &frame);
    assert_eq!(copy.read().unwrap(), data[data.len() / 2..].repeat(2));
}

#[test]
fn threads_with_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let path = folder.path().join(format!("{seed}.h5"));
            scope.spawn(move || {
                for (round, (dtype, order)) in ALL.into_iter().cycle().take(12).enumerate() {
                    let _turn = hdf5();
                    // Some chunks are large enough for the plugin's worker threads.
                    let rows = if round % 5 == 4 { 512 } else { 70 };
                    let array = array(dtype, order, &[rows, 1024]);
                    round_trip(&path, &array, &[rows.min(256 + seed), 1024], &data(&array, seed));
                }
            });
        }
    });
}

//! Whether libcuda is loaded in this process, asked in every call that takes a pointer.
//!
//! `dlopen` with `RTLD_NOLOAD` would answer that too, but where the library is not loaded it searches the file system,
//! and a child that is forked meanwhile inherits a dynamic loader in the middle of its work and crashes. The list of
//! loaded objects is read instead, and only if it has grown since the last search: `dl_iterate_phdr` counts additions.
//!
//! It holds a lock of libc while it reads the list, which libc does not release in a forked child. Fork handlers close
//! that gap: a fork waits until no thread of gridz is reading, and reading waits for forks under way.
#![allow(unsafe_code, reason = "reads the list of loaded objects")]

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use once_cell::race::OnceBox;

/// True from the time on that libcuda is loaded; nothing unloads it.
pub(super) fn is_libcuda_loaded() -> bool {
    static IS_LOADED: AtomicBool = AtomicBool::new(false);
    /// Objects that had been loaded when libcuda was last searched in vain.
    static SEARCHED: AtomicU64 = AtomicU64::new(0);
    if IS_LOADED.load(Ordering::Acquire) {
        return true;
    }
    let mut search = Search { n_known: SEARCHED.load(Ordering::Relaxed), n_loaded: 0, is_found: false };
    {
        let _reading = Reading::begin();
        // SAFETY: the callback gets the address of `search`, which nothing else uses meanwhile.
        unsafe { libc::dl_iterate_phdr(Some(look_at), (&raw mut search).cast::<c_void>()) };
    }
    if search.is_found {
        IS_LOADED.store(true, Ordering::Release);
    } else {
        // A smaller number of another thread costs one more search.
        SEARCHED.store(search.n_loaded, Ordering::Relaxed);
    }
    search.is_found
}

struct Search {
    n_known: u64,
    n_loaded: u64,
    is_found: bool,
}

/// Looks at one loaded object. Any result but 0 ends the search.
unsafe extern "C" fn look_at(object: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: libc passes a valid object, and the address that it was given.
    let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
    search.n_loaded = object.dlpi_adds;
    if search.n_loaded == search.n_known {
        return 1;
    }
    // SAFETY: null or a string.
    let path = (!object.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(object.dlpi_name) }.to_bytes());
    let name = path.and_then(|path| path.rsplit(|&byte| byte == b'/').next());
    search.is_found = name.is_some_and(|name| name.starts_with(b"libcuda.so"));
    c_int::from(search.is_found)
}

/// Threads that read the list; forks under way, in units of [`FORK`].
static READERS: AtomicU64 = AtomicU64::new(0);
const FORK: u64 = 1 << 32;
/// A fork stops waiting after that many turns: it may come from a signal handler that has interrupted a reader.
const MAX_TURNS: u32 = 100_000;

/// This thread reads the list.
struct Reading;

impl Reading {
    fn begin() -> Self {
        static IS_REGISTERED: OnceBox<bool> = OnceBox::new();
        // SAFETY: three functions that stay: libc forgets them when this library is unloaded.
        IS_REGISTERED.get_or_init(|| Box::new(unsafe { pthread_atfork(before_fork, in_parent, in_child) } == 0));
        loop {
            if READERS.fetch_add(1, Ordering::Acquire) < FORK {
                return Self;
            }
            subtract(1);
            while READERS.load(Ordering::Relaxed) >= FORK {
                thread::yield_now();
            }
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        subtract(1);
    }
}

/// Not below 0: a child that was forked by a signal handler amid reading has begun to count anew, and a fork that was
/// under way when the handlers were registered has not been counted.
fn subtract(n: u64) {
    let _ = READERS.fetch_update(Ordering::Release, Ordering::Relaxed, |sum| sum.checked_sub(n));
}

unsafe extern "C" {
    fn pthread_atfork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> c_int;
}

extern "C" fn before_fork() {
    READERS.fetch_add(FORK, Ordering::Acquire);
    for _ in 0..MAX_TURNS {
        if READERS.load(Ordering::Acquire).is_multiple_of(FORK) {
            break;
        }
        thread::yield_now();
    }
}

extern "C" fn in_parent() {
    subtract(FORK);
}

/// The child has one thread, which reads nothing.
extern "C" fn in_child() {
    READERS.store(0, Ordering::Release);
}

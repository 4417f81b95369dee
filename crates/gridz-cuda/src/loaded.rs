//! Detects whether libcuda is loaded in this process. Every call that takes a pointer needs this.
//!
//! `dlopen` with `RTLD_NOLOAD` would also answer that. But if the library is not loaded, it
//! searches the file system. A child that is forked during the search inherits a dynamic loader in
//! the middle of its work and crashes. Instead, this module reads the list of loaded objects, and
//! only if the list has grown since the last search: `dl_iterate_phdr` counts additions.
//!
//! `dl_iterate_phdr` holds a lock of libc while it reads the list, and libc does not release it in
//! a forked child. Fork handlers close that gap: a fork waits until no thread of gridz reads the
//! list, and readers wait for forks under way.
#![allow(unsafe_code, reason = "reads the list of loaded objects")]

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use once_cell::race::OnceBox;

/// True once libcuda is loaded; it is never unloaded.
pub(super) fn is_libcuda_loaded() -> bool {
    static IS_LOADED: AtomicBool = AtomicBool::new(false);
    /// Number of objects that had been loaded at the last search that did not find libcuda.
    static SEARCHED: AtomicU64 = AtomicU64::new(0);
    if IS_LOADED.load(Ordering::Acquire) {
        return true;
    }
    let mut search = Search { n_known: SEARCHED.load(Ordering::Relaxed), n_loaded: 0, is_found: false };
    {
        let _reading = Reading::begin();
        // SAFETY: the callback gets the address of `search`, which no other code uses meanwhile.
        unsafe { libc::dl_iterate_phdr(Some(look_at), (&raw mut search).cast::<c_void>()) };
    }
    if search.is_found {
        IS_LOADED.store(true, Ordering::Release);
    } else {
        // If another thread has stored a smaller number, that costs one more search.
        SEARCHED.store(search.n_loaded, Ordering::Relaxed);
    }
    search.is_found
}

struct Search {
    n_known: u64,
    n_loaded: u64,
    is_found: bool,
}

/// Examines one loaded object. A nonzero result ends the search.
unsafe extern "C" fn look_at(object: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: libc passes a valid object, and the address that was passed to it.
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

/// Number of threads that read the list, plus [`FORK`] for each fork under way.
static READERS: AtomicU64 = AtomicU64::new(0);
const FORK: u64 = 1 << 32;
/// Number of yields after which a fork stops waiting: a signal handler that interrupted a reader
/// may have called `fork`.
const MAX_TURNS: u32 = 100_000;

/// Guard: this thread reads the list.
struct Reading;

impl Reading {
    fn begin() -> Self {
        static IS_REGISTERED: OnceBox<bool> = OnceBox::new();
        // SAFETY: the three functions stay valid, since libc removes the handlers when this library
        // is unloaded.
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

/// Leaves the counter unchanged if it would fall below 0. This happens in two cases. A signal
/// handler forked while it interrupted a reader, so the child restarted the count at 0. Or a fork
/// was under way when the handlers were registered, so it was not counted.
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

/// The child has one thread, which does not read the list.
extern "C" fn in_child() {
    READERS.store(0, Ordering::Release);
}

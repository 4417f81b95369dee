//! Any words as the filter's cd_values; what is accepted as the stored form must be spelled that way.
#![no_main]

use gridz::hdf5::cd::{STORED_MAGIC, STORED_VERSION, Values};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut words: Vec<u32> =
        data.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    // Two bytes that do not fill a word ask for the magic, which is long to guess.
    if data.len() % 4 == 2 && !words.is_empty() {
        words[0] = STORED_MAGIC | STORED_VERSION;
    }
    match Values::parse(&words) {
        // The text of a request says the same.
        Ok(Values::User(request)) => assert_eq!(request.to_string().parse(), Ok(request)),
        // The words that would be stored for the same chunk: set_local changes nothing the second time.
        Ok(Values::Stored(stored)) => {
            let again = stored.words();
            let Ok(Values::Stored(back)) = Values::parse(&again) else { panic!("{words:?} {:?}", &again[..]) };
            assert_eq!(back.array(), stored.array());
            assert_eq!(back.words()[..], again[..]);
            // What a later version added is described, but not written.
            assert!(stored.request().is_err() || back == stored);
        }
        Err(error) => assert!(error.context().len() > 10, "{error}"),
    }
});

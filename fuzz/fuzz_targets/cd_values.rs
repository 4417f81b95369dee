//! Any words as the filter's cd_values; an accepted record must serialize to the same words.
#![no_main]

mod reach;

use gridz_dataset::hdf5::cd::Values;
use gridz_dataset::hdf5::record::{RECORD_MAGIC, RECORD_VERSION};
use libfuzzer_sys::fuzz_target;
use reach::REACH;

fuzz_target!(|data: &[u8]| {
    let mut words: Vec<u32> =
        data.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    // If two bytes remain after the last word, the magic word is inserted, which is hard to guess.
    if data.len() % 4 == 2 && !words.is_empty() {
        words[0] = RECORD_MAGIC | RECORD_VERSION;
    }
    if words.first() == Some(&(RECORD_MAGIC | RECORD_VERSION)) {
        REACH.reached();
    }
    match Values::parse(&words) {
        // The request's text form must parse to the same request.
        Ok(Values::User(request)) => assert_eq!(request.to_string().parse(), Ok(request)),
        // The words that would be stored for the same chunk: set_local must not change them again.
        Ok(Values::Record(record)) => {
            REACH.accepted();
            let again = record.words();
            let Ok(Values::Record(back)) = Values::parse(&again) else { panic!("{words:?} {:?}", &again[..]) };
            assert_eq!(back.array(), record.array());
            assert_eq!(back.words()[..], again[..]);
            // A record of a later version is described, but not written.
            assert!(record.request().is_err() || back == record);
        }
        Err(error) => assert!(error.context().len() > 10, "{error}"),
    }
});

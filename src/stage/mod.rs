//! What several codecs are made of. A stage knows no codec and no frame.

pub mod sums;

//! Codes whose lengths follow how often symbols occur.

pub(crate) mod frequencies;
pub(crate) mod rans;

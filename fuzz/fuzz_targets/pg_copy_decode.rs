//! Any bytes as PostgreSQL's binary COPY.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| haul_connectors::postgres::fuzz::fuzz_copy_decode(data));

//! Any bytes as PostgreSQL's binary COPY: as whole frames, and as the fields of one row.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    haul_connectors::postgres::fuzz::copy_decoder(data);
    haul_connectors::postgres::fuzz::copy_fields(data);
});

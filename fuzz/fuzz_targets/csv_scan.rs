//! Any bytes as CSV.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| haul_formats::csv::fuzz::fuzz_scan(data));

//! Any bytes as JSON lines.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| haul_formats::jsonl::fuzz::fuzz_decode(data));

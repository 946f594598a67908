//! Any bytes as JSON lines: the scanner, then the reader, in steps that the first byte chooses.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    haul_formats::jsonl::fuzz::scanner(data);
    if let [step, file @ ..] = data {
        haul_formats::jsonl::fuzz::reader(file, usize::from(*step).max(1));
    }
});

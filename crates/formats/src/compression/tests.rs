//! Every stream that we write is read by the world's tools, and every stream of theirs by us.

use super::*;
use haul_model::{Block, BlockBody, Encoder, Plain, Rejects, Rows};
use std::io::{Cursor, Read, Write};
use std::process::{Command, Stdio};

fn read(compression: Compression, bytes: &[u8]) -> Result<Vec<u8>> {
    read_in(compression, bytes, usize::MAX, 64 << 10)
}

/// Reads with input pieces of at most `piece` bytes and a buffer of `buffer` bytes.
fn read_in(compression: Compression, bytes: &[u8], piece: usize, buffer: usize) -> Result<Vec<u8>> {
    struct Slow(Cursor<Vec<u8>>, usize);
    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let length = buffer.len().min(self.1);
            self.0.read(&mut buffer[..length])
        }
    }
    let mut stream = Decompressor::new(compression, Box::new(Slow(Cursor::new(bytes.to_vec()), piece)), "in.csv")?;
    let (mut out, mut buffer) = (Vec::new(), vec![0; buffer]);
    loop {
        match stream.read_some(&mut buffer)? {
            0 => return Ok(out),
            n => out.extend_from_slice(&buffer[..n]),
        }
    }
}

/// One stream by the libraries' own simple writers: another path than the blocks.
fn stream(compression: Compression, text: &[u8]) -> Vec<u8> {
    match compression {
        Compression::None => text.to_vec(),
        Compression::Gzip => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            writer.write_all(text).unwrap();
            writer.finish().unwrap()
        }
        Compression::Zstd => zstd::encode_all(text, 1).unwrap(),
        Compression::Lz4 => {
            let frame = lz4_flex::frame::FrameInfo::new().block_checksums(true).block_mode(lz4_flex::frame::BlockMode::Linked);
            let mut writer = lz4_flex::frame::FrameEncoder::with_frame_info(frame, Vec::new());
            writer.write_all(text).unwrap();
            writer.finish().unwrap()
        }
    }
}

/// A file of blocks as the sink would join them.
fn blocks(compression: Compression, pieces: &[&[u8]]) -> Vec<u8> {
    let mut envelope = Envelope::new(compression);
    let mut file = envelope.header().to_vec();
    // Two workers in turns.
    let mut workers = [BlockCompressor::new(compression, None).unwrap(), BlockCompressor::new(compression, Some(1)).unwrap()];
    for (i, piece) in pieces.iter().enumerate() {
        envelope.push(workers[i % 2].compress(piece, &mut file).unwrap());
    }
    assert_eq!(envelope.plain_bytes(), pieces.iter().map(|p| p.len() as u64).sum::<u64>());
    file.extend_from_slice(&envelope.finish().unwrap());
    file
}

/// Pipes `input` through a program of the system.
fn pipe(program: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program} (Debian packages gzip, zstd, lz4, python3): {e}"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    assert!(output.status.success(), "{program} {arguments:?} failed");
    output.stdout
}

fn sample(length: usize) -> Vec<u8> {
    let mut state = 7u32;
    (0..length)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if i % 100 < 60 { b"id,first_name,country\n"[i % 22] } else { (state >> 24) as u8 }
        })
        .collect()
}

#[test]
fn csv_07_all_members_and_frames_are_read_with_borders_anywhere() {
    let text = b"a,b\n1,x\n2,y\n3,z\n";
    for compression in Compression::ALL {
        for cut in 0..=text.len() {
            let mut file = stream(compression, &text[..cut]);
            file.extend_from_slice(&stream(compression, b""));
            file.extend_from_slice(&stream(compression, &text[cut..]));
            assert_eq!(read(compression, &file).unwrap(), text, "{compression} cut at {cut}");
            for (piece, buffer) in [(1, 1), (1, 100), (7, 3), (13, 1000)] {
                assert_eq!(read_in(compression, &file, piece, buffer).unwrap(), text, "{compression} cut at {cut}");
            }
        }
    }
}

#[test]
fn csv_07_skippable_frames_are_skipped() {
    let skippable = |payload: &[u8]| [&[0x53, 0x2a, 0x4d, 0x18][..], &(payload.len() as u32).to_le_bytes(), payload].concat();
    for compression in [Compression::Zstd, Compression::Lz4] {
        let file =
            [skippable(b"index"), stream(compression, b"1,x\n"), skippable(b""), stream(compression, b"2,y\n"), skippable(b"end")].concat();
        assert_eq!(read(compression, &file).unwrap(), b"1,x\n2,y\n", "{compression}");
        let cut = &file[..file.len() - 1];
        assert!(read(compression, cut).unwrap_err().detail().contains("ends early"), "{compression}");
    }
}

#[test]
fn csv_08_a_cut_stream_is_an_error_at_every_byte() {
    let text = sample(3000);
    for compression in Compression::ALL {
        let file = stream(compression, &text);
        for end in 0..file.len() {
            let error =
                read(compression, &file[..end]).err().unwrap_or_else(|| panic!("{compression} cut at {end} of {} passed", file.len()));
            assert_eq!(error.kind(), ErrorKind::Data);
            assert!(error.detail().contains("ends early"), "{compression} cut at {end}: {error}");
            assert_eq!(error.place().object.as_deref(), Some("in.csv"));
        }
        // The same for the second of two.
        let two = [file.clone(), file.clone()].concat();
        for end in file.len() + 1..two.len() {
            assert!(read(compression, &two[..end]).is_err(), "{compression} cut at {end}");
        }
    }
}

#[test]
fn csv_08_lz4_cut_between_blocks_is_an_error() {
    let text = sample(1 << 20);
    let file = blocks(Compression::Lz4, &[&text]);
    // Walk to each block's border: there the frame decoder alone would see a whole frame.
    let mut at = 15;
    let mut borders = 0;
    while at + 4 <= file.len() {
        let size = u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) & 0x7fff_ffff;
        assert!(read(Compression::Lz4, &file[..at]).unwrap_err().detail().contains("ends early"), "cut at {at}");
        if size == 0 {
            break;
        }
        at += 4 + size as usize;
        borders += 1;
    }
    assert!(borders > 2, "the frame should have several blocks");
}

#[test]
fn csv_08_padding_is_fine_after_gzip_and_garbage_never_is() {
    let file = stream(Compression::Gzip, b"1,x\n");
    assert_eq!(read(Compression::Gzip, &[file.clone(), vec![0; 512]].concat()).unwrap(), b"1,x\n");
    assert_eq!(read(Compression::Gzip, &[file.clone(), vec![0; 1 << 20]].concat()).unwrap(), b"1,x\n");
    for compression in Compression::ALL {
        let file = stream(compression, b"1,x\n");
        for garbage in [&b"garbage"[..], b"x", b"\0\0garbage", b"\x1f\x8bgarbage and more of it"] {
            let error = read(compression, &[&file[..], garbage].concat()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Data, "{compression}: {error}");
        }
    }
}

#[test]
fn csv_08_damage_is_an_error() {
    let text = sample(5000);
    for compression in Compression::ALL {
        let file = blocks(compression, &[&text]);
        for place in (0..file.len()).step_by(37) {
            let mut damaged = file.clone();
            damaged[place] ^= 0x55;
            if let Ok(out) = read(compression, &damaged) {
                assert!(out == text, "{compression} damaged at {place} gave other bytes");
            }
        }
        assert!(read(compression, b"id,name\n1,plain text that is not compressed at all\n").is_err());
    }
}

#[test]
fn an_error_of_the_input_is_told_as_such() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::PermissionDenied.into())
        }
    }
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd, Compression::Lz4] {
        let error = Decompressor::new(compression, Box::new(Broken), "in").unwrap().read_some(&mut [0; 10]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Permission, "{compression}: {error}");
    }
}

#[test]
fn blocks_of_several_workers_are_one_stream_for_the_worlds_tools() {
    let (a, b) = (sample(300_000), sample(70_001));
    for pieces in [&[][..], &[&b""[..]], &[&a, &b, b"", b"x\n"], &[&b]] {
        let text = pieces.concat();
        for compression in Compression::ALL {
            let file = blocks(compression, pieces);
            assert_eq!(read(compression, &file).unwrap(), text, "{compression}");
            assert_eq!(Compression::by_magic(&file), compression);
            assert_eq!(pipe(compression.name(), &["-dc"], &file), text, "{compression}");
        }
        let gzip = blocks(Compression::Gzip, pieces);
        let script = "import gzip,sys; sys.stdout.buffer.write(gzip.decompress(sys.stdin.buffer.read()))";
        assert_eq!(pipe("python3", &["-c", script], &gzip), text);
        // One member, so that readers which stop after the first lose nothing.
        let mut first = Vec::new();
        flate2::read::GzDecoder::new(&gzip[..]).read_to_end(&mut first).unwrap();
        assert_eq!(first, text);
    }
}

#[test]
fn streams_of_the_worlds_tools_are_read() {
    let text = sample(200_000);
    for compression in Compression::ALL {
        for options in [&["-c"][..], &["-1", "-c"]] {
            let file = pipe(compression.name(), options, &text);
            assert_eq!(read(compression, &file).unwrap(), text, "{compression} {options:?}");
        }
    }
}

#[test]
fn the_encoder_keeps_rows_and_checksums() {
    struct Lines(Vec<u8>, u64);
    impl Encoder for Lines {
        fn push(&mut self, rows: &Rows, _: &mut dyn Rejects) -> Result<()> {
            self.0.extend(std::iter::repeat_n(b"line\n", rows.batch.num_rows()).flatten());
            self.1 += rows.batch.num_rows() as u64;
            Ok(())
        }
        fn pending(&self) -> usize {
            self.0.len()
        }
        fn take(&mut self) -> Result<Option<Block>> {
            let rows = std::mem::take(&mut self.1);
            Ok((rows > 0).then(|| Block { body: BlockBody::Bytes(std::mem::take(&mut self.0)), rows }))
        }
    }
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(3));
    let batch = arrow_array::RecordBatch::try_new_with_options(arrow_schema::Schema::empty().into(), vec![], &options).unwrap();
    for compression in Compression::ALL {
        let mut encoder = CompressingEncoder::new(Box::new(Lines(Vec::new(), 0)), compression, None).unwrap();
        let mut envelope = Envelope::new(compression);
        let mut file = envelope.header().to_vec();
        for _ in 0..2 {
            assert!(encoder.take().unwrap().is_none());
            encoder.push(&Rows::new(batch.clone(), 0), &mut haul_model::Strict::default()).unwrap();
            assert_eq!(encoder.pending(), 15);
            let block = encoder.take().unwrap().unwrap();
            assert_eq!(block.rows, 3);
            let BlockBody::Compressed { bytes, plain } = block.body else { panic!("compressed blocks say so") };
            assert_eq!(plain.bytes, 15);
            file.extend_from_slice(&bytes);
            envelope.push(plain);
            encoder.recycle(bytes);
        }
        file.extend_from_slice(&envelope.finish().unwrap());
        assert_eq!(read(compression, &file).unwrap(), b"line\n".repeat(6));
    }
    assert_eq!(Plain::default(), Plain { crc32: 0, bytes: 0 });
}

#[test]
fn names_bytes_and_settings_choose() {
    assert_eq!(Compression::by_extension("a.csv.gz"), (Compression::Gzip, "a.csv"));
    assert_eq!(Compression::by_extension("a.jsonl.ZST"), (Compression::Zstd, "a.jsonl"));
    assert_eq!(Compression::by_extension("a.csv.lz4"), (Compression::Lz4, "a.csv"));
    assert_eq!(Compression::by_extension("a.csv"), (Compression::None, "a.csv"));
    assert_eq!(Compression::by_extension("gz"), (Compression::None, "gz"));
    let mut settings = Settings::default();
    let gzip = stream(Compression::Gzip, b"x");
    assert_eq!(Compression::for_reading(&settings, "a.csv", &gzip), Compression::Gzip);
    assert_eq!(Compression::for_reading(&settings, "a.csv.gz", b""), Compression::Gzip);
    assert_eq!(Compression::for_writing(&settings, "a.csv.lz4"), Compression::Lz4);
    settings.set("compression", "none");
    assert_eq!(Compression::for_reading(&settings, "a.csv.gz", &gzip), Compression::None);
    settings.set("compression", "Zstd");
    assert_eq!(Compression::for_writing(&settings, "a.csv"), Compression::Zstd);
    settings.set("compression_level", "19");
    assert_eq!(Compression::Zstd.level(&settings).unwrap(), Some(19));
    assert_eq!(Compression::Gzip.level(&settings).unwrap_err().kind(), ErrorKind::Config);
}

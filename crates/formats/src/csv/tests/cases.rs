//! Cases of the field, by their ids.

use super::*;
use crate::csv::{Transcoder, detect_encoding};
use haul_model::ErrorKind;
use std::fmt::Write as _;

#[test]
fn csv_01_quoted_records_inside_fields_are_never_split() {
    let mut file = String::from("id,txt,n\n");
    for id in 0..3000 {
        if id % 11 == 0 {
            let long = "0123456789 \"\"x\"\",\n".repeat(if id % 1100 == 0 { 4000 } else { 40 });
            writeln!(file, "{id},\"{long}\",{}", id * 2).unwrap();
        } else if id % 7 == 0 {
            writeln!(file, "{id},\"line A\n{id},fake,0\nline \"\"C\"\"\",{}", id * 2).unwrap();
        } else {
            writeln!(file, "{id},plain {id},{}", id * 2).unwrap();
        }
    }
    let read = read(&[], file.as_bytes()).unwrap();
    assert_eq!((read.rows.len(), read.records), (3000, 3000));
    for (id, row) in read.rows.iter().enumerate() {
        assert_eq!((row[0].as_deref(), row[2].as_deref()), (Some(id.to_string().as_str()), Some((id * 2).to_string().as_str())));
    }
    assert_eq!(read.rows[7][1].as_deref(), Some("line A\n7,fake,0\nline \"C\""));
    assert!(read.rows[11][1].as_deref().unwrap().starts_with("0123456789 \"x\",\n0123456789 \"x\",\n"));
}

#[test]
fn csv_03_a_one_column_crlf_file_keeps_its_two_rows() {
    for newline in ["auto", "lf", "crlf"] {
        let read = read(&[("header", "false"), ("newline", newline)], b"\"1\"\r\n1\r\n").unwrap();
        assert_eq!(read.rows, rows(&[&["1"], &["1"]]), "{newline}");
    }
    let error = read(&[("header", "false"), ("newline", "cr")], b"\"1\"\r\n1\r\n").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data, "{error}");
}

#[test]
fn csv_04_lf_and_crlf_give_the_same_rows() {
    let make = |end: &str, inner: &str| {
        let mut file = (0..40).map(|c| format!("c{c}")).collect::<Vec<_>>().join(",") + end;
        for r in 0..500 {
            let fields: Vec<String> = (0..40)
                .map(|c| match (r * 7 + c) % 9 {
                    0 => format!("\"a,{r}{inner}{c}\""),
                    1 | 2 if c > 20 => String::new(),
                    _ => format!("{r}:{c}"),
                })
                .collect();
            file += &(fields.join(",") + end);
        }
        file
    };
    let lf = read(&[], make("\n", "\n").as_bytes()).unwrap();
    assert_eq!(lf, read(&[], make("\r\n", "\n").as_bytes()).unwrap());
    let mixed = read(&[], make("\n", "\r\n").as_bytes()).unwrap();
    assert_eq!((lf.rows.len(), mixed.rows.len()), (500, 500));
    for (a, b) in lf.rows.iter().flatten().zip(mixed.rows.iter().flatten()) {
        assert_eq!(a.as_ref().map(|a| a.replace('\n', "\r\n")), *b);
    }
}

#[test]
fn csv_05_only_the_broken_records_are_rejected() {
    let mut file = String::from("id,a,b\n");
    for id in 1..=10_000 {
        file += &if id % 1000 == 0 { format!("{id},x\ny,z\n") } else { format!("{id},a{id},b{id}\n") };
    }
    let read = read_aside(&[], file.as_bytes()).unwrap();
    assert_eq!((read.rows.len(), read.rejected.len(), read.records), (9990, 20, 10_010));
    assert_eq!(read.rejected[0], (1000, 1001, "1000,x\n".into(), "2 fields, 3 expected".into()));
    assert_eq!(read.rejected[1], (1001, 1002, "y,z\n".into(), "2 fields, 3 expected".into()));
    assert_eq!(read.rejected[2].1, 2002);
    assert!(read.rows.iter().all(|r| r[1].as_ref().unwrap()[1..] == *r[0].as_ref().unwrap()));
}

#[test]
fn csv_06_a_byte_order_mark_is_no_part_of_the_first_name() {
    for text in ["\u{feff}id,name\n1,Zed\n", "\u{feff}\"id\",\"name\"\n\"1\",\"Zed\"\n"] {
        let read = read(&[], text.as_bytes()).unwrap();
        assert_eq!((read.names, read.rows), (vec!["id".to_string(), "name".to_string()], rows(&[&["1", "Zed"]])));
    }
    let no_header = read(&[("header", "false")], "\u{feff}1,Zed\n".as_bytes()).unwrap();
    assert_eq!(no_header.rows, rows(&[&["1", "Zed"]]));
    for empty in ["\u{feff}", ""] {
        let input = detect(&[], empty.as_bytes()).unwrap();
        assert_eq!((input.schema().fields().len(), input.prolog().bytes), (0, empty.len()));
        assert_eq!(input.notes()[0].text, "empty file: no header");
    }
    let two = read(&[], "\u{feff}id,name\n1,Zed\n\u{feff}id,name\n2,Ann\n".as_bytes()).unwrap();
    assert_eq!(two.rows, rows(&[&["1", "Zed"], &["\u{feff}id", "name"], &["2", "Ann"]]));
}

#[test]
fn csv_11_null_and_the_empty_string_differ() {
    let file = b"id,t,n\n1,,\n2,\"\",5\n3,NULL,6\n4,\"NULL\",7\n5,\\N,8\n";
    let plain = read(&[], file).unwrap();
    let want = rows(&[&["1", "~", "~"], &["2", "", "5"], &["3", "NULL", "6"], &["4", "NULL", "7"], &["5", "\\N", "8"]]);
    assert_eq!(plain.rows, want);
    let tokens = read(&[("null", "NULL,\\N")], file).unwrap();
    let want = rows(&[&["1", "~", "~"], &["2", "", "5"], &["3", "~", "6"], &["4", "NULL", "7"], &["5", "~", "8"]]);
    assert_eq!(tokens.rows, want);
}

#[test]
fn csv_12_empty_stays_empty_in_every_chunk() {
    let mut file = String::from("foo,bar,baz\n");
    for i in 0..2000 {
        file += &format!("{i},{},z\n", if i < 1500 { "" } else { "\"x\"" });
    }
    let strings = read(&[("empty", "string")], file.as_bytes()).unwrap();
    assert_eq!(strings.rows.iter().filter(|r| r[1].as_deref() == Some("")).count(), 1500);
    let nulls = read(&[], file.as_bytes()).unwrap();
    assert_eq!(nulls.rows.iter().filter(|r| r[1].is_none()).count(), 1500);
}

#[test]
fn csv_13_backslash_escaped_quotes() {
    let good = b"a|b|c\n1|\"two \\\"words\\\" here\"|3\n2|\"ends with backslash \\\\\"|4\n";
    let escaped = [("delimiter", "|"), ("escape", "\\")];
    let want = rows(&[&["1", "two \"words\" here", "3"], &["2", "ends with backslash \\", "4"]]);
    assert_eq!(read(&escaped, good).unwrap().rows, want);
    let bad = [good.as_slice(), b"3|\"C:\\dir\\\"|5\n"].concat();
    let error = read(&escaped, &bad).unwrap_err();
    assert_eq!((error.kind(), error.place().line), (ErrorKind::Data, Some(4)), "{error}");
    let doubled = read_aside(&[("delimiter", "|")], &bad).unwrap();
    assert_eq!(doubled.rows, rows(&[&["2", "ends with backslash \\\\", "4"], &["3", "C:\\dir\\", "5"]]));
    assert_eq!((doubled.rejected[0].0, doubled.rejected[0].1), (1, 2));
    assert!(doubled.rejected[0].3.contains("closing quote"));
}

#[test]
fn csv_14_ragged_records_are_told() {
    let file = b"a,b,c\n1,2,3\n4,5\n6,7,8,9\n10,11,12\n";
    let error = read(&[], file).unwrap_err();
    assert_eq!(error.to_string(), "line 3, byte 12: 2 fields, 3 expected");
    let aside = read_aside(&[], file).unwrap();
    assert_eq!(aside.rows, rows(&[&["1", "2", "3"], &["10", "11", "12"]]));
    assert_eq!(aside.rejected.iter().map(|r| (r.0, r.1)).collect::<Vec<_>>(), [(2, 3), (3, 4)]);
    let padded = read_aside(&[("ragged", "pad")], file).unwrap();
    assert_eq!(padded.rows, rows(&[&["1", "2", "3"], &["4", "5", "~"], &["10", "11", "12"]]));
    let padded = read_aside(&[("ragged", "pad"), ("empty", "string")], b"a,b,c\r\n4,\r\n5\r\n").unwrap();
    assert_eq!(padded.rows, rows(&[&["4", "", "~"], &["5", "~", "~"]]));

    let trailing = b"a,b,c,\r\n1,2,3,\r\n4,5,6,\r\n";
    let kept = read(&[], trailing).unwrap();
    assert_eq!((kept.names[3].as_str(), kept.rows), ("column_4", rows(&[&["1", "2", "3", "~"], &["4", "5", "6", "~"]])));
    let drop = [("trailing_delimiter", "drop")];
    let dropped = read(&drop, trailing).unwrap();
    assert_eq!((dropped.names.len(), dropped.rows), (3, rows(&[&["1", "2", "3"], &["4", "5", "6"]])));
    let only_rows = read(&drop, b"a,b,c\n1,2,3,\n4,5,6\n").unwrap();
    assert_eq!(only_rows.rows, rows(&[&["1", "2", "3"], &["4", "5", "6"]]));
    let error = read(&drop, b"a,b,c,\n1,2,3,\n4,5,6,x\n").unwrap_err();
    assert_eq!(error.place().line, Some(3));
}

#[test]
fn csv_15_spaces_are_kept_or_trimmed_in_all_rows() {
    let mut file = String::from("c1;c2\n");
    for i in 0..2000 {
        file += &format!(" v{i} ;\" q \" \n");
    }
    let kept = read_aside(&[("delimiter", ";")], file.replace("\" q \" ", " q ").as_bytes()).unwrap();
    let trimmed = read(&[("delimiter", ";"), ("trim", "true")], file.as_bytes()).unwrap();
    for (i, (k, t)) in kept.rows.iter().zip(&trimmed.rows).enumerate() {
        assert_eq!(*k, rows(&[&[&format!(" v{i} "), " q "]])[0]);
        assert_eq!(*t, rows(&[&[&format!("v{i}"), " q "]])[0]);
    }
    assert_eq!((kept.rows.len(), trimmed.rows.len()), (2000, 2000));
    let error = read(&[("trim", "true")], b"a,b\n1, \"x,y\"\n").unwrap_err();
    assert!(error.to_string().contains("space before an opening quote"), "{error}");
}

#[test]
fn csv_16_skipping_knows_records_from_lines() {
    let file = b"a,b\n1,\"x\ny\"\n2,z\n3,w\n";
    let skipped = read(&[("skip_records", "1")], file).unwrap();
    assert_eq!((skipped.names, skipped.rows), (vec!["a".to_string(), "b".to_string()], rows(&[&["2", "z"], &["3", "w"]])));
    let named = read(&[], b"\"na\nme\",b\n1,2\n").unwrap();
    assert_eq!((named.names, named.rows), (vec!["na\nme".to_string(), "b".to_string()], rows(&[&["1", "2"]])));
    let title = read(&[("skip", "2")], b"Report of \"today\n\na,b\n1,2\n").unwrap();
    assert_eq!(title.rows, rows(&[&["1", "2"]]));
    let error = read(&[("skip", "2")], file).unwrap_err();
    assert!(error.to_string().contains("inside a quoted field"), "{error}");
    let error = read(&[], b"a,b\n1,\"x\ny\"\n2\n").unwrap_err();
    assert_eq!(error.place().line, Some(4));
}

#[test]
fn csv_19_lone_cr_line_ends() {
    let read_cr = read(&[], b"id,t\r1,a\r2,\"x\ry\"\r").unwrap();
    assert_eq!(read_cr.rows, rows(&[&["1", "a"], &["2", "x\ry"]]));
    let unterminated = read(&[], b"id,t\r1,a\r2,b").unwrap();
    assert_eq!(unterminated.rows, rows(&[&["1", "a"], &["2", "b"]]));
    let mixed = read(&[], b"id,t\n1,a\r\n2,b\n3,c\r4,d\n").unwrap_err();
    assert_eq!((mixed.kind(), mixed.place().line), (ErrorKind::Data, Some(4)), "{mixed}");
    let one_column = read(&[], b"id\n1\r2\n3\n").unwrap_err();
    assert_eq!(one_column.place().line, Some(2), "{one_column}");
    let kept = read(&[("newline", "lf")], b"id\n1\r2\n3\n").unwrap();
    assert_eq!(kept.rows, rows(&[&["1\r2"], &["3"]]));
    let later_lf = read(&[], b"id,t\r1,a\r2,b\n3,c\r").unwrap_err();
    assert_eq!(later_lf.place().line, Some(3), "{later_lf}");
    let only_crlf = read(&[("newline", "crlf")], b"id,t\r\n1,a\nb\r\n2,c\rd\r\n").unwrap();
    assert_eq!(only_crlf.rows, rows(&[&["1", "a\nb"], &["2", "c\rd"]]));
    let half = read(&[], b"id,t\r\n1,a\r").unwrap();
    assert_eq!(half.rows, rows(&[&["1", "a"]]));
}

#[test]
fn csv_20_utf16_is_read_or_named() {
    let text = "id;t\r\n1;Grün\r\n2;日本";
    let units: Vec<u16> = text.encode_utf16().collect();
    let le: Vec<u8> = units.iter().flat_map(|u| u.to_le_bytes()).collect();
    let be: Vec<u8> = units.iter().flat_map(|u| u.to_be_bytes()).collect();
    for file in [[b"\xff\xfe", le.as_slice()].concat(), [b"\xfe\xff", be.as_slice()].concat()] {
        let (encoding, mark) = detect_encoding(&file, None).unwrap();
        let mut utf8 = Vec::new();
        Transcoder::new(encoding).push(&file[mark..], true, &mut utf8).unwrap();
        assert_eq!(read(&[("delimiter", ";")], &utf8).unwrap().rows, rows(&[&["1", "Grün"], &["2", "日本"]]));
        assert!(read(&[("delimiter", ";")], &file).unwrap_err().hint_text().unwrap().contains("encoding=utf-16"));
    }
    let error = read(&[("delimiter", ";")], &le).unwrap_err();
    assert_eq!((error.kind(), error.hint_text()), (ErrorKind::Data, Some("give encoding=utf-16le")));
    assert_eq!(read(&[("delimiter", ";")], &be).unwrap_err().hint_text(), Some("give encoding=utf-16be"));
}

#[test]
fn csv_21_nul_bytes_are_data() {
    let read = read(&[], b"id,t\n1,a\x00b\n2,ok\n3,\x00\n").unwrap();
    assert_eq!(read.rows, rows(&[&["1", "a\0b"], &["2", "ok"], &["3", "\0"]]));
}

#[test]
fn csv_22_names_become_unique_and_keep_their_values() {
    let input = detect(&[], b"id,id,,name,,Name\n1,2,3,z,5,Z\n").unwrap();
    assert_eq!(input.notes().len(), 3);
    let all = read(&[], b"id,id,,name,,Name\n1,2,3,z,5,Z\n").unwrap();
    assert_eq!(all.names, ["id", "id_1", "column_3", "name", "column_5", "Name"]);
    assert_eq!(all.rows, rows(&[&["1", "2", "3", "z", "5", "Z"]]));
    assert_eq!(read(&[], b"id,id_1,id\n1,2,3\n").unwrap().names, ["id", "id_1", "id_2"]);
}

#[test]
fn csv_23_text_stays_as_it_is() {
    let file = b"zip,phone,amt,code,flag\n01234,+31612345678,\"1,213\",1E5,t\n98765,0031612345678,\"1.213,50\",00E1,yes\n00000,112,\"(12)\",12e3,1\n";
    let read = read(&[], file).unwrap();
    let want: &[&[&str]] = &[
        &["01234", "+31612345678", "1,213", "1E5", "t"],
        &["98765", "0031612345678", "1.213,50", "00E1", "yes"],
        &["00000", "112", "(12)", "12e3", "1"],
    ];
    assert_eq!(read.rows, rows(want));
}

#[test]
fn csv_25_a_quote_that_is_never_closed_is_named_where_it_opens() {
    let mut file = String::from("id,t\n");
    for i in 0..3000 {
        file += &if i == 1500 { "x,\"abc\n".to_string() } else { format!("{i},pipe {i}\n") };
    }
    let error = read(&[], file.as_bytes()).unwrap_err();
    assert_eq!((error.kind(), error.place().line), (ErrorKind::Data, Some(1502)), "{error}");
    assert!(error.to_string().contains("never closed"));
    let pipes = read(&[], b"id,t\n1,5\" pipe\n2,a\"\"b\n3,6\"\n").unwrap();
    assert_eq!(pipes.rows, rows(&[&["1", "5\" pipe"], &["2", "a\"\"b"], &["3", "6\""]]));
    let last = read_aside(&[], b"id,t\n1,x\n2,\"\"A\"\"\n").unwrap();
    assert_eq!((last.rows.len(), last.rejected.len(), last.records), (1, 1, 2));
    assert_eq!(last.rejected[0].1, 3);
}

#[test]
fn csv_25_a_large_legal_field_is_one_value() {
    let field = "x,\n\"\"".repeat(200_000);
    let file = format!("id,t\n1,\"{field}\"\n2,b\n");
    let read = read(&[], file.as_bytes()).unwrap();
    assert_eq!(read.rows.len(), 2);
    assert_eq!(read.rows[0][1].as_deref(), Some("x,\n\"".repeat(200_000).as_str()));
}

#[test]
fn tx_02_invalid_utf8_is_an_error_at_its_byte() {
    let file = b"id,t\n1,caf\xe9\n2,\xc2\n3,ok\n";
    let error = read(&[], file).unwrap_err();
    assert_eq!((error.kind(), error.place().line, error.place().byte), (ErrorKind::Data, Some(2), Some(10)), "{error}");
    let aside = read_aside(&[], file).unwrap();
    assert_eq!(aside.rows, rows(&[&["3", "ok"]]));
    assert_eq!(aside.rejected.iter().map(|r| r.1).collect::<Vec<_>>(), [2, 3]);
    for (encoding, text) in [("latin-1", b"id,t\n1,caf\xe9\n2,x\n".as_slice()), ("windows-1252", b"id,t\n1,caf\xe9\n2,\x80\n")] {
        let (encoding, _) = detect_encoding(text, Some(encoding)).unwrap();
        let mut utf8 = Vec::new();
        Transcoder::new(encoding).push(text, true, &mut utf8).unwrap();
        let read = read(&[], &utf8).unwrap();
        assert_eq!(read.rows[0][1].as_deref(), Some("café"));
        assert!(["x", "€"].contains(&read.rows[1][1].as_deref().unwrap()));
    }
}

#[test]
fn blank_lines_comments_and_projection() {
    let blank = read(&[], b"\n\r\na,b\n\n1,2\n\r\n\n3,4\n\n").unwrap();
    assert_eq!((blank.rows, blank.records), (rows(&[&["1", "2"], &["3", "4"]]), 2));
    let one = read(&[], b"a\n1\n\n\r\n2").unwrap();
    assert_eq!((one.rows, one.records), (rows(&[&["1"], &["~"], &["~"], &["2"]]), 4));
    let comments = read(&[("comment", "#")], b"# \"top\na,b\n#1,2\n1,2\n# un\"closed\n\n3,#4\n\"#5\",6\n#end").unwrap();
    assert_eq!((comments.rows, comments.records), (rows(&[&["1", "2"], &["3", "#4"], &["#5", "6"]]), 3));
    let some = read(&[("columns", "c,a")], b"a,b,c\n1,2,3\n4,\"5\"\"\",6\n").unwrap();
    assert_eq!((some.names, some.rows), (vec!["c".to_string(), "a".to_string()], rows(&[&["3", "1"], &["6", "4"]])));
    assert!(read(&[("columns", "d")], b"a,b,c\n1,2,3\n").unwrap_err().to_string().contains("no column \"d\""));
    let named = read(&[("header", "x,y")], b"1,2\n").unwrap();
    assert_eq!((named.names, named.rows), (vec!["x".to_string(), "y".to_string()], rows(&[&["1", "2"]])));
    let none = read(&[("quote", "none")], b"a,b\n\"1,2\"\n").unwrap();
    assert_eq!(none.rows, rows(&[&["\"1", "2\""]]));
    let sniffed = read(&[("delimiter", "auto")], b"a;b;c\n1,5;2;3\n2,5;\"x;y\";4\n").unwrap();
    assert_eq!(sniffed.rows, rows(&[&["1,5", "2", "3"], &["2,5", "x;y", "4"]]));
}

#[test]
fn an_origin_gives_each_row_its_record_and_line() {
    let file = b"a,b\n1,\"x\ny\"\n\n2\n3,z\n";
    let input = detect(&[], file).unwrap();
    let mut aside = Aside::default();
    let prolog = input.prolog();
    let raw = Raw { bytes: Bytes::copy_from_slice(&file[prolog.bytes..]), first_line: 2, ..Raw::default() };
    let mut seen = Vec::new();
    let emit = &mut |rows: Rows, _: &mut dyn Rejects| {
        for row in 0..rows.batch.num_rows() {
            let error = rows.locate(row, Error::new(ErrorKind::Data, "x"));
            seen.push((rows.raw_record(row).unwrap().to_vec(), error.place().line, error.place().row_in_chunk));
        }
        Ok(())
    };
    input.decoder().decode(raw, &mut aside, emit).unwrap();
    // A blank line goes with the record before it.
    assert_eq!(seen, [(b"1,\"x\ny\"\n\n".to_vec(), Some(2), Some(0)), (b"3,z\n".to_vec(), Some(6), Some(2))]);
    assert_eq!(
        (aside.0[0].0.as_slice(), aside.0[0].1.place().line, aside.0[0].1.place().row_in_chunk),
        (b"2\n".as_slice(), Some(5), Some(1))
    );
}

#[test]
fn a_sample_that_is_only_the_start_says_what_it_can() {
    let start = |pairs: &[(&str, &str)], sample: &[u8]| CsvInput::detect(&settings(pairs), sample, false, "t.csv");
    let input = start(&[], b"a,b\n1,\"x\n").unwrap();
    assert_eq!((input.schema().fields().len(), input.prolog().bytes, input.prolog().lines), (2, 4, 1));
    // The second record may be cut: the first alone tells the width.
    assert_eq!(start(&[("header", "false")], b"1,2,3\n4").unwrap().schema().fields().len(), 3);
    for (pairs, sample) in [
        (vec![], b"a,\"b\n1,2\n".as_slice()),
        (vec![], b"a,b"),
        (vec![], b"\n\n"),
        (vec![("skip", "3")], b"x\ny\n"),
        (vec![("skip_records", "2")], b"a,b\n1,2\n"),
    ] {
        let error = start(&pairs, sample).err().unwrap_or_else(|| panic!("{pairs:?} {sample:?}"));
        assert!(error.to_string().starts_with("t.csv"), "{error}");
        assert!(error.to_string().contains("first"), "{error}");
    }
}

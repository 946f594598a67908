//! Other readers as oracles, and random input.

use super::*;
use proptest::prelude::*;

/// Text that is hard to cut.
fn nasty(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"\"\"\"\",,,\n\n\r\nab 5\xc3\xa9\\#".to_vec()), 0..max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every piece size gives the rows, rejects and errors that one piece gives (`read_aside` compares them).
    #[test]
    fn pieces_of_every_size_give_the_same(body in nasty(160), header in prop::bool::ANY, newline in prop::sample::select(vec!["auto", "lf", "crlf", "cr"])) {
        let file = [b"a,b\n".as_slice(), &body].concat();
        let header = if header { "true" } else { "x,y,z" };
        let result = read_aside(&[("header", header), ("newline", newline)], &file);
        prop_assert!(result.is_ok() || result.is_err());
    }

    #[test]
    fn pieces_of_every_size_give_the_same_in_other_dialects(body in nasty(120), trim in prop::bool::ANY) {
        let file = [b"a,b\n".as_slice(), &body].concat();
        let trim = if trim { "true" } else { "false" };
        let result = read_aside(&[("escape", "\\"), ("comment", "#"), ("trim", trim), ("ragged", "pad")], &file);
        prop_assert!(result.is_ok() || result.is_err());
    }

    /// Tables written by the `csv` crate come back.
    #[test]
    fn files_of_another_writer_come_back(
        table in (1..6usize).prop_flat_map(|width| prop::collection::vec(prop::collection::vec("[a,\"\n\r é]{0,20}", width), 1..30)),
        crlf in prop::bool::ANY,
    ) {
        let terminator = if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
        let mut writer = csv::WriterBuilder::new().terminator(terminator).quote_style(csv::QuoteStyle::Always).from_writer(Vec::new());
        for row in &table {
            writer.write_record(row).unwrap();
        }
        let file = writer.into_inner().unwrap();
        let read = read(&[("header", "false")], &file).unwrap();
        let want: Table = table.into_iter().map(|r| r.into_iter().map(Some).collect()).collect();
        prop_assert_eq!(read.rows, want);
    }
}

/// Runs a Python program with `input` on its standard input.
fn python(program: &str, input: &str) -> String {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let mut child = Command::new("python3").args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn texts(rows: &serde_json::Value) -> Vec<Vec<String>> {
    serde_json::from_value(rows.clone()).unwrap()
}

/// Python tells neither NULL nor blank lines apart from empty strings.
fn as_python_sees(table: Table) -> Vec<Vec<String>> {
    table.into_iter().map(|r| r.into_iter().map(Option::unwrap_or_default).collect()).collect()
}

/// Files written by Python's csv module, in many dialects, read the same here.
#[test]
fn files_of_python_read_the_same() {
    let program = r#"
import csv, io, json, random
random.seed(7)
alphabet = ['a', 'b', '"', "'", ',', ';', '|', '\t', '\n', '\r\n', ' ', 'é', '日', '""', 'x' * 40]
for case in range(200):
    width = random.randint(1, 6)
    delimiter = random.choice(',;|\t')
    quote = random.choice('"\'')
    end = random.choice(['\n', '\r\n'])
    style = random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    rows = [[''.join(random.choice(alphabet) for _ in range(random.randint(0, 12))) for _ in range(width)] for _ in range(random.randint(1, 30))]
    out = io.StringIO(newline='')
    csv.writer(out, delimiter=delimiter, quotechar=quote, lineterminator=end, quoting=style).writerows(rows)
    again = list(csv.reader(io.StringIO(out.getvalue(), newline=''), delimiter=delimiter, quotechar=quote))
    print(json.dumps({'delimiter': delimiter, 'quote': quote, 'file': out.getvalue(), 'rows': again}))
"#;
    let cases = python(program, "");
    for case in cases.lines() {
        let case: serde_json::Value = serde_json::from_str(case).unwrap();
        let text = |key: &str| case[key].as_str().unwrap();
        let pairs = [("delimiter", text("delimiter")), ("quote", text("quote")), ("header", "false")];
        let read = read(&pairs, text("file").as_bytes()).unwrap();
        assert_eq!(as_python_sees(read.rows), texts(&case["rows"]), "{case}");
    }
    assert_eq!(cases.lines().count(), 200);
}

/// What is written here, Python reads the same.
#[test]
fn csv_17_python_reads_what_is_written() {
    let values = ["n\nn", "c\rr", "r\r\nn", "quote\"", "a,b", " lead", "\\.", "", "-", "=1+1", "日本", "\"\"", "x"];
    let table: Table =
        (0..60).map(|r| (0..3).map(|c| ((r + c) % 7 != 0).then(|| values[(r * 3 + c * 5) % 13].to_string())).collect()).collect();
    let program = r#"
import csv, io, json, sys
for line in sys.stdin:
    case = json.loads(line)
    print(json.dumps(list(csv.reader(io.StringIO(case['file'], newline=''), delimiter=case['delimiter'], strict=True))))
"#;
    for (delimiter, newline) in [(",", "lf"), (";", "crlf"), ("|", "lf")] {
        let settings = [("delimiter", delimiter), ("newline", newline), ("header", "false")];
        let file = String::from_utf8(super::write::encode(&settings, &super::write::batch(&table)).unwrap()).unwrap();
        let seen = python(program, &serde_json::json!({"file": file, "delimiter": delimiter}).to_string());
        assert_eq!(texts(&serde_json::from_str(&seen).unwrap()), as_python_sees(table.clone()));
    }
}

/// The fuzz body holds on a small corpus, under each dialect it knows.
#[test]
fn the_fuzz_corpus_holds() {
    let corpus: &[&[u8]] = &[
        b"a,b\n1,2\n3,4\n",
        b"a,b\r\n\"x,\r\n\"\"y\"\"\",2\r\n\r\n3\r\n",
        b"id,t\r1,a\r2,\"x\ry\"\r",
        b"\xef\xbb\xbf\"a\",b\n5\" pipe,\"\"A\"\"\n",
        b"a,b\n\"x\\\"y\",z\n#c,\"\n1, \"q\" \n",
        b"a\n\n\n\"\"\n\xff\n#\xff\n",
        b"a,b\n\"open,1\n2,3\n",
        b"\n\n,\n\"\n\"",
        b"'a','b'\n'it''s','x\ny'\n",
        b"a,b\n1,2\r\r\n3,4\r5,6",
    ];
    for body in corpus {
        for choice in 0..=255 {
            for step in [1, 2, 3, 5, 64] {
                crate::csv::fuzz::fuzz_scan(&[&[choice, step], *body].concat());
            }
        }
    }
}

//! Every line that is written is strict JSON for the world's readers.

use super::encode::{batch, encode, json_field};
use arrow_array::*;
use arrow_schema::Field;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Reads every line with Python's json module, which must not meet NaN or a duplicate key, and gives it back as ASCII.
fn by_python(text: &str) -> String {
    let script = concat!(
        "import json, sys\n",
        "def refuse(x): raise ValueError(x)\n",
        "def pairs(p):\n",
        "    if len(dict(p)) != len(p): raise ValueError('twice')\n",
        "    return dict(p)\n",
        "for line in sys.stdin.buffer.read().decode('utf-8').split('\\n')[:-1]:\n",
        "    print(json.dumps(json.loads(line, parse_constant=refuse, object_pairs_hook=pairs)))\n",
    );
    let mut child = Command::new("python3").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "python refused a line");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn fs_03_every_line_is_strict_json_for_other_readers() {
    // What CSV-17, TX-06 and NUM-02 put into text.
    let texts = [
        "n\nn",
        "c\rr",
        "quote\"",
        "a,b",
        " lead",
        "\\.",
        "",
        "-",
        "=1+1",
        "\u{0}",
        "a\u{0}b",
        "\u{1f}",
        "\u{7f}",
        "\u{2028}\u{2029}",
        "😀",
        "\u{85}",
        "back\\slash",
        "tab\t",
        "/",
        "\u{feff}bom",
        "null",
        "NaN",
        "日本",
        "e\u{301}",
        "line one\r\nline two, long enough for more than a view",
    ];
    let rows = texts.len() + 1;
    let text = StringViewArray::from_iter(texts.iter().map(Some).chain([None]));
    let json = StringViewArray::from_iter((0..rows).map(|i| match i % 4 {
        0 => Some("{\n\t\"a\": [1.0, 1e2],\r\n\t\"b\": null\n}"),
        1 => Some("null"),
        2 => None,
        _ => Some("\"\\ud83d\\ude00\""),
    }));
    let floats = Float64Array::from_iter((0..rows).map(|i| [Some(5.0), Some(-0.0), Some(1e300), Some(5e-324), Some(0.1), None][i % 6]));
    let plain = |name: &str, array: ArrayRef| (Field::new(name, array.data_type().clone(), true), array);
    let batch = batch(vec![
        plain("t\n\"", Arc::new(text.clone())),
        (json_field("j"), Arc::new(json.clone()) as ArrayRef),
        plain("f", Arc::new(floats.clone())),
    ]);
    let written = encode(&batch).unwrap();
    assert_eq!(written.matches('\n').count(), rows);
    assert!(!written.contains('\r'));
    let python = by_python(&written);
    for (row, (ours, theirs)) in written.lines().zip(python.lines()).enumerate() {
        let ours: serde_json::Value = serde_json::from_str(ours).unwrap();
        let theirs: serde_json::Value = serde_json::from_str(theirs).unwrap();
        assert_eq!(ours, theirs);
        assert_eq!(ours["t\n\""].as_str(), text.is_valid(row).then(|| text.value(row)));
        assert_eq!(ours["f"].as_f64().map(f64::to_bits), floats.is_valid(row).then(|| floats.value(row).to_bits()));
        let expected = json.is_valid(row).then(|| serde_json::from_str::<serde_json::Value>(json.value(row)).unwrap());
        assert_eq!(ours.get("j"), expected.as_ref());
    }
}

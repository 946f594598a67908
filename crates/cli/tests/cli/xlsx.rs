//! Excel workbooks, read again by another tool.

use crate::postgres::Site;
use crate::runner::Folder;
use haul_testkit::services::run_python;

/// Type and value of every cell of a workbook's first sheet, row by row.
fn cells(dir: &Folder, name: &str) -> Vec<String> {
    let code = "import openpyxl, sys\n\
                book = openpyxl.load_workbook(sys.argv[1])\n\
                for row in book.worksheets[0].iter_rows(values_only=True):\n    \
                print('|'.join(f'{type(v).__name__}:{v!r}' for v in row))\n";
    run_python(code, &[dir.path(name).to_str().unwrap()]).lines().map(str::to_string).collect()
}

#[test]
fn cells_hold_what_the_columns_did() {
    let site = Site::new(
        "create table src (id bigint, big bigint, price numeric(12,2), wide numeric(30,10), f float8, ok bool, day date, at timestamp, zoned timestamptz, t text, j jsonb, raw bytea); \
         insert into src values \
           (1, 9007199254740993, 12.50, 12345678901234567890.0123456789, 0.1, true, '2024-02-29', '2024-02-29 13:14:15.25', '2024-02-29 13:14:15+00', 'a <b> & \"c\"', '{\"k\": [1, null]}', '\\x00ff'), \
           (2, -5, -0.01, 0.5, -2.5e-7, false, '1899-12-31', '2024-01-01 00:00:00.000001', null, '=1+1', null, null), \
           (null, null, null, null, 'NaN', null, null, null, null, '', null, null)",
    );
    let ran = site.copy(":src", "out.xlsx", "--order-by id").ok();
    assert_eq!(ran.account(), (3, 3, 0));
    let cells = cells(&site.dir, "out.xlsx");
    let expected = [
        "str:'id'|str:'big'|str:'price'|str:'wide'|str:'f'|str:'ok'|str:'day'|str:'at'|str:'zoned'|str:'t'|str:'j'|str:'raw'",
        "int:1|str:'9007199254740993'|float:12.5|str:'12345678901234567890.0123456789'|float:0.1|bool:True|\
         datetime:datetime.datetime(2024, 2, 29, 0, 0)|datetime:datetime.datetime(2024, 2, 29, 13, 14, 15, 250000)|\
         str:'2024-02-29T13:14:15Z'|str:'a <b> & \"c\"'|str:'{\"k\": [1, null]}'|str:'\\\\x00ff'",
        "int:2|int:-5|float:-0.01|float:0.5|float:-2.5e-07|bool:False|str:'1899-12-31'|str:'2024-01-01T00:00:00.000001'|\
         NoneType:None|str:'=1+1'|NoneType:None|NoneType:None",
        "NoneType:None|NoneType:None|NoneType:None|NoneType:None|str:'NaN'|NoneType:None|NoneType:None|NoneType:None|\
         NoneType:None|NoneType:None|NoneType:None|NoneType:None",
    ];
    assert_eq!(cells, expected);
    let plan = site.plan(":src", "out.xlsx", "").ok().out;
    assert!(
        plan.contains("NULL and empty text are both an empty cell") && plan.contains("text where it has more than 15 digits"),
        "{plan}"
    );
}

#[test]
fn every_row_is_there_in_order_and_names_are_as_asked() {
    let dir = Folder::new();
    let text: String = std::iter::once("id,t\n".to_string()).chain((0..40_000).map(|i| format!("{i},row {i}\n"))).collect();
    dir.write("a.csv", text);
    let ran = dir.haul(&["copy", "a.csv", "a.xlsx", "--cast", "id:int", "--sheet", "Ümläute & more"]).ok();
    assert_eq!(ran.account(), (40_000, 40_000, 0));
    let code = "import openpyxl, sys\n\
                book = openpyxl.load_workbook(sys.argv[1], read_only=True)\n\
                rows = list(book.worksheets[0].iter_rows(values_only=True))\n\
                print(book.sheetnames, rows[0], len(rows), all(r == (i, f'row {i}') for i, r in enumerate(rows[1:])))";
    let told = run_python(code, &[dir.path("a.xlsx").to_str().unwrap()]);
    assert_eq!(told.trim(), "['Ümläute & more'] ('id', 't') 40001 True");
    dir.haul(&["copy", "a.csv", "o/{table}_{part:02}.xlsx", "--file-rows", "30000"]).ok();
    assert_eq!(crate::sets_write::listed(&dir, "o"), ["a_00.xlsx", "a_01.xlsx"]);
}

#[test]
fn what_a_sheet_cannot_hold_is_told() {
    let dir = Folder::new();
    let failed = |line: &str| dir.line(line).failed().err;
    dir.haul(&["generate", "bench", "--rows", "1100000", "b.parquet"]).ok();
    let error = failed("copy b.parquet b.xlsx --columns id");
    assert!(
        error.contains("more rows than a sheet holds (1048576, the header's included)") && error.contains(" hint: write several files"),
        "{error}"
    );
    assert!(!dir.path("b.xlsx").exists());
    dir.write("long.csv", format!("id,t\n1,x\n2,{}\n", "y".repeat(40_000)));
    let error = failed("copy long.csv long.xlsx");
    assert!(error.contains("long.csv, line 3, row 2, column \"t\": a text of 40000 characters, and a cell holds 32767"), "{error}");
    let ran = dir.line("copy long.csv long.xlsx --on-error reject --rejects r.jsonl").ok();
    assert_eq!(ran.account(), (2, 1, 1));
    let error = failed("copy long.xlsx back.csv");
    assert!(error.contains("long.xlsx: Excel workbooks are written, and not read"), "{error}");
    let error = failed("copy long.csv long.xlsx --verify");
    assert!(error.contains("Excel workbooks are written, and not read"), "{error}");
    let error = dir.line("copy long.csv long.xlsx --sheet a/b").failed_config().err;
    assert!(error.contains("a sheet cannot be called \"a/b\""), "{error}");
}

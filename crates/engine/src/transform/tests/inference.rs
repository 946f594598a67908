use super::*;
use crate::transform::{AskedBy, Cast, Project, TypeName, infer, infer_after};
use haul_model::field_meta;

/// What a column of these values is taken for.
fn inferred(values: &[&str]) -> String {
    let values: Vec<Option<&str>> = values.iter().map(|v| Some(*v)).collect();
    infer(&[text_rows(&[("c", &values)])]).unwrap().first().map_or("text".to_string(), |(_, kind)| kind.to_string())
}

#[test]
fn csv_23_what_only_looks_like_a_number_stays_text() {
    let rows = text_rows(&[
        ("zip", &[Some("01234"), Some("98765"), Some("00000")]),
        ("phone", &[Some("+31612345678"), Some("0031612345678"), Some("112")]),
        ("amt", &[Some("1,213"), Some("1.213,50"), Some("(12)")]),
        ("code", &[Some("1E5"), Some("00E1"), Some("12e3")]),
        ("flag", &[Some("t"), Some("yes"), Some("1")]),
    ]);
    assert_eq!(infer(&[rows]).unwrap(), []);
    for text in ["01234", "+31612345678", "1,213", "1E5", "00E1", "1e5", "-0", "-", ".5", "5.", "1_000", " 1", "0x1", "NaN", "Infinity", ""]
    {
        assert_eq!(inferred(&[text]), "text", "{text:?}");
    }
}

#[test]
fn the_narrowest_type_that_changes_nothing() {
    for (values, kind) in [
        (&["1", "-20", "0"][..], "bigint"),
        (&["9223372036854775807", "-9223372036854775808"], "bigint"),
        (&["9223372036854775808", "1"], "numeric"),
        (&["1.5", "0.1", "-2.0"], "double precision"),
        (&["1.50"], "numeric"),
        (&["1.5", "2"], "numeric"),
        (&["0.1000000000000000055511151231257827"], "numeric"),
        (&["true", "false"], "boolean"),
        (&["TRUE"], "boolean"),
        (&["true", "False"], "text"),
        (&["t", "f", "t"], "boolean"),
        (&["t", "t"], "text"),
        (&["true", "t"], "text"),
        (&["true", "1"], "text"),
        (&["2020-01-31", "1999-12-01"], "date"),
        (&["2020-02-30"], "text"),
        (&["20200131"], "bigint"),
        (&["2020-01-31", "2020-01-31 10:00:00"], "text"),
        (&["2020-01-31 10:00:00", "2020-01-31T10:00:00.120"], "timestamp"),
        (&["2020-01-31T10:00:00Z", "2020-01-31 12:00:00+02"], "timestamptz"),
        (&["2020-01-31T10:00:00Z", "2020-01-31T10:00:00"], "text"),
        (&["2020-01-31 10:00"], "text"),
        (&["2020-01-31 24:00:00"], "text"),
        (&["2020-01-31 10:00:00.0000001"], "text"),
        (&["{\"a\":1}", "[]"], "json"),
        (&["{\"a\":1}", "1"], "text"),
        (&["{a:1}"], "text"),
        (&["1", "x"], "text"),
        (&["1", ""], "text"),
    ] {
        assert_eq!(inferred(values), kind, "{values:?}");
    }
}

#[test]
fn nulls_say_nothing_and_batches_are_read_on() {
    let first = text_rows(&[("a", &[None, Some("1")]), ("b", &[None, None])]);
    let second = text_rows(&[("a", &[Some("1.5"), None]), ("b", &[None, None])]);
    assert_eq!(infer(&[first, second]).unwrap(), [("a".to_string(), TypeName::Numeric)]);
    assert_eq!(infer(&[]).unwrap(), []);
    let json = rows_of(TypeName::JSON.field("j", true), Arc::new(StringViewArray::from(vec!["1"])));
    assert!(field_meta::is_json(json.batch.schema().field(0)));
    assert_eq!(infer(&[json]).unwrap(), []);
}

#[test]
fn a_later_value_that_does_not_fit_names_the_type_that_takes_it() {
    let sample = text_rows(&[("amount", &[Some("1"), Some("2")]), ("d", &[Some("2020-01-01"), None])]);
    let cast = Cast::new(infer(&[sample]).unwrap(), AskedBy::Sample);
    assert_eq!(cast.describe(), "infer amount:bigint,d:date");
    let later = |amount, d| failure(&cast, text_rows(&[("amount", &[Some("3"), Some(amount)]), ("d", &[None, Some(d)])]));
    assert_eq!(
        later("4.50", "2020-01-02"),
        "Data: t.csv, line 3, column \"amount\": \"4.50\" is a decimal number, not an integer | the sample looked like bigint; \
         --cast amount:numeric holds it"
    );
    assert_eq!(
        later("n/a", "2020-01-02"),
        "Data: t.csv, line 3, column \"amount\": \"n/a\" is text, not an integer | the sample looked like bigint; \
         --cast amount:text keeps it as it is"
    );
    assert_eq!(
        later("4", "2020-01-02 10:00:00+02"),
        "Data: t.csv, line 3, column \"d\": \"2020-01-02 10:00:00+02\" is a timestamp, not a date | the sample looked like date; \
         --cast d:timestamptz holds it"
    );
}

#[test]
fn the_sample_goes_through_the_steps_before_and_given_types_win() {
    let sample = || text_rows(&[("a", &[Some("1"), Some("x")]), ("b", &[Some("2"), Some("3")]), ("c", &[Some("4"), None])]);
    let before = || -> Vec<Box<dyn Transform>> {
        let rename = Project::parse_renames("a:z").unwrap();
        vec![
            Box::new(Project::new(Some(vec!["a".into(), "b".into(), "c".into()]), rename).unwrap()),
            Box::new(Cast::parse("z:smallint").unwrap()),
        ]
    };
    let casts = infer_after(vec![sample()], &before(), &["c".to_string()]).unwrap();
    assert_eq!(casts, [("b".to_string(), TypeName::Int64)]);
    let casts = infer_after(vec![sample()], &before(), &[]).unwrap();
    assert_eq!(casts, [("b".to_string(), TypeName::Int64), ("c".to_string(), TypeName::Int64)]);
}

/// Whatever is inferred, the values of the sample print back as they were, zone and fraction zeros of timestamps and the
/// case of booleans aside.
#[test]
fn inferred_numbers_and_dates_print_back_unchanged() {
    for values in [&["1", "-20"][..], &["1.5", "0.1", "-2.0", "1234567.125"], &["1.50", "2"], &["2020-01-31"]] {
        let rows = text_rows(&[("c", &values.iter().map(|v| Some(*v)).collect::<Vec<_>>())]);
        let typed = apply(&Cast::new(infer(std::slice::from_ref(&rows)).unwrap(), AskedBy::Sample), rows);
        assert_eq!(texts(&apply(&Cast::parse("c:text").unwrap(), typed), "c"), some(values));
    }
}

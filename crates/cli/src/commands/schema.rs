//! `haul schema URI` and `haul preview URI`.

use crate::args::given;
use crate::job::{Side, end};
use crate::render::{self, Table};
use arrow_schema::Field;
use clap::ArgMatches;
use haul_model::{Endpoint, Environment, Error, Form, Result, Source, field_meta};

fn open(matches: &ArgMatches, env: &Environment) -> Result<(Box<dyn Source>, bool)> {
    let text = matches.get_one::<String>("address").ok_or_else(|| Error::internal("no endpoint"))?;
    let flags = given(matches);
    let json = flags.iter().any(|(n, v)| n == "json" && v != "false" && v != "off");
    let end = end(Endpoint::parse(text)?, Side::Source, &flags, &mut Vec::new(), &mut Vec::new())?;
    Ok((end.connector.source(&end.endpoint, &end.settings, env)?, json))
}

/// The source's own type where it has one, and what it is in Arrow.
fn types(field: &Field) -> (String, String) {
    let arrow = match field.metadata().get(field_meta::EXTENSION) {
        Some(extension) => extension.clone(),
        None => field.data_type().to_string(),
    };
    let own = field.metadata().get(field_meta::SOURCE_TYPE).map(|t| t.split_once(':').map_or(t.as_str(), |(_, t)| t).to_string());
    (own.unwrap_or_else(|| arrow.clone()), arrow)
}

/// Prints the columns.
///
/// # Errors
/// The source cannot be opened.
pub fn schema(matches: &ArgMatches, env: &Environment) -> Result<()> {
    let (source, json) = open(matches, env)?;
    let schema = source.schema(Form::Typed)?;
    if json {
        let columns: Vec<_> = schema
            .fields()
            .iter()
            .map(|f| {
                let (own, arrow) = types(f);
                serde_json::json!({"name": f.name(), "type": own, "arrow": arrow, "nullable": f.is_nullable()})
            })
            .collect();
        return render::print(&format!("{}\n", serde_json::json!({"source": source.name(), "columns": columns})));
    }
    let mut table = Table::new(&["column", "type", "arrow", "nullable"]);
    for field in schema.fields() {
        let (own, arrow) = types(field);
        table.row(vec![field.name().clone(), own, arrow, if field.is_nullable() { "yes" } else { "no" }.into()]);
    }
    render::print(&table.render())?;
    for note in source.notes(Form::Typed) {
        eprintln!("note: {}{}", note.column.map(|c| format!("column {c:?}: ")).unwrap_or_default(), note.text);
    }
    Ok(())
}

/// Prints the first rows.
///
/// # Errors
/// The source cannot be opened or read.
pub fn preview(matches: &ArgMatches, env: &Environment) -> Result<()> {
    let wanted = usize::try_from(*matches.get_one::<u64>("rows").unwrap_or(&10)).unwrap_or(usize::MAX);
    let (mut source, json) = open(matches, env)?;
    let form = Form::Json;
    let schema = source.schema(form)?;
    let batches = crate::sample::rows(source.as_mut(), form, wanted)?;
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    let mut table = Table::new(&names);
    let mut left = wanted;
    for rows in &batches {
        let batch = &rows.batch;
        for row in 0..batch.num_rows().min(left) {
            let mut cells = Vec::new();
            let mut object = Vec::new();
            for (i, field) in schema.fields().iter().enumerate() {
                let mut cell = Vec::new();
                haul_formats::jsonl::write_json_value(batch.column(i).as_ref(), field, row, &mut cell)?;
                let cell = String::from_utf8_lossy(&cell).into_owned();
                object.push(format!("{}:{cell}", serde_json::Value::from(field.name().as_str())));
                cells.push(shorten(&cell));
            }
            if json {
                render::print(&format!("{{{}}}\n", object.join(",")))?;
            } else {
                table.row(cells);
            }
        }
        left -= batch.num_rows().min(left);
    }
    if !json {
        render::print(&table.render())?;
    }
    Ok(())
}

/// JSON text as a table cell: strings without quotes, NULL in words, long values cut.
fn shorten(json: &str) -> String {
    let text = match json {
        "null" => "NULL".to_string(),
        json if json.starts_with('"') => {
            let inner: String = serde_json::from_str(json).unwrap_or_else(|_| json.to_string());
            inner.chars().map(|c| if c.is_control() { '\u{b7}' } else { c }).collect()
        }
        json => json.to_string(),
    };
    if text.chars().count() > 40 { text.chars().take(39).chain(['\u{2026}']).collect() } else { text }
}

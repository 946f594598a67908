//! `--columns a,b` and `--rename old:new`: which columns, in which order, under which names.

use super::cast::{find_column, rebuild};
use super::convert::explain::flag_name;
use super::type_names::{split_top_level, take_name};
use arrow_schema::{Schema, SchemaRef};
use haul_model::{Error, ErrorKind, Rejects, Result, Rows, Transform};
use std::sync::Arc;

/// Picks columns by name, in the order given, and renames them. Values are not touched.
#[derive(Debug, Default)]
pub struct Project {
    /// `None`: all, as they are.
    columns: Option<Vec<String>>,
    /// (old, new), by the names of the source.
    renames: Vec<(String, String)>,
}

impl Project {
    /// Picks `columns` (all when `None`), then renames. Names are those of the source, exact.
    ///
    /// # Errors
    /// `Config`: no column left, one picked twice, or renamed though it was not picked.
    pub fn new(columns: Option<Vec<String>>, renames: Vec<(String, String)>) -> Result<Self> {
        let config = |what: String| Error::new(ErrorKind::Config, what);
        if let Some(columns) = &columns {
            if columns.is_empty() {
                return Err(config("no columns are picked".into()).hint("name at least one column, or leave --columns out"));
            }
            if let Some(twice) = first_twice(columns.iter()) {
                return Err(config(format!("column {twice:?} is picked twice")));
            }
            if let Some((old, _)) = renames.iter().find(|(old, _)| !columns.contains(old)) {
                return Err(config(format!("column {old:?} is renamed but not picked")).hint("add it to --columns, by its old name"));
            }
        }
        if let Some(twice) = first_twice(renames.iter().map(|(old, _)| old)) {
            return Err(config(format!("column {twice:?} is renamed twice")));
        }
        Ok(Self { columns, renames })
    }

    /// Reads what stands behind `--columns`; names with commas stand in double quotes.
    pub fn parse_columns(text: &str) -> Vec<String> {
        split_top_level(text).into_iter().map(str::trim).filter(|p| !p.is_empty()).map(|part| take_name(part, &[]).0).collect()
    }

    /// Reads what stands behind `--rename`: `old:new,"odd,name":plain`.
    ///
    /// # Errors
    /// `Config`: a part that is not `OLD:NEW`.
    pub fn parse_renames(text: &str) -> Result<Vec<(String, String)>> {
        let mut renames = Vec::new();
        for part in split_top_level(text).into_iter().map(str::trim).filter(|p| !p.is_empty()) {
            let (old, rest) = take_name(part, &[':', '=']);
            let new = rest.and_then(|r| r.trim_start().strip_prefix([':', '='])).map(|r| take_name(r.trim(), &[]).0).unwrap_or_default();
            if old.is_empty() || new.is_empty() {
                return Err(Error::new(ErrorKind::Config, format!("rename {part:?} is not OLD:NEW")));
            }
            renames.push((old, new));
        }
        Ok(renames)
    }

    /// The columns' places in `input`, and the schema that comes out.
    fn plan(&self, input: &SchemaRef) -> Result<(Vec<usize>, SchemaRef)> {
        let indices = match &self.columns {
            Some(names) => names.iter().map(|name| find_column(input, name)).collect::<Result<Vec<_>>>()?,
            None => (0..input.fields().len()).collect(),
        };
        let renames: Vec<(usize, &String)> =
            self.renames.iter().map(|(old, new)| Ok((find_column(input, old)?, new))).collect::<Result<_>>()?;
        let fields: Vec<_> = indices
            .iter()
            .map(|index| match renames.iter().find(|(i, _)| i == index) {
                Some((_, new)) => Arc::new(input.field(*index).clone().with_name(new.as_str())),
                None => input.fields()[*index].clone(),
            })
            .collect();
        for (_, new) in &renames {
            if fields.iter().filter(|f| f.name() == *new).count() > 1 {
                return Err(Error::new(ErrorKind::Schema, format!("there would be several columns called {new:?}"))
                    .column(new.as_str())
                    .hint("choose another name in --rename"));
            }
        }
        Ok((indices, Arc::new(Schema::new_with_metadata(fields, input.metadata().clone()))))
    }
}

fn first_twice<'a>(names: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

impl Transform for Project {
    fn describe(&self) -> String {
        let names = |names: &[String]| names.iter().map(|n| flag_name(n)).collect::<Vec<_>>().join(",");
        let columns = self.columns.as_ref().map(|c| format!("columns {}", names(c)));
        let renames: Vec<String> = self.renames.iter().map(|(old, new)| format!("{}:{}", flag_name(old), flag_name(new))).collect();
        let renames = (!renames.is_empty()).then(|| format!("rename {}", renames.join(",")));
        columns.into_iter().chain(renames).collect::<Vec<_>>().join(", ")
    }

    fn output(&self, input: &SchemaRef) -> Result<SchemaRef> {
        Ok(self.plan(input)?.1)
    }

    fn apply(&self, rows: Rows, _rejects: &mut dyn Rejects) -> Result<Rows> {
        let (indices, schema) = self.plan(rows.batch.schema_ref())?;
        let columns = indices.iter().map(|i| rows.batch.column(*i).clone()).collect();
        let batch = rebuild(&schema, columns, &rows)?;
        Ok(Rows { batch, ..rows })
    }
}

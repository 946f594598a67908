//! Which row groups a condition rules out, by the statistics in the footer.

use super::read_schema::ReadSchema;
use crate::predicate::{Bound, Limits};
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;

/// For each row group whether it may hold a row that meets the condition.
pub(super) fn may_hold(condition: &Bound, schemas: &ReadSchema, metadata: &ParquetMetaData) -> Vec<bool> {
    let limits = |column: usize| limits(column, schemas, metadata);
    condition.groups(metadata.num_row_groups(), &limits)
}

/// What the footer says of a column; `None` where that cannot be relied on.
fn limits(column: usize, schemas: &ReadSchema, metadata: &ParquetMetaData) -> Option<Limits> {
    let field = schemas.decoded.field(column);
    // NaN is in no statistics, yet it is larger than all of them; the order of INT96 and INTERVAL in them is undefined.
    if field.data_type().is_nested() || field.data_type().is_floating() || schemas.twins.contains(&column) {
        return None;
    }
    let converter = StatisticsConverter::try_new(field.name(), &schemas.decoded, metadata.file_metadata().schema_descr()).ok()?;
    let converter = converter.with_missing_null_counts_as_zero(false);
    let leaf = converter.parquet_column_index()?;
    let is_text = matches!(field.data_type(), DataType::Utf8View);
    // Old writers compared bytes as if they were signed.
    let signed = |statistics: &parquet::file::statistics::Statistics| statistics.is_min_max_deprecated();
    if is_text && metadata.row_groups().iter().any(|group| group.column(leaf).statistics().is_some_and(signed)) {
        return None;
    }
    let groups = || metadata.row_groups().iter();
    let nulls = converter.row_group_null_counts(groups()).ok()?;
    Some(Limits {
        least: converter.row_group_mins(groups()).ok()?,
        most: converter.row_group_maxes(groups()).ok()?,
        nulls: nulls.iter().collect(),
        rows: groups().map(|group| group.num_rows().max(0) as u64).collect(),
    })
}

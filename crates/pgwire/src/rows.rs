//! Small results as text: for catalog queries and settings, not for data.

use crate::{Error, Result};

/// One column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// `pg_type.oid`.
    pub type_oid: u32,
    /// Type modifier; -1 = none.
    pub typmod: i32,
    /// The table it comes from; 0 for expressions.
    pub table_oid: u32,
    /// `attnum` in that table; 0 for expressions.
    pub table_column: i16,
}

/// One row: text or NULL for each column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row(Vec<Option<String>>);

impl Row {
    /// The value in column `i` (from 0); `None` for NULL or a column that is not there.
    pub fn get(&self, i: usize) -> Option<&str> {
        self.0.get(i)?.as_deref()
    }
    /// The value in column `i`; empty for NULL.
    pub fn text(&self, i: usize) -> &str {
        self.get(i).unwrap_or("")
    }
    /// A boolean (`t`); false for NULL.
    pub fn flag(&self, i: usize) -> bool {
        self.get(i) == Some("t")
    }
    /// A number or anything else that parses; `None` for NULL or text that does not.
    pub fn parse<T: std::str::FromStr>(&self, i: usize) -> Option<T> {
        self.get(i)?.parse().ok()
    }
    /// Number of columns.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether it has no columns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The result of one statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// Its columns; empty for statements without a result.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// The command tag: `SELECT 3`, `BEGIN`.
    pub tag: String,
}

impl Rows {
    /// Rows affected or returned: the number at the end of the tag; 0 where there is none.
    pub fn count(&self) -> u64 {
        tag_count(&self.tag).unwrap_or(0)
    }
    /// The first row.
    pub fn first(&self) -> Option<&Row> {
        self.rows.first()
    }
}

impl std::ops::Deref for Rows {
    type Target = [Row];
    fn deref(&self) -> &[Row] {
        &self.rows
    }
}

impl<'a> IntoIterator for &'a Rows {
    type Item = &'a Row;
    type IntoIter = std::slice::Iter<'a, Row>;
    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

/// The row count at the end of a command tag.
pub(crate) fn tag_count(tag: &str) -> Option<u64> {
    tag.rsplit(' ').next()?.parse().ok()
}

/// A cursor over the body of a message.
pub(crate) struct Body<'a> {
    rest: &'a [u8],
    host: &'a str,
}

impl<'a> Body<'a> {
    pub fn new(rest: &'a [u8], host: &'a str) -> Self {
        Self { rest, host }
    }

    fn short(&self) -> Error {
        Error::Protocol { host: self.host.to_string(), detail: "a message is shorter than its content".into() }
    }

    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(head)
    }

    pub fn i16(&mut self) -> Result<i16> {
        let bytes = self.bytes(2)?;
        Ok(i16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub fn i32(&mut self) -> Result<i32> {
        let bytes = self.bytes(4)?;
        Ok(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    pub fn cstr(&mut self) -> Result<&'a str> {
        let end = memchr::memchr(0, self.rest).ok_or_else(|| self.short())?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        self.utf8(text)
    }

    fn utf8(&self, text: &'a [u8]) -> Result<&'a str> {
        std::str::from_utf8(text).map_err(|_| Error::Protocol {
            host: self.host.to_string(),
            detail: format!("a name or value is not UTF-8: {:?} (is the database's encoding SQL_ASCII?)", String::from_utf8_lossy(text)),
        })
    }

    /// RowDescription.
    pub fn columns(mut self) -> Result<Vec<Column>> {
        let count = self.i16()?;
        (0..count.max(0))
            .map(|_| {
                let name = self.cstr()?.to_string();
                let table_oid = self.i32()? as u32;
                let table_column = self.i16()?;
                let type_oid = self.i32()? as u32;
                let _size = self.i16()?;
                let typmod = self.i32()?;
                let _format = self.i16()?;
                Ok(Column { name, type_oid, typmod, table_oid, table_column })
            })
            .collect()
    }

    /// DataRow.
    pub fn row(mut self) -> Result<Row> {
        let count = self.i16()?;
        let values = (0..count.max(0)).map(|_| match usize::try_from(self.i32()?) {
            Err(_) => Ok(None),
            Ok(length) => {
                let bytes = self.bytes(length)?;
                Ok(Some(self.utf8(bytes)?.to_string()))
            }
        });
        Ok(Row(values.collect::<Result<_>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_null_and_cut_messages() {
        let body = b"\0\x02\0\0\0\x01t\xff\xff\xff\xff";
        let row = Body::new(body, "h").row().unwrap();
        assert_eq!((row.flag(0), row.get(1), row.len()), (true, None, 2));
        for end in 0..body.len() {
            assert!(Body::new(&body[..end], "h").row().is_err(), "{end}");
        }
        assert!(Body::new(b"\0\x01\0\0\0\x01\xff", "h").row().unwrap_err().to_string().contains("SQL_ASCII"));
    }

    #[test]
    fn counts_of_tags() {
        assert_eq!((tag_count("COPY 12"), tag_count("INSERT 0 7"), tag_count("BEGIN")), (Some(12), Some(7), None));
    }
}

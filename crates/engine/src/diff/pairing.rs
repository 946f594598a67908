//! Which columns are compared, and as what.

use super::Incomparable;
use crate::verify::canon::{self, Canon};
use arrow_schema::{DataType, Field, SchemaRef};
use haul_model::{Error, ErrorKind, Form, Result, Source, field_meta, nearest};

/// The columns of two sides, paired by name.
#[derive(Debug)]
pub(super) struct Pairing {
    /// The form in which both are read.
    pub form: Form,
    /// Names of the compared columns, in the order of the first side.
    pub names: Vec<String>,
    /// Where they stand on either side.
    pub places: [Vec<usize>; 2],
    /// As what they are compared.
    pub canons: Vec<Canon>,
    /// Values are compared by their bytes.
    pub exact: bool,
    /// Columns that only one side has.
    pub only: [Vec<String>; 2],
    pub incomparable: Vec<Incomparable>,
    /// The key's names, and where they stand among the compared columns.
    pub key: Vec<String>,
    pub key_places: Vec<usize>,
    /// The key is one integer.
    pub by_number: bool,
    /// Which of the compared columns are integers.
    numbers: Vec<bool>,
}

impl Pairing {
    /// # Errors
    /// Columns or keys that are not on both sides.
    pub fn of(a: &mut dyn Source, b: &mut dyn Source, key: Option<Vec<String>>) -> Result<Self> {
        let own = match key {
            Some(_) => [Vec::new(), Vec::new()],
            None => [a.key()?, b.key()?],
        };
        let mut chosen: Option<Self> = None;
        for form in [Form::Text, Form::Json] {
            let schemas = [a.schema(form)?, b.schema(form)?];
            check_names(&schemas[0]).map_err(|e| e.object(a.name()))?;
            check_names(&schemas[1]).map_err(|e| e.object(b.name()))?;
            let digested = a.typed_digester().is_some() && b.typed_digester().is_some();
            let pairing = Self::by_name(form, &schemas, digested);
            // A form in which more can be compared.
            if chosen.as_ref().is_none_or(|chosen| pairing.incomparable.len() < chosen.incomparable.len()) {
                chosen = Some(pairing);
            }
        }
        let Some(mut pairing) = chosen else { return Err(Error::internal("no form to read in")) };
        if pairing.names.is_empty() {
            return Err(Error::new(
                ErrorKind::Schema,
                format!("{} and {} have no column in common that can be compared", a.name(), b.name()),
            )
            .hint("columns are paired by name: haul schema shows those of either side"));
        }
        match key {
            Some(key) => pairing.set_key(&key, [&a.name(), &b.name()])?,
            // A primary key that the other side lacks is none here.
            None => own.iter().filter(|key| !key.is_empty()).find_map(|key| pairing.set_key(key, ["", ""]).ok()).unwrap_or_default(),
        }
        Ok(pairing)
    }

    fn by_name(form: Form, schemas: &[SchemaRef; 2], digested: bool) -> Self {
        let [a, b] = schemas;
        let mut pairing = Self {
            form,
            names: Vec::new(),
            places: [Vec::new(), Vec::new()],
            canons: Vec::new(),
            exact: digested,
            only: [only(a, b), only(b, a)],
            incomparable: Vec::new(),
            key: Vec::new(),
            key_places: Vec::new(),
            by_number: false,
            numbers: Vec::new(),
        };
        for (place, field) in a.fields().iter().enumerate() {
            let Some((other, there)) = b.fields().find(field.name()) else { continue };
            let Some(canon) = canon::agree(field, Some(there), false)
                .filter(|canon| [field.as_ref(), there.as_ref()].iter().all(|side| canon::readable(side, *canon, false)))
            else {
                pairing.incomparable.push(Incomparable { name: field.name().clone(), types: [told(field), told(there)] });
                continue;
            };
            pairing.exact &= same_type(field, there);
            pairing.names.push(field.name().clone());
            pairing.places[0].push(place);
            pairing.places[1].push(other);
            pairing.canons.push(canon);
        }
        // Of what goes by its bytes, only these are read as numbers.
        let whole = |field: &Field| matches!(field.data_type(), DataType::Int16 | DataType::Int32 | DataType::Int64);
        let numbers = pairing.places[0].iter().zip(&pairing.canons);
        pairing.numbers = numbers.map(|(place, canon)| *canon == Canon::Int && (!pairing.exact || whole(a.field(*place)))).collect();
        pairing
    }

    /// The key's place among the columns.
    fn set_key(&mut self, key: &[String], sides: [&str; 2]) -> Result<()> {
        let mut places = Vec::new();
        for (number, name) in key.iter().enumerate() {
            if key[..number].contains(name) {
                return Err(Error::new(ErrorKind::Config, "the key names a column twice").column(name));
            }
            places.push(self.names.iter().position(|n| n == name).ok_or_else(|| self.no_key_column(name, sides))?);
        }
        if places.is_empty() {
            return Err(Error::new(ErrorKind::Config, "the key has no columns").hint("--key id, or --key a,b"));
        }
        self.by_number = matches!(places.as_slice(), [one] if self.numbers[*one]);
        (self.key, self.key_places) = (key.to_vec(), places);
        Ok(())
    }

    fn no_key_column(&self, name: &str, sides: [&str; 2]) -> Error {
        let config = |what: String| Error::new(ErrorKind::Config, what);
        if let Some(column) = self.incomparable.iter().find(|column| column.name == name) {
            let [a, b] = &column.types;
            return config(format!("the key column {name:?} is {a} on one side and {b} on the other: they cannot be compared"))
                .hint("name a key whose types agree");
        }
        for (only, other) in [(&self.only[0], sides[1]), (&self.only[1], sides[0])] {
            if only.iter().any(|n| n == name) {
                return config(format!("the key column {name:?} does not exist")).object(other).hint("the key must be on both sides");
            }
        }
        let error = config(format!("the key column {name:?} does not exist"));
        match nearest(name, self.names.iter().map(String::as_str)) {
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error.hint(format!("the columns are {}", self.names.join(", "))),
        }
    }

    /// As what the columns of the key are compared.
    pub fn canons_of_the_key(&self) -> Vec<Canon> {
        self.key_places.iter().map(|place| self.canons[*place]).collect()
    }
}

fn only(own: &SchemaRef, other: &SchemaRef) -> Vec<String> {
    own.fields().iter().map(|field| field.name().clone()).filter(|name| other.fields().find(name).is_none()).collect()
}

/// Columns are found by their names.
fn check_names(schema: &SchemaRef) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    match schema.fields().iter().find(|field| !seen.insert(field.name().as_str())) {
        None => Ok(()),
        Some(double) => Err(Error::new(ErrorKind::Schema, "two columns have the same name")
            .column(double.name())
            .hint("columns are paired by name: give them names of their own, or leave one out with --columns")),
    }
}

/// Whether both are of one type of one server.
fn same_type(one: &Field, other: &Field) -> bool {
    let source = |field: &Field| field.metadata().get(field_meta::SOURCE_TYPE).cloned();
    one.data_type() == other.data_type() && source(one).is_some() && source(one) == source(other)
}

/// The type in words.
fn told(field: &Field) -> String {
    match field.metadata().get(field_meta::SOURCE_TYPE).and_then(|name| name.split_once(':')) {
        Some((_, name)) => name.to_string(),
        None => field.data_type().to_string(),
    }
}

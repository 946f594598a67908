//! What is seen of the rows: hashes of their values, of their keys, and of the whole, and to which part of the key they belong.

use super::pairing::Pairing;
use crate::verify::arrays::ArrayHasher;
use crate::verify::reread::Look;
use arrow_array::RecordBatch;
use haul_model::digest::NO_NUMBER;
use haul_model::{Decoder, Digester, Error, ErrorKind, Hashes, Payload, Result, Source, Strict};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Parts of the key. One more is for what an integer key cannot be.
pub(super) const PARTS: usize = 1 << 16;
/// Successive integers that belong together: 2 to this.
pub(super) const BLOCK_BITS: u32 = 10;

/// The part of a row whose key is an integer.
pub(super) fn part_of_number(number: i64) -> usize {
    if number == NO_NUMBER { PARTS } else { (number >> BLOCK_BITS) as u64 as usize & (PARTS - 1) }
}

/// Rows as they are seen.
pub(super) struct Seen<'a> {
    /// By column.
    pub hashes: &'a Hashes,
    keys: &'a [u64],
    by_number: bool,
}

impl Seen<'_> {
    pub fn rows(&self) -> usize {
        self.hashes.rows
    }
    /// The hash of a whole row.
    pub fn row(&self, row: usize) -> u64 {
        self.hashes.last_rows()[row]
    }
    /// The hash of its key.
    pub fn key(&self, row: usize) -> u64 {
        self.keys[row]
    }
    /// Its key as a number.
    pub fn number(&self, row: usize) -> i64 {
        if self.by_number { self.hashes.numbers[row] } else { NO_NUMBER }
    }
    /// The part of the key that it belongs to.
    pub fn part(&self, row: usize) -> usize {
        if self.by_number { part_of_number(self.hashes.numbers[row]) } else { self.keys[row] as usize & (PARTS - 1) }
    }
}

/// What is made of the rows of one side, by one worker.
pub(super) trait Sight {
    /// Sees rows; whether it wants their values.
    fn rows(&mut self, seen: &Seen<'_>) -> bool;
    /// The values of rows that were just seen, from the row `first` on.
    ///
    /// # Errors
    /// A value that cannot be shown.
    fn values(&mut self, _seen: &Seen<'_>, _batch: &RecordBatch, _first: usize) -> Result<()> {
        Ok(())
    }
    /// There are no more.
    fn end(self);
}

/// One worker's way from chunks to hashes.
pub(super) struct Lens {
    decoder: Box<dyn Decoder>,
    digester: Option<Box<dyn Digester>>,
    hasher: ArrayHasher,
    /// Where the compared columns stand in the records.
    places: Vec<usize>,
    key: Vec<usize>,
    by_number: bool,
    raw: Hashes,
    hashes: Hashes,
    keys: Vec<u64>,
}

impl Lens {
    /// # Errors
    /// The source cannot be read in the form that was chosen.
    pub fn new(source: &dyn Source, pairing: &Pairing, side: usize) -> Result<Self> {
        let columns: Vec<_> = pairing.places[side].iter().copied().zip(pairing.canons.iter().copied()).collect();
        let places = pairing.places[side].clone();
        let digester = if pairing.exact { source.typed_digester() } else { None };
        let number = pairing.by_number.then(|| pairing.key_places[0]);
        Ok(Self {
            decoder: source.decoder(pairing.form)?,
            digester,
            hasher: ArrayHasher::new(columns, false),
            key: pairing.key_places.clone(),
            by_number: pairing.by_number,
            raw: Hashes::default().with_number(number.map(|number| places[number])),
            hashes: Hashes::new(places.len()).with_number(number),
            places,
            keys: Vec::new(),
        })
    }

    fn look(&mut self, payload: Payload, sight: &mut impl Sight) -> Result<()> {
        let Self { decoder, digester, hasher, places, key, by_number, raw, hashes, keys } = self;
        let by_number = *by_number;
        let see = |hashes: &mut Hashes, keys: &mut Vec<u64>| {
            hashes.rows();
            if !key.is_empty() {
                hashes.rows_of(key, keys);
            }
        };
        match (payload, digester) {
            (Payload::Raw(chunk), Some(digester)) => {
                digester.digest(&chunk, raw)?;
                hashes.rows = raw.rows;
                std::mem::swap(&mut hashes.numbers, &mut raw.numbers);
                for (column, place) in hashes.columns.iter_mut().zip(places.iter()) {
                    let found = raw.columns.get_mut(*place).ok_or_else(|| Error::internal("a column that is compared is not there"))?;
                    std::mem::swap(column, found);
                }
                see(hashes, keys);
                let seen = Seen { hashes, keys, by_number };
                if !sight.rows(&seen) {
                    return Ok(());
                }
                let mut first = 0;
                decoder.decode(chunk, &mut Strict::default(), &mut |rows, _| {
                    sight.values(&seen, &rows.batch, first)?;
                    first += rows.batch.num_rows();
                    Ok(())
                })
            }
            (payload, _) => {
                let mut batch = |batch: &RecordBatch| {
                    hasher.hash(batch, hashes)?;
                    see(hashes, keys);
                    let seen = Seen { hashes, keys, by_number };
                    if sight.rows(&seen) { sight.values(&seen, batch, 0) } else { Ok(()) }
                };
                match payload {
                    Payload::Columns(columns) => batch(&columns),
                    Payload::Raw(chunk) => decoder.decode(chunk, &mut Strict::default(), &mut |rows, _| batch(&rows.batch)),
                }
            }
        }
    }
}

/// A worker that gives up when the other side has failed.
pub(super) struct Worker<'a, S> {
    pub lens: Lens,
    pub sight: S,
    pub failed: &'a AtomicBool,
}

impl<S: Sight> Look for Worker<'_, S> {
    fn chunk(&mut self, _split: u32, payload: Payload) -> Result<()> {
        if self.failed.load(Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "the other side could not be read"));
        }
        self.lens.look(payload, &mut self.sight)
    }

    fn end(self) {
        self.sight.end();
    }
}

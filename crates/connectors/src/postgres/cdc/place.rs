//! Places in a stream of changes, and how they become positions.

use haul_model::Position;
use haul_pgwire::Lsn;

/// Where a stream stands. Ordered as the stream is.
///
/// | lsn | index | meaning |
/// |---|---|---|
/// | 0 | 0 | nothing was read; a slot may have been made |
/// | 0 | n | n rows of the snapshot were read |
/// | end of a commit record | 0 | everything that committed before it was read |
/// | start of a commit record | n | beside that, the first n changes of the transaction that commits here |
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    pub lsn: Lsn,
    pub index: u64,
}

impl Place {
    /// Between two transactions.
    pub fn at(lsn: Lsn) -> Self {
        Self { lsn, index: 0 }
    }

    /// After so many rows of the snapshot.
    pub fn snapshot(rows: u64) -> Self {
        Self { lsn: Lsn(0), index: rows }
    }

    /// Whether the stream has not begun here.
    pub fn is_before_the_stream(&self) -> bool {
        self.lsn == Lsn(0)
    }

    /// As it is stored: bytes that compare as the places do.
    pub fn position(&self) -> Position {
        Position([self.lsn.0.to_be_bytes(), self.index.to_be_bytes()].concat())
    }

    /// The place of a stored position; `None` for the start of everything, and for what is no position of a stream.
    pub fn of(position: &Position) -> Option<Self> {
        let (lsn, index) = position.0.split_first_chunk::<8>()?;
        Some(Self { lsn: Lsn(u64::from_be_bytes(*lsn)), index: u64::from_be_bytes(index.try_into().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_compare_as_places_do() {
        let places = [
            Place::snapshot(0),
            Place::snapshot(1),
            Place::snapshot(300),
            Place::at(Lsn(1)),
            Place { lsn: Lsn(1), index: 7 },
            Place { lsn: Lsn(1), index: 256 },
            Place::at(Lsn(0x1_0000_0000)),
        ];
        assert!(places.is_sorted() && places.map(|p| p.position()).is_sorted());
        assert!(Position::start() < places[0].position());
        assert!(places.iter().all(|p| Place::of(&p.position()) == Some(*p)));
        assert_eq!((Place::of(&Position::start()), Place::of(&Position::number(5))), (None, None));
        assert!(Place::of(&Position(vec![0; 17])).is_none());
    }
}

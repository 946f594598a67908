//! Whether the binary form of a column means the same on another server.

use super::catalog::{PgColumn, PgType, TypeKind};

/// How far a value's binary form can travel. Ordered: the least portable column decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Portable {
    /// To any server that has the type.
    Anywhere,
    /// Only within its database: it holds OIDs of types.
    SameDatabase,
    /// Nowhere: it has no binary form, or is the OID of an object (the reg types go by name).
    Never,
}

/// regproc, regprocedure, regoper, regoperator, regclass, regtype, regconfig, regdictionary, regnamespace, regrole, regcollation.
const REG_TYPES: &[u32] = &[24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191];
/// Types of well-known extensions whose binary form holds no OIDs.
const EXTENSIONS: &[&str] =
    &["citext", "hstore", "geometry", "geography", "ltree", "lquery", "ltxtquery", "vector", "halfvec", "sparsevec"];

/// How far the binary form of a column can travel.
pub(super) fn portable(column: &PgColumn) -> Portable {
    match (&column.elem, &column.subtype) {
        // The header of an array names the OID of its element type.
        (Some(elem), _) => {
            let header = if column.elem_oid == elem.oid && elem.is_builtin() { Portable::Anywhere } else { Portable::SameDatabase };
            has_binary(&column.base).max(of_type(elem)).max(header)
        }
        (None, Some(subtype)) => has_binary(&column.base).max(of_type(subtype)),
        (None, None) => of_type(&column.base),
    }
}

fn has_binary(base: &PgType) -> Portable {
    if base.has_binary { Portable::Anywhere } else { Portable::Never }
}

fn of_type(base: &PgType) -> Portable {
    if REG_TYPES.contains(&base.oid) || !base.has_binary {
        return Portable::Never;
    }
    match base.kind {
        // The label is sent.
        TypeKind::Enum => Portable::Anywhere,
        // Only bounds and flags, beside what the subtype sends.
        TypeKind::Range | TypeKind::Multirange => Portable::Anywhere,
        TypeKind::Base if base.is_builtin() => Portable::Anywhere,
        TypeKind::Base if EXTENSIONS.contains(&base.name.as_str()) => Portable::Anywhere,
        // A row names the OID of each of its columns' types; of other types nothing is known.
        _ => Portable::SameDatabase,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(oid: u32, kind: TypeKind) -> PgType {
        let schema = if oid < 10_000 { "pg_catalog" } else { "public" };
        PgType { oid, kind, schema: schema.into(), name: "x".into(), has_binary: true, ..PgType::default() }
    }

    fn column(base: PgType) -> PgColumn {
        PgColumn { type_oid: base.oid, base, ..PgColumn::default() }
    }

    #[test]
    fn oids_in_values_do_not_travel() {
        assert_eq!(portable(&column(ty(1700, TypeKind::Base))), Portable::Anywhere);
        assert_eq!(portable(&column(ty(2205, TypeKind::Base))), Portable::Never);
        assert_eq!(portable(&column(ty(20_000, TypeKind::Enum))), Portable::Anywhere);
        assert_eq!(portable(&column(ty(20_000, TypeKind::Composite))), Portable::SameDatabase);
        assert_eq!(portable(&column(ty(20_000, TypeKind::Base))), Portable::SameDatabase);
        assert_eq!(portable(&column(PgType { has_binary: false, ..ty(1033, TypeKind::Base) })), Portable::Never);
        let array = |oid, elem: PgType, elem_oid| PgColumn { elem: Some(elem), elem_oid, ..column(ty(oid, TypeKind::Base)) };
        assert_eq!(portable(&array(1007, ty(23, TypeKind::Base), 23)), Portable::Anywhere);
        assert_eq!(portable(&array(20_001, ty(20_000, TypeKind::Enum), 20_000)), Portable::SameDatabase);
        assert_eq!(portable(&array(20_001, ty(23, TypeKind::Base), 20_002)), Portable::SameDatabase, "an array of a domain");
        assert_eq!(portable(&array(2210, ty(2205, TypeKind::Base), 2205)), Portable::Never);
        let range = PgColumn { subtype: Some(ty(23, TypeKind::Base)), ..column(ty(20_003, TypeKind::Range)) };
        assert_eq!(portable(&range), Portable::Anywhere);
    }
}

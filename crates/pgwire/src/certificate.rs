//! The few facts that are needed straight from a certificate's DER bytes (RFC 5280 section 4.1): its signature
//! algorithm, for channel binding, and its period of validity, for a certificate that is trusted by itself.

use sha2::{Digest, Sha256, Sha384, Sha512};
use std::time::{SystemTime, UNIX_EPOCH};

/// The hash of a certificate that `tls-server-end-point` (RFC 5929 section 4.1) asks for: by the hash of its
/// signature, SHA-256 in place of MD5 and SHA-1. `None` where the algorithm names no hash (Ed25519, RSA-PSS).
pub(crate) fn end_point_hash(der: &[u8]) -> Option<Vec<u8>> {
    let (_, certificate, _) = element(der)?;
    let (_, _, rest) = element(certificate)?;
    let (_, algorithm, _) = element(rest)?;
    let (_, oid, _) = element(algorithm)?;
    // sha1/md5/sha256/sha384/sha512 WithRSAEncryption are 1.2.840.113549.1.1.{5,4,11,12,13}; ecdsa-with-SHA1 is
    // 1.2.840.10045.4.1, ecdsa-with-SHA{256,384,512} 1.2.840.10045.4.3.{2,3,4}.
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    let bits = match (oid.strip_prefix(RSA), oid.strip_prefix(ECDSA)) {
        (Some([4 | 5 | 11]), _) | (_, Some([1] | [3, 2])) => 256,
        (Some([12]), _) | (_, Some([3, 3])) => 384,
        (Some([13]), _) | (_, Some([3, 4])) => 512,
        _ => return None,
    };
    Some(match bits {
        256 => Sha256::digest(der).to_vec(),
        384 => Sha384::digest(der).to_vec(),
        _ => Sha512::digest(der).to_vec(),
    })
}

/// Where `now` lies in a certificate's validity. `None`: the certificate cannot be read.
pub(crate) fn is_in_date(der: &[u8], now: SystemTime) -> Option<bool> {
    let (_, certificate, _) = element(der)?;
    let (_, mut fields, _) = element(certificate)?;
    // [0] version (left out in v1), serial, signature, issuer, then the validity.
    if element(fields)?.0 == 0xa0 {
        fields = element(fields)?.2;
    }
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (_, validity, _) = element(fields)?;
    let (kind, from, rest) = element(validity)?;
    let from = seconds(kind, from)?;
    let (kind, to, _) = element(rest)?;
    let to = seconds(kind, to)?;
    let now = i64::try_from(now.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()?;
    Some((from..=to).contains(&now))
}

/// Tag, content and what follows of the first DER element.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 {
            return None;
        }
        let (digits, rest) = rest.split_at_checked(count)?;
        (digits.iter().fold(0, |n, &d| n << 8 | usize::from(d)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// UTCTime `YYMMDDHHMMSSZ` or GeneralizedTime `YYYYMMDDHHMMSSZ`, as Unix seconds.
fn seconds(kind: u8, text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match kind {
        0x17 => {
            let year: i64 = text.get(..2)?.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, text.get(2..)?)
        }
        0x18 => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    let part = |i: usize| rest.get(i..i + 2)?.parse::<i64>().ok();
    let (month, day, hour, minute, second) = (part(0)?, part(2)?, part(4)?, part(6)?, part(8)?);
    // Days from civil date, counted from March so that the leap day comes last.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_kinds() {
        assert_eq!(seconds(0x17, b"700101000000Z"), Some(0));
        assert_eq!(seconds(0x18, b"20240229123456Z"), Some(1_709_210_096));
        assert_eq!(seconds(0x17, b"491231235959Z"), Some(2_524_607_999));
        assert_eq!(seconds(0x18, b"2024"), None);
    }

    #[test]
    fn broken_der_is_none_not_a_panic() {
        for bytes in [&b""[..], b"\x30", b"\x30\x84\xff\xff\xff\xff", b"\x30\x02\x30\x00", b"\x30\x80\x00\x00"] {
            assert_eq!(end_point_hash(bytes), None);
            assert_eq!(is_in_date(bytes, SystemTime::now()), None);
        }
    }
}

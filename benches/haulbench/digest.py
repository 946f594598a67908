"""What a file says, as a number that does not depend on row order or on how a value is spelled.

Run as a program of its own (`digest.py FORMAT FILE`), so that the memory it takes is not the bench's: prints
`rows digest`. Each row becomes a canonical tuple: numbers as floats, times as microseconds, booleans, JSON with sorted
keys; the digest is the sum of the rows' hashes. FORMAT is `text` (JSON lines whose values are text), `typed` (JSON
lines with a number and a JSON value), `full` (JSON lines by value), `csv` (by value) or `lines` (only counted).
"""
import csv
import datetime
import hashlib
import json
import multiprocessing
import os
import sys

COLUMNS = "id first_name country amount created_at active attributes".split()


def time(value):
    text = value.replace("Z", "+00:00").replace(" ", "T")
    if text[-3] in "+-":
        text += ":00"
    parsed = datetime.datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=datetime.timezone.utc)
    return int(parsed.timestamp())


def boolean(value):
    return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}[str(value).lower()]


def document(value):
    """A JSON value with sorted keys; 28 and 28.0 are the same number."""
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(json.loads(text, parse_int=float), sort_keys=True)


def by_value(row):
    return (int(row["id"]), row["first_name"], row["country"], float(row["amount"]), time(row["created_at"]),
            boolean(row["active"]), document(row["attributes"]))


def json_rows(data, canonical):
    for line in data:
        row = json.loads(line)
        if len(row) != len(COLUMNS):
            raise SystemExit(f"a row with other columns: {line[:200]!r}")
        yield canonical(row)


class Slice:
    """The lines of a file that begin in `[start, end)`."""

    def __init__(self, path, start, end):
        self.data, self.end = open(path, "rb"), end
        if start:
            # The line that is going on there belongs to the slice before.
            self.data.seek(start - 1)
            self.data.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.data.close()

    def __iter__(self):
        while self.data.tell() < self.end:
            line = self.data.readline()
            if not line:
                return
            yield line


def rows(kind, path, start, end):
    if kind == "csv":
        with open(path, newline="") as data:
            reader = csv.DictReader(data)
            yield from map(by_value, reader)
        return
    with Slice(path, start, end) as data:
        if kind == "text":
            yield from json_rows(data, lambda r: tuple(r[c] for c in COLUMNS))
        elif kind == "typed":
            yield from json_rows(data, lambda r: tuple(document(r[c]) if c == "attributes" else r[c] for c in COLUMNS))
        else:
            yield from json_rows(data, by_value)


def digest(slice_of):
    count = total = 0
    for row in rows(*slice_of):
        count += 1
        total += int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=8).digest(), "big")
    return count, total


def main():
    kind, path = sys.argv[1:]
    size = os.path.getsize(path)
    # Line breaks inside of CSV fields: only from the start can one tell.
    parts = 1 if kind == "csv" else os.cpu_count()
    slices = [(kind, path, size * i // parts, size * (i + 1) // parts) for i in range(parts)]
    with multiprocessing.Pool(parts) as pool:
        found = pool.map(digest, slices)
    print(sum(count for count, _ in found), sum(total for _, total in found) % (1 << 64))


if __name__ == "__main__":
    main()

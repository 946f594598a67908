"""The inputs. The bench table is made here once more, from its description, so that no tool benches its own rows."""
import datetime
import hashlib
import json
import os
import random

SHA256 = {(1_000_000, 42): "a84894e01d4c3fccfe89949ae169cef2e2d755770512bf2fe14e84360c45b221"}
NAMES = "Ada Bo Chen Dinesh Eve Farah Gus Hana Ivan Juno Kato Lena Mira Nils Omar Priya".split()
COUNTRIES = "US GB DE IN JP BR NG CA AU FR".split()
COLUMNS = "id first_name country amount created_at active attributes".split()
# As PostgreSQL has it; the loads go into a copy without the key.
TABLE = ("id bigint{key}, first_name text, country text, amount double precision, created_at timestamptz, "
         "active boolean, attributes jsonb")
# `id` becomes a number and `attributes` a JSON value, all else stays text: haul and mqb read the same file.
SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "attributes": {"type": "string", "contentMediaType": "application/json"}},
}


def rows(count, seed):
    """The CSV lines, without line ends."""
    draw = random.Random(seed)

    def below(n):
        bits = n.bit_length()
        while True:
            value = draw.getrandbits(bits)
            if value < n:
                return value

    time = datetime.datetime(2020, 1, 1)
    for number in range(1, count + 1):
        time += datetime.timedelta(seconds=1 + below(90))
        tier = ("free", "pro", "enterprise")[below(3)]
        score = round(100 * draw.random(), 3)
        pool, tags = ["alpha", "beta", "gamma", "delta", "epsilon"], []
        for i in range(1 + below(3)):
            j = below(5 - i)
            tags.append(pool[j])
            pool[j] = pool[4 - i]
        name, country = NAMES[below(16)], COUNTRIES[below(10)]
        amount = round(1 + 9999 * draw.random(), 2)
        active = "true" if draw.random() < 0.5 else "false"
        text = ",".join(f'""{tag}""' for tag in tags)
        yield (f'{number},{name},{country},{amount!r},{time.isoformat()}Z,{active},'
               f'"{{""tier"":""{tier}"",""score"":{score!r},""tags"":[{text}]}}"')


def sha256(path):
    """Of a file, read in blocks."""
    digest = hashlib.sha256()
    with open(path, "rb") as data:
        while block := data.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def bench_csv(folder, count, seed=42):
    """The path of the fixture, made if it is not there, checked against its published hash."""
    path = os.path.join(folder, f"bench-{count}-{seed}.csv")
    if not os.path.exists(path):
        print(f"making {path}", flush=True)
        with open(path + ".new", "wb") as out:
            out.write(",".join(COLUMNS).encode() + b"\r\n")
            for row in rows(count, seed):
                out.write(row.encode() + b"\r\n")
        os.replace(path + ".new", path)
    found, expected = sha256(path), SHA256.get((count, seed))
    if expected not in (None, found):
        raise SystemExit(f"{path} is not the fixture: {found}")
    return path


def schema_file(folder):
    """The JSON Schema of the typed job."""
    path = os.path.join(folder, "bench.schema.json")
    with open(path, "w") as out:
        json.dump(SCHEMA, out)
    return path


def padded_jsonl(folder, size, count):
    """`count` JSON lines of `size` bytes."""
    path = os.path.join(folder, f"padded-{size}-{count}.jsonl")
    if not os.path.exists(path):
        with open(path + ".new", "w") as out:
            for number in range(1, count + 1):
                head = f'{{"id":{number},"payload":"'
                out.write(head + "x" * (size - len(head) - 2) + '"}\n')
        os.replace(path + ".new", path)
    return path

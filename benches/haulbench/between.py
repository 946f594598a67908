"""PostgreSQL to PostgreSQL: one huge table, many lanes; the same database; keyed loads; rows of other sizes."""
import os

from . import fixture, peers
from .contest import Contender, Job, scaled
from .measure import output

PADDED = {256: 1_000_000, 4096: 100_000}
ORDERS_SCALE = 2
ORDERS = ("o_orderkey int{key}, o_custkey int, o_orderstatus char(1), o_totalprice numeric(15,2), o_orderdate date, "
          "o_orderpriority varchar(15), o_clerk varchar(15), o_shippriority int, o_comment varchar(79)")
# What is read: name -> (columns, rows).
TABLES = {"bench": (fixture.TABLE, 1_000_000), "orders": (ORDERS, 3_000_000)}
WORDS = {True: "logged", False: "unlogged"}


def orders_table(w):
    if "orders" not in w.loaded:
        path = os.path.join(w.data, f"orders-{ORDERS_SCALE}.csv")
        if not os.path.exists(path):
            output(w.haul, "generate", "orders", "--scale", str(ORDERS_SCALE * w.rows / 1_000_000), path)
        w.server.sql(f"create table orders ({ORDERS.format(key=' primary key')});\n\\copy orders from '{path}' csv header\n"
                     "vacuum analyze orders; checkpoint;")
        w.loaded.add("orders")


def setup(source):
    def ready(w):
        w.bench_table()
        if source == "orders":
            orders_table(w)
    return ready


def fresh(source, logged=True, key=""):
    """An empty target without a key, or with one."""
    def make(w):
        w.jit(False)
        word = "" if logged else "unlogged "
        w.server.sql(f"drop table if exists target; create {word}table target ({TABLES[source][0].format(key=key)}); checkpoint;")
    return make


def haul(source, *more):
    return lambda w: [w.haul, "copy", peers.pg(w.server.url, table=source, sslmode="disable"),
                      peers.pg(w.server.url, table="target", sslmode="disable"), *more]


def client(w):
    return f"psql -X -q -v ON_ERROR_STOP=1 -d '{w.server.url}?sslmode=disable'"


def pipe(source, degree=1):
    """One `psql | psql`, or one for each half of the pages."""
    def argv(w):
        if degree == 1:
            return ["/bin/sh", "-c", f"{client(w)} -c 'copy {source} to stdout (format binary)' | {client(w)} -c 'copy target from stdin (format binary)'"]
        pages = int(w.server.sql(f"select relpages from pg_class where oid = '{source}'::regclass"))
        bounds = [f"ctid < $${(pages // 2, 0)}$$", f"ctid >= $${(pages // 2, 0)}$$"]
        one = [f"{client(w)} -c 'copy (select * from {source} where {bound}) to stdout (format binary)' | "
               f"{client(w)} -c 'copy target from stdin (format binary)'" for bound in bounds]
        return ["/bin/sh", "-c", f"({one[0]}) & ({one[1]}); wait"]
    return argv


def mqb(source, key, batch=32768, degree=4):
    return lambda w: peers.copy(
        w.tool("mqb"), peers.pg(w.server.url, table=source, cursor_column=key, sslmode="disable"),
        peers.pg(w.server.url, table="target", columns="auto", bulk_copy="true", sslmode="disable"), batch, degree)


def sling(source):
    return lambda w: [w.tool("sling"), "run", "--src-conn", w.server.url + "?sslmode=disable", "--src-stream", f"public.{source}",
                      "--tgt-conn", w.server.url + "?sslmode=disable", "--tgt-object", "public.target", "--mode", "truncate"]


def transfers():
    for source, key in (("bench", "id"), ("orders", "o_orderkey")):
        for logged in (False, True):
            make = fresh(source, logged)
            piped = "psql | psql, binary"
            people = [
                Contender("haul", "haul", haul(source, "--pushdown", "never", "--degree", "1"), before=make,
                          bar=[("wall", 1.03, piped), *([("cpu", 0.25, None), ("rss", 30, None)] if source == "bench" else [])]),
                Contender(piped, "psql", pipe(source), before=make),
                Contender("haul, degree 2", "haul", haul(source, "--pushdown", "never", "--degree", "2"), before=make,
                          bar=[("wall", 1.03, "two psql | psql")]),
                Contender("two psql | psql", "psql", pipe(source, 2), before=make),
            ]
            if source == "bench" and not logged:
                people += [Contender("mqb", "mqb", mqb(source, key), before=make),
                           Contender("sling", "sling", sling(source), before=make, compare=False)]
            yield Job(f"pg_pg_{source}_{WORDS[logged]}", f"PostgreSQL to PostgreSQL, {source}, {WORDS[logged]} target", "table", people,
                      rows=TABLES[source][1], setup=setup(source), table="target", runs=9)


def pushdowns():
    for source in TABLES:
        for logged in (False, True):
            make, by_hand = fresh(source, logged), "INSERT ... SELECT"
            yield Job(f"pushdown_{source}_{WORDS[logged]}", f"Within one database, {source}, {WORDS[logged]} target", "table", [
                Contender("haul", "haul", haul(source), before=make, bar=[("wall", 1.1, by_hand)]),
                Contender(by_hand, "psql", lambda w, source=source: ["/bin/sh", "-c", f"{client(w)} -c 'insert into target select * from {source}'"],
                          before=make),
            ], rows=TABLES[source][1], setup=setup(source), table="target")


def half_full(w):
    """Every other row is there already, with other values."""
    fresh("bench", key=" primary key")(w)
    w.server.sql("insert into target select id, first_name || '!', country, -amount, created_at, not active, null from bench where id % 2 = 0; "
                 "analyze target; checkpoint;")


def upserts():
    columns = "id, first_name, country, amount, created_at, active, attributes"
    changes = ", ".join(f"{c} = s.{c}" for c in columns.split(", ")[1:])
    values = ", ".join(f"s.{c}" for c in columns.split(", "))
    merge = (f"merge into target t using staging s on t.id = s.id when matched then update set {changes} "
             f"when not matched then insert ({columns}) values ({values})")

    def by_hand(w):
        return ["/bin/sh", "-c", f"{client(w)} -c 'copy bench to stdout (format binary)' | {client(w)} -c 'begin' "
                f"-c 'create temp table staging (like target) on commit drop' -c 'copy staging from stdin (format binary)' -c '{merge}' -c 'commit'"]

    yield Job("upsert", "Upsert of a million rows, half of them new", "table", [
        Contender("haul", "haul", haul("bench", "--mode", "upsert", "--key", "id", "--pushdown", "never"), before=half_full,
                  bar=[("wall", 1.1, "staging, COPY, MERGE")]),
        Contender("staging, COPY, MERGE", "psql", by_hand, before=half_full),
    ], setup=setup("bench"), table="target")


def scaling():
    people = [Contender("source alone", "psql", lambda w: ["/bin/sh", "-c", f"{client(w)} -c 'copy orders to stdout (format binary)'"],
                        before=fresh("orders"), to_stdout="null", compare=False)]
    for key in ("", " primary key"):
        for logged in (False, True):
            for degree in (1, 2, 4, 8, 16):
                name = f"{WORDS[logged]}{', key' if key else ''}, degree {degree}"
                people.append(Contender(name, "haul", haul("orders", "--pushdown", "never", "--degree", str(degree)), before=fresh("orders", logged, key)))
    yield Job("scaling_batches", "orders by degree, key and logging", "table", people, rows=TABLES["orders"][1], setup=setup("orders"), table="target",
              note="Source, Haul and target share the cores of one machine: more lanes than cores show what waiting costs, not what they gain. "
                   "\"source alone\" is one COPY to /dev/null: what the source spends, which is taken from the server's sum for the model below.")


def padded_tables(w):
    for size, count in PADDED.items():
        name = f"src_{size}"
        if name not in w.loaded:
            path = fixture.padded_jsonl(w.data, size, scaled(w, count))
            w.server.sql(f"create table {name} (id bigint primary key, payload text); create temp table lines (line json);\n"
                         f"\\copy lines from '{path}' csv quote e'\\x01' delimiter e'\\x02'\n"
                         f"insert into {name} select (line->>'id')::bigint, line->>'payload' from lines order by 1;\n"
                         f"vacuum analyze {name}; checkpoint;")
            w.loaded.add(name)


def padded():
    for size, count in PADDED.items():
        def make(w):
            w.jit(False)
            w.server.sql("drop table if exists target; create table target (id bigint, payload text); checkpoint;")
        source = f"src_{size}"
        people = [Contender("psql | psql, binary", "psql", pipe(source), before=make)]
        for batch in (1, 128, 1024, 32768):
            for degree in (1, 4):
                own, other = f"haul, batch {batch}, degree {degree}", f"mqb, batch {batch}, degree {degree}"
                sizes = ("--batch-size", str(batch), "--concurrency", str(degree), "--pushdown", "never")
                people.append(Contender(own, "haul", haul(source, *sizes), before=make, bar=[("wall", 0.333, other)] if batch >= 128 else None))
                # A message at a time takes mqb minutes.
                if batch > 1:
                    people.append(Contender(other, "mqb", mqb(source, "id", batch, degree), before=make))
        yield Job(f"padded_{size}_batches", f"PostgreSQL to PostgreSQL, rows of {size} bytes, at batch sizes and degrees", "table", people,
                  rows=count, setup=padded_tables, table="target")


def verifying():
    plain = "haul, without a proof"
    yield Job("verify_checksum", "Verify checksum, bench PG -> PG", "table", [
        Contender("haul --verify checksum", "haul", haul("bench", "--pushdown", "never", "--verify", "checksum"), before=fresh("bench"),
                  bar=[("wall", 1.7, plain)]),
        Contender("haul --verify count", "haul", haul("bench", "--pushdown", "never", "--verify", "count"), before=fresh("bench")),
        Contender(plain, "haul", haul("bench", "--pushdown", "never"), before=fresh("bench")),
    ], setup=setup("bench"), table="target")


def two_tables(w):
    """orders, and an equal table beside it, written in another order."""
    w.bench_table()
    orders_table(w)
    if "orders_copy" not in w.loaded:
        w.server.sql(f"create table orders_copy ({ORDERS.format(key=' primary key')}); "
                     "insert into orders_copy select * from orders order by o_orderkey % 2, o_orderkey; vacuum analyze orders_copy; checkpoint;")
        w.loaded.add("orders_copy")


def diffs():
    reads = "two psql COPY at once"

    def diff(*more):
        return lambda w: [w.haul, "diff", peers.pg(w.server.url, table="orders", sslmode="disable"),
                          peers.pg(w.server.url, table="orders_copy", sslmode="disable"), *more]

    def copies(w):
        one, two = (f"{client(w)} -c 'copy {table} to stdout (format binary)'" for table in ("orders", "orders_copy"))
        return ["/bin/sh", "-c", f"({one} > /dev/null) & ({two} > /dev/null); wait"]

    yield Job("diff_equal", "Diff of two equal tables of 3,000,000 rows", "table", [
        Contender("haul diff --key", "haul", diff("--key", "o_orderkey"), to_stdout="null", compare=False, bar=[("wall", 1.3, reads)]),
        Contender("haul diff", "haul", diff(), to_stdout="null", compare=False, bar=[("wall", 1.3, reads)]),
        Contender(reads, "psql", copies, to_stdout="null", compare=False),
    ], rows=TABLES["orders"][1], setup=two_tables, table="orders_copy", note="Nothing is written; all three read both tables whole.")


SMALL = 200


def small_tables(w):
    w.server.sql("create schema if not exists small;" + "".join(
        f"create table if not exists small.t{n} (id int primary key, name text, amount numeric(12,2), at timestamptz);" for n in range(SMALL)))
    for n in range(SMALL):
        w.server.sql(f"insert into small.t{n} select g, 'name ' || g, g / 7.0, timestamptz '2026-01-01' + g * interval '1 min' "
                     f"from generate_series(1, 1000) g on conflict do nothing")
    with open(os.path.join(w.data, "small.yaml"), "w") as job:
        job.write(f"connections: {{db: '{w.server.url}?sslmode=disable'}}\nstreams:\n"
                  "  - {from: 'db:small.*', to: 'db:copies.{table}', pushdown: never}\n")


def copies(w):
    tables = "".join(f"create table copies.t{n} (like small.t{n});" for n in range(SMALL))
    union = " union all ".join(f"select {n} as n, * from copies.t{n}" for n in range(SMALL))
    w.server.sql(f"drop schema if exists copies cascade; create schema copies; {tables} create view copies.everything as {union}; checkpoint;")


def many():
    def pipes(w):
        one = (f"{client(w)} -c \"copy small.t$n to stdout (format binary)\" | {client(w)} -c \"copy copies.t$n from stdin (format binary)\"")
        return ["/bin/sh", "-c", f"n=0; while [ $n -lt {SMALL} ]; do {one} || exit 1; n=$((n+1)); done"]

    yield Job("many_tables", f"{SMALL} tables of a thousand rows in one job", "table", [
        Contender("haul", "haul", lambda w: [w.haul, "run", os.path.join(w.data, "small.yaml")], before=copies, bar=[("wall", 0.5, "a pipe per table")]),
        Contender("a pipe per table", "psql", pipes, before=copies),
    ], rows=SMALL * 1000, setup=small_tables, table="copies.everything", note="One `psql | psql` after the other, COPY binary; Haul reads all tables under one snapshot.")


def jobs():
    for group in (many, transfers, pushdowns, upserts, scaling, padded, verifying, diffs):
        yield from group()

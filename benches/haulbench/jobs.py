"""The jobs: what is done, who takes part, how the result is counted and compared."""
import fnmatch
import os
import subprocess
import sys

from . import fixture, peers, report
from .measure import Failed, output, run

# A contender that takes longer than this many seconds is timed less often: what it shows does not hang on a few percent.
SLOW, SLOW_RUNS = 8, 2
HERE = os.path.dirname(os.path.abspath(__file__))


class Contender:
    """One way to do a job: `argv(world)`, writing to `out` (a file) or into a table."""

    def __init__(self, name, tool, argv, before=None, to_stdout=None, compare=True, bar=None):
        self.name, self.tool, self.argv = name, tool, argv
        self.before = before          # called with the world before each run, not timed
        self.to_stdout = to_stdout    # stdout goes to the output file ("out") or nowhere ("null")
        self.compare = compare        # its rows must have the digest of the others
        self.bar = bar                # (what, limit, of whom): shown beside the figures


class Job:
    """`kind` says how the output is compared (see digest.py), `table` or `parquet`."""

    def __init__(self, name, title, kind, contenders, rows=None, extension="jsonl", note="", setup=None, sha256=None):
        self.name, self.title, self.kind, self.contenders = name, title, kind, contenders
        self.rows, self.extension, self.note, self.setup = rows, extension, note, setup
        self.sha256 = sha256          # of what haul must write for a million rows


class World:
    """What contenders need to know: paths, server, tools."""

    def __init__(self, options, found, server, csv):
        self.options, self.found, self.server, self.csv = options, found, server, csv
        self.rows, self.data = options.rows, options.data
        self.out = None
        self.loaded = set()
        self.digests = {}             # what files of these bytes say

    def tool(self, name):
        return self.found[name]["path"]

    @property
    def haul(self):
        return self.tool("haul")

    def bench_table(self):
        """The server with the table `bench` loaded, analysed, and written out."""
        if "bench" not in self.loaded:
            self.server.sql(f"create table bench ({fixture.TABLE.format(key=' primary key')});\n"
                            f"\\copy bench from '{self.csv}' csv header\nvacuum analyze bench;\ncheckpoint;")
            self.loaded.add("bench")

    def load_table(self):
        """An empty copy of it, logged, without the key."""
        self.server.sql(f"drop table if exists bench_load; create table bench_load ({fixture.TABLE.format(key='')}); checkpoint;")

    def padded_tables(self):
        for size, count in PADDED.items():
            name = f"src_{size}"
            if name not in self.loaded:
                count = scaled(self, count)
                path = fixture.padded_jsonl(self.data, size, count)
                self.server.sql(f"create table {name} (id bigint primary key, payload text); create temp table lines (line json);\n"
                                f"\\copy lines from '{path}' csv quote e'\\x01' delimiter e'\\x02'\n"
                                f"insert into {name} select (line->>'id')::bigint, line->>'payload' from lines order by 1;\n"
                                f"vacuum analyze {name}; checkpoint;")
                self.loaded.add(name)

    def jit(self, on):
        """The server's just-in-time compiler costs mqb's many small queries dearly: it is shown with and without."""
        self.server.sql(f"alter database postgres set jit = {'on' if on else 'off'};")


PADDED = {256: 1_000_000, 4096: 100_000}


def scaled(world, count):
    return max(1000, count * world.rows // 1_000_000)


OFF = ("--fsync", "off")


def csv_jsonl(suffix=""):
    def argv(tool, batch=1024, concurrency=1, more=()):
        return lambda w: peers.copy(
            w.tool(tool), peers.file(w.csv, format="csv"),
            peers.file(w.out, format="raw") + (f"|transform?schema_file={fixture.schema_file(w.data)}" if suffix else ""),
            batch, concurrency, *more)
    return argv


def python(tool, script, *arguments):
    return lambda w: [w.tool(tool), "-c", script, *[a(w) for a in arguments]]


def the_csv(w):
    return w.csv


def the_out(w):
    return w.out


def the_url(w):
    return w.server.url


def file_jobs():
    untyped, typed = csv_jsonl(), csv_jsonl("typed")
    sling = Contender("sling", "sling", lambda w: [w.tool("sling"), "run", "--src-stream", f"file://{w.csv}", "--tgt-object", f"file://{w.out}"])
    yield Job("csv_jsonl", "CSV to JSON lines, all values text", "text", [
        Contender("haul", "haul", untyped("haul", more=OFF), bar=[("wall", 0.35, "mqb"), ("cpu", 0.40, "mqb"), ("rss", 32, None)]),
        Contender("haul (durable)", "haul", untyped("haul")),
        Contender("mqb", "mqb", untyped("mqb")),
        Contender("polars", "polars", python("polars", peers.POLARS_TEXT, the_csv, the_out)),
        Contender("duckdb", "duckdb", python("duckdb", peers.DUCKDB_TEXT, the_csv, the_out)),
    ], sha256="1b595ef86f69c46196aa9e53ebf0ac40bc881998f8330358d68d4543822f85ac")
    yield Job("csv_jsonl_typed", "CSV to JSON lines, id a number and attributes a JSON value", "typed", [
        Contender("haul", "haul", typed("haul", more=OFF), bar=[("wall", 0.25, "mqb"), ("rss", 40, None)]),
        Contender("haul (durable)", "haul", typed("haul")),
        Contender("mqb", "mqb", typed("mqb")),
        Contender("polars", "polars", python("polars", peers.POLARS_TYPED, the_csv, the_out)),
        Contender("duckdb", "duckdb", python("duckdb", peers.DUCKDB_TYPED, the_csv, the_out)),
        sling,
    ], sha256="ef42c277815743a06de266817870785a994b7883c1e502208a33aefb98ec7340")
    cast = ("--cast", "id:bigint,amount:double,created_at:timestamptz,active:boolean")
    yield Job("csv_parquet", "CSV to Parquet, typed, zstd", "parquet", [
        Contender("haul", "haul", lambda w: [w.haul, "copy", w.csv, w.out, *cast, *OFF]),
        Contender("haul (durable)", "haul", lambda w: [w.haul, "copy", w.csv, w.out, *cast]),
        Contender("duckdb", "duckdb", python("duckdb", peers.DUCKDB_PARQUET, the_csv, the_out)),
        Contender("polars", "polars", python("polars", peers.POLARS_PARQUET, the_csv, the_out)),
    ], extension="parquet")
    yield Job("csv_jsonl_batches", "CSV to JSON lines at batch sizes and degrees", "text", [
        Contender(f"{tool}, batch {batch}, degree {degree}", tool, untyped(tool, batch, degree, OFF if tool == "haul" else ()))
        for tool in ("haul", "mqb") for batch in (128, 1024, 8192, 32768) for degree in (1, 4)
    ])


def pg_read(tool, batch=1024, concurrency=1, more=(), **query):
    def argv(w):
        settings = {"table": "bench", "sslmode": "disable"}
        if tool == "mqb":
            settings["cursor_column"] = "id"
        return peers.copy(w.tool(tool), peers.pg(w.server.url, **settings), peers.file(w.out, **query), batch, concurrency, *more)
    return argv


def no_jit(w):
    w.jit(False)


def psql(command):
    return lambda w: [w.tool("psql"), "-X", "-q", "-d", w.server.url + "?sslmode=disable", "-c", command.format(out=w.out, csv=w.csv)]


def pg_read_jobs():
    setup = World.bench_table
    floor = "COPY binary to /dev/null"
    yield Job("pg_jsonl", "PostgreSQL to JSON lines", "full", [
        Contender("haul", "haul", lambda w: [w.haul, "copy", peers.pg(w.server.url, table="bench"), w.out, *OFF],
                  bar=[("wall", 0.65, floor), ("cpu", 0.5, None), ("rss", 30, None)]),
        Contender("haul (durable)", "haul", lambda w: [w.haul, "copy", peers.pg(w.server.url, table="bench"), w.out]),
        Contender("mqb (JIT off)", "mqb", pg_read("mqb", 32768, 4, format="raw"), before=no_jit),
        Contender("mqb (as shipped)", "mqb", pg_read("mqb", format="raw")),
        Contender("duckdb", "duckdb-pg", python("duckdb-pg", peers.DUCKDB_PG_JSON, the_url, the_out)),
        # Text format doubles the backslashes of JSON; CSV without quotes does not.
        Contender("COPY row_to_json", "psql", psql(
            "copy (select row_to_json(bench) from bench) to stdout (format csv, quote e'\\x01', delimiter e'\\x02')"), to_stdout="out"),
        Contender("sling", "sling", lambda w: [w.tool("sling"), "run", "--src-conn", w.server.url + "?sslmode=disable", "--src-stream",
                                               "public.bench", "--tgt-object", f"file://{w.out}"]),
        Contender(floor, "psql", psql("copy bench to stdout (format binary)"), to_stdout="null", compare=False),
    ], setup=setup, note=f"“{floor}” writes nothing: it is what one stream of the server's own binary format takes.")
    yield Job("pg_csv", "PostgreSQL to CSV", "csv", [
        Contender("haul", "haul", lambda w: [w.haul, "copy", peers.pg(w.server.url, table="bench"), w.out, *OFF], bar=[("wall", 0.5, "\\copy")]),
        Contender("haul (durable)", "haul", lambda w: [w.haul, "copy", peers.pg(w.server.url, table="bench"), w.out]),
        Contender("\\copy", "psql", psql("\\copy bench to '{out}' csv header")),
        Contender("\\copy, ordered", "psql", psql("\\copy (select * from bench order by id) to '{out}' csv header")),
        Contender("pg_dump", "pg_dump", lambda w: [w.tool("pg_dump"), "-a", "-t", "bench", "-d", w.server.url, "-f", w.out], compare=False),
        Contender("mqb (JIT off)", "mqb", pg_read("mqb", 32768, 4, format="csv", csv="%7B%22nested%22%3A%22json%22%7D"), before=no_jit),
        Contender("duckdb", "duckdb-pg", python("duckdb-pg", peers.DUCKDB_PG_CSV, the_url, the_out)),
        Contender("sling", "sling", lambda w: [w.tool("sling"), "run", "--src-conn", w.server.url + "?sslmode=disable", "--src-stream",
                                               "public.bench", "--tgt-object", f"file://{w.out}"]),
    ], setup=setup, extension="csv", note="pg_dump writes its restore format; it is counted but not compared.")
    yield Job("pg_jsonl_batches", "PostgreSQL to JSON lines at batch sizes and degrees", "full", [
        Contender(f"{tool}, batch {batch}, degree {degree}", tool,
                  pg_read(tool, batch, degree, OFF if tool == "haul" else (), format="raw"), before=no_jit)
        for tool in ("haul", "mqb") for batch in (128, 1024, 8192, 32768) for degree in (1, 4) if tool == "haul" or batch >= 1024
    ], setup=setup)


def pg_write_jobs():
    load = World.load_table

    def mqb(w):
        target = peers.pg(w.server.url, table="bench_load", columns="auto", bulk_copy="true", sslmode="disable")
        return peers.copy(w.tool("mqb"), peers.file(w.csv, format="csv"), target, 32768, 4)

    def haul(*more):
        return lambda w: [w.haul, "copy", w.csv, peers.pg(w.server.url, table="bench_load"), *more]

    yield Job("csv_pg", "CSV to PostgreSQL, logged table without a key", "table", [
        Contender("haul", "haul", haul(), before=load, bar=[("wall", 0.55, "\\copy")]),
        Contender("haul, one lane", "haul", haul("--degree", "1"), before=load),
        Contender("\\copy", "psql", psql("\\copy bench_load from '{csv}' csv header"), before=load),
        Contender("mqb", "mqb", mqb, before=load),
        Contender("duckdb", "duckdb-pg", python("duckdb-pg", peers.DUCKDB_CSV_PG, the_url, the_csv), before=load),
        Contender("sling", "sling", lambda w: [w.tool("sling"), "run", "--src-stream", f"file://{w.csv}", "--tgt-conn",
                                               w.server.url + "?sslmode=disable", "--tgt-object", "public.bench_load", "--mode", "truncate"],
                  before=load, compare=False),
    ], setup=World.bench_table, note="The same server settings for all: fsync off, so that the disk of the day does not decide.")
    for size, count in PADDED.items():
        yield padded_job(size, count)


def padded_job(size, count):
    source, target = f"src_{size}", f"dst_{size}"

    def fresh(w):
        w.jit(False)
        w.server.sql(f"drop table if exists {target}; create table {target} (id bigint, payload text); checkpoint;")

    def haul(w):
        return [w.haul, "copy", peers.pg(w.server.url, table=source), peers.pg(w.server.url, table=target)]

    def mqb(batch):
        return lambda w: peers.copy(
            w.tool("mqb"), peers.pg(w.server.url, table=source, cursor_column="id", sslmode="disable"),
            peers.pg(w.server.url, table=target, columns="auto", bulk_copy="true", sslmode="disable"), batch, 4)

    def pipe(w):
        one = f"psql -X -q -d '{w.server.url}?sslmode=disable' -c"
        return ["/bin/sh", "-c", f"{one} 'copy {source} to stdout (format binary)' | {one} 'copy {target} from stdin (format binary)'"]

    return Job(f"padded_{size}", f"PostgreSQL to PostgreSQL, rows of {size} bytes", "table", [
        Contender("haul", "haul", haul, before=fresh),
        Contender("psql | psql, binary", "psql", pipe, before=fresh),
        Contender("mqb, batch 1024", "mqb", mqb(1024), before=fresh),
        Contender("mqb, batch 32768", "mqb", mqb(32768), before=fresh),
    ], rows=count, setup=World.padded_tables, extension=target)


def everything():
    for group in (file_jobs, pg_read_jobs, pg_write_jobs):
        yield from group()


def choose(found, options):
    """The jobs that were asked for, with the contenders that are there."""
    jobs = list(everything())
    wanted = options.jobs.split(",") if options.jobs else ["*"]
    unknown = [w for w in wanted if not any(fnmatch.fnmatch(j.name, w) for j in jobs)]
    if unknown:
        sys.exit(f"no such job: {', '.join(unknown)}; there are {', '.join(j.name for j in jobs)}")
    only = options.only.split(",") if options.only else None
    chosen = [j for j in jobs if any(fnmatch.fnmatch(j.name, w) for w in wanted)]
    for job in chosen:
        job.contenders = [c for c in job.contenders if c.tool in found and (not only or any(word in c.name for word in only))]
    return chosen


def expected_rows(job, world):
    return scaled(world, job.rows) if job.rows else world.rows


def lines(path):
    count = 0
    with open(path, "rb") as data:
        while block := data.read(1 << 20):
            count += block.count(b"\n")
    return count


def count(job, contender, world):
    """The rows that have arrived, by a count that is not the tool's own."""
    if contender.to_stdout == "null":
        return expected_rows(job, world)
    if job.kind == "table":
        return int(world.server.sql(f"select count(*) from {table(job)}"))
    if job.kind == "parquet":
        return int(digest(job, world).split()[0])
    rows = lines(world.out)
    if job.kind == "csv":
        # A dump has comments around its rows; they are not a header.
        return rows - 1 if contender.compare else min(rows, expected_rows(job, world))
    return rows


def table(job):
    return job.extension if job.name.startswith("padded") else "bench_load"


def digest(job, world):
    """Rows and a number that stands for what they say, in any order and spelling."""
    if job.kind == "table":
        return world.server.sql(f"select count(*), sum(hashtextextended(t::text, 0)) from {table(job)} t").replace("|", " ")
    if job.kind == "parquet":
        python = world.tool("duckdb") if "duckdb" in world.found else world.tool("duckdb-pg")
        argv = [python, "-c", peers.DUCKDB_PARQUET_DIGEST, world.out]
    else:
        argv = [sys.executable, os.path.join(HERE, "digest.py"), job.kind, world.out]
    # The same bytes say the same: reading a million rows by value takes Python a while.
    key = (job.kind, fixture.sha256(world.out))
    if key in world.digests:
        return world.digests[key]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"the output cannot be read back: {done.stderr.strip()[-500:]}")
    world.digests[key] = done.stdout.strip()
    return world.digests[key]


def clean(world):
    if world.out and os.path.exists(world.out):
        os.remove(world.out)


def once(job, contender, world):
    """One run: its figures and the rows it has moved."""
    clean(world)
    if job.setup:
        world.jit(True)
    if contender.before:
        contender.before(world)
    env = {**os.environ, "SLING_DISABLE_TELEMETRY": "true", "DISABLE_TELEMETRY": "true", "RUST_LOG": "error"}
    if contender.to_stdout:
        with open(os.devnull if contender.to_stdout == "null" else world.out, "wb") as stdout:
            figures = run(contender.argv(world), env, stdout)
    else:
        figures = run(contender.argv(world), env)
    rows = count(job, contender, world)
    if rows != expected_rows(job, world):
        raise Failed(f"{rows} rows arrived, not {expected_rows(job, world)}")
    return figures


def measure_job(job, world, runs):
    """Warm-up with comparison, then the rounds.

    Two things: name -> list of figures, or the reason why there are none; and the names of those whose output says
    something else than the others' do."""
    print(f"== {job.name}: {job.title}", flush=True)
    if job.setup:
        job.setup(world)
    world.out = os.path.join(world.data, f"out-{job.name}.{job.extension}")
    results, digests, slow = {}, {}, set()
    for contender in job.contenders:
        try:
            if once(job, contender, world)["wall"] > SLOW:
                slow.add(contender.name)
            if contender.compare:
                digests[contender.name] = digest(job, world)
            if contender.tool == "haul" and job.sha256 and world.rows == 1_000_000 and fixture.sha256(world.out) != job.sha256:
                raise Failed("its bytes are not the published ones")
            results[contender.name] = []
        except Failed as failure:
            results[contender.name] = str(failure)
            print(f"   {contender.name}: {failure}", flush=True)
    reference = common(digests)
    differing = [name for name, found in digests.items() if found != reference]
    for name in differing:
        print(f"   {name} gives other values: {digests[name]}, not {reference}", flush=True)
    for number in range(runs):
        for contender in job.contenders:
            if not isinstance(results[contender.name], list) or contender.name in slow and number >= SLOW_RUNS:
                continue
            try:
                results[contender.name].append(once(job, contender, world))
            except Failed as failure:
                results[contender.name] = str(failure)
                print(f"   {contender.name}, run {number + 1}: {failure}", flush=True)
    clean(world)
    for contender in job.contenders:
        print("   " + report.line(contender.name, results[contender.name]), flush=True)
    return results, differing


def common(digests):
    """What most outputs say; the first where they are even."""
    found = list(digests.values())
    return max(found, key=found.count) if found else None

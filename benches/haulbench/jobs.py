"""The jobs with files: what is done, and who takes part."""
import fnmatch
import sys

from . import between, fixture, peers, sets
from .contest import Contender, Job, World
from .peers import OFF, psql, python

def csv_jsonl(suffix=""):
    def argv(tool, batch=1024, concurrency=1, more=()):
        return lambda w: peers.copy(
            w.tool(tool), peers.file(w.csv, format="csv"),
            peers.file(w.out, format="raw") + (f"|transform?schema_file={fixture.schema_file(w.data)}" if suffix else ""),
            batch, concurrency, *more)
    return argv


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


def pg_read_jobs():
    setup = World.bench_table
    floor = "COPY binary to /dev/null"
    yield Job("pg_jsonl", "PostgreSQL to JSON lines", "full", [
        Contender("haul", "haul", lambda w: [w.haul, "copy", peers.pg(w.server.url, table="bench", sslmode="disable"), w.out, *OFF],
                  bar=[("wall", 0.65, floor), ("cpu", 0.5, None), ("rss", 30, None)]),
        Contender("haul (durable)", "haul", lambda w: [w.haul, "copy", peers.pg(w.server.url, table="bench", sslmode="disable"), w.out]),
        Contender("mqb (JIT off)", "mqb", pg_read("mqb", 32768, 4, format="raw"), before=no_jit),
        Contender("mqb (as shipped)", "mqb", pg_read("mqb", format="raw")),
        Contender("duckdb", "duckdb-pg", python("duckdb-pg", peers.DUCKDB_PG_JSON, the_url, the_out)),
        # Text format doubles the backslashes of JSON; CSV without quotes does not.
        Contender("COPY row_to_json", "psql", psql(
            "copy (select row_to_json(bench) from bench) to stdout (format csv, quote e'\\x01', delimiter e'\\x02')"), to_stdout="out"),
        Contender("sling", "sling", lambda w: [w.tool("sling"), "run", "--src-conn", w.server.url + "?sslmode=disable", "--src-stream",
                                               "public.bench", "--tgt-object", f"file://{w.out}"]),
        Contender(floor, "psql", psql("copy bench to stdout (format binary)"), to_stdout="null", compare=False),
    ], setup=setup, note=f"“{floor}” writes nothing: it is what one stream of the server's own binary format takes. Where Haul's time goes: with the server on "
               "the same two cores, half of the sum of both CPU columns is the least that is possible (here 0.97 s of 1.05 s; the server's part of it is "
               "what forming and sending the rows costs, and it does not shrink with more lanes); what is left is connecting, planning, and the last ranges, "
               "when one of two lanes has nothing more to do.")
    yield Job("pg_csv", "PostgreSQL to CSV", "csv", [
        Contender("haul", "haul", lambda w: [w.haul, "copy", peers.pg(w.server.url, table="bench", sslmode="disable"), w.out, *OFF], bar=[("wall", 0.5, "\\copy")]),
        Contender("haul (durable)", "haul", lambda w: [w.haul, "copy", peers.pg(w.server.url, table="bench", sslmode="disable"), w.out]),
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
        return lambda w: [w.haul, "copy", w.csv, peers.pg(w.server.url, table="bench_load", sslmode="disable"), *more]

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


def everything():
    for group in (file_jobs, pg_read_jobs, pg_write_jobs, between.jobs, sets.jobs):
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

"""A contest: who takes part in a job, how a run is timed, and how its result is counted and compared."""
import os
import shutil
import subprocess
import sys

from . import fixture, peers, report
from .measure import Failed, run

# A contender that takes longer than this many seconds is timed less often: what it shows does not hang on a few percent.
SLOW, SLOW_RUNS = 8, 2
# And from this many on, its warm-up is its figure.
VERY_SLOW = 30
HERE = os.path.dirname(os.path.abspath(__file__))


class Contender:
    """One way to do a job: `argv(world)`, writing to `out` (a file) or into a table."""

    def __init__(self, name, tool, argv, before=None, to_stdout=None, compare=True, bar=None, after=None):
        self.name, self.tool, self.argv = name, tool, argv
        self.before = before          # called with the world before each run, not timed
        self.to_stdout = to_stdout    # stdout goes to the output file ("out") or nowhere ("null")
        self.compare = compare        # its rows must have the digest of the others
        self.after = after            # called with the world after each run, not timed: brings the output to where it is looked at
        self.bar = bar                # (what, limit, of whom): shown beside the figures


class Job:
    """`kind` says how the output is compared (see digest.py), `table`, `parquet` or `set` (a folder of Parquet files)."""

    def __init__(self, name, title, kind, contenders, rows=None, extension="jsonl", note="", setup=None, sha256=None, table="bench_load", runs=None):
        self.name, self.title, self.kind, self.contenders = name, title, kind, contenders
        self.rows, self.extension, self.note, self.setup = rows, extension, note, setup
        self.sha256 = sha256          # of what haul must write for a million rows
        self.table = table            # where the rows of a `table` job arrive
        self.runs = runs              # rounds, where the figure needs more than usual


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

    def jit(self, on):
        """The server's just-in-time compiler costs mqb's many small queries dearly: it is shown with and without."""
        self.server.sql(f"alter database postgres set jit = {'on' if on else 'off'};")


def scaled(world, count):
    return max(1000, count * world.rows // 1_000_000)


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
        return int(world.server.sql(f"select count(*) from {job.table}"))
    if job.kind in ("parquet", "set"):
        return int(digest(job, world).split()[0])
    rows = lines(world.out)
    if job.kind == "csv":
        # A dump has comments around its rows; they are not a header.
        return rows - 1 if contender.compare else min(rows, expected_rows(job, world))
    return rows


def digest(job, world):
    """Rows and a number that stands for what they say, in any order and spelling."""
    if job.kind == "table":
        return world.server.sql(f"select count(*), sum(hashtextextended(t::text, 0)) from {job.table} t").replace("|", " ")
    if job.kind == "parquet":
        python = world.tool("duckdb") if "duckdb" in world.found else world.tool("duckdb-pg")
        argv = [python, "-c", peers.DUCKDB_PARQUET_DIGEST, world.out]
    elif job.kind == "set":
        from . import sets
        done = subprocess.run(sets.digest_argv(world), capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"the output cannot be read back: {done.stderr.strip()[-500:]}")
        return done.stdout.strip()
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
    if world.out and os.path.isdir(world.out):
        shutil.rmtree(world.out)
    elif world.out and os.path.exists(world.out):
        os.remove(world.out)


def once(job, contender, world):
    """One run: its figures and the rows it has moved."""
    clean(world)
    if job.setup:
        world.jit(True)
    if contender.before:
        contender.before(world)
    before = world.server.cpu() if job.setup else None
    env = {**os.environ, "SLING_DISABLE_TELEMETRY": "true", "DISABLE_TELEMETRY": "true", "RUST_LOG": "error"}
    if contender.to_stdout:
        with open(os.devnull if contender.to_stdout == "null" else world.out, "wb") as stdout:
            figures = run(contender.argv(world), env, stdout)
    else:
        figures = run(contender.argv(world), env)
    if before:
        figures.update(zip(("server_user", "server_system"), (after - was for after, was in zip(world.server.cpu(), before))))
    if contender.after:
        contender.after(world)
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
    runs = max(runs, job.runs or 0) if runs > 1 else runs
    for contender in job.contenders:
        try:
            first = once(job, contender, world)
            if first["wall"] > SLOW:
                slow.add(contender.name)
            if contender.compare and not world.options.again:
                digests[contender.name] = digest(job, world)
            if contender.tool == "haul" and job.sha256 and world.rows == 1_000_000 and fixture.sha256(world.out) != job.sha256:
                raise Failed("its bytes are not the published ones")
            results[contender.name] = [first] if first["wall"] > VERY_SLOW else []
        except Failed as failure:
            results[contender.name] = str(failure)
            print(f"   {contender.name}: {failure}", flush=True)
    reference = common(digests)
    differing = [name for name, found in digests.items() if found != reference]
    for name in differing:
        print(f"   {name} gives other values: {digests[name]}, not {reference}", flush=True)
    for number in range(runs):
        for contender in job.contenders:
            figures = results[contender.name]
            if not isinstance(figures, list) or contender.name in slow and (number >= SLOW_RUNS or figures and figures[0]["wall"] > VERY_SLOW):
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

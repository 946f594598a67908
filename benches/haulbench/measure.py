"""Processes, their figures, and the private PostgreSQL server."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

# Runs in an interpreter of its own, small and fresh: the kernel counts what a process held before `exec` too, so
# whatever starts the contender is the least that can be shown (about 9 MiB).
LAUNCHER = r"""
import posix, sys, time
out, argv = int(sys.argv[1]), sys.argv[2:]
start = time.perf_counter()
pid = posix.posix_spawnp(argv[0], argv, posix.environ)
_, status, usage = posix.wait4(pid, 0)
wall = time.perf_counter() - start
posix.write(out, ('%d %.6f %.6f %.6f %d' % (status, wall, usage.ru_utime, usage.ru_stime, usage.ru_maxrss)).encode())
"""


class Failed(Exception):
    """A contender that did not do its work."""


def run(argv, env=None, stdout=None):
    """One process: wall seconds, user + system CPU seconds, peak MiB. Raises `Failed` with what it said."""
    read, write = os.pipe()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCHER, str(write), *argv], env=env, pass_fds=[write],
            stdin=subprocess.DEVNULL, stdout=stdout or said, stderr=said)
        os.close(write)
        with os.fdopen(read) as figures:
            text = figures.read()
        process.wait()
        said.seek(0)
        message = said.read().decode(errors="replace")[-2000:]
    if not text:
        raise Failed(f"{argv[0]} could not be started: {message}")
    status, wall, user, system, rss = text.split()
    if int(status) != 0:
        raise Failed(f"{' '.join(argv)}\nended with {os.waitstatus_to_exitcode(int(status))}: {message}")
    return {"wall": float(wall), "cpu": float(user) + float(system), "user": float(user), "system": float(system), "rss": int(rss) / 1024}


def output(*argv):
    """What a command prints, or '' where it cannot be run."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
        return (done.stdout + done.stderr).strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def version(text):
    match = re.search(r"\d+\.\d+(\.\d+)?", text)
    return match.group(0) if match else text


def tools(haul, peers):
    """What is there: name -> {path, version}."""
    found = {}

    def add(name, path, said):
        if path and said:
            found[name] = {"path": path, "version": version(said)}

    add("haul", haul, output(haul, "--version"))
    mqb = shutil.which("mqb") or os.path.join(peers, "peers/bin/mqb")
    if os.access(mqb, os.X_OK):
        add("mqb", mqb, output(mqb, "--version"))
    python = os.path.join(peers, "venv/bin/python")
    for module in ("duckdb", "polars"):
        add(module, python, output(python, "-c", f"import {module}; print({module}.__version__)"))
    # DuckDB reads PostgreSQL by an extension that lags behind: an environment of its own, with the two that fit.
    reader = os.path.join(peers, "venv-duckdb-pg/bin/python")
    add("duckdb-pg", reader, output(reader, "-c", "import duckdb, duckdb_extension_postgres_scanner; print(duckdb.__version__)"))
    add("adbc", python, output(python, "-c", "import importlib.metadata as m, importlib.util as u\n"
                               "if u.find_spec('pyarrow') and u.find_spec('adbc_driver_postgresql'): print(m.version('adbc_driver_postgresql'))"))
    sling = shutil.which("sling")
    for folder, _, names in os.walk(os.path.join(peers, "venv/lib")):
        if folder.endswith("sling_linux_amd64/bin") and "sling-linux-amd64" in names:
            sling = sling or os.path.join(folder, "sling-linux-amd64")
    if sling:
        add("sling", sling, output(sling, "--version"))
    for name in ("psql", "pg_dump"):
        path = shutil.which(name)
        if path:
            add(name, path, output(path, "--version"))
    return found


class Server:
    """A private PostgreSQL, by the services table of the tests. Started when it is first asked for."""

    def __init__(self, root):
        self.script = os.path.join(root, "crates/testkit/services.sh")
        self.process, self.services, self.env, self.postmaster = None, set(), {}, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.stdin.close()
            self.process.wait()

    def start(self, services=("postgres",)):
        """Starts it, with others beside it if need be: then anew."""
        if self.process and set(services) <= self.services:
            return
        self.__exit__()
        self.services, self.env, self.postmaster = set(services), {}, None
        # Checkpoints would hit whoever is running at the time.
        env = {**os.environ, "SVC_PG_OPTIONS": "-c max_wal_size=16GB -c checkpoint_timeout=1h -c autovacuum=off"}
        self.process = subprocess.Popen([self.script, "hold", *services], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        for line in self.process.stdout:
            if line == "ready\n":
                return
            name, _, value = line.rstrip("\n").partition("=")
            self.env[name] = value
        raise SystemExit("the server did not start")

    def cpu(self):
        """User and system seconds of all sessions that have ended: the server waits for its children, and the kernel adds them up."""
        for _ in range(200):
            if self.sql("select count(*) from pg_stat_activity where backend_type = 'client backend'") == "1":
                break
            time.sleep(0.01)
        if self.postmaster is None:
            with open(os.path.join(self.env["HAUL_PG_SOCKET"], f".s.PGSQL.{self.env['HAUL_PG_PORT']}.lock")) as lock:
                self.postmaster = int(lock.readline())
        with open(f"/proc/{self.postmaster}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        tick = os.sysconf("SC_CLK_TCK")
        return int(fields[13]) / tick, int(fields[14]) / tick

    @property
    def url(self):
        return self.env["HAUL_PG_URL"]

    def sql(self, sql):
        """Statements; what they print. Each in its own transaction."""
        self.start()
        psql = os.path.join(self.env["HAUL_PG_BIN"], "psql")
        done = subprocess.run([psql, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", self.url, "-f", "-"],
                              input=sql, capture_output=True, text=True)
        if done.returncode:
            raise Failed(done.stderr)
        return done.stdout.strip()


def machine():
    """CPU, cores, memory, kernel."""
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    memory = int(re.search(r"MemTotal:\s+(\d+)", open("/proc/meminfo").read()).group(1))
    flags = open("/proc/cpuinfo").read()
    return {
        "cpu": model.group(1).strip() if model else os.uname().machine,
        "avx2": " avx2" in flags,
        "cores": os.cpu_count(),
        "memory": f"{memory / (1 << 20):.0f} GiB",
        "kernel": f"{os.uname().sysname} {os.uname().release}",
    }

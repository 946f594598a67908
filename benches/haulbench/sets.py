"""Sets of Parquet files: into PostgreSQL, out of it, and through a bucket."""
import os
import shutil
import subprocess
import sys

from . import between, peers
from .contest import Contender, Job
from .measure import Failed
from .peers import OFF

FILES = 8
BUCKET = "haul"
COLUMNS = ("{'o_orderkey': 'INTEGER', 'o_custkey': 'INTEGER', 'o_orderstatus': 'VARCHAR', 'o_totalprice': 'DECIMAL(15,2)', 'o_orderdate': 'DATE', "
           "'o_orderpriority': 'VARCHAR', 'o_clerk': 'VARCHAR', 'o_shippriority': 'INTEGER', 'o_comment': 'VARCHAR'}")
# Each file a slice of the table, in order: made by DuckDB, so that no tool reads what it has written itself.
MAKE_SET = """
import duckdb, sys
csv, folder, files, columns = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
duckdb.sql(f"create table o as select * from read_csv('{csv}', columns={columns})")
rows = duckdb.sql("select count(*) from o").fetchall()[0][0]
for i in range(files):
    a, b = rows * i // files, rows * (i + 1) // files
    duckdb.sql(f"copy (select * from o where rowid >= {a} and rowid < {b}) to '{folder}/orders_{i}.parquet' (format parquet, compression zstd)")
"""
DUCKDB_SET_PG = peers.DUCKDB_ATTACH + """
db.execute(f"INSERT INTO pg.target SELECT * FROM read_parquet('{sys.argv[2]}/*.parquet')")
"""
DUCKDB_PG_SET = peers.DUCKDB_ATTACH + """
db.execute(f"COPY pg.orders TO '{sys.argv[2]}' (FORMAT parquet, COMPRESSION zstd, PER_THREAD_OUTPUT)")
"""
ADBC_SET_PG = """
import adbc_driver_postgresql.dbapi, pyarrow.dataset, sys
files = pyarrow.dataset.dataset(sys.argv[2], format='parquet')
with adbc_driver_postgresql.dbapi.connect(sys.argv[1]) as db, db.cursor() as cursor:
    cursor.adbc_ingest('target', files.scanner().to_reader(), mode='append')
    db.commit()
"""
SET_DIGEST = """
import duckdb, sys
print(*duckdb.sql(f"SELECT count(*), bit_xor(hash(o_orderkey::INT, o_custkey::INT, trim(o_orderstatus), o_totalprice::DECIMAL(15,2), o_orderdate::DATE, "
                  f"o_orderpriority, o_clerk, o_shippriority::INT, o_comment)) FROM read_parquet('{sys.argv[1]}/**/*.parquet')").fetchall()[0])
"""
# Objects are brought here by another client than ours.
FETCH = """
import pyarrow.fs as fs, sys
endpoint, key, secret, prefix, folder = sys.argv[1:]
s3 = fs.S3FileSystem(access_key=key, secret_key=secret, endpoint_override=endpoint.split('//')[1], scheme='http')
fs.copy_files(prefix, folder, source_filesystem=s3, destination_filesystem=fs.LocalFileSystem())
"""


def orders_set(w):
    """The table as files, and as two halves in the server's own binary format."""
    between.orders_table(w)
    folder = set_folder(w)
    if not os.path.exists(os.path.join(folder, f"orders_{FILES - 1}.parquet")):
        os.makedirs(folder, exist_ok=True)
        csv = os.path.join(w.data, f"orders-{between.ORDERS_SCALE}.csv")
        made = subprocess.run([w.tool("duckdb"), "-c", MAKE_SET, csv, folder, str(FILES), COLUMNS], capture_output=True, text=True)
        if made.returncode:
            raise Failed(f"the set of files cannot be made: {made.stderr[-500:]}")
    if not os.path.exists(half(w, 1)):
        for number, compare in enumerate(("<=", ">")):
            w.server.sql("\\copy (select * from orders where o_orderkey " + compare + " (select percentile_disc(0.5) within group (order by o_orderkey) "
                         f"from orders)) to '{half(w, number)}' (format binary)")


def set_folder(w):
    return os.path.join(w.data, f"orders-set-{w.rows}")


def half(w, number):
    return os.path.join(w.data, f"orders-half-{w.rows}-{number}.bin")


def the_url(w):
    return w.server.url


def the_out(w):
    return w.out


def in_two_lanes(w):
    one = [f"{between.client(w)} -c \"\\copy target from '{half(w, number)}' (format binary)\"" for number in (0, 1)]
    return ["/bin/sh", "-c", f"({one[0]}) & ({one[1]}); wait"]


def out_folder(w):
    os.makedirs(w.out, exist_ok=True)


def bucket(w):
    """A server with a bucket beside it."""
    if "s3" not in w.server.services:
        w.server.start(("postgres", "s3"))
        w.loaded.clear()
    between.orders_table(w)


def through_s3(*arguments):
    def argv(w):
        env = w.server.env
        keys = [f"AWS_ACCESS_KEY_ID={env['HAUL_S3_KEY']}", f"AWS_SECRET_ACCESS_KEY={env['HAUL_S3_SECRET']}", f"AWS_ENDPOINT_URL={env['HAUL_S3_ENDPOINT']}"]
        return ["/usr/bin/env", *keys, w.haul, "copy", peers.pg(w.server.url, table="orders", sslmode="disable"),
                f"s3://{BUCKET}/bench/orders_{{lane:02}}_{{part:03}}.parquet", *arguments]
    return argv


def fetched(w):
    """What is in the bucket, brought into the folder that is looked at."""
    env = w.server.env
    shutil.rmtree(w.out, ignore_errors=True)
    os.makedirs(w.out)
    done = subprocess.run([w.tool("duckdb"), "-c", FETCH, env["HAUL_S3_ENDPOINT"], env["HAUL_S3_KEY"], env["HAUL_S3_SECRET"], f"{BUCKET}/bench", w.out],
                          capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"the objects cannot be read: {done.stderr[-500:]}")


def to_set(*more):
    return lambda w: [w.haul, "copy", peers.pg(w.server.url, table="orders", sslmode="disable"), w.out + "/orders_{lane:02}_{part:03}.parquet",
                      "--degree", "2", *more]


def jobs():
    make, copy = between.fresh("orders"), "COPY FROM binary, two lanes"
    yield Job("parquet_pg", f"{FILES} Parquet files to PostgreSQL, orders, logged", "table", [
        Contender("haul", "haul", lambda w: [w.haul, "copy", set_folder(w), peers.pg(w.server.url, table="target", sslmode="disable"), "--degree", "2"],
                  before=make, bar=[("wall", 0.7, "duckdb"), ("wall", 1.15, copy), ("rss", 100, None)]),
        Contender(copy, "psql", in_two_lanes, before=make),
        Contender("duckdb", "duckdb-pg", peers.python("duckdb-pg", DUCKDB_SET_PG, the_url, set_folder), before=make),
        Contender("pyarrow + ADBC", "adbc", peers.python("adbc", ADBC_SET_PG, the_url, set_folder), before=make),
    ], rows=between.TABLES["orders"][1], setup=orders_set, table="target")
    yield Job("pg_parquet_set", "PostgreSQL to a set of Parquet files, orders, degree 2", "set", [
        Contender("haul", "haul", to_set(*OFF), before=out_folder, bar=[("wall", 0.8, "duckdb"), ("rss", 150, None)]),
        Contender("haul (durable)", "haul", to_set(), before=out_folder),
        Contender("duckdb", "duckdb-pg", peers.python("duckdb-pg", DUCKDB_PG_SET, the_url, the_out)),
    ], rows=between.TABLES["orders"][1], setup=between.orders_table, extension="set")
    yield Job("pg_parquet_s3", "PostgreSQL to a set of Parquet files in a bucket on loopback, orders, degree 2", "set", [
        Contender("haul, S3", "haul", through_s3("--degree", "2"), after=fetched, bar=[("wall", 1.3, "haul, folder"), ("rss", 150, None)]),
        Contender("haul, folder", "haul", to_set(), before=out_folder),
    ], rows=between.TABLES["orders"][1], setup=bucket, extension="set",
        note="The S3 server shares the cores: its own work is part of the wall time.")


def digest_argv(w):
    return [w.tool("duckdb") if "duckdb" in w.found else sys.executable, "-c", SET_DIGEST, w.out]

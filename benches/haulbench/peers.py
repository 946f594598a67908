"""How each tool is asked to do a job: command lines, and small scripts for the Python libraries."""
import urllib.parse

DUCKDB_TEXT = """
import duckdb, sys
duckdb.sql(f"COPY (SELECT * FROM read_csv('{sys.argv[1]}', all_varchar=true)) TO '{sys.argv[2]}' (FORMAT json)")
"""
DUCKDB_TYPED = """
import duckdb, sys
duckdb.sql(f"COPY (SELECT id::BIGINT AS id, * EXCLUDE (id, attributes), attributes::JSON AS attributes "
           f"FROM read_csv('{sys.argv[1]}', all_varchar=true)) TO '{sys.argv[2]}' (FORMAT json)")
"""
DUCKDB_PARQUET = """
import duckdb, sys
duckdb.sql(f"COPY (SELECT id::BIGINT AS id, first_name, country, amount::DOUBLE AS amount, "
           f"created_at::TIMESTAMPTZ AS created_at, active::BOOLEAN AS active, attributes "
           f"FROM read_csv('{sys.argv[1]}', all_varchar=true)) TO '{sys.argv[2]}' (FORMAT parquet, COMPRESSION zstd)")
"""
# Rows and a digest by value of a Parquet file with the bench table.
DUCKDB_PARQUET_DIGEST = """
import duckdb, sys
print(*duckdb.sql(f"SELECT count(*), bit_xor(hash(id::BIGINT, first_name, country, amount::DOUBLE, epoch_us(created_at), "
                  f"active::BOOLEAN, attributes::VARCHAR)) FROM '{sys.argv[1]}'").fetchall()[0])
"""
DUCKDB_ATTACH = """
import duckdb, duckdb_extension_postgres_scanner as extension, glob, os, sys
path = glob.glob(os.path.join(os.path.dirname(extension.__file__), 'extensions', '*', '*.duckdb_extension'))[0]
db = duckdb.connect(config={'allow_unsigned_extensions': True})
db.execute(f"LOAD '{path}'")
db.execute(f"ATTACH '{sys.argv[1]}' AS pg (TYPE postgres)")
"""
DUCKDB_PG_JSON = DUCKDB_ATTACH + """
db.execute(f"COPY (SELECT * EXCLUDE attributes, attributes::JSON AS attributes FROM pg.bench) TO '{sys.argv[2]}' (FORMAT json)")
"""
DUCKDB_PG_CSV = DUCKDB_ATTACH + """
db.execute(f"COPY pg.bench TO '{sys.argv[2]}' (FORMAT csv, HEADER)")
"""
DUCKDB_CSV_PG = DUCKDB_ATTACH + """
db.execute(f"INSERT INTO pg.bench_load SELECT id::BIGINT, first_name, country, amount::DOUBLE, created_at::TIMESTAMPTZ, "
           f"active::BOOLEAN, attributes FROM read_csv('{sys.argv[2]}', all_varchar=true)")
"""
POLARS_TEXT = """
import polars, sys
polars.scan_csv(sys.argv[1], infer_schema=False).sink_ndjson(sys.argv[2])
"""
POLARS_TYPED = """
import polars as pl, sys
shape = pl.Struct({'tier': pl.String, 'score': pl.Float64, 'tags': pl.List(pl.String)})
pl.scan_csv(sys.argv[1], infer_schema=False).with_columns(
    pl.col('id').cast(pl.Int64), pl.col('attributes').str.json_decode(shape)).sink_ndjson(sys.argv[2])
"""
POLARS_PARQUET = """
import polars as pl, sys
pl.scan_csv(sys.argv[1], infer_schema=False).with_columns(
    pl.col('id').cast(pl.Int64), pl.col('amount').cast(pl.Float64), pl.col('active') == 'true',
    pl.col('created_at').str.to_datetime('%Y-%m-%dT%H:%M:%SZ', time_unit='us', time_zone='UTC')).sink_parquet(sys.argv[2], compression='zstd')
"""


OFF = ("--fsync", "off")


def python(tool, script, *arguments):
    return lambda w: [w.tool(tool), "-c", script, *[a(w) for a in arguments]]


def psql(command):
    return lambda w: [w.tool("psql"), "-X", "-q", "-d", w.server.url + "?sslmode=disable", "-c", command.format(out=w.out, csv=w.csv)]


def file(path, **query):
    """A file URI as both haul and mqb read it."""
    return f"file://{path}" + ("?" + "&".join(f"{k}={v}" for k, v in query.items()) if query else "")


def pg(url, **query):
    """A PostgreSQL URI with settings."""
    return url + "?" + "&".join(f"{k}={urllib.parse.quote(str(v), safe='')}" for k, v in query.items())


def copy(binary, source, target, batch=1024, concurrency=1, *more):
    """The command that haul and mqb have in common."""
    return [binary, "copy", "--from", source, "--to", target, "--drain", "--batch-size", str(batch), "--concurrency", str(concurrency), *more]

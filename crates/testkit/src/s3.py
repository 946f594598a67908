# One signed request to an S3: METHOD PATH?QUERY, the body from standard input; prints the status, a line feed, the answer.
import datetime, hashlib, hmac, sys, urllib.error, urllib.parse, urllib.request
endpoint, key, secret, method, target = sys.argv[1:]
path, _, query = target.partition("?")
path = urllib.parse.quote(path, safe="/-_.~")
query = "&".join(sorted(f"{urllib.parse.quote(k, safe='')}={urllib.parse.quote(v, safe='')}" for k, v in urllib.parse.parse_qsl(query, keep_blank_values=True)))
body = sys.stdin.buffer.read()
now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
host, digest = endpoint.split("//")[1], hashlib.sha256(body).hexdigest()
names = "host;x-amz-content-sha256;x-amz-date"
canonical = f"{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{digest}\nx-amz-date:{now}\n\n{names}\n{digest}"
scope = f"{now[:8]}/us-east-1/s3/aws4_request"
text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
mac = ("AWS4" + secret).encode()
for part in (now[:8], "us-east-1", "s3", "aws4_request"):
    mac = hmac.new(mac, part.encode(), "sha256").digest()
signature = hmac.new(mac, text.encode(), "sha256").hexdigest()
headers = {"x-amz-date": now, "x-amz-content-sha256": digest,
           "Authorization": f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={signature}"}
url = endpoint + path + ("?" + query if query else "")
request = urllib.request.Request(url, body if method == "PUT" else None, headers, method=method)
try:
    with urllib.request.urlopen(request, timeout=20) as answer:
        status, body = answer.status, answer.read()
except urllib.error.HTTPError as error:
    status, body = error.code, error.read()
except OSError:
    status, body = 0, b""
sys.stdout.buffer.write(b"%d\n" % status + body)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""TLS in front, by nginx, with the very configuration that docs/SERVING.md shows."""
import asyncio
import os
import re
import ssl
import subprocess

from clients import need_module
from harness import ROOT, Daemon, Process, check, equal, folder, free_port, main, need, parse_json, run, \
    test_simulated, wait_until

OUTER = """daemon off; master_process off; pid {0}/pid; error_log {0}/error; events {{}}
http {{ access_log off; client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f;
uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;
{1} }}
"""


def documented(port, daemon):
    """The block of the docs, with the paths and the ports of this test."""
    with open(os.path.join(ROOT, "docs", "SERVING.md")) as f:
        block = re.search(r"^```nginx\n(.*?)^```", f.read(), re.S | re.M).group(1)
    for old, new in (("/etc/ssl", folder()), ("127.0.0.1:9091", f"127.0.0.1:{daemon.port}"),
                     ("listen 443", f"listen 127.0.0.1:{port}")):
        check(old in block, f"{old} in the docs")
        block = block.replace(old, new)
    return block


def start_nginx(port, daemon):
    here = folder()
    made = run([need("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
        "/CN=localhost",
                "-addext", "subjectAltName=DNS:localhost", "-keyout", f"{here}/node7.key", "-out", f"{here}/node7.pem"])
    equal(made.returncode, 0, made.stderr)
    with open(f"{here}/nginx.conf", "w") as f:
        f.write(OUTER.format(here, documented(port, daemon)))
    nginx = Process([need("/usr/sbin/nginx"), "-e", f"{here}/error", "-c", f"{here}/nginx.conf"],
        stderr=subprocess.DEVNULL)
    nginx.wanted = None
    return nginx


@test_simulated
def nginx_puts_tls_in_front():
    websockets = need_module("websockets")
    port, here = free_port(), folder()
    daemon = Daemon("--simulate", "--listen", "127.0.0.1")
    nginx = start_nginx(port, daemon)
    curl = [need("curl"), "-sS", "--cacert", f"{here}/node7.pem", "--compressed", "--noproxy", "*"]
    url = f"https://localhost:{port}"
    wait_until(lambda: run([*curl, f"{url}/health"]).returncode == 0, "nginx")
    equal(parse_json(run([*curl, f"{url}/json"]).stdout)["source"], "simulated", "the snapshot")
    check("<html" in run([*curl, f"{url}/"]).stdout, "the page")

    async def first(origin):
        context = ssl.create_default_context(cafile=f"{here}/node7.pem")
        async with websockets.connect(f"wss://localhost:{port}/ws", ssl=context, origin=origin, max_size=None) as ws:
            return parse_json(await asyncio.wait_for(ws.recv(), 20))
    equal(asyncio.run(first(url))["source"], "simulated", "what the page's WebSocket gets")
    try:
        asyncio.run(first("https://evil.example"))
        check(False, "a page of another site gets a WebSocket")
    except websockets.exceptions.InvalidStatusCode as refused:
        equal(refused.status_code, 403, "status for a page of another site")
    got = run([*curl, "--resolve", f"evil.example:{port}:127.0.0.1", "-k", "-o", "/dev/null", "-w", "%{http_code}",
               f"https://evil.example:{port}/json"])
    equal(got.stdout, "421", "status under a name that is not the node's")
    nginx.kill()


if __name__ == "__main__":
    main()

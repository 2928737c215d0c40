"""Certificates for the server and keys for the parties: ``python certificates.py server.example.org``.

Give each party ``ca.crt`` and its own ``node-K``; the server keeps the rest. Never send ``server.key``.
"""

import argparse
from pathlib import Path

from fedplus.check import SettingError
from fedplus.flower.certificates import write_certificates, write_key

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hosts", nargs="+", help="names or addresses of the server")
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--folder", type=Path, default=Path("certificates"))
    given = parser.parse_args()
    if given.folder.exists():
        parser.error(f"{given.folder} is there already; name another --folder, or move it away")
    try:
        write_certificates(given.folder, [*given.hosts, "localhost", "127.0.0.1"], given.days)
    except SettingError as error:
        parser.error(str(error))
    for k in range(given.parties):
        write_key(given.folder / f"node-{k}")
    print(f"{given.folder} holds {', '.join(sorted(p.name for p in given.folder.iterdir()))}")

"""Write certificates and keys: ``python certificates.py server.example.org``.

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
    options = parser.parse_args()
    folder = options.folder
    if folder.exists():
        parser.error(f"{folder} exists already; choose another --folder, or move it away")
    try:
        write_certificates(folder, [*options.hosts, "localhost", "127.0.0.1"], options.days)
    except SettingError as error:
        parser.error(str(error))
    for k in range(options.parties):
        write_key(folder / f"node-{k}")
    print(f"{folder} contains {', '.join(sorted(path.name for path in folder.iterdir()))}")

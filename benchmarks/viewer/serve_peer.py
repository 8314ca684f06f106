"""How a peer's server is started: with the peer's own Python, on a port that is given.

    python serve_peer.py netron|explorer PORT FILE

The first line printed is the address to open. Only the peer and the standard library are imported,
since this runs in an environment of the peer's own.
"""

import sys
import threading
import time


def netron(port: int, file: str) -> None:
    import netron as peer

    host, port = peer.serve(file, None, address=("localhost", port), browse=False)
    print(f"http://{host}:{port}/", flush=True)
    peer.wait()


def explorer(port: int, file: str) -> None:
    import model_explorer
    from model_explorer import server

    config = model_explorer.config()
    config.add_model_from_path(path=file)
    options = {"port": port, "config": config, "no_open_in_browser": True}
    threading.Thread(target=server.start, kwargs=options, daemon=True).start()
    time.sleep(1)
    print(f"http://localhost:{port}/?data={config.to_url_param_value()}", flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    {"netron": netron, "explorer": explorer}[sys.argv[1]](int(sys.argv[2]), sys.argv[3])

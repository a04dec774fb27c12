"""`remuda health`: asks the service in this container how it is, and says so by the exit code."""

from __future__ import annotations

import http.client
import sys

WITHIN_S = 4.0


def health(ready: bool, port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
    try:
        connection.request("GET", "/readyz" if ready else "/livez")
        answer = connection.getresponse()
        print(answer.read().decode(errors="replace").strip())
        well = answer.status == http.client.OK
    except OSError as error:
        print(f"no answer on port {port}: {error}")
        well = False
    finally:
        connection.close()
    sys.exit(0 if well else 1)

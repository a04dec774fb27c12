"""Every bound of the configuration service, with its reason. (Limits of users and groups: `user_limits.py`.)"""

from __future__ import annotations

from typing import Final

# What a text may be: it comes from outside.

# Far above any real one; below it reading stays a matter of seconds.
MAX_TEXT_BYTES: Final = 4_000_000
# Aliases multiply: a text of a kilobyte can unfold into gigabytes.
MAX_NODES: Final = 200_000
# 64 queues deep is 130.
MAX_DEPTH: Final = 200
# A message may be nested 100 deep (protobuf), and each queue is one level of it.
MAX_QUEUE_DEPTH: Final = 64
# Rules hanging from one another: a queue is seldom deeper, and messages nest at most 100 deep.
MAX_RULE_CHAIN: Final = 16

# What an answer may be.

# Problems of one text: nobody reads more, and a message has an end.
MAX_PROBLEMS: Final = 1_000
# Of one problem: it quotes what it is about, and that can be anything.
MAX_MESSAGE_CHARACTERS: Final = 500
# Kept of a message, beside the configuration: headers, JSON quoting, names.
ROOM_FOR_THE_REST_BYTES: Final = 64 * 1024

# How soon a file is read again.

# Network file systems, and folders that come and go, tell nobody.
LOOK_EVERY_S: Final = 5.0
# A save is several events.
SETTLE_MS: Final = 200

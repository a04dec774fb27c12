"""Every bound of what the command line starts and asks, with its reason. (What workloads and screens do by themselves
stands there.)"""

from __future__ import annotations

# The embedded server

# Of a message: what is larger is sent in parts.
MAX_PAYLOAD_BYTES = 8 * 1024 * 1024
# Only a bound for what streams may reserve; what the disk holds is what the disk holds.
MAX_FILE_STORE_BYTES = 1024**4
# A server reads the ends of its streams when it starts.
SERVER_READY_WITHIN_S = 10.0
SERVER_STOPS_WITHIN_S = 10.0

# Processes that are kept running

# Before a restart; doubles with each that follows soon.
FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 5.0
# Having run this long, a process starts again with the first delay.
STEADY_AFTER_S = 10.0
# Then SIGKILL.
STOP_WITHIN_S = 10.0
# Of output; what is longer comes in pieces.
LONGEST_LINE_BYTES = 64 * 1024
# The log before it is kept as <name>.log.1.
LARGEST_LOG_BYTES = 16 * 1024 * 1024
# All services have answered by then, or it is said which have not.
READY_WITHIN_S = 30.0
# For a dead nats-server, and who answers while something is not ready yet.
LOOK_EVERY_S = 0.25

# Questions

# A server on this machine or near it answers in milliseconds; nobody wants to wait for one that is not there.
CONNECT_WITHIN_S = 3.0
# A bucket does not say when its current entries are through.
ENTRIES_WITHIN_S = 0.3
# Of cores that are asked what they lead. Who is less behind has not yet read what was just written.
CORES_ANSWER_WITHIN_S = 2.0
BEHIND_WORTH_A_WORD_S = 1.0
# An allocation the core has decided on is heard of within this time.
ON_ITS_WAY_S = 2.0
# `remuda declare` is the first to start: the servers may still be looking for each other.
DECLARE_WITHIN_S = 60.0
DECLARE_AGAIN_S = 1.0

# Rebuilding

# A core notices at once that its RM is halted; its lease expires after six seconds.
CORE_STOPS_WITHIN_S = 10.0
# The RM is asked every two seconds.
REPORTS_WITHIN_S = 30.0

"""Every bound of the web service, with its reason."""

from __future__ import annotations

from typing import Final

# The port that web interfaces of this family expect.
PORT: Final = 9080
# Requests that are answered at the same time; further ones get 503. A page of rows takes some MB while it is encoded.
REQUESTS_AT_ONCE: Final = 200
# A connection without a request. Browsers keep some open.
KEEPALIVE_S: Final = 30
# After a stop signal: requests under way end, and clients go to another web service.
STOP_WITHIN_S: Final = 2
# The largest body of a request: a queues.yaml. As the configuration service takes at most.
BODY_BYTES: Final = 1024 * 1024
# Bearer tokens in the file: every request is compared with all of them.
TOKENS: Final = 1_000
# Shorter tokens can be guessed.
TOKEN_CHARACTERS: Final = 20
# Samples of the history: a day of minutes, as the reference keeps.
SAMPLE_EVERY_S: Final = 60.0
SAMPLES: Final = 1_440
# RMs that are asked at the same time for one request: a core answers queries one by one.
RMS_ASKED_AT_ONCE: Final = 20
# The rest of a page of events is on its way; after a gap at its end nothing more comes.
EVENTS_WITHIN_S: Final = 2.0
# Of one group: 1 MB of JSON.
EVENTS_TOGETHER: Final = 2_000
# Answers without end, under all paths: half of the requests at once, the rest is for others. A follower of events holds
# a reader of the bus.
STREAMS_AT_ONCE: Final = 100
# Followers that are sent a group before other requests have their turn: 1 ms.
FOLLOWERS_AT_ONCE: Final = 5
# Events that a follower has not read yet: it is cut off then, and comes again. At 10,000 a second, some seconds. They
# are the same for all followers, some 1 kB each with their JSON.
EVENTS_BEHIND: Final = 50_000
# Followers get events in groups, all the same ones: people see no more, and each group costs some 0.1 ms for each.
EVENTS_EVERY_S: Final = 0.2
# With many followers groups are further apart, so that all of them together are sent 200 a second.
EVENTS_OF_FOLLOWER_S: Final = 0.005
# The core and rmproxy run first. Pages wait while they work.
NICENESS: Final = 10
# How often it is asked whether the sender of an open stream is still known: after the end of a session or a token, a
# stream lasts no longer.
SENDER_EVERY_S: Final = 5.0
# Smaller answers gain nothing from compression.
COMPRESSED_FROM_BYTES: Final = 1_000
# Of gzip: the highest takes three times as long for a few per cent.
COMPRESSION_LEVEL: Final = 6
# Compressing more takes some ms, in which other requests go on.
COMPRESSED_ASIDE_BYTES: Final = 128 * 1024
# Answers, and the rows that they are made of, are kept for all who ask: twice a second is as often as people look. What
# takes long to read is kept so many times as long, but a dashboard is never further behind than the most.
KEPT_S: Final = 0.5
KEPT_REST: Final = 9
KEPT_AT_MOST_S: Final = 2.0
# The bytes of answers that are kept. Larger ones than that are not.
KEPT_BYTES: Final = 64 * 1024 * 1024
# Rows that are kept, 1 to 2 kB each: 10,000 nodes and 20,000 applications. Longer lists are not.
KEPT_ROWS: Final = 40_000
# Of a request whose answer is kept: no path that we document is longer.
KEPT_QUERY_BYTES: Final = 4_000
# Metric families have names of queues. Prometheus keeps a series for each resource and state of a queue, some tens.
METRICS_OF_QUEUES: Final = 1_000
# Records of a page of events: the most, and the number without `count`, as in the reference.
EVENTS: Final = 10_000
# A page of rows, as a core gives at most (docs/queries.md).
PAGE_ROWS: Final = 1_000
# Readings of ledgers at the same time: a year of hours takes seconds of a processor.
LEDGERS_AT_ONCE: Final = 2
# Rows of an answer about a ledger: some 30 MB of JSON.
LEDGER_ROWS: Final = 100_000
# Of a time in ms, and of a number of days: more digits than there are.
TIME_DIGITS: Final = 15
DAYS_DIGITS: Final = 5
# Names in filters, and the token of a page, which holds some names.
FILTER_CHARACTERS: Final = 2_000
# How often a live view asks again. A follower answers in some milliseconds, and people see no more.
WATCH_EVERY_S: Final = 1.0
# The reference checks as often. A check reads every node, application and allocation.
CHECK_EVERY_S: Final = 30.0
# Of a refused header, in the answer.
SHOWN_CHARACTERS: Final = 100
# A JWT as a bearer token; servers refuse longer headers.
JWT_CHARACTERS: Final = 16_000
# Clocks of the provider and of this machine may differ.
CLOCK_SKEW_S: Final = 30
# Keys of the provider are read again after this time, so that one which it takes back does not count for long.
PROVIDER_KEYS_KEPT_S: Final = 600.0
# A token with an unknown key lets them be read sooner, but no oftener: anyone can make such tokens.
PROVIDER_KEYS_EVERY_S: Final = 30.0
# After a failure, requests that need new keys are refused for this time without asking again.
PROVIDER_RETRY_S: Final = 5.0
# Requests for data wait for the keys.
PROVIDER_WITHIN_S: Final = 10.0
# Characters of the key of sessions: shorter ones can be guessed.
SESSION_KEY_CHARACTERS: Final = 32
# The longest session, in seconds: a month. The provider is not asked again while it lasts.
SESSION_S: Final = 30 * 24 * 3_600
# Histories of queues: an hour of samples that are close together, and a day of others. People look at the last hour
# closely; for more there is Prometheus.
HISTORY_EVERY_MS: Final = 10_000
HISTORY_SAMPLES: Final = 360
HISTORY_COARSE_EVERY_MS: Final = 300_000
HISTORY_COARSE_SAMPLES: Final = 288
# Resources of queues with a history: 4 amounts of 648 samples of 8 bytes each, so 62 MB in all. 1,000 queues with 3
# resources; those near root come first.
HISTORY_SERIES: Final = 3_000
# The same for resources on devices of partitions. An RM without devices is asked again after this time.
HISTORY_DEVICES: Final = 500
HISTORY_NO_DEVICES_S: Final = 60.0
# An overview shows the allocations of an RM a second over the last minute, from samples that are some seconds apart.
RATE_OVER_S: Final = 60.0
RATE_EVERY_S: Final = 5.0
# RMs whose allocations are counted while nobody looks. Of more RMs, samples come from overviews alone.
RATES_SAMPLED: Final = 200
# Younger waits need no attention: with every ask something waits for a moment, also below a guarantee.
ATTENTION_AFTER_MS: Final = 10_000
# Versions and actions that an overview shows: what one screen has.
CHANGES: Final = 20
# A dead letter needs attention for a day. They are counted apart from requests: the stream has no count by age.
DEAD_LETTERS_FOR_S: Final = 24 * 3_600.0
DEAD_LETTERS_EVERY_S: Final = 10.0
# Followers are asked for samples a tenth of the time at most: so many times as long as it took, nothing is asked.
HISTORY_REST: Final = 9

"""The ledger of an RM: what was used in each hour, by queue, user, application and tags, and what of it was wasted
(semantics section 17). `hours`: hours as messages of the stream LEDGER. `reading`: sums over many hours. `prices`,
`exports`: what they cost; tables, CSV, FOCUS and Parquet.
"""

"""Limits of the edge. Each is what a client could otherwise make without bound."""

LONGEST_PATH_BYTES = 4096  # path and query; a search of 1,000 encoded letters fits
LARGEST_HEADERS_KB = 32  # three tokens of 2 KB, a provider's large user token, and what browsers add
MOST_HEADERS = 100
LARGEST_BODY_BYTES = 64 * 1024  # 50 seat ids are under 1 KB
LARGEST_RESPONSE_BYTES = 32 * 1024 * 1024  # a plan of 18,000 seats is 2 MB of JSON, one of 200,000 is 20
STREAMS_PER_CONNECTION = 256  # HTTP/2; a page needs five, a proxy in front of us more
CONNECTION_WINDOW_BYTES = 1024 * 1024
STREAM_WINDOW_BYTES = 256 * 1024
BUFFER_BYTES = 256 * 1024  # for each connection and direction, before the sender is told to wait

UNARY_TIMEOUT = "15s"  # three times the longest statement; a client then asks again with its key
STREAM_IDLE_TIMEOUT = "60s"  # the feed sends a comment every 15 s: four missed ones mean that it is gone
HEADERS_TIMEOUT = "10s"  # a client that sends its headers letter by letter
REQUEST_TIMEOUT = "20s"  # … or its body
IDLE_TIMEOUT = "300s"  # a connection without a request
CONNECT_TIMEOUT = "1s"

UPSTREAM_REQUESTS = 10_000  # under way for each service; one more is a 503 at once, not a queue
UPSTREAM_STREAMS = 1_000_000  # the feed's own limit comes first
UPSTREAM_RETRIES = 1_000  # at once; Envoy's 3 would turn a dead replica into refusals

CLOCK_SKEW_SECONDS = 5
KEYS_CACHE_SECONDS = 60  # a new key of the issuer is known after this at the latest
KEYS_TIMEOUT = "3s"

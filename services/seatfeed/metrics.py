"""What the service counts. The alert that matters is on the lag: a map that stands still looks like a calm one."""

from prometheus_client import Counter, Gauge, Histogram

LAG_BYTES = Gauge("seatfeed_lag_bytes", "Log written by booking and not yet read", ["shard"])
LAG_SECONDS = Gauge("seatfeed_lag_seconds", "Age of the newest reading that the pictures show", ["shard"])
LEADING = Gauge("seatfeed_leading", "1 in the process that reads the shard's log", ["shard"])
TICK_SECONDS = Histogram("seatfeed_tick_seconds", "Time for a tick, from reading the log to storing", ["shard"])
DELTAS = Counter("seatfeed_deltas_total", "Deltas stored, one an event and tick", ["shard"])
EPOCHS = Counter("seatfeed_epochs_total", "Times that every picture was made anew", ["shard"])
STEPPED_DOWN = Counter("seatfeed_stepped_down_total", "Times that a process gave the log up", ["shard"])
PICTURES = Gauge("seatfeed_pictures", "Pictures in this process' memory", ["shard", "for"])
FOLLOWING = Gauge("seatfeed_following", "1 while the stored ticks can be read", ["shard"])
SUBSCRIBERS = Gauge("seatfeed_subscribers", "Open streams", ["kind"])
DROPPED = Counter("seatfeed_dropped_readers_total", "Streams ended because their reader was too slow", ["kind"])
RESYNCS = Counter("seatfeed_resyncs_total", "Times that a subscriber was told to fetch a snapshot", ["shard"])

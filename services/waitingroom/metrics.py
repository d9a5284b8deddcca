"""What Prometheus sees. Gauges are of the shared lines: every process shows the same; counters are of this process."""

from prometheus_client import Counter, Gauge

TICKS = Counter("waitingroom_ticks_total", "Ticks of this process by what they did", ["outcome"])
COUNTS = Counter("waitingroom_counts_total", "Askings of the seat feed by this process, by outcome", ["outcome"])
ADMITTED = Counter("waitingroom_admitted_total", "Positions passed by ticks of this process")

LINE_LENGTH = Gauge("waitingroom_line_length", "Positions that wait", ["event"])
ADMITTED_THROUGH = Gauge("waitingroom_admitted_through", "The last position passed", ["event"])
ADMITTED_30S = Gauge("waitingroom_admitted_per_30_seconds", "Positions passed in 30 s, smoothed", ["event"])
IN_FLIGHT = Gauge("waitingroom_in_flight", "Leases that live", ["event"])
CAPACITY = Gauge("waitingroom_capacity", "How many leases may live", ["event"])
CLAIM_RATE = Gauge("waitingroom_claim_rate", "Share of the positions passed that comes in", ["event"])
COMMITS = Gauge("waitingroom_commits_per_second", "Holds and orders that committed, smoothed", ["event"])
CONFLICTS = Gauge("waitingroom_conflicts_per_second", "Requests that lost a seat, smoothed", ["event"])
STALLED = Gauge(
    "waitingroom_stalled", "1: nobody was admitted for 30 s, people wait, and neither zone nor seats are why", ["event"]
)

OF_A_LINE = (
    *(LINE_LENGTH, ADMITTED_THROUGH, ADMITTED_30S, IN_FLIGHT, CAPACITY, CLAIM_RATE, COMMITS, CONFLICTS, STALLED),
)

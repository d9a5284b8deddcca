"""Rows to bytes, once for each tick, whoever asks: in protobuf for gRPC, as server-sent events for browsers."""

from google.protobuf.json_format import MessageToJson
from google.protobuf.timestamp_pb2 import Timestamp
from rowlock.seatfeed.v1 import seatfeed_pb2 as pb

from services.seatfeed.rows import Counts, Snapshot, Standing, Update

STATES = {Standing.OPEN: pb.PUBLIC_SEAT_STATE_OPEN, Standing.TAKEN: pb.PUBLIC_SEAT_STATE_TAKEN}


def snapshot_proto(snapshot: Snapshot) -> bytes:
    """A GetSeatsResponse."""
    if "proto" not in snapshot.encoded:
        message = pb.GetSeatsResponse(
            as_of=_timestamp(snapshot.as_of),
            watermark=snapshot.watermark,
            sections=_sections(snapshot.sections),
            seats=_seats(snapshot.seats),
        )
        snapshot.encoded["proto"] = message.SerializeToString()
    return snapshot.encoded["proto"]


def update_proto(update: Update) -> bytes:
    """A StreamUpdatesResponse."""
    if "proto" not in update.encoded:
        update.encoded["proto"] = _message(update).SerializeToString()
    return update.encoded["proto"]


def update_sse(update: Update) -> bytes:
    """One event of a stream, its data the proto's JSON on one line, fields with default values written out too."""
    if "sse" not in update.encoded:
        data = MessageToJson(_message(update), indent=None, always_print_fields_with_no_presence=True)
        event = "event: resync\n" if update.resync else ""
        update.encoded["sse"] = f"id: {update.watermark}\n{event}data: {data}\n\n".encode()
    return update.encoded["sse"]


def _message(update: Update) -> pb.StreamUpdatesResponse:
    return pb.StreamUpdatesResponse(
        prev=update.prev,
        watermark=update.watermark,
        as_of=_timestamp(update.as_of),
        sections=_sections(update.sections),
        seats=_seats(update.seats),
        resync=update.resync,
    )


def _sections(counts: tuple[Counts, ...]) -> list[pb.SectionCounts]:
    return [pb.SectionCounts(section=name, open=open_, held=held, taken=taken) for name, open_, held, taken in counts]


def _seats(seats: tuple[tuple[int, Standing], ...]) -> list[pb.SeatStatus]:
    return [pb.SeatStatus(seat_id=seat_id, state=STATES[standing]) for seat_id, standing in seats]


def _timestamp(microseconds: int) -> Timestamp:
    seconds, rest = divmod(microseconds, 1_000_000)
    return Timestamp(seconds=seconds, nanos=rest * 1000)

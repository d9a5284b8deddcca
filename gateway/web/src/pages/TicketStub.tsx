import { encode } from "uqr";

import type { Event, HeldSeat, Ticket } from "../api/types.ts";
import { formatMoment } from "../shell/time.ts";

/** A ticket as the gate reads it. */
export function TicketStub({ ticket, event }: { ticket: Ticket; event: Event }) {
  const { seat, area, state } = ticket;
  return (
    <li class={`ticket ${state === "TICKET_STATE_VALID" ? "" : "void"}`}>
      <div class="ticket-words">
        <strong class="ticket-event">{event.name}</strong>
        <span>{formatMoment(event.startTime, event.venue.timeZone)}</span>
        <span>
          {event.venue.name}, {event.venue.city}
        </span>
        <dl class="ticket-place">
          {(seat ? seatFacts(seat) : [["Area", area?.name ?? ""]]).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
        {state !== "TICKET_STATE_VALID" && (
          <strong>{state === "TICKET_STATE_USED" ? "Used" : "Not valid any more"}</strong>
        )}
      </div>
      <QrCode text={ticket.barcode} label={qrLabel(ticket)} />
    </li>
  );
}

function seatFacts({ section, row, number }: HeldSeat): [string, string][] {
  return [
    ["Section", section],
    ["Row", row],
    ["Seat", number],
  ];
}

function qrLabel({ seat, area }: Ticket): string {
  return seat ? `QR code of row ${seat.row}, seat ${seat.number}` : `QR code of a ticket for ${area?.name ?? "entry"}`;
}

/** Always dark on white, also in the dark scheme: scanners want it so. */
function QrCode({ text, label }: { text: string; label: string }) {
  const { data, size } = encode(text, { ecc: "M", border: 2 });
  const path = data.flatMap((row, y) => row.flatMap((dark, x) => (dark ? [`M${x} ${y}h1v1h-1z`] : []))).join("");
  return (
    <svg
      class="qr"
      viewBox={`0 0 ${size} ${size}`}
      role="img"
      aria-label={label}
      shape-rendering="crispEdges"
      data-barcode={text}
    >
      <rect width={size} height={size} fill="#ffffff" />
      <path d={path} fill="#000000" />
    </svg>
  );
}

// The addresses of pages. The steps of buying are steps at an event, so they share its address and differ by `show`:
// the gateway lets through only addresses that it knows, and this one serves them all.

export function eventPlace(eventId: string): string {
  return `/events/${encodeURIComponent(eventId)}`;
}

export function linePlace(eventId: string): string {
  return `${eventPlace(eventId)}?show=line`;
}

export function seatsPlace(eventId: string): string {
  return `${eventPlace(eventId)}?show=seats`;
}

export function holdPlace(eventId: string, holdId: string): string {
  return `${eventPlace(eventId)}?${new URLSearchParams({ show: "hold", hold: holdId })}`;
}

export function orderPlace(orderId: string): string {
  return `/orders/${encodeURIComponent(orderId)}`;
}

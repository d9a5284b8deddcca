// Fingers, mouse and wheel on the map: one pointer pans, two pinch, a press that did not move is a tap.

export interface GestureTargets {
  pan: (dx: number, dy: number) => void;
  zoom: (factor: number, at: Spot) => void;
  tap: (at: Spot) => void;
  hover: (at: Spot | null) => void;
}

export interface Spot {
  x: number;
  y: number;
}

/** Further than this, a press is a drag: fingers tremble. */
const TAP_SLACK_PX = 8;

/** Listens on an element; returns what stops it. */
export function listen(element: HTMLElement, targets: GestureTargets): () => void {
  const down = new Map<number, Spot>();
  let travelled = 0;

  const spot = (event: MouseEvent): Spot => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const press = (event: PointerEvent) => {
    if (down.size === 0) travelled = 0;
    down.set(event.pointerId, spot(event));
    element.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent) => {
    const [now, before] = [spot(event), down.get(event.pointerId)];
    if (!before) return targets.hover(event.pointerType === "mouse" ? now : null);
    const others = [...down].filter(([id]) => id !== event.pointerId).map(([, other]) => other);
    down.set(event.pointerId, now);
    travelled += Math.hypot(now.x - before.x, now.y - before.y);
    const other = others[0];
    if (other) pinch(targets, before, now, other);
    else if (travelled > TAP_SLACK_PX) targets.pan(now.x - before.x, now.y - before.y);
  };
  const release = (event: PointerEvent) => {
    const at = down.get(event.pointerId);
    if (at && down.size === 1 && travelled <= TAP_SLACK_PX && event.type === "pointerup") targets.tap(at);
    if (down.size > 1) travelled = Infinity; // what is left of a pinch is not a tap
    down.delete(event.pointerId);
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    targets.zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0018)), spot(event));
  };
  const leave = () => targets.hover(null);

  element.addEventListener("pointerdown", press);
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerup", release);
  element.addEventListener("pointercancel", release);
  element.addEventListener("pointerleave", leave);
  element.addEventListener("wheel", wheel, { passive: false });
  return () => {
    element.removeEventListener("pointerdown", press);
    element.removeEventListener("pointermove", move);
    element.removeEventListener("pointerup", release);
    element.removeEventListener("pointercancel", release);
    element.removeEventListener("pointerleave", leave);
    element.removeEventListener("wheel", wheel);
  };
}

/** One finger moved while another stayed: the plan grows about the middle, and follows it. */
function pinch(targets: GestureTargets, before: Spot, now: Spot, other: Spot): void {
  const span = (spot: Spot) => Math.max(1, Math.hypot(spot.x - other.x, spot.y - other.y));
  targets.zoom(span(now) / span(before), { x: (before.x + other.x) / 2, y: (before.y + other.y) / 2 });
  targets.pan((now.x - before.x) / 2, (now.y - before.y) / 2);
}

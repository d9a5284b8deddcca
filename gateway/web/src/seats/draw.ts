// Drawing the map. Far away: each section as the ribbons of its rows, with a name and how many seats are open.
// Close: the seats of the chosen section, each told apart by shape as well as by colour.

import type { SectionCounts } from "../api/types.ts";
import type { Camera, Size } from "./camera.ts";
import { corners, type Plan, type Seat, type Section } from "./plan.ts";

export interface Palette {
  surface: string;
  ink: string;
  muted: string;
  line: string;
  taken: string;
  accent: string;
  mine: string;
}

/** Below this radius an outline would cover the seat. */
const SMALLEST_OUTLINED_PX = 3.5;

export interface Scene {
  plan: Plan;
  ribbons: ReadonlyMap<string, Path2D>;
  camera: Camera;
  size: Size;
  palette: Palette;
  counts: ReadonlyMap<string, SectionCounts>;
  /** "" while none is chosen. */
  chosen: string;
  /** Seats of the chosen section that are gone; null until they are known. */
  taken: ReadonlySet<number> | null;
  mine: ReadonlySet<number>;
  /** Seats that a refusal named: crossed out for a while. */
  lost: ReadonlySet<number>;
  hovered: number | null;
}

/** A path along every row of a section, to be stroked as wide as the rows are apart. */
export function ribbonOf(section: Section): Path2D {
  const path = new Path2D();
  for (const { seats } of section.rows) {
    for (const [index, seat] of corners(seats, section.pitch * 0.2).entries()) {
      if (index === 0) path.moveTo(seat.x, seat.y);
      else path.lineTo(seat.x, seat.y);
    }
    const only = seats.length === 1 ? seats[0] : undefined;
    if (only) path.lineTo(only.x + 0.01, only.y);
  }
  return path;
}

export function draw(context: CanvasRenderingContext2D, scene: Scene): void {
  const { size } = scene;
  const ratio = context.canvas.width / size.width;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, size.width, size.height);
  drawStage(context, scene);
  for (const section of scene.plan.sections) drawRibbon(context, scene, section, ratio);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const chosen = scene.plan.sections.find((section) => section.name === scene.chosen);
  if (chosen && scene.taken) drawSeats(context, scene, chosen, scene.taken);
  drawMine(context, scene);
  drawLabels(context, scene);
}

/** Radius of a seat on screen. */
export function seatRadius(camera: Camera, pitch: number): number {
  return Math.max(1.2, Math.min(22, pitch * camera.scale * 0.4));
}

function drawRibbon(context: CanvasRenderingContext2D, scene: Scene, section: Section, ratio: number): void {
  const { camera, palette, chosen } = scene;
  const ribbon = scene.ribbons.get(section.name);
  if (!ribbon || !isBoxOnScreen(scene, section)) return;
  const isChosen = section.name === chosen;
  context.setTransform(ratio * camera.scale, 0, 0, ratio * camera.scale, ratio * camera.x, ratio * camera.y);
  context.lineCap = "butt"; // round ends and joins cost most of a frame, and nobody sees them at this size
  context.lineJoin = "bevel";
  context.lineWidth = Math.min(section.rowPitch, section.pitch * 2.5) * 1.08;
  context.globalAlpha = 1;
  context.strokeStyle = isChosen ? palette.surface : palette.line;
  context.stroke(ribbon);
  if (isChosen) return;
  const counts = scene.counts.get(section.name);
  const share = counts ? counts.open / Math.max(1, counts.open + counts.held + counts.taken) : 0.5;
  context.globalAlpha = share === 0 ? 0 : (chosen === "" ? 0.3 : 0.15) + share * (chosen === "" ? 0.55 : 0.25);
  context.strokeStyle = scene.plan.tiers.get(section.tier)?.color ?? palette.accent;
  context.stroke(ribbon);
  context.globalAlpha = 1;
}

function drawSeats(
  context: CanvasRenderingContext2D,
  scene: Scene,
  section: Section,
  taken: ReadonlySet<number>,
): void {
  const radius = seatRadius(scene.camera, section.pitch);
  for (const row of section.rows) {
    for (const seat of row.seats) {
      if (!isOnScreen(scene, seat, radius)) continue;
      if (scene.lost.has(seat.id)) drawLost(context, scene, seat, radius);
      else if (taken.has(seat.id)) drawTaken(context, scene, seat, radius);
      else drawOpen(context, scene, seat, radius);
    }
  }
}

function drawOpen(context: CanvasRenderingContext2D, scene: Scene, seat: Seat, radius: number): void {
  const { palette } = scene;
  outline(context, scene, seat, radius);
  context.fillStyle = scene.plan.tiers.get(seat.tier)?.color ?? palette.accent;
  context.fill();
  if (radius < SMALLEST_OUTLINED_PX) return;
  context.lineWidth = scene.hovered === seat.id ? 2.5 : 1;
  context.strokeStyle = palette.ink;
  context.stroke();
}

function drawTaken(context: CanvasRenderingContext2D, scene: Scene, seat: Seat, radius: number): void {
  outline(context, scene, seat, radius * 0.55);
  context.lineWidth = 1.2;
  context.strokeStyle = scene.palette.taken;
  context.stroke();
}

/** A cross: the seat that somebody else took a moment ago. */
function drawLost(context: CanvasRenderingContext2D, scene: Scene, seat: Seat, radius: number): void {
  const { x, y } = screen(scene, seat);
  context.beginPath();
  context.moveTo(x - radius, y - radius);
  context.lineTo(x + radius, y + radius);
  context.moveTo(x + radius, y - radius);
  context.lineTo(x - radius, y + radius);
  context.lineWidth = 2.5;
  context.strokeStyle = scene.palette.ink;
  context.stroke();
}

function drawMine(context: CanvasRenderingContext2D, scene: Scene): void {
  const { palette, plan } = scene;
  for (const id of scene.mine) {
    const seat = plan.seats.get(id);
    if (!seat) continue;
    const section = plan.sections.find((candidate) => candidate.name === seat.section);
    const radius = Math.max(5, seatRadius(scene.camera, section?.pitch ?? 10) * 1.15);
    outline(context, scene, seat, radius);
    context.fillStyle = palette.mine;
    context.fill();
    context.lineWidth = 2;
    context.strokeStyle = palette.ink;
    context.stroke();
    drawTick(context, screen(scene, seat), radius);
  }
}

function drawTick(context: CanvasRenderingContext2D, { x, y }: { x: number; y: number }, radius: number): void {
  context.beginPath();
  context.moveTo(x - radius * 0.45, y);
  context.lineTo(x - radius * 0.1, y + radius * 0.4);
  context.lineTo(x + radius * 0.5, y - radius * 0.4);
  context.lineWidth = Math.max(1.5, radius * 0.22);
  context.strokeStyle = "#1a1406"; // on the marigold of `mine`, which is the same in light and dark
  context.stroke();
}

/** A round seat, or a square one for a wheelchair place. */
function outline(context: CanvasRenderingContext2D, scene: Scene, seat: Seat, radius: number): void {
  const { x, y } = screen(scene, seat);
  context.beginPath();
  if (seat.accessible) context.rect(x - radius, y - radius, radius * 2, radius * 2);
  else context.arc(x, y, radius, 0, Math.PI * 2);
}

function drawStage(context: CanvasRenderingContext2D, scene: Scene): void {
  const { x, y } = screen(scene, scene.plan.focalPoint);
  drawChip(context, { x, y, text: "STAGE", bold: true, palette: { ...scene.palette, surface: scene.palette.line } });
}

/** Names with open counts, where they fit: the chosen section's never, for its seats are what is looked at. */
function drawLabels(context: CanvasRenderingContext2D, scene: Scene): void {
  const placed: Rectangle[] = [];
  const sections = scene.plan.sections.filter((section) => section.name !== scene.chosen);
  for (const section of sections) {
    const { x, y } = screen(scene, section.label);
    const open = scene.counts.get(section.name)?.open;
    const whole = open === undefined ? section.name : `${section.name} · ${open === 0 ? "none" : open}`;
    const room = (section.box.right - section.box.left) * scene.camera.scale * 1.6;
    const text = [whole, section.name].find((candidate) => chipWidth(context, candidate) < room);
    if (!text || x < 0 || y < 0 || x > scene.size.width || y > scene.size.height) continue;
    const spot = { x: x - chipWidth(context, text) / 2, y: y - 9, width: chipWidth(context, text), height: 18 };
    if (placed.some((other) => overlap(other, spot))) continue;
    placed.push(spot);
    drawChip(context, { x, y, text, bold: false, palette: scene.palette });
  }
}

interface Rectangle {
  x: number;
  y: number;
  width: number;
  height: number;
}

interface Chip {
  x: number;
  y: number;
  text: string;
  bold: boolean;
  palette: Palette;
}

function drawChip(context: CanvasRenderingContext2D, { x, y, text, bold, palette }: Chip): void {
  setFont(context, bold);
  const width = chipWidth(context, text);
  context.beginPath();
  context.roundRect(x - width / 2, y - 9, width, 18, 4);
  context.fillStyle = palette.surface;
  context.fill();
  context.fillStyle = palette.ink;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, x, y + 0.5);
}

function chipWidth(context: CanvasRenderingContext2D, text: string): number {
  setFont(context, false);
  return context.measureText(text).width + 8;
}

function setFont(context: CanvasRenderingContext2D, bold: boolean): void {
  context.font = `${bold ? 700 : 600} 11px system-ui, sans-serif`;
}

function overlap(a: Rectangle, b: Rectangle): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

function screen({ camera }: Scene, point: { x: number; y: number }): { x: number; y: number } {
  return { x: point.x * camera.scale + camera.x, y: point.y * camera.scale + camera.y };
}

function isBoxOnScreen(scene: Scene, { box, rowPitch }: Section): boolean {
  const [from, to] = [screen(scene, { x: box.left, y: box.top }), screen(scene, { x: box.right, y: box.bottom })];
  const edge = rowPitch * scene.camera.scale;
  const { width, height } = scene.size;
  return from.x - edge < width && to.x + edge > 0 && from.y - edge < height && to.y + edge > 0;
}

function isOnScreen(scene: Scene, seat: Seat, radius: number): boolean {
  const { x, y } = screen(scene, seat);
  return x > -radius && y > -radius && x < scene.size.width + radius && y < scene.size.height + radius;
}

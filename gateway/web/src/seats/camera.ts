// Where the map looks: plan units to pixels, and back.

import type { Box } from "./plan.ts";

export interface Camera {
  scale: number;
  /** Pixels of the plan's origin. */
  x: number;
  y: number;
}

export interface Size {
  width: number;
  height: number;
}

/** Pixels between two seats beyond which a closer look shows nothing more. */
const LARGEST_PITCH = 64;

/** The camera that shows a box whole, with some air around it. */
export function fit(box: Box, size: Size, air: number): Camera {
  const width = Math.max(1, box.right - box.left);
  const height = Math.max(1, box.bottom - box.top);
  const scale = Math.min((size.width - 2 * air) / width, (size.height - 2 * air) / height);
  return centred(box, size, Math.max(scale, 0.001));
}

/** The camera after zooming by `factor` about a pixel. */
export function zoomed(camera: Camera, factor: number, at: { x: number; y: number }, limits: Limits): Camera {
  const scale = Math.min(limits.most, Math.max(limits.least, camera.scale * factor));
  const real = scale / camera.scale;
  return { scale, x: at.x - (at.x - camera.x) * real, y: at.y - (at.y - camera.y) * real };
}

export interface Limits {
  least: number;
  most: number;
}

export function limitsFor(whole: Camera, pitch: number): Limits {
  return { least: whole.scale * 0.7, most: Math.max(LARGEST_PITCH / pitch, whole.scale * 2) };
}

/** Not so far that the plan is off the screen. */
export function kept(camera: Camera, box: Box, size: Size): Camera {
  const margin = Math.min(size.width, size.height) * 0.3;
  const clamp = (value: number, low: number, high: number) => Math.min(high, Math.max(low, value));
  return {
    scale: camera.scale,
    x: clamp(camera.x, margin - box.right * camera.scale, size.width - margin - box.left * camera.scale),
    y: clamp(camera.y, margin - box.bottom * camera.scale, size.height - margin - box.top * camera.scale),
  };
}

export function toPlan(camera: Camera, pixel: { x: number; y: number }): { x: number; y: number } {
  return { x: (pixel.x - camera.x) / camera.scale, y: (pixel.y - camera.y) / camera.scale };
}

/** The camera a part of the way between two others. */
export function between(from: Camera, to: Camera, part: number): Camera {
  const mix = (a: number, b: number) => a + (b - a) * part;
  return { scale: mix(from.scale, to.scale), x: mix(from.x, to.x), y: mix(from.y, to.y) };
}

function centred(box: Box, size: Size, scale: number): Camera {
  return {
    scale,
    x: size.width / 2 - ((box.left + box.right) / 2) * scale,
    y: size.height / 2 - ((box.top + box.bottom) / 2) * scale,
  };
}

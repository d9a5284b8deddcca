import { useEffect, useMemo, useRef } from "preact/hooks";

import type { SectionCounts } from "../api/types.ts";
import { between, fit, kept, limitsFor, toPlan, zoomed, type Camera, type Size } from "./camera.ts";
import { draw, ribbonOf, type Palette, type Scene } from "./draw.ts";
import { listen, type Spot } from "./gestures.ts";
import type { Plan, Seat } from "./plan.ts";

export interface MapProps {
  plan: Plan;
  counts: ReadonlyMap<string, SectionCounts>;
  chosen: string;
  taken: ReadonlySet<number> | null;
  mine: ReadonlySet<number>;
  lost: ReadonlySet<number>;
  onSection: (name: string) => void;
  onSeat: (seat: Seat) => void;
  onHover: (seat: Seat | null) => void;
}

/** A tap this near a seat means the seat: a finger is wider than a seat. */
const TAP_REACH_PX = 22;
const AIR_PX = 28;
const GLIDE_MS = 350;

/** The map. Its keyboard and screen reader alternative is the seat list beside it. */
export function MapCanvas(props: MapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useMemo(() => new View(props.plan), [props.plan]);
  useEffect(() => (canvas.current ? view.attach(canvas.current) : undefined), [view]);
  useEffect(() => view.show(props));
  return (
    <div class="map">
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Map of ${props.plan.sections.length} sections. Choose by keyboard in the lists of sections and seats.`}
      />
      <div class="map-buttons" role="group" aria-label="Map view">
        <button type="button" class="button small" aria-label="Zoom in" onClick={() => view.zoomBy(1.6)}>
          +
        </button>
        <button type="button" class="button small" aria-label="Zoom out" onClick={() => view.zoomBy(1 / 1.6)}>
          −
        </button>
        <button type="button" class="button small" onClick={() => view.showAll()}>
          Whole map
        </button>
      </div>
    </div>
  );
}

/** The canvas with its camera; outside of the view library, for it draws at the pace of the screen. */
class View {
  private props: MapProps | null = null;
  private camera: Camera | null = null;
  private size: Size = { width: 0, height: 0 };
  private canvas: HTMLCanvasElement | null = null;
  private palette: Palette | null = null;
  private hovered: number | null = null;
  private frame = 0;
  private glide = 0;
  private readonly ribbons: ReadonlyMap<string, Path2D>;

  constructor(private readonly plan: Plan) {
    this.ribbons = new Map(plan.sections.map((section) => [section.name, ribbonOf(section)]));
  }

  attach(canvas: HTMLCanvasElement): () => void {
    this.canvas = canvas;
    const resized = new ResizeObserver(() => this.resize());
    resized.observe(canvas);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const recolour = () => ((this.palette = null), this.redraw());
    dark.addEventListener("change", recolour);
    const deaf = listen(canvas, {
      pan: (dx, dy) => this.look((camera) => ({ ...camera, x: camera.x + dx, y: camera.y + dy })),
      zoom: (factor, at) => this.look((camera) => zoomed(camera, factor, at, this.limits())),
      tap: (at) => this.tap(at),
      hover: (at) => this.hover(at),
    });
    return () => {
      resized.disconnect();
      dark.removeEventListener("change", recolour);
      deaf();
      cancelAnimationFrame(this.frame);
      cancelAnimationFrame(this.glide);
    };
  }

  show(props: MapProps): void {
    const moved = this.props?.chosen !== props.chosen;
    this.props = props;
    if (moved && this.size.width > 0) this.glideTo(this.home());
    this.redraw();
  }

  showAll(): void {
    this.glideTo(fit(this.plan.box, this.size, AIR_PX));
  }

  zoomBy(factor: number): void {
    const middle = { x: this.size.width / 2, y: this.size.height / 2 };
    this.look((camera) => zoomed(camera, factor, middle, this.limits()));
  }

  private resize(): void {
    if (!this.canvas) return;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (width === 0 || height === 0) return;
    const ratio = Math.min(2, devicePixelRatio);
    this.size = { width, height };
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.camera = this.home();
    this.redraw();
  }

  /** What the chosen section, or the whole plan, looks like at first. */
  private home(): Camera {
    const section = this.plan.sections.find(({ name }) => name === this.props?.chosen);
    return fit(section?.box ?? this.plan.box, this.size, AIR_PX);
  }

  private limits() {
    const smallest = Math.min(...this.plan.sections.map((section) => section.pitch), 100);
    return limitsFor(fit(this.plan.box, this.size, AIR_PX), smallest);
  }

  private look(next: (camera: Camera) => Camera): void {
    if (!this.camera) return;
    cancelAnimationFrame(this.glide);
    this.camera = kept(next(this.camera), this.plan.box, this.size);
    this.redraw();
  }

  private glideTo(target: Camera): void {
    const from = this.camera;
    if (!from || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.camera = target;
      return this.redraw();
    }
    const began = performance.now();
    const step = (now: number) => {
      const part = Math.min(1, (now - began) / GLIDE_MS);
      this.camera = between(from, target, 1 - (1 - part) ** 3);
      this.paint();
      if (part < 1) this.glide = requestAnimationFrame(step);
    };
    cancelAnimationFrame(this.glide);
    this.glide = requestAnimationFrame(step);
  }

  private tap(at: Spot): void {
    const seat = this.seatAt(at);
    if (!seat || !this.props) return;
    if (seat.section === this.props.chosen) this.props.onSeat(seat);
    else this.props.onSection(seat.section);
  }

  private hover(at: Spot | null): void {
    const seat = at ? this.seatAt(at) : null;
    const shown = seat && seat.section === this.props?.chosen ? seat : null;
    if (shown?.id === this.hovered || (!shown && this.hovered === null)) return;
    this.hovered = shown?.id ?? null;
    this.props?.onHover(shown);
    this.redraw();
  }

  private seatAt(at: Spot): Seat | null {
    if (!this.camera) return null;
    const point = toPlan(this.camera, at);
    return this.plan.nearest(point.x, point.y, TAP_REACH_PX / this.camera.scale);
  }

  private redraw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    const context = this.canvas?.getContext("2d");
    if (!context || !this.props || !this.camera) return;
    this.palette ??= paletteOf(context.canvas);
    const { plan, counts, chosen, taken, mine, lost } = this.props;
    const { ribbons, camera, size, palette, hovered } = this;
    const scene: Scene = { plan, counts, chosen, taken, mine, lost, ribbons, camera, size, palette, hovered };
    draw(context, scene);
  }
}

function paletteOf(element: HTMLElement): Palette {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    surface: colour("surface"),
    ink: colour("ink"),
    muted: colour("muted"),
    line: colour("line"),
    taken: colour("muted"),
    accent: colour("accent"),
    mine: colour("marigold"),
  };
}

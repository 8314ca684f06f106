/** How colours from several panels come together on the drawing: heat first, then rules; light beside them. */

import type { App } from "../app/app";
import type { Overlay } from "../gl/frame_state";

/** In order of strength: what a stronger layer says of a box hides what a weaker one says. */
const PAINT = ["color", "compare", "rules"] as const;
const LIGHT = ["search", "trace"] as const;
export type LayerName = (typeof PAINT)[number] | (typeof LIGHT)[number];

export class Overlays {
  private readonly layers = new Map<LayerName, Overlay>();

  constructor(private readonly app: App) {
    // Items are numbered anew with every stage and grouping: what was laid over them is void.
    app.events.on("shown", ({ result }) => {
      if (!result.update.reset) return;
      this.layers.clear();
      this.apply();
    });
  }

  set(name: LayerName, layer: Overlay | null): void {
    if (layer) this.layers.set(name, layer);
    else this.layers.delete(name);
    this.apply();
  }

  has(name: LayerName): boolean {
    return this.layers.has(name);
  }

  private apply(): void {
    const painted = PAINT.map((n) => this.layers.get(n)).filter((l) => l !== undefined);
    const first = <K extends keyof Overlay>(key: K): Overlay[K] => painted.find((l) => l[key] !== undefined)?.[key];
    this.app.view.setOverlay({
      fill: merged(painted.map((l) => l.fill)),
      border: merged(painted.map((l) => l.border)),
      text: merged(painted.map((l) => l.text)),
      sheet: first("sheet"),
      figure: first("figure"),
      bars: first("bars"),
      share: first("share"),
      mark: first("mark"),
      lit: LIGHT.map((n) => this.layers.get(n)?.lit).find((l) => l !== undefined),
    });
  }
}

function merged(parts: readonly (Uint32Array | undefined)[]): Uint32Array | undefined {
  const given = parts.filter((p) => p !== undefined);
  if (given.length <= 1) return given[0];
  const out = given[0].slice();
  for (const p of given.slice(1)) for (let i = 0; i < out.length; i++) out[i] ||= p[i];
  return out;
}

/** What keys do beside those of the drawing itself: find, step, walk, trace, and stepping back with Esc. */

import type { App } from "../app/app";

export interface KeyActions {
  readonly search: () => void;
  readonly nextHit: (by: number) => void;
  readonly help: () => void;
  readonly step: (by: number) => void;
  readonly diff: () => void;
  readonly outline: () => void;
  readonly details: () => void;
  readonly tables: () => void;
  readonly trace: (direction: "up" | "down") => void;
  readonly compare: () => void;
  /** Takes one thing back (palette, light); false when there is nothing of it. */
  readonly back: () => boolean;
}

export function listenToKeys(app: App, act: KeyActions): void {
  // Before the drawing's own keys, so that Esc can mean the nearest thing first.
  window.addEventListener(
    "keydown",
    (e) => {
      const target = e.target as HTMLElement;
      if (target.closest("dialog")) {
        // A dialog has the keys to itself; Esc closes it by the browser's own doing.
        e.stopImmediatePropagation();
        return;
      }
      if (e.ctrlKey || e.metaKey || e.altKey || target.closest("input, textarea, select")) return;
      const inList = target.closest(".list, .stages, pre") !== null;
      const inGraph = !inList && !target.closest("button, summary, a");
      const keys: Record<string, (() => void) | undefined> = {
        "/": act.search,
        "?": act.help,
        n: () => act.nextHit(1),
        N: () => act.nextHit(-1),
        "[": () => act.step(-1),
        "]": () => act.step(1),
        "\\": act.diff,
        o: act.outline,
        i: act.details,
        k: act.tables,
        u: () => act.trace("up"),
        d: () => act.trace("down"),
        s: act.compare,
        g: () => void app.flatten(),
        h: () => void app.firstView(),
        t: () => void app.setAcross(!(app.spec?.across ?? false)),
        ArrowDown: inGraph ? () => void walk(app, "ArrowDown") : undefined,
        ArrowUp: inGraph ? () => void walk(app, "ArrowUp") : undefined,
        ArrowLeft: inGraph ? () => void walk(app, "ArrowLeft") : undefined,
        ArrowRight: inGraph ? () => void walk(app, "ArrowRight") : undefined,
        Backspace: inGraph ? () => void outwards(app) : undefined,
      };
      if (e.key === "Escape") {
        if (act.back()) {
          e.preventDefault();
          e.stopImmediatePropagation();
        }
        return;
      }
      const run = keys[e.key];
      if (!run) return;
      e.preventDefault();
      e.stopImmediatePropagation();
      run();
    },
    { capture: true },
  );
}

type Arrow = "ArrowDown" | "ArrowUp" | "ArrowLeft" | "ArrowRight";

/** Along the flow: the nearest box that an edge leads to. Across it: the nearest sibling on that side. */
export async function walk(app: App, arrow: Arrow): Promise<void> {
  const { view } = app;
  const from = app.selected >= 0 ? view.scene.place(app.selected) : null;
  const root = view.scene.root;
  if (!root) return;
  if (!from) {
    const first = root.batch.item[root.first];
    if (first !== undefined) await app.reveal(first);
    return;
  }
  const across = app.spec?.across ?? false;
  const forward: Arrow = across ? "ArrowRight" : "ArrowDown";
  const backward: Arrow = across ? "ArrowLeft" : "ArrowUp";
  const cx = from.x + from.w / 2;
  const cy = from.y + from.h / 2;
  const middle = (item: number): { x: number; y: number } | null => {
    const p = view.scene.place(item);
    return p ? { x: p.x + p.w / 2, y: p.y + p.h / 2 } : null;
  };
  let best = -1;
  let least = Infinity;
  if (arrow === forward || arrow === backward) {
    for (const item of await app.engine.call("around", {
      item: app.selected,
      direction: arrow === forward ? "down" : "up",
    })) {
      const p = middle(item);
      if (!p) continue;
      const d = Math.hypot(p.x - cx, p.y - cy);
      if (d < least) [best, least] = [item, d];
    }
  } else {
    const way = arrow === "ArrowRight" || arrow === "ArrowDown" ? 1 : -1;
    const v = from.view;
    for (let i = 0; i < v.count; i++) {
      const item = v.batch.item[v.first + i];
      const p = item === app.selected ? null : middle(item);
      if (!p) continue;
      const along = (across ? p.y - cy : p.x - cx) * way;
      const off = Math.abs(across ? p.x - cx : p.y - cy);
      if (along <= 1) continue;
      const d = along + 3 * off;
      if (d < least) [best, least] = [item, d];
    }
  }
  if (best >= 0) await goTo(app, best);
}

async function outwards(app: App): Promise<void> {
  const at = app.selected >= 0 ? app.view.scene.place(app.selected) : null;
  if (at && at.view.group > 0) await goTo(app, app.view.scene.nodes + at.view.group);
  else app.select(-1);
}

/** Selects, and moves the window only when the box is not well inside it. */
async function goTo(app: App, item: number): Promise<void> {
  const { view } = app;
  const p = view.scene.place(item);
  if (!p) return app.reveal(item);
  app.select(item);
  const { x, y, scale } = view.camera;
  const inside =
    p.x * scale + x > 40 &&
    p.y * scale + y > 40 &&
    (p.x + p.w) * scale + x < view.size.width - 40 &&
    (p.y + p.h) * scale + y < view.size.height - 40;
  if (!inside) view.flyTo(item);
}

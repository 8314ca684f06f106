/** What a hand does on the canvas: wheel, drag, pinch, click, double click and menu. */

import type { GraphViewEvents } from "./graph_view";
import { hitTest } from "./hit";
import type { MovingView } from "./moving_view";

/** A view that can be pointed at. */
export interface Pointed extends MovingView {
  point(x: number, y: number): void;
  /** The pointer left the canvas. */
  leave(): void;
}

export function listenToHands(c: HTMLCanvasElement, view: Pointed, events: GraphViewEvents): void {
  c.addEventListener(
    "wheel",
    (e) => {
      e.preventDefault();
      const { camera } = view;
      const unit = e.deltaMode === 1 ? 16 : e.deltaMode === 2 ? view.size.height : 1;
      if (e.ctrlKey || e.metaKey)
        view.move(
          camera.zoom(Math.exp(-e.deltaY * unit * (Math.abs(e.deltaY) < 30 ? 0.01 : 0.0022)), e.offsetX, e.offsetY),
        );
      else if (e.shiftKey && e.deltaX === 0) view.move(camera.pan(-e.deltaY * unit, 0));
      else view.move(camera.pan(-e.deltaX * unit, -e.deltaY * unit));
    },
    { passive: false },
  );
  let drag: { x: number; y: number; moved: boolean; id: number } | null = null;
  const touches = new Map<number, { x: number; y: number }>();
  c.addEventListener("pointerdown", (e) => {
    if (e.button > 1) return;
    c.focus({ preventScroll: true });
    c.setPointerCapture(e.pointerId);
    touches.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
    drag = { x: e.offsetX, y: e.offsetY, moved: false, id: e.pointerId };
  });
  c.addEventListener("pointermove", (e) => {
    const before = touches.get(e.pointerId);
    if (before && touches.size === 2) {
      const other = [...touches].find(([id]) => id !== e.pointerId)?.[1];
      if (other) {
        const d0 = Math.hypot(before.x - other.x, before.y - other.y) || 1;
        const d1 = Math.hypot(e.offsetX - other.x, e.offsetY - other.y) || 1;
        view.move(view.camera.zoom(d1 / d0, (e.offsetX + other.x) / 2, (e.offsetY + other.y) / 2));
      }
      touches.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
      if (drag) drag.moved = true;
      return;
    }
    if (before) touches.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
    if (drag && drag.id === e.pointerId) {
      const dx = e.offsetX - drag.x;
      const dy = e.offsetY - drag.y;
      if (!drag.moved && Math.hypot(dx, dy) < 4) return;
      drag.moved = true;
      c.classList.add("dragging");
      view.move(view.camera.pan(dx, dy));
      drag.x = e.offsetX;
      drag.y = e.offsetY;
      return;
    }
    view.point(e.offsetX, e.offsetY);
  });
  const end = (e: PointerEvent): void => {
    touches.delete(e.pointerId);
    c.classList.remove("dragging");
    if (drag && !drag.moved && e.type === "pointerup") {
      const hit = hitTest(view.scene, view.camera, e.offsetX, e.offsetY);
      events.select(hit ? hit.item : -1);
    }
    drag = null;
  };
  c.addEventListener("pointerup", end);
  c.addEventListener("pointercancel", end);
  c.addEventListener("pointerleave", () => view.leave());
  c.addEventListener("dblclick", (e) => {
    const hit = hitTest(view.scene, view.camera, e.offsetX, e.offsetY);
    if (hit?.unfolds) events.toggle(hit.item);
  });
  c.addEventListener("contextmenu", (e) => {
    if (!events.menu) return;
    e.preventDefault();
    const hit = hitTest(view.scene, view.camera, e.offsetX, e.offsetY);
    events.menu(hit ? hit.item : -1, e.clientX, e.clientY);
  });
}

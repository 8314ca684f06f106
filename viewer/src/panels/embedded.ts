/** Good manners in a page of somebody else: the wheel scrolls that page until the view is clicked, and nothing makes it jump. */

/** Whether the page stands in a frame. */
export const isEmbedded = window !== window.parent;

/** `says` is told once in a while that the view has to be clicked first. */
export function waitForClick(says: (text: string) => void): void {
  if (!isEmbedded) return;
  let active = false;
  let told = 0;
  const root = document.documentElement;
  const set = (on: boolean): void => {
    active = on;
    root.dataset.active = on ? "1" : "0";
  };
  set(false);
  window.addEventListener("pointerdown", () => set(true), { capture: true });
  window.addEventListener("blur", () => set(false));
  window.addEventListener(
    "wheel",
    (e) => {
      // Whoever zooms with a key or two fingers means the view; lists of the page scroll for themselves.
      if (active || e.ctrlKey || e.metaKey || !(e.target as HTMLElement).closest(".graph-canvas")) return;
      e.stopImmediatePropagation();
      const now = performance.now();
      if (now - told > 8000) says("Click the graph to move it with the wheel.");
      told = now;
    },
    { capture: true },
  );
}

/** Brings an element into sight by scrolling its own room; `scrollIntoView` would scroll the page around the frame, too. */
export function scrollWithin(room: HTMLElement, element: Element | null | undefined): void {
  if (!element) return;
  const [r, e] = [room.getBoundingClientRect(), element.getBoundingClientRect()];
  if (e.top < r.top) room.scrollTop -= r.top - e.top;
  else if (e.bottom > r.bottom) room.scrollTop += e.bottom - r.bottom;
  if (e.left < r.left) room.scrollLeft -= r.left - e.left;
  else if (e.right > r.right) room.scrollLeft += e.right - r.right;
}

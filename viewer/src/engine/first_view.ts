/** Decides how far a model is unfolded when it opens: as deep as the whole still reads on this screen. */

import { worksIn } from "../model/hierarchy";
import { FOLDED, OPEN, type LayoutSession } from "../layout/session";

/** Labels are 12 px at scale 1 and never drawn under 11: below this scale a first view is too deep. */
const READABLE = 0.88;
/** With few boxes so far, names may lose a letter or two for the sake of seeing inside. */
const READABLE_FEW = 0.76;
const FEW = 20;
const MOST_BOXES = 80;
const MARGIN = 48;

/**
 * Opens the largest groups first, keeps each step that still fits at a readable scale, and takes the
 * others back. Runs of identical groups open to one of them. A model that does not fit even folded
 * stays at its first level.
 */
export async function firstView(session: LayoutSession, width: number, height: number): Promise<void> {
  const { h } = session;
  for (let g = 1; g < h.groups; g++) session.setFold(g, FOLDED);
  await session.layOut();
  // How much of the model a group stands for: one of twelve identical layers stands for all twelve.
  const share = (g: number): number => {
    let n = worksIn(h, g);
    for (let p = h.parent[h.nodes + g] - h.nodes; p >= 0; p = h.parent[h.nodes + p] - h.nodes) if (session.isExemplar(p)) n *= h.repeat[p];
    return n;
  };
  const scale = (): number => {
    const s = session.shape(0);
    return s ? Math.min((width - MARGIN) / s.w, (height - MARGIN) / s.h) : 0;
  };
  let boxes = session.membersOf(0).length;
  const candidates: number[] = [];
  const least = worksIn(h, 0) / 100;
  const add = (g: number): void => {
    // A module around a single op says all it has to say folded; a hundredth of the model is a detail.
    for (const item of session.membersOf(g)) if (item >= h.nodes && worksIn(h, item - h.nodes) > 1 && share(item - h.nodes) >= least) candidates.push(item - h.nodes);
  };
  add(0);
  // A lone group in a nearly empty root is the model itself: it opens whatever the scale says.
  let forced = boxes < 12;
  const refused: number[] = [];
  for (let tries = 0, again = false; tries < 60; tries++) {
    candidates.sort((a, b) => share(b) - share(a) || h.depth[a] - h.depth[b] || a - b);
    // What did not fit at first may fit once the drawing has wrapped into columns around something else.
    if (candidates.length === 0 && !again && refused.length > 0) {
      again = true;
      candidates.push(...refused.splice(0, 8));
    }
    const g = candidates.shift();
    if (g === undefined) break;
    session.setFold(g, OPEN);
    const more = session.membersOf(g).length;
    let fits = boxes + more <= MOST_BOXES;
    if (fits) {
      await session.layOut();
      fits = scale() >= (boxes < FEW ? READABLE_FEW : READABLE) || (forced && boxes + more < 12);
    }
    if (!fits) {
      session.setFold(g, FOLDED);
      refused.push(g);
      continue;
    }
    boxes += more;
    if (boxes >= 12) forced = false;
    add(g);
  }
  await session.layOut();
}

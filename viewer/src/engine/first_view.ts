/** How far a model is unfolded when it opens: what matters most first, as deep as the whole still reads on this screen. */

import { worksIn } from "../model/hierarchy";
import { groupTitle } from "../model/labels";
import { isBeginning } from "../model/steps";
import { EXIT } from "../layout/flow";
import { NAMES } from "../layout/style";
import { FOLDED, OPEN, type LayoutSession, noPace } from "../layout/session";

/** Labels are 12 px at scale 1 and never drawn under 11: below this scale a first view is too deep. */
const COMFORTABLE = 0.8;
/** With few boxes so far, names may lose a letter or two for the sake of seeing inside. */
const COMFORTABLE_FEW = 0.7;
const FEW = 20;
/** A handful of closed boxes says little: seeing inside goes before comfort. */
const COMFORTABLE_VERY_FEW = 0.66;
const VERY_FEW = 12;
/** So few that the model is still closed: it opens as long as names can be drawn. */
const CLOSED = 15;
/** A model of this few boxes says nothing: its weightiest group opens whatever it holds. */
const HANDFUL = 6;
/** A product with its bias, a convolution with its norm: where one of so few ops does nearly all the work, the name says what is inside. */
const FEW_OPS = 4;
const NEARLY_ALL = 0.9;
/** With fewer boxes than this there is room to show even that. */
const ENOUGH = 16;
const MOST_BOXES = 60;
const MARGIN = 48;

/**
 * Opens the weightiest groups first, keeps each step that still fits at a readable scale in the columns
 * that the folded model has, and takes the others back. `weight` is what each node matters (time, FLOPs,
 * parameters); without it every op counts the same. Runs of identical groups open to one of them. A model
 * that does not fit even folded stays at its first level.
 */
export async function firstView(
  session: LayoutSession,
  width: number,
  height: number,
  weight: Float64Array | null = null,
): Promise<void> {
  const { h } = session;
  for (let g = 1; g < h.groups; g++) session.setFold(g, FOLDED);
  await session.layOut(noPace, true);
  const before = new Float64Array(h.nodes + 1);
  if (weight) for (let p = 0; p < h.nodes; p++) before[p + 1] = before[p] + (weight[h.order[p]] || 0);
  const all = before[h.nodes];
  // How much of the model a group stands for: one of twelve identical layers stands for all twelve. A tenth
  // goes by the number of ops, so that what was not measured is not lost.
  const share = (g: number): number => {
    let n = worksIn(h, g) / Math.max(1, worksIn(h, 0));
    if (all > 0) n = 0.1 * n + (0.9 * (before[h.end[g]] - before[h.start[g]])) / all;
    for (let p = h.parent[h.nodes + g] - h.nodes; p >= 0; p = h.parent[h.nodes + p] - h.nodes)
      if (session.isExemplar(p)) n *= h.repeat[p];
    return n;
  };
  const scale = (): number => {
    const s = session.shape(0);
    return s ? Math.min((width - MARGIN) / s.w, (height - MARGIN) / s.h) : 0;
  };
  const columns = (): number => (session.shape(0)?.tagEnd.includes(EXIT) ? 2 : 1);
  let boxes = session.membersOf(0).length;
  const most = columns();
  const candidates: number[] = [];
  const add = (g: number): void => {
    // A module around a single op says all it has to say folded; a hundredth of the model is a detail.
    for (const item of session.membersOf(g))
      if (item >= h.nodes && worksIn(h, item - h.nodes) > 1 && share(item - h.nodes) >= 0.01)
        if (!isBeginning(groupTitle(h, item - h.nodes))) candidates.push(item - h.nodes);
  };
  const oneDoesAll = (g: number): boolean => {
    if (!weight || worksIn(h, g) > FEW_OPS) return false;
    let most = 0;
    for (let p = h.start[g]; p < h.end[g]; p++) most = Math.max(most, weight[h.order[p]] || 0);
    return most > 0 && most >= NEARLY_ALL * (before[h.end[g]] - before[h.start[g]]);
  };
  add(0);
  // A lone group in a nearly empty root is the model itself: it opens whatever the scale says.
  let forced = boxes < VERY_FEW;
  // Whether anything larger is open: the layers of a small network are all that it has to show.
  let structured = false;
  for (let tries = 0; tries < 60; tries++) {
    candidates.sort((a, b) => share(b) - share(a) || h.depth[a] - h.depth[b] || a - b);
    const g = candidates.shift();
    if (g === undefined) break;
    if (boxes >= (structured ? ENOUGH : FEW) && oneDoesAll(g)) continue;
    session.setFold(g, OPEN);
    const more = session.membersOf(g).length;
    let fits = boxes + more <= MOST_BOXES;
    if (fits) {
      await session.layOut(noPace, true);
      const least = boxes < VERY_FEW ? COMFORTABLE_VERY_FEW : boxes < FEW ? COMFORTABLE_FEW : COMFORTABLE;
      const closed = forced && (boxes < HANDFUL || boxes + more < CLOSED);
      fits = (columns() <= most && scale() >= least) || (closed && scale() >= NAMES);
    }
    if (!fits) {
      session.setFold(g, FOLDED);
      continue;
    }
    boxes += more;
    structured ||= !oneDoesAll(g);
    if (boxes >= VERY_FEW) forced = false;
    add(g);
  }
  await session.layOut();
}

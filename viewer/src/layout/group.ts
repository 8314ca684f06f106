/** The drawing of one unfolded group: which members are boxes, which pills, which edges are drawn. */

import { Floats, Ints } from "../base/grow";
import { arrangeSteps, type Steps } from "./arrange";
import { EXIT, type Flow, type Work } from "./flow";
import { assignRanks } from "./rank";
import { HEADER, PAD, PILL_GAP, PILL_H, PILL_ROOM, STEM, TAG_RISE, windowHeight, type Size } from "./style";
import { EDGE, LINK, TAG, type Template } from "./template";

/** A drawing's inputs, free of names and ids, so that equal inputs can share one drawing. */
export interface GroupInput {
  readonly n: number;
  /** Sizes of the members as boxes; `pill` their size when drawn small. */
  readonly size: readonly Size[];
  readonly pill: readonly Size[];
  /** 1: may be drawn small; 2: is an unfolded group. */
  readonly nature: Uint8Array;
  readonly src: Int32Array; // member, or -1 - input port
  readonly dst: Int32Array; // member, or -1 - output port
  /** Port of the unfolded member where the edge leaves or enters, as a place on its border; NaN if none. */
  readonly leaveAt: Float32Array;
  readonly enterAt: Float32Array;
  readonly net: Int32Array;
  readonly tensors: Int32Array; // tensors of each edge (1 for most)
  readonly tensor: Int32Array;
  readonly tagSize: readonly Size[]; // by net
  /** By net: 1 for a value that is given, not computed (a weight, what an optimiser keeps), and comes from inside a group or from outside. */
  readonly given: Uint8Array;
  readonly ins: number;
  readonly outs: number;
  /** Width of what is written beside the edge's first piece; 0 for nothing. */
  readonly labelled: Float32Array;
  readonly minWidth: number;
  readonly across: boolean; // left to right
  readonly root: boolean;
  /** The window that the drawing should be read in. */
  readonly width: number;
  readonly height: number;
  /** How much of the model the group holds, in tenths: 0 to 1. */
  readonly share: number;
  /** Size of the sign that names each member where one of its edges goes on in another column. */
  readonly sign: readonly Size[];
  /** The order of ports that the drawing around asks for, as a place for each; null where it does not mind. */
  readonly inPlace: Float32Array | null;
  readonly outPlace: Float32Array | null;
  readonly careful: boolean;
  readonly loose: boolean;
}

/** A tensor read this many ranks away counts as far; one with this many far readers becomes a named port. */
const FAR = 4;
const MANY = 3;
const MAX_PILLS = 4;
/** A sign that names a port of the group itself. */
const PORT_SIGN: Size = { w: 72, h: PILL_H };

export function* groupSteps(p: GroupInput, work: Work): Steps<Template> {
  const owner = satellites(p);
  const tagged = choosePorts(p, owner, work);
  const beside = pillsBeside(p, owner, tagged);
  const blocks = shapeBlocks(p, owner, beside, tagged);
  const { flow, edgeOf } = toFlow(p, owner, tagged, blocks);
  const window = p.across ? { width: p.height, height: p.width } : { width: p.width, height: p.height };
  const laid = yield* arrangeSteps(flow, { ...window, share: p.root ? 1 : p.share }, work);

  const padX = p.root ? 0 : p.across && p.ins + p.outs > 0 ? 6 : PAD;
  const padTop = p.root ? 0 : HEADER;
  const padBottom = p.root ? 0 : !p.across && p.outs > 0 ? 4 : PAD;
  const [cw, ch] = p.across ? [laid.height, laid.width] : [laid.width, laid.height];
  const w = Math.max(p.minWidth, cw + 2 * padX);
  const h = ch + padTop + padBottom;
  const ox = (w - cw) / 2;
  const oy = padTop;
  // From flow space (downwards) to the page.
  const X = (fx: number, fy: number): number => ox + (p.across ? fy : fx);
  const Y = (fx: number, fy: number): number => oy + (p.across ? fx : fy);

  const rect = new Float32Array(4 * p.n);
  const small = new Uint8Array(p.n);
  const edge = new EdgeList();
  const tagRect = new Floats();
  const tagEdge = new Ints();
  const tagMore = new Ints();
  const tagEnd = new Ints();
  for (let v = 0; v < p.n; v++) {
    if (owner[v] >= 0) continue;
    const b = blocks[v];
    const bx = X(laid.x[b.flow], laid.y[b.flow]);
    const by = Y(laid.x[b.flow], laid.y[b.flow]);
    rect.set([bx + b.boxX, by + b.boxY, p.size[v].w, p.size[v].h], 4 * v);
    for (const s of b.pills) {
      const x = bx + s.x;
      const y = by + s.y;
      if (s.member >= 0) {
        rect.set([x, y, s.w, s.h], 4 * s.member);
        small[s.member] = 1;
      } else {
        tagRect.push(x);
        tagRect.push(y);
        tagRect.push(s.w);
        tagRect.push(s.h);
        tagMore.push(s.more);
        tagEnd.push(0);
      }
      let at = -1;
      if (s.edge >= 0) {
        const kind = s.member >= 0 ? LINK : TAG;
        at = edge.begin(p, s.edge, kind);
        if (s.above) {
          edge.point(x + s.w / 2, y + s.h, 0);
          edge.point(x + s.w / 2 + s.lean, by + b.boxY, 0);
        } else if (p.across) {
          edge.point(x + s.w / 2, y + s.h, 0);
          edge.point(x + s.w / 2, by + b.boxY, 0);
        } else {
          edge.point(x + s.w, y + s.h / 2, 0);
          // A stack taller than its box: the outer pills lean towards it.
          const top = by + b.boxY + 6;
          edge.point(bx + b.boxX, Math.min(Math.max(y + s.h / 2, top), top + p.size[v].h - 12), 0);
        }
      }
      if (s.member < 0) tagEdge.push(at);
    }
  }
  const inAt = new Float32Array(p.ins);
  const outAt = new Float32Array(p.outs);
  const firstPort = flow.n - p.ins - p.outs;
  for (let k = 0; k < p.ins + p.outs; k++) {
    const place = (p.across ? oy : ox) + laid.x[firstPort + k];
    if (k < p.ins) inAt[k] = place;
    else outAt[k - p.ins] = place;
  }
  const drawn = new Int32Array(edgeOf.length);
  for (let f = 0; f < edgeOf.length; f++) {
    const e = edgeOf[f];
    drawn[f] = edge.begin(p, e, EDGE);
    const from = laid.pathStart[f];
    const to = laid.pathStart[f + 1];
    if (p.src[e] < 0) edge.point(p.across ? 0 : inAt[-1 - p.src[e]], p.across ? inAt[-1 - p.src[e]] : 0, 0);
    for (let i = from; i < to; i++) {
      edge.point(
        X(laid.points[3 * i], laid.points[3 * i + 1]),
        Y(laid.points[3 * i], laid.points[3 * i + 1]),
        laid.points[3 * i + 2],
      );
    }
    if (p.dst[e] < 0) edge.point(p.across ? w : outAt[-1 - p.dst[e]], p.across ? outAt[-1 - p.dst[e]] : h, 0);
  }
  for (const s of laid.signs) {
    const e = edgeOf[s.edge];
    const named = s.end === EXIT ? p.dst[e] : p.src[e];
    const size = named < 0 ? PORT_SIGN : p.sign[named];
    tagRect.push(X(s.x, s.y));
    tagRect.push(Y(s.x, s.y));
    tagRect.push(size.w);
    tagRect.push(size.h);
    tagEdge.push(drawn[s.edge]);
    tagMore.push(s.number);
    tagEnd.push(s.end);
  }
  return {
    w,
    h,
    rect,
    small,
    ...edge.take(),
    tagRect: tagRect.take(),
    tagEdge: tagEdge.take(),
    tagMore: tagMore.take(),
    tagEnd: Uint8Array.from(tagEnd.take()),
    inAt,
    outAt,
    tangles: laid.tangles,
  };
}

class EdgeList {
  private readonly src = new Ints();
  private readonly dst = new Ints();
  private readonly kind = new Ints();
  private readonly tensor = new Ints();
  private readonly count = new Ints();
  private readonly start = new Ints();
  private readonly points = new Floats();

  begin(p: GroupInput, e: number, kind: number): number {
    this.src.push(p.src[e]);
    this.dst.push(p.dst[e]);
    this.kind.push(kind);
    this.tensor.push(p.tensor[e]);
    this.start.push(this.points.length / 3);
    return this.count.push(p.tensors[e]);
  }

  point(x: number, y: number, bend: number): void {
    this.points.push(x);
    this.points.push(y);
    this.points.push(bend);
  }

  take(): Pick<Template, "edgeSrc" | "edgeDst" | "edgeKind" | "edgeTensor" | "edgeCount" | "pathStart" | "points"> {
    this.start.push(this.points.length / 3);
    return {
      edgeSrc: this.src.take(),
      edgeDst: this.dst.take(),
      edgeKind: Uint8Array.from(this.kind.take()),
      edgeTensor: this.tensor.take(),
      edgeCount: this.count.take(),
      pathStart: this.start.take(),
      points: this.points.take(),
    };
  }
}

/** For each member the consumer that it stands beside, or -1: constants with a single folded consumer. */
function satellites(p: GroupInput): Int32Array {
  const owner = new Int32Array(p.n).fill(-1);
  const users = new Int32Array(p.n);
  for (let e = 0; e < p.src.length; e++) {
    if (p.dst[e] >= 0) owner[p.dst[e]] = -2; // has inputs: a box
    if (p.src[e] < 0) continue;
    users[p.src[e]]++;
    if (owner[p.src[e]] !== -2) owner[p.src[e]] = p.dst[e] >= 0 ? p.dst[e] : -2;
  }
  for (let v = 0; v < p.n; v++) {
    if (owner[v] < 0 || p.nature[v] !== 1 || users[v] !== 1 || p.nature[owner[v]] === 2) owner[v] = -1;
  }
  for (let v = 0; v < p.n; v++) if (owner[v] >= 0 && owner[owner[v]] >= 0) owner[v] = -1;
  return owner;
}

/** 1 for edges that are not drawn but named at their end: the tensor has many readers far away, or is given and would pass by a whole window. */
function choosePorts(p: GroupInput, owner: Int32Array, work: Work): Uint8Array {
  const tagged = new Uint8Array(p.src.length);
  const m = p.src.length;
  const window = windowHeight(p);
  const fanout = new Map<number, number>();
  let any = p.given.includes(1);
  for (let e = 0; e < m; e++) fanout.set(p.net[e], (fanout.get(p.net[e]) ?? 0) + 1);
  for (const c of fanout.values()) if (c >= MANY) any = true;
  if (!any) return tagged;
  const { flow, edgeOf } = toFlow(p, owner, tagged, null);
  const ranks = assignRanks(flow, work);
  const top = new Float64Array(ranks.count + 1);
  for (let v = 0; v < flow.n; v++) top[ranks.rank[v] + 1] = Math.max(top[ranks.rank[v] + 1], flow.h[v]);
  for (let r = 0; r < ranks.count; r++) top[r + 1] += top[r];
  /** Height of the rows that an edge passes by. */
  const passed = (f: number): number => top[ranks.rank[flow.dst[f]]] - top[ranks.rank[flow.src[f]] + 1];
  const far = new Map<number, number>();
  for (let f = 0; f < flow.m; f++) {
    if (ranks.rank[flow.dst[f]] - ranks.rank[flow.src[f]] > FAR && flow.kind[flow.dst[f]] === 0) {
      far.set(flow.net[f], (far.get(flow.net[f]) ?? 0) + 1);
    }
  }
  for (let f = 0; f < flow.m; f++) {
    const net = flow.net[f];
    if (flow.kind[flow.dst[f]] !== 0 || p.tagSize[net].w === 0) continue;
    const many = (far.get(net) ?? 0) >= MANY && ranks.rank[flow.dst[f]] - ranks.rank[flow.src[f]] > 1;
    if (many || (p.given[net] === 1 && passed(f) > window)) tagged[edgeOf[f]] = 1;
  }
  return tagged;
}

interface Pill extends Size {
  x: number;
  y: number;
  readonly member: number; // -1 for a named port or a "+3"
  readonly edge: number; // -1 for a "+3"
  readonly more: number;
  readonly above: boolean;
  lean: number;
}

function pillsBeside(p: GroupInput, owner: Int32Array, tagged: Uint8Array): (Pill[] | undefined)[] {
  const out: (Pill[] | undefined)[] = new Array<Pill[] | undefined>(p.n);
  for (let e = 0; e < p.src.length; e++) {
    const s = p.src[e];
    const t = p.dst[e];
    if (t < 0) continue;
    const member = s >= 0 && owner[s] === t ? s : -1;
    if (member < 0 && !tagged[e]) continue;
    const size = member >= 0 ? p.pill[member] : p.tagSize[p.net[e]];
    (out[t] ??= []).push({
      x: 0,
      y: 0,
      w: size.w,
      h: size.h,
      member,
      edge: e,
      more: 0,
      above: p.nature[t] === 2,
      lean: 0,
    });
  }
  for (let v = 0; v < p.n; v++) {
    const pills = out[v];
    if (!pills || pills.length <= MAX_PILLS || p.nature[v] === 2) continue;
    const more = pills.length - (MAX_PILLS - 1);
    pills.length = MAX_PILLS - 1;
    pills.push({ x: 0, y: 0, w: 36, h: pills[0].h, member: -1, edge: -1, more, above: false, lean: 0 });
  }
  return out;
}

interface Block {
  flow: number;
  w: number;
  h: number;
  boxX: number;
  boxY: number;
  readonly pills: readonly Pill[];
}

/** Box and pills of each member put together: pills left of a box (above it when the flow runs right). */
function shapeBlocks(
  p: GroupInput,
  owner: Int32Array,
  beside: readonly (Pill[] | undefined)[],
  tagged: Uint8Array,
): Block[] {
  const blocks: Block[] = [];
  const wide = new Float32Array(p.n);
  for (let e = 0; e < p.src.length; e++) if (p.src[e] >= 0) wide[p.src[e]] = Math.max(wide[p.src[e]], p.labelled[e]);
  // Where edges are drawn into unfolded groups.
  const entries: number[][] = [];
  for (let e = 0; e < p.src.length; e++)
    if (p.dst[e] >= 0 && p.nature[p.dst[e]] === 2 && !tagged[e] && !Number.isNaN(p.enterAt[e]))
      (entries[p.dst[e]] ??= []).push(p.enterAt[e]);
  for (let v = 0; v < p.n; v++) {
    const box = p.size[v];
    const pills = beside[v] ?? [];
    const b: Block = { flow: -1, w: box.w, h: box.h, boxX: 0, boxY: 0, pills };
    blocks.push(b);
    if (owner[v] >= 0) continue;
    // A shape written beside the stem needs its room at the left: skips run at the right.
    if (!p.across) {
      b.boxX = Math.max(0, wide[v] - box.w / 2);
      b.w += b.boxX;
    }
    if (pills.length === 0) continue;
    if (p.nature[v] === 2) {
      placeAbove(p, b, box, entries[v] ?? []);
      continue;
    }
    let long = 0;
    let stack = 0;
    for (const s of pills) {
      long = Math.max(long, p.across ? s.h : s.w);
      stack += (p.across ? s.w : s.h) + PILL_GAP;
    }
    stack -= PILL_GAP;
    if (p.across) {
      b.boxY = long + PILL_ROOM;
      b.h = b.boxY + box.h;
      b.w = Math.max(box.w, stack);
      b.boxX = (b.w - box.w) / 2;
    } else {
      b.boxX = Math.max(b.boxX, long + PILL_ROOM);
      b.w = b.boxX + box.w;
      b.h = Math.max(box.h, stack);
      b.boxY = (b.h - box.h) / 2;
    }
    let at = ((p.across ? b.w : b.h) - stack) / 2;
    for (const s of pills) {
      s.x = p.across ? at : b.boxX - PILL_ROOM - s.w;
      s.y = p.across ? 0 : at;
      at += (p.across ? s.w : s.h) + PILL_GAP;
    }
  }
  return blocks;
}

/** Named ports of an unfolded group stand over the ports on its border, pushed apart where they collide, clear of the edges drawn to it. */
function placeAbove(p: GroupInput, b: Block, box: Size, entries: number[]): void {
  entries.sort((u, v) => u - v);
  const want = (s: Pill): number => {
    const at = p.enterAt[s.edge];
    return Number.isNaN(at) ? (p.across ? box.h : box.w) / 2 : at;
  };
  const pills = [...b.pills].sort((s, t) => want(s) - want(t) || s.edge - t.edge);
  if (p.across) {
    let long = 0;
    let at = -Infinity;
    for (const s of pills) long = Math.max(long, s.w);
    b.boxX = long + PILL_ROOM;
    b.w += b.boxX;
    for (const s of pills) {
      s.x = long - s.w;
      s.y = clearOf(entries, Math.max(want(s) - s.h / 2, at), s.h);
      at = s.y + s.h + 2;
    }
    return;
  }
  b.boxY = TAG_RISE;
  b.h = box.h + TAG_RISE;
  let at = 0;
  for (const s of pills) {
    s.x = clearOf(entries, Math.max(want(s) - s.w / 2, at), s.w);
    s.lean = want(s) - (s.x + s.w / 2);
    at = s.x + s.w + 4;
  }
  // Too many to fit: the block grows to the right with them.
  b.w = Math.max(b.w, at);
}

/** The first place from `at` on where something of this length lies over none of the entries, which are sorted. */
function clearOf(entries: readonly number[], at: number, length: number): number {
  for (const entry of entries) if (entry > at - ENTRY_ROOM && entry < at + length + ENTRY_ROOM) at = entry + ENTRY_ROOM;
  return at;
}

const ENTRY_ROOM = 6;

function toFlow(
  p: GroupInput,
  owner: Int32Array,
  tagged: Uint8Array,
  blocks: Block[] | null,
): { flow: Flow; edgeOf: Int32Array } {
  const number = new Int32Array(p.n).fill(-1);
  let boxes = 0;
  for (let v = 0; v < p.n; v++) if (owner[v] < 0) number[v] = boxes++;
  const n = boxes + p.ins + p.outs;
  const f = {
    kind: new Uint8Array(n),
    w: new Float32Array(n),
    h: new Float32Array(n),
    axis: new Float32Array(n),
    top: new Float32Array(n),
    bottom: new Float32Array(n),
    stem: new Float32Array(n),
    signW: new Float32Array(n).fill(p.across ? PORT_SIGN.h : PORT_SIGN.w),
    signH: new Float32Array(n).fill(p.across ? PORT_SIGN.w : PORT_SIGN.h),
  };
  f.kind.fill(1, boxes, boxes + p.ins);
  f.kind.fill(2, boxes + p.ins);
  for (let v = 0; v < p.n; v++) {
    const i = number[v];
    if (i < 0) continue;
    const box = p.size[v];
    const b = blocks ? blocks[v] : { flow: 0, w: box.w, h: box.h, boxX: 0, boxY: 0, pills: [] };
    b.flow = i;
    f.signW[i] = p.across ? p.sign[v].h : p.sign[v].w;
    f.signH[i] = p.across ? p.sign[v].w : p.sign[v].h;
    f.w[i] = p.across ? b.h : b.w;
    f.h[i] = p.across ? b.w : b.h;
    f.axis[i] = p.across ? b.boxY + box.h / 2 : b.boxX + box.w / 2;
    f.top[i] = p.across ? b.boxX : b.boxY;
    f.bottom[i] = p.across ? b.boxX + box.w : b.boxY + box.h;
  }
  const edgeOf = new Ints(p.src.length);
  for (let e = 0; e < p.src.length; e++) {
    if (tagged[e] || (p.src[e] >= 0 && owner[p.src[e]] >= 0)) continue;
    edgeOf.push(e);
    // To the right a shape would need its whole width; it is written where an edge is long enough anyway.
    if (p.labelled[e] && p.src[e] >= 0 && !p.across) f.stem[number[p.src[e]]] = STEM;
  }
  const m = edgeOf.length;
  const src = new Int32Array(m);
  const dst = new Int32Array(m);
  const leave = new Float32Array(m);
  const enter = new Float32Array(m);
  const net = new Int32Array(m);
  const half = (v: number): number => (p.across ? p.size[v].h : p.size[v].w) / 2;
  for (let i = 0; i < m; i++) {
    const e = edgeOf.data[i];
    const s = p.src[e];
    const t = p.dst[e];
    src[i] = s < 0 ? boxes - 1 - s : number[s];
    dst[i] = t < 0 ? boxes + p.ins - 1 - t : number[t];
    leave[i] = s < 0 ? 0 : p.leaveAt[e] - half(s);
    enter[i] = t < 0 ? 0 : p.enterAt[e] - half(t);
    net[i] = p.net[e];
  }
  let portAt: Float32Array | null = null;
  if (p.inPlace || p.outPlace) {
    portAt = new Float32Array(n).fill(NaN);
    if (p.inPlace) portAt.set(p.inPlace, boxes);
    if (p.outPlace) portAt.set(p.outPlace, boxes + p.ins);
  }
  return {
    flow: { n, ...f, m, src, dst, leave, enter, net, portAt, careful: p.careful, loose: p.loose },
    edgeOf: edgeOf.take(),
  };
}

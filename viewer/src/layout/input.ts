/** How a group's problem and the state of its members become the input of its drawing. */

import type { Hierarchy } from "../model/hierarchy";
import {
  groupSubtitle,
  groupTitle,
  isModelInput,
  isSource,
  nodeSubtitle,
  nodeTitle,
  pillTitle,
  portName,
  tensorType,
} from "../model/labels";
import { bodyOf } from "../model/inside";
import { SAME } from "../model/stage";
import type { GroupInput } from "./group";
import { LINE, type Interner } from "./labels";
import type { Measure } from "./measure";
import type { Problem, ProblemBuilder } from "./problem";
import {
  foldedSize,
  headerWidth,
  leafSize,
  PILL_H,
  pillSize,
  SHAPES_FROM,
  SUB_PX,
  tagSize,
  windowHeight,
  type Size,
} from "./style";
import type { Template } from "./template";

/** Ports of a group by tensor; many tensors share a port where there would be too many to tell apart. */
export interface Ports {
  readonly ins: number;
  readonly inOf: ReadonlyMap<number, number>;
  readonly outs: number;
  readonly outOf: ReadonlyMap<number, number>;
}

/** With more ports than this on a side, those that go to (come from) the same member become one. */
const MAX_PORTS = 3;

export function portsOf(p: Problem): Ports {
  const firstDst = new Int32Array(p.inTensor.length).fill(-1);
  for (let i = 0; i < p.inPort.length; i++) if (firstDst[p.inPort[i]] < 0) firstDst[p.inPort[i]] = p.inDst[i];
  const number = (tensors: Int32Array, bundle: (k: number) => number, many: boolean): [number, Map<number, number>] => {
    const of = new Map<number, number>();
    const ids = new Map<number, number>();
    for (let k = 0; k < tensors.length; k++) {
      const key = many ? bundle(k) : k;
      let id = ids.get(key);
      if (id === undefined) ids.set(key, (id = ids.size));
      of.set(tensors[k], id);
    }
    return [ids.size, of];
  };
  const [ins, inOf] = number(p.inTensor, (k) => firstDst[k], p.inTensor.length > MAX_PORTS);
  // An exemplar's members make each output once for every twin: one port for the one that is drawn.
  const perInner = (k: number): number => p.outInner[k];
  const [outs, outOf] = p.exemplar
    ? number(p.outTensor, perInner, true)
    : number(p.outTensor, (k) => p.outSrc[k], p.outTensor.length > MAX_PORTS);
  return { ins, inOf, outs, outOf };
}

/** An unfolded member, as its parent needs it. */
export interface OpenMember {
  readonly template: Template;
  readonly ports: Ports;
}

export interface InputContext {
  readonly h: Hierarchy;
  readonly measure: Measure;
  readonly labels: Interner;
  readonly problems: ProblemBuilder;
  readonly across: boolean;
  /** The window that a drawing should be read in. */
  readonly width: number;
  readonly height: number;
  open(group: number): OpenMember | null;
  /** Whether the order of boxes is worth several tries. */
  readonly careful: boolean;
  /** The order of ports that the drawing around a group asks for. */
  readonly wishes: ReadonlyMap<number, PortWish>;
}

/** A place for each port of a group, in the order in which they should stand; null where any will do. */
export interface PortWish {
  readonly ins: Float32Array | null;
  readonly outs: Float32Array | null;
}

export interface DrawingInput extends GroupInput {
  readonly edgeLabel: Int32Array;
  readonly tagLabel: Int32Array; // by net
  /** What a sign calls each member; empty where nothing can wrap. */
  readonly titles: readonly string[];
  /** All of the above as one text: equal keys, equal drawings. */
  readonly key: string;
}

const SMALL: Size = { w: 0, h: 0 };
const SIGN: Size = { w: 48, h: PILL_H };
/** Above and below a box, at most: a group whose members fit the window one over the other never wraps. */
const ROOM = 60;
/** Between a shape and the stem that it is written beside, and what stands at its other end. */
const BESIDE = 8;
/** Longer shapes are cut where they are written. */
const LABEL_W = 180;

export function makeInput(ctx: InputContext, p: Problem, ports: Ports, flat: boolean): DrawingInput {
  const { h, measure, labels } = ctx;
  const n = p.members.length;
  const size: Size[] = new Array<Size>(n);
  const pill: Size[] = new Array<Size>(n).fill(SMALL);
  const nature = new Uint8Array(n);
  const opened: (OpenMember | null)[] = new Array<OpenMember | null>(n).fill(null);
  for (let i = 0; i < n; i++) {
    const item = p.members[i];
    if (item < h.nodes) {
      // A change is told by a sign before the title, too; one that holds ops has a sign behind it.
      const title =
        (h.stage.change[item] !== SAME ? "+ " : "") +
        nodeTitle(h, item) +
        (bodyOf(h.stage.graph, h.stage.row[item]) >= 0 ? " ++" : "");
      size[i] = leafSize(measure, title, nodeSubtitle(h, item));
      if (isSource(h, item) && h.stage.row[item] >= 0 && !isModelInput(h, item)) {
        nature[i] = 1;
        pill[i] = pillSize(measure, pillTitle(h, item));
      }
      continue;
    }
    const g = item - h.nodes;
    const open = ctx.open(g);
    opened[i] = open;
    if (open) {
      nature[i] = 2;
      size[i] = { w: open.template.w, h: open.template.h };
    } else size[i] = foldedSize(measure, (h.stage.diff ? "~ " : "") + groupTitle(h, g), groupSubtitle(h, g));
  }

  const edges = new Bundler(p.src.length + p.inPort.length + p.outTensor.length, n + ports.outs);
  for (let e = 0; e < p.src.length; e++) {
    const from = opened[p.src[e]]?.ports.outOf.get(p.tensor[e]) ?? -1;
    const to = opened[p.dst[e]]?.ports.inOf.get(p.tensor[e]) ?? -1;
    edges.add(p.src[e], p.dst[e], from, to, e, p.tensor[e]);
  }
  const E = p.src.length;
  for (let i = 0; i < p.inPort.length; i++) {
    const t = p.inTensor[p.inPort[i]];
    const to = opened[p.inDst[i]]?.ports.inOf.get(t) ?? -1;
    edges.add(-1 - (ports.inOf.get(t) as number), p.inDst[i], -1, to, E + p.inPort[i], t);
  }
  for (let k = 0; k < p.outTensor.length; k++) {
    const from = opened[p.outSrc[k]]?.ports.outOf.get(p.outInner[k]) ?? -1;
    edges.add(
      p.outSrc[k],
      -1 - (ports.outOf.get(p.outTensor[k]) as number),
      from,
      -1,
      E + p.inTensor.length + k,
      p.outInner[k],
    );
  }
  const b = edges.take();
  const leaveAt = new Float32Array(b.src.length).fill(NaN);
  const enterAt = new Float32Array(b.src.length).fill(NaN);
  const labelled = new Float32Array(b.src.length);
  const edgeLabel = new Int32Array(b.src.length);
  const fan = new Int32Array(b.nets);
  for (let e = 0; e < b.src.length; e++) {
    fan[b.net[e]]++;
    const s = b.src[e];
    const t = b.dst[e];
    if (s >= 0 && opened[s] && b.from[e] >= 0) leaveAt[e] = (opened[s] as OpenMember).template.outAt[b.from[e]];
    if (t >= 0 && opened[t] && b.to[e] >= 0) enterAt[e] = (opened[t] as OpenMember).template.inAt[b.to[e]];
    if (s >= 0 && t >= 0 && p.members[s] >= h.nodes && nature[s] !== 2) {
      const type = tensorType(h, b.carries[e], ctx.problems.nodeOf(b.carries[e]));
      edgeLabel[e] = labels.id(b.tensors[e] > 1 && type ? `${type} +${b.tensors[e] - 1}` : type);
      const wide = Math.min(measure.width(labels.texts[edgeLabel[e]], SUB_PX, "mono"), LABEL_W);
      labelled[e] = type ? wide / SHAPES_FROM + BESIDE : 0;
    }
  }
  const sizes: Size[] = new Array<Size>(b.nets).fill(SMALL);
  const tagLabel = new Int32Array(b.nets);
  const given = new Uint8Array(b.nets);
  // Only in a drawing higher than the window can something pass by a whole one; others stay free of names.
  const tall = size.reduce((sum, { w, h: high }) => sum + (ctx.across ? w : high), 0) > windowHeight(ctx);
  const entering = new Int32Array(ports.ins);
  for (const port of ports.inOf.values()) entering[port]++;
  for (let e = 0; e < b.src.length; e++) {
    const s = b.src[e];
    // A port that bundles several tensors has no one name.
    if (tagLabel[b.net[e]] !== 0 || (s < 0 && entering[-1 - s] > 1)) continue;
    const node = ctx.problems.nodeOf(b.carries[e]);
    // What comes out of a group or a port would leave no box alone at its end.
    if (tall && (s < 0 || nature[s] === 2)) given[b.net[e]] = isSource(h, node) && !isModelInput(h, node) ? 1 : 0;
    // Only a given value, or a tensor with at least three readers, can become a named port.
    if (fan[b.net[e]] < 3 && given[b.net[e]] === 0) continue;
    const name = portName(h, node);
    const type = tensorType(h, b.carries[e], node);
    tagLabel[b.net[e]] = labels.id(type ? `${name}${LINE}${type}` : name);
    sizes[b.net[e]] = tagSize(measure, name, type);
  }
  // What may wrap is drawn for its own names: they stand on the signs of wrapped edges.
  const sign: Size[] = new Array<Size>(n).fill(SIGN);
  const titles: string[] = [];
  let high = 0;
  for (let i = 0; i < n; i++) high += (ctx.across ? size[i].w : size[i].h) + ROOM;
  if (high > (ctx.across ? ctx.width : ctx.height)) {
    for (let i = 0; i < n; i++) {
      titles.push(p.members[i] < h.nodes ? nodeTitle(h, p.members[i]) : groupTitle(h, p.members[i] - h.nodes));
      sign[i] = pillSize(measure, `AA → ${titles[i]}`);
    }
  }
  const minWidth = flat || p.group === 0 ? 0 : headerWidth(measure, groupTitle(h, p.group), groupSubtitle(h, p.group));
  const wish = ctx.wishes.get(p.group);
  const input = {
    n,
    size,
    pill,
    nature,
    src: b.src,
    dst: b.dst,
    leaveAt,
    enterAt,
    net: b.net,
    tensors: b.tensors,
    tensor: b.index,
    tagSize: sizes,
    given,
    ins: ports.ins,
    outs: ports.outs,
    labelled,
    minWidth,
    across: ctx.across,
    root: p.group === 0,
    width: ctx.width,
    height: ctx.height,
    sign,
    titles,
    share: Math.floor((10 * (h.end[p.group] - h.start[p.group])) / Math.max(1, h.nodes)) / 10,
    edgeLabel,
    tagLabel,
    careful: ctx.careful,
    loose: false,
    inPlace: wish?.ins ?? null,
    outPlace: wish?.outs ?? null,
  };
  return { ...input, key: n > 3000 ? "" : keyOf(input) };
}

function keyOf(p: Omit<DrawingInput, "key">): string {
  const sizes = p.size.map((s, i) => `${s.w},${s.h},${p.pill[i].w}`).join(" ");
  const at = (a: Float32Array): string => a.map((v) => Math.round(v * 4)).join(",");
  return [
    p.n,
    p.ins,
    p.outs,
    p.minWidth,
    p.root ? 1 : 0,
    p.share,
    sizes,
    p.nature.join(""),
    p.src.join(","),
    p.dst.join(","),
    at(p.leaveAt),
    at(p.enterAt),
    p.net.join(","),
    p.tensors.join(","),
    p.tensor.join(","),
    p.edgeLabel.join(","),
    p.tagLabel.join(","),
    p.given.join(""),
    p.titles.join("\n"),
    p.careful ? 1 : 0,
    p.inPlace?.join(",") ?? "",
    p.outPlace?.join(",") ?? "",
  ].join("|");
}

/** Strokes: tensors with the same two ends become one. */
class Bundler {
  private readonly keys = new Map<number, number>();
  private readonly nets = new Map<number, number>();
  private readonly rows: number[] = []; // src, dst, from, to, index, tensor, count, net

  constructor(
    private readonly capacity: number,
    private readonly width: number,
  ) {}

  add(src: number, dst: number, from: number, to: number, index: number, tensor: number): void {
    const code = (v: number): number => (v < 0 ? this.width * 2 + this.capacity - v : v);
    const key =
      (code(src) * (this.width * 4 + 2 * this.capacity + 4) + code(dst)) * 4096 +
      (Math.min(from, 62) + 1) * 64 +
      Math.min(to, 62) +
      1;
    const known = this.keys.get(key);
    if (known !== undefined) {
      this.rows[known * 8 + 6]++;
      return;
    }
    // Everything that enters by one port is one net, whatever tensors it bundles.
    const netKey = src < 0 ? src : tensor;
    let net = this.nets.get(netKey);
    if (net === undefined) this.nets.set(netKey, (net = this.nets.size));
    this.keys.set(key, this.rows.length / 8);
    this.rows.push(src, dst, from, to, index, tensor, 1, net);
  }

  take(): Strokes {
    const m = this.rows.length / 8;
    const column = (k: number): Int32Array => {
      const out = new Int32Array(m);
      for (let i = 0; i < m; i++) out[i] = this.rows[i * 8 + k];
      return out;
    };
    return {
      src: column(0),
      dst: column(1),
      from: column(2),
      to: column(3),
      index: column(4),
      carries: column(5),
      tensors: column(6),
      net: column(7),
      nets: this.nets.size,
    };
  }
}

interface Strokes {
  readonly src: Int32Array;
  readonly dst: Int32Array;
  readonly from: Int32Array;
  readonly to: Int32Array;
  readonly index: Int32Array;
  readonly carries: Int32Array;
  readonly tensors: Int32Array;
  readonly net: Int32Array;
  readonly nets: number;
}

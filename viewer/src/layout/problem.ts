/** What a group's drawing is about: its members, the tensors between them, and what crosses its border. */

import { Ints } from "../base/grow";
import type { Hierarchy } from "../model/hierarchy";

/**
 * Does not depend on what is unfolded, so it is built once for each group that is ever opened.
 * Edges are one for each (producer member, tensor, consumer member). Tensor numbers are the stage's.
 */
export interface Problem {
  readonly group: number;
  /** A run of identical groups, drawn as the inside of its first. */
  readonly exemplar: boolean;
  readonly members: Int32Array;
  readonly src: Int32Array;
  readonly dst: Int32Array;
  readonly tensor: Int32Array;
  /** Tensors made outside that members read: port k carries inTensor[k]. */
  readonly inTensor: Int32Array;
  readonly inPort: Int32Array;
  readonly inDst: Int32Array;
  /** Tensors made inside that others read: outTensor as known outside, outInner as known to the member. */
  readonly outTensor: Int32Array;
  readonly outInner: Int32Array;
  readonly outSrc: Int32Array;
}

/** The first of a run of identical groups. */
export function firstTwin(h: Hierarchy, group: number): number {
  return h.members.values[h.members.offsets[group]] - h.nodes;
}

/** What is drawn inside an open group: its members, or those of the one twin that stands for all. */
export function shownMembers(h: Hierarchy, group: number, exemplar: boolean): Int32Array {
  const of = exemplar ? firstTwin(h, group) : group;
  return h.members.values.subarray(h.members.offsets[of], h.members.offsets[of + 1]);
}

export class ProblemBuilder {
  /** Member index by place in depth-first order; only the entries of the group at hand are valid. */
  private readonly memberAt: Int32Array;
  private readonly seen: Int32Array;
  private round = 0;

  constructor(private readonly h: Hierarchy) {
    const tensors = h.stage.tensorStart[h.stage.count] + 1;
    this.memberAt = new Int32Array(h.nodes);
    this.seen = new Int32Array(tensors);
  }

  /** The node that makes a tensor. */
  nodeOf(tensor: number): number {
    const starts = this.h.stage.tensorStart;
    let a = 0;
    let b = this.h.stage.count - 1;
    while (a < b) {
      const mid = (a + b + 1) >> 1;
      if (starts[mid] <= tensor) a = mid;
      else b = mid - 1;
    }
    return a;
  }

  build(group: number, exemplar: boolean): Problem {
    const h = this.h;
    const members = shownMembers(h, group, exemplar);
    return this.make(group, exemplar, members, h.start[group], h.end[group]);
  }

  /** All nodes side by side, without groups. */
  flat(): Problem {
    // Topological order, so that the drawing follows the computation rather than the modules.
    const members = new Int32Array(this.h.nodes);
    for (let i = 0; i < members.length; i++) members[i] = i;
    return this.make(0, false, members, 0, this.h.nodes);
  }

  private make(group: number, exemplar: boolean, members: Int32Array, start: number, end: number): Problem {
    const { h, memberAt, seen } = this;
    const { stage, pos, order } = h;
    const N = h.nodes;
    for (let i = 0; i < members.length; i++) {
      const item = members[i];
      if (item < N) memberAt[pos[item]] = i;
      else memberAt.fill(i, h.start[item - N], h.end[item - N]);
    }
    // In an exemplar only the first twin's own nodes are looked at; the others read the same way.
    const twin = exemplar ? firstTwin(h, group) : group;
    const innerStart = exemplar ? h.start[twin] : start;
    const innerEnd = exemplar ? h.end[twin] : end;
    const src = new Ints();
    const dst = new Ints();
    const tensor = new Ints();
    const inTensor = new Ints();
    const inPort = new Ints();
    const inDst = new Ints();
    const portOf = new Map<number, number>();
    for (let i = 0; i < members.length; i++) {
      const item = members[i];
      const a = item < N ? pos[item] : h.start[item - N];
      const b = item < N ? a + 1 : h.end[item - N];
      const round = ++this.round;
      for (let p = a; p < b; p++) {
        const n = order[p];
        for (let k = stage.inputs.offsets[n]; k < stage.inputs.offsets[n + 1]; k++) {
          const from = stage.inputs.values[k];
          if (from < 0) continue;
          const q = pos[from];
          if (q >= a && q < b) continue;
          const t = stage.inputTensor[k];
          if (seen[t] === round) continue;
          seen[t] = round;
          if (q >= start && q < end) {
            if (q < innerStart || q >= innerEnd) continue;
            src.push(memberAt[q]);
            dst.push(i);
            tensor.push(t);
            continue;
          }
          let j = portOf.get(t);
          if (j === undefined) {
            j = inTensor.push(t);
            portOf.set(t, j);
          }
          inPort.push(j);
          inDst.push(i);
        }
      }
    }
    const outTensor = new Ints();
    const outInner = new Ints();
    const outSrc = new Ints();
    const round = ++this.round;
    const period = innerEnd - innerStart;
    for (let p = start; p < end; p++) {
      const n = order[p];
      for (let k = stage.users.offsets[n]; k < stage.users.offsets[n + 1]; k++) {
        const user = stage.users.values[k];
        if (pos[user] >= start && pos[user] < end) continue;
        for (let i = stage.inputs.offsets[user]; i < stage.inputs.offsets[user + 1]; i++) {
          if (stage.inputs.values[i] !== n) continue;
          const t = stage.inputTensor[i];
          if (seen[t] === round) continue;
          seen[t] = round;
          let inner = t;
          let at = p;
          if (exemplar) {
            at = innerStart + ((p - start) % period);
            inner = stage.tensorStart[order[at]] + (t - stage.tensorStart[n]);
          }
          outTensor.push(t);
          outInner.push(inner);
          outSrc.push(memberAt[at]);
        }
      }
    }
    return {
      group,
      exemplar,
      members,
      src: src.take(),
      dst: dst.take(),
      tensor: tensor.take(),
      inTensor: inTensor.take(),
      inPort: inPort.take(),
      inDst: inDst.take(),
      outTensor: outTensor.take(),
      outInner: outInner.take(),
      outSrc: outSrc.take(),
    };
  }
}

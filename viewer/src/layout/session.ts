/** What is laid out again when something is unfolded: that group and its ancestors, nothing else. */

import { Cancelled } from "../base/errors";
import { Ints } from "../base/grow";
import { groupKey, type Hierarchy } from "../model/hierarchy";
import { groupChanges, groupSubtitle, groupTitle, isSource, nodeSubtitle, nodeTitle, pillTitle } from "../model/labels";
import { bodyOf, INSIDE } from "../model/inside";
import { CHANGED } from "../model/stage";
import { FAMILIES, FAMILY_WEIGHT, familyOf } from "./family";
import { EXIT, newWork, type Work } from "./flow";
import { finish, type Steps } from "./arrange";
import { groupSteps } from "./group";
import { makeInput, portsOf, type InputContext, type OpenMember, type Ports, type PortWish } from "./input";
import { Interner } from "./labels";
import type { Measure } from "./measure";
import { portWishes } from "./port_wishes";
import { firstTwin, ProblemBuilder, shownMembers, type Problem } from "./problem";
import {
  CHANGE_SHIFT,
  HAS_INSIDE,
  IS_EXEMPLAR,
  IS_GROUP,
  IS_OPEN,
  IS_REPEAT,
  IS_SOURCE,
  type SceneUpdate,
  type Shape,
} from "./scene_update";
import type { Template } from "./template";

export const FOLDED = 0;
/** Open; a run of identical groups shows the inside of one of them. */
export const OPEN = 1;
/** Open, with every one of its identical members. */
export const EACH = 2;

/** Up to this many boxes in view, crossings are looked for with several tries, across the borders of groups too. */
const CAREFUL = 4000;
/**
 * How groups are asked for another order of their ports: by the drawing around them as it is, or as it would be with
 * ports in any order; all groups of a drawing, then one of them alone, since of two that turn one can undo the other.
 */
const ASKING = [
  { loose: false, one: -1 },
  { loose: true, one: -1 },
  { loose: false, one: -1 },
  ...[0, 1].flatMap((one) => [
    { loose: false, one },
    { loose: true, one },
  ]),
] as const;

export interface LayoutOptions {
  readonly across: boolean;
  /** The window that drawings should be read in. */
  readonly width: number;
  readonly height: number;
}

export interface Pace {
  /** Called now and then: tells how far it is, and throws Cancelled when the work is no longer wanted. */
  step(done: number, total: number): Promise<void>;
}

export const noPace: Pace = { step: () => Promise.resolve() };

/** "B → layer3" where an edge leaves its column, "B ← layer2" where it goes on. */
function signText(number: number, end: number, title: string): string {
  let letters = "";
  for (let k = number + 1; k > 0; k = Math.floor((k - 1) / 26))
    letters = String.fromCharCode(65 + ((k - 1) % 26)) + letters;
  return `${letters} ${end === EXIT ? "→" : "←"} ${title}`;
}

export class LayoutSession {
  readonly fold: Uint8Array;
  readonly work: Work = newWork();
  flat = false;
  private wasFlat = false;
  private readonly builder: ProblemBuilder;
  private readonly problems = new Map<number, { problem: Problem; ports: Ports }>();
  private readonly shapes: Shape[] = [];
  private readonly shapeOf = new Map<string, number>();
  private sentShapes = 0;
  /** Shape of each open group; -1 when it must be laid out (again). */
  private readonly laid: Int32Array;
  /** Shape of each group as the page has it; -1 when the page must be told anyway. */
  private readonly sent: Int32Array;
  private flatShape = -1;
  private flatProblem: Problem | null = null;
  private changed = new Set<number>();
  private reset = true;
  /** One more than the family of each group that was asked for; 0 elsewhere. */
  private readonly families: Uint8Array;
  private readonly familyOfKind = new Map<number, number>();
  private readonly wishes = new Map<number, PortWish>();
  /** Drawings with ports in any order, by input: identical layers ask for the same one. */
  private readonly loose = new Map<string, Template>();
  private careful = true;
  private untangled = false;

  constructor(
    readonly h: Hierarchy,
    private readonly measure: Measure,
    readonly options: LayoutOptions,
    private readonly labels = new Interner(),
  ) {
    this.fold = new Uint8Array(h.groups);
    this.fold[0] = OPEN;
    this.laid = new Int32Array(h.groups).fill(-1);
    this.sent = new Int32Array(h.groups).fill(-1);
    this.families = new Uint8Array(h.groups);
    this.builder = new ProblemBuilder(h);
  }

  setFold(group: number, state: number): void {
    if (group === 0 && state === FOLDED) return;
    if (this.fold[group] === state) return;
    this.fold[group] = state;
    for (let g = group; g >= 0; g = this.h.parent[this.h.nodes + g] - this.h.nodes) this.laid[g] = this.sent[g] = -1;
  }

  /** Unfolds all (each of identical ones, too), or folds all but the root. */
  setAll(open: boolean): void {
    for (let g = 1; g < this.h.groups; g++) this.setFold(g, open ? (this.h.repeat[g] > 0 ? EACH : OPEN) : FOLDED);
  }

  isExemplar(group: number): boolean {
    return this.h.repeat[group] > 0 && this.fold[group] === OPEN;
  }

  shape(group: number): Shape | null {
    const s = this.flat ? this.flatShape : this.laid[group];
    return s < 0 ? null : this.shapes[s];
  }

  problem(group: number): { problem: Problem; ports: Ports } {
    if (this.flat) {
      this.flatProblem ??= this.builder.flat();
      return { problem: this.flatProblem, ports: portsOf(this.flatProblem) };
    }
    const exemplar = this.isExemplar(group);
    const key = group * 2 + (exemplar ? 1 : 0);
    let found = this.problems.get(key);
    if (!found) {
      const problem = this.builder.build(group, exemplar);
      this.problems.set(key, (found = { problem, ports: portsOf(problem) }));
    }
    return found;
  }

  /** The node that makes a tensor. */
  producer(tensor: number): number {
    return this.builder.nodeOf(tensor);
  }

  /** The item that stands for a node in the drawing: itself, or the outermost folded group around it. */
  drawnItem(node: number): number {
    if (this.flat) return node;
    const { h } = this;
    let out = node;
    for (let item = node, p = h.parent[node]; p >= 0; item = p, p = h.parent[p]) {
      const g = p - h.nodes;
      if (this.fold[g] === FOLDED) {
        const above = h.parent[p] - h.nodes;
        // The first of identical groups has no box of its own while its run shows only it.
        if (!(above >= 0 && this.isExemplar(above) && h.parent[p] >= 0)) out = p;
      } else if (this.isExemplar(g) && item >= h.nodes && firstTwin(h, g) !== item - h.nodes) out = p;
    }
    return out;
  }

  /** Open groups below the root that are drawn now, parents first. */
  visibleGroups(staleOnly: boolean): number[] {
    const out: number[] = [];
    const todo = [0];
    while (todo.length > 0) {
      const g = todo.pop() as number;
      if (staleOnly && this.laid[g] >= 0) continue;
      out.push(g);
      const members = this.membersOf(g);
      for (let i = members.length - 1; i >= 0; i--) {
        const item = members[i];
        if (item >= this.h.nodes && this.fold[item - this.h.nodes] !== FOLDED) todo.push(item - this.h.nodes);
      }
    }
    return out;
  }

  membersOf(group: number): Int32Array {
    return shownMembers(this.h, group, this.isExemplar(group));
  }

  /** Brings all drawings up to date; a draft, of which only the size is asked, may have crossings to spare. */
  async layOut(pace: Pace = noPace, draft = false): Promise<void> {
    if (this.flat !== this.wasFlat) {
      // The page holds the other kind of drawing: everything in view is news to it.
      this.wasFlat = this.flat;
      this.sent.fill(-1);
      this.changed = new Set(this.flat ? [0] : this.visibleGroups(false));
    }
    if (this.flat) {
      if (this.flatShape >= 0) return;
      await pace.step(0, 1);
      const { problem, ports } = this.problem(0);
      const steps = this.laySteps(this.context(), problem, ports, true);
      for (;;) {
        const r = steps.next();
        if (r.done) {
          this.flatShape = r.value;
          break;
        }
        await pace.step(r.value[0], r.value[1]);
      }
      this.changed.add(0);
      return;
    }
    this.forgetWishes();
    if (this.visibleGroups(true).length > 0) this.untangled = false;
    await this.layStale(pace);
    if (draft || !this.careful || this.untangled) return;
    await this.untangle(pace);
    this.untangled = true;
  }

  /** Lays out what is open and has no drawing, inner groups first. */
  private async layStale(pace: Pace): Promise<void> {
    const ctx = this.context();
    const stale = this.visibleGroups(true);
    for (let i = stale.length - 1, k = 0; i >= 0; i--, k++) {
      if (k % 32 === 0) await pace.step(k, stale.length);
      const g = stale[i];
      const { problem, ports } = this.problem(g);
      this.laid[g] = finish(this.laySteps(ctx, problem, ports, false));
      this.changed.add(g);
    }
  }

  /** The drawing of a fold state does not depend on the states before: every one starts without wishes. */
  private forgetWishes(): void {
    const open = this.visibleGroups(false);
    this.careful = open.reduce((n, g) => n + this.membersOf(g).length, 0) <= CAREFUL;
    if (!open.some((g) => this.laid[g] < 0)) return;
    for (const g of this.wishes.keys()) this.redo(g);
    this.wishes.clear();
  }

  /** The drawing of a group is no longer right, nor are those around it. */
  private redo(group: number): void {
    for (let g = group; g >= 0; g = this.h.parent[this.h.nodes + g] - this.h.nodes) this.laid[g] = -1;
  }

  /** Groups put their ports in the order that the drawing around them asks for, where that leaves fewer crossings. */
  private async untangle(pace: Pace): Promise<void> {
    for (const { loose, one } of ASKING) {
      const asked: {
        readonly child: number;
        readonly around: number;
        readonly before: number;
        readonly known: PortWish | undefined;
      }[] = [];
      for (const around of this.visibleGroups(false)) {
        const inside = this.openMembers(around);
        const now = this.shapes[this.laid[around]];
        if (inside.size === 0 || now.tangles === 0) continue;
        const shape = (member: number): Shape | null =>
          inside.has(member) ? this.shapes[this.laid[inside.get(member) as number]] : null;
        const before = this.tangles(around);
        const wishes = [...portWishes(loose ? this.loosely(around) : now, shape, this.options.across)];
        for (const [i, wish] of one < 0 ? wishes : wishes.slice(one, one + 1)) {
          const child = inside.get(i) as number;
          const known = this.wishes.get(child);
          asked.push({ child, around, before, known });
          this.wishes.set(child, { ins: wish.ins ?? known?.ins ?? null, outs: wish.outs ?? known?.outs ?? null });
        }
      }
      if (asked.length === 0) continue;
      for (const { child } of asked) this.redo(child);
      await this.layStale(pace);
      const worse = asked.filter(({ around, before }) => this.tangles(around) >= before);
      for (const { child, known } of worse) {
        if (known) this.wishes.set(child, known);
        else this.wishes.delete(child);
        this.redo(child);
      }
      if (worse.length > 0) await this.layStale(pace);
    }
  }

  /** A group as it would be drawn if the groups in it had their ports in any order. */
  private loosely(group: number): Template {
    const { problem, ports } = this.problem(group);
    const input = makeInput(this.context(), problem, ports, false);
    let found = this.loose.get(input.key);
    if (!found) this.loose.set(input.key, (found = finish(groupSteps({ ...input, loose: true }, this.work))));
    return found;
  }

  /** The groups that are open in a group, by their place among its members. */
  private openMembers(group: number): Map<number, number> {
    const out = new Map<number, number>();
    this.membersOf(group).forEach((m, i) => {
      const g = m - this.h.nodes;
      if (g >= 0 && this.fold[g] !== FOLDED) out.set(i, g);
    });
    return out;
  }

  /** Crossings in a group and in the groups that are open in it. */
  private tangles(group: number): number {
    let sum = this.shapes[this.laid[group]].tangles;
    for (const g of this.openMembers(group).values()) sum += this.shapes[this.laid[g]].tangles;
    return sum;
  }

  private context(): InputContext {
    return {
      h: this.h,
      measure: this.measure,
      labels: this.labels,
      problems: this.builder,
      ...this.options,
      careful: this.careful,
      wishes: this.wishes,
      open: (group): OpenMember | null => {
        if (this.fold[group] === FOLDED) return null;
        const shape = this.shapes[this.laid[group]];
        if (!shape) throw new Cancelled();
        return { template: shape, ports: this.problem(group).ports };
      },
    };
  }

  private *laySteps(ctx: InputContext, problem: Problem, ports: Ports, flat: boolean): Steps<number> {
    const input = makeInput(ctx, problem, ports, flat);
    const known = input.key ? this.shapeOf.get(input.key) : undefined;
    if (known !== undefined) return known;
    const t = yield* groupSteps(input, this.work);
    const byTensor = new Int32Array(input.tensor.reduce((most, t) => Math.max(most, t + 1), 0));
    for (let e = 0; e < input.tensor.length; e++) byTensor[input.tensor[e]] = e;
    const edgeLabel = new Int32Array(t.edgeTensor.length);
    const tagLabel = new Int32Array(t.tagEdge.length);
    for (let e = 0; e < edgeLabel.length; e++)
      edgeLabel[e] = t.edgeKind[e] === 0 ? input.edgeLabel[byTensor[t.edgeTensor[e]]] : 0;
    for (let k = 0; k < tagLabel.length; k++) {
      if (t.tagEnd[k] !== 0) {
        const named = t.tagEnd[k] === EXIT ? t.edgeDst[t.tagEdge[k]] : t.edgeSrc[t.tagEdge[k]];
        tagLabel[k] = this.labels.id(
          signText(
            t.tagMore[k],
            t.tagEnd[k],
            named < 0 ? (t.tagEnd[k] === EXIT ? "output" : "input") : input.titles[named],
          ),
        );
        continue;
      }
      tagLabel[k] =
        t.tagEdge[k] < 0
          ? this.labels.id(`+${t.tagMore[k]}`)
          : input.tagLabel[input.net[byTensor[t.edgeTensor[t.tagEdge[k]]]]];
    }
    const id = this.shapes.length;
    this.shapes.push({ ...t, edgeLabel, tagLabel });
    if (input.key) this.shapeOf.set(input.key, id);
    return id;
  }

  /** The family that a group is coloured by when it is too small to open: the weightiest inside. */
  private familyOfGroup(group: number): number {
    const { h, families } = this;
    if (families[group] > 0) return families[group] - 1;
    const { kind, strings } = h.stage.graph;
    const weight = new Float64Array(FAMILIES.length);
    for (let p = h.start[group]; p < h.end[group]; p++) {
      const r = h.stage.row[h.order[p]];
      if (r < 0) continue;
      let f = this.familyOfKind.get(kind[r]);
      if (f === undefined) this.familyOfKind.set(kind[r], (f = familyOf(strings.at(kind[r]))));
      weight[f] += FAMILY_WEIGHT[f];
    }
    const best = weight.indexOf(Math.max(...weight));
    families[group] = best + 1;
    return best;
  }

  /** Everything that changed since the last call. */
  takeUpdate(): SceneUpdate {
    const { h } = this;
    const groups = new Ints(this.changed.size * 3);
    const item = new Ints();
    const title = new Ints();
    const sub = new Ints();
    const family = new Ints();
    const flags = new Ints();
    const size = new Ints();
    const key = new Ints();
    for (const g of this.changed) {
      // Opened and folded again since, or turned for its neighbours and back again: there is nothing to tell.
      if (!this.flat && (this.laid[g] < 0 || this.laid[g] === this.sent[g])) continue;
      groups.push(g);
      if (!this.flat) this.sent[g] = this.laid[g];
      groups.push(this.flat ? this.flatShape : this.laid[g]);
      groups.push(item.length);
      const members = this.flat ? this.problem(0).problem.members : this.membersOf(g);
      const small = this.shapes[this.flat ? this.flatShape : this.laid[g]].small;
      for (let i = 0; i < members.length; i++) {
        const m = members[i];
        item.push(m);
        if (m < h.nodes) {
          const r = h.stage.row[m];
          title.push(this.labels.id(small[i] ? pillTitle(h, m) : nodeTitle(h, m)));
          sub.push(this.labels.id(nodeSubtitle(h, m)));
          family.push(r < 0 ? familyOf("source") : familyOf(h.stage.graph.strings.at(h.stage.graph.kind[r])));
          const holds = bodyOf(h.stage.graph, r) >= 0;
          flags.push((isSource(h, m) ? IS_SOURCE : 0) | (h.stage.change[m] << CHANGE_SHIFT) | (holds ? HAS_INSIDE : 0));
          size.push(1);
          key.push(holds ? INSIDE + h.stage.graph.id[r] : 0);
          continue;
        }
        const k = m - h.nodes;
        title.push(this.labels.id(groupTitle(h, k)));
        sub.push(this.labels.id(groupSubtitle(h, k)));
        family.push(this.familyOfGroup(k));
        flags.push(
          IS_GROUP |
            (h.repeat[k] > 0 ? IS_REPEAT : 0) |
            (this.fold[k] !== FOLDED ? IS_OPEN : 0) |
            (this.isExemplar(k) ? IS_EXEMPLAR : 0) |
            (groupChanges(h, k).some((c) => c > 0) ? CHANGED << CHANGE_SHIFT : 0),
        );
        size.push(h.end[k] - h.start[k]);
        key.push(groupKey(h, k));
      }
    }
    const update: SceneUpdate = {
      reset: this.reset,
      nodes: h.nodes,
      items: h.nodes + h.groups,
      across: this.options.across,
      shapes: this.shapes.slice(this.sentShapes),
      firstShape: this.sentShapes,
      labels: this.labels.news(),
      groups: groups.take(),
      item: item.take(),
      title: title.take(),
      sub: sub.take(),
      family: Uint8Array.from(family.take()),
      flags: Uint8Array.from(flags.take()),
      size: size.take(),
      key: key.take(),
    };
    this.sentShapes = this.shapes.length;
    this.changed = new Set();
    this.reset = false;
    return update;
  }
}

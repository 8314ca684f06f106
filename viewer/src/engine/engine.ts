/** How the worker serves the page: one recording, one view of it, its drawings kept up to date. */

import { GlassError } from "../base/errors";
import type { Call, Served } from "../base/rpc";
import { Interner } from "../layout/labels";
import { Measure } from "../layout/measure";
import { LARGE, transferables } from "../layout/scene_update";
import { EACH, FOLDED, LayoutSession, OPEN, type Pace } from "../layout/session";
import { countIn } from "../model/counts";
import { withBlocks } from "../model/blocks";
import { STEP, withSteps } from "../model/steps";
import { withPrepared } from "../model/prepared";
import { withUnread } from "../model/unread";
import { Graph } from "../model/graph";
import { buildHierarchy, groupKey, type Hierarchy } from "../model/hierarchy";
import { INSIDE, unfoldBodies } from "../model/inside";
import { Recording } from "../model/recording";
import { selectStage, type StageGraph } from "../model/stage";
import type { EngineApi, FoldSpec, OpenResult, ShowArg, ShowResult, Strokes, ViewSpec } from "./api";
import { firstTwin, shownMembers } from "../layout/problem";
import { factsOf } from "./facts";
import { firstView } from "./first_view";
import { decisionsAt } from "./decisions";
import { insideKeys } from "./insides";
import { startSpec } from "./start_spec";
import { findStrokes, tensorOf } from "./strokes";
import { measure } from "../query/measures";
import { panelMethods } from "../query/serve";
import type { Shown } from "../query/shown";

/** Above this many nodes a first view goes by the number of ops: figures would have to be made for all of them first. */
const WEIGHED = 100_000;

export class Engine {
  private recording: Recording | null = null;
  private readonly graphs = new Map<number, Promise<Graph>>();
  private measure = new Measure();
  private readonly labels = new Interner();
  private stage: StageGraph | null = null;
  private hierarchy: Hierarchy | null = null;
  private session: LayoutSession | null = null;
  private shown = "";
  /** The graph with some nodes unfolded, and which. */
  private inside: { readonly key: string; readonly graph: Graph } | null = null;
  private keys: Map<number, number> | null = null;
  /** Graphs with groups that the file does not have, by graph and stage. */
  private readonly made = new Map<string, Graph>();

  /** The methods as the page sees them. */
  methods(): Served<EngineApi> {
    return {
      open: (a, call) => this.open(a.bytes, new Measure(a.font), call),
      warm: (a, call) => this.warm(a.start, call),
      show: (a, call) => this.show(a, call),
      strokes: (a) => this.strokes(a.item),
      reveal: (a) => this.reveal(a.item),
      decisions: (a) => decisionsAt(this.asked(), a.item),
      insides: (a) => (this.session ? insideKeys(this.session.h, a.item) : []),
      facts: (a) => factsOf(this.asked(), a.items),
      portSource: (a) => this.portSource(a.group, a.edge),
      ...panelMethods(() => this.asked()),
    };
  }

  /** What panels ask about. */
  private asked(): Shown {
    const { recording, stage, hierarchy, session } = this;
    if (!recording || !stage || !hierarchy || !session) throw new GlassError("nothing is shown yet");
    return { recording, graph: stage.graph, stage, h: hierarchy, session, other: (index) => this.graph(index) };
  }

  async open(bytes: ArrayBuffer, measure: Measure, call: Call): Promise<OpenResult> {
    this.measure = measure;
    call.progress({ text: "Reading the file", done: 0, total: 1 });
    this.recording = await Recording.open(new Uint8Array(bytes));
    this.graphs.clear();
    this.made.clear();
    this.session = null;
    this.inside = null;
    this.shown = "";
    return {
      header: this.recording.header,
      graphs: this.recording.header.graphs.map((g) => ({ name: g.name, parent: g.parent })),
    };
  }

  private graph(index: number): Promise<Graph> {
    if (!this.recording) throw new GlassError("no file is open");
    if (!this.recording.header.graphs[index]) throw new GlassError(`the file has no graph ${index}`);
    let g = this.graphs.get(index);
    if (!g) this.graphs.set(index, (g = Graph.load(this.recording, index)));
    return g;
  }

  async show(arg: ShowArg, call: Call): Promise<ShowResult> {
    let { view } = arg;
    const pace: Pace = {
      step: async (done, total) => {
        const flat = view.fold.base === "flat";
        if (total > (flat ? 4 : 200))
          call.progress({ text: flat ? "Arranging columns" : "Arranging groups", done, total });
        await call.breathe();
      },
    };
    if (this.recording?.header.graphs[view.graph]) call.progress({ text: "Reading nodes", done: 0, total: 1 });
    const graph = await this.unfolded(await this.structured(view), view);
    const groupings = graph.groupings();
    view = grouped(view, groupings);
    const session = await this.prepare(graph, view, arg, call);
    if (view.fold.base === "first") {
      session.flat = false;
      await firstView(session, arg.width, arg.height, await this.weights());
    } else this.applyFold(session, view.fold);
    await session.layOut(pace);
    const update = session.takeUpdate();
    call.transfer(transferables(update));
    const h = session.h;
    let boxes = 0;
    for (const g of session.flat ? [0] : session.visibleGroups(false))
      boxes += session.flat ? h.nodes : session.membersOf(g).length;
    return {
      update,
      fold: this.spell(session, view.fold),
      groupings,
      grouping: view.grouping,
      nodes: countIn(h, 0, "nodes"),
      edges: countIn(h, 0, "edges"),
      groups: h.groups - 1,
      boxes,
    };
  }

  /** What each node matters: its time where that was measured, else its arithmetic; null where neither is known. */
  private async weights(): Promise<Float64Array | null> {
    const { stage } = this;
    if (!stage || stage.count > WEIGHED) return null;
    for (const name of ["time", "flops"]) {
      const found = await measure(this.asked(), name);
      if (found?.value.some((v) => v > 0)) return found.value;
    }
    return null;
  }

  /**
   * The graph that a view speaks of. Training gets groups for its steps and phases, a graph without modules
   * for the blocks that repeat in it.
   */
  private async structured(view: ViewSpec): Promise<Graph> {
    const graph = await this.graph(view.graph);
    const stage = Math.min(Math.max(0, view.stage), graph.info.stages.length - 1);
    const key = `${graph.index}/${stage}`;
    let found = this.made.get(key);
    if (!found) {
      const plain = selectStage(graph, stage);
      const groupings = graph.groupings();
      const grouped =
        groupings.length === 0 ? withBlocks(plain) : groupings.includes("phase") ? withSteps(plain) : null;
      found = withUnread({ ...plain, graph: grouped ?? graph });
      // A training step has its state; its modules stand inside phases.
      if (!groupings.includes("phase")) found = withPrepared({ ...plain, graph: found });
      this.made.set(key, found);
      // Groups change neither order nor edges: what was sorted here is shown.
      this.stage = { ...plain, graph: found };
      this.hierarchy = null;
    }
    return found;
  }

  /** The graph as drawn: with the ops of unfolded nodes in their places. */
  private async unfolded(graph: Graph, view: ViewSpec): Promise<Graph> {
    const ids = view.fold.changes
      .filter(([key, state]) => key >= INSIDE && state !== FOLDED)
      .map(([key]) => key - INSIDE);
    if (ids.length === 0) return graph;
    const stage = Math.min(Math.max(0, view.stage), graph.info.stages.length - 1);
    const key = `${graph.index}/${stage}/${ids.sort((a, b) => a - b).join(" ")}`;
    if (this.inside?.key !== key)
      this.inside = { key, graph: await unfoldBodies(graph, stage, ids, (i) => this.graph(i)) };
    return this.inside.graph;
  }

  private async warm(start: Partial<ViewSpec>, call: Call): Promise<void> {
    if (!this.recording) return;
    const view = startSpec(this.recording.header, start);
    call.progress({ text: "Reading nodes", done: 0, total: 1 });
    const graph = await this.unfolded(await this.structured(view), view);
    await this.select(graph, grouped(view, graph.groupings()), call);
  }

  /** Brings stage and hierarchy to what a view shows. */
  private async select(graph: Graph, view: ViewSpec, call: Call): Promise<Hierarchy> {
    const diff = view.diff ?? false;
    const stage = Math.min(Math.max(0, view.stage), graph.info.stages.length - 1);
    if (!this.stage || this.stage.graph !== graph || this.stage.stage !== stage || this.stage.diff !== diff) {
      call.progress({ text: "Sorting nodes", done: 0, total: 1 });
      await call.breathe();
      this.stage = selectStage(graph, stage, diff);
      this.hierarchy = null;
    }
    if (!this.hierarchy || this.hierarchy.grouping !== view.grouping || this.hierarchy.stage !== this.stage) {
      call.progress({ text: "Grouping nodes", done: 0, total: 1 });
      await call.breathe();
      this.hierarchy = buildHierarchy(this.stage, view.grouping);
      this.keys = null;
    }
    return this.hierarchy;
  }

  private async prepare(graph: Graph, view: ViewSpec, arg: ShowArg, call: Call): Promise<LayoutSession> {
    const key = `${view.graph}/${view.stage}/${view.diff ? "diff" : ""}/${view.grouping}/${view.across ? "across" : "down"}`;
    if (this.session && this.shown === key && this.stage?.graph === graph) return this.session;
    const hierarchy = await this.select(graph, view, call);
    this.session = new LayoutSession(
      hierarchy,
      this.measure,
      { across: view.across, width: Math.max(320, arg.width), height: Math.max(320, arg.height) },
      this.labels,
    );
    this.shown = key;
    return this.session;
  }

  private groupOf(key: number): number {
    const h = this.hierarchy as Hierarchy;
    if (!this.keys) {
      this.keys = new Map();
      for (let g = 0; g < h.groups; g++) this.keys.set(groupKey(h, g), g);
    }
    return this.keys.get(key) ?? -1;
  }

  private applyFold(session: LayoutSession, fold: FoldSpec): void {
    session.flat = fold.base === "flat";
    const wanted = new Uint8Array(session.h.groups);
    if (fold.base === "all") for (let g = 1; g < wanted.length; g++) wanted[g] = session.h.repeat[g] > 0 ? EACH : OPEN;
    wanted[0] = OPEN;
    for (const [key, state] of fold.changes) {
      const g = this.groupOf(key);
      if (g > 0) wanted[g] = state;
    }
    for (let g = 1; g < wanted.length; g++) session.setFold(g, wanted[g]);
  }

  private spell(session: LayoutSession, fold: FoldSpec): FoldSpec {
    if (fold.base !== "first") return fold;
    const changes: [number, number][] = [];
    for (let g = 1; g < session.h.groups; g++) {
      if (session.fold[g] !== FOLDED) changes.push([groupKey(session.h, g), session.fold[g]]);
    }
    return { base: "none", changes };
  }

  /** The drawn item that a named port's tensor comes from: the producer, or the folded group that holds it. */
  private portSource(group: number, edge: number): number {
    const s = this.session;
    const shape = s?.shape(group);
    if (!s || !shape || edge < 0 || edge >= shape.edgeTensor.length) return -1;
    const node = s.producer(tensorOf(s.problem(group).problem, shape.edgeTensor[edge]));
    return s.drawnItem(node);
  }

  private strokes(item: number): Strokes {
    return this.session ? findStrokes(this.session, item) : new Int32Array(0);
  }

  private reveal(item: number): EngineApi["reveal"]["result"] {
    const s = this.session;
    const out: [number, number][] = [];
    if (!s || s.flat) return { changes: out, large: -1, total: 0 };
    const h = s.h;
    const around: number[] = [];
    for (let p = h.parent[item]; p > h.nodes; p = h.parent[p]) around.push(p);
    // From the outside in, so that a group too large to unfold hides whatever lies in it.
    for (let i = around.length - 1; i >= 0; i--) {
      const g = around[i] - h.nodes;
      const child = i > 0 ? around[i - 1] : item;
      const above = h.parent[around[i]] - h.nodes;
      // The first of identical groups is drawn inside its run, without a sheet of its own.
      if (above >= 0 && h.repeat[above] > 0 && firstTwin(h, above) === g && s.fold[above] !== EACH) continue;
      const each = h.repeat[g] > 0 && child >= h.nodes && (firstTwin(h, g) !== child - h.nodes || child === item);
      const state = each ? EACH : OPEN;
      if (s.fold[g] === state || s.fold[g] === EACH) continue;
      const total = shownMembers(h, g, h.repeat[g] > 0 && !each).length;
      if (total > LARGE) return { changes: out, large: around[i], total };
      out.push([groupKey(h, g), state]);
    }
    return { changes: out, large: -1, total: 0 };
  }
}

/** A view by a grouping that the graph has; where none is asked for, by step in training, by module otherwise. */
function grouped(view: ViewSpec, groupings: readonly string[]): ViewSpec {
  if (groupings.length === 0 || groupings.includes(view.grouping))
    return view.grouping ? view : { ...view, grouping: "module" };
  const best = [STEP, "module"].find((g) => groupings.includes(g)) ?? groupings[0];
  return { ...view, grouping: best };
}

/** Training as people speak of it: steps of forward, backward and update, with the modules inside each. */

import type { Graph } from "./graph";
import { addedColumns, addedGroups } from "./made";
import type { StageGraph } from "./stage";

/** The grouping that these groups belong to. */
export const STEP = "step";

const FORWARD = "forward";
const BACKWARD = "backward";
const UPDATE = "update";
const INITIALISATION = "initialisation";
/** Weights and what an optimiser keeps beside them: where a step starts from, not a part of the first one. */
const STATE = "state";

/** Where training starts from: none of what trains. */
export const isBeginning = (title: string): boolean => [INITIALISATION, STATE].includes(title.split(".", 1)[0]);

/** What a recorded phase is here; a phase of another name stays itself. */
function phaseName(recorded: string): string {
  if (/^optimi[sz]er$/i.test(recorded)) return UPDATE;
  return recorded || FORWARD;
}

/**
 * The stage's graph with a grouping by step and phase; null when nothing in it runs backwards. Steps are told
 * by the order of the file, which is the order of recording: after an update, what runs forward is the next.
 */
export function withSteps(stage: StageGraph): Graph | null {
  const { graph } = stage;
  const { groups, strings } = graph;
  const named = (row: number, kind: string): number => {
    for (let i = graph.groupsOf.offsets[row]; i < graph.groupsOf.offsets[row + 1]; i++) {
      const g = graph.groupsOf.values[i];
      if (g >= 0 && g < groups.rows && strings.at(groups.grouping[g]) === kind) return g;
    }
    return -1;
  };
  const kinds = new Set(Array.from(groups.grouping, (g) => strings.at(g)));
  if (!kinds.has("phase")) return null;
  // Where the module grouping has phases at its top already, the layers without them stand inside.
  const inner = kinds.has("layer") ? "layer" : "module";
  const phase: string[] = new Array<string>(graph.rows).fill("");
  let backwards = false;
  for (let r = 0; r < graph.rows; r++) {
    const n = stage.nodeOfRow[r];
    if (n < 0) continue;
    if (strings.at(graph.kind[r]) === "source") {
      if (graph.name[r] > 0 && stage.isInput[n] === 0) phase[r] = STATE;
      continue;
    }
    const g = named(r, "phase");
    phase[r] = phaseName(g < 0 ? "" : strings.at(groups.name[g]));
    if (phase[r].startsWith(BACKWARD)) backwards = true;
  }
  if (!backwards) return null;
  const step = new Int32Array(graph.rows);
  let steps = 0;
  for (let r = 0, updated = false; r < graph.rows; r++) {
    if (phase[r] === UPDATE) updated = true;
    else if (phase[r] === FORWARD && updated) {
      steps++;
      updated = false;
    }
    step[r] = steps;
  }
  for (let r = 0; r < graph.rows; r++) {
    const n = stage.nodeOfRow[r];
    if (n < 0 || phase[r] !== "" || stage.isInput[n] === 1) continue;
    // A constant that several steps read belongs to none of them.
    const users = stage.users.values.subarray(stage.users.offsets[n], stage.users.offsets[n + 1]);
    const read = users.map((u) => (stage.row[u] < 0 ? -1 : step[stage.row[u]]));
    if (read.some((k) => k !== read[0])) phase[r] = STATE;
  }
  return regroup(stage, phase, step, steps + 1, (r) => named(r, inner));
}

function regroup(
  stage: StageGraph,
  phase: readonly string[],
  step: Int32Array,
  steps: number,
  moduleOf: (row: number) => number,
): Graph {
  const { graph } = stage;
  const { groups, strings } = graph;
  const name: number[] = [];
  const parent: number[] = [];
  const cls: number[] = [];
  const known = new Map<string, number>();
  const at = (holder: number, text: number, kind: number, key: string): number => {
    let g = known.get(key);
    if (g === undefined) {
      g = groups.rows + name.push(text) - 1;
      parent.push(holder);
      cls.push(kind);
      known.set(key, g);
    }
    return g;
  };
  /** The group of a module inside a phase: a copy of its path there. */
  const within = (holder: number, module: number): number => {
    const path: number[] = [];
    for (let g = module; g >= 0 && path.length < 64; g = groups.parent[g]) path.push(g);
    for (const g of path.reverse()) holder = at(holder, groups.name[g], groups.cls[g], `${holder}/${g}`);
    return holder;
  };
  const home = new Int32Array(graph.rows).fill(-1);
  for (let r = 0; r < graph.rows; r++) {
    if (phase[r] === "") continue;
    const first = phase[r] === INITIALISATION || phase[r] === STATE;
    const outer = steps > 1 && !first ? at(-1, strings.intern(`step.${step[r]}`), 0, `step ${step[r]}`) : -1;
    const of = at(outer, strings.intern(phase[r]), 0, `${outer} ${phase[r]}`);
    home[r] = phase[r] === STATE ? of : within(of, moduleOf(r));
  }
  const columns = addedColumns(graph, strings.intern(STEP), parent, name);
  columns.cls.set(cls, groups.rows);
  return graph.joined([], { ...graph, groups: columns, groupsOf: addedGroups(graph, home) });
}

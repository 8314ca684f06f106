/** The memory plan as boxes: which tensor lies where in the arena, from the step that writes it to the last that reads it. */

import { nodeTitle, soleHome } from "../model/labels";
import { kernelTitles } from "./summary";
import { idOf, nodeOfId, type Shown } from "./shown";
import { tablesOf } from "./tables";

export interface MemoryBox {
  readonly item: number;
  readonly home: number;
  readonly title: string;
  readonly offset: number;
  readonly bytes: number;
  /** Steps, both included. */
  readonly from: number;
  readonly to: number;
}

export interface MemoryPlan {
  readonly boxes: readonly MemoryBox[];
  readonly steps: number;
  readonly arena: number;
}

/** Empty where the file has no plan for the stage shown. A tensor that is viewed lives as long as its views. */
export async function memoryPlan(s: Shown): Promise<MemoryPlan> {
  const table = await tablesOf(s.recording, s.graph.index).table("data");
  const none: MemoryPlan = { boxes: [], steps: 0, arena: 0 };
  if (!table) return none;
  const names = table.ints("name");
  const nodes = table.ints("node");
  const numbers = table.floats("number", NaN);
  const column = (wanted: string): Map<number, number> => {
    const out = new Map<number, number>();
    for (let r = 0; r < table.rows; r++) if (s.recording.strings.at(names[r]) === wanted) out.set(nodes[r], numbers[r]);
    return out;
  };
  const [offset, bytes, view] = [column("arena offset"), column("arena bytes"), column("view of")];
  const here = nodeOfId(s.stage);
  if (offset.size === 0 || ![...offset.keys()].every((id) => here.has(id))) return none;
  const { stage, graph } = s;
  const step = new Int32Array(stage.count).fill(-1);
  let steps = 0;
  for (let n = 0; n < stage.count; n++) {
    const r = stage.row[n];
    if (r >= 0 && graph.strings.at(graph.kind[r]) !== "source" && !view.has(graph.id[r])) step[n] = steps++;
  }
  const last = new Int32Array(stage.count).fill(-1);
  for (let n = stage.count - 1; n >= 0; n--) {
    last[n] = Math.max(last[n], step[n]);
    for (let i = stage.users.offsets[n]; i < stage.users.offsets[n + 1]; i++) {
      const user = stage.users.values[i];
      const r = stage.row[user];
      // An output lives to the end; a view reads when its own readers do.
      last[n] = Math.max(last[n], r < 0 ? steps - 1 : view.has(graph.id[r]) ? last[user] : step[user]);
    }
  }
  const titles = await kernelTitles(s);
  const boxes: MemoryBox[] = [];
  let arena = 0;
  for (const [id, at] of offset) {
    const n = here.get(id) as number;
    const size = bytes.get(id) ?? 0;
    arena = Math.max(arena, at + size);
    boxes.push({ item: n, home: soleHome(s.h, n), title: titles.get(idOf(stage, n)) || nodeTitle(s.h, n), offset: at, bytes: size, from: Math.max(0, step[n]), to: Math.max(step[n], last[n]) });
  }
  return { boxes, steps, arena };
}

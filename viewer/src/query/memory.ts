/** The memory plan as boxes: which tensor lies where in the arena, from the step that writes it to the last that reads it. */

import { groupTitle, nodeTitle, soleHome } from "../model/labels";
import { itemOfId } from "./names";
import type { Shown } from "./shown";
import { kernelTitles } from "./summary";
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

/** Empty where the file has no plan for the stage shown. */
export async function memoryPlan(s: Shown): Promise<MemoryPlan> {
  const tables = tablesOf(s.recording, s.graph.index);
  const table = await tables.table("buffers");
  const none: MemoryPlan = { boxes: [], steps: 0, arena: 0 };
  if (!table) return none;
  const { strings } = s.recording;
  const [nodes, places, ways] = [table.ints("node"), table.ints("place"), table.ints("how", -1)];
  const [offsets, bytes] = [table.floats("offset"), table.floats("bytes")];
  const [first, last] = [table.ints("first", -1), table.ints("last", -1)];
  const titles = await kernelTitles(s);
  const boxes: MemoryBox[] = [];
  let [arena, steps] = [0, 0];
  for (let r = 0; r < table.rows; r++) {
    // A view lies where its owner does, and lives with it.
    if (strings.at(places[r]) !== "arena" || (ways[r] >= 0 && strings.at(ways[r]) === "view")) continue;
    const item = itemOfId(s, nodes[r]);
    if (item === undefined) return none;
    const alone = item < s.h.nodes;
    arena = Math.max(arena, offsets[r] + bytes[r]);
    steps = Math.max(steps, last[r] + 1);
    boxes.push({
      item,
      home: alone ? soleHome(s.h, item) : -1,
      title: titles.get(nodes[r]) || (alone ? nodeTitle(s.h, item) : groupTitle(s.h, item - s.h.nodes)),
      offset: offsets[r],
      bytes: bytes[r],
      from: first[r],
      to: last[r],
    });
  }
  return { boxes, steps, arena };
}

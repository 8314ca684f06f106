/** What a box says when there is room for more than its name and type: attributes, time, share of the limit, code. */

import { percent, seconds } from "../base/format";
import { soleOp } from "../model/labels";
import { measure } from "../query/measures";
import { idOf, type Shown } from "../query/shown";
import { tablesOf } from "../query/tables";

/** As many lines as the largest box on screen has room for. */
const MOST_ATTRIBUTES = 6;
const MOST_CODE = 24;

/** Lines for each item, the most telling first; a module with one op says what that op says, other groups nothing. */
export async function factsOf(s: Shown, items: Int32Array): Promise<string[][]> {
  const { stage, graph } = s;
  const times = await measure(s, "time");
  const tables = tablesOf(s.recording, graph.index);
  const kernels = await tables.table("kernels");
  const out: string[][] = [];
  for (const asked of items) {
    const lines: string[] = [];
    out.push(lines);
    const item = asked >= s.h.nodes ? soleOp(s.h, asked - s.h.nodes) : asked;
    if (item < 0 || item >= stage.count || stage.row[item] < 0) continue;
    const row = stage.row[item];
    const { table, row: at } = graph.partOf(row);
    const keys = table.list("attr_keys");
    const values = table.list("attr_values");
    for (let i = keys.offsets[at]; i < Math.min(keys.offsets[at + 1], keys.offsets[at] + MOST_ATTRIBUTES); i++) {
      lines.push(`${graph.strings.head(keys.values[i], 30)} = ${graph.strings.head(values.values[i], 60)}`);
    }
    const time = times?.value[item] ?? NaN;
    const [kernel] = await tables.rows("kernels", "node", idOf(stage, item));
    const limit = kernels && kernel !== undefined ? kernels.floats("limit_seconds", NaN)[kernel] : NaN;
    if (time > 0) lines.push(limit > 0 ? `${seconds(time)} · ${percent(limit / time)} of limit` : seconds(time));
    if (kernels && kernel !== undefined) {
      const code = kernels.textAt("code", kernel);
      for (const line of code.split("\n", MOST_CODE)) if (line.trim()) lines.push(line.slice(0, 120));
    }
  }
  return out;
}

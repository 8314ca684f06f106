import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { Client, serve, type Port } from "../src/base/rpc";

type Small = {
  totals: { readonly arg: null; readonly result: string };
  find: { readonly arg: string; readonly result: string };
};

/** Ports that are open keep node from ending: every channel made in a test is closed after it. */
const ports: MessagePort[] = [];
const Channel = globalThis.MessageChannel;
globalThis.MessageChannel = class extends Channel {
  constructor() {
    super();
    ports.push(this.port1, this.port2);
  }
};
afterEach(() => {
  for (const p of ports.splice(0)) p.close();
});

test("a call that gives way is answered after those that came meanwhile; one that does not is answered first", async () => {
  for (const gives of [true, false]) {
    const { port1, port2 } = new MessageChannel();
    const said: string[] = [];
    let begun: () => void = () => undefined;
    const started = new Promise<void>((resolve) => (begun = resolve));
    serve<Small>(port1 as unknown as Port, {
      totals: async (_, call) => {
        begun();
        for (let k = 0; k < 20; k++) await (gives ? call.giveWay() : call.breathe());
        said.push("totals");
        return "";
      },
      find: (text) => {
        said.push(text);
        return text;
      },
    });
    const client = new Client<Small>(port2 as unknown as Port);
    const totals = client.call("totals", null);
    await started;
    await Promise.all([totals, client.call("find", "a"), client.call("find", "b")]);
    assert.deepEqual(said, gives ? ["a", "b", "totals"] : ["totals", "a", "b"]);
  }
});

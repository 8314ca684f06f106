/** Decides how the page starts the worker: from text inside the bundle, so that one file is enough. */

import { Client, type Port } from "../base/rpc";
import type { EngineApi } from "./api";

/** Put in place by build.mjs: the worker's bundle as text. */
declare const GLASS_WORKER: string;

export type EngineClient = Client<EngineApi>;

export function startEngine(): EngineClient {
  const url = URL.createObjectURL(new Blob([GLASS_WORKER], { type: "text/javascript" }));
  const worker = new Worker(url);
  const client = new Client<EngineApi>(worker as unknown as Port);
  worker.addEventListener("error", (e) => client.fail(new Error(e.message || "The worker stopped; the file may be too large for this browser's memory.")));
  return client;
}

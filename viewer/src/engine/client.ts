/** How the page starts the worker: from text inside the bundle, so that one file is enough. */

import { Client, type Port } from "../base/rpc";
import type { EngineApi } from "./api";

/** Put in place by build.mjs: the worker's bundle as text. */
declare const GLASS_WORKER: string;

export class EngineClient extends Client<EngineApi> {
  constructor(private readonly worker: Worker) {
    super(worker as unknown as Port);
    worker.addEventListener("error", (e) =>
      this.fail(new Error(e.message || "The worker stopped; the file may be too large for this browser's memory.")),
    );
  }

  dispose(): void {
    this.worker.terminate();
    this.fail(new Error("closed"));
  }
}

export function startEngine(): EngineClient {
  return new EngineClient(new Worker(URL.createObjectURL(new Blob([GLASS_WORKER], { type: "text/javascript" }))));
}

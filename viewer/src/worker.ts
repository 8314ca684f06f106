/** The worker's entry: serves the engine. */

import { serve, type Port } from "./base/rpc";
import type { EngineApi } from "./engine/api";
import { Engine } from "./engine/engine";

serve<EngineApi>(self as unknown as Port, new Engine().methods());

/** How a broken file is told to a person: what, where in the file, what to do. */

export class GlassError extends Error {
  /** `where` is the member, byte or key at fault; `help` is what the reader of the message can do. */
  constructor(
    message: string,
    readonly where = "",
    readonly help = "",
  ) {
    super(where ? `${where}: ${message}` : message);
    this.name = "GlassError";
  }
}

/** Thrown inside work that somebody called off; never shown. */
export class Cancelled extends Error {
  constructor() {
    super("cancelled");
    this.name = "Cancelled";
  }
}

export interface PlainError {
  readonly name: string;
  readonly message: string;
  readonly where: string;
  readonly help: string;
}

export function plainError(e: unknown): PlainError {
  if (e instanceof GlassError) return { name: e.name, message: e.message, where: e.where, help: e.help };
  if (e instanceof Error) return { name: e.name, message: e.message, where: "", help: "" };
  return { name: "Error", message: String(e), where: "", help: "" };
}

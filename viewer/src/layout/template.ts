/** What a laid-out group is: geometry without names, shared by all groups that look the same. */

/** Coordinates are relative to the group's top left corner, header and padding included. */
export interface Template {
  readonly w: number;
  readonly h: number;
  /** x, y, w, h of each member; w = 0 for one that a "+3" pill stands for. */
  readonly rect: Float32Array;
  /** 1 for a member drawn small beside its consumer. */
  readonly small: Uint8Array;
  /** Ends of each drawn edge: a member, or -1 - k for port k (input port as source, output port as target). */
  readonly edgeSrc: Int32Array;
  readonly edgeDst: Int32Array;
  /** EDGE, LINK (small box to its consumer) or TAG (named port to its consumer). */
  readonly edgeKind: Uint8Array;
  /** Index into the group's list of tensors (edges first, then input ports, then outputs): what it carries. */
  readonly edgeTensor: Int32Array;
  /** How many tensors the stroke stands for. */
  readonly edgeCount: Int32Array;
  readonly pathStart: Int32Array;
  readonly points: Float32Array;
  /** Named ports: x, y, w, h and the edge that each stands for; a "+3" pill has edge -1. */
  readonly tagRect: Float32Array;
  readonly tagEdge: Int32Array;
  /** For a "+3" pill: how many. For the sign of a wrapped edge: its number. */
  readonly tagMore: Int32Array;
  /** 0 for a named port or "+3"; EXIT or ENTRY for the signs at the two ends of a wrapped edge's gap. */
  readonly tagEnd: Uint8Array;
  /** Places of the ports on the border: x for downward drawings, y for left-to-right ones. */
  readonly inAt: Float32Array;
  readonly outAt: Float32Array;
  /** Edges that cross between neighbouring rows. */
  readonly tangles: number;
}

export const EDGE = 0;
export const LINK = 1;
export const TAG = 2;

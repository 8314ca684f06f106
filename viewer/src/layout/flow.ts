/** The terms in which a group is laid out: blocks and edges, flowing downwards; no meaning. */

/**
 * A problem for `arrange`. Blocks flow downwards (left-to-right drawings are transposed outside).
 * `kind` 0 is a box; 1 an input port (top border); 2 an output port (bottom border). A block may be
 * larger than the box inside it: satellites stand at the box's left, tags above it.
 */
export interface Flow {
  readonly n: number;
  readonly kind: Uint8Array;
  readonly w: Float32Array;
  readonly h: Float32Array;
  /** Where edges meet the block when nothing else is said: offset of the box's middle from the block's left. */
  readonly axis: Float32Array;
  /** The box's top and bottom inside the block. */
  readonly top: Float32Array;
  readonly bottom: Float32Array;
  /** Length that edges run straight under the block, so that their shape can be written beside them. */
  readonly stem: Float32Array;
  /** Size of the sign that names the block where one of its tensors goes on in another column. */
  readonly signW: Float32Array;
  readonly signH: Float32Array;
  readonly m: number;
  readonly src: Int32Array;
  readonly dst: Int32Array;
  /** Offsets from the axis where an edge leaves and enters; NaN lets the layout spread them. */
  readonly leave: Float32Array;
  readonly enter: Float32Array;
  /** Edges with the same `net` carry the same tensor and may share a lane. */
  readonly net: Int32Array;
  /** Where along the border each port should stand beside the others, as the drawing around wants it; null where it does not mind. */
  readonly portAt: Float32Array | null;
  /** Whether the order of boxes is worth several tries. */
  readonly careful: boolean;
  /** Whether boxes are ordered as if the ports of unfolded groups could stand in any order. */
  readonly loose: boolean;
}

/** What `arrange` found. Coordinates start at 0, 0; ports have their x on the border. */
export interface Arrangement {
  readonly width: number;
  readonly height: number;
  readonly x: Float32Array;
  readonly y: Float32Array;
  /**
   * Edge e runs through points[3 * pathStart[e] ..]: x, y and the bend of the stretch that ends there. A
   * stretch leaves and arrives vertically: a straight line when x is the same, an S-curve when the flow goes
   * down, and with bend b != 0 a U-turn that swings |b| below (b > 0) or above (b < 0) both points. NaN is
   * a gap: a wrapped edge ends at one sign and goes on at another.
   */
  readonly pathStart: Int32Array;
  readonly points: Float32Array;
  /** Signs of wrapped edges; none in a drawing of one column. */
  readonly signs: readonly Sign[];
  /** Edges that cross between neighbouring rows, and for each skip on the wrong side a thousandth. */
  readonly tangles: number;
}

/** Where a wrapped edge ends (EXIT) or goes on (ENTRY); signs with one number belong together. */
export interface Sign {
  readonly x: number;
  readonly y: number;
  readonly edge: number;
  readonly end: number;
  readonly number: number;
}

export const EXIT = 1;
export const ENTRY = 2;

export interface Work {
  /** Steps of each kind, so that tests can hold the work near linear without looking at a clock. */
  ranks: number;
  sweeps: number;
  lanes: number;
  dummies: number;
}

export const newWork = (): Work => ({ ranks: 0, sweeps: 0, lanes: 0, dummies: 0 });

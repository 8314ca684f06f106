/** How a draw list is drawn with WebGL2: one call for each run of marks of one kind. */

import { alphaOf, blue, green, red, type Rgba } from "../base/color";
import { Words, type DrawList, type Mark } from "./draw_list";
import { TextFit } from "./fonts";
import type { Renderer } from "./renderer";
import { BOX_FS, BOX_VS, FILL_FS, FILL_VS, STROKE_FS, STROKE_VS, TEXT_FS, TEXT_VS } from "./shaders";
import { TextAtlas, type Slot } from "./text_atlas";
import {
  BOX_VERTEX,
  boxVertices,
  cornerVertices,
  curveVertices,
  FILL_VERTEX,
  fillVertices,
  lineVertices,
  STROKE_VERTEX,
  TEXT_VERTEX,
} from "./vertices";

const NO_SLOT: Slot = { u: 0, v: 0, w: 0, h: 0, colored: false };

export class WebGlRenderer implements Renderer {
  readonly kind = "webgl2";
  private width = 1;
  private height = 1;
  private ratio = 1;
  private readonly batches: Readonly<Record<Mark, Batch>>;
  private readonly texts: Batch;
  private readonly atlas = new TextAtlas();
  private readonly fit: TextFit;
  private readonly texture: WebGLTexture;
  private readonly quads: QuadIndex;
  private curveEnds = new Int32Array(256);

  /** Null where the browser has no WebGL2. */
  static create(canvas: HTMLCanvasElement): WebGlRenderer | null {
    const gl = canvas.getContext("webgl2", {
      alpha: false,
      antialias: false,
      depth: false,
      stencil: false,
      preserveDrawingBuffer: false,
    });
    return gl ? new WebGlRenderer(canvas, gl) : null;
  }

  private constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly gl: WebGL2RenderingContext,
  ) {
    // All are compiled before the first is used, so that a browser can do it side by side.
    const fill = link(gl, FILL_VS, FILL_FS);
    const box = link(gl, BOX_VS, BOX_FS);
    const stroke = link(gl, STROKE_VS, STROKE_FS);
    const text = link(gl, TEXT_VS, TEXT_FS);
    this.quads = new QuadIndex(gl);
    const boxLayout: Layout = [[2], [2], [2], [4], "color", "color", "color"];
    const strokeLayout: Layout = [[2], [2], "color"];
    this.batches = {
      fills: new Batch(gl, fill, FILL_VERTEX, [[2], "color"]),
      corners: new Batch(gl, box, BOX_VERTEX, boxLayout),
      boxes: new Batch(gl, box, BOX_VERTEX, boxLayout),
      lines: new Batch(gl, stroke, STROKE_VERTEX, strokeLayout),
      curves: new Batch(gl, stroke, STROKE_VERTEX, strokeLayout),
    };
    this.texts = new Batch(gl, text, TEXT_VERTEX, [[2], [2], "color", [1]]);
    const ctx = document.createElement("canvas").getContext("2d");
    if (!ctx) throw new Error("no 2d canvas");
    this.fit = new TextFit(ctx);
    this.texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA8, this.atlas.size, this.atlas.size);
    for (const [name, value] of [
      [gl.TEXTURE_MIN_FILTER, gl.LINEAR],
      [gl.TEXTURE_MAG_FILTER, gl.LINEAR],
      [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE],
      [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE],
    ] as const)
      gl.texParameteri(gl.TEXTURE_2D, name, value);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  resize(width: number, height: number, ratio: number): void {
    const w = Math.max(1, Math.round(width * ratio));
    const h = Math.max(1, Math.round(height * ratio));
    if (this.canvas.width !== w) this.canvas.width = w;
    if (this.canvas.height !== h) this.canvas.height = h;
    if (ratio !== this.ratio) this.atlas.clear();
    this.width = w;
    this.height = h;
    this.ratio = ratio;
    this.gl.viewport(0, 0, w, h);
  }

  draw(list: DrawList, background: Rgba): void {
    const gl = this.gl;
    gl.clearColor(red(background) / 255, green(background) / 255, blue(background) / 255, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    this.load(list);
    this.loadTexts(list);
    for (const [what, start, end] of list.runs) {
      if (what === "texts") {
        gl.enable(gl.BLEND);
        this.texts.use(this.width, this.height);
        gl.uniform1f(this.texts.uniform("uAtlas"), this.atlas.size);
        this.quads.draw(start, end - start);
        continue;
      }
      // Opaque fills need no blending.
      if (what === "fills") gl.disable(gl.BLEND);
      else gl.enable(gl.BLEND);
      const batch = this.batches[what];
      batch.use(this.width, this.height);
      if (what === "curves") {
        const first = start > 0 ? this.curveEnds[start - 1] - start : 0;
        batch.drawIndexed(first, this.curveEnds[end - 1] - end - first);
      } else {
        const each = what === "corners" ? 4 : 1;
        this.quads.draw(start * each, (end - start) * each);
      }
    }
  }

  private load(list: DrawList): void {
    const { ratio, batches } = this;
    fillVertices(batches.fills.vertices, list.fills, ratio);
    cornerVertices(batches.corners.vertices, list.corners, ratio);
    boxVertices(batches.boxes.vertices, list.boxes, ratio);
    lineVertices(batches.lines.vertices, list.lines, ratio);
    if (this.curveEnds.length < list.curves.length) this.curveEnds = new Int32Array(list.curves.length * 2);
    curveVertices(batches.curves.vertices, list.curves, ratio, this.curveEnds);
    let most = 0;
    for (const k of ["fills", "corners", "boxes", "lines"] as const) {
      batches[k].upload();
      most = Math.max(most, batches[k].vertices.length);
    }
    this.quads.reserve(Math.max(most / 4, list.texts.length));
    batches.curves.upload();
    batches.curves.indexStrips(this.curveEnds, list.curves.length);
    for (const k of ["fills", "corners", "boxes", "lines"] as const) this.quads.attach(batches[k]);
  }

  private loadTexts(list: DrawList): void {
    // The atlas ran full half-way: earlier slots are void, so the page of texts is set once more.
    if (!this.fillTexts(list)) this.fillTexts(list);
    const words = this.texts.vertices;
    if (words.length === 0) return;
    const gl = this.gl;
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    const dirty = this.atlas.takeDirty();
    if (dirty) {
      gl.pixelStorei(gl.UNPACK_PREMULTIPLY_ALPHA_WEBGL, false);
      gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, dirty[0], gl.RGBA, gl.UNSIGNED_BYTE, this.atlas.pixels(dirty[0], dirty[1]));
    }
    this.texts.upload();
    this.quads.attach(this.texts);
  }

  /** False when the atlas was emptied on the way. */
  private fillTexts(list: DrawList): boolean {
    const generation = this.atlas.generation;
    const words = this.texts.vertices;
    words.length = 0;
    for (const t of list.texts) {
      // Every text has its quad, an empty one where there is nothing to see: runs count texts.
      const px = Math.min(200, Math.max(1, Math.round(t.px * this.ratio)));
      const text = alphaOf(t.color) === 0 ? "" : this.fit.cut(t.text, px / this.ratio, t.face, t.maxWidth);
      const slot = (text ? this.atlas.slot(text, px, t.face, (t.color | 0xff000000) >>> 0) : null) ?? NO_SLOT;
      if (this.atlas.generation !== generation && words.length > 0) return false;
      const x = Math.round(t.x * this.ratio - (slot.w - 2) * t.align) - 1;
      const y = Math.round(t.y * this.ratio - px * 0.72) - 1;
      for (let k = 0; k < 4; k++) {
        const at = words.next();
        const { f, u } = words;
        const dx = k & 1 ? slot.w : 0;
        const dy = k & 2 ? slot.h : 0;
        f[at] = x + dx;
        f[at + 1] = y + dy;
        f[at + 2] = slot.u + dx;
        f[at + 3] = slot.v + dy;
        u[at + 4] = t.color;
        f[at + 5] = slot.colored ? 1 : 0;
      }
    }
    return true;
  }

  sound(): boolean {
    return this.gl.isContextLost() || [...Object.values(this.batches), this.texts].every((b) => b.linked());
  }

  dispose(): void {
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }
}

type Layout = readonly (readonly [size: number] | "color")[];

/** Vertices of one kind, with the shaders that draw them. */
class Batch {
  readonly vertices: Words;
  readonly array: WebGLVertexArrayObject;
  private readonly buffer: WebGLBuffer;
  private readonly uniforms = new Map<string, WebGLUniformLocation | null>();
  private capacity = 0;
  private indices = new Uint32Array(0);
  private indexBuffer: WebGLBuffer | null = null;
  private indexCapacity = 0;

  constructor(
    private readonly gl: WebGL2RenderingContext,
    private readonly program: WebGLProgram,
    words: number,
    layout: Layout,
  ) {
    this.vertices = new Words(words);
    this.buffer = gl.createBuffer();
    this.array = gl.createVertexArray();
    gl.bindVertexArray(this.array);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer);
    let at = 0;
    layout.forEach((part, i) => {
      gl.enableVertexAttribArray(i);
      if (part === "color") gl.vertexAttribPointer(i, 4, gl.UNSIGNED_BYTE, true, words * 4, at * 4);
      else gl.vertexAttribPointer(i, part[0], gl.FLOAT, false, words * 4, at * 4);
      at += part === "color" ? 1 : part[0];
    });
    gl.bindVertexArray(null);
  }

  uniform(name: string): WebGLUniformLocation | null {
    let u = this.uniforms.get(name);
    if (u === undefined) this.uniforms.set(name, (u = this.gl.getUniformLocation(this.program, name)));
    return u;
  }

  linked(): boolean {
    return this.gl.getProgramParameter(this.program, this.gl.LINK_STATUS) === true;
  }

  use(width: number, height: number): void {
    this.gl.useProgram(this.program);
    this.gl.uniform2f(this.uniform("uSize"), width, height);
    this.gl.bindVertexArray(this.array);
  }

  upload(): void {
    const gl = this.gl;
    const words = this.vertices.f.subarray(0, this.vertices.length * this.vertices.stride);
    if (words.length === 0) return;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer);
    if (words.byteLength > this.capacity) {
      this.capacity = words.byteLength * 2;
      gl.bufferData(gl.ARRAY_BUFFER, this.capacity, gl.DYNAMIC_DRAW);
    }
    gl.bufferSubData(gl.ARRAY_BUFFER, 0, words);
  }

  /** Indices for strips of vertex pairs; a strip of p pairs has p - 1 quads. */
  indexStrips(ends: Int32Array, count: number): void {
    const gl = this.gl;
    if (count === 0) return;
    const quads = ends[count - 1] - count;
    if (this.indices.length < quads * 6) this.indices = new Uint32Array(quads * 12);
    let to = 0;
    for (let i = 0, from = 0; i < count; i++) {
      for (let p = from; p + 1 < ends[i]; p++) {
        const v = p * 2;
        this.indices[to++] = v;
        this.indices[to++] = v + 1;
        this.indices[to++] = v + 2;
        this.indices[to++] = v + 2;
        this.indices[to++] = v + 1;
        this.indices[to++] = v + 3;
      }
      from = ends[i];
    }
    gl.bindVertexArray(this.array);
    this.indexBuffer ??= gl.createBuffer();
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.indexBuffer);
    if (to * 4 > this.indexCapacity) {
      this.indexCapacity = to * 8;
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, this.indexCapacity, gl.DYNAMIC_DRAW);
    }
    gl.bufferSubData(gl.ELEMENT_ARRAY_BUFFER, 0, this.indices.subarray(0, to));
  }

  drawIndexed(firstQuad: number, quads: number): void {
    if (quads > 0) this.gl.drawElements(this.gl.TRIANGLES, quads * 6, this.gl.UNSIGNED_INT, firstQuad * 24);
  }
}

/** One index buffer for all lists of quads: 0 1 2, 2 1 3, and so on. */
class QuadIndex {
  private readonly buffer: WebGLBuffer;
  private quads = 0;

  constructor(private readonly gl: WebGL2RenderingContext) {
    this.buffer = gl.createBuffer();
  }

  reserve(quads: number): void {
    if (quads <= this.quads) return;
    this.quads = Math.max(4096, Math.ceil(quads * 1.5));
    const data = new Uint32Array(this.quads * 6);
    for (let q = 0; q < this.quads; q++)
      data.set([4 * q, 4 * q + 1, 4 * q + 2, 4 * q + 2, 4 * q + 1, 4 * q + 3], 6 * q);
    this.gl.bindVertexArray(null);
    this.gl.bindBuffer(this.gl.ELEMENT_ARRAY_BUFFER, this.buffer);
    this.gl.bufferData(this.gl.ELEMENT_ARRAY_BUFFER, data, this.gl.STATIC_DRAW);
  }

  attach(batch: Batch): void {
    this.gl.bindVertexArray(batch.array);
    this.gl.bindBuffer(this.gl.ELEMENT_ARRAY_BUFFER, this.buffer);
  }

  draw(first: number, quads: number): void {
    this.gl.drawElements(this.gl.TRIANGLES, quads * 6, this.gl.UNSIGNED_INT, first * 24);
  }
}

function link(gl: WebGL2RenderingContext, vs: string, fs: string): WebGLProgram {
  const program = gl.createProgram();
  for (const [type, source] of [
    [gl.VERTEX_SHADER, vs],
    [gl.FRAGMENT_SHADER, fs],
  ] as const) {
    const shader = gl.createShader(type);
    if (!shader) throw new Error("no shader");
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  // Asking for the outcome here would wait for the compiler.
  gl.linkProgram(program);
  return program;
}

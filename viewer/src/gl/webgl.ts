/** Decides how a draw list is drawn with WebGL2: one call for each run of marks of one kind. */

import { alphaOf, blue, green, red, type Rgba } from "../base/color";
import { ROW_WORDS, Words, type DrawList, type Kind } from "./draw_list";
import { TextFit } from "./fonts";
import type { Renderer } from "./renderer";
import {
  BOX_FS, BOX_VERTICES, BOX_VS, CURVE_VS, FILL_FS, FILL_VERTICES, FILL_VS, LINE_VERTICES, LINE_VS, RING_VERTICES, RING_VS, STROKE_FS,
  TEXT_FS, TEXT_VERTICES, TEXT_VS,
} from "./shaders";
import { TextAtlas } from "./text_atlas";

const TEXT_WORDS = 12;
/** Stretches of a curve; with very many on screen each is short, and fewer will do. */
const STEPS = 18;
const STEPS_MANY = 6;
const MANY_CURVES = 6000;

export class WebGlRenderer implements Renderer {
  readonly kind = "webgl2";
  private width = 1;
  private height = 1;
  private ratio = 1;
  private readonly programs: Readonly<Record<Kind, Program>>;
  private readonly texts: Program;
  private readonly atlas = new TextAtlas();
  private readonly fit: TextFit;
  private readonly texture: WebGLTexture;
  private readonly textWords = new Words(TEXT_WORDS);

  /** Null where the browser has no WebGL2. */
  static create(canvas: HTMLCanvasElement): WebGlRenderer | null {
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false, stencil: false, preserveDrawingBuffer: false });
    return gl ? new WebGlRenderer(canvas, gl) : null;
  }

  private constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly gl: WebGL2RenderingContext,
  ) {
    this.programs = {
      fills: new Program(gl, FILL_VS, FILL_FS, FILL_VERTICES),
      rings: new Program(gl, RING_VS, BOX_FS, RING_VERTICES),
      boxes: new Program(gl, BOX_VS, BOX_FS, BOX_VERTICES),
      lines: new Program(gl, LINE_VS, STROKE_FS, LINE_VERTICES),
      curves: new Program(gl, CURVE_VS, STROKE_FS, 6),
    };
    this.texts = new Program(gl, TEXT_VS, TEXT_FS, TEXT_VERTICES);
    const ctx = document.createElement("canvas").getContext("2d");
    if (!ctx) throw new Error("no 2d canvas");
    this.fit = new TextFit(ctx);
    const texture = gl.createTexture();
    this.texture = texture;
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA8, this.atlas.size, this.atlas.size);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.LINEAR);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
    gl.activeTexture(gl.TEXTURE0);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  resize(width: number, height: number, ratio: number): void {
    const w = Math.max(1, Math.round(width * ratio));
    const h = Math.max(1, Math.round(height * ratio));
    if (this.canvas.width !== w) this.canvas.width = w;
    if (this.canvas.height !== h) this.canvas.height = h;
    if (ratio !== this.ratio) this.atlas.clear();
    this.width = w / ratio;
    this.height = h / ratio;
    this.ratio = ratio;
    this.gl.viewport(0, 0, w, h);
  }

  draw(list: DrawList, background: Rgba): void {
    const gl = this.gl;
    gl.clearColor(red(background) / 255, green(background) / 255, blue(background) / 255, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const view: View = { width: this.width, height: this.height, ratio: this.ratio };
    for (const k of KINDS) this.programs[k].load(list[k]);
    const steps = list.curves.length > MANY_CURVES ? STEPS_MANY : STEPS;
    for (const [what, start, end] of list.runs) {
      // Opaque insides need no blending; for a software renderer that is most of a frame.
      if (what === "fills") gl.disable(gl.BLEND);
      this.programs[what].draw(view, start, end, what === "curves" ? steps : 1);
      if (what === "fills") gl.enable(gl.BLEND);
    }
    this.drawTexts(list);
  }

  private drawTexts(list: DrawList): void {
    let whole = this.fillTexts(list);
    // The atlas ran full half-way: earlier slots are void, so the page of texts is set once more.
    if (!whole) whole = this.fillTexts(list);
    if (this.textWords.length === 0) return;
    const gl = this.gl;
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    const dirty = this.atlas.takeDirty();
    if (dirty) {
      gl.pixelStorei(gl.UNPACK_PREMULTIPLY_ALPHA_WEBGL, false);
      gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, dirty[0], gl.RGBA, gl.UNSIGNED_BYTE, this.atlas.pixels(dirty[0], dirty[1]));
    }
    gl.activeTexture(gl.TEXTURE0);
    this.texts.load(this.textWords);
    this.texts.use();
    gl.uniform1f(this.texts.uniform("uAtlas"), this.atlas.size);
    gl.uniform1i(this.texts.uniform("uTexture"), 1);
    this.texts.draw({ width: this.width, height: this.height, ratio: this.ratio }, 0, this.textWords.length, 1);
  }

  /** False when the atlas was emptied on the way. */
  private fillTexts(list: DrawList): boolean {
    const generation = this.atlas.generation;
    const words = this.textWords;
    words.length = 0;
    for (const t of list.texts) {
      if (alphaOf(t.color) === 0) continue;
      const px = Math.min(200, Math.max(1, Math.round(t.px * this.ratio)));
      const text = this.fit.cut(t.text, px / this.ratio, t.face, t.maxWidth);
      if (!text) continue;
      const slot = this.atlas.slot(text, px, t.face);
      if (!slot) continue;
      if (this.atlas.generation !== generation && words.length > 0) return false;
      const at = words.next();
      const w = words.f;
      w[at] = Math.round(t.x * this.ratio - (slot.w - 2) * t.align) - 1;
      w[at + 1] = Math.round(t.y * this.ratio - px * 0.72) - 1;
      w[at + 2] = slot.w;
      w[at + 3] = slot.h;
      w[at + 4] = slot.u;
      w[at + 5] = slot.v;
      w[at + 6] = slot.w;
      w[at + 7] = slot.h;
      words.u[at + 8] = t.color;
      words.u[at + 9] = slot.colored ? 1 : 0;
    }
    return true;
  }

  dispose(): void {
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }
}

const KINDS = ["fills", "rings", "boxes", "lines", "curves"] as const;

interface View {
  readonly width: number;
  readonly height: number;
  readonly ratio: number;
}

/** A pair of shaders with the data texture that its marks lie in. */
class Program {
  private readonly program: WebGLProgram;
  private readonly array: WebGLVertexArrayObject;
  private readonly uniforms = new Map<string, WebGLUniformLocation | null>();
  private data: WebGLTexture | null = null;
  private rows = 0;

  constructor(
    private readonly gl: WebGL2RenderingContext,
    vs: string,
    fs: string,
    private readonly vertices: number,
  ) {
    this.program = link(gl, vs, fs);
    this.array = gl.createVertexArray();
  }

  uniform(name: string): WebGLUniformLocation | null {
    let u = this.uniforms.get(name);
    if (u === undefined) this.uniforms.set(name, (u = this.gl.getUniformLocation(this.program, name)));
    return u;
  }

  use(): void {
    this.gl.useProgram(this.program);
  }

  load(words: Words): void {
    if (words.length === 0) return;
    const gl = this.gl;
    const rows = Math.ceil((words.length * words.stride) / ROW_WORDS);
    if (rows > this.rows) {
      if (this.data) gl.deleteTexture(this.data);
      this.data = gl.createTexture();
      this.rows = Math.max(2, 2 ** Math.ceil(Math.log2(rows)));
      gl.bindTexture(gl.TEXTURE_2D, this.data);
      gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA32UI, ROW_WORDS / 4, this.rows);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
    }
    gl.bindTexture(gl.TEXTURE_2D, this.data);
    const used = words.u.subarray(0, rows * ROW_WORDS);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, ROW_WORDS / 4, rows, gl.RGBA_INTEGER, gl.UNSIGNED_INT, used);
  }

  draw(view: View, start: number, end: number, steps: number): void {
    if (end <= start) return;
    const gl = this.gl;
    this.use();
    gl.uniform2f(this.uniform("uSize"), view.width, view.height);
    gl.uniform1f(this.uniform("uRatio"), view.ratio);
    gl.uniform1i(this.uniform("uFirst"), start);
    if (steps > 1) gl.uniform1i(this.uniform("uSteps"), steps);
    gl.bindTexture(gl.TEXTURE_2D, this.data);
    gl.bindVertexArray(this.array);
    gl.drawArrays(gl.TRIANGLES, 0, (end - start) * this.vertices * steps);
  }
}

function link(gl: WebGL2RenderingContext, vs: string, fs: string): WebGLProgram {
  const program = gl.createProgram();
  for (const [type, source] of [[gl.VERTEX_SHADER, vs], [gl.FRAGMENT_SHADER, fs]] as const) {
    const shader = gl.createShader(type);
    if (!shader) throw new Error("no shader");
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader) ?? "shader");
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program) ?? "program");
  return program;
}

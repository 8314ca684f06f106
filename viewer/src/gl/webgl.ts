/** Decides how a draw list is drawn with WebGL2: one instanced call for each run of boxes or curves. */

import { alphaOf, blue, green, red, type Rgba } from "../base/color";
import { BOX_WORDS, CURVE_WORDS, type DrawList } from "./draw_list";
import { TextFit } from "./fonts";
import type { Renderer } from "./renderer";
import { BOX_FS, BOX_VS, CURVE_FS, CURVE_VS, TEXT_FS, TEXT_VS } from "./shaders";
import { TextAtlas } from "./text_atlas";

const TEXT_WORDS = 10;
/** Stretches of a curve; with very many on screen each is short, and fewer will do. */
const STEPS = 14;
const STEPS_MANY = 6;
const MANY_CURVES = 6000;

export class WebGlRenderer implements Renderer {
  readonly kind = "webgl2";
  private width = 1;
  private height = 1;
  private ratio = 1;
  private readonly boxes: Program;
  private readonly curves: Program;
  private readonly texts: Program;
  private readonly atlas = new TextAtlas();
  private readonly fit: TextFit;
  private readonly texture: WebGLTexture;
  private textWords = new Float32Array(1024 * TEXT_WORDS);
  private textInts = new Uint32Array(this.textWords.buffer);

  /** Null where the browser has no WebGL2. */
  static create(canvas: HTMLCanvasElement): WebGlRenderer | null {
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false, stencil: false, preserveDrawingBuffer: false });
    return gl ? new WebGlRenderer(canvas, gl) : null;
  }

  private constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly gl: WebGL2RenderingContext,
  ) {
    this.boxes = new Program(gl, BOX_VS, BOX_FS, BOX_WORDS, [[4, false], [4, false], [4, true], [4, true], [4, true]]);
    this.curves = new Program(gl, CURVE_VS, CURVE_FS, CURVE_WORDS, [[4, false], [4, false], [2, false], [4, true]]);
    this.texts = new Program(gl, TEXT_VS, TEXT_FS, TEXT_WORDS, [[4, false], [4, false], [4, true], [1, false]]);
    const ctx = document.createElement("canvas").getContext("2d");
    if (!ctx) throw new Error("no 2d canvas");
    this.fit = new TextFit(ctx);
    const texture = gl.createTexture();
    this.texture = texture;
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA8, this.atlas.size, this.atlas.size);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.LINEAR);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
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
    this.boxes.load(list.boxes.f.subarray(0, list.boxes.length * BOX_WORDS));
    this.curves.load(list.curves.f.subarray(0, list.curves.length * CURVE_WORDS));
    const steps = list.curves.length > MANY_CURVES ? STEPS_MANY : STEPS;
    for (const [what, start, end] of list.runs) {
      if (what === "boxes") this.boxes.draw(this.width, this.height, this.ratio, start, end, 4);
      else this.curves.draw(this.width, this.height, this.ratio, start, end, (steps + 1) * 2, steps);
    }
    this.drawTexts(list);
  }

  private drawTexts(list: DrawList): void {
    let count = this.fillTexts(list);
    // The atlas ran full half-way: earlier slots are void, so the page of texts is set once more.
    if (count < 0) count = this.fillTexts(list);
    if (count <= 0) return;
    const gl = this.gl;
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    const dirty = this.atlas.takeDirty();
    if (dirty) {
      gl.pixelStorei(gl.UNPACK_PREMULTIPLY_ALPHA_WEBGL, false);
      const pixels = this.atlas.pixels(dirty[0], dirty[1]);
      gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, dirty[0], gl.RGBA, gl.UNSIGNED_BYTE, pixels);
    }
    this.texts.load(this.textWords.subarray(0, count * TEXT_WORDS));
    this.texts.use();
    gl.uniform1f(this.texts.uniform("uAtlas"), this.atlas.size);
    this.texts.draw(this.width, this.height, this.ratio, 0, count, 4);
  }

  private fillTexts(list: DrawList): number {
    const generation = this.atlas.generation;
    if (this.textWords.length < list.texts.length * TEXT_WORDS) {
      this.textWords = new Float32Array(list.texts.length * 2 * TEXT_WORDS);
      this.textInts = new Uint32Array(this.textWords.buffer);
    }
    let n = 0;
    for (const t of list.texts) {
      if (alphaOf(t.color) === 0) continue;
      const px = Math.min(200, Math.max(1, Math.round(t.px * this.ratio)));
      const text = this.fit.cut(t.text, px / this.ratio, t.face, t.maxWidth);
      if (!text) continue;
      const slot = this.atlas.slot(text, px, t.face);
      if (!slot) continue;
      if (this.atlas.generation !== generation && n > 0) return -1;
      const at = n * TEXT_WORDS;
      const w = this.textWords;
      w[at] = Math.round(t.x * this.ratio - (slot.w - 2) * t.align) - 1;
      w[at + 1] = Math.round(t.y * this.ratio - px * 0.72) - 1;
      w[at + 2] = slot.w;
      w[at + 3] = slot.h;
      w[at + 4] = slot.u;
      w[at + 5] = slot.v;
      w[at + 6] = slot.w;
      w[at + 7] = slot.h;
      this.textInts[at + 8] = t.color;
      w[at + 9] = slot.colored ? 1 : 0;
      n++;
    }
    return n;
  }

  dispose(): void {
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }
}

class Program {
  private readonly program: WebGLProgram;
  private readonly buffer: WebGLBuffer;
  private readonly array: WebGLVertexArrayObject;
  private readonly uniforms = new Map<string, WebGLUniformLocation | null>();
  private capacity = 0;
  private base = -1;

  constructor(
    private readonly gl: WebGL2RenderingContext,
    vs: string,
    fs: string,
    private readonly words: number,
    private readonly layout: readonly (readonly [size: number, isColor: boolean])[],
  ) {
    this.program = link(gl, vs, fs);
    this.buffer = gl.createBuffer();
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

  load(words: Float32Array): void {
    const gl = this.gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer);
    if (words.byteLength > this.capacity) {
      this.capacity = words.byteLength * 2;
      gl.bufferData(gl.ARRAY_BUFFER, this.capacity, gl.DYNAMIC_DRAW);
    }
    gl.bufferSubData(gl.ARRAY_BUFFER, 0, words);
    this.base = -1;
  }

  draw(width: number, height: number, ratio: number, start: number, end: number, vertices: number, steps = 0): void {
    if (end <= start) return;
    const gl = this.gl;
    this.use();
    gl.uniform2f(this.uniform("uSize"), width, height);
    gl.uniform1f(this.uniform("uRatio"), ratio);
    if (steps) gl.uniform1f(this.uniform("uSteps"), steps);
    gl.bindVertexArray(this.array);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer);
    if (this.base !== start) {
      // WebGL2 has no base instance: the pointers move instead.
      let word = 0;
      this.layout.forEach(([size, isColor], i) => {
        gl.enableVertexAttribArray(i);
        const offset = (start * this.words + word) * 4;
        if (isColor) gl.vertexAttribPointer(i, 4, gl.UNSIGNED_BYTE, true, this.words * 4, offset);
        else gl.vertexAttribPointer(i, size, gl.FLOAT, false, this.words * 4, offset);
        gl.vertexAttribDivisor(i, 1);
        word += isColor ? 1 : size;
      });
      this.base = start;
    }
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, vertices, end - start);
    gl.bindVertexArray(null);
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

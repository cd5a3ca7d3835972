// One scatter plot, before or after. No text of the data is handed to plotly, which would read markup in it.

// Without WebGL plotly draws each point as an element: that many are still quick.
const MOST_AS_SVG = 5000;

function hasWebGL() {
  try {
    return Boolean(document.createElement("canvas").getContext("webgl"));
  } catch {
    return false;
  }
}

class Picture {
  /** `kind` is "webgl", "svg" or "still"; `choose` and `hover` are called with a row or null. */
  constructor(which, rows, kind, { choose, hover, turned }) {
    this.which = which;
    this.rows = rows;
    this.kind = kind;
    this.plot = $(`${which}-plot`);
    this.frame = $(`${which}-frame`);
    this.choose = choose;
    this.hover = hover;
    this.turned = (camera) => turned(this, camera);
    this.drawn = false;
    this.boxZoom = false;
    this.overlay = { chosen: null, found: [] };
    this.frame.addEventListener("wheel", (event) => this.keepScroll(event), { capture: true });
  }

  /** The wheel scrolls the page until someone has clicked into the picture. */
  keepScroll(event) {
    if (!event.ctrlKey && !this.frame.contains(document.activeElement)) event.stopPropagation();
  }

  get size() {
    const n = this.rows.n;
    const size = n <= 500 ? 9 : n <= 3000 ? 7 : n <= 20000 ? 5 : 3.5;
    return this.rows.d === 3 ? Math.max(size - 3, 2) : size;
  }

  get opacity() {
    return this.rows.n <= 500 ? 0.9 : this.rows.n <= 3000 ? 0.8 : 0.65;
  }

  /** The traces: one for each class, and one around the rows that were found. */
  traces() {
    const { rows } = this;
    const points = rows.points(this.which);
    const flat = rows.d === 2;
    const type = flat ? (this.kind === "svg" ? "scatter" : "scattergl") : "scatter3d";
    const traces = rows.lists.map((list, code) => ({
      type, mode: "markers", hoverinfo: "none", showlegend: false, ...taken(points, list),
      marker: this.marker(list, code),
    }));
    traces.push({
      type, mode: "markers", hoverinfo: "skip", showlegend: false, ...taken(points, this.overlay.found),
      marker: {
        symbol: "circle-open", size: this.size + 7, color: styleColour("--ink"), opacity: 1,
        line: { width: flat ? 2 : 1, color: styleColour("--ink") },
      },
    });
    if (!flat) traces.push(...this.linesInSpace(points));
    return traces;
  }

  marker(list, code) {
    const { rows } = this;
    const marker = { size: this.size, opacity: this.opacity, line: { width: 0 } };
    if (rows.values) {
      const [low, high] = rows.range;
      const scale = RAMP.map((colour, i) => [i / (RAMP.length - 1), colour]);
      const color = new Float32Array(list.length);
      list.forEach((i, at) => (color[at] = rows.values[i]));
      return { ...marker, color, cmin: low, cmax: high, colorscale: scale, showscale: false };
    }
    return { ...marker, color: classColour(rows.data, code), symbol: classSymbol(rows.data, code, rows.d) };
  }

  layout() {
    const axis = {
      showgrid: true, gridcolor: styleColour("--faint"), zeroline: false, showticklabels: false, ticks: "",
      title: { text: "" },
    };
    const paper = styleColour("--paper");
    const common = {
      autosize: true, margin: { l: 0, r: 0, t: 0, b: 0 }, showlegend: false, hovermode: "closest",
      paper_bgcolor: paper, plot_bgcolor: paper, uirevision: "keep", hoverdistance: 12,
    };
    if (this.rows.d === 3) {
      const [x, y, z] = this.wholeRange().map((range) => (
        { ...axis, range, showspikes: false, backgroundcolor: paper, gridcolor: styleColour("--line") }));
      return { ...common, scene: { xaxis: x, yaxis: y, zaxis: z, aspectmode: "data", camera: CAMERA } };
    }
    const [x, y] = this.wholeRange();
    return {
      ...common, dragmode: this.boxZoom ? "zoom" : "pan", shapes: this.shapes(),
      xaxis: { ...axis, range: x },
      yaxis: { ...axis, range: y, scaleanchor: "x" },
    };
  }

  /** The range of all frames, with some room. */
  wholeRange() {
    const { low, high } = this.rows.data[this.which];
    return low.map((_, axis) => {
      const room = 0.05 * (high[axis] - low[axis]) || 1;
      return [low[axis] - room, high[axis] + room];
    });
  }

  /** Draws the picture, or draws it anew with the same zoom. Calls that come meanwhile are one. */
  async draw() {
    if (this.frame.offsetParent === null) return;
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      do {
        this.again = false;
        await this.drawOnce();
      } while (this.again);
    } finally {
      this.busy = false;
    }
  }

  async drawOnce() {
    if (this.kind === "still") return this.drawStill();
    const layout = this.layout();
    if (this.drawn) {
      // What the reader has zoomed to is in the layout of the plot.
      const now = this.plot.layout;
      if (this.rows.d === 3) layout.scene.camera = now.scene.camera;
      else {
        layout.xaxis.range = now.xaxis.range;
        layout.yaxis.range = now.yaxis.range;
      }
      await Plotly.react(this.plot, this.traces(), layout);
      this.writeNames();
      return;
    }
    this.drawn = true;
    const settings = { displayModeBar: false, scrollZoom: true, responsive: true };
    await Plotly.newPlot(this.plot, this.traces(), layout, settings);
    this.plot.on("plotly_hover", (event) => this.pointed(event, this.hover));
    this.plot.on("plotly_unhover", () => this.hover(null));
    this.plot.on("plotly_click", (event) => this.pointed(event, this.choose));
    this.plot.on("plotly_relayouting", () => {
      this.hover(null);
      this.writeNames();
    });
    this.plot.on("plotly_relayout", (change) => {
      this.writeNames();
      if (change["scene.camera"]) this.turned(change["scene.camera"]);
    });
    this.writeNames();
    this.frame.addEventListener("pointerdown", () => this.frame.focus({ preventScroll: true }));
  }

  pointed(event, action) {
    const point = event.points.find((each) => each.curveNumber < this.rows.lists.length);
    if (!point) return;
    const list = this.rows.lists[point.curveNumber];
    action(list[point.pointNumber], event.event);
  }

  /** A canvas without interaction. */
  drawStill() {
    let canvas = this.plot.querySelector("canvas");
    if (!canvas) {
      canvas = make("canvas", { class: "still" });
      this.plot.append(canvas);
    }
    this.paintOn(canvas, this.frame.clientWidth, this.frame.clientHeight, isDark());
  }

  /** Paints the visible points and the lines to the neighbours on a canvas; three dimensions from a corner. */
  paintOn(canvas, width, height, dark) {
    const { rows } = this;
    const flat = flattened(rows.points(this.which));
    const groups = rows.lists.map((list, code) => ({
      symbol: classSymbol(rows.data, rows.labelled ? code : 0),
      colour: classColour(rows.data, rows.labelled ? code : 0, dark),
      colours: rows.values ? Array.from(list, (i) => rampColour(rows.values[i], ...rows.range)) : null,
      ...taken(flat, list),
    }));
    const range = rows.d === 2 ? rows.data[this.which] : extent(flat);
    const [paper, ink] = dark ? ["#14171c", "#e9ecf1"] : ["#ffffff", "#1b1f26"];
    const place = paint(canvas, width, height, groups, range, rows.d === 3 ? this.size + 2 : this.size, paper);
    paintLines(canvas.getContext("2d"), flat, this.lines(), this.overlay.chosen, place, ink);
    paintNames(canvas.getContext("2d"), rows, flat, place, ink, paper);
  }

  /** Shows three dimensions from the same side as another picture. */
  async seeFrom(camera) {
    if (this.kind === "still" || !this.drawn || this.rows.d !== 3) return;
    if (JSON.stringify(this.plot.layout.scene.camera) === JSON.stringify(camera)) return;
    await Plotly.relayout(this.plot, { "scene.camera": structuredClone(camera) });
  }

  showAll() {
    if (this.kind === "still" || !this.drawn) return;
    if (this.rows.d === 3) return Plotly.relayout(this.plot, { "scene.camera": CAMERA });
    const [x, y] = this.wholeRange();
    return Plotly.relayout(this.plot, { "xaxis.range": x, "yaxis.range": y });
  }

  /** Zooms by a factor: below 1 comes nearer. */
  zoom(factor) {
    if (this.kind === "still" || !this.drawn) return;
    if (this.rows.d === 3) {
      const { eye } = this.plot.layout.scene.camera || CAMERA;
      const nearer = { x: eye.x * factor, y: eye.y * factor, z: eye.z * factor };
      return Plotly.relayout(this.plot, { "scene.camera.eye": nearer });
    }
    const range = (axis) => {
      const [a, b] = this.plot.layout[axis].range;
      const [middle, half] = [(a + b) / 2, ((b - a) / 2) * factor];
      return [middle - half, middle + half];
    };
    return Plotly.relayout(this.plot, { "xaxis.range": range("xaxis"), "yaxis.range": range("yaxis") });
  }

  /** Shows the given rows as large as they fit, with some room. */
  zoomTo(list) {
    if (this.kind === "still" || !this.drawn || this.rows.d === 3 || list.length === 0) return;
    const points = this.rows.points(this.which);
    const whole = this.wholeRange();
    const ranges = [0, 1].map((axis) => {
      let [low, high] = [Infinity, -Infinity];
      for (const i of list) {
        low = Math.min(low, points[axis][i]);
        high = Math.max(high, points[axis][i]);
      }
      const least = 0.15 * (whole[axis][1] - whole[axis][0]);
      const half = Math.max((high - low) * 0.6, least / 2);
      return [(low + high) / 2 - half, (low + high) / 2 + half];
    });
    return Plotly.relayout(this.plot, { "xaxis.range": ranges[0], "yaxis.range": ranges[1] });
  }

  setBoxZoom(on) {
    this.boxZoom = on;
    if (this.drawn && this.rows.d === 2 && this.kind !== "still") {
      Plotly.relayout(this.plot, { dragmode: on ? "zoom" : "pan" });
    }
  }
}

const CAMERA = { eye: { x: 1.25, y: 1.25, z: 1.25 }, center: { x: 0, y: 0, z: 0 }, up: { x: 0, y: 0, z: 1 } };

/** The coordinates of some points, as plotly wants them. */
function taken(points, list) {
  const out = {};
  ["x", "y", "z"].slice(0, points.length).forEach((axis, k) => {
    const values = new Float32Array(list.length);
    const from = points[k];
    for (let at = 0; at < list.length; at++) values[at] = from[list[at]];
    out[axis] = values;
  });
  return out;
}

/** Two dimensions as they are; three as seen from a corner. */
function flattened(points) {
  if (points.length === 2) return points;
  const [x, y, z] = points;
  const across = x.map((value, i) => (y[i] - value) * Math.SQRT1_2);
  const up = z.map((value, i) => value * 0.816 - (x[i] + y[i]) * 0.408);
  return [across, up];
}

function extent(points) {
  const ends = (values) => values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
  const [x, y] = points.map(ends);
  return { low: [x[0], y[0]], high: [x[1], y[1]] };
}

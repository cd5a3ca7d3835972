// Colours and symbols of classes, for plotly, for legends and for a canvas.

// The order of symbols: the next one begins when the ten colours are used up.
const SYMBOLS = ["circle", "diamond", "square", "cross", "x", "circle-open", "diamond-open", "square-open"];
// How far colours are moved to white on dark paper.
const LIGHTER = 0.22;
// Viridis: even steps of lightness, safe for colour-blind readers.
const RAMP = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];

const isDark = () => document.documentElement.dataset.theme === "dark";

/** The colour of a class on the paper of today, or on white. */
function classColour(data, code, dark = isDark()) {
  const colour = data.colours[code % data.colours.length];
  return dark ? mixed(colour, "#ffffff", LIGHTER) : colour;
}

/** A colour on the way from one to another. */
function mixed(from, to, share) {
  const channel = (hex, k) => parseInt(hex.slice(1 + 2 * k, 3 + 2 * k), 16);
  const light = [0, 1, 2].map((k) => Math.round(channel(from, k) + share * (channel(to, k) - channel(from, k))));
  return `rgb(${light.join(",")})`;
}

// In space plotly draws symbols as letters, of which few fonts have a cross.
const SYMBOLS_IN_SPACE = ["circle", "diamond", "square", "circle-open", "diamond-open", "square-open"];

function classSymbol(data, code, d = data.d) {
  const symbols = d === 3 ? SYMBOLS_IN_SPACE : SYMBOLS;
  return symbols[Math.floor(code / data.colours.length) % symbols.length];
}

/** The colour of a number between low and high. */
function rampColour(value, low, high) {
  const place = Math.min(Math.max((value - low) / (high - low || 1), 0), 1) * (RAMP.length - 1);
  const i = Math.min(Math.floor(place), RAMP.length - 2);
  return mixed(RAMP[i], RAMP[i + 1], place - i);
}

// Outlines around (0, 0) for a radius of 1, as SVG path data, which a canvas reads as well.
const OUTLINES = {
  circle: "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z",
  diamond: "M0-1.3L1.3 0L0 1.3L-1.3 0z",
  square: "M-.9-.9H.9V.9H-.9z",
  cross: "M-.4-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4z",
  x: "M-1.1-.6L-.6-1.1L0-.5L.6-1.1L1.1-.6L.5 0L1.1.6L.6 1.1L0 .5L-.6 1.1L-1.1.6L-.5 0z",
};

/** The symbol of a class as a small SVG. */
function swatch(colour, symbol) {
  const open = symbol.endsWith("-open");
  const shape = OUTLINES[symbol.replace("-open", "")];
  const path = make("path", {
    d: shape, fill: open ? "none" : colour, stroke: colour, "stroke-width": open ? 0.45 : 0,
  });
  return make("svg", { class: "swatch", viewBox: "-1.5 -1.5 3 3", "aria-hidden": "true" }, path);
}

/** Draws points on a canvas, as plotly would: for print, and where WebGL is missing. */
function paint(canvas, width, height, groups, range, size, paper) {
  const scale = 2;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = canvas.getContext("2d");
  pen.fillStyle = paper;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  const room = 1.08;
  const spanX = (range.high[0] - range.low[0]) * room || 1;
  const spanY = (range.high[1] - range.low[1]) * room || 1;
  const unit = Math.min(canvas.width / spanX, canvas.height / spanY);
  const middle = [(range.high[0] + range.low[0]) / 2, (range.high[1] + range.low[1]) / 2];
  const across = (x) => canvas.width / 2 + (x - middle[0]) * unit;
  const down = (y) => canvas.height / 2 - (y - middle[1]) * unit;
  const radius = (size * scale) / 2;
  pen.globalAlpha = 0.75;
  for (const group of groups) {
    const open = group.symbol.endsWith("-open");
    const shape = new Path2D(OUTLINES[group.symbol.replace("-open", "")]);
    for (let i = 0; i < group.x.length; i++) {
      const colour = group.colours ? group.colours[i] : group.colour;
      pen.setTransform(radius, 0, 0, radius, across(group.x[i]), down(group.y[i]));
      pen.fillStyle = pen.strokeStyle = colour;
      pen.lineWidth = 0.45;
      if (open) pen.stroke(shape);
      else pen.fill(shape);
    }
  }
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.globalAlpha = 1;
  return { across, down, scale };
}

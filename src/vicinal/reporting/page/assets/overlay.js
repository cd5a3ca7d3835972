// The chosen row, and lines from it to its neighbours: solid to the same class, dashed to another.

/** [{row, same}]: the neighbours of the chosen row under the metric of this picture. */
Picture.prototype.lines = function () {
  const { chosen } = this.overlay;
  if (chosen === null) return [];
  const { rows } = this;
  return rows.neighbours(chosen, this.which).map(({ row }) => ({
    row,
    same: !rows.labelled || rows.codes[row] === rows.codes[chosen],
  }));
};

/** Lines and a ring that plotly draws above the points without computing them anew. */
Picture.prototype.shapes = function () {
  const { chosen } = this.overlay;
  if (chosen === null) return [];
  const [x, y] = this.rows.points(this.which);
  const colour = styleColour("--ink");
  const ring = (row, radius, width) => ({
    type: "circle", xsizemode: "pixel", ysizemode: "pixel", xanchor: x[row], yanchor: y[row],
    x0: -radius, x1: radius, y0: -radius, y1: radius, line: { color: colour, width },
  });
  const lines = this.lines().flatMap(({ row, same }) => [
    {
      type: "line", x0: x[chosen], y0: y[chosen], x1: x[row], y1: y[row],
      line: { color: colour, width: 1.3, dash: same ? "solid" : "dot" },
    },
    ring(row, this.size / 2 + 2, 1.3),
  ]);
  return [...lines, ring(chosen, this.size / 2 + 5, 2.6)];
};

/** The same as traces, for three dimensions. */
Picture.prototype.linesInSpace = function (points) {
  const { chosen } = this.overlay;
  const colour = styleColour("--ink");
  const line = (same) => {
    const out = { x: [], y: [], z: [] };
    for (const each of chosen === null ? [] : this.lines()) {
      if (each.same !== same) continue;
      ["x", "y", "z"].forEach((axis, k) => out[axis].push(points[k][chosen], points[k][each.row], null));
    }
    return {
      type: "scatter3d", mode: "lines", hoverinfo: "skip", showlegend: false, ...out,
      line: { color: colour, width: 3, dash: same ? "solid" : "dot" },
    };
  };
  const ring = {
    type: "scatter3d", mode: "markers", hoverinfo: "skip", showlegend: false,
    ...taken(points, chosen === null ? [] : [chosen]),
    marker: { symbol: "circle-open", size: this.size + 8, color: colour, line: { width: 2, color: colour } },
  };
  return [line(true), line(false), ring];
};

/** Shows another chosen row, and zooms so that it can be seen. */
Picture.prototype.mark = function (chosen) {
  this.overlay.chosen = chosen;
  if (!this.drawn || this.rows.d === 3 || this.kind === "still") return this.draw();
  return Plotly.relayout(this.plot, { shapes: this.shapes() });
};

/** Whether the row is in the part of the picture that is shown. */
Picture.prototype.sees = function (row) {
  if (!this.drawn || this.rows.d === 3 || this.kind === "still") return true;
  const points = this.rows.points(this.which);
  return ["xaxis", "yaxis"].every((axis, k) => {
    const [low, high] = this.plot.layout[axis].range;
    return points[k][row] >= low && points[k][row] <= high;
  });
};

/** The same lines and ring on a canvas. */
function paintLines(pen, points, lines, chosen, { across, down, scale }, ink) {
  if (chosen === null) return;
  const [x, y] = points;
  pen.strokeStyle = ink;
  for (const { row, same } of lines) {
    pen.lineWidth = 1.3 * scale;
    pen.setLineDash(same ? [] : [3 * scale, 3 * scale]);
    pen.beginPath();
    pen.moveTo(across(x[chosen]), down(y[chosen]));
    pen.lineTo(across(x[row]), down(y[row]));
    pen.stroke();
  }
  pen.setLineDash([]);
  pen.lineWidth = 2.4 * scale;
  pen.beginPath();
  pen.arc(across(x[chosen]), down(y[chosen]), 8 * scale, 0, 2 * Math.PI);
  pen.stroke();
}

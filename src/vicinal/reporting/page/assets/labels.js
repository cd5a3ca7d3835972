// Names of classes in the picture, each where its rows are: as text above the plot, never as markup.

// With more classes their names would cover the picture.
const MOST_NAMED = 60;

/** Where the name of each visible class stands: the median of its points, the largest class first. */
function namePlaces(rows, points) {
  if (!rows.labelled || !rows.named || rows.d !== 2 || rows.data.classes.length > MOST_NAMED) return [];
  const middle = (values, list) => Float32Array.from(list, (i) => values[i]).sort()[list.length >> 1];
  return rows.lists
    .map((list, code) => ({ code, list }))
    .filter(({ list }) => list.length > 0)
    .sort((a, b) => b.list.length - a.list.length)
    .map(({ code, list }) => ({ name: rows.className(code), x: middle(points[0], list), y: middle(points[1], list) }));
}

/** Moves names up or down where they would cover one another; those without room are left out. */
function parted(names) {
  const placed = [];
  const covers = (a, b) => Math.abs(a.left - b.left) < (a.width + b.width) / 2 && Math.abs(a.top - b.top) < 15;
  for (const name of names) {
    const tops = [0, -16, 16, -32, 32].map((step) => name.top + step);
    const top = tops.find((each) => !placed.some((other) => covers({ ...name, top: each }, other)));
    if (top !== undefined) placed.push({ ...name, top });
  }
  return placed;
}

const shortName = (name) => (name.length > 26 ? `${name.slice(0, 25)}…` : name);

/** The names in pixels, given functions from coordinates to pixels. */
function namesInPixels(rows, points, across, down) {
  return parted(namePlaces(rows, points).map(({ name, x, y }) => {
    const text = shortName(name);
    return { text, left: across(x), top: down(y), width: 7.4 * text.length + 6 };
  }));
}

/** Writes the names above the plot, where the points are now. */
Picture.prototype.writeNames = function () {
  if (this.kind === "still" || !this.drawn || this.rows.d === 3) return;
  if (!this.names) {
    this.names = make("div", { class: "names", "aria-hidden": "true" });
    this.frame.append(this.names);
  }
  const { xaxis, yaxis } = this.plot._fullLayout;
  const found = namesInPixels(
    this.rows, this.rows.points(this.which),
    (x) => xaxis._offset + xaxis.l2p(x), (y) => yaxis._offset + yaxis.l2p(y));
  this.names.replaceChildren(...found.map(({ text, left, top }) => {
    const span = make("span", {}, text);
    span.style.left = `${left}px`;
    span.style.top = `${top}px`;
    return span;
  }));
};

/** The same on a canvas. */
function paintNames(pen, rows, points, { across, down, scale }, ink, paper) {
  pen.font = `600 ${12.5 * scale}px sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineWidth = 3 * scale;
  pen.lineJoin = "round";
  pen.strokeStyle = paper;
  pen.fillStyle = ink;
  for (const { text, left, top } of namesInPixels(rows, points, (x) => across(x) / scale, (y) => down(y) / scale)) {
    pen.strokeText(text, left * scale, top * scale);
    pen.fillText(text, left * scale, top * scale);
  }
}

// The rows: what is known of each point, which are visible, and where they are.
class Rows {
  constructor(data) {
    this.data = data;
    this.n = data.n;
    this.d = data.d;
    const arrays = data.arrays;
    this.codes = arrays.codes;
    this.values = arrays.values || null;
    this.heldOut = arrays.heldOut;
    this.predicted = arrays.predicted || null;
    this.labelled = data.classes.length > 0 && !this.values;
    this.frames = undoDifferences(arrays.frames, this.n * this.d);
    this.lastFrame = data.iterations.length - 1;
    this.before = coordinates(arrays.before, 0, this.n, this.d, data.before);
    this.frame = this.lastFrame;
    this.after = this.pointsOf(this.frame);
    this.shown = new Array(Math.max(data.classes.length, 1)).fill(true);
    this.onlyHeldOut = false;
    this.onlyWrong = false;
    this.named = true; // whether the names of classes stand in the picture
    this.sorted = this.byClass();
    this.lists = this.sorted;
    if (this.values) this.findRange();
    this.findPictures();
  }

  findRange() {
    let [low, high] = [Infinity, -Infinity];
    for (const value of this.values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    this.range = [low, high];
  }

  findPictures() {
    const sheet = this.data.sheet;
    if (!sheet) return;
    this.place = new Map();
    this.data.arrays.pictured.forEach((point, i) => this.place.set(point, i));
    this.sheetURL = URL.createObjectURL(new Blob([this.data.arrays.sheet], { type: "image/png" }));
    this.sheetRows = Math.ceil(this.data.arrays.pictured.length / sheet.perRow);
  }

  pointsOf(frame) {
    return coordinates(this.data.arrays.frames, frame, this.n, this.d, this.data.after);
  }

  /** Where the points are in a picture: "before" or "after". */
  points(which) {
    return which === "before" ? this.before : this.after;
  }

  byClass() {
    const groups = this.labelled ? this.data.classes.length : 1;
    const lists = Array.from({ length: groups }, () => []);
    for (let i = 0; i < this.n; i++) lists[this.labelled ? this.codes[i] : 0].push(i);
    return lists.map((list) => Uint32Array.from(list));
  }

  isWrong(i) {
    return this.predicted !== null && this.predicted[i] !== NONE && this.predicted[i] !== this.codes[i];
  }

  passes(i) {
    return (!this.onlyHeldOut || this.heldOut[i] === 1) && (!this.onlyWrong || this.isWrong(i));
  }

  isVisible(i) {
    return this.passes(i) && (!this.labelled || this.shown[this.codes[i]]);
  }

  /** Finds the visible points of each class anew. */
  filter() {
    const all = !this.onlyHeldOut && !this.onlyWrong;
    this.lists = this.sorted.map((list, code) => {
      if (this.labelled && !this.shown[code]) return new Uint32Array(0);
      return all ? list : list.filter((i) => this.passes(i));
    });
  }

  visibleCount() {
    return this.lists.reduce((sum, list) => sum + list.length, 0);
  }

  className(code) {
    return this.data.classes[code];
  }

  /** The class or the number of a row, as text; "" if there is none. */
  label(i) {
    if (this.values) return number(this.values[i]);
    return this.labelled ? this.className(this.codes[i]) : "";
  }

  swatch(i) {
    if (this.values) return swatch(rampColour(this.values[i], ...this.range), "circle");
    const code = this.labelled ? this.codes[i] : 0;
    return swatch(classColour(this.data, code), classSymbol(this.data, code));
  }

  /** A thumbnail of the row, or null. */
  thumbnail(i, size) {
    if (!this.place || !this.place.has(i)) return null;
    const { width, height, perRow } = this.data.sheet;
    const at = this.place.get(i);
    const zoom = size / Math.max(width, height);
    const picture = make("span", { class: "thumb", role: "img", "aria-label": `Picture of ${this.data.names[i]}` });
    const style = picture.style;
    style.width = `${width * zoom}px`;
    style.height = `${height * zoom}px`;
    style.backgroundImage = `url("${this.sheetURL}")`;
    style.backgroundSize = `${width * zoom * perRow}px ${height * zoom * this.sheetRows}px`;
    style.backgroundPosition = `${-(at % perRow) * width * zoom}px ${-Math.floor(at / perRow) * height * zoom}px`;
    return picture;
  }

  /** Neighbours of a row under the old or the new metric: [{row, p}]. */
  neighbours(i, which) {
    const [rows, p, k] = [this.data.arrays[which + "Neighbours"], this.data.arrays[which + "P"], this.data.k];
    if (!rows) return [];
    const out = [];
    for (let j = i * k; j < (i + 1) * k; j++) {
      if (rows[j] !== this.n) out.push({ row: rows[j], p: p[j] === NONE ? null : p[j] / 0xfffe });
    }
    return out;
  }

  /** The share of neighbours of the same class, over all visible points. */
  agreement(which) {
    const [rows, k] = [this.data.arrays[which + "Neighbours"], this.data.k];
    if (!rows || !this.labelled) return null;
    let [same, all] = [0, 0];
    for (const list of this.lists) {
      for (const i of list) {
        for (let j = i * k; j < (i + 1) * k; j++) {
          if (rows[j] === this.n) continue;
          all += 1;
          if (this.codes[rows[j]] === this.codes[i]) same += 1;
        }
      }
    }
    return all ? same / all : null;
  }
}

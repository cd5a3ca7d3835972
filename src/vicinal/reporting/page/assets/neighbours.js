// The chosen row: what is known of it, and its neighbours under both metrics.

class Panel {
  constructor(rows, choose) {
    this.rows = rows;
    this.choose = choose;
  }

  show(chosen) {
    $("neighbours").hidden = chosen === null;
    if (chosen === null) return;
    $("chosen").replaceChildren(...this.facts(chosen));
    // The bars of both lists have one scale: the largest probability of either fills the room.
    const all = ["before", "after"].flatMap((which) => this.rows.neighbours(chosen, which).map(({ p }) => p || 0));
    this.largest = Math.max(...all, 1e-9);
    const lists = this.rows.data.k
      ? [this.list(chosen, "before", "Under the old metric"), this.list(chosen, "after", "Under the learnt metric")]
      : [];
    $("lists").replaceChildren(...lists);
  }

  facts(i) {
    const { rows } = this;
    const facts = [];
    if (rows.label(i) !== "") facts.push([rows.data.target || (rows.values ? "Value" : "Class"), rows.label(i)]);
    if (rows.predicted && rows.predicted[i] !== NONE) {
      const verdict = rows.isWrong(i) ? " ✗ wrong" : " ✓ right";
      facts.push(["Predicted", rows.className(rows.predicted[i]) + verdict]);
    }
    facts.push(["Learnt from", rows.heldOut[i] ? "no, held out" : "yes"]);
    (rows.data.columns || []).forEach((name, c) => facts.push([name, rows.data.cells[c][i]]));
    const large = rows.thumbnail(i, 112);
    if (large) large.classList.add("large");
    return [
      make("h3", {}, rows.swatch(i), make("span", {}, rows.data.names[i])),
      ...(large ? [large] : []),
      make("dl", {}, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
      make("button", { type: "button", onclick: () => this.choose(null) }, "Close"),
    ];
  }

  list(chosen, which, title) {
    const { rows } = this;
    const neighbours = rows.neighbours(chosen, which);
    const items = neighbours.map(({ row, p }, at) => this.item(chosen, row, p, at));
    const words = make("p", {}, this.summary(chosen, which));
    return make("div", { "data-which": which }, make("h3", {}, title), words, make("ol", { role: "list" }, ...items));
  }

  item(chosen, row, p, at) {
    const { rows } = this;
    const same = rows.labelled ? rows.codes[row] === rows.codes[chosen] : null;
    const verdict = same === null ? "" : same ? ", same class" : ", another class";
    const share = p === null ? "" : `, p ${percent(p)}`;
    const bar = make("span", { class: "bar" });
    if (p !== null) {
      const fill = make("span");
      fill.style.width = `${(100 * p) / this.largest}%`;
      bar.append(fill);
    }
    const mark = same === null
      ? make("span", {}, String(at + 1))
      : make("span", { class: same ? "mark same" : "mark other" }, same ? "✓" : "✗");
    const button = make("button", {
      type: "button", "data-row": row, "aria-label": `${at + 1}: ${rows.data.names[row]}, ${rows.label(row)}${verdict}${share}`,
      onclick: () => this.choose(row, true),
    }, mark, rows.swatch(row), rows.thumbnail(row, 30) || make("span"),
    make("span", { class: "who" }, rows.data.names[row], make("span", { class: "note" }, rows.label(row))),
    p === null ? make("span") : bar, make("span", { class: "p" }, p === null ? "" : percent(p)));
    return make("li", {}, button);
  }

  /** How many neighbours are of the row's class; for numbers, how near theirs are. */
  summary(chosen, which) {
    const { rows } = this;
    const neighbours = rows.neighbours(chosen, which);
    if (neighbours.length === 0) return "No neighbours.";
    if (rows.labelled) {
      const same = neighbours.filter(({ row }) => rows.codes[row] === rows.codes[chosen]).length;
      return `${same} of ${neighbours.length} are of its class.`;
    }
    if (rows.values) {
      const gaps = neighbours.map(({ row }) => Math.abs(rows.values[row] - rows.values[chosen]));
      return `Their values differ by ${number(gaps.reduce((a, b) => a + b) / gaps.length)} on average.`;
    }
    return `${neighbours.length} nearest rows.`;
  }

  /** What is said aloud about the chosen row. */
  words(i) {
    const { rows } = this;
    const label = rows.label(i) === "" ? "" : `, ${rows.data.target || (rows.values ? "value" : "class")} ${rows.label(i)}`;
    const wrong = rows.isWrong(i) ? `, wrongly predicted as ${rows.className(rows.predicted[i])}` : "";
    const near = rows.data.k
      ? ` Neighbours: under the old metric ${this.summary(i, "before")} Under the learnt metric ${this.summary(i, "after")}`
      : "";
    return `${rows.data.names[i]}${label}${wrong}.${near}`;
  }
}

/** The box beside the pointer. */
function showTip(rows, row, event) {
  const tip = $("tip");
  tip.hidden = row === null;
  if (row === null) return;
  const lines = [make("strong", {}, rows.swatch(row), make("span", {}, rows.data.names[row]))];
  if (rows.label(row) !== "") lines.push(make("span", {}, rows.label(row)));
  if (rows.predicted && rows.predicted[row] !== NONE) {
    const mark = rows.isWrong(row) ? "✗" : "✓";
    lines.push(make("span", { class: "note" }, `predicted ${rows.className(rows.predicted[row])} ${mark}`));
  }
  (rows.data.columns || []).slice(0, 5).forEach((name, c) => {
    lines.push(make("span", { class: "note" }, `${name}: ${rows.data.cells[c][row]}`));
  });
  const picture = rows.thumbnail(row, 72);
  if (picture) lines.push(picture);
  tip.replaceChildren(...lines);
  const { clientX = 0, clientY = 0 } = event || {};
  const left = Math.min(clientX + 16, window.innerWidth - tip.offsetWidth - 8);
  const below = clientY + 18 + tip.offsetHeight < window.innerHeight;
  tip.style.left = `${Math.max(left, 8)}px`;
  tip.style.top = `${below ? clientY + 18 : Math.max(clientY - tip.offsetHeight - 12, 8)}px`;
}

// The search field: finds rows by name, class or cell, rings them, and goes to the one that is chosen.
const MOST_OPTIONS = 40;
const MOST_RINGS = 20000;

class Search {
  constructor(rows, { found, choose, zoomTo, onlyClass }) {
    Object.assign(this, { rows, found, choose, zoomTo, onlyClass });
    this.field = $("search");
    this.box = $("matches");
    this.options = [];
    this.at = -1;
    this.field.addEventListener("input", debounced(140, () => this.look()));
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.field.addEventListener("focus", () => this.open(this.options.length > 0));
    this.field.addEventListener("blur", () => setTimeout(() => this.open(false), 150));
  }

  /** What can be searched of each row, in lower case; made when it is first needed. */
  texts() {
    if (this.kept) return this.kept;
    const { data } = this.rows;
    const columns = (data.cells || []).map((cells) => cells.map((cell) => cell.toLowerCase()));
    const classes = data.classes.map((name) => name.toLowerCase());
    this.kept = { names: data.names.map((name) => name.toLowerCase()), columns, classes };
    return this.kept;
  }

  look() {
    const wanted = this.field.value.trim().toLowerCase();
    const matches = [];
    const exact = [];
    let classes = [];
    if (wanted !== "") {
      const { names, columns, classes: known } = this.texts();
      const hits = known.map((name) => this.rows.labelled && name.includes(wanted));
      classes = hits.flatMap((hit, code) => (hit ? [code] : []));
      for (let i = 0; i < this.rows.n; i++) {
        if (names[i] === wanted) exact.push(i);
        else if (names[i].includes(wanted) || (this.rows.labelled && hits[this.rows.codes[i]]) || columns.some((cells) => cells[i].includes(wanted))) {
          matches.push(i);
        }
      }
    }
    const rows = [...exact, ...matches];
    this.show(rows, classes, wanted);
    this.found(rows.slice(0, MOST_RINGS));
  }

  show(rows, classes, wanted) {
    const { data } = this.rows;
    this.options = [
      ...classes.slice(0, 8).map((code) => this.option(
        [swatch(classColour(data, code), classSymbol(data, code)), make("span", {}, data.classes[code]),
          make("span", { class: "note" }, `show only this class, ${count(this.rows.sorted[code].length, "row")}`)],
        () => this.onlyClass(code))),
      ...rows.slice(0, MOST_OPTIONS).map((i) => this.option(
        [this.rows.swatch(i), make("span", {}, data.names[i]), make("span", { class: "note" }, this.rows.label(i))],
        () => this.choose(i, true))),
    ];
    this.box.replaceChildren(...this.options.map(({ item }) => item));
    this.point(-1);
    this.open(this.options.length > 0);
    const words = wanted === "" ? "" : rows.length === 0 ? "No row found." : `${count(rows.length, "row")} found.`;
    $("found").replaceChildren(words);
    if (rows.length > 0) {
      $("found").append(
        make("button", { type: "button", id: "zoom-found", onclick: () => this.zoomTo(rows) }, "Zoom to them"),
        make("button", { type: "button", onclick: () => this.clear() }, "Clear"));
    }
  }

  option(children, action) {
    const item = make("li", { role: "option", id: `match-${(this.last = (this.last || 0) + 1)}`, "aria-selected": "false" }, ...children);
    const choose = () => {
      this.open(false);
      action();
    };
    // Before the field loses its focus.
    item.addEventListener("mousedown", (event) => {
      event.preventDefault();
      choose();
    });
    return { item, choose };
  }

  open(on) {
    this.box.hidden = !on;
    this.field.setAttribute("aria-expanded", String(on));
    if (!on) this.point(-1);
  }

  /** Marks an option as the one that Enter takes. */
  point(at) {
    this.at = at;
    this.options.forEach(({ item }, i) => item.setAttribute("aria-selected", String(i === at)));
    if (at < 0) this.field.removeAttribute("aria-activedescendant");
    else {
      this.field.setAttribute("aria-activedescendant", this.options[at].item.id);
      this.options[at].item.scrollIntoView({ block: "nearest" });
    }
  }

  key(event) {
    const last = this.options.length - 1;
    if (event.key === "Escape") {
      if (this.box.hidden) this.clear();
      else this.open(false);
    } else if (event.key === "Enter") {
      if (last >= 0) this.options[Math.max(this.at, 0)].choose();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (last < 0) return;
      this.open(true);
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.point(this.at < 0 ? (step > 0 ? 0 : last) : (this.at + step + last + 1) % (last + 1));
    } else return;
    event.preventDefault();
  }

  clear() {
    this.field.value = "";
    this.look();
    this.open(false);
  }
}

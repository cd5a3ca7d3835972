// The legend: a check box for each class, with a search field if there are many; or a colour scale.
const MANY_CLASSES = 12;

class Legend {
  constructor(rows, changed, named) {
    this.rows = rows;
    this.changed = changed;
    this.named = named;
    this.box = $("legend");
    if (rows.values) this.drawScale();
    else if (rows.labelled) this.drawClasses();
    else this.box.hidden = true;
  }

  drawScale() {
    const [low, high] = this.rows.range;
    const ramp = make("div", { class: "ramp" });
    ramp.style.background = `linear-gradient(to top, ${RAMP.join(", ")})`;
    this.box.replaceChildren(
      make("h3", {}, this.rows.data.target || "Value"),
      make("div", { class: "scale", role: "img", "aria-label": `Colours from ${number(low)}, dark violet, to ${number(high)}, yellow` },
        ramp, make("div", { class: "ends" }, make("span", {}, number(high)), make("span", {}, number((low + high) / 2)), make("span", {}, number(low)))),
    );
  }

  drawClasses() {
    const { rows } = this;
    const title = make("h3", { id: "legend-title" }, rows.data.target || "Class");
    this.list = make("ul", { "aria-labelledby": "legend-title" });
    this.items = rows.data.classes.map((name, code) => this.item(name, code));
    this.list.append(...this.items);
    const buttons = make("div", { class: "buttons" },
      make("button", { type: "button", onclick: () => this.setAll(true) }, "All"),
      make("button", { type: "button", onclick: () => this.setAll(false) }, "None"));
    this.box.replaceChildren(title);
    if (this.items.length > MANY_CLASSES) {
      const search = make("input", { type: "search", id: "legend-search", placeholder: "find a class", "aria-label": "Find a class in the legend" });
      search.addEventListener("input", () => this.find(search.value));
      this.box.append(search);
    }
    this.box.append(buttons, this.list);
    if (rows.d === 2 && this.items.length <= MOST_NAMED) this.box.append(this.naming());
  }

  /** Whether the names stand in the picture. */
  naming() {
    const box = make("input", { type: "checkbox", id: "class-names" });
    box.checked = this.rows.named;
    box.addEventListener("change", () => {
      this.rows.named = box.checked;
      this.named();
    });
    return make("label", { class: "naming" }, box, make("span", {}, "names in the picture"));
  }

  item(name, code) {
    const { rows } = this;
    const box = make("input", { type: "checkbox", "data-code": code });
    box.checked = rows.shown[code];
    box.addEventListener("change", () => {
      rows.shown[code] = box.checked;
      this.changed();
    });
    const only = make("button", { type: "button", class: "only", "aria-label": `Show only ${name}`, onclick: () => this.setOnly(code) }, "only");
    return make("li", { class: "row" },
      make("label", {}, box, swatch(classColour(rows.data, code), classSymbol(rows.data, code)), make("span", {}, name),
        make("span", { class: "count" }, rows.sorted[code].length.toLocaleString("en"))),
      only);
  }

  find(text) {
    const wanted = text.trim().toLowerCase();
    this.items.forEach((item, code) => {
      item.hidden = !this.rows.className(code).toLowerCase().includes(wanted);
    });
  }

  /** The classes that the search field has left, or all. */
  setAll(on) {
    this.items.forEach((item, code) => {
      if (!item.hidden) this.rows.shown[code] = on;
    });
    this.update();
  }

  setOnly(code) {
    this.rows.shown.fill(false);
    this.rows.shown[code] = true;
    this.update();
  }

  update() {
    this.items.forEach((item, code) => (item.querySelector("input").checked = this.rows.shown[code]));
    this.changed();
  }

  /** Colours of the other theme. */
  redraw() {
    if (!this.items) return;
    this.items.forEach((item, code) => {
      item.querySelector("svg").replaceWith(swatch(classColour(this.rows.data, code), classSymbol(this.rows.data, code)));
    });
  }
}

// The explorer: pictures, legend, search, player and neighbours together.

class App {
  constructor(data) {
    this.rows = new Rows(data);
    this.chosen = null;
    const kind = this.kindOfPicture();
    const actions = {
      choose: (row) => this.choose(row),
      hover: (row, event) => showTip(this.rows, row, event),
      turned: (from, camera) => this.pictures.forEach((picture) => picture !== from && picture.seeFrom(camera)),
    };
    this.pictures = ["before", "after"].map((which) => new Picture(which, this.rows, kind, actions));
    this.panel = new Panel(this.rows, (row, zoom) => this.choose(row, zoom));
    this.legend = new Legend(this.rows, () => this.filter(), () => this.redraw());
    this.player = new Player(this.rows, () => this.pictures[1].draw());
    this.search = new Search(this.rows, {
      found: (rows) => this.ring(rows),
      choose: (row, zoom) => this.choose(row, zoom),
      zoomTo: (rows) => this.pictures.forEach((picture) => picture.zoomTo(rows)),
      onlyClass: (code) => this.legend.setOnly(code),
    });
    this.pictures.forEach((picture) => listenToKeys(picture, this));
    this.listen();
    this.describe();
  }

  /** How the points can be drawn in this browser; says so where that is not as it should be. */
  kindOfPicture() {
    if (hasWebGL()) return "webgl";
    if (this.rows.d === 2 && this.rows.n <= MOST_AS_SVG) {
      notice("This browser has no WebGL. The picture is drawn without it, more slowly.");
      return "svg";
    }
    notice("This browser has no WebGL, so that the picture stands still. Search, legend and neighbours work.");
    return "still";
  }

  listen() {
    for (const radio of document.querySelectorAll('input[name="view"]')) {
      radio.addEventListener("change", () => this.view(radio.value));
    }
    const { rows } = this;
    const flags = [["only-held-out", "onlyHeldOut", rows.heldOut.some((flag) => flag)], ["only-wrong", "onlyWrong", rows.predicted !== null]];
    for (const [id, name, useful] of flags) {
      $(id).parentElement.hidden = !useful;
      $(id).addEventListener("change", () => {
        rows[name] = $(id).checked;
        this.filter();
      });
    }
    $("filters").hidden = flags.every(([, , useful]) => !useful);
    $("zoom-in").addEventListener("click", () => this.pictures.forEach((picture) => picture.zoom(1 / 1.4)));
    $("zoom-out").addEventListener("click", () => this.pictures.forEach((picture) => picture.zoom(1.4)));
    $("zoom-all").addEventListener("click", () => this.pictures.forEach((picture) => picture.showAll()));
    $("zoom-box").hidden = rows.d === 3;
    $("zoom-box").addEventListener("click", () => {
      const on = $("zoom-box").getAttribute("aria-pressed") !== "true";
      $("zoom-box").setAttribute("aria-pressed", String(on));
      this.pictures.forEach((picture) => picture.setBoxZoom(on));
    });
    for (const button of document.querySelectorAll("button[data-point]")) {
      button.addEventListener("click", () => {
        this.choose(Number(button.dataset.point), true);
        $("picture").scrollIntoView();
      });
    }
    window.addEventListener("beforeprint", () => paintForPrint(rows, this.pictures));
    window.addEventListener("scroll", () => showTip(rows, null), { passive: true });
  }

  /** What the pictures show, in words. */
  describe() {
    const { rows } = this;
    const shown = rows.visibleCount();
    const classes = rows.lists.filter((list) => list.length > 0).length;
    const of = rows.labelled ? ` in ${count(classes, "class", "classes")}` : "";
    const all = shown === rows.n ? count(rows.n, "row") : `${shown.toLocaleString("en")} of ${count(rows.n, "row")}`;
    for (const { which, frame } of this.pictures) {
      const share = rows.agreement(which);
      const kept = share === null ? "" : ` Of the ${rows.data.k} nearest rows of each, ${percent(share)} are of its class.`;
      const words = `${all}${of}.${kept}`;
      $(`${which}-words`).textContent = words;
      const title = which === "before" ? rows.data.beforeTitle : rows.data.afterTitle;
      frame.setAttribute("aria-label", `${which === "before" ? "Before" : "After"}: ${title}. ${words}`);
    }
  }

  view(name) {
    $("pictures").classList.toggle("both", name === "both");
    $("before-figure").hidden = name === "after";
    $("after-figure").hidden = name === "before";
    $("player").hidden = name === "before" || this.rows.lastFrame === 0;
    document.querySelector(`input[name="view"][value="${name}"]`).checked = true;
    return this.redraw(true);
  }

  async redraw(resized = false) {
    for (const picture of this.pictures) {
      await picture.draw();
      if (resized && picture.drawn && picture.frame.offsetParent !== null) Plotly.Plots.resize(picture.plot);
    }
  }

  filter() {
    this.rows.filter();
    const n = this.rows.visibleCount();
    announce(`${count(n, "row")} shown.`);
    this.describe();
    this.redraw();
  }

  ring(rows) {
    for (const picture of this.pictures) picture.overlay.found = rows;
    this.redraw();
  }

  /** Shows a row and its neighbours; null closes them. */
  choose(row, zoom = false) {
    this.chosen = row;
    showTip(this.rows, null);
    this.panel.show(row);
    for (const picture of this.pictures) {
      picture.mark(row);
      if (row !== null && (zoom || !picture.sees(row))) {
        const near = this.rows.neighbours(row, picture.which).map((each) => each.row);
        picture.zoomTo([row, ...near]);
      }
    }
    announce(row === null ? "Nothing is chosen." : this.panel.words(row));
  }
}

async function start() {
  let app = null;
  listenToCopies();
  listenToTheme(() => {
    if (!app) return;
    app.legend.redraw();
    app.redraw();
    app.panel.show(app.chosen);
  });
  if (typeof DecompressionStream === "undefined") {
    notice("The picture needs a newer browser: Chrome or Edge 80, Firefox 113, Safari 16.4 or later.");
    return;
  }
  const source = $("payload");
  const data = await readPayload(source.textContent);
  source.remove();
  $("explorer").hidden = false;
  app = new App(data);
  await app.view(window.innerWidth > 860 ? "both" : "after");
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  notice(`The picture could not be drawn: ${error.message}`);
  console.error(error);
});

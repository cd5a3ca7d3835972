// Buttons that copy, the theme, and pictures for paper.

function listenToCopies() {
  for (const button of document.querySelectorAll("button[data-copies]")) {
    button.addEventListener("click", async () => {
      const source = $(button.dataset.copies);
      const done = await copied(source);
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      announce(done ? "Copied." : "The code is selected; press Ctrl+C to copy it.");
      setTimeout(() => (button.textContent = "Copy"), 2500);
    });
  }
}

/** Copies the text, or selects it where the browser does not allow that. */
async function copied(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(source);
    return document.execCommand("copy");
  }
}

function listenToTheme(changed) {
  const button = $("theme");
  const system = media("(prefers-color-scheme: dark)");
  const set = (dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
    changed();
  };
  button.addEventListener("click", () => set(!isDark()));
  system.addEventListener("change", () => set(system.matches));
  set(system.matches);
}

/** Paints the pictures for paper: always light, before and after, with a legend. */
function paintForPrint(rows, pictures) {
  const box = $("print-picture");
  const drawn = pictures.map((picture) => {
    const canvas = make("canvas");
    picture.paintOn(canvas, 520, 460, false);
    const title = picture.which === "before" ? `Before: ${rows.data.beforeTitle}` : `After: ${rows.data.afterTitle}`;
    return make("figure", {}, make("h3", {}, title), canvas, make("figcaption", {}, $(`${picture.which}-words`).textContent));
  });
  const items = rows.labelled
    ? rows.data.classes.map((name, code) => make("li", {}, swatch(classColour(rows.data, code, false), classSymbol(rows.data, code)), make("span", {}, name)))
    : rows.values
      ? rows.range.map((value, i) => make("li", {}, swatch(RAMP[i ? RAMP.length - 1 : 0], "circle"), make("span", {}, `${rows.data.target} ${number(value)}`)))
      : [];
  box.replaceChildren(make("div", { class: "print-pictures" }, ...drawn), make("ul", { class: "print-legend" }, ...items));
}

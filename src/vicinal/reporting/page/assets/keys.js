// Keys in the picture: arrows go from row to row.
const DIRECTIONS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

/** The nearest visible row in a direction: within 45 degrees of it. */
function nextRow(rows, points, from, [right, up]) {
  const [x, y] = points;
  let [best, least] = [null, Infinity];
  for (const list of rows.lists) {
    for (const i of list) {
      const [across, above] = [x[i] - x[from], y[i] - y[from]];
      const along = across * right + above * up;
      const aside = Math.abs(across * up - above * right);
      if (i === from || along <= 0 || aside > along) continue;
      const distance = along * along + 3 * aside * aside;
      if (distance < least) [best, least] = [i, distance];
    }
  }
  return best;
}

/** The visible row nearest to the middle of all. */
function middleRow(rows, points) {
  const [x, y] = points;
  const n = rows.visibleCount();
  if (n === 0) return null;
  let [sumX, sumY] = [0, 0];
  for (const list of rows.lists) for (const i of list) [sumX, sumY] = [sumX + x[i], sumY + y[i]];
  let [best, least] = [null, Infinity];
  for (const list of rows.lists) {
    for (const i of list) {
      const distance = (x[i] - sumX / n) ** 2 + (y[i] - sumY / n) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
  }
  return best;
}

/** Listens to keys in the frame of a picture. */
function listenToKeys(picture, app) {
  picture.frame.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const points = flattened(picture.rows.points(picture.which));
    if (event.key in DIRECTIONS) {
      const next = app.chosen === null
        ? middleRow(picture.rows, points)
        : nextRow(picture.rows, points, app.chosen, DIRECTIONS[event.key]);
      if (next !== null) app.choose(next);
    } else if (event.key === "+" || event.key === "=") picture.zoom(1 / 1.4);
    else if (event.key === "-") picture.zoom(1.4);
    else if (event.key === "0") picture.showAll();
    else if (event.key === "Escape") app.choose(null);
    else return;
    event.preventDefault();
  });
}

// Small helpers. Texts of the data reach the page by `textContent` alone.
const $ = (id) => document.getElementById(id);

/** An element with attributes and children; a string becomes a text node. */
function make(tag, attributes = {}, ...children) {
  const svg = tag === "svg" || tag === "path";
  const element = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const count = (n, one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
const percent = (share) => {
  const value = 100 * share;
  return (value > 0 && value < 0.1 ? "< 0.1" : value.toFixed(value < 9.95 ? 1 : 0)) + " %";
};
const number = (value) => Number(value.toPrecision(4)).toString().replace("-", "\u2212");

/** Calls `action` once, when no call has come for some milliseconds. */
function debounced(milliseconds, action) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), milliseconds);
  };
}

/** Says something to those who hear the page. */
function announce(text) {
  $("live").textContent = text;
}

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = false;
}

const media = (query) => window.matchMedia(query);
const stillWanted = () => media("(prefers-reduced-motion: reduce)").matches;

/** The value of a colour of the page's style. */
const styleColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

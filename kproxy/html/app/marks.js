/* Marks of pictures by keyboard: each picture is one stop of the Tab key, arrows go to the nearest mark, Enter opens its frames. */
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const middle = (mark) => { const { x, y, width, height } = mark.getBoundingClientRect(); return [x + width / 2, y + height / 2]; };
const marksIn = (box) => [...box.querySelectorAll("svg a")];
const nearest = (marks, [x, y], cost) => {
  let best = null, least = Infinity;
  for (const mark of marks) {
    const [left, top] = middle(mark), value = cost(left - x, top - y);
    if (value < least) [best, least] = [mark, value];
  }
  return best;
};
const stopAt = (mark) => {
  for (const other of mark.ownerSVGElement.querySelectorAll("a[tabindex='0']")) other.setAttribute("tabindex", -1);
  mark.setAttribute("tabindex", 0);
};
/** Draws pictures anew; each gets a stop, and the focus stays near its place. */
export const redrawMarks = (box, draw) => {
  const focused = box.contains(document.activeElement) ? document.activeElement.closest("svg a") : null;
  const before = focused && [[...box.querySelectorAll("svg")].indexOf(focused.ownerSVGElement), middle(focused)];
  draw();
  const pictures = [...box.querySelectorAll("svg")];
  for (const picture of pictures) picture.querySelector("a")?.setAttribute("tabindex", 0);
  const mark = before && nearest(marksIn(pictures[before[0]] || box), before[1], (x, y) => Math.abs(x) + Math.abs(y));
  if (mark) { stopAt(mark); mark.focus({ preventScroll: true }); }
};
/** Goes to the next mark in the direction of an arrow key; false if this is none, or the focus is elsewhere. */
export const moveMark = (event, box) => {
  const step = STEPS[event.key], mark = event.target.closest?.("svg a");
  if (!step || !mark || !box.contains(mark)) return false;
  const [dx, dy] = step, within = dx ? mark.ownerSVGElement : box;
  const next = nearest(marksIn(within), middle(mark), (x, y) => {
    const ahead = x * dx + y * dy, aside = Math.abs(dx ? y : x);
    return ahead > 0.5 ? ahead + 4 * aside : Infinity;
  });
  if (next) {
    stopAt(next);
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  return true;
};
/** Shows what a mark is, for those who see the picture but have no pointer; screen readers have its name. */
export const describeMarks = (box, text) => {
  text.setAttribute("aria-hidden", "true");
  const focused = () => box.contains(document.activeElement) ? document.activeElement.closest("svg a") : null;
  const show = ({ target }) => { text.textContent = (target.closest?.("svg a") || focused())?.getAttribute("aria-label") || ""; };
  box.addEventListener("focusin", show);
  box.addEventListener("pointerover", show);
  box.addEventListener("focusout", ({ relatedTarget }) => { if (!relatedTarget) text.textContent = ""; });
};

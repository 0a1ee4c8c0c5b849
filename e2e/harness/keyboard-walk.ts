import type { Page } from 'playwright-core';

/** More than any view has: a walk that is longer goes in circles. */
const maxStops = 600;
/** Stops after which the walk looks whether the focus has left the page. */
const stopsAtOnce = 10;

/**
 * Runs in the page: remembers the controls that a pointer can use now, and notes which of them the focus reaches, and whether it is visible there. Rows of
 * a grid and options of a list are reached with arrow keys from the widget, and the radio buttons of a group from one of them.
 */
const begin = `(() => {
  const isUsable = (element) =>
    element.checkVisibility({ visibilityProperty: true }) && !element.closest('[inert], [hidden], .xterm') && !element.matches(':disabled');
  const root = document.querySelector('dialog:modal') ?? document;
  const wanted = [...root.querySelectorAll('button, a[href], input, select, textarea, summary')].filter(isUsable);
  const reached = new Set();
  const invisible = [];
  const outside = [];
  const note = ({ target }) => {
    if (!root.contains(target)) outside.push(target);
    if (reached.has(target)) return;
    reached.add(target);
    const { outlineStyle, outlineWidth } = getComputedStyle(target);
    if (!target.closest('.xterm') && (outlineStyle === 'none' || outlineWidth === '0px')) invisible.push(target);
  };
  // without it, Tab continues from where the pointer was
  wanted[0].focus();
  reached.add(wanted[0]);
  document.addEventListener('focusin', note);
  const walk = { root, wanted, reached, invisible, outside, hasLeft: false };
  const leave = ({ relatedTarget }) => (walk.hasLeft ||= relatedTarget === null);
  document.addEventListener('focusout', leave);
  walk.stop = () => {
    document.removeEventListener('focusin', note);
    document.removeEventListener('focusout', leave);
  };
  window.keyboardWalk = walk;
})()`;

/** Runs in the page: what the walk missed, one line each. Elements that were replaced meanwhile by newer content do not count. */
const end = `(() => {
  const { root, wanted, reached, invisible, outside, stop } = window.keyboardWalk;
  stop();
  const describe = (element) => element.outerHTML.slice(0, 120);
  const isReachedByArrows = (element) =>
    element.closest('[role=grid], [role=listbox]') !== null ||
    (element.type === 'radio' && [...reached].some(({ type, name }) => type === 'radio' && name === element.name));
  const missed = wanted.filter((element) => element.isConnected && !reached.has(element) && !isReachedByArrows(element));
  return [
    ...(root === document && reached.size < 5 ? ['the focus moved to ' + reached.size + ' elements only'] : []),
    ...outside.map((element) => 'left the dialog for ' + describe(element)),
    ...missed.map((element) => 'not reached: ' + describe(element)),
    ...invisible.map((element) => 'focus is not visible: ' + describe(element)),
  ];
})()`;

/**
 * Presses Tab from the first control until the focus has passed all elements of the page, or of its modal dialog.
 * @returns a line for each control that Tab does not reach, for each element whose focus is not visible, and for each element outside of the dialog that
 * gets the focus (WCAG 2.1.1, 2.1.2 and 2.4.7)
 */
export async function keyboardFaults(page: Page): Promise<readonly string[]> {
  await page.evaluate(begin);
  let stops = 0;
  do {
    if (stops >= maxStops) return [`Tab does not leave ${await page.evaluate('document.activeElement.outerHTML.slice(0, 200)')}`];
    // held down, the key repeats; past the last element, it begins again at the first
    await Promise.all(Array.from({ length: stopsAtOnce }, () => page.keyboard.down('Tab')));
    stops += stopsAtOnce;
  } while ((await page.evaluate('window.keyboardWalk.hasLeft')) === false);
  await page.keyboard.up('Tab');
  return (await page.evaluate(end)) as readonly string[];
}

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { browserMissing, launchBrowser } from './browser.ts';
import { keyboardFaults } from './keyboard-walk.ts';

const missing = browserMissing();
const usable = `<a href="#a">a</a><button>b</button><button disabled>c</button><input type="radio" name="r" checked><input type="radio" name="r">
<div role="grid" tabindex="0"><a href="#row" tabindex="-1">row</a></div><textarea></textarea><div hidden><button>d</button></div>`;

describe.skipIf(missing !== undefined)(`the faults of a page for the keyboard${missing === undefined ? '' : ` (${missing})`}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchBrowser();
  });
  afterAll(() => browser?.close());

  it.each([
    ['none', usable, []],
    ['a control out of the order', `${usable}<button tabindex="-1">x</button>`, [/^not reached: <button tabindex="-1">x/]],
    ['an invisible focus', `${usable}<button style="outline: none">x</button>`, [/^focus is not visible: <button style/]],
    ['a trap', `${usable}<button onkeydown="event.preventDefault()">x</button>`, [/^Tab does not leave <button onkeydown/]],
    ['nothing to reach', '<a href="#a">a</a>', [/^the focus moved to 1 elements only/]],
  ])('%s', async (_, html, expected) => {
    const page = await browser.newPage();
    await page.setContent(html);
    expect(await keyboardFaults(page)).toEqual(expected.map((pattern) => expect.stringMatching(pattern)));
    await page.close();
  });
});

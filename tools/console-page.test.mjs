import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { buildPage } from './console-page.mjs';

it('the page names all modules that its script imports, so that the browser requests them with the script', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'oarlock-page-'));
  try {
    await buildPage(folder);
    const textOf = async (name) => gunzipSync(await readFile(join(folder, `${name}.gz`))).toString('utf8');
    const html = await textOf('index.html');
    const [, script] = /<script type="module" src="([^"]+)">/.exec(html) ?? [];
    const hints = [...html.matchAll(/<link rel="modulepreload" href="([^"]+)">/g)].map(([, name]) => name);
    const imports = new Set();
    for (const queue = [script]; queue.length > 0; ) {
      for (const [, name] of (await textOf(queue.pop())).matchAll(/(?:from|import)"\.\/([^"]+\.js)"/g)) {
        if (!imports.has(name)) queue.push(name);
        imports.add(name);
      }
    }
    expect(hints.toSorted()).toEqual([...imports].toSorted());
    expect(hints.length).toBeGreaterThan(0);
    expect(await readdir(folder)).toEqual(expect.arrayContaining(hints.map((name) => `${name}.gz`)));
    expect(html).not.toContain('{{');
  } finally {
    await rm(folder, { recursive: true });
  }
});

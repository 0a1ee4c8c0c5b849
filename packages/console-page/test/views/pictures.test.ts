import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../../..', import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const picturesOf = (page: string): readonly string[] =>
  [...read(page).matchAll(/images\/([\w-]+)\.png\)/g)].map(([, name = '']) => name).sort();

/** The picture of each view. The end-to-end test `journeys/console` writes the pictures, and compares each with the page. */
const pictures: Readonly<Record<string, string>> = {
  overview: 'console-overview',
  resources: 'console-resources',
  table: 'console-table',
  object: 'console-workload',
  why: 'console-why-access',
  traces: 'console-traces',
  plugins: 'console-plugins',
  topology: 'console-topology',
  create: 'console-create',
};

describe('pictures of the console', () => {
  it('exist for each view', () => {
    const ids = [...read('packages/console-page/src/views/registry.ts').matchAll(/\{ id: '(\w+)', path/g)].map(([, id = '']) => id);
    expect(Object.keys(pictures)).toEqual(ids);
  });

  it('are in the README for each view', () => {
    expect(picturesOf('README.md')).toEqual(expect.arrayContaining(Object.values(pictures)));
  });

  it('are all in docs/console.md', () => {
    const files = readdirSync(join(root, 'docs', 'images')).map((file) => file.replace(/\.png$/, ''));
    expect(picturesOf('docs/console.md')).toEqual(files.sort());
  });
});

import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');

/** Returns the files that the text names, and the folders of this package in code spans (`folder/`). */
function namedPaths(markdown: string): ReadonlySet<string> {
  const files = markdown.match(/(?<![\w./-])[\w-]+(?:\/[\w.-]+)*\.(?:ts|json)\b/g) ?? [];
  const folders = [...markdown.matchAll(/`([\w-]+(?:\/[\w-]+)*\/)`/g)].map(([, path = '']) => path);
  const links = [...markdown.matchAll(/\]\(([^)#]+)\)/g)].map(([, path = '']) => path);
  return new Set([...files, ...folders, ...links]);
}

const exists = (path: string) => existsSync(join(root, 'src', path)) || existsSync(join(root, path));

describe('ARCHITECTURE.md', () => {
  it('names only paths that exist', () => {
    const paths = [...namedPaths(text)];
    expect(paths.length).toBeGreaterThan(50);
    expect(paths.filter((path) => !exists(path))).toEqual([]);
  });

  it('has a table row for every entry of src', () => {
    const entries = readdirSync(join(root, 'src'), { withFileTypes: true }).map((entry) =>
      entry.isDirectory() ? `${entry.name}/` : entry.name,
    );
    expect(entries.filter((entry) => !text.includes(`\n| \`${entry}\` |`))).toEqual([]);
  });

  it('has a check that detects missing paths', () => {
    expect([...namedPaths('`handlers/missing.ts`, `missing/`, [x](../missing.md)')].filter((path) => !exists(path))).toHaveLength(3);
  });
});

// Each check fails on a planted example and passes on its corrected form.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { exportedFiles, publicDeclarations } from './api-report.mjs';
import { bannedIn, bannedName, checkMarkdown, checkSource } from './language.mjs';
import { directEdges, packageGraph, withPackageGraph } from './package-graph.mjs';
import { anchorsOf, deadLinks, linksOf, withLinks } from './links.mjs';
import { checkProse } from './prose.mjs';
import { limits, sizeErrors, sizesOf } from './sizes.mjs';
import { cyclesOf, folderPairs, folderSizes, reachedInternals } from './source-graph.mjs';

const graph = (edges) => new Map(Object.entries(edges).map(([file, targets]) => [file, new Set(targets)]));
const words = (findings) => findings.map(({ found }) => found);

describe('banned phrases', () => {
  it.each([
    ['whoever asks is told', ['whoever', 'told', 'asks']],
    ['what is there is made anew by and by', ['by and by', 'what is there']],
    ['The server says no.', ['says']],
    ['a request that is refused', ['refused']],
  ])('finds them in %j', (text, expected) => {
    expect(words(bannedIn(text)).sort()).toEqual([...expected].sort());
  });

  it('ignores code, quotations and terms of the field', () => {
    expect(bannedIn('`who` and "nobody" fail with connection refused')).toEqual([]);
  });

  it('finds `who` in comments only', () => {
    expect(words(bannedIn('users who deploy', { comment: true }))).toEqual(['who']);
    expect(bannedIn('users who deploy')).toEqual([]);
  });

  it('finds them in comments and test titles of sources', () => {
    const { text } = checkSource('x.test.ts', "// nobody reads it\nit('tells a story', () => {});\nconst fine = 'nobody';\n");
    expect(text.map(({ line, found }) => [line, found])).toEqual([
      [1, 'nobody'],
      [2, 'tells'],
    ]);
  });

  it('finds them in Markdown outside of code blocks', () => {
    const findings = checkMarkdown('x.md', 'Nobody knows.\n```\nnobody\n```\n');
    expect(findings.map(({ line }) => line)).toEqual([1]);
  });
});

describe('links', () => {
  it('are found outside of code, without those to other sites', () => {
    const page = '[a](x.md#b) `[c](d.md)` [e](https://x.test/y)\n```md\n[f](g.md)\n```\n![h](i.png "title")\n';
    expect(linksOf(page)).toEqual([
      { line: 1, target: 'x.md#b' },
      { line: 5, target: 'i.png' },
    ]);
  });

  it('lead to headings by the names that GitHub gives them', () => {
    const page = '# One: `two` & three\n## [Link](x.md)\n## Link\n```sh\n# comment\n```\n<a id="own"></a>\n';
    expect([...anchorsOf(page)]).toEqual(['one-two--three', 'link', 'link-1', 'own']);
  });

  it('are replaced outside of code, without those to other sites', () => {
    const page = '[a](x.md#b) `[c](d.md)` [e](https://x.test/y) [f](</z>)\n```md\n[g](h.md)\n```\n![i](j.png "title")\n';
    expect(withLinks(page, (target) => target.toUpperCase())).toBe(
      '[a](X.MD#B) `[c](d.md)` [e](https://x.test/y) [f](</z>)\n```md\n[g](h.md)\n```\n![i](J.PNG "title")\n',
    );
  });

  it('are dead without their file or heading', () => {
    const root = mkdtempSync(join(tmpdir(), 'oarlock-links-'));
    try {
      writeFileSync(join(root, 'a.md'), '# Top\n[x](b.md#here) [y](#top) [z](#none) [w](c.md)\n');
      writeFileSync(join(root, 'b.md'), '# There\n');
      expect(deadLinks(root, ['a.md', 'b.md'])).toEqual([
        'a.md:2: b.md has no heading #here',
        'a.md:2: a.md has no heading #none',
        'a.md:2: there is no file c.md',
      ]);
    } finally {
      rmSync(root, { recursive: true });
    }
  });
});

describe('Markdown prose', () => {
  const found = (text) => checkProse('x.md', text).map(({ line, found: what }) => [line, what]);

  it('has American spelling, names of products, and no repeated or filler words', () => {
    expect(found('# Behaviour\n\nWe simply run kubernetes on the the etcd.\n')).toEqual([
      [1, 'Behaviour'],
      [3, 'kubernetes'],
      [3, 'simply'],
      [3, 'We'],
      [3, 'the the'],
    ]);
    expect(found('# Behavior\n\nOarlock runs on etcd, see [k8s](https://kubernetes.io) and `kubernetes`.\n')).toEqual([[3, 'k8s']]);
  });

  it('has one title, no skipped heading level, and a language for each code block', () => {
    expect(found('text\n')).toEqual([[1, 'a page without a title']]);
    expect(found('# A\n### B\n# C\n```\nour code\n```\n')).toEqual([
      [2, '### B'],
      [3, '# C'],
      [4, 'a code block without a language'],
    ]);
    expect(found('# A\n## B\n### C\n## D\n```sh\nour code\n```\n')).toEqual([]);
  });
});

describe('banned names', () => {
  it.each(['serviceDoor', 'settled', '#told', 'PodTally', 'whereabouts'])('finds %s', (name) => {
    expect(bannedName(name)).toBeDefined();
  });

  it.each(['serviceFrontend', 'completedIndexes', 'isSettled', 'container', 'sayonara'])('accepts %s', (name) => {
    expect(bannedName(name)).toBeUndefined();
  });

  it('finds declarations, not uses', () => {
    const { names } = checkSource('x.ts', 'export function f(whereabouts: string) {\n  return other.told(whereabouts);\n}\n');
    expect(names.map(({ found }) => found)).toEqual(['whereabouts']);
  });
});

describe('layout', () => {
  it('finds cycles', () => {
    expect(cyclesOf(graph({ a: ['b'], b: ['c'], c: ['a'], d: ['a'] }))).toEqual([['a', 'b', 'c']]);
    expect(cyclesOf(graph({ a: ['b'], b: [] }))).toEqual([]);
  });

  it('finds folders that import each other and counts internal/ to its owner', () => {
    const [x, y] = ['packages/p/src/x/one.ts', 'packages/p/src/y/two.ts'];
    const inside = 'packages/p/src/x/internal/three.ts';
    expect(folderPairs(graph({ [x]: [y], [y]: [x] })).map(({ folders }) => folders)).toEqual([['packages/p/src/x', 'packages/p/src/y']]);
    expect(folderPairs(graph({ [x]: [inside], [inside]: [x], [y]: [] }))).toEqual([]);
  });

  it('finds imports of internal files from other folders', () => {
    const inside = 'packages/p/src/x/internal/three.ts';
    expect(reachedInternals(graph({ 'packages/p/src/x/one.ts': [inside], [inside]: [] }))).toEqual([]);
    expect(reachedInternals(graph({ 'packages/p/src/y/two.ts': [inside], [inside]: [] }))).toHaveLength(1);
  });

  it('counts the entries of folders', () => {
    expect(folderSizes(['packages/p/src/a.ts', 'packages/p/src/b/c.ts', 'packages/p/src/b/d.ts'])).toEqual([
      ['packages/p/src', 2],
      ['packages/p/src/b', 2],
    ]);
  });
});

describe('diagram of packages', () => {
  const packages = (edges) => new Map(Object.entries(edges).map(([from, to]) => [from, new Set(to)]));

  it('omits dependencies that others imply', () => {
    expect(directEdges(packages({ a: ['b', 'c'], b: ['c'], c: [] }))).toEqual([
      ['a', 'b'],
      ['b', 'c'],
    ]);
  });

  it('has an arrow for each other dependency, and dotted ones for what the cluster loads by name', () => {
    const diagram = packageGraph(packages({ cluster: ['api'], 'my-server': ['api'], api: [] }), { servers: ['my-server'] });
    expect(diagram.split('\n').filter((line) => line.includes('>'))).toEqual([
      '  cluster --> api',
      '  my_server --> api',
      '  cluster -.->|by name| my_server',
      '  cluster -.->|by name| plugins',
    ]);
  });

  it('replaces what is between the markers, and requires them', () => {
    const [begin, end] = ['begin', 'end'].map((word) => `<!-- generated from packages/*/package.json: ${word} -->`);
    expect(withPackageGraph(`a\n${begin}\nold\n${end}\nb`, 'new')).toBe(`a\n${begin}\n\nnew\n\n${end}\nb`);
    expect(() => withPackageGraph('no markers', 'new')).toThrow('are missing');
  });
});

describe('sizes', () => {
  const lines = (count) => 'void 0;\n'.repeat(count);

  it('finds long files, long functions and many parameters', () => {
    const { longFile, longFunctions, wideFunctions } = sizesOf(
      'packages/p/src/x.ts',
      `function long() {\n${lines(limits.functionLines)}}\nfunction wide(a: 1, b: 1, c: 1, d: 1) {}\n${lines(limits.fileLines)}`,
    );
    expect(longFile).toBeGreaterThan(limits.fileLines);
    expect(longFunctions.map(({ name }) => name)).toEqual(['long']);
    expect(wideFunctions.map(({ name, parameters }) => [name, parameters])).toEqual([['wide', 4]]);
  });

  it('accepts what is at the limits', () => {
    const { longFile, longFunctions, wideFunctions } = sizesOf('packages/p/src/x.ts', `function f(a: 1, b: 1, c: 1) {\n${lines(58)}}\n`);
    expect([longFile, longFunctions, wideFunctions]).toEqual([undefined, [], []]);
  });

  it('names a callback after the function that contains it', () => {
    const { wideFunctions } = sizesOf('packages/p/src/x.ts', 'function f() {\n  run((a, b, c, d) => {});\n}\n');
    expect(wideFunctions.map(({ name }) => name)).toEqual(['callback in f']);
  });

  const reason = 'A table of one protocol reads better in one place.';

  it('accepts what is listed with a reason', () => {
    expect(sizeErrors([['a.ts', 301]], [{ reason, entries: ['a.ts'] }])).toEqual([]);
  });

  it.each([
    ['is not listed', [['a.ts', 301]], [], 'a.ts: 301 is over the limit'],
    ['is listed but within the limit', [], [{ reason, entries: ['a.ts'] }], 'a.ts is listed, but within the limit'],
    ['is listed twice', [['a.ts', 301]], [{ reason, entries: ['a.ts', 'a.ts'] }], 'a.ts is listed twice'],
    ['has no reason', [['a.ts', 301]], [{ reason: '', entries: ['a.ts'] }], 'an exception needs a reason'],
  ])('fails if an entry %s', (_, findings, exceptions, error) => {
    expect(sizeErrors(findings, exceptions)).toEqual([expect.stringContaining(error)]);
  });
});

describe('API report', () => {
  const files = ['src/a.ts', 'src/internal/b.ts', 'src/slot/slot.ts', 'src/slot/errors.ts', 'src/slot/contract/contract.ts'];
  const source = (target) => ({ '@oarlock/source': target });

  it('covers the files that exports lead to', () => {
    expect(exportedFiles({ './internal/*': null, './*': source('./src/*.ts') }, ['src/a.ts', 'src/internal/b.ts'])).toEqual(['src/a.ts']);
    expect(exportedFiles({ './*/contract': source('./src/*/contract/contract.ts'), './*': source('./src/*/*.ts') }, files)).toEqual([
      'src/slot/contract/contract.ts',
      'src/slot/slot.ts',
    ]);
  });

  it('omits imports and private members, and differs if a signature changes', () => {
    const declarations = (result) => `import x from 'y';\nexport declare class A {\n    #private;\n    f(): ${result};\n}\n`;
    expect(publicDeclarations(declarations('string'))).toBe('export declare class A {\n    f(): string;\n}');
    expect(publicDeclarations(declarations('number'))).not.toBe(publicDeclarations(declarations('string')));
  });
});

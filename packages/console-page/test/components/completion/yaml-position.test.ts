import { describe, expect, it } from 'vitest';
import { positionAt } from '../../../src/components/completion/yaml-position.ts';

/** Returns the position of the mark `|`. */
const at = (text: string) => positionAt(text.replace('|', ''), text.indexOf('|'));
const pathAt = (text: string) => at(text)?.path.join('/');

const head = 'apiVersion: apps/v1\nkind: Deployment\n';

describe('positionAt', () => {
  it.each([
    ['the root', 'ki|', ''],
    ['a mapping', 'spec:\n  repl|', 'spec'],
    ['an empty line of a mapping', 'spec:\n  replicas: 1\n  |', 'spec'],
    ['the first key of a list item', 'spec:\n  containers:\n    - na|', 'spec/containers/[]'],
    ['a later key of a list item', 'spec:\n  containers:\n    - name: a\n      im|', 'spec/containers/[]'],
    ['a list at the column of its key', 'spec:\n  containers:\n  - name: a\n    im|', 'spec/containers/[]'],
    ['a second item', 'spec:\n  containers:\n  - name: a\n    env:\n    - name: X\n  - na|', 'spec/containers/[]'],
    ['a list in a list', 'spec:\n  containers:\n  - env:\n    - name: A\n      va|', 'spec/containers/[]/env/[]'],
    ['a list of lists', 'm:\n- - a|', 'm/[]/[]'],
    ['the mapping after a list', 'spec:\n  containers:\n  - name: a\n  vol|', 'spec'],
    ['comments and empty lines between', 'spec:\n\n# text\n  template:\n    # more\n\n    sp|', 'spec/template'],
    ['a quoted key', 'metadata:\n  labels:\n    "a/b":\n      c|', 'metadata/labels/a/b'],
    ['the second document', 'a:\n  b: 1\n---\nspec:\n  re|', 'spec'],
  ])('finds %s', (_, text, path) => {
    expect(pathAt(text)).toBe(path);
  });

  it('returns the key, the typed text and its range at a value', () => {
    expect(at(`${head}spec:\n  imagePullPolicy: Al|ways # text`)).toMatchObject({
      ...{ path: ['spec'], key: 'imagePullPolicy', prefix: 'Al', apiVersion: 'apps/v1', kind: 'Deployment' },
      ...{ from: head.length + 'spec:\n  imagePullPolicy: '.length, to: head.length + 'spec:\n  imagePullPolicy: Always'.length },
    });
    expect(at('spec:\n  x: |')).toMatchObject({ path: ['spec'], key: 'x', prefix: '' });
  });

  it('replaces the whole key, but not its colon', () => {
    const text = 'spec:\n  repl|icas: 3';
    expect(at(text)).toMatchObject({ key: undefined, prefix: 'repl', from: 8, to: 16, column: 2 });
  });

  it('returns the other keys of the same mapping only', () => {
    const text = 'spec:\n  containers:\n  - name: a\n    image: b\n    |\n    env:\n    - name: X\n  - name: c\n    command: []\n';
    expect(at(text)?.siblings).toEqual(['image', 'name', 'env']);
    expect(at('a: 1\nb:\n  c: 1\n|\nd: 2')?.siblings).toEqual(['b', 'a', 'd']);
  });

  it.each([
    ['a comment', '# te|'],
    ['a text block', 'data:\n  text: |-\n    line'.replace('line', 'li|')],
    ['a value in flow style', 'spec: {re|'],
    ['text with spaces', 'some words|'],
    ['a line below a value', 'spec: 1\n  re|'],
    ['a separator', '---|'],
  ])('returns undefined in %s', (_, text) => {
    const caret = text.lastIndexOf('|');
    expect(positionAt(text.slice(0, caret) + text.slice(caret + 1), caret)).toBeUndefined();
  });
});

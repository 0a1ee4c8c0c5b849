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
    ['quoted text in flow style after an escape', 'spec: {"re\\|'],
    ['the end of quoted text in flow style', 'spec: {"re"|'],
    ['a comment in flow style', 'spec: { # re|\n}'],
    ['the end of a value in flow style', 'spec: { a: {} |}'],
    ['brackets in a text block', 'data:\n  x: |-\n    { a: 1, re'.concat('|')],
    ['text with spaces', 'some words|'],
    ['a line below a value', 'spec: 1\n  re|'],
    ['a separator', '---|'],
  ])('returns undefined in %s', (_, text) => {
    const caret = text.lastIndexOf('|');
    expect(positionAt(text.slice(0, caret) + text.slice(caret + 1), caret)).toBeUndefined();
  });
});

describe('positionAt in flow style', () => {
  it.each([
    ['a mapping', 'spec: {re|', 'spec'],
    ['an empty mapping', 'spec: {|}', 'spec'],
    ['a later key', 'spec: { a: 1, b|', 'spec'],
    ['a nested mapping', 'spec: { a: { b: { c| } } }', 'spec/a/b'],
    ['the mapping after a nested one', 'spec: { a: { b: 1 }, c|', 'spec'],
    ['a list', 'spec:\n  modes: [A, |]', 'spec/modes/[]'],
    ['a mapping in a list', 'spec: { containers: [{ name: a }, { na|', 'spec/containers/[]'],
    ['a list in a list', 'm: [[a], [b|', 'm/[]/[]'],
    ['a mapping in an item of a block', 'spec:\n  containers:\n  - { name: a, im|', 'spec/containers/[]'],
    ['a value of a key in an item of a block', 'spec:\n  ports:\n    - range: [1, |]', 'spec/ports/[]/range/[]'],
    ['several lines', 'spec: {\n  a: 1, # text }\n  "b": [\n    "]",\n    |', 'spec/b/[]'],
    ['a document in JSON', '{ "kind": "Pod", "spec": { "containers": [{"name":"a",|', 'spec/containers/[]'],
    ['a value after another in flow style', 'a: { b: 1 }\nspec: { c|', 'spec'],
    ['text after an unfinished value', 'a: { b: 1,\nspec:\n  c|', 'spec'],
    ['a value after an unfinished quote', 'a: { b: "x\nspec: { c|', 'spec'],
    ['the second document', 'a: [b\n---\nspec: { re|', 'spec'],
    ['a URL', 'spec: { url: http://a:80/#b, re|', 'spec'],
  ])('finds %s', (_, text, path) => {
    expect(pathAt(text)).toBe(path);
  });

  it('returns the key, the typed text, its range and the other keys', () => {
    const text = `${head}spec: { a: x, imagePullPolicy: Al|ways, "c": 1 }`;
    const from = text.indexOf('Al|');
    expect(at(text)).toMatchObject({
      ...{ path: ['spec'], key: 'imagePullPolicy', prefix: 'Al', from, to: from + 6, style: 'flow-mapping' },
      ...{ siblings: ['a', 'imagePullPolicy', 'c'], apiVersion: 'apps/v1', kind: 'Deployment' },
    });
    expect(at('spec: { a: 1, re|pl: 2, c: 3 }')).toMatchObject({ key: undefined, prefix: 're', from: 14, to: 18, siblings: ['a', 'c'] });
  });

  it.each([
    ['an open quote', "{ kind: 'Po|", { key: 'kind', prefix: 'Po', quote: "'" }, "'Po"],
    ['an open quote before a bracket', '{ kind: "Po|d }', { key: 'kind', prefix: 'Po', quote: '"' }, '"Pod'],
    ['an open quote before other quotes', '{ kind: "Po|, "metadata": {} }', { key: 'kind', prefix: 'Po' }, '"Po'],
    ['a closed quote', '{"kind":"Po|d", "a": 1 }', { key: 'kind', prefix: 'Po' }, '"Pod"'],
    ['an empty quote', '{"kind": "|"}', { key: 'kind', prefix: '' }, '""'],
    ['a key', '{ "ki|", "a": 1 }', { key: undefined, prefix: 'ki', siblings: ['a'], isBeforeColon: false }, '"ki"'],
    ['a key before its colon', '{ "ki|nd": 1 }', { key: undefined, prefix: 'ki', siblings: [], isBeforeColon: true }, '"kind"'],
    ['an item', '{ a: ["x", "y|"] }', { path: ['a', '[]'], key: undefined, prefix: 'y' }, '"y"'],
  ])('replaces the text of %s', (_, text, expected, replaced) => {
    const position = at(text);
    expect(position).toMatchObject(expected);
    expect(text.replace('|', '').slice(position?.from, position?.to)).toBe(replaced);
  });

  it('returns the type of a document in JSON', () => {
    expect(at('{ "apiVersion": "v1", "kind": "Pod", |')).toMatchObject({
      apiVersion: 'v1',
      kind: 'Pod',
      path: [],
      siblings: ['apiVersion', 'kind'],
    });
  });
});

import { describe, expect, it } from 'vitest';
import { objectLink, tableLink } from '../../src/app/links.ts';
import { link, matchPath, parseLocation } from '../../src/app/router.ts';

describe('a link', () => {
  it('leads back to its segments and parameters', () => {
    const hostile = 'a/b?c#d%2F é';
    const { path, query } = parseLocation(link(['o', hostile], { q: hostile, none: undefined, empty: '' }));
    expect(matchPath('/o/:name', path)).toEqual({ name: hostile });
    expect(query).toEqual({ q: hostile });
  });
  it('names the core group and cluster-scoped objects', () => {
    expect(tableLink({ group: '', version: 'v1', resource: 'pods' })).toBe('#/r/core/v1/pods');
    expect(objectLink({ group: '', version: 'v1', resource: 'nodes' }, { name: 'n' }, 'yaml')).toBe('#/o/core/v1/nodes/-/n/yaml');
  });
});

describe('a path', () => {
  it.each([
    ['/', '/', {}],
    ['/a/:b?', '/a', {}],
    ['/a/:b?', '/a/c', { b: 'c' }],
    ['/a/:b', '/a', undefined],
    ['/a', '/a/b', undefined],
    ['/a/:b', '/x/c', undefined],
    ['/a/:b', '/a/%zz', { b: '%zz' }],
  ])('%s matches %s: %j', (pattern, path, parameters) => {
    expect(matchPath(pattern, path)).toEqual(parameters);
  });
  it('without a fragment is the first view', () => {
    expect(parseLocation('')).toEqual({ path: '/', query: {} });
  });
});

import { resource } from '@oarlock/api/resource';
import { clusterRoles, controllerRevisions, customResourceDefinitions, resourceClaims } from '@oarlock/api/resources';
import { dropNulls, mayIgnoreNulls } from '@oarlock/client/http/internal/null-fields';
import { describe, expect, it } from 'vitest';

describe('null in what servers written in Go answer', () => {
  it('says nothing, but where an object holds JSON of others', () => {
    expect(mayIgnoreNulls(clusterRoles)).toBe(true);
    for (const each of [controllerRevisions, customResourceDefinitions, resourceClaims, resource('example.com', 'v1', 'foos', 'Foo', true)])
      expect(mayIgnoreNulls(each)).toBe(false);
  });

  it('is taken out of members at every depth, and never out of lists', () => {
    const role = { rules: null, items: [{ rules: null, verbs: ['get', null] }, null], metadata: { creationTimestamp: null, name: 'a' } };
    dropNulls(role);
    expect(role).toEqual({ items: [{ verbs: ['get', null] }, null], metadata: { name: 'a' } });
    dropNulls(null);
    dropNulls('null');
  });
});

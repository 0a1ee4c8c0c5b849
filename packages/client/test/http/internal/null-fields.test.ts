import { resource } from '@oarlock/api/resource';
import { clusterRoles, controllerRevisions, customResourceDefinitions, resourceClaims } from '@oarlock/api/resources';
import { dropNulls, mayIgnoreNulls, parseWithoutNulls } from '@oarlock/client/http/internal/null-fields';
import { describe, expect, it } from 'vitest';

describe('null values in responses of Go servers', () => {
  it('are dropped, except in fields with arbitrary JSON', () => {
    expect(mayIgnoreNulls(clusterRoles)).toBe(true);
    for (const each of [controllerRevisions, customResourceDefinitions, resourceClaims, resource('example.com', 'v1', 'foos', 'Foo', true)])
      expect(mayIgnoreNulls(each)).toBe(false);
  });

  it('are removed from objects at every depth, but not from lists', () => {
    const role = { rules: null, items: [{ rules: null, verbs: ['get', null] }, null], metadata: { creationTimestamp: null, name: 'a' } };
    dropNulls(role);
    expect(role).toEqual({ items: [{ verbs: ['get', null] }, null], metadata: { name: 'a' } });
    dropNulls(null);
    dropNulls('null');
  });

  it('are not parsed in conditions, and stay in texts', () => {
    const conditions = [
      { type: 'Ready', lastProbeTime: null, status: 'True' },
      { lastProbeTime: null, type: 'A' },
      { type: 'B', lastProbeTime: null },
      { lastProbeTime: null },
    ];
    const message = 'x "lastProbeTime":null,"a":null';
    expect(parseWithoutNulls(JSON.stringify({ conditions, message, other: null }))).toEqual({
      conditions: [{ type: 'Ready', status: 'True' }, { type: 'A' }, { type: 'B' }, {}],
      message,
    });
    expect(parseWithoutNulls(JSON.stringify({ message }))).toEqual({ message });
  });
});

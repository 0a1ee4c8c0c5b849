import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyJsonPatch } from '@oarlock/api/patches/json-patch';
import { jsonEqual } from '@oarlock/api/json/json';
import { applyMergePatch } from '@oarlock/api/patches/merge-patch';
import { deepFreeze } from '@oarlock/api/object';
import { schemaOf, type Schema } from '@oarlock/api/schema/schema';
import { StatusError } from '@oarlock/api/status';
import { applyStrategicMergePatch } from '@oarlock/api/patches/strategic-merge-patch';

const statusOf = (run: () => unknown): StatusError => {
  try {
    run();
  } catch (error) {
    if (error instanceof StatusError) return error;
    throw error;
  }
  throw new Error('not rejected');
};

describe('JSON patch', () => {
  const doc = deepFreeze({ a: { b: [1, 2, 3] }, 'x/y': 1, 'm~n': 2 });
  it.each([
    [[{ op: 'add', path: '/a/b/1', value: 9 }], { a: { b: [1, 9, 2, 3] } }],
    [[{ op: 'add', path: '/a/b/-', value: 9 }], { a: { b: [1, 2, 3, 9] } }],
    [
      [
        { op: 'add', path: '/a/c', value: { d: 1 } },
        { op: 'add', path: '/a/c/e', value: 2 },
      ],
      { a: { b: [1, 2, 3], c: { d: 1, e: 2 } } },
    ],
    [[{ op: 'remove', path: '/a/b/0' }], { a: { b: [2, 3] } }],
    [[{ op: 'replace', path: '/a/b', value: null }], { a: { b: null } }],
    // Kubernetes' library reads an absent value as null, because Go clients omit empty values
    [[{ op: 'replace', path: '/a/b' }], { a: { b: null } }],
    [
      [
        { op: 'add', path: '/a/c' },
        { op: 'test', path: '/a/c' },
      ],
      { a: { b: [1, 2, 3], c: null } },
    ],
    [[{ op: 'move', from: '/a/b/0', path: '/a/b/2' }], { a: { b: [2, 3, 1] } }],
    [
      [
        { op: 'copy', from: '/a/b', path: '/a/c' },
        { op: 'add', path: '/a/c/-', value: 4 },
      ],
      { a: { b: [1, 2, 3], c: [1, 2, 3, 4] } },
    ],
    [
      [
        { op: 'test', path: '/a/b', value: [1, 2, 3] },
        { op: 'test', path: '/nope', value: null },
      ],
      {},
    ],
    [
      [
        { op: 'replace', path: '/x~1y', value: 3 },
        { op: 'remove', path: '/m~0n' },
      ],
      { 'x/y': 3, 'm~n': undefined },
    ],
  ])('%j', (patch, expected) => expect(jsonEqual(applyJsonPatch(doc, patch), { ...doc, ...expected })).toBe(true));

  it.each([
    [[{ op: 'test', path: '/a/b', value: 1 }]],
    [[{ op: 'test', path: '/a/b' }]],
    [[{ op: 'replace', path: '' }]],
    [[{ op: 'remove', path: '/nope' }]],
    [[{ op: 'replace', path: '/nope', value: 1 }]],
    [[{ op: 'add', path: '/nope/x', value: 1 }]],
    [[{ op: 'add', path: '/a/b/4', value: 1 }]],
    [[{ op: 'add', path: '/a/b/length', value: 4e9 }]],
    [[{ op: 'replace', path: '/a/b/length', value: 4e9 }]],
    [[{ op: 'remove', path: '/a/b/-1' }]],
    [[{ op: 'frob', path: '/a' }]],
    [[{ op: 'move', from: '/a', path: '/a/b/0' }]],
    [[{ op: 'add', path: 'a', value: 1 }]],
    [[{ op: 'add', path: '/toString/x', value: 1 }]],
    [[{ op: 'add', path: '/constructor/prototype/polluted', value: 1 }]],
    [[{ op: 'add', path: '/__proto__/polluted', value: 1 }]],
    [[{ op: 'remove', path: '' }]],
  ])('rejects %j with 422 and the reason as its cause', (patch) => {
    const error = statusOf(() => applyJsonPatch(doc, patch));
    expect(error.status).toMatchObject({
      code: 422,
      reason: 'Invalid',
      message: 'the server rejected our request due to an error in our request',
    });
    expect(error.cause).toBeInstanceOf(Error);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
  it('limits operations and copies', () => {
    expect(
      statusOf(() =>
        applyJsonPatch(
          doc,
          Array.from({ length: 10_001 }, () => ({ op: 'test', path: '/a', value: 1 })),
        ),
      ).status,
    ).toMatchObject({ code: 413, message: 'Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001' });
    const doubling = [
      { op: 'add', path: '/s', value: ['x'.repeat(1000)] },
      ...Array.from({ length: 30 }, () => ({ op: 'copy', from: '/s', path: '/s/-' })),
    ];
    expect(String(statusOf(() => applyJsonPatch(doc, doubling)).cause)).toContain('exceeding the limit');
    expect(statusOf(() => applyJsonPatch(doc, {})).code).toBe(400);
    expect(statusOf(() => applyJsonPatch(doc, [{ op: 'add', path: '/__proto__', value: {} }])).code).toBe(400);
  });
  it('stores keys that shadow inherited names', () => {
    const result = applyJsonPatch({}, [{ op: 'add', path: '/constructor', value: 'x' }]) as Record<string, unknown>;
    expect(Object.hasOwn(result, 'constructor')).toBe(true);
  });
});

describe('merge patch', () => {
  it.each([
    [{ a: 1, b: { c: 2 } }, { b: { d: 3 } }, { a: 1, b: { c: 2, d: 3 } }],
    [{ a: 1 }, { a: null }, {}],
    [{ a: [1, 2] }, { a: [3] }, { a: [3] }],
    [{ a: 'x' }, { a: { b: null, c: 1 } }, { a: { c: 1 } }],
    [{ a: 1 }, 'x', 'x'],
    [{}, { toString: { x: 1 } }, { toString: { x: 1 } }],
  ])('%j with %j is %j', (doc, patch, expected) => expect(applyMergePatch(deepFreeze(doc), deepFreeze(patch))).toEqual(expected));
  it('rejects __proto__', () => {
    expect(statusOf(() => applyMergePatch({}, JSON.parse('{"a":{"__proto__":{"polluted":1}}}'))).code).toBe(400);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});

const pod = schemaOf({ group: '', version: 'v1', kind: 'Pod' }) as Schema;
const deployment = schemaOf({ group: 'apps', version: 'v1', kind: 'Deployment' }) as Schema;
const service = schemaOf({ group: '', version: 'v1', kind: 'Service' }) as Schema;
const merge = (doc: Record<string, unknown>, patch: unknown, schema = pod) =>
  applyStrategicMergePatch(deepFreeze(doc), deepFreeze(patch), schema);
const podWith = (containers: unknown[], spec = {}) => ({ spec: { containers, ...spec } });

describe('strategic merge patch', () => {
  it('merges lists by merge key, new items first', () => {
    expect(
      merge(
        podWith([{ name: 'a', image: 'x', env: [{ name: 'E', value: '1' }] }, { name: 'b' }]),
        podWith([
          { name: 'c', image: 'z' },
          { name: 'a', env: [{ name: 'F', value: '2' }] },
        ]),
      ),
    ).toEqual(
      podWith([
        { name: 'c', image: 'z' },
        {
          name: 'a',
          image: 'x',
          env: [
            { name: 'F', value: '2' },
            { name: 'E', value: '1' },
          ],
        },
        { name: 'b' },
      ]),
    );
  });
  it('merges by numeric keys', () => {
    expect(
      merge(
        {
          spec: {
            ports: [
              { port: 80, name: 'a' },
              { port: 443, name: 'b' },
            ],
          },
        },
        { spec: { ports: [{ port: 443, targetPort: 8443 }] } },
        service,
      ),
    ).toEqual({
      spec: {
        ports: [
          { port: 80, name: 'a' },
          { port: 443, name: 'b', targetPort: 8443 },
        ],
      },
    });
  });
  it('replaces atomic lists and removes on null', () => {
    expect(merge(podWith([{ name: 'a', args: ['x'], command: ['y'] }]), podWith([{ name: 'a', args: ['z'], command: null }]))).toEqual(
      podWith([{ name: 'a', args: ['z'] }]),
    );
  });
  it('merges maps, atomic only for apply', () => {
    expect(
      merge(
        { metadata: { labels: { a: '1', b: '2' } }, spec: { nodeSelector: { x: '1' } } },
        { metadata: { labels: { b: null, c: '3' } }, spec: { nodeSelector: { y: '2' } } },
      ),
    ).toEqual({ metadata: { labels: { a: '1', c: '3' } }, spec: { nodeSelector: { x: '1', y: '2' } } });
  });
  it('applies $patch', () => {
    expect(merge(podWith([{ name: 'a' }, { name: 'b' }]), podWith([{ name: 'a', $patch: 'delete' }]))).toEqual(podWith([{ name: 'b' }]));
    expect(merge(podWith([{ name: 'a' }, { name: 'b' }]), podWith([{ $patch: 'replace' }, { name: 'c' }]))).toEqual(
      podWith([{ name: 'c' }]),
    );
    expect(
      merge({ spec: { securityContext: { runAsUser: 1 } } }, { spec: { securityContext: { $patch: 'replace', runAsGroup: 2 } } }),
    ).toEqual({ spec: { securityContext: { runAsGroup: 2 } } });
    expect(merge({ spec: { securityContext: { runAsUser: 1 } } }, { spec: { securityContext: { $patch: 'delete' } } })).toEqual({
      spec: { securityContext: {} },
    });
    expect(
      merge({ spec: { securityContext: { runAsUser: 1 } } }, { spec: { securityContext: { $patch: 'merge', runAsGroup: 2 } } }),
    ).toEqual({ spec: { securityContext: { runAsUser: 1, runAsGroup: 2 } } });
  });
  it('merges lists of scalars as sets and deletes from them', () => {
    expect(merge({ metadata: { finalizers: ['a', 'b'] } }, { metadata: { finalizers: ['c', 'a'] } })).toEqual({
      metadata: { finalizers: ['c', 'a', 'b'] },
    });
    expect(merge({ metadata: { finalizers: ['a', 'b'] } }, { metadata: { '$deleteFromPrimitiveList/finalizers': ['a'] } })).toEqual({
      metadata: { finalizers: ['b'] },
    });
    expect(
      merge(
        { metadata: { finalizers: ['a', 'b'] } },
        { metadata: { '$deleteFromPrimitiveList/finalizers': ['a'], '$setElementOrder/finalizers': ['c', 'b'], finalizers: ['c'] } },
      ),
    ).toEqual({ metadata: { finalizers: ['c', 'b'] } });
  });
  it('applies $setElementOrder', () => {
    expect(
      merge(podWith([{ name: 'a' }, { name: 'b' }, { name: 'c' }]), {
        spec: { '$setElementOrder/containers': [{ name: 'c' }, { name: 'a' }] },
      }),
    ).toEqual(podWith([{ name: 'b' }, { name: 'c' }, { name: 'a' }]));
    expect(
      merge(podWith([{ name: 'a' }, { name: 'b' }]), {
        spec: { '$setElementOrder/containers': [{ name: 'a' }, { name: 'n' }], containers: [{ name: 'n', image: 'x' }] },
      }),
    ).toEqual(podWith([{ name: 'a' }, { name: 'n', image: 'x' }, { name: 'b' }]));
    expect(
      merge(
        { spec: {} },
        { spec: { '$setElementOrder/containers': [{ name: 'n' }], containers: [{ name: 'n' }, { name: 'g', $patch: 'delete' }] } },
      ),
    ).toEqual(podWith([{ name: 'n' }]));
  });
  it('applies $retainKeys', () => {
    expect(
      merge(
        { spec: { strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1 } } } },
        { spec: { strategy: { $retainKeys: ['type'], type: 'Recreate' } } },
        deployment,
      ),
    ).toEqual({ spec: { strategy: { type: 'Recreate' } } });
    expect(
      merge(
        { spec: { containers: [], volumes: [{ name: 'v', emptyDir: {} }] } },
        { spec: { volumes: [{ name: 'v', $retainKeys: ['name', 'hostPath'], hostPath: { path: '/x' } }] } },
      ),
    ).toEqual({ spec: { containers: [], volumes: [{ name: 'v', hostPath: { path: '/x' } }] } });
  });
  it('stores no directive or null if there was nothing to merge with', () => {
    expect(merge({}, { spec: { strategy: { $retainKeys: ['type'], type: 'Recreate', rollingUpdate: null } } }, deployment)).toEqual({
      spec: { strategy: { type: 'Recreate' } },
    });
  });
  it.each([
    [podWith([{ image: 'x' }]), 'map: map[image:x] does not contain declared merge key: name'],
    [podWith([{ name: 'a', $patch: 'frob' }]), 'unknown patch type: frob in map: map[$patch:frob name:a]'],
    [
      podWith([{ image: 'x', args: ['a', 'b'], tty: true }]),
      'map: map[args:[a b] image:x tty:true] does not contain declared merge key: name',
    ],
    [podWith(['x']), 'list element types are not identical: [x]'],
    [{ metadata: { '$deleteFromPrimitiveList/finalizers': 'a' } }, 'invalid patch format of primitive list'],
    [{ spec: { securityContext: { $retainKeys: ['a'], runAsUser: 1 } } }, 'invalid patch format of retainKeys'],
    [{ spec: { '$setElementOrder/containers': 'x' } }, 'expected a []interface {}, but received a string'],
    [{ spec: { '$setElementOrder/containers': null } }, 'expected a []interface {}, but received a %!s(<nil>)'],
    [{ spec: { '$setElementOrder/containers': [], containers: {} } }, 'expected a []interface {}, but received a map[string]interface {}'],
    [
      { spec: { '$setElementOrder/containers': [{ name: 'z' }], containers: [{ name: 'a' }] } },
      "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:z]]\n",
    ],
    [[], 'invalid JSON document'],
    [JSON.parse('{"metadata":{"labels":{"__proto__":"x"}}}'), '__proto__'],
  ])('rejects %j', (patch, message) => {
    const error = statusOf(() =>
      merge({ metadata: { finalizers: ['a'], labels: {} }, ...podWith([{ name: 'a' }], { securityContext: {} }) }, patch),
    );
    expect(error.message).toContain(message);
    expect(error.code).toBe(400);
  });

  const name = fc.constantFrom('a', 'b', 'c', 'd', 'e');
  const containers = fc.uniqueArray(fc.record({ name, image: fc.constantFrom('x', 'y') }), { selector: (c) => c.name, maxLength: 5 });
  it('is idempotent and keeps fields that the patch does not contain', () => {
    fc.assert(
      fc.property(containers, containers, (before, change) => {
        const once = merge(podWith(before), podWith(change)) as { spec: { containers: { name: string }[] } };
        expect(merge(once, podWith(change))).toEqual(once);
        expect(once.spec.containers.map((c) => c.name).sort()).toEqual([...new Set([...before, ...change].map((c) => c.name))].sort());
        for (const c of change) expect(once.spec.containers).toContainEqual(c);
        const relative = once.spec.containers.filter((c) => change.some((d) => d.name === c.name)).map((c) => c.name);
        expect(relative).toEqual(change.map((c) => c.name));
      }),
    );
  });
  it('produces the requested order', () => {
    fc.assert(
      fc.property(containers, fc.shuffledSubarray(['a', 'b', 'c', 'd', 'e']), (before, order) => {
        const result = merge(podWith(before), { spec: { '$setElementOrder/containers': order.map((n) => ({ name: n })) } }) as {
          spec: { containers: { name: string }[] };
        };
        expect(result.spec.containers).toHaveLength(before.length);
        const asked = result.spec.containers.map((c) => c.name).filter((n) => order.includes(n));
        expect(asked).toEqual(order.filter((n) => asked.includes(n)));
      }),
    );
  });
});

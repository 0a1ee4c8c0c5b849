import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isStatus } from '../../src/status.ts';
import { deepFreeze, type KubeObject } from '../../src/object.ts';
import { builtinFieldManager } from './support/builtin-field-manager.ts';

type Data = Readonly<Record<string, string>>;
type ConfigMap = KubeObject & { readonly data?: Data };
const configMap = (data: Data): ConfigMap => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data });

const key = fc.constantFrom('a', 'b', 'c', 'd');
const data = fc.dictionary(key, fc.constantFrom('1', '2'), { maxKeys: 4, noNullPrototype: true });
const who = fc.constantFrom('one', 'two', 'three');
const step = fc.oneof(
  fc.record({ does: fc.constant('apply' as const), who, data, force: fc.boolean() }),
  fc.record({ does: fc.constant('update' as const), who, data, gone: fc.array(key, { maxLength: 2 }) }),
);

/** A reference model of field ownership with top-level keys only. */
class Model {
  data = new Map([['base', '0']]);
  owners = new Map([['first Update', new Set(['base'])]]);

  apply(name: string, config: Data, force: boolean): boolean {
    const id = `${name} Apply`;
    const changed = Object.keys(config).filter((k) => this.data.get(k) !== config[k]);
    const others = [...this.owners].filter(([other]) => other !== id);
    if (!force && others.some(([, keys]) => changed.some((k) => keys.has(k)))) return false;
    const dropped = [...(this.owners.get(id) ?? [])].filter((k) => !(k in config));
    const gone = dropped.filter((k) => !others.some(([, keys]) => keys.has(k)));
    this.#write(config, gone);
    this.#lose([...changed, ...gone], id);
    this.owners.set(id, new Set(Object.keys(config)));
    return true;
  }

  update(name: string, sets: Data, gone: readonly string[]): void {
    const id = `${name} Update`;
    const changed = Object.keys(sets).filter((k) => !gone.includes(k) && this.data.get(k) !== sets[k]);
    this.#write(Object.fromEntries(changed.map((k) => [k, sets[k] ?? ''])), gone);
    this.#lose([...changed, ...gone]);
    this.owners.set(id, new Set([...(this.owners.get(id) ?? []), ...changed]));
  }

  #write(sets: Data, gone: readonly string[]): void {
    for (const [k, value] of Object.entries(sets)) this.data.set(k, value);
    for (const k of gone) this.data.delete(k);
  }

  #lose(keys: readonly string[], but = ''): void {
    for (const [id, owned] of this.owners) if (id !== but) for (const k of keys) owned.delete(k);
  }

  seen() {
    const owners = [...this.owners].filter(([, keys]) => keys.size > 0).map(([id, keys]) => [id, [...keys].sort()] as const);
    return { data: Object.fromEntries([...this.data].sort()), owners: Object.fromEntries(owners.sort()) };
  }
}

function seen(object: ConfigMap) {
  const owners = (object.metadata?.managedFields ?? []).flatMap(({ manager, operation, fieldsV1 }) => {
    const fields = (fieldsV1 as { 'f:data'?: object })['f:data'] ?? {};
    const keys = Object.keys(fields).filter((k) => k !== '.');
    return keys.length === 0 ? [] : [[`${manager ?? ''} ${operation ?? ''}`, keys.map((k) => k.slice(2)).sort()] as const];
  });
  return {
    data: Object.fromEntries(Object.entries(object.data ?? {}).sort()),
    owners: Object.fromEntries(owners.sort((a, b) => (a[0] < b[0] ? -1 : 1))),
  };
}

describe('managers', () => {
  it('own the same fields as in a reference model after random applies and updates', () => {
    const manager = builtinFieldManager({ group: '', version: 'v1', kind: 'ConfigMap' });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 16 }), (steps) => {
        const model = new Model();
        let live: ConfigMap = deepFreeze(manager.update(undefined, configMap({ base: '0' }), 'first', 0));
        for (const [i, each] of steps.entries()) {
          if (each.does === 'apply') {
            const went = model.apply(each.who, each.data, each.force);
            try {
              live = deepFreeze(manager.apply(live, configMap(each.data), each.who, each.force, i * 1000) as ConfigMap);
              expect(went).toBe(true);
            } catch (error) {
              if (!isStatus(error, 'Conflict')) throw error;
              expect(went).toBe(false);
            }
          } else {
            model.update(each.who, each.data, each.gone);
            const next: Record<string, string> = { ...live.data, ...each.data };
            for (const k of each.gone) delete next[k];
            live = deepFreeze(manager.update(live, { ...live, data: next } as ConfigMap, each.who, i * 1000) as ConfigMap);
          }
          expect(seen(live)).toEqual(model.seen());
        }
      }),
    );
  });
});

const containers = fc.uniqueArray(
  fc.record(
    {
      name: fc.constantFrom('x', 'y', 'z'),
      image: fc.constantFrom('i', 'j'),
      env: fc.uniqueArray(fc.record({ name: fc.constantFrom('A', 'B'), value: fc.constantFrom('1', '2') }), {
        selector: ({ name }) => name,
      }),
      ports: fc.uniqueArray(
        fc.record({ containerPort: fc.constantFrom(80, 81), protocol: fc.constantFrom('TCP', 'UDP') }, { requiredKeys: ['containerPort'] }),
        {
          selector: ({ containerPort, protocol = 'TCP' }) => `${containerPort}${protocol}`,
        },
      ),
      args: fc.array(fc.constantFrom('a', 'b'), { maxLength: 2 }),
      securityContext: fc.record({ runAsUser: fc.constantFrom(1, 2), capabilities: fc.constant({}) }, { requiredKeys: [] }),
    },
    { requiredKeys: ['name'] },
  ),
  { selector: ({ name }) => name, minLength: 1, maxLength: 3 },
);
const podConfig = fc
  .record(
    {
      containers,
      nodeSelector: fc.dictionary(key, fc.constant('v'), { noNullPrototype: true }),
      hostNetwork: fc.boolean(),
      tolerations: fc.array(fc.record({ key })),
    },
    { requiredKeys: ['containers'] },
  )
  .chain((spec) =>
    fc
      .record(
        { labels: fc.dictionary(key, fc.constantFrom('1', '2'), { noNullPrototype: true }), finalizers: fc.uniqueArray(key) },
        { requiredKeys: [] },
      )
      .map((metadata): KubeObject => ({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', ...metadata }, ...{ spec } })),
  );
const bare = (object: KubeObject) => {
  const { managedFields: _managers, ...metadata } = object.metadata ?? {};
  return { ...object, metadata };
};

describe('applying', () => {
  const manager = builtinFieldManager({ group: '', version: 'v1', kind: 'Pod' });

  it('the same configuration twice equals applying it once', () => {
    fc.assert(
      fc.property(podConfig, podConfig, (before, config) => {
        const live = deepFreeze(manager.apply(undefined, before, 'other', false, 0));
        const once = deepFreeze(manager.apply(live, config, 'me', true, 0));
        expect(manager.apply(once, config, 'me', false, 0)).toEqual(once);
      }),
    );
  });

  it('another configuration removes all fields of the previous one', () => {
    fc.assert(
      fc.property(podConfig, podConfig, (first, second) => {
        const live = deepFreeze(manager.apply(undefined, first, 'me', false, 0));
        const next = manager.apply(live, second, 'me', false, 0);
        const fresh = manager.apply(undefined, second, 'me', false, 0);
        expect(next.metadata?.managedFields).toEqual(fresh.metadata?.managedFields);
      }),
    );
  });

  it('the same values by two managers does not conflict, and the values remain until the last manager removes them', () => {
    fc.assert(
      fc.property(podConfig, (config) => {
        const live = deepFreeze(manager.apply(undefined, config, 'one', false, 0));
        const both = deepFreeze(manager.apply(live, config, 'two', false, 0));
        expect(bare(both)).toEqual(bare(live));
        const nothing: KubeObject = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' } };
        const left = manager.apply(both, nothing, 'one', false, 0);
        expect(bare(left)).toEqual(bare(live));
        expect(left.metadata?.managedFields?.map((entry) => entry.manager)).toEqual(live.metadata?.managedFields?.map(() => 'two'));
      }),
    );
  });
});

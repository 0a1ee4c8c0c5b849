import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isVerdict, reaches, type AdmissionPlugin, type AdmissionRequest, type Verdict } from './admission.ts';
import type { Identity } from './authn.ts';

/** One request and what becomes of it. */
export interface AdmissionCase {
  readonly title: string;
  readonly request: AdmissionRequest;
  /** `ignored`: not this plugin's affair: it passes, unchanged. */
  readonly outcome: 'allowed' | 'denied' | 'ignored';
  /** Looks at the object that went on to storage. */
  readonly check?: (object: KubeObject | undefined) => void;
  /** What a denial says. */
  readonly message?: string | RegExp;
}

export interface AdmissionFixture {
  /** Started, its informers synced. */
  readonly plugin: AdmissionPlugin;
  readonly cases: readonly AdmissionCase[];
  /** Counts what the plugin has written anywhere. */
  writes?(): number;
  /** Makes what the plugin asks fail from now on. Left out: it asks nobody. */
  readonly breakDown?: () => void;
  dispose?(): Promise<void>;
}

const someone: Identity = { name: 'alice', groups: ['system:authenticated'] };

/** A request as the server makes it: `admissionRequest('CREATE', pods, { metadata: { namespace: 'a', name: 'b' } })`. */
export function admissionRequest<T extends KubeObject>(
  operation: AdmissionRequest['operation'],
  resource: Resource<T>,
  object: T | undefined,
  more: Partial<AdmissionRequest> = {},
): AdmissionRequest {
  const { namespace = '', name = '' } = (object ?? more.old)?.metadata ?? {};
  return {
    operation,
    resource,
    subresource: '',
    namespace: resource.namespaced ? namespace : '',
    name,
    object,
    old: undefined,
    options: {},
    identity: someone,
    dryRun: false,
    warn: () => {},
    annotate: () => {},
    ...more,
  };
}

interface Answer {
  readonly verdict: Verdict;
  readonly object: KubeObject | undefined;
  readonly same: boolean;
}

/** What every admission plugin promises. */
export function admissionContract(name: string, open: () => Promise<AdmissionFixture> | AdmissionFixture): void {
  describe(`admission/v1 contract: ${name}`, () => {
    let fixture: AdmissionFixture;
    beforeEach(async () => {
      fixture = await open();
    });
    afterEach(() => fixture.dispose?.());

    /** One request through the plugin as through a chain of its own: matched, mutated, then validated. */
    const admit = async (asked: AdmissionRequest): Promise<Answer> => {
      const { plugin } = fixture;
      const frozen: AdmissionRequest = Object.freeze({
        ...asked,
        object: asked.object && deepFreeze(asked.object),
        old: asked.old && deepFreeze(asked.old),
        options: deepFreeze(asked.options),
        identity: deepFreeze(asked.identity),
      });
      if (!reaches(plugin.matches, frozen)) return { verdict: { allowed: true }, object: frozen.object, same: true };
      let { object } = frozen;
      if (object !== undefined && plugin.mutate !== undefined) {
        const answer = await plugin.mutate(frozen);
        if (isVerdict(answer)) return { verdict: answer, object, same: true };
        object = answer;
      }
      const verdict = (await plugin.validate?.({ ...frozen, object: object && deepFreeze(object) })) ?? { allowed: true };
      return { verdict, object, same: object === frozen.object };
    };
    const only = (outcome: AdmissionCase['outcome']) => fixture.cases.filter((each) => each.outcome === outcome);

    it('says which requests it is for, once and for all', () => {
      const { plugin } = fixture;
      expect(plugin.mutate ?? plugin.validate, 'it neither mutates nor validates').toBeDefined();
      expect(plugin.matches.length).toBeGreaterThan(0);
      for (const { resources, operations } of plugin.matches) {
        expect(resources.length * operations.length, 'a rule that matches nothing').toBeGreaterThan(0);
        for (const resource of resources) expect(resource).toMatch(/^(\*|[a-z0-9-]+(\.[a-z0-9.-]+)?(\/[a-z]+)?)$/);
        for (const operation of operations) expect(['CREATE', 'UPDATE', 'DELETE', 'CONNECT', '*']).toContain(operation);
      }
      expect(JSON.stringify(plugin.matches)).toBe(JSON.stringify(fixture.plugin.matches));
    });

    it('decides as it should', async () => {
      expect(
        fixture.cases.some(({ outcome }) => outcome !== 'ignored'),
        'the fixture has no case that matters',
      ).toBe(true);
      for (const { title, request, outcome, check, message } of fixture.cases) {
        const { verdict, object, same } = await admit(request);
        expect(verdict.allowed, `${title}: ${verdict.allowed ? '' : verdict.message}`).toBe(outcome !== 'denied');
        if (!verdict.allowed) {
          expect(verdict.message, title).toMatch(/\w/);
          if (message !== undefined) expect(verdict.message, title).toMatch(message);
        }
        if (outcome === 'ignored') expect(same, `${title}: it changed what is not its affair`).toBe(true);
        check?.(object);
      }
    });

    it('reaches every request of its cases that it is to decide', () => {
      for (const { title, request, outcome } of fixture.cases)
        if (outcome !== 'ignored') expect(reaches(fixture.plugin.matches, request), title).toBe(true);
    });

    it('leaves what it is given as it was', async () => {
      for (const { title, request } of fixture.cases) {
        const before = structuredClone({ object: request.object, old: request.old, options: request.options });
        await admit(request);
        expect({ object: request.object, old: request.old, options: request.options }, title).toEqual(before);
      }
    });

    it('changes an object once: asked again, it hands back the very same one', async (context) => {
      if (fixture.plugin.mutate === undefined) context.skip('it does not mutate');
      for (const { title, request } of [...only('allowed'), ...only('ignored')]) {
        const once = await admit(request);
        const { object } = once;
        if (object === undefined) continue;
        const twice = await admit({ ...request, object });
        expect(twice.object, title).toEqual(object);
        expect(twice.same, `${title}: a copy without a change costs every request behind it`).toBe(true);
      }
    });

    it('changes neither what the object is nor what the server keeps in it', async (context) => {
      if (fixture.plugin.mutate === undefined) context.skip('it does not mutate');
      for (const { title, request } of only('allowed')) {
        const { object } = await admit(request);
        if (object === undefined || request.object === undefined) continue;
        const kept = ({ apiVersion, kind, metadata }: KubeObject) => {
          const { name, generateName, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp, generation } = metadata ?? {};
          return {
            apiVersion,
            kind,
            name,
            generateName,
            namespace,
            uid,
            resourceVersion,
            creationTimestamp,
            deletionTimestamp,
            generation,
          };
        };
        expect(kept(object), title).toEqual(kept(request.object));
        expect(JSON.parse(JSON.stringify(object)), `${title}: not plain JSON`).toEqual(object);
      }
    });

    it('decides a dry run the same and writes nothing for it', async () => {
      const before = fixture.writes?.();
      for (const { title, request, outcome } of fixture.cases)
        expect((await admit({ ...request, dryRun: true })).verdict.allowed, title).toBe(outcome !== 'denied');
      expect(fixture.writes?.()).toBe(before);
    });

    it('decides the same when many ask at once', async () => {
      const order = Array.from({ length: fixture.cases.length * 10 }, (_, index) => (index * 7) % fixture.cases.length);
      await Promise.all(
        order.map(async (index) => {
          const each = fixture.cases[index];
          if (each !== undefined) expect((await admit(each.request)).verdict.allowed, each.title).toBe(each.outcome !== 'denied');
        }),
      );
    });

    it('admits nothing on the strength of an answer that it did not get', async (context) => {
      if (fixture.breakDown === undefined) context.skip('it asks nobody');
      fixture.breakDown?.();
      for (const { title, request } of only('denied')) {
        const admitted = await admit(request).then(
          ({ verdict }) => verdict.allowed,
          () => false,
        );
        expect(admitted, title).toBe(false);
      }
    });
  });
}

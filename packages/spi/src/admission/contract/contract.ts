import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { beforeEach, describe, expect, it } from 'vitest';
import { isAdmissionDecision, matchesRules, type AdmissionPlugin, type AdmissionRequest, type AdmissionDecision } from '../admission.ts';
import type { Identity } from '../../authn/authn.ts';

/** A request and its expected result. */
export interface AdmissionCase {
  readonly title: string;
  readonly request: AdmissionRequest;
  /** The expected decision. `ignored`: the request is outside the plugin's scope, so it is admitted unchanged. */
  readonly expected: 'allowed' | 'denied' | 'ignored';
  /** Checks the object after admission. */
  readonly check?: (object: KubeObject | undefined) => void;
  /** Expected message of a denial. */
  readonly message?: string | RegExp;
}

/** Access to the admission plugin under test, provided by the package of the plugin. */
export interface AdmissionFixture {
  /** The plugin under test, started, with synced informers. */
  readonly plugin: AdmissionPlugin;
  readonly cases: readonly AdmissionCase[];
  /** Returns the number of writes that the plugin has made so far, to any API. */
  writes?(): number;
  /** Makes every further call to the plugin's dependencies fail. Absent if the plugin has no dependencies. */
  readonly failDependencies?: () => void;
  dispose?(): Promise<void>;
}

const testUser: Identity = { name: 'alice', groups: ['system:authenticated'] };

/** Returns a request as the API server creates it: `admissionRequest('CREATE', pods, { metadata: { namespace: 'a', name: 'b' } })`. */
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
    identity: testUser,
    dryRun: false,
    warn: () => {},
    annotate: () => {},
    ...more,
  };
}

interface AdmissionOutcome {
  readonly decision: AdmissionDecision;
  readonly object: KubeObject | undefined;
  readonly same: boolean;
}

/** Declares the tests that every admission plugin must pass. */
export function admissionContract(name: string, open: () => Promise<AdmissionFixture> | AdmissionFixture): void {
  describe(`admission/v1 contract: ${name}`, () => {
    let fixture: AdmissionFixture;
    beforeEach(async () => {
      fixture = await open();
      return () => fixture.dispose?.();
    });

    /** Admits a request with a chain that has only this plugin: match, mutate, validate. */
    const admit = async (submitted: AdmissionRequest): Promise<AdmissionOutcome> => {
      const { plugin } = fixture;
      const frozen: AdmissionRequest = Object.freeze({
        ...submitted,
        object: submitted.object && deepFreeze(submitted.object),
        old: submitted.old && deepFreeze(submitted.old),
        options: deepFreeze(submitted.options),
        identity: deepFreeze(submitted.identity),
      });
      if (!matchesRules(plugin.matches, frozen)) return { decision: { allowed: true }, object: frozen.object, same: true };
      let { object } = frozen;
      if (object !== undefined && plugin.mutate !== undefined) {
        const result = await plugin.mutate(frozen);
        if (isAdmissionDecision(result)) return { decision: result, object, same: true };
        object = result;
      }
      const decision = (await plugin.validate?.({ ...frozen, object: object && deepFreeze(object) })) ?? { allowed: true };
      return { decision, object, same: object === frozen.object };
    };
    const casesWith = (outcome: AdmissionCase['expected']) => fixture.cases.filter((each) => each.expected === outcome);

    it('declares its rules, and they do not change', () => {
      const { plugin } = fixture;
      expect(plugin.mutate ?? plugin.validate, 'it neither mutates nor validates').toBeDefined();
      expect(plugin.matches.length).toBeGreaterThan(0);
      for (const { resources, operations } of plugin.matches) {
        expect(resources.length * operations.length, 'a rule that matches no request').toBeGreaterThan(0);
        for (const resource of resources) expect(resource).toMatch(/^(\*|[a-z0-9-]+(\.[a-z0-9.-]+)?(\/[a-z]+)?)$/);
        for (const operation of operations) expect(['CREATE', 'UPDATE', 'DELETE', 'CONNECT', '*']).toContain(operation);
      }
      expect(JSON.stringify(plugin.matches)).toBe(JSON.stringify(fixture.plugin.matches));
    });

    it('decides each case as expected', async () => {
      expect(
        fixture.cases.some(({ expected: outcome }) => outcome !== 'ignored'),
        'the fixture has no case that the plugin decides',
      ).toBe(true);
      for (const { title, request, expected: outcome, check, message } of fixture.cases) {
        const { decision, object, same } = await admit(request);
        expect(decision.allowed, `${title}: ${decision.allowed ? '' : decision.message}`).toBe(outcome !== 'denied');
        if (!decision.allowed) {
          expect(decision.message, title).toMatch(/\w/);
          if (message !== undefined) expect(decision.message, title).toMatch(message);
        }
        if (outcome === 'ignored') expect(same, `${title}: it changed an object outside its scope`).toBe(true);
        check?.(object);
      }
    });

    it('has rules that match every case it decides', () => {
      for (const { title, request, expected: outcome } of fixture.cases)
        if (outcome !== 'ignored') expect(matchesRules(fixture.plugin.matches, request), title).toBe(true);
    });

    it('does not modify the request', async () => {
      for (const { title, request } of fixture.cases) {
        const before = structuredClone({ object: request.object, old: request.old, options: request.options });
        await admit(request);
        expect({ object: request.object, old: request.old, options: request.options }, title).toEqual(before);
      }
    });

    it('is idempotent: a second pass returns the same object', async (context) => {
      if (fixture.plugin.mutate === undefined) context.skip('it does not mutate');
      for (const { title, request } of [...casesWith('allowed'), ...casesWith('ignored')]) {
        const once = await admit(request);
        const { object } = once;
        if (object === undefined) continue;
        const twice = await admit({ ...request, object });
        expect(twice.object, title).toEqual(object);
        expect(twice.same, `${title}: it returned an unchanged copy`).toBe(true);
      }
    });

    it('does not change the identity of the object or fields of the API server', async (context) => {
      if (fixture.plugin.mutate === undefined) context.skip('it does not mutate');
      for (const { title, request } of casesWith('allowed')) {
        const { object } = await admit(request);
        if (object === undefined || request.object === undefined) continue;
        const identityOf = ({ apiVersion, kind, metadata }: KubeObject) => {
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
        expect(identityOf(object), title).toEqual(identityOf(request.object));
        expect(JSON.parse(JSON.stringify(object)), `${title}: not plain JSON`).toEqual(object);
      }
    });

    it('decides a dry run like a real request and writes nothing', async () => {
      const before = fixture.writes?.();
      for (const { title, request, expected: outcome } of fixture.cases)
        expect((await admit({ ...request, dryRun: true })).decision.allowed, title).toBe(outcome !== 'denied');
      expect(fixture.writes?.()).toBe(before);
    });

    it('decides concurrent requests like single ones', async () => {
      const { length } = fixture.cases;
      const step = length % 7 === 0 ? 1 : 7; // visits all cases
      const order = Array.from({ length: length * 10 }, (_, index) => (index * step) % length);
      await Promise.all(
        order.map(async (index) => {
          const each = fixture.cases[index];
          if (each !== undefined) expect((await admit(each.request)).decision.allowed, each.title).toBe(each.expected !== 'denied');
        }),
      );
    });

    it('does not admit a denied request when its dependencies fail', async (context) => {
      if (fixture.failDependencies === undefined) context.skip('it has no dependencies');
      fixture.failDependencies?.();
      for (const { title, request } of casesWith('denied')) {
        const admitted = await admit(request).then(
          ({ decision }) => decision.allowed,
          () => false,
        );
        expect(admitted, title).toBe(false);
      }
    });
  });
}
